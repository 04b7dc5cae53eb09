"""A topic that several models of a group read: it is read once for all of them, and
each has what it would have read by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from lakesql.engine.together import shared_topics
from lakesql.events import BatchCommitted, Event
from tests.kafka.test_groups import has, prefix_of, run_through
from tests.servers.broker import Broker, Message
from tests.spark.project import Project, Row
from tests.spark.test_groups import KINDS, change, rows

TABLES = ("orders", "users", "notes")
COLUMNS = {"id": "bigint", "header": "struct<kind: string>", "at": "timestamp"}
BAD = (
    b"x",
    b"",
    b"1",
    b"1,users",
    b"x,users,2026-01-01T00:00:00Z",
    b'2,"users,2026-01-01T00:00:00Z',
    b"3,users,no time,and more",
    None,
    b"5",
    b"[]",
    b'{"op": "c", "after": {"id": 1}}',
    b'{"op": "c", "after": 5, "source": {"schema": "public", "table": "orders"}}',
    b'{"op": null, "source": {"schema": "public", "table": "orders"}}',
    b'{"op": "m", "source": {"schema": "public", "table": "users"}}',
    b'{"op": "c", "after": {"id": "no number"}, "source": {"db": "shop", "schema": "public", "table": "users"}}',
    b'{"op": "c", "after": {"id": 7}, "source": {"schema": "public", "table": "ord\\u0065rs"}, "source": 5}',
    b'{"op": "c", "after": {"id": 7}, "source": "public.orders"}',
    b'{"id": 1, "header": {"kind": "orders"}, "at": "no time"}',
    b'{"id": 1, "header": {"kind": "users"}} and more',
    b'{"id": "no number", "header": {"kind": "users"}}',
    b'{"id": 1, "header": {"kind": "us\\u0065rs"}}',
    b'{"id": 1, "header": {"kind": ""}}',
    b'{"id": 1, "header": {"kind": null}}',
    b'{"id": 1, "header": "users"}',
    b'{"id": 1, "header": {"kind": 5}}',
    b'\xff{"id": 1, "header": {"kind": "users"}}',
    b'{"id": 1, "header": {"kind": "%s"}}' % (b"x" * 1_001),
)


@pytest.fixture(autouse=True)
def _rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model is given of a stretch is not read of the topic once more."""
    former = shared_topics.in_session

    def give(frame: Any, session: Any) -> Any:
        given = former(frame, session)
        plan = str(given._jdf.queryExecution().withCachedData())
        assert "InMemoryRelation" in plan or "LocalRelation" in plan
        return given

    monkeypatch.setattr(shared_topics, "in_session", give)


def declare(
    project: Project,
    broker: Broker,
    topic: str,
    kind: str,
    max_per_batch: int | None = None,
) -> None:
    """A group of the tables that one topic has: of a feed, or by a column."""
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    limit = {"max_per_batch": max_per_batch} if max_per_batch else {}
    if kind == "feed":
        project.stream(
            "shop", envelope="debezium", connection="broker", topic=topic, **limit
        )
        fields = [{"field": name, "type": said["type"]} for name, said in KINDS.items()]
        known = [
            {
                "stream": "shop",
                "name": f"public.{name}",
                "key": ["id"],
                "fields": fields,
            }
            for name in TABLES
        ]
        tables: dict[str, Any] = {"exclude": ["public.no"], "name": "{table}"}
        project.model(
            "g", "SELECT * FROM {shop}", mode="cdc", trigger="1 second", tables=tables
        )
    else:
        columns = (
            COLUMNS
            if kind == "json"
            else {"id": "bigint", "kind": "string", "at": "timestamp"}
        )
        project.stream(
            "shop",
            columns,
            key=["id"],
            connection="broker",
            topic=topic,
            format=kind,
            **limit,
        )
        known = [{"stream": "shop", "name": name} for name in TABLES]
        tables = {
            "route": "header.kind" if kind == "json" else "kind",
            "exclude": ["no", ""],
            "new_tables": "ignore",
        }
        project.model(
            "g",
            "SELECT id, at FROM {shop}",
            mode="append",
            trigger="1 second",
            tables=tables,
        )
    project.write("streams/tables.yml", json.dumps({"source_tables": known}))


def some_record(random: Random, number: int, kind: str) -> Message:
    if random.random() < 0.15:
        return Message(
            random.choice(BAD), b'{"id": 1}' if kind == "feed" else None, partition=1
        )
    return good_record(random, random.choice((*TABLES, "no", "other")), number, kind)


def good_record(random: Random, table: str, number: int, kind: str) -> Message:
    if kind == "csv":
        return Message(f"{number},{table},2026-01-01T00:00:00Z".encode())
    if kind == "json":
        return Message(
            json.dumps(
                {"id": number, "header": {"kind": table}, "at": "2026-01-01T00:00:00Z"}
            ).encode()
        )
    id_ = random.randrange(20)
    made = change(f"public.{table}", random.choice("ccud"), rows(id_)[0])
    made["value"]["payload"]["source"]["lsn"] = number
    key = random.choice((made["key"]["payload"], made["key"]))
    value = random.choice((made["value"]["payload"], made["value"]))
    return Message(
        json.dumps(value).encode(), json.dumps(key).encode(), partition=id_ % 2
    )


def contents(project: Project) -> dict[str, list[Row]]:
    """All rows, and all dead letters by their records."""
    found = {}
    for name in TABLES:
        found[name] = project.rows(name) if project.has(name) else []
        letters = (
            project.rows(f"{name}__dead_letter")
            if project.has(f"{name}__dead_letter")
            else []
        )
        told = [
            {key: each[key] for key in ("reason", "partition", "offset")}
            for each in letters
        ]
        found[f"{name}, dead letters"] = sorted(
            told, key=lambda each: (each["partition"], each["offset"])
        )
    return found


@pytest.mark.parametrize("kind", ["feed", "json", "csv"])
def test_models_have_what_each_would_read_by_itself(
    new_project: Callable[[], Project],
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    reads: Counter[str],
    pytestconfig: pytest.Config,
    kind: str,
) -> None:
    random, topic = Random(f"{pytestconfig.getoption('--seed')} {kind}"), f"all-{kind}"
    broker.create_topic(topic, 2)
    together, alone = new_project(), new_project()
    are_forgotten = random.random() < 0.3
    if are_forgotten:  # models that stay behind read for themselves
        monkeypatch.setattr("lakesql.engine.together.shared_topics.MOST_KEPT", 1)
    number, failures = len(TABLES), list[str]()
    broker.produce(
        topic, [good_record(random, table, at, kind) for at, table in enumerate(TABLES)]
    )
    for _ in range(2):
        size, limit = random.choice(
            ((5, None), (60, 25), (1_500, None), (1_500, 1_200))
        )
        for project in (together, alone):
            declare(project, broker, topic, kind, limit)
        broker.produce(
            topic, [some_record(random, number + each, kind) for each in range(size)]
        )
        number += size
        fails = random.choice(("", "look-up", "view", "stage", "publish"))

        def reach(model: str, step: str, fails: str = fails) -> None:
            if model == "g.users" and step == fails:
                failures.append(step)
                raise AssertionError("it fails here")

        together.run(reached=reach, asks=True)
    together.run(asks=True).check()
    shared = max(reads.values())
    with monkeypatch.context() as patch:
        patch.setattr("lakesql.run.together.can_share_rows", lambda: False)
        alone.run(asks=True).check()
    assert contents(together) == contents(alone)
    assert are_forgotten or shared <= 1 + len(failures), (
        "once for all, and again by a model that has failed"
    )


def test_a_table_that_has_nothing_writes_no_batch_and_goes_on(
    new_project: Callable[[], Project],
    broker: Broker,
    request: pytest.FixtureRequest,
    reads: Counter[str],
) -> None:
    project, topic = new_project(), prefix_of(request)
    broker.create_topic(topic, 1)
    declare(project, broker, topic, kind="json")

    def send(kind: str, *ids: int) -> None:
        broker.produce(
            topic,
            [
                Message(json.dumps({"id": each, "header": {"kind": kind}}).encode())
                for each in ids
            ],
        )

    def is_there(table: str, *ids: int) -> Callable[[], bool]:
        return has(project, table, [{"id": each, "at": None} for each in ids])

    events: list[Event] = []
    for name in TABLES:
        send(name, 1)
    steps = [
        (lambda: all(is_there(name, 1)() for name in TABLES), lambda: send("users", 2)),
        (is_there("users", 1, 2), lambda: send("users", 3)),
        (is_there("users", 1, 2, 3), lambda: send("notes", 4)),
        (is_there("notes", 1, 4), lambda: None),
    ]
    run_through(project, steps, events)
    written = Counter(
        event.model for event in events if isinstance(event, BatchCommitted)
    )
    assert written == {"g.orders": 1, "g.users": 3, "g.notes": 2}
    assert {*reads.values()} == {1}
    send("orders", 5)
    project.run(asks=True).check()
    assert [row["id"] for row in project.rows("orders")] == [1, 5]
