"""A pulled contract and newer schemas: what they make of its columns, and which of a
registry's schemas are newer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place, RunError
from lakesql.registry.connection import Registry
from lakesql.registry.registered import Registered
from lakesql.registry.registry_client import fetch_versions
from lakesql.registry.schemas import StreamSchemas
from lakesql.stream.followed_columns import follow_schemas
from lakesql.stream.registry_columns import with_pulled
from lakesql.stream.stream import Stream, read_stream
from tests.cases import each_of
from tests.servers.memory_registry import open_memory_registry

PATH = "streams/schemas/t-value.avsc"


def text(**fields: Any) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "shop.R", "fields": named})


def stream(**fields: Any) -> Stream:
    entry = {
        "name": "s",
        "connection": "broker",
        "topic": "t",
        "format": "avro",
        "registry": "r",
    }
    return with_pulled(
        read_stream(node_of(entry, Place("streams/s.yml"))),
        PATH,
        {PATH: text(**fields)},
    )


def followed(of: Stream, *newer: str) -> dict[str, str]:
    schemas = [Registered(number, "AVRO", each) for number, each in enumerate(newer, 2)]
    return {column.name: column.type for column in follow_schemas(of, schemas).columns}


def decimal(precision: int, scale: int = 2) -> dict[str, Any]:
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def inner(**fields: Any) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "In", "fields": named}


def test_the_files_columns_come_first_and_what_a_newer_schema_lacks_stays() -> None:
    of = stream(b="int", a="string")
    assert [
        *followed(of, text(c="int", b="int"), text(d="string", A="string")).items()
    ] == [
        ("b", "int"),
        ("a", "string"),
        ("c", "int"),
        ("d", "string"),
    ]
    assert followed(of, text(a="string")) == {"b": "int", "a": "string"}


def test_a_type_becomes_the_one_that_holds_both() -> None:
    of = stream(
        n="int",
        f="float",
        d=decimal(6),
        s=inner(x="int"),
        l={"type": "array", "items": "int"},
        w="long",
    )
    newer = text(
        n="long",
        f="double",
        d=decimal(9),
        s=["null", inner(y="string", x="long")],
        l={"type": "array", "items": "long"},
        w="int",
    )
    assert followed(of, newer) == {
        "n": "bigint",
        "f": "double",
        "d": "decimal(9,2)",
        "s": "struct<x:bigint,y:string>",
        "l": "array<bigint>",
        "w": "bigint",
    }
    assert not follow_schemas(of, [Registered(2, "AVRO", text(w="int"))]).differences
    assert not follow_schemas(
        of, [Registered(2, "PROTOBUF", "no schema of the stream's kind")]
    ).differences


@each_of(
    ("newer", "said"),
    [
        (text(n="string"), "has n as string, and the contract has it as int"),
        (text(t="int"), "has t as int, and the contract has it as string"),
        (text(n="double"), "has n as double"),
        (text(d=decimal(9, 3)), r"has d as decimal\(9,3\)"),
        (text(new=["int", "string"]), "Field 'new' is a union of int, string"),
        ("{}", "makes no columns"),
    ],
)
def test_what_no_column_holds_is_refused_with_the_id(newer: str, said: str) -> None:
    of = stream(n="int", t="string", d=decimal(6))
    with pytest.raises(RunError, match=said) as refused:
        follow_schemas(of, [Registered(7, "AVRO", newer)])
    (problem,) = refused.value.problems
    assert (problem.condition, problem.place) == ("contract-behind", of.place)
    assert "Schema 7 of subject 't-value'" in problem.what
    assert not refused.value.transient


def test_which_schemas_are_newer_is_said_by_the_versions_and_by_ids_where_there_are_none() -> (
    None
):
    texts = {1: text(c="int"), 2: text(a="int"), 3: text(b="int")}
    known = tuple(Registered(id_, "AVRO", each) for id_, each in texts.items())
    spaced = Registered(0, "AVRO", json.dumps(json.loads(texts[2]), indent=8))

    def newer(pulled: Registered, *versions: int) -> list[int] | None:
        found = StreamSchemas("confluent", known, versions=versions).after(pulled)
        return None if found is None else [each.id for each in found]

    assert newer(spaced) == [3]
    assert newer(spaced, 3, 2, 1) == [1]
    assert newer(spaced, 2, 1, 2) == []
    assert newer(Registered(0, "AVRO", text(other="int")), 3, 2, 1) is None
    assert newer(Registered(0, "PROTOBUF", texts[2])) is None
    kept = StreamSchemas("confluent", known, 1, versions=(3, 2, 1))
    assert StreamSchemas("confluent").with_kept(kept.text()) == kept


def test_versions_are_asked_for_from_the_newest_back_to_the_one_that_is_wanted() -> (
    None
):
    with open_memory_registry() as registry:
        ids = [
            registry.register("t-value", json.loads(text(**{name: "int"})))
            for name in "abc"
        ]
        asked: list[int] = []

        def is_last(each: Registered) -> bool:
            asked.append(each.id)
            return each.id == ids[1]

        of = Registry(registry.url)
        assert [each.id for each in fetch_versions(of, "t-value", is_last)] == ids[1:]
        assert asked == [ids[2], ids[1]]
        assert [
            each.id for each in fetch_versions(of, "t-value", lambda each: False)
        ] == ids
        assert fetch_versions(of, "nothing", lambda each: True) == ()
        assert (
            fetch_versions(Registry(path="somewhere"), "t-value", lambda each: True)
            == ()
        )
