"""Views: what a refresh costs by what has changed, beside the MERGE that made the changes and the whole SELECT.

    python bench/views.py [--millions 1,4] [--rounds 5]

A table of so many million orders, ordered by their ids, is read by a view that is kept by difference, one that is kept
by key, and one that is made anew. In each round a MERGE changes 1,000 orders, the newest or random ones. Times are in
seconds, the median of the rounds; of the sizes together it says how the time of a refresh grows with the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from bench.project import bound, open_project, write_project
from lakesql.engine.refresh.refresh_table import Refresh, refresh_table
from lakesql.engine.spark.session import new_session
from lakesql.run.identities import hash_of
from lakesql.run.prepare import RunContext

CHANGES = 1_000
MODELS = {
    "by_difference": "SELECT day, count(*) AS orders, sum(amount) AS amount FROM lake.t.orders GROUP BY day",
    "by_key": "SELECT customer, count(DISTINCT day) AS days FROM lake.t.orders GROUP BY customer",
    "in_full": "SELECT day, count(*) AS orders, sum(amount) AS amount FROM lake.t.orders GROUP BY day",
}
OPTIONS = {"in_full": ", refresh='full'"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="1,4", help="rows of the table, in millions, one size after the other")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one round on a few rows, to see that it works")
    options = parser.parse_args(arguments)
    sizes = [0.01] if options.smoke else [float(each) for each in options.millions.split(",")]
    rounds = 1 if options.smoke else options.rounds
    took: dict[str, list[float]] = {}
    for millions in sizes:
        with tempfile.TemporaryDirectory() as directory:
            for what, seconds in measure(Path(directory), round(millions * 1e6), rounds).items():
                took.setdefault(what, []).append(seconds)
    print(f"{'':28}" + "".join(f"{millions:>8g} M" for millions in sizes) + "   growth")
    for what, seconds in took.items():
        print(f"{what:28}" + "".join(f"{each:10.2f}" for each in seconds) + f"{seconds[-1] / seconds[0]:9.2f}")
    return 0


def measure(root: Path, rows: int, rounds: int) -> dict[str, float]:
    """The median of what each statement takes."""
    files = {
        f"models/{name}.sql": f"{{{{ config(mode='materialized_view'{OPTIONS.get(name, '')}) }}}}\n{select}\n"
        for name, select in MODELS.items()
    }
    manifest = write_project(root, {**files, "streams/none.yml": "streams: []\n"})
    with open_project(manifest, "by_key") as context:
        spark = context.session
        make_orders(spark, rows)
        refreshes = {name: refresh_of(context, name) for name in MODELS}
        for refresh in refreshes.values():
            refresh_table(refresh, new_session(spark))
        took: dict[str, list[float]] = {}
        for number in range(rounds):
            for keys, first in (("newest keys", rows - CHANGES), ("random keys", None)):
                change = changes(first, rows, number)
                took.setdefault(f"MERGE, {keys}", []).append(timed(lambda change=change: spark.sql(change)))
                for name, refresh in refreshes.items():
                    run = lambda refresh=refresh: refresh_table(refresh, new_session(spark))  # noqa: E731
                    took.setdefault(f"{name}, {keys}", []).append(timed(run))
    return {what: statistics.median(seconds) for what, seconds in took.items()}


def refresh_of(context: RunContext, name: str) -> Refresh:
    select = bound(context.manifest, name)[name].select
    return Refresh(select, hash_of(select), context.catalog, lambda event: None)


def make_orders(spark: SparkSession, rows: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.t")
    spark.sql(
        "CREATE TABLE lake.t.orders (id bigint, customer bigint, day date, amount decimal(12,2)) USING iceberg "
        "TBLPROPERTIES ('write.merge.mode' = 'merge-on-read', 'write.target-file-size-bytes' = '8388608')"
    )
    spark.sql("ALTER TABLE lake.t.orders WRITE ORDERED BY id")
    spark.sql(
        "INSERT INTO lake.t.orders SELECT id, id % 100000, date_add(DATE '2026-01-01', CAST(id * 365 DIV "
        f"{rows} AS int)), CAST(id % 1000 AS decimal(12,2)) FROM range({rows})"
    )


def changes(first: int | None, rows: int, round_: int) -> str:
    """A MERGE of 1,000 orders: those from an id on, or random ones."""
    ids = f"id + {first}" if first is not None else f"CAST(pmod(xxhash64(id, {round_}), {rows}) AS bigint)"
    bounds = f" AND target.id >= {first}" if first is not None else ""
    return (
        f"MERGE INTO lake.t.orders AS target USING (SELECT DISTINCT {ids} AS id FROM range({CHANGES})) AS source "
        f"ON target.id = source.id{bounds} "
        "WHEN MATCHED THEN UPDATE SET amount = target.amount + 1"
    )


def timed(do: Callable[[], object]) -> float:
    started = time.monotonic()
    do()
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
