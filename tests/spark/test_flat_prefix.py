"""Flat records say what happened in fields of any prefix."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn

pytestmark = [pytest.mark.spark, pytest.mark.long]

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
COLUMNS = (ContractColumn("id", T.LongType()), ContractColumn("pos", T.StringType()))
FLAT = Contract(
    COLUMNS, key=("id",), envelope="debezium_flat", sequence=("_change.position",)
)
SAID = {
    "op": "u",
    "source_ts_ms": 1_772_400_000_000,
    "lsn": 210,
    "transaction_total_order": 3,
    "source_txId": 7,
}
FIELDS = ("op", "ts", "position", "tx", "snapshot")


def changes(
    spark: SparkSession, contract: Contract, rows: list[dict[str, object]]
) -> list[tuple[object, ...]]:
    raw = [
        (None, json.dumps(row).encode(), "t", 0, at, None, None)
        for at, row in enumerate(rows)
    ]
    parsed = parse_changes(
        spark.createDataFrame(raw, RAW).coalesce(1),
        contract,
        frozenset(),
        frozenset(FIELDS),
    )
    return [
        (row.id, row.pos, row["_change"], row["_lakesql_rejected"] is None)
        for row in parsed.collect()
    ]


def rows(prefix: str) -> list[dict[str, object]]:
    said = {prefix + name: value for name, value in SAID.items()}
    return [
        {"id": 1, "pos": "x", **said},
        {"id": 2, "pos": None, **said, prefix + "op": "d", "__deleted": "true"},
    ]


@pytest.mark.parametrize(
    ("prefix", "said"),
    [("_", None), ("_", "_"), ("x.", "x."), ("dbz_", "dbz_"), ("", "")],
)
def test_what_happened_is_found_behind_its_prefix(
    spark: SparkSession, prefix: str, said: str | None
) -> None:
    expected = changes(spark, FLAT, rows("__"))
    assert [it[2]["op"] for it in expected] == ["u", "d"] and all(
        it[2]["position"] for it in expected
    )  # type: ignore[index]
    assert (
        changes(spark, replace(FLAT, add_fields_prefix=said), rows(prefix)) == expected
    )


def test_another_prefix_is_none_that_was_said(spark: SparkSession) -> None:
    found = changes(spark, FLAT, rows("x."))
    assert [is_good for *_, is_good in found] == [False, False]


def test_a_column_of_the_row_says_nothing_of_the_change(spark: SparkSession) -> None:
    columns = (
        *COLUMNS,
        ContractColumn("_op", T.StringType()),
        ContractColumn("_lsn", T.LongType()),
    )
    row = {**rows("__")[0], "_op": "d", "_lsn": 5}
    undeclared = {**rows("__")[0], "_op": "opened", "_lsn": 5}
    del undeclared["__op"]
    (found, other) = changes(spark, replace(FLAT, columns=columns), [row, undeclared])
    assert [it[2]["op"] for it in (found, other)] == ["u", "u"]  # type: ignore[index]
    assert found[2]["position"] == [210, 3]  # type: ignore[index]
    (found,) = changes(spark, FLAT, [undeclared])
    assert (found[2]["op"], found[2]["position"], found[3]) == ("u", [210, 3], True)  # type: ignore[index]
