"""The properties of tables that lakesql knows are those of the Iceberg that is
pinned."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakesql.project.iceberg_properties import BY_COLUMN, KEPT, TAKES

_VALUES_OF_OTHERS = frozenset(
    {"none", "hash", "range", "parquet", "gzip", "zstd", "zlib", "speed", "v1"}
    | {"truncate(16)", "serializable", "false", ""}
)
"""The constants of the class that are defaults, and no names."""


def test_they_are_those_of_the_pinned_version(spark: SparkSession) -> None:
    java = spark._jvm  # type: ignore[attr-defined]
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    found = java.java.lang.Class.forName(
        "org.apache.iceberg.TableProperties", True, loader
    )
    names = {
        str(field.get(None))
        for field in found.getDeclaredFields()
        if field.getType().getName() == "java.lang.String"
        if not field.getName().endswith("_DEFAULT")
    }
    assert names - _VALUES_OF_OTHERS == TAKES.keys() | BY_COLUMN.keys() | KEPT
