"""Columns that are read from the keys of records: by a registry's schemas, and as
JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from lakesql.run.samples.pull_schemas import pull_schemas
from tests.messages import framed as message
from tests.messages import message_of
from tests.spark.project import Project, in_bytes, use_schema_folder
from tests.spark.test_registry import body, field, framed, header, record

KEY_1 = record(field("id", "int"), field("region", "string"), name="shop.Key")
KEY_2 = record(
    field("region", "string"),
    field("id", "long"),
    field("shard", "int", default=3),
    name="shop.Key",
)
VALUE = record(field("id", "long"), field("name", "string"), name="shop.Thing")
COLUMNS = {
    "key_id": {"type": "bigint", "in": "key", "from": "id", "required": True},
    "name": "string",
    "region": {"type": "string", "in": "key"},
    "id": "bigint",
}


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    """A project whose registry is a folder with two schemas of keys, and one of
    values."""
    project = new_project()
    use_schema_folder(project)
    for id_, schema in (
        (1, KEY_1),
        (2, KEY_2),
        (3, VALUE),
        (4, "string"),
        (5, ["null", "long"]),
    ):
        project.write(f"schemas/{id_}.avsc", json.dumps(schema))
    return project


def thing(id_: int, name: str) -> bytes:
    return framed(3, body(VALUE, {"id": id_, "name": name}))


def key(id_: int, region: str, schema: int = 1) -> bytes:
    return framed(
        schema,
        body({1: KEY_1, 2: KEY_2}[schema], {"id": id_, "region": region, "shard": 1}),
    )


def test_columns_of_keys_in_avro_stand_beside_those_of_values(project: Project) -> None:
    """Each key is read by its own schema; what cannot be read makes the record a dead
    letter."""
    project.stream(
        "things", COLUMNS, format="avro", registry="schemas", key_format="avro"
    )
    project.model("landed", "SELECT *, _record.key AS raw FROM {things}", mode="append")
    good = [
        in_bytes(thing(1, "a"), key(11, "eu")),
        in_bytes(thing(2, "b"), key(2**40, "us", 2)),
    ]
    bad: dict[bytes | None, str] = {
        key(1, "eu")[:-1]: "the key: not a record of the Avro schema",
        b"plain": "the key: it does not begin with a byte 0 and the 4 bytes of a schema's id",
        framed(9, b"\2"): "the key: schema id 9 is not in the registry",
        framed(
            4, b"\2a"
        ): "the key: schema id 4 is the schema of a string, not of a record",
        None: "the key: id",
    }
    worse = in_bytes(thing(3, "c")[:-1], key(1, "eu"))
    project.record(
        "things", [*good, *(in_bytes(thing(9, "z"), each) for each in bad), worse]
    )
    project.run().check()
    assert project.rows("landed", "id") == [
        {"key_id": 11, "name": "a", "region": "eu", "id": 1, "raw": key(11, "eu")},
        {
            "key_id": 2**40,
            "name": "b",
            "region": "us",
            "id": 2,
            "raw": key(2**40, "us", 2),
        },
    ]
    letters = project.rows("landed__dead_letter")
    assert {
        row["key"]: row["detail"] for row in letters if row["value"] == thing(9, "z")
    } == bad
    assert [row["detail"] for row in letters if row["key"] == key(1, "eu")] == [
        "not a record of the Avro schema"
    ]
    assert project.reasons("landed") == {"unparsable": 5, "required-missing": 1}


def test_a_tombstone_deletes_the_row_of_a_key_in_avro(project: Project) -> None:
    """The key's columns are found in it by their names, whether the values have them
    too or not."""
    columns = {"id": {"type": "bigint", "required": True}, "name": "string"}
    project.stream(
        "things",
        columns,
        format="avro",
        registry="schemas",
        key_format="avro",
        key=["id"],
    )
    project.model("newest", "SELECT id, name FROM {things}", mode="upsert", keys="id")
    keyed = {"k": {"type": "bigint", "in": "key", "from": "id"}, "name": "string"}
    options = {
        "format": "avro",
        "registry": "schemas",
        "topic": "things",
        "connection": "broker",
    }
    project.stream("keyed", keyed, key_format="avro", key=["k"], **options)
    project.model("kept", "SELECT k, name FROM {keyed}", mode="upsert", keys="k")
    sent = [
        in_bytes(thing(id_, f"n{id_}"), key(id_, "eu", 1 + id_ % 2)) for id_ in range(6)
    ]
    gone = [in_bytes(None, key(id_, "us", 2)) for id_ in (1, 4)]
    unread = {
        key(3, "eu")[
            :-1
        ]: "the record has no value, and the key: not a record of the Avro schema"
    }
    project.record("things", [*sent, *gone, *(in_bytes(None, each) for each in unread)])
    project.run().check()
    left = [id_ for id_ in range(6) if id_ not in (1, 4)]
    assert project.rows("newest", "id") == [
        {"id": id_, "name": f"n{id_}"} for id_ in left
    ]
    assert project.rows("kept", "k") == [{"k": id_, "name": f"n{id_}"} for id_ in left]
    for model in ("newest", "kept"):
        letters = {
            row["key"]: (row["reason"], row["detail"])
            for row in project.rows(f"{model}__dead_letter")
        }
        assert letters == {each: ("tombstone", said) for each, said in unread.items()}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_texts_and_numbers_are_keys_of_values_without_a_registry(
    project: Project, kind: str
) -> None:
    """A key of a schema that describes no record is the one column that stands in
    keys."""
    columns = {
        "k": {"type": "string", "in": "key"},
        "n": {"type": "int", "required": True},
    }
    project.stream(
        "things", columns, format=kind, registry="schemas", key_format="avro"
    )
    project.model("landed", "SELECT * FROM {things}", mode="append")
    value = b'{"n":1}' if kind == "json" else b"1"
    keys = [framed(4, b"\6abc"), framed(5, b"\2\x0e"), framed(5, b"\0"), None]
    project.record(
        "things",
        [
            *(in_bytes(value, each) for each in keys),
            in_bytes(value, framed(4, b"\6ab")),
        ],
    )
    project.run().check()
    assert (
        project.rows("landed")
        == [{"k": found, "n": 1} for found in ("7", "abc")] + [{"k": None, "n": 1}] * 2
    )
    (letter,) = project.rows("landed__dead_letter")
    assert letter["detail"] == "the key: not a record of the Avro schema"
    assert pull_schemas(project.manifest(), ()) == []  # no contract is a schema of keys


def test_keys_in_protobuf(project: Project) -> None:
    text = 'syntax = "proto3"; package shop; message Key { int64 id = 1; string region = 2; }'
    project.write("schemas/7.proto", text)
    project.stream(
        "things", COLUMNS, format="avro", registry="schemas", key_format="protobuf"
    )
    project.model("landed", "SELECT key_id, region, id FROM {things}", mode="append")
    made = message_of(text, "shop.Key")(id=12, region="eu")
    keys = [message(7, made), message(7, made)[:-1]]
    project.record(
        "things", [in_bytes(thing(at, "a"), each) for at, each in enumerate(keys)]
    )
    project.run().check()
    assert project.rows("landed") == [{"key_id": 12, "region": "eu", "id": 0}]
    (letter,) = project.rows("landed__dead_letter")
    assert (letter["key"], letter["detail"][:48]) == (
        keys[1],
        "the key: not a record of the Protobuf schema: Wi"[:48],
    )


def test_ids_of_keys_in_headers(project: Project) -> None:
    """Key and value are written with schemas of their own, each named by a header of
    its own."""
    project.stream(
        "things",
        COLUMNS,
        format="avro",
        registry="schemas",
        key_format="avro",
        wire="apicurio_headers",
    )
    project.model("landed", "SELECT key_id, region, id FROM {things}", mode="append")
    project.write("schemas/global-1.avsc", json.dumps(KEY_2))
    of_value = header("contentId", 3)
    of_key = [
        "apicurio.key.globalId",
        None,
        base64.b64encode((1).to_bytes(8, "big")).decode(),
    ]
    written = body(KEY_2, {"id": 5, "region": "eu", "shard": 1})
    sent = [
        in_bytes(thing(1, "a")[5:], written, headers=headers)
        for headers in ([of_value, of_key], [of_value])
    ]
    project.record("things", sent)
    project.run().check()
    assert project.rows("landed") == [{"key_id": 5, "region": "eu", "id": 1}]
    (letter,) = project.rows("landed__dead_letter")
    assert letter["detail"].startswith(
        "the key: it has no header apicurio.key.contentId or apicurio.key.globalId"
    )


@pytest.mark.parametrize("kind", ["json", "json_schema"])
def test_keys_in_json(project: Project, kind: str) -> None:
    columns = {**COLUMNS, "id": {"type": "bigint", "required": True}}
    project.stream("things", columns, format=kind)
    project.model("landed", "SELECT key_id, region, id FROM {things}", mode="append")

    def written(value: Any) -> bytes:
        text = json.dumps(value).encode()
        return framed(3, text) if kind == "json_schema" else text

    lines = [
        in_bytes(written({"id": 1, "name": "a"}), written({"id": 7, "region": "eu"})),
        in_bytes(written({"id": 2, "name": "a"}), written({"id": "x", "region": "eu"})),
        in_bytes(written({"id": 3, "name": "a"}), written({"region": "eu"})),
        in_bytes(written({"id": 4, "name": "a"}), b"{"),
    ]
    project.record("things", lines)
    project.run().check()
    assert project.rows("landed") == [{"key_id": 7, "region": "eu", "id": 1}]
    details = sorted(
        (row["reason"], row["detail"]) for row in project.rows("landed__dead_letter")
    )
    assert details == [
        ("required-missing", "the key: id"),
        ("unparsable", "the key: id: not a bigint, or out of its range"),
        ("unparsable", "the key: not a JSON object"),
    ]
