"""How values with Avro schemas of a registry become the contract's columns: each record
is read by the schema that it names."""

from __future__ import annotations

from functools import cache

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from lakesql.engine.records.avro_reader import ReaderGroup, Readers, make_readers
from lakesql.engine.records.avro_value import TAIL, struct_of, with_tail
from lakesql.engine.records.cases import first_of
from lakesql.engine.records.frame import SCHEMA, body_of, unread
from lakesql.engine.records.schema_reading import Columns, Reading, choose_row
from lakesql.engine.spark.gateway import java_class
from lakesql.registry.schemas import StreamSchemas


def read_avro(schemas: StreamSchemas, columns: Columns, corrupt: str) -> Reading:
    """How to read records with these Avro schemas: a column for each group of writers
    with the same reader."""
    readers = _readers_of(schemas, columns)
    body = body_of(schemas.wire)
    groups = {
        f"_lakesql_avro_{index}": group for index, group in enumerate(readers.groups)
    }
    read = {name: _read_group(group, body) for name, group in groups.items()}
    rows = []
    for name, group in groups.items():
        ids = [id_ for id_, _ in group.writers]
        rows.append(
            (ids, struct_of(F.col(name), columns, corrupt, read_type(group.reader)))
        )
    said = unread(schemas, readers.unusable)
    return Reading(read, choose_row(rows, columns, corrupt, said), readers.absent)


@cache
def _readers_of(
    schemas: StreamSchemas, columns: tuple[tuple[str, T.DataType], ...]
) -> Readers:
    """How the records of each schema id are read."""
    return make_readers(schemas, columns, _resolves)


def _read_group(group: ReaderGroup, body: Column) -> Column:
    """The parsed values of a group's records; NULL on others."""
    options = {"mode": "PERMISSIVE", "avroSchema": with_tail(group.reader)}
    read = (
        (
            F.col(SCHEMA) == F.lit(id_),
            from_avro(F.concat(body, F.lit(TAIL)), with_tail(writer), options),
        )
        for id_, writer in group.writers
    )
    return first_of(read, F.lit(None))


@cache
def read_type(reader: str) -> T.StructType:
    """The Spark type of records that are read with this schema."""
    parsed = java_class("org.apache.avro.Schema$Parser")().parse(reader)
    found = (
        java_class("org.apache.spark.sql.avro.SchemaConverters")
        .toSqlType(parsed)
        .dataType()
    )
    kind = T._parse_datatype_json_string(found.json())
    assert isinstance(kind, T.StructType), "the reader is a record"
    return kind


def _resolves(reader: str, writer: str) -> bool:
    """Whether Avro itself can read with the first schema what was written with the
    second."""
    parse = java_class("org.apache.avro.Schema$Parser")
    try:
        found = java_class(
            "org.apache.avro.SchemaCompatibility"
        ).checkReaderWriterCompatibility(parse().parse(reader), parse().parse(writer))
    except Py4JJavaError:
        return False
    return str(found.getType()) == "COMPATIBLE"
