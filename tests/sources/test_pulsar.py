"""Pulsar: partitions that are added, runners that are killed, and what a broker has
deleted before it was read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pulsar
import pytest

from tests.servers.process import running
from tests.servers.pulsar import PulsarServer
from tests.sources.runs import check_kills, check_samples, numbers
from tests.spark.project import Project


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarServer]:
    with running(PulsarServer(tmp_path_factory.mktemp("pulsar"))) as server:
        yield server


class Topic:
    """A topic with partitions, and what was sent to it."""

    def __init__(self, server: PulsarServer, partitions: int) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.path = f"persistent/public/default/{self.name}"
        self.server = server
        self.sent: list[int] = []
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(server.url, logger=logger)
        server.ask(f"{self.path}/partitions", partitions, "PUT")

    def send(self, count: int) -> None:
        """So many messages more, with the next numbers, some of them in one batch."""
        producer = self.client.create_producer(
            self.name,
            batching_enabled=True,
            batching_max_publish_delay_ms=5,
            block_if_queue_full=True,
        )
        first = len(self.sent)
        for number in range(first, first + count):
            value = json.dumps({"id": number}).encode()
            producer.send_async(
                value,
                lambda *_: None,
                partition_key=f"k{number % 17}",
                properties={"h": "x"},
            )
        producer.flush()
        producer.close()
        self.sent += range(first, first + count)

    def subscriptions(self) -> dict[str, int]:
        """The backlog of each subscription, over all partitions."""
        found = self.server.ask(f"{self.path}/partitioned-stats")["subscriptions"]
        return {name: each["msgBacklog"] for name, each in found.items()}


@pytest.fixture
def topic(project: Project, server: PulsarServer) -> Iterator[Topic]:
    """A topic of three partitions, and a model that takes all of it."""
    topic = Topic(server, 3)
    project.connections["bus"] = {"type": "pulsar", "url": server.url}
    project.stream("s", {"id": "int"}, connection="bus", topic=topic.name)
    project.model("m", "SELECT id, _record.partition AS part FROM {s}", mode="append")
    yield topic
    topic.client.close()


def test_each_message_is_there_once_and_partitions_are_added(
    project: Project, topic: Topic
) -> None:
    topic.send(500)
    project.run().check()
    assert numbers(project) == topic.sent
    assert project.run_without_java() != [], "nothing new is seen without Java"
    topic.send(100)
    topic.server.ask(f"{topic.path}/partitions", 5, "POST")
    topic.send(300)
    project.run().check()
    assert numbers(project) == topic.sent
    assert {row["part"] for row in project.rows("m", "id")} > {0, 1, 2}
    project.run().check()
    assert numbers(project) == topic.sent
    held = topic.subscriptions()
    project.rebuild("m").check()
    assert numbers(project) == [
        *range(len(topic.sent) - len(numbers(project)), len(topic.sent))
    ], "what is there"
    assert topic.subscriptions() == held, "a rebuild holds nothing, and lets nothing go"
    topic.send(10)
    project.run().check()
    assert numbers(project)[-10:] == topic.sent[-10:]


def test_a_runner_that_is_killed_and_a_lost_checkpoint(
    project: Project, topic: Topic
) -> None:
    check_kills(project, topic)


def test_limits_cut_within_batches_of_the_producer(
    project: Project, topic: Topic
) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic=topic.name, max_per_batch=31
    )
    topic.send(200)
    project.run().check()
    assert numbers(project) == topic.sent
    assert len(project.snapshot_ids("m")) >= 6


def test_what_was_not_read_is_held_and_what_was_read_is_let_go(
    project: Project, topic: Topic
) -> None:
    for _ in range(4):
        topic.send(60)
    project.run().check()
    assert list(topic.subscriptions().values()) == [3], (
        "the last entry of each partition"
    )
    (name,) = topic.subscriptions()
    for partition in range(3):
        topic.server.ask(
            f"{topic.path}-partition-{partition}/subscription/{name}/skip_all",
            method="POST",
        )
        topic.server.ask(f"{topic.path}-partition-{partition}/unload", method="PUT")
    topic.send(300)
    for partition in range(3):  # what nobody holds is deleted as the ledger ends
        topic.server.ask(
            f"{topic.path}-partition-{partition}/subscription/{name}/skip_all",
            method="POST",
        )
        topic.server.ask(f"{topic.path}-partition-{partition}/unload", method="PUT")
    topic.send(30)
    assert project.run().conditions("m") == ["data-lost"]
    assert numbers(project) == topic.sent[:240]
    project.run(accept_data_loss=True).check()
    assert numbers(project) == [*topic.sent[:240], *topic.sent[-30:]]


def test_start_at_the_end(project: Project, topic: Topic) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic=topic.name, start="latest"
    )
    topic.send(30)
    project.run().check()
    topic.send(30)
    project.run().check()
    assert numbers(project) == topic.sent[30:]


def test_a_broker_that_is_not_there(project: Project, topic: Topic) -> None:
    project.connections["bus"] = {"type": "pulsar", "url": "pulsar://127.0.0.1:1"}
    project._target["retries"] = {"attempts": 0}
    assert project.run().conditions("m") == ["connection-unreachable"]


def test_a_sample_is_recorded_and_holds_nothing(
    project: Project, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(50)
    project.run().check()
    held = topic.subscriptions()
    topic.send(30)
    check_samples(project, topic.name, topic.sent, monkeypatch)
    assert topic.subscriptions().keys() == held.keys()
