"""Kinesis: shards that split and merge, runners that are killed, records that the
producer library has packed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.servers.kinesis import KinesisServer
from tests.servers.process import running
from tests.sources.runs import (
    STARTS_A_PROCESS,
    check_kills,
    check_samples,
    numbers,
    run_alone,
    run_two,
)
from tests.spark.project import Project

STREAM = "orders"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    with running(KinesisServer(tmp_path_factory.mktemp("kinesis"))) as server:
        yield server


class Stream:
    """One stream, and what was sent to it."""

    def __init__(self, client: Any, name: str, shards: int) -> None:
        self.client, self.name = client, name
        self.sent: list[int] = []
        client.create_stream(StreamName=name, ShardCount=shards)
        self.wait()

    def wait(self) -> None:
        for _ in range(200):
            found = self.client.describe_stream_summary(StreamName=self.name)[
                "StreamDescriptionSummary"
            ]
            if found["StreamStatus"] == "ACTIVE":
                return
            time.sleep(0.1)
        raise AssertionError("the stream did not become active")

    def send(self, count: int) -> None:
        """So many records more, with the next numbers; those of a key are of one shard
        at any time."""
        first = len(self.sent)
        entries = [
            {
                "Data": json.dumps({"id": number}).encode(),
                "PartitionKey": f"k{number % 17}",
            }
            for number in range(first, first + count)
        ]
        for at in range(0, count, 200):
            left = entries[at : at + 200]
            while left:
                answer = self.client.put_records(StreamName=self.name, Records=left)
                left = [
                    one
                    for one, said in zip(left, answer["Records"], strict=True)
                    if said.get("ErrorCode")
                ]
        self.sent += range(first, first + count)

    def open_shards(self) -> list[dict[str, Any]]:
        found = self.client.list_shards(StreamName=self.name)["Shards"]
        return [
            each
            for each in found
            if "EndingSequenceNumber" not in each["SequenceNumberRange"]
        ]

    def split(self) -> None:
        shard = self.open_shards()[0]
        keys = shard["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        self.client.split_shard(
            StreamName=self.name,
            ShardToSplit=shard["ShardId"],
            NewStartingHashKey=str(middle),
        )
        self.wait()

    def merge(self) -> None:
        shards = sorted(
            self.open_shards(),
            key=lambda each: int(each["HashKeyRange"]["StartingHashKey"]),
        )
        names = {
            "ShardToMerge": shards[0]["ShardId"],
            "AdjacentShardToMerge": shards[1]["ShardId"],
        }
        self.client.merge_shards(StreamName=self.name, **names)
        self.wait()


@pytest.fixture
def stream(
    project: Project, server: KinesisServer, request: pytest.FixtureRequest
) -> Iterator[Stream]:
    """A stream of two shards, and a model that takes all of it."""
    name = f"s{abs(hash(request.node.name)) % 10**8}"
    project.connections["bus"] = server.connection
    project.stream("s", {"id": "int"}, connection="bus", topic=name)
    project.model(
        "m",
        "SELECT id, _record.partition AS shard, _record.topic AS topic FROM {s}",
        mode="append",
    )
    client = server.client()
    yield Stream(client, name, 2)
    client.delete_stream(StreamName=name)
    client.close()


def test_shards_split_and_merge_and_each_record_is_there_once(
    project: Project, stream: Stream
) -> None:
    stream.send(300)
    project.run().check()
    assert numbers(project) == stream.sent
    project.run().check()
    assert numbers(project) == stream.sent

    stream.send(50)
    stream.split()
    stream.send(100)
    project.run().check()
    assert numbers(project) == stream.sent
    stream.send(50)
    stream.merge()
    stream.send(100)
    stream.split()
    stream.send(100)
    project.run().check()
    assert numbers(project) == stream.sent
    assert len({row["shard"] for row in project.rows("m", "id")}) > 3, (
        "shards have come and gone"
    )
    project.rebuild("m").check()
    assert numbers(project) == stream.sent


def test_a_runner_that_is_killed_and_a_lost_checkpoint(
    project: Project, stream: Stream
) -> None:
    check_kills(
        project, stream, lambda step: stream.split() if step == "stage" else None
    )


def test_two_runners_at_once(project: Project, stream: Stream) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic=stream.name, max_per_batch=50
    )
    stream.send(200)
    run_two(project)
    stream.send(50)
    project.run().check()
    assert numbers(project) == stream.sent


def test_newest_rows_of_keys_are_kept_over_a_split(
    project: Project, stream: Stream
) -> None:
    """A parent is read to its end before its children, so the last value of a key is
    the last that was sent."""
    project.stream(
        "s", {"id": "int"}, connection="bus", topic=stream.name, max_per_batch=40
    )
    project.model(
        "m", "SELECT id % 17 AS key, id FROM {s}", mode="upsert", keys=["key"]
    )
    stream.send(120)
    stream.split()
    stream.send(120)
    stream.split()
    stream.send(120)
    project.run().check()
    expected = {number % 17: number for number in stream.sent}
    assert {row["key"]: row["id"] for row in project.rows("m", "key")} == expected
    assert len(project.snapshot_ids("m")) > 5, "in many batches"


def test_start_at_a_time_and_at_the_end(project: Project, stream: Stream) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic=stream.name, start="latest"
    )
    stream.send(10)
    project.run().check()
    stream.send(10)
    project.run().check()
    assert numbers(project) == stream.sent[10:]


def test_packed_records_are_taken_apart(project: Project, stream: Stream) -> None:
    from aws_kinesis_agg.aggregator import RecordAggregator

    packer = RecordAggregator()
    for number in range(5):
        packer.add_user_record(f"k{number}", json.dumps({"id": number}).encode())
    key, _, data = packer.clear_and_get().get_contents()
    stream.client.put_record(StreamName=stream.name, Data=data, PartitionKey=key)
    project.model(
        "m",
        "SELECT id, CAST(_record.key AS string) AS key, _record.headers AS headers FROM {s}",
        mode="append",
    )
    project.run().check()
    rows = project.rows("m", "id")
    assert [(row["id"], row["key"]) for row in rows] == [
        (number, f"k{number}") for number in range(5)
    ]


def test_a_stream_that_is_not_there_and_one_that_was_made_again(
    project: Project, stream: Stream
) -> None:
    stream.send(5)
    project.run().check()
    stream.client.delete_stream(StreamName=stream.name)
    time.sleep(1.5)
    assert project.run().conditions("m") == ["unknown-topic"]
    again = Stream(stream.client, stream.name, 2)
    again.send(5)
    assert project.run().conditions("m") == ["topic-recreated"]


def test_a_folder_of_its_recording_stands_for_it(
    project: Project, stream: Stream, tmp_path: Path
) -> None:
    project.connections["bus"] = {"type": "recorded", "path": "recorded"}
    project.record(stream.name, [{"id": 1}])
    project.run().check()
    assert numbers(project) == [1]


def test_a_sample_is_recorded(
    project: Project, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send(60)
    stream.split()
    stream.send(30)
    check_samples(project, stream.name, stream.sent, monkeypatch)


def test_a_run_with_nothing_new_starts_no_java(
    project: Project, stream: Stream
) -> None:
    stream.send(20)
    project.run().check()
    assert run_alone(project) == 0
    stream.send(1)
    assert run_alone(project) == STARTS_A_PROCESS, "there is something to read"
    project.run().check()
    assert numbers(project) == stream.sent


def test_rows_are_ordered_by_the_place_of_a_record_in_its_shard(
    project: Project, stream: Stream
) -> None:
    place = "CAST(element_at(filter(_record.headers, h -> h.key = 'sequence_number'), 1).value AS string)"
    project.model(
        "u",
        f"SELECT id % 3 AS k, id, {place} AS at FROM {{s}}",
        mode="upsert",
        keys="k",
        sequence_by="at",
    )
    for entry in range(9):
        stream.client.put_record(
            StreamName=stream.name,
            Data=json.dumps({"id": entry}).encode(),
            PartitionKey="k",
        )
    project.run("u").check()
    assert [row["id"] for row in project.rows("u", "k")] == [6, 7, 8]
    project.model("w", "SELECT id FROM {s} WHERE _record.offset > 0", mode="append")
    with pytest.raises(ProjectError) as raised:
        project.run("w")
    assert [problem.condition for problem in raised.value.problems] == ["no-offset"]
