"""Views: what a refresh costs by what has changed, beside the MERGE that made the
changes and the whole SELECT.

    python bench/views.py [--millions 1,4,16] [--rounds 5] [--smoke]

A table of so many million orders, with a file for each 250,000 of them, sorted by their
ids, is read by a view that is kept by difference, by another one that is kept so beside
it in the same run, by one that is kept by key, and by one that is made anew. In each
round a MERGE changes 1,000 orders, the newest or random ones. Times are in seconds, the
median of the rounds, after one that warms up; `cpu` are the seconds of the process and
its Java, in which other work of the machine counts little. Behind each size stands how
both are to those of the MERGE, in the end how they grow with the table. `jobs` are
those of Spark's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.project import bound, cpu_seconds, open_project, write_project
from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.engine.refresh.refresh_table import Refresh, refresh_table
from lakesql.engine.refresh.shared_changes import SharedChanges
from lakesql.engine.spark.session import new_session
from lakesql.run.start.context import RunContext

CHANGES = 1_000
FILE_ROWS = 250_000
# no model makes the table: nothing else says of which type a sum is
AMOUNT = "CAST(amount AS decimal(12, 2))"
BY_DAY = f"SELECT day, count(*) AS orders, sum({AMOUNT}) AS amount FROM lake.t.orders GROUP BY day"
MODELS = {
    "by_difference": BY_DAY,
    "beside_it": BY_DAY,
    "by_key": "SELECT customer, count(DISTINCT day) AS days FROM lake.t.orders GROUP BY customer",
    "in_full": BY_DAY,
}
OPTIONS = {"in_full": ", refresh='full'"}


@dataclass(frozen=True, slots=True)
class Took:
    """What a statement, or a refresh, has taken."""

    seconds: float
    cpu: float
    jobs: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--millions",
        default="1,4,16",
        help="rows of the table, in millions, one size after the other",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one round on a few rows, to see that it works",
    )
    options = parser.parse_args(arguments)
    sizes = (
        [0.01]
        if options.smoke
        else [float(each) for each in options.millions.split(",")]
    )
    rounds = 1 if options.smoke else options.rounds
    found: dict[str, list[Took]] = {}
    for millions in sizes:
        with tempfile.TemporaryDirectory() as directory:
            for what, took in measure(
                Path(directory), round(millions * 1e6), rounds
            ).items():
                found.setdefault(what, []).append(took)
    columns = "".join(
        f"{f'{millions:g} M':>9}{'cpu':>7}{'jobs':>5}{'/ MERGE':>12}"
        for millions in sizes
    )
    print(f"{'':28}{columns}      growth")
    for what, each in found.items():
        merges = found[f"MERGE, {what.partition(', ')[2]}"]
        line = "".join(render(*pair) for pair in zip(each, merges, strict=True))
        print(f"{what:28}{line}{ratios(each[-1], each[0])}")
    return 0


def render(took: Took, merge: Took) -> str:
    return f"{took.seconds:9.2f}{took.cpu:7.2f}{took.jobs:5}{ratios(took, merge)}"


def ratios(took: Took, other: Took) -> str:
    return f"{took.seconds / other.seconds:7.2f}{took.cpu / other.cpu:5.1f}"


def measure(root: Path, rows: int, rounds: int) -> dict[str, Took]:
    """The median of what each statement takes."""
    files = {
        f"models/{name}.sql": f"{{{{ config(mode='materialized_view'{OPTIONS.get(name, '')}) }}}}\n{select}\n"
        for name, select in MODELS.items()
    }
    manifest = write_project(root, {**files, "streams/none.yml": "streams: []\n"})
    with open_project(manifest, "by_key") as context:
        spark = context.session
        make_orders(spark, rows)
        for name in MODELS:
            refresh_table(
                refresh_of(context, name, SharedChanges()), new_session(spark)
            )
        found: dict[str, list[Took]] = {}
        for number in range(rounds + 1):
            for keys, first in (("newest keys", rows - CHANGES), ("random keys", None)):
                change = changes(first, rows, number)
                found.setdefault(f"MERGE, {keys}", []).append(
                    timed(spark, lambda change=change: spark.sql(change))
                )
                shared = SharedChanges()
                for name in MODELS:
                    refresh = refresh_of(
                        context,
                        name,
                        shared if name == "beside_it" else SharedChanges(),
                    )
                    shared = refresh.changes if name == "by_difference" else shared

                    def run(refresh: Refresh = refresh) -> None:
                        refresh_table(refresh, new_session(spark))

                    found.setdefault(f"{name}, {keys}", []).append(timed(spark, run))
    return {what: median(took[1:]) for what, took in found.items()}


def median(took: Sequence[Took]) -> Took:
    return Took(
        statistics.median(each.seconds for each in took),
        statistics.median(each.cpu for each in took),
        round(statistics.median(each.jobs for each in took)),
    )


def refresh_of(context: RunContext, name: str, changes: SharedChanges) -> Refresh:
    select = bound(context.manifest, name)[name].select
    catalog, identity = context.catalog, select.query_hash
    return Refresh(
        select,
        identity,
        catalog,
        lambda event: None,
        changes=changes,
        is_of_few_anew=False,
    )


def make_orders(spark: SparkSession, rows: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.t")
    properties = ", ".join(
        f"'{key}' = '{value}'" for key, value in DEFAULT_PROPERTIES.items()
    )
    columns = "id bigint, customer bigint, day date, amount decimal(12,2)"
    spark.sql(
        f"CREATE TABLE lake.t.orders ({columns}) USING iceberg TBLPROPERTIES ({properties})"
    )
    spark.sql("ALTER TABLE lake.t.orders WRITE LOCALLY ORDERED BY id")
    spark.sql(
        "INSERT INTO lake.t.orders SELECT id, id % 100000, date_add(DATE '2026-01-01', CAST(id * 365 DIV "
        f"{rows} AS int)), CAST(id % 1000 AS decimal(12,2)) FROM range(0, {rows}, 1, {max(1, rows // FILE_ROWS)})"
    )


def changes(first: int | None, rows: int, round_: int) -> str:
    """A MERGE of 1,000 orders: those from an id on, or random ones."""
    ids = (
        f"id + {first}"
        if first is not None
        else f"CAST(pmod(xxhash64(id, {round_}), {rows}) AS bigint)"
    )
    bounds = f" AND target.id >= {first}" if first is not None else ""
    return (
        f"MERGE INTO lake.t.orders AS target USING (SELECT DISTINCT {ids} AS id FROM range({CHANGES})) AS source "
        f"ON target.id = source.id{bounds} "
        "WHEN MATCHED THEN UPDATE SET amount = target.amount + 1"
    )


def timed(spark: SparkSession, do: Callable[[], object]) -> Took:
    jobs, cpu, started = jobs_of(spark), cpu_seconds(), time.monotonic()
    do()
    seconds = time.monotonic() - started
    return Took(seconds, cpu_seconds() - cpu, jobs_of(spark) - jobs)


def jobs_of(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


if __name__ == "__main__":
    sys.exit(main())
