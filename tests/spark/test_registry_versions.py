"""Avro with a registry: each record by the schema that it was written with, however
many there are in a batch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakesql.events import Noted
from lakesql.names import NO_VALUE
from tests.servers.memory_registry import MemoryRegistry, open_memory_registry, wire
from tests.spark.project import Lake, Project, in_bytes

COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "name": "string",
    "amount": "decimal(12,2)",
    "at": "timestamp",
    "day": "date",
    "kind": "string",
    "tags": "array<string>",
    "place": "struct<city:string,zip:int>",
    "sizes": "map<string,int>",
}


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with open_memory_registry() as made:
        yield made


@pytest.fixture
def shop(
    lake: Lake, tmp_path: Path, registry: MemoryRegistry, request: pytest.FixtureRequest
) -> Project:
    made = Project(lake, tmp_path, f"registry_{abs(hash(request.node.name)) % 10**6}")
    made.connections["sr"] = {"type": "registry", "url": registry.url}
    made.stream("orders", COLUMNS, format="avro", registry="sr")
    made.model("all_orders", "SELECT * FROM {orders}", mode="append")
    return made


def send(project: Project, values: list[bytes | None], partition: int = 0) -> None:
    project.record("orders", map(in_bytes, values), partition=partition)


def record(*fields: Any, name: str = "shop.Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


def field(name: str, kind: Any, *default: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        **({"default": default[0]} if default else {}),
        **more,
    }


PLACE = {"type": "record", "name": "Place", "fields": [field("city", "string")]}
WIDER = {
    "type": "record",
    "name": "Place",
    "fields": [field("city", "string"), field("zip", ["null", "int"], None)],
}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
KIND = {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}
AT = datetime(2026, 3, 1, 10, 15, 30, 123000, tzinfo=UTC)

VERSIONS = (
    record(field("id", "int"), field("title", "string"), field("gone", "int")),
    record(
        field("id", "int"),
        field("title", ["null", "string"], None),
        field("amount", DECIMAL),
    ),
    record(
        field("id", "long"),
        field("name", "string", "nobody", aliases=["title"]),
        field("amount", DECIMAL),
    ),
    record(
        field("id", "long"),
        field("name", ["string", "null"], "nobody", aliases=["title"]),
        field("at", MILLIS),
        field("day", {"type": "int", "logicalType": "date"}, 0),
        field("kind", KIND, "NEW"),
        field("tags", {"type": "array", "items": "string"}, ["none"]),
        field("place", PLACE),
    ),
    record(
        field("id", "long"),
        field("name", ["string", "null"], "nobody", aliases=["title"]),
        field("amount", ["null", DECIMAL], None),
        field("at", ["null", MILLIS], None),
        field("day", {"type": "int", "logicalType": "date"}, 0),
        field("kind", KIND, "NEW"),
        field("tags", {"type": "array", "items": "string"}, ["none"]),
        field("place", ["null", WIDER], None),
        field("sizes", {"type": "map", "values": "int"}, {}),
    ),
)


def row_of(version: int, number: int) -> dict[str, Any]:
    """A record of a version, as its writer has it."""
    title, amount = f"n{number}", Decimal(number) / 100
    match version:
        case 0:
            return {"id": number, "title": title, "gone": 1}
        case 1:
            return {
                "id": number,
                "title": title if number % 2 else None,
                "amount": amount,
            }
        case 2:
            return {"id": number, "name": title, "amount": amount}
        case 3:
            place = {"city": title}
            more = {
                "at": AT,
                "day": date(2026, 3, 1),
                "kind": "OLD",
                "tags": [title],
                "place": place,
            }
            return {"id": number, "name": None, **more}
        case _:
            place = {"city": title, "zip": number}
            more = {
                "at": AT,
                "day": date(2026, 3, 1),
                "kind": "OLD",
                "tags": [],
                "place": place,
                "sizes": {"a": 1},
            }
            return {"id": number, "name": title, "amount": amount, **more}


def expected(version: int, number: int) -> dict[str, Any]:
    """What it is in the columns of the stream: the newest version's defaults where the
    writer had no such field."""
    row = row_of(version, number)
    place = row.get("place")
    return {
        "id": number,
        "name": row.get("name", row.get("title", "nobody")),
        "amount": row.get("amount"),
        "at": row.get("at"),
        "day": row.get("day", date(1970, 1, 1)),
        "kind": row.get("kind", "NEW"),
        "tags": row.get("tags", ["none"]),
        "place": place and {"zip": None, **place},
        "sizes": row.get("sizes", {}),
    }


def found(project: Project, model: str = "all_orders") -> dict[int, dict[str, Any]]:
    rows = {}
    for row in project.rows(model):
        made = dict(row)
        made["sizes"] = None if made["sizes"] is None else dict(made["sizes"])
        made["at"] = made["at"] and made["at"].replace(
            tzinfo=made["at"].tzinfo or UTC
        ).astimezone(UTC)
        rows[made["id"]] = made
    return rows


def test_records_of_many_versions_in_one_batch_are_what_each_writer_wrote(
    shop: Project, registry: MemoryRegistry
) -> None:
    ids = [registry.register("orders-value", version) for version in VERSIONS]
    chance = random.Random(4)
    versions = [chance.randrange(len(VERSIONS)) for _ in range(300)]
    for partition in range(3):
        values = [
            wire(ids[version], VERSIONS[version], row_of(version, number))
            for number, version in enumerate(versions)
            if number % 3 == partition
        ]
        send(shop, [*values], partition)
    shop.run().check()
    rows = found(shop)
    assert rows == {
        number: expected(version, number) for number, version in enumerate(versions)
    }


def test_what_is_no_record_of_a_known_schema_is_a_dead_letter_that_says_why(
    shop: Project, registry: MemoryRegistry
) -> None:
    number = registry.register("orders-value", VERSIONS[0])
    good = wire(number, VERSIONS[0], row_of(0, 1))
    proto = registry.register("orders-value", VERSIONS[0])
    registry.schemas[proto]["schemaType"] = "PROTOBUF"
    registry.register("orders-value", VERSIONS[4])
    bad = [
        b'{"id": 1}',
        wire(4711, VERSIONS[0], row_of(0, 2)),
        good[:-1],
        good + b"\0",
        b"\0\0\0",
        None,
        b"",
    ]
    send(shop, [good, *bad, wire(proto, VERSIONS[0], row_of(0, 3))])
    shop.run().check()
    assert [*found(shop)] == [1]
    letters = shop.rows("all_orders__dead_letter")
    details = sorted(f"{row['reason']}: {row['detail']}" for row in letters)
    assert len(details) == 8, details
    assert sum("4711" in each for each in details) == 1
    assert sum("does not begin with a byte 0" in each for each in details) == 3, details
    assert sum("not a record of the Avro schema" in each for each in details) == 2, (
        details
    )
    assert sum(each.startswith(f"{NO_VALUE}:") for each in details) == 1, details


def test_a_writer_of_another_type_is_read_by_its_own_schema(
    shop: Project, registry: MemoryRegistry
) -> None:
    text = record(field("id", "string"), field("name", "string"), name="other.Order")
    ids = [
        registry.register("orders-value", version)
        for version in (text, VERSIONS[2], VERSIONS[4])
    ]
    send(
        shop,
        [
            wire(ids[0], text, {"id": "1", "name": "a"}),
            wire(ids[0], text, {"id": "one", "name": "a"}),
            wire(ids[1], VERSIONS[2], row_of(2, 2)),
        ],
    )
    shop.run().check()
    assert {number: row["name"] for number, row in found(shop).items()} == {
        1: "a",
        2: "n2",
    }
    assert shop.reasons("all_orders") == {"unparsable": 1}


@pytest.mark.parametrize("id_bytes", [4, 8])
def test_both_wires_are_read_in_every_mode(
    lake: Lake, tmp_path: Path, registry: MemoryRegistry, id_bytes: int
) -> None:
    project = Project(lake, tmp_path, f"registry_wire_{id_bytes}")
    project.connections["sr"] = {"type": "registry", "url": registry.url}
    registry.first_id = 300
    ids = [registry.register("kept", VERSIONS[version]) for version in (0, 2)]
    columns = {name: COLUMNS[name] for name in ("id", "name", "amount")}
    form = "confluent" if id_bytes == 4 else "apicurio"
    project.stream(
        "orders", columns, format="avro", registry="sr", subject="kept", wire=form
    )
    project.model("newest", "SELECT * FROM {orders}", mode="upsert", keys="id")
    project.model(
        "past",
        "SELECT *, _record.timestamp AS at FROM {orders}",
        mode="scd2",
        keys="id",
        sequence_by="at",
    )
    rows: list[tuple[int, Mapping[str, Any]]] = [
        (0, row_of(0, 1)),
        (1, row_of(2, 1)),
        (1, row_of(2, 2)),
    ]
    send(
        project,
        [wire(ids[at], VERSIONS[(0, 2)[at]], row, id_bytes) for at, row in rows],
    )
    project.run().check()
    registry.register("kept", VERSIONS[3])
    send(
        project,
        [
            wire(
                registry.register("kept", VERSIONS[4]),
                VERSIONS[4],
                row_of(4, 2),
                id_bytes,
            )
        ],
    )
    notes = [event.text for event in project.run("newest").check().of(Noted)]
    assert [
        text for text in notes if "not read: at, day, kind, tags, place, sizes" in text
    ], notes
    assert {
        row["id"]: (row["name"], row["amount"]) for row in project.rows("newest")
    } == {
        1: ("n1", Decimal("0.01")),
        2: ("n2", Decimal("0.02")),
    }
    assert sorted((row["id"], row["is_current"]) for row in project.rows("past")) == [
        (1, False),
        (1, True),
        (2, True),
    ]
