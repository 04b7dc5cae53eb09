"""Which schema of a registry a record names, by bytes or headers, and the text about a
record that names none."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.engine.records.cases import first_of
from lakesql.registry.connection import CONTENT_HEADER, GLOBAL_HEADER, ID_BYTES, Wire
from lakesql.registry.registered import global_of, say_schema
from lakesql.registry.schemas import StreamSchemas

SCHEMA = "_lakesql_schema"
"""The column with the id of the schema that a record was written with; NULL if it names
none."""

UNKNOWN_ID = "lakesql asks for schema "
"""The text before the id in the error that ends a batch with a record whose schema id
has not been looked up yet."""


def schema_id(schemas: StreamSchemas, side: str = "value") -> Column:
    """The schema id that a record's value or key names; NULL if it names none. An id
    that has not been looked up yet fails the task (`UNKNOWN_ID`).

    The bytes are compared with those of the known ids, which is cheaper than decoding
    them.
    """
    named = _named(schemas, side)
    found = F.when(
        F.coalesce(F.length(named) < _length(schemas.wire), F.lit(True)),
        F.lit(None).cast("bigint"),
    )
    for id_ in sorted(schemas.ids, reverse=True):
        found = found.when(
            named == F.lit(_named_by(schemas.wire, id_)), F.lit(id_).cast("bigint")
        )
    number = written_id(schemas, side)
    asked = F.raise_error(F.concat(F.lit(UNKNOWN_ID), number)).cast("bigint")
    return found.when(number.isNotNull(), asked).otherwise(F.lit(None).cast("bigint"))


def written_id(schemas: StreamSchemas, side: str = "value") -> Column:
    """The schema id in a record, decoded; NULL if there is none."""
    named = _named(schemas, side)
    first, written = (
        F.substring(named, 1, 1),
        F.substring(named, 2, ID_BYTES[schemas.wire]),
    )
    number = F.conv(F.hex(written), 16, 10).try_cast("bigint")
    id_ = F.when(first == F.lit(_OF_CONTENT), number)
    if schemas.wire == "apicurio_headers":
        id_ = id_.when(first == F.lit(_OF_GLOBAL), F.bitwise_not(number))
    return F.when(F.length(named) == _length(schemas.wire), id_)


_OF_CONTENT, _OF_GLOBAL = b"\0", b"\1"
"""The byte before an id, which marks it as a content id or a global id. On the wires
`confluent` and `apicurio` it is in the record itself; for ids in headers it is added
here."""


def _named_by(wire: Wire, id_: int) -> bytes:
    """The bytes that name the schema with this id."""
    number = global_of(id_)
    if number is None:
        return _OF_CONTENT + id_.to_bytes(ID_BYTES[wire], "big")
    return _OF_GLOBAL + number.to_bytes(ID_BYTES[wire], "big")


def _length(wire: Wire) -> int:
    return 1 + ID_BYTES[wire]


def _named(schemas: StreamSchemas, side: str) -> Column:
    """The bytes of a record that name its schema."""
    if schemas.wire != "apicurio_headers":
        return F.substring(side, 1, _length(schemas.wire))
    side = _written_side(schemas, side)
    content = F.concat(F.lit(_OF_CONTENT), _header(CONTENT_HEADER.format(side=side)))
    if not schemas.has_globals:
        return content
    return F.coalesce(
        content, F.concat(F.lit(_OF_GLOBAL), _header(GLOBAL_HEADER.format(side=side)))
    )


def _written_side(schemas: StreamSchemas, side: str) -> str:
    """The part of a record, key or value, that the names of its headers mean. While
    keys are parsed, they are in the place of values."""
    return "key" if schemas.side == "key" else side


def _header(name: str) -> Column:
    found = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return F.get(F.transform(found, lambda header: header["value"]), F.lit(0))


def body_of(wire: Wire, side: str = "value") -> Column:
    """The content of a record's key or value after the schema id."""
    return (
        F.col(side)
        if wire == "apicurio_headers"
        else F.substring(side, _length(wire) + 1, 2**31 - 1)
    )


def unread(schemas: StreamSchemas, unusable: Iterable[tuple[int, str]]) -> Column:
    """Why a record that no reader reads is a dead letter: the problem with its schema
    id, or that it names none."""
    said = [
        (F.col(SCHEMA) == id_, F.lit(_say_unusable(schemas.wire, id_, why)))
        for id_, why in unusable
    ]
    # Checked even while no id is known: Spark does not evaluate a column that nothing
    # uses, and then no id would be looked up.
    unknown = (F.col(SCHEMA).isNotNull(), F.lit("nobody has looked up its schema"))
    return first_of([*said, unknown], nameless(schemas))


def _say_unusable(wire: Wire, id_: int, why: str) -> str:
    text = f"{say_schema(id_)} {why}"
    if id_ == 0 and wire == "confluent":
        text += ": an id of eight bytes begins so too, which `wire: apicurio` reads"
    return text


def nameless(schemas: StreamSchemas, side: str = "value") -> Column:
    """The text about a record that names no schema."""
    side = _written_side(schemas, side)
    content, of_global = (
        CONTENT_HEADER.format(side=side),
        GLOBAL_HEADER.format(side=side),
    )
    if schemas.wire == "apicurio_headers":
        return _headless(schemas, content, of_global)
    said = f"it does not begin with a byte 0 and the {ID_BYTES[schemas.wire]} bytes of a schema's id"
    in_header = _header(content).isNotNull() | _header(of_global).isNotNull()
    return F.when(
        in_header,
        F.lit(f"{said}; its header has one, which `wire: apicurio_headers` reads"),
    ).otherwise(said)


def _headless(schemas: StreamSchemas, content: str, of_global: str) -> Column:
    """The text about a record whose headers name no schema, or only by a global id,
    which this registry does not resolve."""
    if schemas.has_globals:
        return F.lit(f"it has no header {content} or {of_global} of eight bytes")
    unread = (
        f"it has a header {of_global}, whose ids Apicurio's own interface resolves: let the registry's url end with "
        "/apis/ccompat/v7, or let the producer set use-id=contentId"
    )
    none = F.lit(f"it has no header {content} of eight bytes")
    return F.when(_header(of_global).isNotNull(), F.lit(unread)).otherwise(none)


def without_frame(name: str, wire: Wire) -> Column:
    """The key or value (`name`) without the schema id before it. It is unchanged if it
    has none, as no JSON begins with a byte 0."""
    if wire == "apicurio_headers":
        return F.col(name)
    is_framed = F.substring(name, 1, 1) == F.lit(_OF_CONTENT)
    return F.when(is_framed, F.substring(name, _length(wire) + 1, 2**31 - 1)).otherwise(
        F.col(name)
    )
