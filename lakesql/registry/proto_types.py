"""The Spark types of Protobuf's fields as columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from lakesql.registry.proto_schema import ProtoField, ProtoMessage
from lakesql.registry.schema_error import NoColumnError

SCALARS: Mapping[str, str] = {
    "double": "double",
    "float": "float",
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), "bigint"),
    **dict.fromkeys(("uint64", "fixed64"), "decimal(20,0)"),
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
}
"""Spark's types for scalar fields. An unsigned integer needs a wider type."""

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"

JSON = frozenset(
    {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
)
"""Messages that represent JSON: their column has it as text."""

WRAPPERS: Mapping[str, str] = {
    f"google.protobuf.{name}Value": kind
    for name, kind in {
        "Double": "double",
        "Float": "float",
        "Int64": "int64",
        "UInt64": "uint64",
        "Int32": "int32",
        "UInt32": "uint32",
        "Bool": "bool",
        "String": "string",
        "Bytes": "bytes",
    }.items()
}
"""Messages that wrap one value, by their full names. The column is NULL if the message
is absent."""

KNOWN: Mapping[str, str] = {
    TIMESTAMP: "timestamp",
    DURATION: "decimal(21,9)",
    **dict.fromkeys(JSON, "string"),
    **{name: SCALARS[kind] for name, kind in WRAPPERS.items()},
}
"""Spark's types for messages to which Protobuf itself gives a meaning. A Duration is in
seconds, without loss of digits."""


def check_held(
    field: ProtoField, message: ProtoMessage | None, inside: tuple[str, ...], path: str
) -> None:
    """Raise `NoColumnError` if a field cannot be a column: a group, a message that
    contains itself, or one without fields. `inside` are the messages around the
    field."""
    if field.kind == "group":
        _refuse(path, "is a group")
    if message is not None and message.name in inside:
        _refuse(path, f"is of type {message.name}, which holds itself")
    if message is not None and not message.fields:
        _refuse(path, f"is of type {message.name}, which has no fields")


def _refuse(path: str, why: str) -> NoReturn:
    raise NoColumnError(path, why)
