"""A time without a date is no timestamp, a date with more behind it no date, a number
with Java's letters no double, and an object with a name twice no map, whatever wraps
the record."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn, parse_records
from lakesql.names import REJECTED
from tests.spark.test_plain_event import RAW

pytestmark = pytest.mark.spark

TIMES = (T.TimestampType(), T.TimestampNTZType())
ALONE = ("10:00", "10:00:00Z", "1:2", "T1:2", " 07:30", "24:00")
WHOLE = ("2026-01-31T07:30:00", "2026-01-31 07:30:00", "2026-01-31")
ID = ContractColumn("id", T.LongType())


def plain(after: str) -> str:
    return after


def debezium(after: str) -> str:
    return f'{{"before":null,"after":{after},"source":{{"lsn":1}},"op":"u","ts_ms":5}}'


def wrapped(after: str) -> str:
    return f'{{"schema":null,"payload":{debezium(after)}}}'


def flat(after: str) -> str:
    return f'{{"__op":"u",{after[1:]}'


def dms(after: str) -> str:
    metadata = (
        '{"record-type":"data","operation":"update","timestamp":"2026-01-01T00:00:00Z"}'
    )
    return f'{{"data":{after},"metadata":{metadata}}}'


WRAPPED: dict[str, tuple[str, Callable[[str], str]]] = {
    "none": ("none", plain),
    "debezium": ("debezium", debezium),
    "debezium beside its schema": ("debezium", wrapped),
    "debezium_flat": ("debezium_flat", flat),
    "dms": ("dms", dms),
}


def are_taken(
    spark: SparkSession, wrap: str, column: ContractColumn, values: list[str]
) -> list[bool]:
    """Whether records with these values, as they stand in JSON, are no dead letters."""
    envelope, make = WRAPPED[wrap]
    texts = [make(f'{{"id":1,"x":{value}}}') for value in values]
    rows = [
        (bytearray(b'{"id":1}'), bytearray(text.encode()), "t", 0, at, None, None)
        for at, text in enumerate(texts)
    ]
    raw = spark.createDataFrame(rows, RAW)
    contract = Contract(
        (ID, column), key=("id",) * (envelope != "none"), envelope=envelope
    )  # type: ignore[arg-type]
    if envelope == "none":
        parsed = parse_records(raw, contract, frozenset({"offset"}))
    else:
        parsed = parse_changes(raw, contract, frozenset({"offset"}), frozenset())
    kept = parsed.select("_record.offset", f"{REJECTED}.reason")
    found = {row.offset: row.reason is None for row in kept.collect()}
    return [found[at] for at in range(len(values))]


@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_time_without_a_date_is_no_timestamp(spark: SparkSession, wrap: str) -> None:
    for kind in TIMES:
        values = [json.dumps(text) for text in (*ALONE, *WHOLE)]
        expected = [False] * len(ALONE) + [True] * len(WHOLE)
        for unit in (None, "milliseconds"):
            column = ContractColumn("x", kind, unit=unit)  # type: ignore[arg-type]
            assert are_taken(spark, wrap, column, values) == expected, (kind, unit)
        listed = [f"[{value}]" for value in values]
        assert (
            are_taken(spark, wrap, ContractColumn("x", T.ArrayType(kind)), listed)
            == expected
        ), kind


MORE = (
    "2026-03-01 xyz",
    "2026-03-01Txyz",
    "2026-03-01 10:00 later",
    "2026-03-01T25:00:00",
    "2026-3-1 1:2:3:4",
)
DAYS = (
    "2026-03-01",
    "2026-03-01 10",
    "2026-3-1",
    "2026-03",
    "2026",
    " 2026-03-01 ",
    "2026-03-01T10:00:00Z",
    "2026-03-01 10:00:00.123 +01:00",
    "2026-03-01T",
)


@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_date_with_more_behind_it_than_a_time_is_no_date(
    spark: SparkSession, wrap: str
) -> None:
    values = [json.dumps(text) for text in (*MORE, *DAYS)]
    values.append(json.dumps(MORE[0]).replace(" ", "\\u0020"))
    expected = [False] * len(MORE) + [True] * len(DAYS) + [False]
    found = are_taken(spark, wrap, ContractColumn("x", T.DateType()), values)
    assert found == expected
    listed = [f"[{value}]" for value in values]
    assert (
        are_taken(spark, wrap, ContractColumn("x", T.ArrayType(T.DateType())), listed)
        == expected
    )


JAVA = ("1d", "1.5F", "-2D", "1e3f", "0x1p3", "0X1.8p1 ", ".5d", "1.d")
NUMBERS = ("1", "1.5", "-2e3", " 4 ", "NaN", "-Infinity", ".5", "1.")


@pytest.mark.parametrize("wrap", [wrap for wrap in WRAPPED if wrap != "none"])
def test_a_number_of_javas_source_code_is_no_double(
    spark: SparkSession, wrap: str
) -> None:
    values = [json.dumps(text) for text in (*JAVA, *NUMBERS)]
    expected = [False] * len(JAVA) + [True] * len(NUMBERS)
    for kind in (T.DoubleType(), T.FloatType()):
        assert are_taken(spark, wrap, ContractColumn("x", kind), values) == expected, (
            kind
        )


def test_lines_of_csv_hold_neither(spark: SparkSession) -> None:
    texts = {
        T.DateType(): (MORE, DAYS),
        T.DoubleType(): (JAVA, NUMBERS),
        T.FloatType(): (JAVA, NUMBERS),
    }
    for kind, (wrong, right) in texts.items():
        lines = [f"{at},{text},a word" for at, text in enumerate((*wrong, *right))]
        rows = [
            (None, bytearray(line.encode()), "t", 0, at, None, None)
            for at, line in enumerate(lines)
        ]
        columns = (ID, ContractColumn("x", kind), ContractColumn("t", T.StringType()))
        parsed = parse_records(
            spark.createDataFrame(rows, RAW),
            Contract(columns, "csv"),
            frozenset({"offset"}),
        )
        kept = parsed.select("_record.offset", f"{REJECTED}.reason").collect()
        refused = {row.offset for row in kept if row.reason is not None}
        assert refused == {*range(len(wrong))}, (
            kind,
            [lines[at] for at in refused ^ {*range(len(wrong))}],
        )


@pytest.mark.parametrize("wrap", WRAPPED)
def test_an_object_with_a_name_twice_is_no_map(spark: SparkSession, wrap: str) -> None:
    kind = T.MapType(T.StringType(), T.IntegerType())
    values = ['{"a":1,"a":2}', '{"a":1,"b":2}', "{}", "null", '{"a":null,"A":1}']
    assert are_taken(spark, wrap, ContractColumn("x", kind), values) == [
        False,
        True,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("wrap", WRAPPED)
def test_times_are_of_the_years_1_to_9999(spark: SparkSession, wrap: str) -> None:
    texts = (
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59",
        "10000-01-01T00:00:00",
        "+12026-01-31T00:00:00",
    )
    values = [
        json.dumps(text)
        for text in (*texts, "0000-01-01T00:00:00", "-0001-01-01T00:00:00")
    ]
    expected = [True, True, False, False, False, False]
    for kind in TIMES:
        assert are_taken(spark, wrap, ContractColumn("x", kind), values) == expected, (
            kind
        )
        listed = [f"[{value}]" for value in values]
        assert (
            are_taken(spark, wrap, ContractColumn("x", T.ArrayType(kind)), listed)
            == expected
        ), kind
