"""Translates the statements of a batch, as the engine runs them in Spark, to DuckDB's
SQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp

from lakesql.unit.duck_types import NeedsSparkError


def duck_statement(
    text: str, tables: Mapping[tuple[str, ...], str], conditions: Mapping[str, str]
) -> str:
    """A statement of `lakesql/compile` in DuckDB's SQL.

    `tables` has DuckDB's names of tables by the parts of their Spark names, in lower
    case. `conditions` has the configuration's conditions in DuckDB's SQL, by the
    placeholders that stand for them in the statement.
    """
    statement = _written(text, tuple(sorted(tables.items())))
    for name, condition in conditions.items():
        statement = statement.replace(name, condition)
    return statement


@lru_cache(maxsize=4096)
def _written(text: str, tables: tuple[tuple[tuple[str, ...], str], ...]) -> str:
    names, tree = dict(tables), sqlglot.parse_one(text, dialect="spark")
    for node in tree.walk():
        if isinstance(node, exp.Table) and node.args.get("db"):
            path = tuple(part.name.lower() for part in node.parts)
            if path not in names:
                raise NeedsSparkError(f"the table {'.'.join(path)}")
            node.set("this", exp.to_identifier(names[path], quoted=True))
            node.set("db", None)
            node.set("catalog", None)
    return tree.sql(dialect="duckdb")
