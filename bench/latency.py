"""Latency: from a record's arrival in a topic to the commit that shows it, `lakesql run
--continuous` against Spark.

    python bench/latency.py [--bursts 20] [--smoke]

Thirty records at a time are sent to a topic of three partitions, a burst every two
seconds, while a query reads the topic as fast as it can: first a hand-written one,
`from_json` and `toTable` with the options that Spark and Kafka have by themselves, then
lakesql's. Prints the seconds from the moment when the broker has a burst to the moment
when the commit that holds it became the table's current one, as Iceberg's history of
the table says.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.append import BY_HAND, create_by_hand, write_flights
from bench.kafka import PARTITIONS, Hand, messages, open_broker, write_topic_project
from bench.project import bound, open_project
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext
from tests.servers.broker import Broker, Message

BURST = 30
EVERY_S = 2.0
WARM_UP = 3
"""Bursts that do not count: the first batches are slow on both sides."""

PER_BATCH = 100_000
STALLS_AFTER_S = 60
OURS = "lake.bench.flights"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bursts", type=int, default=20, help="that count, after three that warm up"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one burst, to see that it works"
    )
    options = parser.parse_args(arguments)
    warm_up, bursts = (0, 1) if options.smoke else (WARM_UP, options.bursts)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_flights(root / "flights", 1, BURST)
        burst = list(messages(root / "flights"))
        with (
            open_broker(root) as broker,
            open_project(
                write_topic_project(root, broker.servers, PER_BATCH), "flights"
            ) as around,
        ):
            around.session.sql("CREATE NAMESPACE lake.bench")
            sides = {BY_HAND: by_hand(around, broker), OURS: by_lakesql(around)}
            for table, side in sides.items():
                broker.create_topic("flights", PARTITIONS)
                with side:
                    sent_at = send(broker, burst, warm_up + bursts)
                    seen_at = wait_for_all(around.session, table, len(sent_at))
                broker.delete_topic("flights")
                report(
                    table,
                    [seen - sent for sent, seen in zip(sent_at, seen_at, strict=True)][
                        warm_up:
                    ],
                )
    return 0


@contextmanager
def by_hand(around: RunContext, broker: Broker) -> Iterator[None]:
    create_by_hand(around, "PARTITIONED BY (days(time_hour))", same_table=False)()
    query = Hand(
        around.session, around.manifest.directory, broker.servers, PER_BATCH
    ).start(processingTime="0 seconds")
    try:
        yield
    finally:
        query.stop()


@contextmanager
def by_lakesql(around: RunContext) -> Iterator[None]:
    interrupt = Interrupt()
    selects = bound(around.manifest, "flights")
    runner = threading.Thread(
        target=run_selects,
        args=(around, selects, RunOptions(continuous=True), interrupt),
    )
    runner.start()
    try:
        yield
    finally:
        interrupt.set()
        runner.join()


def send(broker: Broker, burst: list[Message], bursts: int) -> list[float]:
    """Send the bursts; when the broker had each."""
    sent_at = []
    for _ in range(bursts):
        time.sleep(EVERY_S)
        broker.produce("flights", burst)
        sent_at.append(time.time())
    return sent_at


def wait_for_all(spark: SparkSession, table: str, bursts: int) -> list[float]:
    """When each burst was whole in the table."""
    given_up = time.monotonic() + STALLS_AFTER_S
    while time.monotonic() < given_up:
        time.sleep(EVERY_S)
        commits = spark.sql(
            f"""
            SELECT unix_millis(made_current_at) / 1000 AS at, CAST(summary['total-records'] AS int) AS rows
            FROM {table}.history JOIN {table}.snapshots USING (snapshot_id) ORDER BY at
            """
        ).collect()
        if commits and commits[-1].rows == bursts * BURST:
            return [
                next(c.at for c in commits if c.rows >= (number + 1) * BURST)
                for number in range(bursts)
            ]
    raise SystemExit(f"{table} has not got its {bursts * BURST} rows")


def report(table: str, seconds: list[float]) -> None:
    side = "by hand" if table == BY_HAND else "lakesql"
    print(
        f"{side:>8} median {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
