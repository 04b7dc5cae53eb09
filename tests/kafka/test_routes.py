"""A group by a column over a real broker: values that come while it runs, and before
what is looked at first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lakesql.events import BatchCommitted, Event, Noted
from tests.kafka.test_groups import has, prefix_of, run_through
from tests.servers.broker import Broker, Message
from tests.spark.project import Project, Row

COLUMNS = {"id": "bigint", "kind": "string"}


@pytest.fixture
def project(
    new_project: Callable[[], Project], broker: Broker, request: pytest.FixtureRequest
) -> Project:
    project = new_project()
    topic = prefix_of(request)
    broker.create_topic(topic, 1)
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    project.stream("events", COLUMNS, connection="broker", topic=topic)
    group(project)
    return project


def group(project: Project, **tables: Any) -> None:
    options = {"route": "kind", "exclude": ["no"], **tables}
    project.model(
        "ev",
        "SELECT * FROM {events}",
        mode="append",
        trigger="1 second",
        tables=options,
    )


@pytest.fixture
def send(
    broker: Broker, request: pytest.FixtureRequest
) -> Callable[[str, Iterable[int]], None]:
    topic = prefix_of(request)

    def send(kind: str, numbers: Iterable[int]) -> None:
        broker.produce(
            topic, [Message(json.dumps(row).encode()) for row in rows(kind, numbers)]
        )

    return send


Send = Callable[[str, Iterable[int]], None]


def rows(kind: str, numbers: Iterable[int]) -> list[Row]:
    return [{"id": number, "kind": kind} for number in numbers]


def test_a_value_that_comes_gets_its_table_in_the_same_run(
    project: Project, send: Send
) -> None:
    send("a", [1])
    send("no", [1])
    events: list[Event] = []
    steps = [
        (has(project, "a", rows("a", [1])), lambda: send("b", [2, 3])),
        (has(project, "b", rows("b", [2, 3])), lambda: send("a", [4])),
        (has(project, "a", rows("a", [1, 4])), lambda: send("b", [5])),
        (has(project, "b", rows("b", [2, 3, 5])), lambda: None),
    ]
    run_through(project, steps, events)
    assert not project.has("no")
    assert {event.model for event in events if isinstance(event, BatchCommitted)} == {
        "ev.a",
        "ev.b",
    }


def test_a_value_before_the_newest_records_gets_its_table_and_goes_on(
    project: Project, send: Send
) -> None:
    send("rare", [1])
    send("a", range(2, 3_002))
    assert [warning.condition for warning in project.manifest().warnings] == [
        "group-empty"
    ]
    project.run(asks=True).check()
    assert project.rows("rare") == rows("rare", [1])
    assert project.rows("a", "id") == rows("a", range(2, 3_002))
    send("rare", [9])
    project.run(asks=True).check()
    assert project.rows("rare", "id") == rows("rare", [1, 9])


def test_a_value_that_is_refused_fails_each_run_until_it_is_declared(
    project: Project, send: Send
) -> None:
    group(project, new_tables="refuse")
    project.write("streams/more.yml", "source_tables: [{stream: events, name: a}]")
    send("rare", [1])
    send("a", range(2, 3_002))
    ran = project.run(asks=True)
    assert not ran.succeeded and any("'rare'" in event.text for event in ran.of(Noted))
    assert project.rows("a", "id") == rows("a", range(2, 3_002)) and not project.has(
        "rare"
    )
    manifest = project.manifest(asks=True)
    assert [warning.condition for warning in manifest.warnings] == ["new-table"]
    assert manifest.lacks_tables(manifest.models)
    project.write(
        "streams/more.yml",
        "source_tables: [{stream: events, name: a}, {stream: events, name: rare}]",
    )
    project.run(asks=True).check()
    assert project.rows("rare") == rows("rare", [1])


def test_a_value_that_comes_and_is_refused_is_told_while_the_others_go_on(
    project: Project, send: Send
) -> None:
    group(project, new_tables="refuse")
    project.write("streams/more.yml", "source_tables: [{stream: events, name: a}]")
    send("a", [1])
    events: list[Event] = []
    steps = [
        (has(project, "a", rows("a", [1])), lambda: send("b", [2])),
        (
            lambda: (
                "'b'"
                in "".join(each.text for each in events if isinstance(each, Noted))
            ),
            lambda: send("a", [3]),
        ),
        (has(project, "a", rows("a", [1, 3])), lambda: None),
    ]
    run_through(project, steps, events)
    assert not project.has("b")
