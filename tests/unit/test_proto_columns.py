"""Contracts out of Protobuf's schemas: which column a field is, and what no column
holds."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from lakesql.decode import node_of
from lakesql.errors import Place, ProfileError, ProjectError
from lakesql.registry import proto_compiler
from lakesql.registry.proto_compiler import compile_files
from lakesql.registry.proto_schema import ProtoSchema, parse_proto
from lakesql.registry.proto_text import proto_text
from lakesql.registry.schema_error import SchemaError
from lakesql.stream.registry_columns import schema_path, takes_pulled, with_pulled
from lakesql.stream.stream import Stream, read_stream
from tests.cases import each_of

PATH = "streams/schemas/t-value.proto"
HEAD = 'syntax = "proto3"; package shop; '
KNOWN = "".join(
    f'import "google/protobuf/{each}.proto"; '
    for each in ("timestamp", "duration", "wrappers", "struct", "any")
)


def stream(**options: Any) -> Stream:
    entry = {
        "name": "s",
        "connection": "broker",
        "topic": "t",
        "format": "protobuf",
        "registry": "r",
        **options,
    }
    return read_stream(node_of(entry, Place("streams/s.yml")))


def pulled(
    text: str, files: dict[str, str] | None = None, **options: Any
) -> dict[str, str]:
    texts = {
        PATH: text,
        **{
            f"{PATH.removesuffix('.proto')}/{name}": it
            for name, it in (files or {}).items()
        },
    }
    return {
        column.name: column.type
        for column in with_pulled(stream(**options), PATH, texts).columns
    }


def problem(text: str, **options: Any) -> str:
    with pytest.raises(ProjectError) as refused:
        pulled(text, **options)
    (found,) = refused.value.problems
    assert (found.condition, str(found.place)) == ("protobuf-schema", PATH)
    return found.what


def test_the_types_of_columns() -> None:
    kinds = (
        *(
            "double",
            "float",
            "int32",
            "int64",
            "uint32",
            "uint64",
            "sint32",
            "sint64",
            "fixed32",
            "fixed64",
        ),
        *("sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
    scalars = " ".join(
        f"{kind} f_{kind} = {number};" for number, kind in enumerate(kinds, 1)
    )
    assert list(pulled(f"{HEAD} message M {{ {scalars} }}").values()) == [
        *(
            "double",
            "float",
            "int",
            "bigint",
            "bigint",
            "decimal(20,0)",
            "int",
            "bigint",
            "bigint",
            "decimal(20,0)",
        ),
        *("int", "bigint", "boolean", "string", "binary"),
    ]
    assert pulled(
        f"{HEAD} {KNOWN} message M {{ google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2;"
        "google.protobuf.UInt64Value big = 3; google.protobuf.BoolValue ok = 4; google.protobuf.Struct json = 5;"
        "google.protobuf.Any any = 6; repeated In ins = 7; map<int32, In> by = 8; enum E { A = 0; } E e = 9;"
        "oneof o { string left = 10; In right = 11; } repeated E es = 12;"
        "message In { int32 a = 1; Deeper b = 2; } message Deeper { bytes c = 1; } }"
    ) == {
        "at": "timestamp",
        "took": "decimal(21,9)",
        "big": "decimal(20,0)",
        "ok": "boolean",
        "json": "string",
        "any": "struct<type_url:string,value:binary>",
        "ins": "array<struct<a:int,b:struct<c:binary>>>",
        "by": "map<int,struct<a:int,b:struct<c:binary>>>",
        "e": "string",
        "left": "string",
        "right": "struct<a:int,b:struct<c:binary>>",
        "es": "array<string>",
    }


def test_proto2_and_editions() -> None:
    assert pulled(
        "message M { required int32 a = 1; optional string b = 2; repeated int64 c = 3; }"
    ) == {
        "a": "int",
        "b": "string",
        "c": "array<bigint>",
    }
    schema = parse_proto(
        'edition = "2023"; message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }'
    )
    assert [each.has_presence for each in schema.messages["M"].fields] == [True, False]


def test_comments_are_descriptions() -> None:
    text = f"{HEAD} message M {{\n  // What it\n  // is.\n  int32 a = 1;\n  int32 b = 2; // And this.\n}}"
    columns = with_pulled(stream(), PATH, {PATH: text}).columns
    assert [column.description for column in columns] == ["What it is.", "And this."]


def test_files_that_are_imported() -> None:
    text = f'{HEAD} import "a/b.proto"; import "google/type/money.proto"; import "confluent/meta.proto";'
    text += "message M { B b = 1; google.type.Money m = 2 [(confluent.field_meta).doc = 'd']; }"
    files = {
        "a/b.proto": f'{HEAD} import "c.proto"; message B {{ C c = 1; }}',
        "c.proto": f"{HEAD} message C {{ int32 d = 1; }}",
    }
    money = "struct<currency_code:string,units:bigint,nanos:int>"
    assert pulled(text, files) == {"b": "struct<c:struct<d:int>>", "m": money}
    del files["c.proto"]
    with pytest.raises(ProjectError, match="protobuf-schema"):
        pulled(text, files)


@each_of(
    ("text", "why"),
    [
        ("message M { M m = 1; }", "'m' is of type shop.M, which holds itself"),
        (
            "message M { A a = 1; } message A { repeated A as = 1; }",
            "'a.as' is of type shop.A, which holds itself",
        ),
        (
            "message M { E e = 1; } message E {}",
            "'e' is of type shop.E, which has no fields",
        ),
        (
            "message M { map<string, M> m = 1; }",
            "'m.value' is of type shop.M, which holds itself",
        ),
        ("message M { N n = 1; }", '"N" is not defined'),
        ("enum E { A = 0; }", "There is no message in it"),
        ("message M {", "Reached end of input"),
    ],
)
def test_what_no_column_holds_is_refused(text: str, why: str) -> None:
    assert why in problem(HEAD + text)


def test_a_group_is_refused() -> None:
    assert "'g' is a group" in problem(
        "message M { optional group G = 1 { optional int32 a = 1; } }"
    )


def test_the_message_is_named_where_there_are_several() -> None:
    text = (
        HEAD
        + "message A { int32 a = 1; } message B { int32 b = 1; message C { int32 c = 1; } }"
    )
    assert pulled(text) == {"a": "int"}
    assert pulled(text, message="shop.B") == {"b": "int"}
    assert pulled(text, message="C") == {"c": "int"}
    assert "no message shop.X" in problem(text, message="shop.X")


def test_paths_of_messages() -> None:
    text = HEAD + "message A { message B {} message C { message D {} } } message E {}"
    names = {
        (0,): "shop.A",
        (0, 0): "shop.A.B",
        (0, 1): "shop.A.C",
        (0, 1, 0): "shop.A.C.D",
        (1,): "shop.E",
    }
    assert parse_proto(text).paths == names


def test_where_the_schema_lies() -> None:
    assert schema_path(stream(), "streams") == PATH
    assert takes_pulled(stream())
    assert not takes_pulled(stream(columns={"id": "int"}))


RICH = f"""{HEAD} {KNOWN}
message A {{
  reserved 3, 6 to 8;
  reserved "gone", "past";
  enum E {{ option allow_alias = true; X = 0; Y = 1; Z = 1; }}
  message In {{ int32 a = 1; message Deep {{ bytes b = 1; }} Deep deep = 2; }}
  int32 id = 1;
  optional string name = 2;
  oneof choice {{ E left = 4; In right = 5; }}
  repeated In ins = 9;
  map<string, In> by = 10;
  google.protobuf.Timestamp at = 11;
  map<int32, google.protobuf.Int32Value> numbers = 12;
}}
enum Outer {{ NONE = 0; }}
message B {{ A a = 1; A.In.Deep deep = 2; Outer outer = 3; }}
"""
PROTO2 = (
    'syntax = "proto2"; message A { required int32 a = 1; optional string b = 2 [default = "x\\"\\n"]; '
    "optional E e = 3 [default = Y]; repeated double d = 4; enum E { X = 0; Y = 1; } optional bytes by = 5 "
    '[default = "\\001a"]; }'
)


def described(text: str) -> Any:
    written = compile_files({"a.proto": text}, "a.proto")
    found = descriptor_pb2.FileDescriptorSet.FromString(written).file[-1]
    found.ClearField("source_code_info")
    return found


@pytest.mark.parametrize("text", [RICH, PROTO2])
def test_a_descriptor_as_text_and_back(text: str) -> None:
    found = described(text)
    again = described(proto_text(found))
    for each in (found, again):
        each.ClearField("options")
    assert again.package == found.package
    assert parse_proto(proto_text(found)) == parse_proto(text)
    assert sorted(map(str, again.message_type[0].reserved_range)) == sorted(
        map(str, found.message_type[0].reserved_range)
    )


def test_a_descriptor_in_base64_is_a_schema_and_so_is_what_it_imports() -> None:
    inner = described(f"{HEAD} message C {{ int32 d = 1; }}")
    inner.name = "c.proto"
    outer = descriptor_pb2.FileDescriptorProto.FromString(inner.SerializeToString())
    outer.name, outer.message_type[0].name = "m.proto", "M"
    outer.dependency.append("c.proto")
    outer.message_type[0].field[0].type, outer.message_type[0].field[0].type_name = (
        11,
        ".shop.C",
    )

    def text(file: Any) -> str:
        return base64.b64encode(file.SerializeToString()).decode()

    wanted = ProtoSchema(
        parse_proto(text(outer), (("c.proto", text(inner)),)).messages,
        {},
        {(0,): "shop.M"},
    )
    assert [each.name for each in wanted.messages.values()] == ["shop.M", "shop.C"]
    for imported in (text(inner), f"{HEAD} message C {{ int32 d = 1; }}"):
        assert parse_proto(text(outer), (("c.proto", imported),)) == wanted
    written = f'{HEAD} import "c.proto"; message M {{ C d = 1; }}'
    assert parse_proto(written, (("c.proto", text(inner)),)) == wanted
    with pytest.raises(SchemaError, match=r"c\.proto"):
        parse_proto(text(outer))


def test_an_import_that_leaves_the_folder_is_refused() -> None:
    with pytest.raises(SchemaError, match="no name of a schema"):
        parse_proto(f"{HEAD} message M {{ int32 a = 1; }}", (("../x.proto", HEAD),))


def test_a_compiler_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(proto_compiler.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileError, match="extra-missing"):
        compile_files({"a.proto": HEAD}, "a.proto")
