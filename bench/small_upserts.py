"""Small upserts: batches of 1,000 rows into tables of millions, lakesql's MERGE against
the usual one without bounds.

    python bench/small_upserts.py [--mode upsert] [--rows 1000000 4000000 16000000]
    [--keys new newest zipf random]
        [--tables copy-on-write merge-on-read] [--batches 5] [--picture FILE.svg]
        [--smoke]

A table has one data file for each 250,000 rows, sorted by key. Its batches have new
keys, the newest ones, half of them new, or keys from all over it: each as likely as any
other, or by Zipf's law, so that some come in each batch and twice. Both sides read one
file of JSON lines a batch and take the newest record of each key. In mode `cdc` the
lines are Debezium's events, updates with the row before and after. lakesql also judges
and counts every record, keeps its ledger, stages each batch and publishes it. All sides
of a size begin with the same files, and in the end both tables must hold the same rows.

Prints the median seconds of a batch, after one that warms up, and by how much lakesql
is the faster. What is timed is the function that Spark calls with the batch, from its
start to its end: for lakesql the `duration_ms` of `BatchCommitted`. `--picture` draws
the table (needs matplotlib).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from bench.picture import Lines, draw_lines, picture_file
from bench.project import bound, open_project, report_failure, write_project
from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.events import BatchCommitted, Event
from lakesql.graph.manifest import Manifest
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext

SIZES = (1_000_000, 4_000_000, 16_000_000)
KEYS = ("new", "newest", "zipf", "random")
TABLES = ("copy-on-write", "merge-on-read")
BATCH_ROWS = 1_000
FILE_ROWS = 250_000
WARM_UP_ROWS = 100_000

COLUMNS = {
    "id": "bigint",
    "customer": "int",
    "amount": "double",
    "status": "string",
    "version": "bigint",
}
DDL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
AFTER = ", ".join(f"{name}: {kind}" for name, kind in COLUMNS.items())
EVENT = f"op: string, before: struct<id: bigint>, after: struct<{AFTER}>, source: struct<lsn: bigint>"
FULL, BY_HAND, OURS = "lake.bench.full", "lake.bench.by_hand", "lake.bench.orders"


@dataclass(frozen=True, slots=True)
class Case:
    """What is written into: a table of so many rows; with which keys, how the table
    takes changes, and in which mode they come."""

    rows: int
    keys: str
    table: str
    mode: str = "upsert"


@dataclass(frozen=True, slots=True)
class Figure:
    """The median seconds of a batch on each side."""

    by_hand: float
    lakesql: float

    @property
    def ratio(self) -> float:
        """How many times as long the hand-written MERGE takes."""
        return self.by_hand / self.lakesql


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=["upsert", "cdc"], default="upsert")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--keys", nargs="+", choices=KEYS, default=KEYS)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument(
        "--batches", type=int, default=5, help="that count, after one that warms up"
    )
    parser.add_argument("--picture", type=picture_file, metavar="FILE.svg")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a small table and few batches, to see that it works",
    )
    options = parser.parse_args(arguments)
    sizes, batches = (
        ((20_000,), 1)
        if options.smoke
        else (tuple(sorted(options.rows)), options.batches)
    )
    cases = [
        Case(0, keys, table, options.mode)
        for keys, table in product(options.keys, options.tables)
    ]
    if options.smoke:
        cases = [
            Case(0, "newest", TABLES[0]),
            Case(0, "zipf", TABLES[1]),
            Case(0, "random", TABLES[1], "cdc"),
        ]
    with tempfile.TemporaryDirectory() as directory:
        manifest = write_orders_project(Path(directory), cases[0])
        with open_project(manifest, "orders") as around:
            around.session.sql("CREATE NAMESPACE lake.bench")
            if not options.smoke:
                measure_size(around, WARM_UP_ROWS, cases, 2)
            figures: dict[Case, Figure] = {}
            print(
                f"{'rows':>12} {'keys':>7} {'table':>14} {'by hand':>8} {'lakesql':>8} {'ratio':>6}",
                flush=True,
            )
            for rows in sizes:
                figures |= measure_size(around, rows, cases, batches, is_shown=True)
    if options.picture:
        draw(figures, options.picture)
    return 0


def measure_size(
    around: RunContext,
    rows: int,
    cases: Sequence[Case],
    batches: int,
    is_shown: bool = False,
) -> dict[Case, Figure]:
    """The figures of a table of so many rows, printed if `is_shown`."""
    spark = around.session
    metadata = fill_table(spark, rows)
    figures: dict[Case, Figure] = {}
    for case in (replace(each, rows=rows) for each in cases):
        write_batches(around.manifest.directory / ARRIVED[case.mode], case, batches + 1)
        figures[case] = figure = measure(around, case, metadata, batches)
        if is_shown:
            what = f"{rows:>12,} {case.keys:>7} {case.table:>14}"
            print(
                f"{what} {figure.by_hand:8.2f} {figure.lakesql:8.2f} {figure.ratio:6.2f}",
                flush=True,
            )
    spark.sql(f"DROP TABLE {FULL} PURGE")
    return figures


def measure(around: RunContext, case: Case, metadata: str, batches: int) -> Figure:
    """Let both sides write the batches, each into a table that begins with the same
    files."""
    spark, root = around.session, around.manifest.directory
    found: dict[str, tuple[list[float], Row]] = {}
    for table in (BY_HAND, OURS):
        spark.sql(
            f"CALL lake.system.register_table('{table.removeprefix('lake.')}', '{metadata}')"
        )
        spark.sql(
            f"ALTER TABLE {table} SET TBLPROPERTIES ('write.merge.mode'='{case.table}')"
        )
        seconds = (
            merge_by_hand(spark, root, case)
            if table == BY_HAND
            else merge_by_lakesql(around, case)
        )
        assert len(seconds) == batches + 1, (
            f"{len(seconds)} batches instead of {batches + 1}"
        )
        content = spark.sql(
            f"SELECT count(*), bit_xor(xxhash64({', '.join(COLUMNS)})) FROM {table}"
        ).head()
        assert content is not None
        found[table] = seconds[1:], content
        spark.sql(f"DROP TABLE {table}")  # its first files are the other side's too
        shutil.rmtree(root / "checkpoints")
    (by_hand, theirs), (lakesql, ours) = found[BY_HAND], found[OURS]
    assert theirs == ours, f"the tables differ: {theirs}, {ours}"
    return Figure(statistics.median(by_hand), statistics.median(lakesql))


# --- what is there, and what arrives


def fill_table(spark: SparkSession, rows: int) -> str:
    """Make a table of so many rows, sorted by key; where its metadata stands."""
    properties = ", ".join(
        f"'{key}'='{value}'" for key, value in DEFAULT_PROPERTIES.items()
    )
    spark.sql(f"CREATE TABLE {FULL} ({DDL}) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(
        f"""
        INSERT INTO {FULL}
        SELECT id, CAST(id * 7919 % 100003 AS int), id * 104729 % 1000000 / 100,
          element_at(array('new', 'paid', 'sent', 'back'), CAST(id * 31 % 4 AS int) + 1), 0
        FROM range(0, {rows}, 1, {max(1, rows // FILE_ROWS)})
        """
    )
    newest = spark.sql(
        f"SELECT file FROM {FULL}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    ).head()
    assert newest is not None
    return str(newest.file)


ARRIVED = {"upsert": "arrived", "cdc": "recorded/orders"}
"""The folder of the batches, by mode."""


def write_batches(folder: Path, case: Case, batches: int) -> None:
    """One file of JSON lines a batch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    choice = random.Random(case.rows)
    for batch in range(batches):
        first = case.rows + (2 * batch - 1) * BATCH_ROWS // 2
        match case.keys:
            case "new":
                ids = list(
                    range(
                        case.rows + batch * BATCH_ROWS,
                        case.rows + (batch + 1) * BATCH_ROWS,
                    )
                )
            case "newest":
                ids = list(range(first, first + BATCH_ROWS))
            case "zipf":
                ranks = (int(case.rows ** choice.random()) for _ in range(BATCH_ROWS))
                ids = [rank * ZIPF_STEP % case.rows for rank in ranks]
            case _:
                ids = choice.sample(range(case.rows), BATCH_ROWS)
        rows = [
            {
                "id": i,
                "customer": i % 1000,
                "amount": batch + 0.5,
                "status": "paid",
                "version": batch + 1,
            }
            for i in ids
        ]
        if case.mode == "cdc":
            rows = [
                _event(row, batch * BATCH_ROWS + number)
                for number, row in enumerate(rows)
            ]
        (folder / f"{batch:03}.jsonl").write_text(
            "\n".join(map(json.dumps, rows)) + "\n"
        )


ZIPF_STEP = 7919
"""Spreads the keys that come often over the table."""


def _event(row: dict[str, Any], number: int) -> dict[str, Any]:
    """A record of an update."""
    source = {
        "connector": "postgresql",
        "table": "orders",
        "snapshot": "false",
        "txId": number,
        "lsn": number,
    }
    event = {
        "before": {**row, "version": 0},
        "after": row,
        "source": source,
        "op": "u",
        "ts_ms": 1357000000000,
    }
    return {
        "partition": 0,
        "offset": number,
        "timestamp": 1357000000000,
        "key": {"id": row["id"]},
        "value": event,
    }


def write_orders_project(root: Path, case: Case) -> Manifest:
    """A project of one model, in the case's mode and on its kind of table."""
    properties = f"properties={{'write.merge.mode': '{case.table}'}}"
    # Whole files are read, about so many records: never two of them.
    declared = f"    max_per_batch: {BATCH_ROWS * 3 // 2}\n    columns: {json.dumps(COLUMNS)}\n"
    if case.mode == "cdc":
        origin = "    connection: feed\n    topic: orders\n    envelope: debezium\n    key: [id]\n"
        config = f"mode='cdc', keys=['id'], {properties}"
    else:
        origin, config = (
            "    path: arrived/*.jsonl\n",
            f"mode='upsert', keys=['id'], sequence_by='version', {properties}",
        )
    files = {
        "streams/arrived.yml": f"streams:\n  - name: arrived\n{origin}{declared}",
        "models/orders.sql": f"{{{{ config({config}) }}}}\nSELECT * FROM {{{{ stream('arrived') }}}}\n",
    }
    return write_project(root, files, "{feed: {type: recorded, path: recorded}}")


# --- the two sides: the seconds of each batch


def merge_by_hand(spark: SparkSession, root: Path, case: Case) -> list[float]:
    """The same as one writes it by hand."""
    seconds: list[float] = []

    def merge(batch: DataFrame, number: int) -> None:
        started = time.perf_counter()
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(MIRROR if case.mode == "cdc" else MERGE)
        seconds.append(time.perf_counter() - started)

    kind = f"value struct<{EVENT}>" if case.mode == "cdc" else DDL
    stream = (
        spark.readStream.schema(kind)
        .option("maxFilesPerTrigger", 1)
        .json(str(root / ARRIVED[case.mode]))
    )
    writer = stream.writeStream.option(
        "checkpointLocation", str(root / "checkpoints" / "by_hand")
    )
    writer.trigger(availableNow=True).foreachBatch(merge).start().awaitTermination()
    return seconds


MERGE = f"""
MERGE INTO {BY_HAND} t USING (
  SELECT {", ".join(COLUMNS)} FROM (
    SELECT *, row_number() OVER (PARTITION BY id ORDER BY version DESC) AS age FROM arrived
  ) WHERE age = 1
) s ON t.id = s.id
WHEN MATCHED AND s.version >= t.version THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *
"""

MIRROR = f"""
MERGE INTO {BY_HAND} t USING (
  SELECT value.op, coalesce(value.after.id, value.before.id) AS id, value.after FROM (
    SELECT value, row_number() OVER (
      PARTITION BY coalesce(value.after.id, value.before.id) ORDER BY value.source.lsn DESC
    ) AS age FROM arrived
  ) WHERE age = 1
) s ON t.id = s.id
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = s.after.{name}" for name in COLUMNS)}
WHEN NOT MATCHED AND s.op <> 'd'
  THEN INSERT ({", ".join(COLUMNS)}) VALUES ({", ".join(f"s.after.{name}" for name in COLUMNS)})
"""


def merge_by_lakesql(around: RunContext, case: Case) -> list[float]:
    seconds: list[float] = []

    def hear(event: Event) -> None:
        report_failure(event)
        if isinstance(event, BatchCommitted):
            assert event.records == BATCH_ROWS, f"{event.records} records in a batch"
            seconds.append(event.duration_ms / 1000)

    manifest = write_orders_project(around.manifest.directory, case)
    now = replace(around, manifest=manifest, emit=hear)
    assert run_selects(now, bound(manifest, "orders"), RunOptions(), Interrupt())
    return seconds


NAMES = {"lakesql": "lakesql", "by_hand": "MERGE by hand"}


def draw(figures: Mapping[Case, Figure], file: Path) -> None:
    """Seconds a batch by rows of the table: a panel for each kind of keys and of
    table."""
    panels: list[Lines] = []
    for keys, table in product(KEYS, TABLES):
        found = {
            case.rows: each
            for case, each in figures.items()
            if (case.keys, case.table) == (keys, table)
        }
        lines = {
            name: [(rows, getattr(each, side)) for rows, each in found.items()]
            for side, name in NAMES.items()
        }
        if found:
            panels.append(Lines(f"{keys} keys, {table}", lines))
    labels = ("rows of the table", "seconds")
    draw_lines(
        f"A batch of {BATCH_ROWS:,} rows, merged",
        panels,
        labels,
        file,
        logarithmic=True,
    )


if __name__ == "__main__":
    sys.exit(main())
