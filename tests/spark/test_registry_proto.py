"""Protobuf with a registry: each record by the schema that it was written with, in a
model's run."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakesql.events import BatchCommitted
from tests.messages import framed, message_of
from tests.spark.project import Project, in_bytes, use_schema_folder

HEAD = 'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; '
V1 = HEAD + (
    "message Order { int32 id = 1; string cust = 2; google.protobuf.Timestamp at = 3; State state = 4; "
    "enum State { NEW = 0; OLD = 1; } string gone = 9; }"
)
V2 = HEAD + (
    "message Order { int64 id = 1; string customer = 2; google.protobuf.Timestamp at = 3; State state = 4; "
    "enum State { NEW = 0; OLD = 1; PAID = 2; } optional string country = 5; repeated string tags = 6; "
    "map<string, int64> counts = 7; uint64 big = 8; message Place { string city = 1; } Place place = 10; }"
)
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "customer": "string",
    "at": "timestamp",
    "state": "string",
    "country": "string",
    "tags": "array<string>",
    "counts": "map<string,bigint>",
    "big": "decimal(20,0)",
    "place": "struct<city:string>",
}
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    """A project whose registry is a folder."""
    project = new_project()
    use_schema_folder(project)
    return project


def declare(project: Project, columns: Any = COLUMNS, **options: Any) -> None:
    project.stream("orders", columns, format="protobuf", registry="schemas", **options)


def order(version: str, **fields: Any) -> Any:
    made = message_of(version)(**fields)
    made.at.FromDatetime(AT)
    return made


def test_each_record_is_read_by_the_schema_it_was_written_with(
    project: Project,
) -> None:
    project.write("schemas/7.proto", V1)
    project.write("schemas/300.proto", V2)
    declare(project)
    project.model("landed", "SELECT * FROM {orders}", mode="append")
    values, expected = [], []
    for number in range(0, 40, 2):
        values.append(
            framed(7, order(V1, id=number, cust=f"c{number}", state=1, gone="x"))
        )
        new = order(
            V2,
            id=number + 1,
            customer="b",
            state=2,
            tags=["a"],
            counts={"k": 3},
            big=2**64 - 1,
        )
        new.place.city = "Ede"
        values.append(framed(300, new))
        same = {"at": AT, "country": None}
        old = {"tags": [], "counts": [], "big": Decimal(0), "place": None}
        expected += [
            {"id": number, "customer": f"c{number}", **same, "state": "OLD", **old},
            {
                "id": number + 1,
                "customer": "b",
                **same,
                "state": "PAID",
                "tags": ["a"],
                "counts": [("k", 3)],
                "big": Decimal(2**64 - 1),
                "place": {"city": "Ede"},
            },
        ]
    project.record("orders", map(in_bytes, values))
    project.run().check()
    assert project.rows("landed", "id") == expected


def test_what_cannot_be_read_is_a_dead_letter_that_says_why(project: Project) -> None:
    project.write("schemas/7.proto", V1 + " message Refund { int32 id = 1; }")
    project.write("schemas/8.proto", "message {")
    declare(
        project,
        {
            "id": {"type": "bigint", "required": True},
            "cust": "string",
            "state": "string",
        },
    )
    project.model("landed", "SELECT id, cust, state FROM {orders}", mode="append")
    good = order(V1, id=1, cust="c", state=1)
    strange = order(V1, id=2)
    strange.state = 5
    body = good.SerializeToString()
    bad = {
        framed(77, good): "schema id 77 is not in the registry",
        framed(
            8, good
        ): "schema id 8 has a schema that cannot be read: lakesql_schema.proto:1:9: Expected message name.",
        framed(
            7, body[:-3]
        ): "not a record of the Protobuf schema: Wire format was corrupt",
        framed(
            7, good, b"\2\2"
        ): "it is a shop.Refund, and the stream reads shop.Order",
        framed(
            7, good, b"\x08"
        ): "the bytes behind its id name no message of schema id 7",
        framed(7, strange): "state: 5 is no number of enum shop.Order.State",
        b"\0\0\0": "it does not begin with a byte 0 and the 4 bytes of a schema's id",
    }
    project.record(
        "orders",
        map(in_bytes, [framed(7, good), *bad, framed(7, b""), framed(7, good)]),
    )
    project.run().check()
    assert project.rows("landed", "id") == [
        {"id": 0, "cust": "", "state": "NEW"},
        *[{"id": 1, "cust": "c", "state": "OLD"}] * 2,
    ]
    letters = project.rows("landed__dead_letter")
    assert {row["value"]: row["detail"] for row in letters} == bad
    assert {row["reason"] for row in letters} == {"unparsable"}


def test_ids_that_are_new_while_the_model_runs_are_looked_up_and_kept(
    project: Project,
) -> None:
    project.write("schemas/7.proto", V1)
    declare(project, {"id": "bigint", "country": "string"}, max_per_batch=1)
    project.model("landed", "SELECT id, country FROM {orders}", mode="append")
    project.record("orders", [in_bytes(framed(7, order(V1, id=1)))])
    project.write("schemas/9.proto", V2)
    project.record("orders", [in_bytes(framed(9, order(V2, id=2, country="DE")))])
    ran = project.run().check()
    assert len(ran.of(BatchCommitted)) == 2
    assert project.rows("landed", "id") == [
        {"id": 1, "country": None},
        {"id": 2, "country": "DE"},
    ]
    for file in (project.directory / "schemas").iterdir():
        file.unlink()
    project.record("orders", [in_bytes(framed(7, order(V1, id=3)))])
    project.run().check()
    assert project.rows("landed", "id")[-1] == {"id": 3, "country": None}


def test_batches_of_ids_that_are_known_are_read_by_one_plan(project: Project) -> None:
    project.write("schemas/7.proto", V1)
    declare(project, {"id": "bigint", "state": "string"}, max_per_batch=1)
    project.model("landed", "SELECT id, state FROM {orders}", mode="append")
    for number in range(4):
        values = [
            framed(7, order(V1, id=number * 10 + each, state=each % 2))
            for each in range(5)
        ]
        project.record("orders", [*map(in_bytes, values), in_bytes(framed(7, b"\x08"))])
    ran = project.run().check()
    assert len(ran.of(BatchCommitted)) == 4
    states = ("NEW", "OLD")
    wanted = [
        {"id": number * 10 + each, "state": states[each % 2]}
        for number in range(4)
        for each in range(5)
    ]
    assert project.rows("landed", "id") == wanted
    assert len(project.rows("landed__dead_letter")) == 4


@pytest.mark.parametrize(("wire", "size"), [("apicurio", 8), ("apicurio_headers", 0)])
def test_other_wire_forms(project: Project, wire: str, size: int) -> None:
    id_ = 2**40 + 7
    project.write(f"schemas/{id_}.proto", V1)
    declare(project, {"id": "bigint", "cust": "string"}, wire=wire)
    project.model("landed", "SELECT id, cust FROM {orders}", mode="append")
    named = base64.b64encode(id_.to_bytes(8, "big")).decode()
    headers = [] if size else [["apicurio.value.contentId", None, named]]
    body = order(V1, id=1, cust="c").SerializeToString()
    values = [body, b"\x07\x0a\x05Order" + body, b""]
    before = b"\0" + id_.to_bytes(8, "big") if size else b""
    project.record(
        "orders", [in_bytes(before + each, headers=headers) for each in values]
    )
    project.run().check()
    assert project.rows("landed", "id") == [
        {"id": 0, "cust": ""},
        *[{"id": 1, "cust": "c"}] * 2,
    ]


def test_what_a_column_cannot_hold_is_a_dead_letter_that_names_it(
    project: Project,
) -> None:
    project.write("schemas/7.proto", V2)
    columns = {
        "id": "int",
        "big": "bigint",
        "place": "struct<city:int>",
        "tags": "string",
        "counts": "map<string,int>",
    }
    declare(project, columns)
    project.model("landed", "SELECT id, big FROM {orders}", mode="append")
    bad = {
        "id: not a int, or out of its range": {"id": 2**40},
        "big: not a bigint, or out of its range": {"big": 2**63},
        "place: not a struct<city:int>, or out of its range": {
            "place": {"city": "Ede"}
        },
        "counts: not a map<string,int>, or out of its range": {"counts": {"a": 2**40}},
    }
    declare(project, {name: kind for name, kind in columns.items() if name != "tags"})
    project.record(
        "orders", [in_bytes(framed(7, order(V2, **fields))) for fields in bad.values()]
    )
    project.record(
        "orders",
        [in_bytes(framed(7, order(V2, id=1, place={"city": "7"}, counts={"a": 1})))],
    )
    project.run().check()
    assert project.rows("landed") == [{"id": 1, "big": 0}]
    assert {row["detail"] for row in project.rows("landed__dead_letter")} == bad.keys()


def test_a_type_that_holds_itself_ends_the_batch_until_it_is_declared_as_deep_as_wanted(
    project: Project,
) -> None:
    project.write(
        "schemas/7.proto", V1 + " message Node { Node next = 1; Order order = 2; }"
    )
    record = in_bytes(framed(7, b"", b"\2\2"))
    project.record("orders", [record])
    project.model("landed", "SELECT * FROM {orders}", mode="append")
    declare(project, {"next": "string"}, message="shop.Node")
    (problem,) = project.run().finished("landed").problems
    assert problem.condition == "protobuf-schema"
    assert (
        "'next.next' of stream 'orders' is of type shop.Node, which holds itself"
        in problem.what
    )
    declare(project, {"next": "struct<order:struct<id:int>>"}, message="shop.Node")
    project.run().check()
    assert project.rows("landed") == [{"next": None}]
