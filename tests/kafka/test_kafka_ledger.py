"""The ledger over real topics: lost checkpoints, topics created again, records that
retention has taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesql.events import BatchCommitted, ModelFinished, Noted
from tests.servers.broker import Broker, Message
from tests.spark.project import Project
from tests.spark.test_ledger import commands, refuse, rewind
from tests.spark.test_nothing_new import timeless

MODELS = ("a", "u")


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return str(request.node.name).replace("[", "-").replace("]", "")


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    """An empty project whose connection is the broker."""
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


@pytest.fixture
def begun(project: Project, broker: Broker, topic: str) -> Project:
    """An append and an upsert over a topic of two partitions, which have read its first
    twenty records."""
    project.stream(
        "s", {"id": "bigint"}, connection="broker", topic=topic, max_per_batch=10
    )
    project.model("a", "SELECT id FROM {s}", mode="append")
    project.model("u", "SELECT id FROM {s}", mode="upsert", keys="id")
    broker.create_topic(topic, 2)
    produce(broker, topic, range(20))
    project.run().check()
    return project


def produce(broker: Broker, topic: str, numbers: range, partitions: int = 2) -> None:
    broker.produce(
        topic,
        [
            Message(
                json.dumps({"id": n}).encode(),
                None,
                (),
                n % partitions,
                1_772_400_000_000 + n,
            )
            for n in numbers
        ],
    )


def ids(project: Project, model: str) -> list[int]:
    return [row["id"] for row in project.rows(model, "id")]


def checkpoint(project: Project, model: str) -> Path:
    return project.directory / "checkpoints" / model


def test_a_lost_checkpoint_is_rebuilt_from_the_ledger_and_new_partitions_are_read(
    begun: Project, broker: Broker, topic: str
) -> None:
    """Partitions that were added meanwhile are read from their start."""
    for model in MODELS:
        shutil.rmtree(checkpoint(begun, model))
    broker.add_partitions(topic, 3)
    produce(broker, topic, range(20, 50), partitions=3)
    ran = begun.run().check()
    assert {event.model for event in ran.of(Noted)} == set(MODELS)
    for model in MODELS:
        assert ids(begun, model) == list(range(50))
        entry = begun.summaries(model)[-1]
        assert sorted(json.loads(entry["lakesql.offsets"])["s"][topic]) == [
            "0",
            "1",
            "2",
        ]
        assert list(json.loads(entry["lakesql.topics"])) == [topic]
    assert begun.run().check().of(BatchCommitted) == []


def test_a_recreated_topic_is_refused_until_a_rewind(
    begun: Project, broker: Broker, topic: str
) -> None:
    """Longer than before: the old offsets are offsets of the new one too, and Spark
    would skip its first records."""
    broker.delete_topic(topic)
    broker.create_topic(topic, 2)
    produce(broker, topic, range(100, 150))
    ran = refuse(begun, "topic-recreated")
    for model in MODELS:
        rewind(begun, commands(ran, model)[0])
    begun.run().check()
    for model in MODELS:
        assert ids(begun, model) == [*range(20), *range(100, 150)]


def test_a_recreated_topic_is_read_from_its_beginning_after_a_rewind_to_the_checkpoint(
    begun: Project, broker: Broker, topic: str
) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic, 2)
    produce(broker, topic, range(100, 150))
    begun.sql(f"DROP TABLE {begun.table('a')}")
    ran = refuse(begun, "table-recreated", ("a",))
    rewind(
        begun,
        next(command for command in commands(ran, "a") if "checkpoint" in command),
    )
    begun.run("a").check()
    assert ids(begun, "a") == list(range(100, 150))


def test_a_renamed_stream_continues_where_its_topic_stands(
    begun: Project, broker: Broker, topic: str
) -> None:
    begun.stream("other", {"id": "bigint"}, connection="broker", topic=topic)
    begun.model("a", "SELECT id FROM {other}", mode="append")
    ran = refuse(begun, "streams-changed", ("a",))
    rewind(begun, commands(ran, "a")[0])
    produce(broker, topic, range(20, 30))
    begun.run("a").check()
    assert ids(begun, "a") == list(range(30))


def test_a_topic_read_in_a_batch_without_rows_is_known_by_its_id(
    project: Project, broker: Broker, topic: str
) -> None:
    first, second = f"{topic}.1", f"{topic}.2"
    project.stream("s", {"id": "bigint"}, connection="broker", pattern=rf"{topic}\.\d")
    project.model("a", "SELECT id FROM {s} WHERE id < 1000", mode="append")
    for name, numbers in ((first, range(5)), (second, range(2000, 2005))):
        broker.create_topic(name, 1)
        produce(broker, name, numbers, 1)
        project.run().check()
    broker.delete_topic(second)
    broker.create_topic(second, 1)
    produce(broker, second, range(20, 30), 1)
    refuse(project, "topic-recreated", ("a",))


@pytest.mark.parametrize(
    "is_lost", [False, True], ids=["checkpoint-there", "checkpoint-lost"]
)
def test_records_removed_by_retention_are_refused_until_the_loss_is_accepted(
    begun: Project, broker: Broker, topic: str, is_lost: bool
) -> None:
    produce(broker, topic, range(20, 40))
    broker.delete_records(topic, 0, 15)  # ten were read of each partition
    if is_lost:
        for model in MODELS:
            shutil.rmtree(checkpoint(begun, model))
    ran = refuse(begun, "data-lost")
    (problem,) = ran.finished("a").problems
    assert f"{topic}-0: 10 to 14" in problem.what and f"{topic}-1" not in problem.what
    assert "lakesql run --select a --accept-data-loss" in problem.fix
    begun.run(accept_data_loss=True).check()
    for model in MODELS:
        assert ids(begun, model) == [
            *range(20),
            *(n for n in range(20, 40) if n % 2 or n >= 30),
        ]
        assert (
            f"{topic}-0: 10 to 14"
            in begun.summaries(model)[-1]["lakesql.accepted-loss"]
        )
    produce(broker, topic, range(40, 44))
    again = begun.run(accept_data_loss=True)
    assert [again.conditions(model) for model in MODELS] == [["nothing-lost"]] * 2
    begun.run().check()
    for model in MODELS:
        assert ids(begun, model)[-4:] == [40, 41, 42, 43]
        assert (
            f"{topic}-0: 10 to 14"
            in begun.summaries(model)[-1]["lakesql.accepted-loss"]
        )


@pytest.fixture
def stuck(project: Project, broker: Broker, topic: str) -> Project:
    """A model whose first batch is planned and has failed; it would go through now."""
    project.stream("s", {"id": "bigint"}, connection="broker", topic=topic)
    project.model("a", "SELECT CAST('x' || id AS int) AS id FROM {s}", mode="append")
    broker.create_topic(topic, 2)
    produce(broker, topic, range(20))
    assert project.run().conditions("a") == ["expression-failed"]
    project.model("a", "SELECT id FROM {s}", mode="append")
    return project


def test_records_removed_before_the_first_commit_are_refused_as_lost(
    stuck: Project, broker: Broker, topic: str
) -> None:
    broker.delete_records(topic, 0, 4)
    ran = refuse(stuck, "data-lost", ("a",))
    assert f"{topic}-0: 0 to 3" in ran.finished("a").problems[0].what
    stuck.run(accept_data_loss=True).check()
    assert ids(stuck, "a") == [n for n in range(20) if n % 2 or n >= 8]


def test_a_topic_recreated_before_the_first_commit_is_refused(
    stuck: Project, broker: Broker, topic: str
) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic, 2)
    produce(broker, topic, range(100, 150))
    ran = refuse(stuck, "topic-recreated", ("a",))
    rewind(stuck, commands(ran, "a")[0])
    stuck.run().check()
    assert ids(stuck, "a") == list(range(100, 150))


@pytest.mark.parametrize("count", [20, 2], ids=["longer", "shorter"])
def test_a_topic_recreated_during_a_run_is_refused_and_nothing_of_it_is_written(
    project: Project, broker: Broker, topic: str, count: int
) -> None:
    """Spark alone reads on at the old offset; where the new topic is shorter, it only
    says that an offset changed."""
    project.connections["broker"]["options"] = {"metadata.max.age.ms": "1000"}
    project.stream("s", {"id": "bigint"}, connection="broker", topic=topic)
    project.model("a", "SELECT id FROM {s}", mode="append", trigger="8 seconds")
    broker.create_topic(topic, 1)
    produce(broker, topic, range(5), 1)

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted):
            broker.delete_topic(topic)
            broker.create_topic(topic, 1)
            produce(broker, topic, range(100, 100 + count), 1)

    ran = project.run(continuous=True, meet=meet)
    assert ran.conditions("a") == ["topic-recreated"], ran.finished("a").problems
    assert ids(project, "a") == list(range(5))
    rewind(project, commands(ran, "a")[0])
    project.run().check()
    assert ids(project, "a") == [*range(5), *range(100, 100 + count)]


def test_a_topic_of_a_pattern_deleted_during_a_run_is_reported_as_lost(
    project: Project, broker: Broker, topic: str
) -> None:
    first, second = f"{topic}.1", f"{topic}.2"
    project.connections["broker"]["options"] = {"metadata.max.age.ms": "1000"}
    project.stream("s", {"id": "bigint"}, connection="broker", pattern=rf"{topic}\.\d")
    project.model("a", "SELECT id FROM {s}", mode="append", trigger="2 seconds")
    for number, name in enumerate((first, second)):
        broker.create_topic(name, 1)
        produce(broker, name, range(5 * number, 5 * number + 5), 1)

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted):
            broker.delete_topic(second)

    ran = project.run(continuous=True, meet=meet)
    assert ran.conditions("a") == ["data-lost"], ran.finished("a").problems
    (problem,) = ran.finished("a").problems
    assert (
        f": {second}-0: 5 on." in problem.what and "--accept-data-loss" in problem.fix
    )
    produce(broker, first, range(10, 15), 1)
    project.run(accept_data_loss=True).check()
    assert ids(project, "a") == list(range(15))
    assert project.summaries("a")[-1]["lakesql.accepted-loss"] == f"{second}-0: 5 on"


def test_a_rewind_to_a_time_reads_the_records_since_then(
    begun: Project, broker: Broker, topic: str
) -> None:
    from lakesql.compile.build_select import build_selects
    from lakesql.run.state.rewind import rewind_model
    from lakesql.run.streams.bind import bind_selects

    manifest = begun.manifest()
    (bound,) = bind_selects(manifest, build_selects(manifest, ["u"])).values()
    begun.sql(f"DELETE FROM {begun.table('u')}")
    rewind_model(manifest, begun.lake.session, bound, 1_772_400_000_000 + 14)
    begun.run("u").check()
    assert ids(begun, "u") == list(range(14, 20))


def test_a_topic_that_was_made_again_is_read_from_its_beginning_whatever_the_start(
    project: Project, broker: Broker, topic: str
) -> None:
    """Also where the first run after the rewind finds no record in it yet."""
    broker.create_topic(topic, 2)
    project.stream("s", {"id": "int"}, connection="broker", topic=topic, start="latest")
    project.model("a", "SELECT id FROM {s}", mode="append")
    project.run().check()
    produce(broker, topic, range(20))
    project.run().check()
    broker.delete_topic(topic)
    broker.create_topic(topic, 2)
    ran = project.run()
    assert ran.conditions("a") == ["topic-recreated"]

    rewind(project, commands(ran, "a")[0])
    project.run().check()
    produce(broker, topic, range(100, 150))
    project.run().check()

    assert ids(project, "a") == [*range(20), *range(100, 150)]


def test_a_topic_that_appears_in_mid_run_is_known_by_its_id(
    project: Project, broker: Broker, topic: str
) -> None:
    first, second = f"{topic}.1", f"{topic}.2"
    project.connections["broker"]["options"] = {"metadata.max.age.ms": "1000"}
    project.stream("s", {"id": "bigint"}, connection="broker", pattern=rf"{topic}\.\d")
    project.model("a", "SELECT id FROM {s}", mode="append", trigger="1 second")
    broker.create_topic(first, 1)
    produce(broker, first, range(5), 1)
    seen: list[int] = []

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted):
            seen.append(event.records)
            if len(seen) == 1:
                broker.create_topic(second, 1)
                produce(broker, second, range(5, 8), 1)

    project.run(continuous=True, meet=meet, until=lambda: sum(seen) >= 8).check()
    assert ids(project, "a") == list(range(8))
    broker.delete_topic(second)
    broker.create_topic(second, 1)
    produce(broker, second, range(5, 9), 1)

    refuse(project, "topic-recreated", ("a",))


def test_a_rewind_after_data_loss_covers_both_queries_of_a_stateful_model(
    project: Project, broker: Broker, topic: str
) -> None:
    """What its second query has not read is gone too, and that one cannot be asked for
    a loss by itself."""
    broker.create_topic(topic, 1)
    project.stream("s", {"id": "int"}, connection="broker", topic=topic)
    project.model(
        "u", "SELECT id, count(*) AS n FROM {s} GROUP BY id", mode="upsert", keys="id"
    )
    broker.produce(topic, [Message(b"broken")])
    produce(broker, topic, range(10), partitions=1)
    project.run().check()
    produce(broker, topic, range(10, 30), partitions=1)
    broker.delete_records(topic, 0, 20)
    ran = project.run()
    assert ran.conditions("u") == ["data-lost"]
    assert "u__dead_letter" not in str(
        [problem.fix for problem in ran.finished("u").problems]
    )

    (command,) = [command for command in commands(ran, "u") if "rewind" in command]
    rewind(project, command)
    project.run().check()

    assert ids(project, "u") == [*range(10), *range(19, 30)]
    assert project.reasons("u") == {"unparsable": 1}


def test_topics_that_were_read_to_their_ends_start_no_java(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    broker.produce(
        topic, [Message(b'{"id": 1}', partition=0), Message(b"{", partition=1)]
    )
    project.stream("s", {"id": "int"}, connection="broker", topic=topic)
    project.model("m", "SELECT id FROM {s}", mode="upsert", keys="id")
    project.run().check()

    found = project.run_without_java()
    assert found and timeless(found) == timeless(
        project.run().check().of(ModelFinished)
    )

    broker.produce(topic, [Message(b'{"id": 2}', partition=1)])
    assert project.run_without_java() == []
    project.run().check()
    assert project.run_without_java()

    for partition, end in enumerate((1, 2)):
        broker.delete_records(topic, partition, end)
    found = project.run_without_java()
    assert found[0].warnings and timeless(found) == timeless(
        project.run().check().of(ModelFinished)
    )

    broker.add_partitions(topic, 3)
    assert project.run_without_java() == [], (
        "a partition that was not read yet, though it has no record"
    )

    broker.delete_topic(topic)
    assert project.run_without_java() == [], "it is the run that says what is missing"
    broker.create_topic(topic, 2)
    broker.produce(
        topic,
        [Message(b'{"id": 3}', partition=0), *[Message(b'{"id": 4}', partition=1)] * 2],
    )
    assert project.run_without_java() == [], "the same offsets of another topic"
