"""The usual upsert by hand as a program of its own, with Spark as it comes: `python bench/merge_by_hand.py ROOT JAR…`.

It merges ROOT/flights into a merge-on-read table, one file a batch, and ends. bench/upsert_programs.py runs it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from bench.append import BY_HAND, DDL
from bench.upsert import upsert_by_hand


def main(root: Path, jars: list[str]) -> int:
    catalog, _, _ = BY_HAND.partition(".")
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.type": "jdbc",
        f"spark.sql.catalog.{catalog}.uri": f"jdbc:sqlite:{root}/by_hand.db?busy_timeout=30000",
        f"spark.sql.catalog.{catalog}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{catalog}.warehouse": f"{root}/by_hand",
    }
    spark = SparkSession.builder.master("local[2]").config(map=dict(conf)).getOrCreate()
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {BY_HAND.rpartition('.')[0]}")
    properties = "'format-version'='2', 'write.merge.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE {BY_HAND} ({DDL}) USING iceberg TBLPROPERTIES ({properties})")
    upsert_by_hand(spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(root / "flights")), root)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
