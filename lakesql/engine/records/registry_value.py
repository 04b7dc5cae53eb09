"""Avro with a registry: values that name the schema they were written with by an id, each read by that schema."""

from __future__ import annotations

from functools import cache

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from lakesql.engine.records.avro_reader import Columns, ReaderGroup, Readers, make_readers
from lakesql.engine.records.avro_value import TAIL, struct_of, with_tail
from lakesql.engine.spark.gateway import java_class
from lakesql.registry.connection import Wire
from lakesql.registry.schemas import StreamSchemas

SCHEMA = "_lakesql_schema"
"""The id of the schema that a record was written with; NULL where it names none."""

UNKNOWN_ID = "lakesql asks for schema "
"""Stands before the id in the error of a batch that has a record with an id which nobody has looked up yet."""

CONTENT_HEADER, GLOBAL_HEADER = "apicurio.{side}.contentId", "apicurio.{side}.globalId"

_ID_BYTES: dict[Wire, int] = {"confluent": 4, "apicurio": 8, "apicurio_headers": 8}


def registry_columns(schemas: StreamSchemas, columns: Columns, row: str, corrupt: str) -> dict[str, Column]:
    """The columns that reading adds to a raw record, in their order: the id, what each group's reader reads, the row.

    The last one, `row`, is a struct of `columns` and of `corrupt`: what is wrong, or NULL. An id that is not among
    those of `schemas` fails the task: it is looked up, and the batch written anew.
    """
    readers = readers_of(schemas, tuple(columns))
    body = body_of(schemas.wire)
    groups = {f"_lakesql_avro_{index}": group for index, group in enumerate(readers.groups)}
    read = {name: _read_group(group, body) for name, group in groups.items()}
    said = _wrong(schemas.wire, readers)
    nothing = F.struct(*(F.lit(None).cast(kind).alias(name) for name, kind in columns), said.alias(corrupt))
    chosen: Column | None = None
    for name, group in groups.items():
        whole = struct_of(F.col(name), columns, corrupt, read_type(group.reader))
        is_own = F.col(SCHEMA).isin([id_ for id_, _ in group.writers])
        chosen = F.when(is_own, whole) if chosen is None else chosen.when(is_own, whole)
    found = nothing if chosen is None else chosen.otherwise(nothing)
    return {SCHEMA: schema_id(schemas), **read, row: found}


@cache
def readers_of(schemas: StreamSchemas, columns: tuple[tuple[str, T.DataType], ...]) -> Readers:
    """How the records of each id are read."""
    return make_readers(schemas, columns, _resolves)


def schema_id(schemas: StreamSchemas, side: str = "value") -> Column:
    """The id that a record's value names, or its key: one of those known.

    It is compared as bytes, which costs less than to work it out.
    """
    size = _ID_BYTES[schemas.wire]
    named = _named(schemas.wire, side)
    found = F.when(F.coalesce(F.length(named) < _length(schemas.wire), F.lit(True)), F.lit(None).cast("bigint"))
    for id_ in sorted(schemas.ids, reverse=True):
        found = found.when(named == F.lit(_MAGIC[schemas.wire] + id_.to_bytes(size, "big")), F.lit(id_).cast("bigint"))
    asked = F.raise_error(F.concat(F.lit(UNKNOWN_ID), written_id(schemas.wire, side))).cast("bigint")
    return found.when(_has_magic(schemas.wire, side), asked).otherwise(F.lit(None).cast("bigint"))


def written_id(wire: Wire, side: str = "value") -> Column:
    """The id that stands in a record, as a number; NULL where none does."""
    size = _ID_BYTES[wire]
    named = _named(wire, side)
    number = F.conv(F.hex(F.substring(named, len(_MAGIC[wire]) + 1, size)), 16, 10).cast("bigint")
    return F.when(_has_magic(wire, side) & (F.length(named) >= _length(wire)), number)


_MAGIC: dict[Wire, bytes] = {"confluent": b"\0", "apicurio": b"\0", "apicurio_headers": b""}


def _length(wire: Wire) -> int:
    return len(_MAGIC[wire]) + _ID_BYTES[wire]


def _named(wire: Wire, side: str) -> Column:
    """The bytes that say which schema it is."""
    if wire != "apicurio_headers":
        return F.substring(side, 1, _length(wire))
    return _header(CONTENT_HEADER.format(side=side))


def _header(name: str) -> Column:
    found = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return F.get(F.transform(found, lambda header: header["value"]), F.lit(0))


def _has_magic(wire: Wire, side: str) -> Column:
    magic = _MAGIC[wire]
    return F.substring(side, 1, 1) == F.lit(magic) if magic else _named(wire, side).isNotNull()


def body_of(wire: Wire, side: str = "value") -> Column:
    """What stands behind the id."""
    return F.substring(side, _length(wire) + 1, 2**31 - 1) if _MAGIC[wire] else F.col(side)


def _read_group(group: ReaderGroup, body: Column) -> Column:
    """What is read of the records of a group's writers; NULL for others."""
    options = {"mode": "PERMISSIVE", "avroSchema": with_tail(group.reader)}
    found: Column | None = None
    for id_, writer in group.writers:
        read = from_avro(F.concat(body, F.lit(TAIL)), with_tail(writer), options)
        is_own = F.col(SCHEMA) == F.lit(id_)
        found = F.when(is_own, read) if found is None else found.when(is_own, read)
    assert found is not None, "a group has writers"
    return found


def _wrong(wire: Wire, readers: Readers) -> Column:
    """Why a record that no reader reads is a dead letter."""
    known = F.col(SCHEMA)
    said: Column | None = None
    for id_, why in readers.unusable:
        text = f"schema id {id_} {why}"
        if id_ == 0 and wire == "confluent":
            text += ": an id of eight bytes begins so too, which `wire: apicurio` reads"
        said = F.when(known == id_, F.lit(text)) if said is None else said.when(known == id_, F.lit(text))
    none = nameless(wire)
    return none if said is None else said.otherwise(none)


def nameless(wire: Wire, side: str = "value") -> Column:
    """What is said of a record that names no schema."""
    content, of_global = CONTENT_HEADER.format(side=side), GLOBAL_HEADER.format(side=side)
    if wire == "apicurio_headers":
        unread = f"it has a header {of_global}, whose ids are not read: let the producer set use-id=contentId"
        none = F.lit(f"it has no header {content} of eight bytes")
        return F.when(_header(of_global).isNotNull(), F.lit(unread)).otherwise(none)
    said = f"it does not begin with a byte 0 and the {_ID_BYTES[wire]} bytes of a schema's id"
    in_header = _header(content).isNotNull()
    return F.when(in_header, F.lit(f"{said}; its header has one, which `wire: apicurio_headers` reads")).otherwise(said)


def without_frame(name: str, wire: Wire) -> Column:
    """A key or a value without the id of a schema before it, if one stands there: no JSON begins with a byte 0."""
    if not _MAGIC[wire]:
        return F.col(name)
    is_framed = F.substring(name, 1, 1) == F.lit(_MAGIC[wire])
    return F.when(is_framed, F.substring(name, _length(wire) + 1, 2**31 - 1)).otherwise(F.col(name))


@cache
def read_type(reader: str) -> T.StructType:
    """What Spark makes of the records that are read with a schema."""
    parsed = java_class("org.apache.avro.Schema$Parser")().parse(reader)
    found = java_class("org.apache.spark.sql.avro.SchemaConverters").toSqlType(parsed).dataType()
    kind = T._parse_datatype_json_string(found.json())
    assert isinstance(kind, T.StructType), "the reader is a record"
    return kind


def _resolves(reader: str, writer: str) -> bool:
    """Whether Avro itself can read by the one what the other has written."""
    parse = java_class("org.apache.avro.Schema$Parser")
    try:
        found = java_class("org.apache.avro.SchemaCompatibility").checkReaderWriterCompatibility(
            parse().parse(reader), parse().parse(writer)
        )
    except Py4JJavaError:
        return False
    return str(found.getType()) == "COMPATIBLE"
