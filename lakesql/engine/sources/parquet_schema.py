"""The schema of a Parquet file in Spark's types, by which it is told what Spark's reader would make other values of.

Spark reads an unsigned number as the signed one of the same bits where the contract asks for that, and keeps the lower
bits of a number for a smaller type: -1 of 4294967295, -25536 of 40000. It takes a number for a date, and the reverse.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import java_class
from lakesql.stream.types import SparkType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def read_parquet_schema(session: SparkSession, uri: str) -> str:
    """The schema of a file in Spark's types, of an unsigned number the one that holds all of them; '' where it cannot
    be read or has a type that Spark does not know, which Spark will say."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    state = session._jsparkSession.sessionState()
    conf = state.conf().clone()
    conf.setConfString("spark.sql.legacy.parquet.nanosAsLong", "true")
    no_rows = java_class("org.apache.parquet.format.converter.ParquetMetadataConverter").SKIP_ROW_GROUPS
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader")
    converter = java_class("org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter")(conf)
    try:
        footer = reader.readFooter(state.newHadoopConf(), place, no_rows)
        return str(converter.convert(footer.getFileMetaData().getSchema()).catalogString())
    except Py4JJavaError:
        return ""


def is_parquet_kept(found: SparkType, wanted: SparkType) -> bool:
    """Whether Spark reads each value of a type of Parquet as itself in another one, or says that it does not."""
    if found.name in _INTEGERS and wanted.name in _INTEGERS:
        return _INTEGERS.index(found.name) <= _INTEGERS.index(wanted.name)
    if found.name == "decimal" and wanted.name in _INTEGERS:
        return False
    if found.name == "bigint" and wanted.name in ("double", "float"):
        return False
    of_dates = {found.name, wanted.name}
    return not ("date" in of_dates and of_dates & {*_INTEGERS})
