"""Parsing of records: what is good is as Spark reads it, and every bad record is
named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.parse import (
    DIGITS_WITH_COMMA,
    Contract,
    ContractColumn,
    parse_records,
    with_detail,
)
from lakesql.records.formats.csv import Csv

pytestmark = pytest.mark.spark

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
EVERYTHING = (
    "l bigint, i int, s smallint, t tinyint, d double, f float, m decimal(5,2), c string, b boolean, ts timestamp, "
    "dt date, n struct<x:int,d:double,ts:timestamp>, a array<int>, ad array<double>"
)

TODAY = datetime.now(UTC).replace(
    hour=0, minute=0, second=0, microsecond=0, tzinfo=None
)


def contract_of(ddl: str, *required: str, **options: Any) -> Contract:
    fields = T.StructType.fromDDL(ddl).fields  # type: ignore[attr-defined]
    return Contract(
        tuple(ContractColumn(f.name, f.dataType, f.name in required) for f in fields),
        **options,
    )


def raw_of(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    rows = [
        (f"k{i}".encode(), value, "t", 0, i, None, None)
        for i, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RAW).coalesce(1)


def parsed(
    spark: SparkSession, contract: Contract, values: list[bytes | None]
) -> list[Row]:
    return (
        parse_records(raw_of(spark, values), contract, frozenset({"offset"}))
        .orderBy("_record.offset")
        .collect()
    )


def reason_of(spark: SparkSession, ddl: str, value: str, *required: str) -> str | None:
    frame = parse_records(
        raw_of(spark, [value.encode()]), contract_of(ddl, *required), frozenset()
    )
    (row,) = frame.select("_lakesql_rejected").collect()
    return row._lakesql_rejected.reason if row._lakesql_rejected else None


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.sampled_from(
        [127, 128, 255, 256, 2**31, 2**63 - 1, 2**63, 9_223_372_036_855, 1_700_000_000]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=6),
    st.sampled_from(
        [
            "1.5",
            "true",
            "NaN",
            "Infinity",
            "",
            "2013-1-1",
            "1,000",
            "+1.5",
            ".5",
            "1e2",
            "\U0001f600",
        ]
    ),
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes().map(lambda at: at.isoformat(timespec="seconds") + "Z"),
    st.tuples(
        st.datetimes(),
        st.sampled_from(["", "Z", "z", "+01:00", "+0100", "-23:59", "+18:00", " UTC"]),
    ).map(lambda pair: pair[0].isoformat() + pair[1]),
    st.sampled_from(
        [
            "2013-01-01T05",
            "2013-01-01T05:00Z",
            "2013-01-01T05+01:00",
            "2013-01-01Z",
            "0000-01-01",
        ]
    ),
)
BARE = st.sampled_from(
    ["-0", "-0.0", "1e400", "1e39", "-1e39", "1e-500", "NaN", "Infinity", "-INF", "Inf", "01", "+1", "1.", "1.005",
     "999.995", "5.0", "1e2", "1E+2", "12.30", '"\\udc00"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\q"', "tru", "'x'",
     "1000", "999.99"]
)  # fmt: skip
VALUES = st.one_of(
    SCALARS.map(json.dumps),
    BARE,
    st.lists(SCALARS, max_size=3).map(json.dumps),
    st.dictionaries(st.sampled_from(["x", "d", "ts", "q"]), SCALARS, max_size=3).map(
        json.dumps
    ),
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "l": st.integers(-(2**63), 2**63 - 1),
        "i": st.integers(-(2**31), 2**31 - 1),
        "t": st.integers(-128, 127),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "f": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "c": st.text(max_size=8),
        "b": st.booleans(),
        "ts": st.datetimes().map(str),
        "dt": st.dates().map(str),
        "n": st.fixed_dictionaries(
            {}, optional={"x": st.integers(-9, 9), "ts": st.datetimes().map(str)}
        ),
        "a": st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3),
    },
).map(json.dumps)
NAMES = st.sampled_from(
    [name.split()[0] for name in EVERYTHING.split(", ")]
    + ["L", "zz", "_lakesql_corrupt"]
)
NEAR = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda members: (
        "{" + ", ".join(f'"{name}": {value}' for name, value in members) + "}"
    )
)
BROKEN = st.tuples(
    NEAR,
    st.integers(0, 40),
    st.sampled_from(["", "x", "}", "{", '"', "\n", ",", "[", " {}", "\u00e9"]),
).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] :])
RECORDS = st.one_of(
    FITTING.map(str.encode),
    NEAR.map(lambda text: text.encode("utf-8", "replace")),
    BROKEN.map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=6),
    st.sampled_from(
        [
            b"",
            b" ",
            b"null",
            b"[]",
            b"{}",
            b"{}{}",
            b"{} x",
            b'{"c":"\xff"}',
            b'{"zz":"\xff"}',
            b"\xef\xbb\xbf{}",
            None,
        ]
    ),
)


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(RECORDS, min_size=100, max_size=400))
def test_a_record_is_read_as_spark_reads_it_or_rejected(
    spark: SparkSession, values: list[bytes | None]
) -> None:
    contract = contract_of(EVERYTHING, "i")
    names = [column.name for column in contract.columns]
    good = parse_records(raw_of(spark, values), contract, frozenset({"offset"})).where(
        "_lakesql_rejected IS NULL"
    )
    ours = as_text(good.select("_record.offset", *names))
    alone = raw_of(spark, values).select(
        "offset", F.from_json(F.col("value").cast("string"), EVERYTHING).alias("r")
    )
    theirs = {
        row[0]: row
        for row in as_text(alone.select("offset", *(f"r.{name}" for name in names)))
    }
    assert [row for row in ours if row != theirs[row[0]]] == []


@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(FITTING.map(str.encode), min_size=50, max_size=200))
def test_a_record_that_fits_is_never_rejected(
    spark: SparkSession, values: list[bytes]
) -> None:
    frame = parse_records(
        raw_of(spark, list(values)), contract_of(EVERYTHING), frozenset({"offset"})
    )
    rejected = (
        frame.where("_lakesql_rejected IS NOT NULL").select("_record.offset").collect()
    )
    assert [values[row["offset"]] for row in rejected] == []


def as_text(frame: DataFrame) -> list[tuple[str | None, ...]]:
    """Rows in words: tells 0.0 from -0.0, NaN is itself, and a year is not bound to
    Python's."""
    words = frame.select(*(F.col(f"`{name}`").cast("string") for name in frame.columns))
    return [tuple(row) for row in words.collect()]


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("a bigint", '{"a": 9223372036854775808}'),
        ("a int", '{"a": 2147483648}'),
        ("a int", '{"a": 5.0}'),
        ("a smallint", '{"a": 32768}'),
        ("a tinyint", '{"a": 128}'),
        ("a tinyint", '{"a": 255}'),
        ("a array<tinyint>", '{"a": [1, 200]}'),
        ("a struct<b:tinyint>", '{"a": {"b": 200}}'),
        ("a map<string,tinyint>", '{"a": {"b": 200}}'),
        ("a double", '{"a": 1e400}'),
        ("a float", '{"a": 1e39}'),
        ("a double", '{"a": "infinite"}'),
        ("a array<float>", '{"a": [-1e39]}'),
        ("a decimal(5,2)", '{"a": 1000}'),
        ("a decimal(5,2)", '{"a": 999.995}'),
        ("a decimal(7,2)", '{"a": "12,50"}'),
        ("a decimal(7,2)", '{"a": " 12.5"}'),
        ("a array<decimal(7,2)>", '{"a": ["1,000"]}'),
        ("a struct<b:decimal(7,2)>", '{"a": {"b": "1,5"}}'),
        ("a decimal(7,2)", '{"a": "12\\u002c50"}'),
        ("a decimal(7,2)", "{'a': '1,000'}"),
        ("a decimal(5,2)", '{"a": 1e100000000}'),
        ("a timestamp", '{"a": 9223372036855}'),
        ("a timestamp", '{"a": 9223372036854775807}'),
        ("a timestamp", '{"a": 1700000000000}'),
        ("a timestamp", '{"a": 1700000000000000}'),
        ("n struct<a:timestamp>", '{"n": {"a": 1700000000000000}}'),
        ("a array<timestamp>", '{"a": ["2026-01-31 12:30:00", 1789272040000000]}'),
        ("a map<string,timestamp>", '{"a": {"b": -1234567890123456789}}'),
        ("n array<struct<a:timestamp>>", '{"n": [{"a": 1234567890123456789}]}'),
        ("a map<string,int>", '{"a": {"b": 1, "b": 2}}'),
        ("a array<map<string,string>>", '{"a": [{"b": "x", "c": "", "b": "x"}]}'),
        ("a timestamp", '{"a": "12:30:00"}'),
        ("a timestamp", '{"a": " T9:5"}'),
        ("a array<timestamp>", '{"a": ["2026-01-31 12:30:00", "12:30:00"]}'),
        ("a map<string,timestamp>", '{"a": {"b": "12:30:00.5Z"}}'),
        ("a timestamp", '{"a": "2013-02-30"}'),
        ("a date", '{"a": 5}'),
        ("a date", '{"a": "20260131"}'),
        ("a date", '{"a": "10000"}'),
        ("a date", '{"a": "202601"}'),
        ("a array<date>", '{"a": ["202601"]}'),
        ("a boolean", '{"a": "true"}'),
        ("a int", '{"a": 1} x'),
        ("a int", '{"a": 1}{"a": 2}'),
        ("a int", '{"a": 1},{"a": 2}'),
        ("a int", '{"a": 1}],[{}'),
        ("a int", '{"a": 1}}'),
        ("a int", '[{"a": 1}]'),
        ("a int", "null"),
        ("a int", ""),
        ("a int", "{'a': 1"),
    ],
)
def test_a_value_that_does_not_fit_is_unparsable(
    spark: SparkSession, ddl: str, value: str
) -> None:
    assert reason_of(spark, ddl, value) == "unparsable"


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("a double", '{"a": 1e308}', 1e308),
        ("a timestamp", '{"a": 1700000000}', datetime(2023, 11, 14, 22, 13, 20)),
        ("a timestamp", f'{{"a": "{TODAY.isoformat()}Z", "b": "12:30"}}', TODAY),
        ("a date", '{"a": "2026-01-31"}', date(2026, 1, 31)),
        ("a decimal(7,2)", '{"a": "12.50"}', Decimal("12.50")),
        ("a decimal(7,2)", '{"a": -1.255e1}', Decimal("-12.55")),
        (
            "a decimal(20,3)",
            '{"a": -12345678901234567.891}',
            Decimal("-12345678901234567.891"),
        ),
        (
            "a decimal(20,3)",
            '{"a": 12345678901234567.891, "b": "1,5"}',
            Decimal("12345678901234567.891"),
        ),
        (
            "a decimal(18,2)",
            '{"a": 9999999999999999.99, "b": "1,5"}',
            Decimal("9999999999999999.99"),
        ),
        ("a array<decimal(7,2)>", '{"a": [1, null]}', [Decimal("1.00"), None]),
        ("a tinyint", '{"a": -1}', -1),
        ("a int", " {'a': 1} ", 1),
        ("a int", '{"a": 1, "z": {"b": "}{"}}', 1),
        ("a int", '{"a": 1, "z": NaN, "y": {}}', 1),
        ("a string", '{"a": 5}', "5"),
        ("a map<string,int>", '{"a": {"x": 1}}', {"x": 1}),
        ("a map<string,int>", '{"a": {"x": 1, "X": 2}}', {"x": 1, "X": 2}),
        (
            "a array<timestamp>",
            '{"a": ["2026-01-31T12:30:00.5Z"], "id": 1700000000000000}',
            [datetime(2026, 1, 31, 12, 30, 0, 500_000)],
        ),
    ],
)
def test_a_value_that_spark_converts_is_accepted(
    spark: SparkSession, ddl: str, value: str, expected: Any
) -> None:
    (row,) = parsed(spark, contract_of(ddl), [value.encode()])
    assert (row.a, row._lakesql_rejected) == (expected, None)


def test_a_record_is_read_twice_only_where_a_decimal_may_have_a_comma(
    spark: SparkSession,
) -> None:
    texts = [
        '{"a":"x","b":1.5}',
        '{"a":"x","5":"y"}',
        '{"a": "x, y", "b": "1.5"}',
        '{"a":"1,5"}',
        "{'a':'-,5'}",
    ]
    doubted = spark.createDataFrame([(text,) for text in texts], "value string").where(
        F.col("value").rlike(DIGITS_WITH_COMMA)
    )
    assert [row["value"] for row in doubted.collect()] == texts[3:]


def test_the_detail_names_the_field(spark: SparkSession) -> None:
    contract = contract_of("a int, n struct<b:int,c:array<int>>, r string", "r")
    values = [
        b'{"a": 1, "n": {"b": "x"}, "r": ""}',
        b'{"a": 1, "n": {"c": [1, "x"]}}',
        b'{"a": "x"}',
        b'{"a": 1}',
    ]
    records = parse_records(raw_of(spark, values), contract, frozenset())
    rejected = (
        with_detail(records.select("_lakesql_rejected.*"), contract)
        .orderBy("offset")
        .collect()
    )
    assert [r.detail.split(":")[0] for r in rejected] == ["n.b", "n.c", "a", "r"]
    assert [r.reason for r in rejected] == ["unparsable"] * 3 + ["required-missing"]
    assert [(bytes(r.value), bytes(r.key)) for r in rejected] == [
        (v, f"k{i}".encode()) for i, v in enumerate(values)
    ]


def test_the_detail_of_a_text_that_is_not_one_object(spark: SparkSession) -> None:
    contract = contract_of("a int")
    records = parse_records(
        raw_of(spark, [b'{"a": 1}{"a": 2}', b'{"a": 1}],[{}', b"[]", b"x"]),
        contract,
        frozenset(),
    )
    rejected = (
        with_detail(records.select("_lakesql_rejected.*"), contract)
        .orderBy("offset")
        .collect()
    )
    assert [r.detail for r in rejected] == ["more than one JSON value"] * 2 + [
        "not a JSON object"
    ] * 2


@pytest.mark.parametrize("form", ["json", "csv", "string", "bytes"])
def test_a_record_without_a_value_is_a_tombstone(
    spark: SparkSession, form: Any
) -> None:
    (row,) = parsed(spark, contract_of("value string", format=form), [None])
    assert row._lakesql_rejected.reason == "tombstone"


def test_csv_records_are_read_and_unfit_ones_are_rejected(spark: SparkSession) -> None:
    contract = contract_of(
        "id bigint, at timestamp, name string",
        "id",
        format="csv",
        csv=Csv(header=True, delimiter=";", null_value="NA"),
    )
    lines = [
        b"id;at;name",
        b'1;2013-01-01 05:00:00;"a;b"',
        b"2;NA;NA",
        b"x;NA;c",
        b"NA;NA;c",
        b"3;NA",
        b"",
        b'"id";"at";"name"',
        b'\xef\xbb\xbfID; At;"name" ',
        b"id;at;nom",
    ]
    rows = parsed(spark, contract, lines)
    assert [(r.id, r.name) for r in rows if not r._lakesql_rejected] == [
        (1, "a;b"),
        (2, None),
    ]
    bad = [
        (r._record.offset, r._lakesql_rejected.reason)
        for r in rows
        if r._lakesql_rejected
    ]
    assert bad == [
        (3, "unparsable"),
        (4, "required-missing"),
        (5, "unparsable"),
        (9, "unparsable"),
    ]


@pytest.mark.parametrize("escape", ["\\", '"'])
def test_a_csv_record_is_one_line_and_may_have_the_end_of_one(
    spark: SparkSession, escape: str
) -> None:
    """A line break in quotes is a part of a value. Of several lines Spark reads the
    first, and says nothing."""
    contract = contract_of("id int, name string", format="csv", csv=Csv(escape=escape))
    quoted = f'3,"a{escape}"\nb"'.encode()
    values = [
        b"1,a\n",
        b"1,a\r\n",
        quoted,
        quoted + b"\n",
        b"1,a\n2,b",
        b"1,a\n2,b\n",
        quoted + b"\n2,b",
        b"1,a\n\n",
    ]
    rows = parsed(spark, contract, values)
    assert [r.name for r in rows if not r._lakesql_rejected] == [
        "a",
        "a",
        'a"\nb',
        'a"\nb',
    ]
    assert [
        (r._record.offset, r._lakesql_rejected.reason)
        for r in rows
        if r._lakesql_rejected
    ] == [(offset, "unparsable") for offset in (4, 5, 6, 7)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "unparsable"), ({"timestamp_format": "HH:mm dd.MM.yyyy"}, None)],
)
def test_a_csv_time_without_a_date_is_rejected(
    spark: SparkSession, options: dict[str, str], reason: str | None
) -> None:
    line = "1,12:30" if reason else f"1,12:30 {TODAY:%d.%m.%Y}"
    (row,) = parsed(
        spark,
        contract_of("id int, at timestamp", format="csv", csv=Csv(**options)),
        [line.encode()],
    )
    assert (row._lakesql_rejected and row._lakesql_rejected.reason) == reason
    assert reason or row["at"] == TODAY + timedelta(hours=12, minutes=30)


def test_text_must_be_utf8_and_bytes_need_not(spark: SparkSession) -> None:
    values = [b"caf\xc3\xa9", b"\xff"]
    strict = contract_of("value string", format="string", invalid_text="dead_letter")
    text = parsed(spark, strict, values)
    assert [r._lakesql_rejected and r._lakesql_rejected.reason for r in text] == [
        None,
        "unparsable",
    ]
    assert text[0].value == "café"
    raw = parsed(spark, contract_of("value binary", format="bytes"), values)
    assert [bytes(r.value) for r in raw] == values


def test_columns_are_those_of_the_contract_and_what_is_kept(
    spark: SparkSession,
) -> None:
    contract = contract_of("`a.b` int, `key` string, `value` int")
    frame = parse_records(
        raw_of(spark, [b'{"a.b": 1, "key": "x", "value": 2}']),
        contract,
        frozenset({"key", "topic"}),
    )
    assert frame.columns == ["a.b", "key", "value", "_record", "_lakesql_rejected"]
    assert frame.schema["_record"].dataType.names == ["topic", "key"]  # type: ignore[attr-defined]
    assert tuple(frame.select("`a.b`", "key", F.col("value")).collect()[0]) == (
        1,
        "x",
        2,
    )
