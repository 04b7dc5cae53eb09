"""The columns of a stream from an Avro schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakesql.errors import Place, ProjectError
from lakesql.registry.avro import Avro, parse_avro
from lakesql.registry.schema_error import NoColumnError, SchemaError
from lakesql.stream.found_contract import TypedField
from lakesql.stream.stream import Column, Stream
from lakesql.stream.types import field_name


def avro_columns(
    stream: Stream, place: Place, text: str, files: tuple[tuple[str, str], ...] = ()
) -> tuple[Column, ...]:
    """The columns of a record schema's fields. `files` is unused, as the text is
    complete. Raises `ProjectError` (`avro-schema`)."""
    try:
        schema = parse_avro(text)
    except (SchemaError, RecursionError) as error:
        raise ProjectError.of(
            "avro-schema", f"This is not a schema of Avro: {error}.", place=place
        ) from None
    record = schema.record
    if record is None:
        raise ProjectError.of(
            "avro-schema",
            f"This is the schema of a {schema.kind}, not of a record.",
            place=place,
        )
    return tuple(_column(each, schema, stream, place) for each in record["fields"])


def _column(
    entry: Mapping[str, Any], schema: Avro, stream: Stream, place: Place
) -> Column:
    name = str(entry["name"])
    try:
        kind = _spark_type(entry["type"], schema, ())
    except NoColumnError as error:
        raise ProjectError.of(
            "avro-schema",
            f"Field '{name}' {error.why}, which no column holds.",
            fix=f"Declare the `columns` of stream '{stream.name}', without it or as another type.",
            place=place,
        ) from None
    return Column(name, kind, description=str(entry.get("doc", "")))


def avro_fields(schema: Avro) -> list[TypedField]:
    """The fields of a record schema with the types that columns of them would have."""
    record = schema.record
    assert record is not None
    return [_typed_field(each, schema) for each in record["fields"]]


def _typed_field(entry: Mapping[str, Any], schema: Avro) -> TypedField:
    name, kinds = str(entry["name"]), entry["type"]
    try:
        kind = _spark_type(kinds, schema, ())
    except NoColumnError as error:
        return TypedField(name, "", f"it {error.why}, which no column holds")
    is_optional = isinstance(kinds, list) and "null" in kinds
    return TypedField(name, kind, required=not is_optional)


_PRIMITIVES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}

_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}

MAX_PRECISION = 38


def _spark_type(node: Any, schema: Avro, inside: tuple[str, ...]) -> str:
    """Spark's text of an Avro type; `inside` are the names of the enclosing records."""
    if isinstance(node, list):
        return _union_type(node, schema, inside)
    if not isinstance(node, dict):
        if node not in _PRIMITIVES:
            raise NoColumnError("", "is always NULL")
        return _PRIMITIVES[node]
    if "ref" in node:
        return _named_type(str(node["ref"]), schema, inside)
    if node["type"] == "array":
        return f"array<{_spark_type(node['items'], schema, inside)}>"
    if node["type"] == "map":
        return f"map<string,{_spark_type(node['values'], schema, inside)}>"
    known = _decimal(node) or _LOGICAL.get(
        (str(node["type"]), str(node.get("logicalType")))
    )
    return known or _spark_type(node["type"], schema, inside)


def _named_type(name: str, schema: Avro, inside: tuple[str, ...]) -> str:
    found = schema.names[name]
    if found["type"] == "enum":
        return "string"
    if found["type"] == "fixed":
        return _decimal(found) or "binary"
    if name in inside:
        raise NoColumnError("", f"is of type {name}, which holds itself")
    fields = (
        f"{field_name(it['name'])}:{_spark_type(it['type'], schema, (*inside, name))}"
        for it in found["fields"]
    )
    return f"struct<{','.join(fields)}>"


def _decimal(node: Mapping[str, Any]) -> str:
    if node.get("logicalType") != "decimal":
        return ""
    precision, scale = int(node.get("precision", 0)), int(node.get("scale", 0))
    if not 0 < precision <= MAX_PRECISION or scale > precision:
        raise NoColumnError("", f"is a decimal of {precision} digits")
    return f"decimal({precision},{scale})"


def _union_type(branches: list[Any], schema: Avro, inside: tuple[str, ...]) -> str:
    """The type of a union with NULL, or of numbers of two sizes."""
    kinds = [_spark_type(each, schema, inside) for each in branches if each != "null"]
    if len(kinds) == 1:
        return kinds[0]
    for pair in (("int", "bigint"), ("float", "double")):
        if set(kinds) == set(pair):
            return pair[1]
    raise NoColumnError("", f"is a union of {', '.join(kinds) or 'nothing'}")
