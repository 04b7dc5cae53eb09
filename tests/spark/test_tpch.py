"""TPC-H's queries as models over tables that streams keep: each equals DuckDB's own
answer after each run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import duckdb
import pytest

from lakesql.events import BatchCommitted
from tests.spark.project import Project, Ran
from tests.views.test_tpch import KEPT
from tests.views.tpch import (
    KEYS,
    TABLES,
    differing,
    find_changes,
    inputs,
    make_matches,
    models,
    open_tpch,
    remember,
    some_changes,
    with_names,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCALE = 0.001
ROUNDS = 3
HANGS_AFTER_S = 1_800

TABLE_KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "customer": ["c_custkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}


def declare(project: Project) -> None:
    """The eight tables as upserts of a stream each, the views over them, and the tables
    with a LIMIT over those."""
    for one in inputs():
        (table,) = one.table
        columns = dict(zip(one.columns or (), one.types, strict=True))
        project.stream(f"{table}_states", {**columns, "seq": "int", "gone": "boolean"})
        keyed = {"keys": TABLE_KEYS[table], "sequence_by": "seq", "delete_when": "gone"}
        project.model(
            table, f"SELECT * FROM {{{table}_states}}", mode="upsert", **keyed
        )
    for name, select in models().items():
        rows = f"{name}_rows"
        if rows in models():
            chosen = select.removeprefix(models()[rows])
            project.model(name, f"SELECT * FROM {{{rows}!r}}{chosen}", mode="table")
        else:
            keys = {"keys": [*KEYS[name]]} if name in KEYS else {}
            project.model(
                name,
                with_names(select, lambda table: f"{{{table}!r}}"),
                mode="materialized_view",
                **keys,
            )


def record(project: Project, connection: duckdb.DuckDBPyConnection, seq: int) -> None:
    """The rows that have come to the tables, and those that have left them, as records
    of the streams."""
    for number, table in enumerate(TABLES):
        come = [
            {**row, "gone": False}
            for row in rows_of(connection, f"_lakesql_come_{number}")
        ]
        keys = {key_of(row, table) for row in come}
        gone = [
            {**row, "gone": True}
            for row in rows_of(connection, f"_lakesql_gone_{number}")
        ]
        states = [*come, *(row for row in gone if key_of(row, table) not in keys)]
        project.record(f"{table}_states", [{**row, "seq": seq} for row in states])


def rows_of(
    connection: duckdb.DuckDBPyConnection, table: str
) -> Iterator[dict[str, Any]]:
    found = connection.execute(f"FROM {table}")
    names = [name for name, *_ in found.description or ()]
    return (dict(zip(names, row, strict=True)) for row in found.fetchall())


def key_of(row: dict[str, Any], table: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in TABLE_KEYS[table])


def check(project: Project, connection: duckdb.DuckDBPyConnection) -> None:
    for name, select in models().items():
        table = project.lake.session.table(project.table(name))
        shown = table.select(
            *(column for column in table.columns if not column.startswith("_lakesql_"))
        )
        kept = [tuple(row) for row in shown.collect()]
        assert differing(kept, connection.execute(select).fetchall()) == [], name


def way_of(ran: Ran, name: str) -> str:
    """How a view was refreshed; nothing where none of its tables had changed."""
    return "".join(
        event.refreshed.split(",")[0] for event in ran.of(BatchCommitted, name)
    )


def test_the_queries_equal_the_answers_of_duckdb_after_each_run(
    project: Project,
) -> None:
    connection, dice = open_tpch(SCALE), Random(1)
    make_matches(connection, dice)
    for number, table in enumerate(TABLES):
        connection.execute(f"CREATE TABLE before_{number} AS FROM {table} LIMIT 0")
    declare(project)
    ways: dict[str, set[str]] = {}
    for seq, changes in enumerate(((), *islice(some_changes(), ROUNDS))):
        for change in changes:
            change(connection, dice)
        changed = find_changes(connection)
        record(project, connection, seq)
        ran = project.run(hangs_after_s=HANGS_AFTER_S).check()
        check(project, connection)
        remember(connection, changed)
        for name in models():
            ways.setdefault(name, set()).add(way_of(ran, name))
    for name, kept in KEPT.items():
        wanted = {"difference": "by difference", "key": "by key", "full": "in full"}[
            kept.way
        ]
        assert wanted in ways[name] or "no row is another one" in ways[name], (
            name,
            ways[name],
        )
