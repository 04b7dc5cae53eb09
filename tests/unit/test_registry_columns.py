"""Contracts out of Avro's schemas: which column a field is, and what no column
holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place, ProjectError
from lakesql.stream.registry_columns import schema_path, takes_pulled, with_pulled
from lakesql.stream.stream import Stream, read_stream
from tests.cases import each_of

PATH = "streams/schemas/t-value.avsc"


def stream(**options: Any) -> Stream:
    entry = {
        "name": "s",
        "connection": "broker",
        "topic": "t",
        "format": "avro",
        "registry": "r",
        **options,
    }
    return read_stream(node_of(entry, Place("streams/s.yml")))


def pulled(*types: Any, **options: Any) -> list[str]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    schema = {"type": "record", "name": "shop.R", "fields": fields}
    return [
        column.type
        for column in with_pulled(
            stream(**options), PATH, {PATH: json.dumps(schema)}
        ).columns
    ]


INNER = {
    "type": "record",
    "name": "In",
    "fields": [{"name": "a b", "type": ["null", "int"]}],
}


def test_the_types_of_columns() -> None:
    def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    assert pulled(
        "int",
        ["null", "long"],
        ["null", "int", "long"],
        {"type": "string", "avro.java.string": "String"},
        logical("bytes", "decimal", precision=12, scale=2),
        {
            "type": "fixed",
            "name": "F",
            "size": 6,
            "logicalType": "decimal",
            "precision": 9,
        },
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        logical("long", "local-timestamp-micros"),
        logical("long", "time-micros"),
        logical("string", "uuid"),
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "array", "items": ["null", INNER]},
        {"type": "map", "values": "shop.In"},
        ["null", {"type": "fixed", "name": "G", "size": 2}],
    ) == [
        *("int", "bigint", "bigint", "string", "decimal(12,2)", "decimal(9,0)", "date"),
        *("timestamp", "timestamp", "timestamp_ntz", "bigint", "string", "string"),
        *("array<struct<`a b`:int>>", "map<string,struct<`a b`:int>>", "binary"),
    ]


@each_of(
    ("kind", "why"),
    [
        (["int", "string"], "is a union of int, string"),
        ("null", "is always NULL"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
            "is a decimal of 40 digits",
        ),
        (
            {
                "type": "record",
                "name": "N",
                "fields": [{"name": "n", "type": ["null", "N"]}],
            },
            "holds itself",
        ),
    ],
)
def test_what_no_column_holds_is_refused(kind: Any, why: str) -> None:
    with pytest.raises(ProjectError) as refused:
        pulled(kind)
    (problem,) = refused.value.problems
    assert (problem.condition, str(problem.place)) == ("avro-schema", PATH)
    assert "'f0'" in problem.what
    assert why in problem.what


@each_of(
    "text",
    [
        '"string"',
        "{",
        '{"type": "record", "name": "R"}',
        '{"type": "array", "items": "x"}',
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ProjectError, match="avro-schema"):
        with_pulled(stream(), PATH, {PATH: text})


def test_what_the_stream_names_must_be_a_field() -> None:
    with pytest.raises(ProjectError, match="unknown-column"):
        pulled("int", key=["id"])


def test_where_the_schema_lies() -> None:
    assert schema_path(stream(), "streams") == PATH
    assert schema_path(stream(subject="a/b:c"), "in") == "in/schemas/a%2Fb%3Ac.avsc"
    assert takes_pulled(stream())
    assert not takes_pulled(stream(columns={"id": "int"}))
