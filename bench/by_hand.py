"""What one would write by hand, as a program of its own with Spark as it comes.

    python -m bench.by_hand upsert ROOT JAR…
    python -m bench.by_hand append ROOT SERVERS PER_BATCH JAR…

`upsert` merges ROOT/flights into a merge-on-read table, one file a batch; `append`
appends the topic of the flights, so many records a batch, to a table that is there.
Both end with the last record. bench/upsert_programs.py and bench/peers.py run them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from bench.append import BY_HAND, DDL
from bench.kafka import Hand
from bench.upsert import upsert_by_hand


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["upsert", root, *jars]:
            upsert(Path(root), jars)
        case ["append", root, servers, per_batch, *jars]:
            database = f"{root}/catalog.db"  # lakesql's own
            Hand(
                open_session(database, f"{root}/warehouse", jars),
                Path(root),
                servers,
                int(per_batch),
            ).append()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def upsert(root: Path, jars: Sequence[str]) -> None:
    spark = open_session(f"{root}/by_hand.db", f"{root}/by_hand", jars)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {BY_HAND.rpartition('.')[0]}")
    properties = "'format-version'='2', 'write.merge.mode'='merge-on-read'"
    spark.sql(
        f"CREATE TABLE {BY_HAND} ({DDL}) USING iceberg TBLPROPERTIES ({properties})"
    )
    upsert_by_hand(
        spark.readStream.schema(DDL)
        .option("maxFilesPerTrigger", 1)
        .json(str(root / "flights")),
        root,
    )


def open_session(database: str, warehouse: str, jars: Sequence[str]) -> SparkSession:
    catalog, _, _ = BY_HAND.partition(".")
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.type": "jdbc",
        f"spark.sql.catalog.{catalog}.uri": f"jdbc:sqlite:{database}?busy_timeout=30000",
        f"spark.sql.catalog.{catalog}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{catalog}.warehouse": warehouse,
    }
    return SparkSession.builder.master("local[2]").config(map=dict(conf)).getOrCreate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
