"""Tombstones that stand alone in a change feed, as a compacted topic has them: they
delete, whatever the envelope."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.spark.project import Fields, Project, in_bytes

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {"id": {"type": "int", "required": True}, "v": "string"}
BATCHES = 3
FEEDS = 60


class Sent(NamedTuple):
    """What is sent of a row: `c`, `u`, `d`, or `T` for a tombstone; the new value, and
    where the log has it."""

    op: str
    v: str | None
    lsn: int


FIXED: list[list[Sent]] = [
    [Sent("c", "a", 10), Sent("T", None, 0)],
    [Sent("c", "a", 10), Sent("d", None, 20), Sent("T", None, 0)],
    [Sent("c", "a", 10), Sent("T", None, 0), Sent("c", "b", 30)],
    [Sent("c", "a", 300), Sent("d", None, 200), Sent("T", None, 0)],
    [Sent("T", None, 0), Sent("c", "a", 10)],
    [Sent("T", None, 0)],
]


def feed(seed: int) -> list[Sent]:
    """What is sent of one row. Of some deletes the broker has compacted all but the
    tombstone away."""
    if seed < len(FIXED):
        return FIXED[seed]
    chance, sent, is_there = random.Random(seed), list[Sent](), False
    for at in range(chance.randrange(1, 8)):
        lsn = 100 * at + 100
        if is_there and chance.random() < 0.5:
            sent += [Sent("d", None, lsn)] if chance.random() < 0.5 else []
            sent += [Sent("T", None, 0)]
            is_there = False
        else:
            sent.append(Sent("u" if is_there else "c", f"{at}", lsn))
            is_there = True
    return sent


def value_of(sent: list[Sent], by_position: bool) -> str | None:
    """The value of the row in the end; None where it is gone."""
    value, place, former = None, -1, ""
    for each in sent:
        if each.op == "T":
            if former != "d":
                value, place = None, -1
        elif not by_position or each.lsn >= place:
            value, place = each.v, each.lsn
        former = each.op
    return value


def debezium(key: int, sent: Sent) -> Any:
    sides = {"before": {"id": key, "v": None}, "after": None}
    if sent.op != "d":
        sides = {"before": None, "after": {"id": key, "v": sent.v}}
    return {"op": sent.op, **sides, "source": {"lsn": sent.lsn, "snapshot": "false"}}


def flat(key: int, sent: Sent) -> Any:
    return {
        "id": key,
        "v": sent.v,
        "__op": sent.op,
        "__lsn": sent.lsn,
        "__deleted": str(sent.op == "d").lower(),
    }


def dms(key: int, sent: Sent) -> Any:
    operation = {"c": "insert", "u": "update", "d": "delete"}[sent.op]
    metadata = {
        "record-type": "data",
        "operation": operation,
        "schema-name": "public",
        "table-name": "t",
    }
    metadata["stream-position"] = f"0/{sent.lsn:08X}.0"
    return {"data": {"id": key, "v": sent.v}, "metadata": metadata}


ENVELOPES = {"debezium": debezium, "debezium_flat": flat, "dms": dms}


def batches(envelope: str) -> Iterator[list[Fields]]:
    """The records of all feeds, each cut anywhere: between a delete and its tombstone
    too."""
    found: list[list[Fields]] = [[] for _ in range(BATCHES)]
    for key in range(FEEDS):
        sent, chance = feed(key), random.Random(f"cuts of {key}")
        numbers = sorted(chance.randrange(BATCHES) for _ in sent)
        for number, each in zip(numbers, sent, strict=True):
            value = None if each.op == "T" else ENVELOPES[envelope](key, each)
            found[number].append(Fields(key={"id": key}, value=value, partition=key))
    offsets: dict[int, int] = {}
    for batch in found:
        for record in batch:
            record["offset"] = offsets.setdefault(record["partition"], 0)
            offsets[record["partition"]] += 1
        yield batch


def test_it_deletes_in_every_envelope_by_arrival_and_by_position(
    project: Project,
) -> None:
    position = {"sequence_by": "_change.position"}
    select = "SELECT id, v, _change.position AS at FROM {%s}"
    for envelope in ENVELOPES:
        of_table = {"source_table": "public.t"} if envelope == "dms" else {}
        project.stream(
            envelope,
            COLUMNS,
            envelope=envelope,
            key=["id"],
            max_per_batch=1,
            **of_table,
        )
        project.model(
            f"{envelope}_arrival",
            f"SELECT id, v FROM {{{envelope}}}",
            mode="cdc",
            keys="id",
        )
        project.model(
            f"{envelope}_position", select % envelope, mode="cdc", keys="id", **position
        )
        for batch in batches(envelope):
            project.record(envelope, batch)
    project.model(
        "soft",
        select % "debezium",
        mode="cdc",
        keys="id",
        apply_deletes="soft",
        **position,
    )
    project.model("history", select % "debezium", mode="scd2", keys="id", **position)
    project.run(hangs_after_s=1200.0).check()
    found = {
        f"{envelope}_{order}": True
        for envelope in ENVELOPES
        for order in ("arrival", "position")
    }
    for model in [*found, "soft", "history"]:
        rows = project.rows(model)
        there = {
            row["id"]: row["v"]
            for row in rows
            if row.get("_deleted_at") is None and row.get("is_current") is not False
        }
        expected = {
            key: value_of(feed(key), not model.endswith("arrival"))
            for key in range(FEEDS)
        }
        wrong = {
            key: (feed(key), there.get(key))
            for key in range(FEEDS)
            if there.get(key) != expected[key]
        }
        assert not wrong, model
        assert not project.reasons(model), model


DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2"},
}
TIME = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}


def test_the_schema_of_its_key_is_read_for_decimals_and_times(project: Project) -> None:
    columns = {
        "id": {"type": "decimal(10,2)", "required": True},
        "at": {"type": "timestamp_ntz", "required": True},
    }
    project.stream("s", columns, envelope="debezium", key=["id", "at"], max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="cdc", keys=["id", "at"])
    fields = [{"field": "id", **DECIMAL}, {"field": "at", **TIME}]
    schema = {"type": "struct", "fields": fields}

    def key(cents: int) -> dict[str, Any]:
        return {
            "id": base64.b64encode(cents.to_bytes(2, "big")).decode(),
            "at": 1_700_000_000_000_000,
        }

    def created(cents: int) -> Fields:
        payload = {"op": "c", "before": None, "after": key(cents), "source": {}}
        sides = {"type": "struct", "fields": [{"field": "after", **schema}]}
        return Fields(
            key={"schema": schema, "payload": key(cents)},
            value={"schema": sides, "payload": payload},
        )

    project.record("s", [created(1250), created(999)])
    project.record(
        "s", [Fields(key={"schema": schema, "payload": key(1250)}, value=None)]
    )
    project.run().check()
    assert [str(row["id"]) for row in project.rows("m")] == ["9.99"]
    assert not project.reasons("m")


BARE: dict[str, tuple[str, list[Any], list[bytes]]] = {
    "numbers": ("bigint", [1, 2, 3], [b"1", b"2", b"3"]),
    "texts": ("string", ["a b", "2", "c"], [b"a b", b"2", b"c"]),
    "json": ("string", ["a b", "2", "c"], [b'"a b"', b'"2"', b'"c"']),
    "wrapped": (
        "string",
        ["a b", "2", "c"],
        [
            b'{"schema":{"type":"string"},"payload":"%s"}' % it
            for it in (b"a b", b"2", b"c")
        ],
    ),
}
"""Keys that are no objects, as `ExtractField` leaves them: the type of the column, its
values, and those keys."""


def test_a_key_may_be_the_value_of_its_one_column(project: Project) -> None:
    for kind, (type_, values, keys) in BARE.items():
        for envelope in ("debezium", "debezium_flat"):
            name = f"{kind}_{envelope}"
            project.stream(
                name,
                {"id": {"type": type_, "required": True}, "v": "string"},
                envelope=envelope,
                key=["id"],
            )
            project.model(
                f"m_{name}", f"SELECT * FROM {{{name}}}", mode="cdc", keys="id"
            )
            sent = [
                json.dumps(ENVELOPES[envelope](value, Sent("c", "x", 10))).encode()
                for value in values
            ]
            project.record(
                name,
                [in_bytes(value, key) for value, key in zip(sent, keys, strict=True)],
            )
            alone = {
                "op": "d",
                "before": None,
                "after": None,
                "source": {"lsn": 20, "snapshot": "false"},
            }
            first = json.dumps(alone).encode() if envelope == "debezium" else None
            others = [in_bytes(None, b"Struct{id=3}"), in_bytes(None, b'["c"]')]
            project.record(
                name, [in_bytes(first, keys[0]), in_bytes(None, keys[1]), *others]
            )
    project.run().check()
    for kind, (_, values, _keys) in BARE.items():
        for envelope in ("debezium", "debezium_flat"):
            model = f"m_{kind}_{envelope}"
            assert [row["id"] for row in project.rows(model)] == values[2:], model
            assert sum(project.reasons(model).values()) == len(others), model


def test_documents_are_deleted_by_the_id_of_their_keys(project: Project) -> None:
    """Of MongoDB's connector: the document has `_id`, and the key of its record
    `id`."""
    columns = {"_id": {"type": "string", "required": True}, "v": "int"}
    project.stream("s", columns, envelope="debezium_flat", key=["_id"])
    project.model("m", "SELECT * FROM {s}", mode="cdc", keys="_id")
    schema = {"type": "struct", "fields": [{"field": "id", "type": "string"}]}
    names = ("a", "b", "c", "d")
    project.record(
        "s",
        [
            Fields(key={"id": it}, value={"_id": it, "v": 1, "__op": "c"})
            for it in names
        ],
    )
    gone = {"_id": "c", "__deleted": "true"}
    project.record(
        "s",
        [
            Fields(key={"id": "a"}, value=None),
            Fields(key={"schema": schema, "payload": {"id": "b"}}, value=None),
            Fields(key={"id": "c"}, value=gone),
        ],
    )
    project.run().check()
    assert project.rows("m") == [{"_id": "d", "v": 1}]
    assert not project.reasons("m")
