"""Runs data tests on DuckDB, over columns of tables that are loaded into it, as far as
DuckDB is known to give Spark's answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lakesql.model.table_name import TableName
from lakesql.plan.data_test_results import Answer
from lakesql.unit.data_test_query import DEADLINE, NOW, Columns, TestQuery
from lakesql.unit.duck import duck_statement
from lakesql.unit.duck_names import DuckTable
from lakesql.unit.duck_query import translate_condition, translate_query
from lakesql.unit.duck_scope import DuckRelation
from lakesql.unit.duck_types import (
    GUARD,
    NeedsSparkError,
    duck_type,
    element_type,
    quote,
)
from lakesql.unit.duckdb_behind import duckdb

if TYPE_CHECKING:
    import pyarrow as pa

COMPARED = frozenset({"int", "bigint", "string", "boolean", "date", "timestamp"})
"""Types of which both engines compare all values alike; decimals are too."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The columns of a table that are loaded into DuckDB, with Spark's names of their
    types, and the number of rows."""

    name: str
    columns: Mapping[str, str]
    rows: int


@contextmanager
def open_duck(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB database in a file of `folder`, which is removed at the end: the tables
    may be larger than memory."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="tests-", dir=folder) as place,
        duckdb.connect(
            str(Path(place) / "tables.duckdb"), config={"temp_directory": place}
        ) as connection,
    ):
        # a test reads what was loaded, and nothing else
        connection.execute("SET enable_external_access = false")
        # The optimizer would turn `n + 1 > 5` into `n > 4`, and miss an overflow, which
        # is an error in Spark.
        connection.execute(
            "SET disabled_optimizers = 'expression_rewriter,statistics_propagation'"
        )
        yield connection


def load(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Columns,
    batches: Iterable[pa.RecordBatch],
) -> Loaded:
    """Load the batches into a table of DuckDB, one after another. Timestamps with a
    zone become timestamps in UTC without one.

    Raises `NeedsSparkError` for a type or a value that DuckDB does not take.
    """
    for kind in columns.values():
        if element_type(kind):
            raise NeedsSparkError(f"type {kind}")
    spelled = ", ".join(
        f"{quote(column)} {duck_type(kind)}" for column, kind in columns.items()
    )
    connection.execute(f"CREATE OR REPLACE TABLE {quote(name)} ({spelled})")
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        plain = _without_zones(batch)
        connection.register("lakesql_batch", plain)
        chosen = ", ".join(map(quote, columns))
        try:
            connection.execute(
                f"INSERT INTO {quote(name)} SELECT {chosen} FROM lakesql_batch"
            )
        except duckdb.Error as error:
            raise NeedsSparkError(
                f"what DuckDB says to a value: {str(error).splitlines()[0]}"
            ) from None
        connection.unregister("lakesql_batch")
    return Loaded(name, dict(columns), rows)


def translate_test(
    query: TestQuery,
    tables: Mapping[TableName, Loaded],
    models: Mapping[str, TableName],
    now: datetime | None,
) -> str:
    """The test's SELECT in DuckDB's SQL. Raises `NeedsSparkError` if DuckDB might
    answer differently from Spark.

    `tables` are the loaded tables, `models` the names of the models' tables. `now` is
    in UTC, without a zone; if it is None, a test that reads the clock needs Spark.
    """
    for model, column in query.compared:
        kind = tables[models[model]].columns[column]
        if kind not in COMPARED and not kind.startswith("decimal"):
            raise NeedsSparkError(f"values of type {kind} are compared")
    paths = {table.folded: loaded for table, loaded in tables.items()}
    if not query.frame:
        given = {
            path: DuckTable(loaded.name, loaded.columns)
            for path, loaded in paths.items()
        }
        return translate_query(query.text, given, now).text
    own = tables[models[next(iter(query.reads))]]
    relation = DuckRelation(own.name, own.columns)
    said = {
        name: translate_condition(condition, (relation,), now)
        for name, condition in query.conditions.items()
        if name not in (NOW, DEADLINE)
    }
    if query.within_ms is not None:
        if now is None:
            raise NeedsSparkError("the current time")
        oldest = now - timedelta(milliseconds=query.within_ms)
        for name, time in ((NOW, now), (DEADLINE, oldest)):
            said[name] = f"TIMESTAMP '{time.isoformat(sep=' ')}'"
    return duck_statement(
        query.frame, {path: loaded.name for path, loaded in paths.items()}, said
    )


def answer(
    connection: duckdb.DuckDBPyConnection, statement: str, shown: int, keeps_all: bool
) -> Answer:
    """The failing rows of a translated test, of which `shown` are returned as values,
    and all as an Arrow table if `keeps_all`. Raises `NeedsSparkError` if the test meets
    a value that Spark may treat differently."""
    try:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE lakesql_failing_rows AS {statement}"
        )
    except duckdb.Error as error:
        line = str(error).splitlines()[0]
        raise NeedsSparkError(
            line.partition(GUARD)[2] or f"what DuckDB says to it: {line}"
        ) from None
    (failures,) = connection.execute(
        "SELECT count(*) FROM lakesql_failing_rows"
    ).fetchall()[0]
    found = connection.execute(f"SELECT * FROM lakesql_failing_rows LIMIT {shown}")
    columns = tuple(str(each[0]) for each in found.description or ())
    try:
        rows = found.fetchall()
    except OverflowError:
        raise NeedsSparkError("a date or a time beyond the year 9999") from None
    everything = (
        connection.execute("SELECT * FROM lakesql_failing_rows").to_arrow_table()
        if keeps_all
        else None
    )
    return Answer(
        columns,
        rows,
        failures,
        _with_zones(everything) if everything is not None else None,
    )


def drop(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Drop a loaded table."""
    connection.execute(f"DROP TABLE IF EXISTS {quote(name)}")


def _without_zones(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    fields = [
        field.with_type(pa.timestamp("us"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def _with_zones(rows: pa.Table) -> pa.Table:
    """The rows with the zone UTC in their timestamps, as Iceberg tables have them."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
