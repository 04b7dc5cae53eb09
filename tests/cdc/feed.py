"""What every test of a real change feed needs: a database, a broker, Debezium between
them, and a model run until."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.servers.broker import Broker
from tests.servers.connect import Connect
from tests.servers.jars import fetch_server
from tests.servers.process import JAVA_FLAGS
from tests.spark.project import Project, Row

ARRIVES_WITHIN_S = 120
JSON = "org.apache.kafka.connect.json.JsonConverter"

Database = TypeVar("Database")


@dataclass
class Feed(Generic[Database]):
    """A database whose changes arrive in the broker's topics, `<name>.…`, as long as
    `connect` runs."""

    name: str
    database: Database
    broker: Broker
    connect: Connect


@contextmanager
def feeding(
    name: str,
    database: Database,
    broker: Broker,
    directory: Path,
    plugin: str,
    connector: Mapping[str, str],
) -> Iterator[Feed[Database]]:
    """A feed that does not run yet. `plugin` is a server of `SERVERS`, `connector` what
    its connector is told."""
    settings = {
        "name": name,
        "topic.prefix": name,
        "skipped.operations": "none",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        **connector,
    }
    connect = Connect(
        directory / "connect",
        broker.servers,
        fetch_server(plugin),
        settings,
        memory="512m",
        flags=JAVA_FLAGS[:2],
        key_converter=JSON,
        key_converter_schemas_enable="false",
        value_converter=JSON,
        topic_creation_enable="true",
    )
    try:
        yield Feed(name, database, broker, connect)
    finally:
        connect.stop()


def wait_for(
    feed: Feed[Database], topic: str, text: str, within_s: float = ARRIVES_WITHIN_S
) -> list[dict[str, Any]]:
    """The events up to the first with this text in its value, in a topic that has one
    partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": feed.broker.servers,
            "group.id": "wait",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    deadline, events = time.monotonic() + within_s, list[dict[str, Any]]()
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(1_000, timeout=1):
                value = message.value()
                if message.error() is not None or value is None:
                    continue
                events.append(json.loads(value))
                if text.encode() in value:
                    return events
    finally:
        consumer.close()
    said = [
        line
        for line in feed.connect.output.read_text(errors="replace").splitlines()
        if " ERROR " in line
    ]
    raise AssertionError(f"{text} is not in {topic} after {within_s} s; {said[-3:]}")


def wait_for_changes(
    feed: Feed[Database], topic: str, insert: Callable[[int], None]
) -> None:
    """Return when the connector has read all rows that were there, and follows the log:
    a row that is inserted then arrives as a change. `insert` makes one with a number of
    its own."""
    deadline = time.monotonic() + 5 * ARRIVES_WITHIN_S
    for number in count(1_000):
        insert(number)
        try:
            wait_for(feed, topic, '"op":"c"', 5)
            return
        except AssertionError:  # a snapshot has read it, or will
            assert time.monotonic() < deadline, "the connector does not follow the log"


def run_until(
    project: Project, model: str, arrived: Callable[[list[Row]], bool]
) -> list[Row]:
    """Run the model, as a scheduler would, until its table has what is waited for."""
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while True:
        project.run(model).check()
        rows = project.rows_without_spark(model) if project.has(model) else []
        if arrived(rows):
            return rows
        assert time.monotonic() < deadline, (
            f"it has not arrived in {ARRIVES_WITHIN_S} s"
        )
        time.sleep(1)
