"""DuckDB as it answers unit tests and data tests, over rows that Spark can have too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from lakesql.unit.duck_names import DuckTable
from lakesql.unit.duck_query import TranslatedQuery, translate_query
from lakesql.unit.duck_types import duck_type, quote
from tests.selects import accepted_own

NOW = datetime(2026, 3, 5, 12)
SHOP = tuple(text.replace("lake.shop.", "") for text in accepted_own())
"""The project's own SELECTs that Spark accepts, over tables that are named alone."""


class Duck:
    """Tables in DuckDB, and the answers to SELECTs over them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.tables: dict[tuple[str, ...], DuckTable] = {}
        self.ids: list[int] = []

    @classmethod
    @contextmanager
    def open(cls, *, is_unit: bool = True) -> Iterator[Duck]:
        with duckdb.connect(config={"threads": 1}) as connection:
            if is_unit:
                connection.execute("PRAGMA disable_optimizer")
            else:
                connection.execute(
                    "SET disabled_optimizers = 'expression_rewriter,statistics_propagation'"
                )
            yield cls(connection)

    def load(self, name: str, rows: pa.Table, types: Mapping[str, str]) -> None:
        self.tables[(name,)] = DuckTable(name, types)
        columns = ", ".join(
            f"{quote(column)} {duck_type(kind)}" for column, kind in types.items()
        )
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute(f"CREATE OR REPLACE TABLE {quote(name)} ({columns})")
        self.connection.register("given", rows)
        self.connection.execute(f"INSERT INTO {quote(name)} SELECT * FROM given")
        if "id" in types:
            self.ids = rows.column("id").to_pylist()

    def translate(self, text: str) -> TranslatedQuery:
        return translate_query(text, self.tables, NOW)

    def rows(self, text: str) -> tuple[pa.Table, Mapping[str, str]]:
        made = self.translate(text)
        return self.connection.execute(made.text).to_arrow_table(), made.columns

    def values(self, text: str) -> tuple[dict[int, Any], str]:
        """The values of an expression by the rows for which DuckDB has one, and its
        type in Spark's words."""
        made = self.translate(f"SELECT id, {text} AS value FROM r")
        kind = made.columns["value"]
        try:
            found = plain_rows(self.connection.execute(made.text).to_arrow_table())
            return {row["id"]: row["value"] for row in found}, kind
        except duckdb.Error:
            pass
        values = {}
        for key in self.ids:
            try:
                (row,) = plain_rows(
                    self.connection.execute(
                        f"{made.text} WHERE id = {key}"
                    ).to_arrow_table()
                )
                values[key] = row["value"]
            except duckdb.Error:
                continue
        return values, kind


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as Python's values: dates and times as numbers, as they may lie beyond its
    years; maps as lists of pairs."""
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
        elif pa.types.is_date(field.type):
            column = column.cast(pa.int32())
        columns[field.name] = column.to_pylist()
    return [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]
