"""A pulled contract that is behind: a newer schema's fields are in the table from the
first record that has them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.spark.session import new_session
from lakesql.events import (
    BatchCommitted,
    BatchSkipped,
    Event,
    Noted,
    Retrying,
    StepApplied,
)
from lakesql.run.start.context import RunContext
from lakesql.run.state.replay import bind_letters, replay_followed
from lakesql.run.streams.bind import bind_select
from tests.messages import framed, message_of
from tests.servers.memory_registry import MemoryRegistry, open_memory_registry, wire
from tests.spark.project import Lake, Project, in_bytes

SUBJECT = "orders-value"
FILE = f"streams/schemas/{SUBJECT}.avsc"


def record(**fields: Any) -> dict[str, Any]:
    """A schema of these fields; those that are unions with NULL have it as their
    default."""
    named = [
        {
            "name": name,
            "type": kind,
            **({"default": None} if isinstance(kind, list) else {}),
        }
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "shop.Order", "fields": named}


TEXT = ["null", "string"]
V1 = record(id="int", name=TEXT)
V2 = record(id="int", name=TEXT, note=TEXT)
WIDE = record(id="long", name=TEXT)


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with open_memory_registry() as made:
        yield made


@pytest.fixture
def shop(
    lake: Lake, tmp_path: Path, registry: MemoryRegistry, request: pytest.FixtureRequest
) -> Project:
    made = Project(lake, tmp_path, f"follow_{abs(hash(request.node.name)) % 10**6}")
    made.connections["sr"] = {"type": "registry", "url": registry.url}
    made.stream("orders", format="avro", registry="sr")
    made.model("all_orders", "SELECT * FROM {orders}", mode="append")
    return made


def pull(project: Project, schema: Mapping[str, Any]) -> None:
    project.write(FILE, json.dumps(schema))


def send(project: Project, *values: bytes) -> None:
    project.record("orders", map(in_bytes, values))


def types(project: Project, model: str = "all_orders") -> dict[str, str]:
    return {
        field.name: str(field.field_type)
        for field in project.iceberg(model).schema().fields
    }


class Killed(Exception):  # noqa: N818
    """Raised where a run is to end as if its process had died there."""


def test_a_field_that_comes_in_the_middle_of_a_batch_is_in_the_table_with_all_its_values(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, V1)
    first = registry.register(SUBJECT, V1)
    send(shop, wire(first, V1, {"id": 1, "name": "a"}))
    shop.run().check()
    second = registry.register(SUBJECT, V2)
    send(
        shop,
        wire(first, V1, {"id": 2, "name": "b"}),
        wire(second, V2, {"id": 3, "name": "c", "note": "three"}),
        wire(first, V1, {"id": 4, "name": "d"}),
        wire(second, V2, {"id": 5, "name": None, "note": "five"}),
    )

    ran = shop.run().check()

    assert shop.rows("all_orders", "id") == [
        {"id": 1, "name": "a", "note": None},
        {"id": 2, "name": "b", "note": None},
        {"id": 3, "name": "c", "note": "three"},
        {"id": 4, "name": "d", "note": None},
        {"id": 5, "name": None, "note": "five"},
    ]
    (retried,) = ran.of(Retrying)
    assert [problem.condition for problem in retried.problems] == ["contract-behind"]
    assert f"note string is new (schema {second})" in retried.problems[0].what
    assert [event.batch for event in ran.of(BatchCommitted)] == [1]
    (behind,) = [event.text for event in ran.of(Noted) if "behind" in event.text]
    assert FILE in behind and "lakesql schema pull orders" in behind
    assert not [event.text for event in ran.of(Noted) if "not read" in event.text]
    assert (
        "note"
        in (
            shop.directory / "target" / "compiled" / "models" / "all_orders.sql"
        ).read_text()
    )


def test_the_next_runs_begin_with_what_was_followed_and_a_pull_ends_it(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1), registry.register(SUBJECT, V2)]
    send(
        shop,
        wire(ids[0], V1, {"id": 1, "name": "a"}),
        wire(ids[1], V2, {"id": 2, "name": "b", "note": "n"}),
    )
    shop.run().check()
    assert not shop.run().check().of(BatchCommitted)
    shop.forget("all_orders")  # as a kill right behind the commit leaves it

    again = shop.run().check()

    assert again.of(BatchSkipped) and not again.of(Retrying)
    registry.status = 503  # all ids are known
    send(shop, wire(ids[1], V2, {"id": 3, "name": "c", "note": "m"}))
    ran = shop.run().check()
    assert [event.text for event in ran.of(Noted) if "behind" in event.text]
    registry.status = 200
    pull(shop, V2)
    send(shop, wire(ids[1], V2, {"id": 4, "name": "d", "note": "o"}))
    pulled = shop.run().check()
    assert not [event.text for event in pulled.of(Noted) if "behind" in event.text]
    assert not pulled.of(StepApplied)
    assert [(row["id"], row["note"]) for row in shop.rows("all_orders", "id")] == [
        (1, None),
        (2, "n"),
        (3, "m"),
        (4, "o"),
    ]


def test_a_lost_checkpoint_loses_no_column(
    shop: Project, registry: MemoryRegistry
) -> None:
    shop.model(
        "all_orders",
        "SELECT * FROM {orders}",
        mode="append",
        on_schema_change="sync_all_columns",
    )
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1)]
    send(shop, wire(ids[0], V1, {"id": 1, "name": "a"}))
    shop.run().check()
    ids.append(registry.register(SUBJECT, V2))
    send(shop, wire(ids[1], V2, {"id": 2, "name": "b", "note": "n"}))
    shop.run().check()
    registry.register(SUBJECT, WIDE)  # a newer one that lacks the column
    shutil.rmtree(shop.directory / "checkpoints")
    send(
        shop,
        wire(ids[0], V1, {"id": 3, "name": "c"}),
        wire(ids[1], V2, {"id": 4, "name": "d", "note": "o"}),
    )

    shop.run().check()

    assert shop.rows("all_orders", "id") == [
        {"id": 1, "name": "a", "note": None},
        {"id": 2, "name": "b", "note": "n"},
        {"id": 3, "name": "c", "note": None},
        {"id": 4, "name": "d", "note": "o"},
    ]
    assert types(shop) == {"id": "long", "name": "string", "note": "string"}


def test_a_wider_type_is_followed_in_the_batch_that_has_it(
    shop: Project, registry: MemoryRegistry
) -> None:
    shop.model("chosen", "SELECT id FROM {orders}", mode="append")
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1)]
    send(shop, wire(ids[0], V1, {"id": 1, "name": "a"}))
    shop.run().check()
    assert types(shop)["id"] == "int"
    ids.append(registry.register(SUBJECT, record(id="long", name=TEXT, note=TEXT)))
    wide = wire(
        ids[1],
        record(id="long", name=TEXT, note=TEXT),
        {"id": 2**40, "name": "b", "note": "n"},
    )
    send(shop, wire(ids[0], V1, {"id": 2, "name": "a"}), wide)

    shop.run().check()

    assert types(shop) == {"id": "long", "name": "string", "note": "string"}
    assert types(shop, "chosen") == {"id": "long"}
    assert [row["id"] for row in shop.rows("all_orders", "id")] == [1, 2, 2**40]
    assert [row["id"] for row in shop.rows("chosen", "id")] == [1, 2, 2**40]
    assert not shop.reasons("all_orders") and not shop.reasons("chosen")


def test_a_model_says_what_becomes_of_its_table(
    shop: Project, registry: MemoryRegistry
) -> None:
    shop.model(
        "refusing", "SELECT * FROM {orders}", mode="append", on_schema_change="fail"
    )
    shop.model(
        "ignoring", "SELECT * FROM {orders}", mode="append", on_schema_change="ignore"
    )
    shop.model(
        "choosing",
        "SELECT id, name FROM {orders}",
        mode="append",
        on_schema_change="fail",
    )
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1)]
    send(shop, wire(ids[0], V1, {"id": 1, "name": "a"}))
    shop.run().check()
    ids.append(registry.register(SUBJECT, V2))
    send(
        shop,
        wire(ids[0], V1, {"id": 2, "name": "b"}),
        wire(ids[1], V2, {"id": 3, "name": "c", "note": "n"}),
    )

    ran = shop.run()

    assert ran.conditions("refusing") == ["schema-change"]
    assert [row["id"] for row in shop.rows("refusing")] == [1]
    assert shop.rows("ignoring", "id") == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
        {"id": 3, "name": "c"},
    ]
    assert [
        event.text
        for event in ran.of(Noted, "ignoring")
        if "not read: note" in event.text
    ]
    assert shop.rows("choosing", "id") == shop.rows("ignoring", "id")
    assert shop.run("refusing").conditions("refusing") == ["schema-change"]
    shop.model("refusing", "SELECT * FROM {orders}", mode="append")
    shop.run("refusing").check()
    assert [row["note"] for row in shop.rows("refusing", "id")] == [None, None, "n"]


def test_what_no_column_holds_stops_the_model_until_somebody_decides(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1)]
    send(shop, wire(ids[0], V1, {"id": 1, "name": "a"}))
    shop.run().check()
    number = record(id="int", name="int")
    ids.append(registry.register(SUBJECT, number))
    send(
        shop,
        wire(ids[0], V1, {"id": 2, "name": "b"}),
        wire(ids[1], number, {"id": 3, "name": 33}),
    )

    for _ in range(2):
        refused = shop.run().finished("all_orders").problems[0]
        assert refused.condition == "contract-behind"
        assert f"Schema {ids[1]} of" in refused.what and "name as int" in refused.what
        assert [row["id"] for row in shop.rows("all_orders")] == [1]
    shop.stream("orders", {"id": "int", "name": "string"}, format="avro", registry="sr")
    shop.run().check()
    assert [row["name"] for row in shop.rows("all_orders", "id")] == ["a", "b", "33"]


def test_fields_that_a_pull_has_left_behind_do_not_come_back(
    shop: Project, registry: MemoryRegistry
) -> None:
    """The order is that of the versions: another subject has had the newest schema
    first, under a lower id."""
    newest = record(id="int", name=TEXT, extra=TEXT)
    registry.register("elsewhere", newest)
    old = registry.register(SUBJECT, V2)
    pulled = registry.register(SUBJECT, V1)
    registry.subjects[SUBJECT].append(1)
    pull(shop, V1)
    send(
        shop,
        wire(old, V2, {"id": 1, "name": "a", "note": "n"}),
        wire(pulled, V1, {"id": 2, "name": "b"}),
        wire(1, newest, {"id": 3, "name": "c", "extra": "e"}),
    )
    shop.run().check()
    assert shop.rows("all_orders", "id") == [
        {"id": 1, "name": "a", "extra": None},
        {"id": 2, "name": "b", "extra": None},
        {"id": 3, "name": "c", "extra": "e"},
    ]


def test_a_model_that_runs_on_takes_the_new_column_without_another_process(
    shop: Project, registry: MemoryRegistry
) -> None:
    shop.model(
        "all_orders",
        "SELECT * FROM {orders}",
        mode="upsert",
        keys="id",
        trigger="1 second",
    )
    pull(shop, V1)
    first = registry.register(SUBJECT, V1)
    send(
        shop,
        wire(first, V1, {"id": 1, "name": "a"}),
        wire(first, V1, {"id": 2, "name": "b"}),
    )
    committed: list[int] = []

    def meet(event: Event) -> None:
        if not isinstance(event, BatchCommitted):
            return
        committed.append(event.batch)
        if len(committed) == 1:
            second = registry.register(SUBJECT, V2)
            send(
                shop,
                wire(second, V2, {"id": 2, "name": "c", "note": "n"}),
                wire(first, V1, {"id": 3, "name": "d"}),
            )

    ran = shop.run(continuous=True, meet=meet, until=lambda: len(committed) == 2)

    ran.check()
    assert committed == [0, 1]
    assert shop.rows("all_orders", "id") == [
        {"id": 1, "name": "a", "note": None},
        {"id": 2, "name": "c", "note": "n"},
        {"id": 3, "name": "d", "note": None},
    ]


@pytest.mark.parametrize("step", ["stage", "publish", "finish"])
def test_a_kill_behind_the_new_column_writes_its_batch_once(
    shop: Project, registry: MemoryRegistry, step: str
) -> None:
    pull(shop, V1)
    first = registry.register(SUBJECT, V1)
    send(shop, wire(first, V1, {"id": 1, "name": "a"}))
    shop.run().check()
    second = registry.register(SUBJECT, V2)
    send(
        shop,
        wire(first, V1, {"id": 2, "name": "b"}),
        wire(second, V2, {"id": 3, "name": "c", "note": "n"}),
    )

    def reached(_: str, taken: str) -> None:
        if taken == step and "note" in types(shop):
            raise Killed

    assert not shop.run(reached=reached).succeeded
    assert "note" in types(shop)
    shop.run().check()

    assert [(row["id"], row["note"]) for row in shop.rows("all_orders", "id")] == [
        (1, None),
        (2, None),
        (3, "n"),
    ]
    assert (
        sum(
            int(summary.get("added-records", 0))
            for summary in shop.summaries("all_orders")
        )
        == 3
    )


def test_dead_letters_of_an_id_that_is_registered_late_bring_its_fields(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, V1)
    first = registry.register(SUBJECT, V1)
    send(
        shop,
        wire(first, V1, {"id": 1, "name": "a"}),
        wire(2, V2, {"id": 2, "name": "b", "note": "n"}),
    )
    shop.run().check()
    assert sum(shop.reasons("all_orders").values()) == 1
    assert registry.register(SUBJECT, V2) == 2
    manifest, lake, events = shop.manifest(), shop.lake, list[Event]()
    bound = bind_letters(bind_select(manifest, build_select(manifest, "all_orders")))
    context = RunContext(manifest, lake.session, lake.catalog, events.append)

    done = replay_followed(context, new_session(lake.session), bound, dry_run=False)

    assert (done.done, done.rows, dict(done.failing)) == (1, 1, {})
    assert [(row["id"], row["note"]) for row in shop.rows("all_orders", "id")] == [
        (1, None),
        (2, "n"),
    ]


PROTO = (
    'syntax = "proto3"; package shop; message Order { int32 id = 1; string name = 2; }'
)
NEWER_PROTO = (
    'syntax = "proto3"; package shop; message Order { int64 id = 1; string name = 2; optional string note = 3; '
    "Place place = 4; } message Place { string city = 1; }"
)
WIDER_PLACE = NEWER_PROTO.replace("city = 1;", "city = 1; optional int32 zip = 2;")


def test_messages_are_followed_too_fields_inside_of_them_as_well(
    shop: Project, registry: MemoryRegistry
) -> None:
    shop.stream("orders", format="protobuf", registry="sr")
    shop.write(f"streams/schemas/{SUBJECT}.proto", PROTO)

    def register(text: str) -> int:
        number = registry.register(SUBJECT, {})
        registry.schemas[number] = {
            "schema": text,
            "schemaType": "PROTOBUF",
            "references": [],
        }
        return number

    def message(text: str, number: int, **fields: Any) -> bytes:
        return framed(number, message_of(text)(**fields))

    ids = [register(PROTO)]
    send(shop, message(PROTO, ids[0], id=1, name="a"))
    shop.run().check()
    ids.append(register(NEWER_PROTO))
    newer = message(
        NEWER_PROTO, ids[1], id=2**40, name="b", note="n", place={"city": "Rome"}
    )
    send(shop, message(PROTO, ids[0], id=2, name="a"), newer)
    shop.run().check()
    ids.append(register(WIDER_PLACE))
    send(
        shop,
        message(WIDER_PLACE, ids[2], id=3, name="c", place={"city": "Oslo", "zip": 5}),
    )
    shop.run().check()

    assert shop.rows("all_orders", "id") == [
        {"id": 1, "name": "a", "note": None, "place": None},
        {"id": 2, "name": "a", "note": None, "place": None},
        {"id": 3, "name": "c", "note": None, "place": {"city": "Oslo", "zip": 5}},
        {"id": 2**40, "name": "b", "note": "n", "place": {"city": "Rome", "zip": None}},
    ]


def test_a_file_that_somebody_has_edited_is_followed_by_nothing_and_that_is_said(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, record(id="int"))
    number = registry.register(SUBJECT, V1)
    send(shop, wire(number, V1, {"id": 1, "name": "a"}))
    ran = shop.run().check()
    assert shop.rows("all_orders") == [{"id": 1}]
    assert [event.text for event in ran.of(Noted) if "not read: name" in event.text]


def test_a_rebuild_reads_what_was_followed(
    shop: Project, registry: MemoryRegistry
) -> None:
    pull(shop, V1)
    ids = [registry.register(SUBJECT, V1), registry.register(SUBJECT, V2)]
    send(
        shop,
        wire(ids[0], V1, {"id": 1, "name": "a"}),
        wire(ids[1], V2, {"id": 2, "name": "b", "note": "n"}),
    )
    shop.run().check()
    rows = shop.rows("all_orders", "id")
    shop.rebuild("all_orders").check()
    assert shop.rows("all_orders", "id") == rows
    assert rows[1] == {"id": 2, "name": "b", "note": "n"}
    ids.append(registry.register(SUBJECT, record(id="long", name=TEXT, more=TEXT)))
    wide = record(id="long", name=TEXT, more=TEXT)
    send(shop, wire(ids[2], wide, {"id": 2**40, "name": "c", "more": "m"}))
    shop.rebuild("all_orders").check()
    assert shop.rows("all_orders", "id") == [
        *({**row, "more": None} for row in rows),
        {"id": 2**40, "name": "c", "note": None, "more": "m"},
    ]
