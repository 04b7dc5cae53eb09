"""Values that no type has: Postgres' `infinity`, and whatever stands in a column that
nothing reads."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn
from lakesql.stream.stream import Infinity

pytestmark = [pytest.mark.spark, pytest.mark.long]

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
LAST, FIRST = datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1)
VALUES: tuple[tuple[str, Any, Any, Any], ...] = (
    ("at", 9223372036825200000, LAST, None),
    ("at", -9223372036832400000, FIRST, None),
    ("at", "infinity", LAST, None),
    ("at", "-infinity", FIRST, None),
    ("at", "294247-01-10T04:00:54.775807Z", LAST, None),
    ("at", "+292278994-08-16T23:00:00Z", LAST, None),
    ("at", "-290308-12-21T19:59:05.224192Z", FIRST, None),
    ("day", 2147483647, LAST.date(), None),
    ("day", -2147483648, FIRST.date(), None),
    ("day", "infinity", LAST.date(), None),
    (
        "at",
        2147483647,
        datetime(1970, 1, 1, 0, 35, 47, 483647),
        datetime(1970, 1, 1, 0, 35, 47, 483647),
    ),
    ("day", 1, date(1970, 1, 2), date(1970, 1, 2)),
    ("at", 1_000_000, datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 1)),
    (
        "days",
        [2147483647, 0],
        [LAST.date(), date(1970, 1, 1)],
        [None, date(1970, 1, 1)],
    ),
)
"""A column, what is sent, and what it is with `max` and with `null`."""
SENSELESS = (
    ("at", "noon"),
    ("day", "never"),
    ("at", 9223372036825200001),
    ("day", 2147483646),
)


def columns(
    infinity: Infinity, required: bool = False, nested: bool = True
) -> tuple[ContractColumn, ...]:
    kinds = {
        "at": T.TimestampNTZType(),
        "day": T.DateType(),
        **({"days": T.ArrayType(T.DateType())} if nested else {}),
    }
    times = (
        ContractColumn(
            name,
            kind,
            required,
            unit="microseconds" if name == "at" else None,
            infinity=infinity,
        )
        for name, kind in kinds.items()
    )
    return (ContractColumn("id", T.IntegerType()), *times)


def parsed(
    spark: SparkSession, contract: Contract, rows: list[dict[str, Any]]
) -> list[T.Row]:
    source = {"connector": "postgresql", "lsn": 1}
    values = [
        json.dumps({"before": None, "after": row, "op": "c", "source": source}).encode()
        for row in rows
    ]
    raw = spark.createDataFrame(
        [(b'{"id":1}', value, "t", 0, 0, None, None) for value in values], RAW
    ).coalesce(1)
    return parse_changes(raw, contract, frozenset(), frozenset()).collect()


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("infinity", ["dead_letter", "null", "max"])
def test_what_becomes_of_infinity_is_the_streams(
    spark: SparkSession, infinity: Infinity, nested: bool
) -> None:
    contract = Contract(
        columns(infinity, nested=nested), key=("id",), envelope="debezium"
    )
    cases = [case for case in VALUES if nested or case[0] != "days"]
    found = parsed(
        spark, contract, [{"id": 1, name: value} for name, value, *_ in cases]
    )
    for row, (name, value, last, null) in zip(found, cases, strict=True):
        is_infinite = last != null
        if infinity == "dead_letter" and is_infinite:
            assert row["_lakesql_rejected"]["reason"] == "unparsable", value
            continue
        assert row["_lakesql_rejected"] is None, value
        assert row[name] == (last if infinity == "max" else null), value
    senseless = parsed(
        spark, contract, [{"id": 1, name: value} for name, value in SENSELESS]
    )
    assert [row["_lakesql_rejected"]["reason"] for row in senseless] == [
        "unparsable"
    ] * len(SENSELESS)


def test_null_for_infinity_is_missing_where_it_is_required(spark: SparkSession) -> None:
    contract = Contract(
        columns("null", required=True, nested=False), key=("id",), envelope="debezium"
    )
    rows = [
        {"id": 1, "at": "infinity", "day": 0},
        {"id": 1, "at": 0, "day": 2147483647},
        {"id": 1, "at": 0, "day": 0},
    ]
    found = [row["_lakesql_rejected"] for row in parsed(spark, contract, rows)]
    assert [letter and letter["reason"] for letter in found] == [
        "required-missing",
        "required-missing",
        None,
    ]


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("infinity", ["dead_letter", "null"])
def test_infinity_in_a_column_that_nothing_reads_is_no_fault(
    spark: SparkSession, infinity: Infinity, required: bool
) -> None:
    contract = Contract(
        columns(infinity, required, nested=False),
        key=("id",),
        envelope="debezium",
        unused=("at", "day"),
    )
    whole = {"id": 1, "at": 0, "day": 0}
    infinite = [{**whole, "at": "infinity"}, {**whole, "day": 2147483647}]
    found = parsed(spark, contract, [whole, *infinite])
    assert [row["_lakesql_rejected"] for row in found] == [None] * 3
    others = parsed(spark, contract, [{**whole, name: it} for name, it in SENSELESS])
    assert all(row["_lakesql_rejected"] for row in others)
