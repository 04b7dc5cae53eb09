"""Which columns of a Parquet file Spark would silently misread, by the file's schema.

Spark reads an unsigned number as the signed one of the same bits if the contract's type
is signed, and keeps only the lower bits of a number for a smaller type: 4294967295
becomes -1, 40000 becomes -25536. It takes a number for a date, and a date for a number,
and for a timestamp returns the stored number, in whatever unit the file has.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import items_of, java_class
from lakesql.stream.types import SparkType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def read_parquet_schema(session: SparkSession, uri: str) -> tuple[str, list[str]]:
    """The schema of a file in Spark's types, without columns of types that Spark does
    not have, and the names of these columns. An unsigned number has the signed type
    that holds all its values. The schema is '' if the file cannot be read, which Spark
    reports."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    state = session._jsparkSession.sessionState()
    conf = state.conf().clone()
    conf.setConfString("spark.sql.legacy.parquet.nanosAsLong", "true")
    no_rows = java_class(
        "org.apache.parquet.format.converter.ParquetMetadataConverter"
    ).SKIP_ROW_GROUPS
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader")
    converter = java_class(
        "org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter"
    )(conf)
    try:
        columns = (
            reader.readFooter(state.newHadoopConf(), place, no_rows)
            .getFileMetaData()
            .getSchema()
            .getFields()
        )
    except Py4JJavaError:
        return "", []
    message, known, unknown = (
        java_class("org.apache.parquet.schema.MessageType"),
        [],
        [],
    )
    for column in items_of(columns):
        one = java_class("java.util.ArrayList")()
        one.add(column)
        try:
            known.append(str(converter.convert(message("one", one)).catalogString()))
        except (Py4JJavaError, AnalysisException):
            unknown.append(str(column.getName()))
    fields = (each.removeprefix("struct<").removesuffix(">") for each in known)
    return f"struct<{','.join(fields)}>", unknown


def is_parquet_kept(found: SparkType, wanted: SparkType) -> bool:
    """Whether Spark reads each value of the found type as the same value of the wanted
    type, or reports an error."""
    if found.name in _INTEGERS and wanted.name in _INTEGERS:
        return _INTEGERS.index(found.name) <= _INTEGERS.index(wanted.name)
    if found.name == "decimal" and wanted.name in _INTEGERS:
        return False
    if found.name == "bigint" and wanted.name in ("double", "float"):
        return False
    if found.name in ("timestamp", "timestamp_ntz") and wanted.name in _INTEGERS:
        return False
    of_dates = {found.name, wanted.name}
    return not ("date" in of_dates and of_dates & {*_INTEGERS})
