"""Which columns of an Avro file Spark would silently misread, by the file's schema.

Spark rounds a decimal to one with fewer digits after the point. If the contract has a
timestamp or a date, it takes a whole number for milliseconds or days since 1970, so
that microseconds end up in the year 58135. If the contract has a number, it returns the
stored number of a timestamp or a date, in whatever unit the file has.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import items_of, java_class
from lakesql.stream.types import WHOLE_TYPES, SparkType, field_name

_MOMENTS = ("timestamp", "timestamp_ntz")


def read_avro_schema(session: SparkSession, uri: str) -> str:
    """The schema of a file in Spark's types, without columns of types that Spark does
    not have; '' if the file cannot be read. Spark reports either."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    settings = session._jsparkSession.sessionState().newHadoopConf()
    any_record = java_class("org.apache.avro.generic.GenericDatumReader")()
    try:
        file = java_class("org.apache.avro.mapred.FsInput")(place, settings)
    except Py4JJavaError:
        return ""
    try:
        schema = (
            java_class("org.apache.avro.file.DataFileReader")
            .openReader(file, any_record)
            .getSchema()
        )
        columns = items_of(schema.getFields())
    except Py4JJavaError:
        return ""
    finally:
        file.close()
    types = ((str(column.name()), _spark_type(column.schema())) for column in columns)
    return f"struct<{','.join(f'{field_name(name)}:{kind}' for name, kind in types if kind)}>"


def _spark_type(schema: object) -> str:
    """The Spark type of an Avro schema; '' if there is none."""
    converters = java_class("org.apache.spark.sql.avro.SchemaConverters")
    try:
        return str(converters.toSqlType(schema).dataType().catalogString())
    except (Py4JJavaError, PySparkException):
        return ""


def is_avro_kept(found: SparkType, wanted: SparkType) -> bool:
    """Whether Spark reads each value of the found type as the same value of the wanted
    type, or reports an error."""
    if found.name == wanted.name == "decimal":
        return _scale(found) <= _scale(wanted)
    if found.name in _MOMENTS:
        return wanted.name not in ("date", *WHOLE_TYPES)
    if found.name == "date":
        return wanted.name not in WHOLE_TYPES
    return not (found.name in WHOLE_TYPES and wanted.name in ("date", *_MOMENTS))


def _scale(kind: SparkType) -> int:
    return int(kind.parameters[1]) if len(kind.parameters) > 1 else 0
