"""Readers of Avro made of the schemas of writers and the columns of a contract,
resolved by fastavro as an oracle."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from pyspark.sql import types as T

from lakesql.engine.records.avro_reader import make_readers
from lakesql.registry.avro import parse_avro
from lakesql.registry.registered import Registered
from lakesql.registry.schema_error import NoColumnError, SchemaError
from lakesql.registry.schemas import StreamSchemas
from tests.cases import each_of

LONG, TEXT = T.LongType(), T.StringType()


def record(*fields: dict[str, Any], name: str = "shop.Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def known(
    *schemas: Any, newest: int | None = None, missing: tuple[int, ...] = ()
) -> StreamSchemas:
    found = tuple(
        Registered(id_, "AVRO", json.dumps(schema))
        for id_, schema in enumerate(schemas, 1)
    )
    return StreamSchemas("confluent", found, newest, frozenset(missing))


def resolves(reader: str, writer: str) -> bool:
    """Whether fastavro reads nothing written by the one with the other: as far as these
    tests need it."""
    texts = {
        "int": {"int", "long", "float", "double"},
        "long": {"long", "float", "double"},
    }
    wanted = {each["name"]: each for each in json.loads(reader)["fields"]}
    for each in json.loads(writer)["fields"]:
        names = [
            it
            for it in wanted.values()
            if each["name"] in (it["name"], *it.get("aliases", ()))
        ]
        for it in names:
            kinds = it["type"] if isinstance(it["type"], list) else [it["type"]]
            plain = {kind for kind in kinds if isinstance(kind, str)}
            if (
                isinstance(each["type"], str)
                and not texts.get(each["type"], {each["type"]}) & plain
            ):
                return False
    return True


def read(reader: str, writer: Any, row: dict[str, Any]) -> Any:
    written = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(json.dumps(writer)))
    fastavro.schemaless_writer(written, parsed, row)
    written.seek(0)
    return fastavro.schemaless_reader(
        written, parsed, fastavro.parse_schema(json.loads(reader))
    )


def test_one_reader_of_added_removed_renamed_and_widened_fields() -> None:
    first = record(field("id", "int"), field("cust", "string"), field("gone", "string"))
    second = record(
        field("id", "long"),
        field("customer", "string", aliases=["cust"]),
        field("n", "int", default=7),
    )
    columns = (("id", LONG), ("customer", TEXT), ("n", T.IntegerType()))
    readers = make_readers(known(first, second), columns, resolves)
    (group,) = readers.groups
    assert [id_ for id_, _ in group.writers] == [2, 1]
    assert read(group.reader, first, {"id": 1, "cust": "a", "gone": ""}) == {
        "id": 1,
        "customer": "a",
        "n": 7,
    }
    assert read(group.reader, second, {"id": 2, "customer": "b", "n": 1}) == {
        "id": 2,
        "customer": "b",
        "n": 1,
    }
    assert readers.absent == ()


def test_a_writer_that_the_newest_cannot_read_is_read_as_itself() -> None:
    wide, narrow = record(field("id", "long")), record(field("id", "int"))
    readers = make_readers(known(wide, narrow), (("id", LONG),), resolves)
    assert [[id_ for id_, _ in group.writers] for group in readers.groups] == [[2], [1]]
    assert read(readers.groups[1].reader, wide, {"id": 2**40}) == {"id": 2**40}


def test_a_field_that_only_older_records_have_is_read_of_them() -> None:
    inner = record(field("a", "int"), field("b", "int"), name="Inner")
    older = record(field("id", "int"), field("inner", inner))
    newer = record(
        field("id", "int"), field("inner", record(field("a", "int"), name="Inner"))
    )
    wanted = T.StructType(
        [T.StructField("a", T.IntegerType()), T.StructField("b", T.IntegerType())]
    )
    readers = make_readers(known(older, newer), (("inner", wanted),), resolves)
    by_id = {id_: group.reader for group in readers.groups for id_, _ in group.writers}
    assert read(by_id[1], older, {"id": 1, "inner": {"a": 1, "b": 2}}) == {
        "inner": {"a": 1, "b": 2}
    }
    assert read(by_id[2], newer, {"id": 1, "inner": {"a": 1}}) == {
        "inner": {"a": 1, "b": None}
    }
    assert readers.absent == ()


def test_a_record_with_the_former_and_the_new_name_keeps_them_apart() -> None:
    both = record(field("cust", "string"), field("customer", "string"))
    renamed = record(field("customer", "string", aliases=["cust"]))
    readers = make_readers(known(both, renamed), (("customer", TEXT),), resolves)
    by_id = {id_: group.reader for group in readers.groups for id_, _ in group.writers}
    assert read(by_id[1], both, {"cust": "old", "customer": "new"}) == {
        "customer": "new"
    }


def test_the_subjects_newest_schema_is_the_reader_whatever_ids_are() -> None:
    old, new = record(field("a", "string")), record(field("b", "string", aliases=["a"]))
    readers = make_readers(known(new, old, newest=1), (("b", TEXT),), resolves)
    (group,) = readers.groups
    assert read(group.reader, old, {"a": "x"}) == {"b": "x"}


def test_a_recursive_type_is_read_as_deep_as_it_is_declared() -> None:
    node = record(
        field("v", "int"),
        field("next", ["null", "shop.Node"], default=None),
        name="shop.Node",
    )
    schemas = known(record(field("list", node)))
    below = T.StructType([T.StructField("v", T.IntegerType())])
    wanted = T.StructType(
        [T.StructField("v", T.IntegerType()), T.StructField("next", below)]
    )
    (group,) = make_readers(schemas, (("list", wanted),), resolves).groups
    row = {"list": {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}}
    assert read(group.reader, record(field("list", node)), row) == {
        "list": {"v": 1, "next": {"v": 2}}
    }
    with pytest.raises(NoColumnError, match=r"list\.next is of type shop\.Node"):
        make_readers(schemas, (("list", TEXT),), resolves)


def test_what_no_schema_has_and_what_cannot_be_read_is_told() -> None:
    schemas = known(record(field("id", "int")), "string", missing=(9,))
    readers = make_readers(schemas, (("id", LONG), ("nmae", TEXT)), resolves)
    assert readers.absent == ("nmae",)
    assert readers.unusable == (
        (2, "is the schema of a string, not of a record"),
        (9, "is not in the registry"),
    )
    other = StreamSchemas("confluent", (Registered(1, "JSON", "{}"),))
    assert make_readers(other, (("id", LONG),), resolves).unusable == (
        (1, "is a schema of JSON, not of Avro"),
    )


def test_references_are_put_in_where_they_first_stand() -> None:
    money = record(field("cents", "long"), name="shop.types.Money")
    order = record(
        field("paid", "shop.types.Money"), field("due", ["null", "types.Money"])
    )
    order["namespace"], order["name"] = "shop", "Order"
    order["fields"][1]["type"] = ["null", "shop.types.Money"]
    found = parse_avro(json.dumps(order), [json.dumps(money)])
    alone = json.loads(found.text())
    row = {"paid": {"cents": 5}, "due": None}
    assert read(json.dumps(alone), alone, row) == row
    with pytest.raises(SchemaError, match="defined nowhere"):
        parse_avro(json.dumps(order))


def test_what_is_kept_is_read_again() -> None:
    schemas = known(record(field("id", "int")), newest=1)
    assert StreamSchemas("confluent").with_kept(schemas.text()) == schemas


@each_of(
    "text",
    [
        None,
        "",
        "cut sh",
        "[]",
        "3",
        '{"schemas": 3}',
        '{"schemas": [3]}',
        '{"schemas": [{"id": 1}]}',
        '{"schemas": [{"id": "x", "kind": "AVRO", "text": "{}"}]}',
        '{"schemas": [{"id": 1, "kind": "AVRO", "text": "{}"}], "versions": 3}',
    ],
)
def test_what_is_kept_and_cannot_be_read_is_as_if_nothing_were_kept(
    text: str | None,
) -> None:
    schemas = replace(known(record(field("id", "int")), newest=1), versions=(1,))
    assert schemas.with_kept(text) == StreamSchemas("confluent")
