"""Where a record says which schema it was written with, and what is said of one that does not."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.engine.records.cases import first_of
from lakesql.registry.connection import Wire
from lakesql.registry.schemas import StreamSchemas

SCHEMA = "_lakesql_schema"
"""The id of the schema that a record was written with; NULL where it names none."""

UNKNOWN_ID = "lakesql asks for schema "
"""Stands before the id in the error of a batch that has a record with an id which nobody has looked up yet."""

CONTENT_HEADER, GLOBAL_HEADER = "apicurio.{side}.contentId", "apicurio.{side}.globalId"

_ID_BYTES: dict[Wire, int] = {"confluent": 4, "apicurio": 8, "apicurio_headers": 8}


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


def unread(wire: Wire, unusable: Iterable[tuple[int, str]]) -> Column:
    """Why a record that no reader reads is a dead letter: what is said of its id, or that it names none."""
    said = ((F.col(SCHEMA) == id_, F.lit(_say_unusable(wire, id_, why))) for id_, why in unusable)
    return first_of(said, nameless(wire))


def _say_unusable(wire: Wire, id_: int, why: str) -> str:
    text = f"schema id {id_} {why}"
    if id_ == 0 and wire == "confluent":
        text += ": an id of eight bytes begins so too, which `wire: apicurio` reads"
    return text


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
