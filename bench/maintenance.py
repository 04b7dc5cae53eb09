"""A table after so many commits, with lakesql's maintenance and without: is it still as
fast as a new one?

    python bench/maintenance.py [--commits 2000] [--until COMMITS] [--rows 504]
    [--models append_kept …]
        [--looks FILE.json] [--picture FILE.svg] [--smoke]

Two tables in mode `append` and two in mode `upsert`, each with maintenance and without,
are written by `lakesql run --continuous`, one after the other: a batch is a file of
`--rows` flights in any order, each of which comes three times at 2,000 commits. At 5,
25, 50 and 100 % of the commits the model stops, and its table is read in full and by
one key, in ratio to a new table of the same rows. Beside that: data and delete files,
snapshots, bytes of metadata, milliseconds of a batch in the median of the last quarter,
and the share of the time that procedures took. No snapshot is old enough to expire
meanwhile. With `--until` it ends before all of these commits, as a table that is left
alone takes hours.
`--looks` keeps the figures in a file, with those of earlier runs, and `--picture` draws
them all (needs matplotlib).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from bench.append import flights_stream, write_flights
from bench.picture import Lines, draw_lines, picture_file
from bench.project import bound, open_project, report_failure, write_project
from bench.upsert import KEYS, compare_reads
from lakesql.catalog.table_facts import read_facts
from lakesql.events import BatchCommitted, Event, TableMaintained
from lakesql.graph.manifest import Manifest
from lakesql.plan.health import measure
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext

FLIGHTS = 336_776
PARTS = (0.05, 0.25, 0.5, 1)
MODES = {
    "append": "mode='append'",
    "upsert": f"mode='upsert', keys={list(KEYS)}, sequence_by='id'",
}
KEPT = {"kept": "", "left": ", maintenance=False"}
"""What the model says of maintenance: its tables are kept up, or left alone."""

POINT_READS = 5


@dataclass(frozen=True, slots=True)
class Look:
    """A table after so many commits. Reads are in ratio to a new table of the same
    rows, times in milliseconds."""

    model: str
    commits: int
    full_read: float
    point_read: float
    data_files: int
    delete_files: int
    snapshots: int
    metadata_bytes: int
    batch_ms: float
    maintenance_share: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument(
        "--until",
        type=int,
        metavar="COMMITS",
        help="where to end, if not at the last one",
    )
    parser.add_argument("--rows", type=int, default=504, help="of a commit")
    models = [f"{mode}_{name}" for name in KEPT for mode in MODES]
    parser.add_argument("--models", nargs="+", default=models, choices=models)
    parser.add_argument(
        "--looks",
        type=Path,
        metavar="FILE.json",
        help="figures of earlier runs; those of this are added",
    )
    parser.add_argument("--picture", type=picture_file, metavar="FILE.svg")
    parser.add_argument(
        "--smoke", action="store_true", help="20 commits, to see that it works"
    )
    options = parser.parse_args(arguments)
    commits = 20 if options.smoke else options.commits
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        copies = -(-commits * options.rows // FLIGHTS)
        written = write_flights(
            root / "flights",
            copies,
            commits * options.rows // copies,
            commits,
            shuffled=True,
        )
        if written != commits * options.rows:
            parser.error(
                f"{commits} commits of {options.rows} rows are no {copies} times the same flights"
            )
        manifest = write_models(root, options.rows)
        with open_project(manifest, "append_kept") as around:
            looks = [
                look
                for model in options.models
                for look in follow(around, model, commits, options.until or commits)
            ]
    if options.looks:
        looks = keep_looks(options.looks, looks)
    if options.picture:
        draw(looks, options.picture)
    return 0


def write_models(root: Path, rows: int) -> Manifest:
    stream = flights_stream("path: flights/*.jsonl", rows + rows // 2)
    models = {
        f"models/{mode}_{name}.sql": f"{{{{ config({config}, trigger='1 millisecond'{kept}) }}}}\n"
        "SELECT * FROM {{ stream('flights') }}\n"
        for mode, config in MODES.items()
        for name, kept in KEPT.items()
    }
    return write_project(root, {"streams/flights.yml": stream, **models})


def follow(around: RunContext, model: str, commits: int, most: int) -> list[Look]:
    """Run a model for `most` of so many commits, and look at its table after parts of
    all of them."""
    looks: list[Look] = []
    print(
        f"{model}\n{'commits':>8} {'full':>6} {'point':>6} {'files':>6} {'deletes':>8} ",
        end="",
    )
    print(
        f"{'snapshots':>9} {'metadata':>9} {'batch ms':>9} {'maintenance':>11}",
        flush=True,
    )
    for until in (
        until for part in PARTS if (until := max(1, round(part * commits))) <= most
    ):
        done = looks[-1].commits if looks else 0
        batches, share = run_until(around, model, until)
        looks.append(
            look(around, model, until, batches[-max(1, (until - done) // 4) :], share)
        )
        found = looks[-1]
        print(
            f"{found.commits:>8} {found.full_read:>6.2f} {found.point_read:>6.2f} {found.data_files:>6} "
            f"{found.delete_files:>8} {found.snapshots:>9} {found.metadata_bytes:>9,} {found.batch_ms:>9.0f} "
            f"{found.maintenance_share:>10.1%}",
            flush=True,
        )
    return looks


def run_until(around: RunContext, model: str, commits: int) -> tuple[list[int], float]:
    """Run a model until its table has so many commits: the milliseconds of each batch,
    and maintenance's share."""
    interrupt, batches, maintained = Interrupt(), list[int](), 0
    began = time.monotonic()

    def hear(event: Event) -> None:
        nonlocal maintained
        report_failure(event)
        match event:
            case BatchCommitted():
                batches.append(event.duration_ms)
                if event.batch + 1 == commits:
                    interrupt.set()
            case TableMaintained():
                maintained += event.duration_ms

    assert run_selects(
        replace(around, emit=hear),
        bound(around.manifest, model),
        RunOptions(continuous=True),
        interrupt,
    )
    return batches, maintained / 1000 / (time.monotonic() - began)


def look(
    around: RunContext, model: str, commits: int, batches: Sequence[int], share: float
) -> Look:
    spark, name = around.session, around.manifest.models[model].table
    facts = read_facts(around.catalog, name)
    assert facts is not None
    figures = measure(facts, round(time.time() * 1000))
    table, fresh = str(name), "lake.bench.fresh"
    spark.sql(f"CREATE TABLE {fresh} USING iceberg AS SELECT * FROM {table}")
    full, point = (
        compare_reads(spark, table, fresh),
        compare_points(spark, table, fresh),
    )
    spark.sql(f"DROP TABLE {fresh} PURGE")
    return Look(
        model,
        commits,
        full,
        point,
        figures.data_files,
        figures.delete_files,
        figures.snapshots,
        figures.metadata_bytes,
        statistics.median(batches),
        share,
    )


def compare_points(spark: SparkSession, table: str, other: str) -> float:
    """How much longer it takes to find the rows of one key in the one than in the
    other."""
    seconds: dict[str, list[float]] = {table: [], other: []}
    for number in range(POINT_READS):
        for name in (table, other):
            started = time.perf_counter()
            spark.sql(
                f"SELECT * FROM {name} WHERE flight = {1000 + number} AND day = 7"
            ).collect()
            seconds[name].append(time.perf_counter() - started)
    return statistics.median(seconds[table]) / statistics.median(seconds[other])


def keep_looks(file: Path, looks: Sequence[Look]) -> list[Look]:
    """Add figures to those in a file, instead of earlier ones of the same models; all
    that it has now."""
    earlier = (
        [Look(**each) for each in json.loads(file.read_text())] if file.exists() else []
    )
    models = {each.model for each in looks}
    found = [*(each for each in earlier if each.model not in models), *looks]
    file.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    return found


def draw(looks: Sequence[Look], file: Path) -> None:
    """How many times as long a full read takes as that of a new table, by commits: a
    panel for each mode."""
    panels = [
        Lines(
            f"mode {mode}",
            {
                label: points
                for name, label in (("kept", "with maintenance"), ("left", "without"))
                if (
                    points := [
                        (each.commits, each.full_read)
                        for each in looks
                        if each.model == f"{mode}_{name}"
                    ]
                )
            },
        )
        for mode in MODES
    ]
    draw_lines(
        "A full read after many commits",
        panels,
        ("commits", "times a new table's"),
        file,
    )


if __name__ == "__main__":
    sys.exit(main())
