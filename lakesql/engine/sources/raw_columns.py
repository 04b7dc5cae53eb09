"""The one shape of raw records, Kafka's, and the two readers of Spark that bring
them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakesql.compile.quote import identifiers
from lakesql.names import ROW

Reader = DataStreamReader | DataFrameReader
"""Spark's two readers, which take the same options."""


def as_rows(
    rows: DataFrame,
    columns: Sequence[str],
    topic: str,
    timestamp: str = "NULL",
    offset: str = "NULL",
) -> DataFrame:
    """Rows of a structured source in the shape of raw records: the row itself stands in
    one struct."""
    row = f"struct({identifiers(columns)}) AS {ROW}"
    return rows.selectExpr(*raw_columns(topic, timestamp, offset), row)


def raw_columns(
    topic: str, timestamp: str, offset: str = "NULL", value: str = "NULL"
) -> tuple[str, ...]:
    """The columns of raw records that have no key, no partition and no headers.
    Everything is SQL."""
    return (
        "CAST(NULL AS binary) AS key",
        f"CAST({value} AS binary) AS value",
        f"CAST({topic} AS string) AS topic",
        "0 AS partition",
        f"CAST({offset} AS bigint) AS offset",
        f"CAST({timestamp} AS timestamp) AS timestamp",
        "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers",
    )
