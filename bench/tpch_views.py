"""TPC-H's queries as views: what a refresh costs after its refresh functions, beside
making all rows anew.

    python bench/tpch_views.py [--scale 0.1] [--rounds 3] [--share 0.001] [--views
    q1,q13]

The tables of a scale stand in Iceberg. In each round the refresh functions insert and
delete a share of the orders, with their lines; then each view is refreshed by what has
changed, and made anew as a whole, which leaves the same rows. Costs are in seconds of
CPU, Python's and Java's together, the median of the rounds. At the end each view is
compared with DuckDB's own answer. Of a query with a LIMIT the view has all rows; those
that read no orders are left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import duckdb
from pyspark.sql import SparkSession

from bench.project import bound, cpu_seconds, open_project, write_project
from lakesql.engine.refresh.refresh_table import Refresh, refresh_table
from lakesql.engine.spark.session import new_session
from lakesql.events import BatchCommitted, Event
from lakesql.run.start.context import RunContext
from tests.views.tpch import (
    KEYS,
    TABLES,
    delete_orders,
    differing,
    find_changes,
    inputs,
    insert_orders,
    models,
    open_tpch,
    remember,
    with_names,
)

ORDER_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
VIEWS = {
    name: select
    for name, select in models().items()
    if f"{name}_rows" not in models() and any(table in select for table in ORDER_KEYS)
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale", type=float, default=0.1, help="1 has six million lines of orders"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--share",
        type=float,
        default=0.001,
        help="of the orders, so many are inserted and deleted",
    )
    parser.add_argument(
        "--views", default=",".join(VIEWS), help="those that are measured"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one round of a few views, to see that it works",
    )
    options = parser.parse_args(arguments)
    scale, rounds = (0.001, 1) if options.smoke else (options.scale, options.rounds)
    names = ["q1", "q13"] if options.smoke else options.views.split(",")
    with tempfile.TemporaryDirectory() as directory:
        costs = measure(Path(directory), scale, rounds, options.share, names)
    print(f"{'':10}{'kept':>24}{'refresh':>10}{'anew':>10}{'ratio':>8}")
    for name, (way, refreshed, anew) in costs.items():
        print(f"{name:10}{way:>24}{refreshed:10.2f}{anew:10.2f}{anew / refreshed:8.1f}")
    totals = [sum(cost[at] for cost in costs.values()) for at in (1, 2)]
    print(
        f"{'together':34}{totals[0]:10.2f}{totals[1]:10.2f}{totals[1] / totals[0]:8.1f}"
    )
    return 0


def measure(
    root: Path, scale: float, rounds: int, share: float, names: Sequence[str]
) -> dict[str, tuple[str, float, float]]:
    """How each view was refreshed, and the medians of what that and making it anew
    cost."""
    manifest = write_project(
        root,
        {
            **files_of_tables(),
            **{f"models/{name}.sql": model_of(name) for name in names},
        },
    )
    tpch, dice = open_tpch(scale), Random(1)
    with open_project(manifest, names[0]) as context:
        make_tables(context.session, tpch, root)
        said: list[Event] = []
        refreshes = {name: refresh_of(context, name, said.append) for name in names}
        for refresh in refreshes.values():
            refresh_table(refresh, new_session(context.session))
        refreshed: dict[str, list[float]] = {name: [] for name in names}
        anew: dict[str, list[float]] = {name: [] for name in names}
        ways: dict[str, str] = {}
        for number in range(rounds):
            change_tables(context.session, tpch, dice, share, root / f"round{number}")
            for name, refresh in refreshes.items():
                said.clear()
                refreshed[name].append(cost_of(refresh, new_session(context.session)))
                ways[name] = next(
                    one.refreshed for one in said if isinstance(one, BatchCommitted)
                ).split(",")[0]
                anew[name].append(
                    cost_of(refresh, new_session(context.session), is_forced=True)
                )
        for name in names:
            check(context.session, tpch, name)
    return {
        name: (
            ways[name],
            statistics.median(refreshed[name]),
            statistics.median(anew[name]),
        )
        for name in names
    }


def files_of_tables() -> dict[str, str]:
    """The models of the tables, by which a view knows the types of their columns; the
    rows are written by hand."""
    files: dict[str, str] = {}
    streams: list[dict[str, object]] = []
    for one in inputs():
        (table,) = one.table
        columns = dict(zip(one.columns or (), one.types, strict=True))
        streams.append(
            {
                "name": f"{table}_rows",
                "path": f"landing/{table}",
                "format": "json",
                "columns": columns,
            }
        )
        files[f"models/{table}.sql"] = (
            f"{{{{ config(mode='append') }}}}\nSELECT * FROM {{{{ stream('{table}_rows') }}}}\n"
        )
    return {**files, "streams/tpch.yml": json.dumps({"streams": streams})}


def model_of(name: str) -> str:
    keys = f", keys={[*KEYS[name]]}" if name in KEYS else ""
    select = with_names(VIEWS[name], lambda table: f"{{{{ ref('{table}') }}}}")
    return f"{{{{ config(mode='materialized_view'{keys}) }}}}\n{select}\n"


def refresh_of(
    context: RunContext, name: str, emit: Callable[[Event], None]
) -> Refresh:
    select = bound(context.manifest, name)[name].select
    return Refresh(select, select.query_hash, context.catalog, emit)


def cost_of(
    refresh: Refresh, session: SparkSession, *, is_forced: bool = False
) -> float:
    started = cpu_seconds()
    refresh_table(refresh, session, is_forced=is_forced)
    return cpu_seconds() - started


def make_tables(
    spark: SparkSession, tpch: duckdb.DuckDBPyConnection, root: Path
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    for table in TABLES:
        tpch.execute(f"COPY {table} TO '{root}/{table}.parquet' (FORMAT parquet)")
        spark.read.parquet(f"{root}/{table}.parquet").writeTo(
            f"lake.bench.{table}"
        ).using("iceberg").tableProperty("write.delete.mode", "merge-on-read").create()
    remember(tpch, range(len(TABLES)))


def change_tables(
    spark: SparkSession,
    tpch: duckdb.DuckDBPyConnection,
    dice: Random,
    share: float,
    root: Path,
) -> None:
    """The refresh functions, on DuckDB's tables and on those in Iceberg."""
    (orders,) = tpch.execute("SELECT count(*) FROM orders").fetchone() or (0,)
    for change in (insert_orders, delete_orders):
        change(tpch, dice, max(1, round(orders * share)))
    changed = find_changes(tpch)
    root.mkdir()
    for number in changed:
        table = TABLES[number]
        tpch.execute(
            f"COPY _lakesql_come_{number} TO '{root}/{table}.parquet' (FORMAT parquet)"
        )
        spark.read.parquet(f"{root}/{table}.parquet").writeTo(
            f"lake.bench.{table}"
        ).append()
        key = ORDER_KEYS[table]
        keys = [
            str(one)
            for (one,) in tpch.execute(
                f"SELECT DISTINCT {key} FROM _lakesql_gone_{number}"
            ).fetchall()
        ]
        spark.sql(f"DELETE FROM lake.bench.{table} WHERE {key} IN ({', '.join(keys)})")
    remember(tpch, changed)


def check(spark: SparkSession, tpch: duckdb.DuckDBPyConnection, name: str) -> None:
    table = spark.table(f"lake.bench.{name}")
    shown = table.select(
        *(column for column in table.columns if not column.startswith("_lakesql_"))
    )
    differ = differing(
        [tuple(row) for row in shown.collect()], tpch.execute(VIEWS[name]).fetchall()
    )
    if differ:
        raise AssertionError(f"{name} is not what DuckDB says: {differ[:3]}")


if __name__ == "__main__":
    sys.exit(main())
