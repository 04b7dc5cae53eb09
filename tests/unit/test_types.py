from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakesql.stream.types import (
    MAX_DEPTH,
    SparkType,
    TypeField,
    parse_type,
    parts_of,
    stored_type,
    type_at,
)
from tests.cases import each_of


@each_of(
    ("text", "canonical"),
    [
        ("BIGINT", "bigint"),
        ("long", "bigint"),
        ("integer", "int"),
        ("decimal", "decimal"),
        ("decimal ( 12, 2 )", "decimal(12,2)"),
        ("numeric(3)", "decimal(3)"),
        ("character(2)", "char(2)"),
        ("varchar(10)", "varchar(10)"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("time(3)", "time(3)"),
        ("variant", "variant"),
        ("void", "void"),
        ("interval", "interval"),
        ("INTERVAL DAY TO SECOND", "interval day to second"),
        ("array<array<string>>", "array<array<string>>"),
        (
            "map<string, struct<a: int, `b c`: array<date>>>",
            "map<string,struct<a:int,`b c`:array<date>>>",
        ),
        ("struct<a int, b string NOT NULL COMMENT 'it''s'>", None),
        (
            "struct<a int, b string NOT NULL COMMENT 'x'>",
            "struct<a:int,b:string not null>",
        ),
        (
            "struct<offset:bigint,timestamp:timestamp,1a:int>",
            "struct<offset:bigint,timestamp:timestamp,`1a`:int>",
        ),
        ("struct<`c``d`:int>", "struct<`c``d`:int>"),
        ("struct<>", "struct<>"),
    ],
)
def test_types_that_spark_knows_have_one_spelling(
    text: str, canonical: str | None
) -> None:
    parsed = parse_type(text)
    assert (parsed.text if parsed else None) == canonical
    if canonical is not None:
        assert parse_type(canonical) == parsed


@each_of(
    "text",
    [
        "",
        "text",
        "uuid",
        "json",
        "int int",
        "int not null",
        "int(3)",
        "`int`",
        "char",
        "varchar",
        "char(0)",
        "string(3)",
        "decimal()",
        "decimal(39,2)",
        "decimal(2,5)",
        "decimal(-1)",
        "decimal(1,2,3)",
        "time(7)",
        "timestamp(3)",
        "interval month to year",
        "interval day to day",
        "interval year to day",
        "array",
        "array<int",
        "array<int>>",
        "array<int,int>",
        "map<int>",
        "map<map<int,int>,int>",
        "struct",
        "struct<a:>",
        "struct<a:int,>",
        "struct<,>",
        "struct<a:int,A:int>",
        "struct<a.b:int>",
        "struct<1:int>",
        "int; drop table x",
        "int -- x",
        "int) as y, (z",
    ],
)
def test_everything_else_is_no_type(text: str) -> None:
    assert parse_type(text) is None


def test_a_type_is_a_tree() -> None:
    item = SparkType(
        "struct", (), (TypeField("sku", SparkType("string"), required=True),)
    )
    assert parse_type("array<struct<sku: string not null>>") == SparkType(
        "array", (), (TypeField("", item),)
    )


def test_nesting_has_a_bound() -> None:
    deepest = "array<" * MAX_DEPTH + "int" + ">" * MAX_DEPTH
    assert parse_type(deepest) is not None
    assert parse_type(f"array<{deepest}>") is None
    assert parse_type("array<" * 100_000) is None


_LEAVES = st.sampled_from(
    [
        "int",
        "string",
        "decimal(10,2)",
        "timestamp_ntz",
        "interval day to second",
        "binary",
    ]
)
_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_TYPES = st.recursive(
    _LEAVES.map(parse_type),
    lambda inner: (
        inner.map(lambda part: SparkType("array", (), (TypeField("", part),)))
        | st.lists(
            st.tuples(_NAMES, inner), max_size=3, unique_by=lambda pair: pair[0].lower()
        ).map(
            lambda pairs: SparkType(
                "struct", (), tuple(TypeField(name, part) for name, part in pairs)
            )
        )
    ),
    max_leaves=8,
)


@given(_TYPES)
def test_every_type_reads_back_from_its_own_text(spark_type: SparkType) -> None:
    assert parse_type(spark_type.text) == spark_type


@given(st.text(alphabet="array<>struct:int,()`' 0123456789"))
def test_no_text_is_too_odd_to_be_refused(text: str) -> None:
    parsed = parse_type(text)
    assert parsed is None or parse_type(parsed.text) == parsed


@each_of(
    ("text", "stored"),
    [
        ("BIGINT", "bigint"),
        ("long", "bigint"),
        ("smallint", "int"),
        ("Integer", "int"),
        ("real", "float"),
        ("varchar(20)", "string"),
        ("DECIMAL", "decimal(10,0)"),
        ("numeric( 7 )", "decimal(7,0)"),
        ("decimal(12, 2)", "decimal(12,2)"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("array < short >", "array<int>"),
        ("MAP<STRING, ARRAY<LONG>>", "map<string,array<bigint>>"),
        (
            "STRUCT<A: INT NOT NULL COMMENT 'x, y>', b: struct<c:dec(3,1)>>",
            "struct<A:int,b:struct<c:decimal(3,1)>>",
        ),
        ("struct<a int, b string>", "struct<a:int,b:string>"),
        ("struct<`a b`: int, `c``d`:short>", "struct<`a b`:int,`c``d`:int>"),
        ("struct<>", "struct<>"),
        ("interval day to second", "interval day to second"),
        ("array<", "array<"),
        ("", ""),
    ],
)
def test_a_table_stores_a_type_in_one_spelling(text: str, stored: str) -> None:
    assert stored_type(text) == stored
    assert stored_type(stored) == stored


def test_the_parts_of_a_type_are_itself_and_all_in_it() -> None:
    kind = parse_type("map<string, struct<a: array<date>>>")
    assert kind is not None
    assert [part.name for part in parts_of(kind)] == [
        "map",
        "string",
        "struct",
        "array",
        "date",
    ]


@each_of(
    ("path", "found"),
    [
        ("S", "struct<T:timestamp,inner:struct<`a b`:int>,many:array<struct<x:int>>>"),
        ("s.t", "timestamp"),
        ("s.INNER.a b", "int"),
        ("s.gone", ""),
        ("s.t.x", ""),
        ("s.many.x", ""),
        ("gone.t", ""),
    ],
)
def test_a_field_has_its_type_by_its_path(path: str, found: str) -> None:
    types = {
        "s": "struct<T:timestamp,inner:struct<`a b`:int>,many:array<struct<x:int>>>"
    }
    assert type_at(types, path) == found
