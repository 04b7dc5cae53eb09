"""What a unit test on Spark gives to a model and reads from it: records as a topic has
them, rows of tables, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.catalog.tables import python_rows
from lakesql.compile.quote import table_name, text
from lakesql.engine.batch.analyze import type_text
from lakesql.engine.sources.spark_source import as_rows
from lakesql.engine.sources.table_commits import BEFORE, NOW, as_changes
from lakesql.engine.spark.gateway import java_class
from lakesql.model.table_name import TableName

GivenRecord = tuple[str | None, str | None, int, int, dict[str, str]]
"""A record's key, value, offset, time in milliseconds, and headers."""

_RAW = ("key", "value", "offset", "timestamp", "headers")
_HEADERS = "array<struct<key:string,value:binary>>"


def given_records(
    session: SparkSession, topic: str, records: Sequence[GivenRecord]
) -> DataFrame:
    """Raw records of a topic's first partition, in the shape of `read_raw`."""
    return _local_rows(session, _RAW, [_raw_values(it) for it in records]).selectExpr(
        "key",
        "value",
        f"{text(topic)} AS topic",
        "0 AS partition",
        "offset",
        "timestamp",
        "headers",
    )


def _raw_values(record: GivenRecord) -> tuple[str, ...]:
    """The values of the columns `_RAW`, as SQL."""
    key, value, offset, timestamp_ms, headers = record
    entries = (
        f"struct({text(name)} AS key, {_binary(it)} AS value)"
        for name, it in headers.items()
    )
    listed = f"CAST(array({', '.join(entries)}) AS {_HEADERS})"
    return (
        _binary(key),
        _binary(value),
        f"{offset}L",
        f"timestamp_millis({timestamp_ms}L)",
        listed,
    )


def _binary(value: str | None) -> str:
    return "NULL" if value is None else f"X'{value.encode().hex()}'"


def given_rows(
    session: SparkSession, table: TableName, rows: Sequence[str]
) -> DataFrame:
    """Rows, each a JSON object with some of a table's columns, as a stream of the table
    reads appended rows."""
    found = _rows_of(session, table, rows)
    return as_rows(found, found.columns, text(str(table)))


def given_changes(
    session: SparkSession, table: TableName, changes: Sequence[str]
) -> DataFrame:
    """Changes of a table's rows, each a JSON object with its `op`, the rows `now` and
    `before`, the time of its commit in milliseconds, `at_ms`, and the `number` that
    orders it after others."""
    row = _row_type(session, table)
    schema = (
        T.StructType()
        .add("op", "string")
        .add("now", row)
        .add("before", row)
        .add("at_ms", T.LongType())
    )
    found = _read_json(session, changes, schema.add("number", T.IntegerType()))
    rows = found.withColumnsRenamed({"now": NOW, "before": BEFORE})
    return as_changes(rows, table, "timestamp_millis(at_ms)", "number", "op")


def insert_rows(session: SparkSession, table: TableName, rows: Sequence[str]) -> None:
    """Append rows, each a JSON object of some of the table's columns, in one commit."""
    if rows:
        _rows_of(session, table, rows).writeTo(table_name(table)).append()


def exchange_rows(session: SparkSession, table: TableName, rows: Sequence[str]) -> None:
    """Replace all rows of a table with these, each a JSON object of its columns, in one
    commit."""
    _rows_of(session, table, rows).writeTo(table_name(table)).overwrite(F.lit(True))


def drop_table(session: SparkSession, table: TableName) -> None:
    """Drop a table, if it exists."""
    session.sql(f"DROP TABLE IF EXISTS {table_name(table)}")


def read_value(session: SparkSession, json: str, kind: str) -> Any:
    """The value of this type that a JSON text denotes, in the form of `stored_rows`.
    Raises Spark's error if it denotes none."""
    frame = _read_json(
        session,
        [f'{{"v":{json}}}'],
        T.StructType().add("v", T._parse_datatype_string(kind)),
    )
    ((value,),) = python_rows(frame.toArrow())
    return _plain(value)


def stored_types(session: SparkSession, table: TableName) -> dict[str, str]:
    """The types of a table's columns, by their names."""
    return {
        it.name: type_text(it.dataType)
        for it in session.table(table_name(table)).schema.fields
    }


def stored_rows(session: SparkSession, table: TableName) -> list[dict[str, Any]]:
    """The rows of a table; times are in UTC, without a zone."""
    frame = session.table(table_name(table))
    return [
        dict(zip(frame.columns, map(_plain, row), strict=True))
        for row in python_rows(frame.toArrow())
    ]


def stop_clock(session: SparkSession, now: datetime) -> None:
    """Make the functions of `STOPPED` return this time, in UTC, in all statements of
    the session.

    Each is a literal from then on. (A temporary SQL function would be refused in DELETE
    and MERGE.) Written without parentheses, they are not functions to Spark, and keep
    the real time.
    """
    state = session._jsparkSession.sessionState()
    registry, parser = state.functionRegistry(), state.sqlParser()
    identifier_of = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier")
    # A Scala map is a function: an empty one with a default value returns it for any
    # argument.
    nothing = getattr(java_class("scala.collection.immutable.Map$"), "MODULE$").empty()
    moment = now.isoformat(sep=" ")
    values = {
        "TIMESTAMP_LTZ": f"{moment}Z",
        "TIMESTAMP_NTZ": moment,
        "DATE": now.date().isoformat(),
    }
    for name, kind in STOPPED.items():
        literal = parser.parseExpression(f"{kind} {text(values[kind])}")
        known = registry.lookupFunction(identifier_of(name)).get()
        registry.registerFunction(
            identifier_of(name), known, nothing.withDefaultValue(literal)
        )


STOPPED = {
    "current_timestamp": "TIMESTAMP_LTZ",
    "now": "TIMESTAMP_LTZ",
    "localtimestamp": "TIMESTAMP_NTZ",
    "current_date": "DATE",
    "curdate": "DATE",
}
"""The functions that only read the clock, and their types."""


def _rows_of(session: SparkSession, table: TableName, rows: Sequence[str]) -> DataFrame:
    return _read_json(session, rows, _row_type(session, table))


def _row_type(session: SparkSession, table: TableName) -> T.StructType:
    """The columns of a table, all of them nullable."""
    fields = session.table(table_name(table)).schema.fields
    return T.StructType([T.StructField(it.name, it.dataType) for it in fields])


def _read_json(
    session: SparkSession, texts: Sequence[str], schema: T.StructType
) -> DataFrame:
    frame = _local_rows(session, ("v",), [(text(each),) for each in texts])
    return frame.select(
        F.from_json("v", schema, {"mode": "FAILFAST"}).alias("r")
    ).select("r.*")


def _local_rows(
    session: SparkSession, names: Sequence[str], rows: Sequence[Sequence[str]]
) -> DataFrame:
    """Rows of values that are written as SQL, held by the driver: reading them takes no
    job.

    A row of NULLs is added and then left out, so that every column is nullable,
    whatever the rows have.
    """
    values = ", ".join(f"({', '.join(row)})" for row in [*rows, ["NULL"] * len(names)])
    return session.sql(
        f"SELECT * FROM VALUES {values} AS given ({', '.join(names)})"
    ).limit(len(rows))


def _plain(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case dict():
            return {name: _plain(it) for name, it in value.items()}
        case list() | tuple():
            return [_plain(it) for it in value]
        case _:
            return value
