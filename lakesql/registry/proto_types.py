"""What fields of Protobuf are as columns. Pure."""

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
"""Spark's texts of types. What has no sign needs a wider one."""

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"

JSON = frozenset(
    {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
)
"""Messages that are JSON in another form: a column has their text."""

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
"""Messages around one value, which is NULL where the message is not there."""

KNOWN: Mapping[str, str] = {
    TIMESTAMP: "timestamp",
    DURATION: "decimal(21,9)",
    **dict.fromkeys(JSON, "string"),
    **{name: SCALARS[kind] for name, kind in WRAPPERS.items()},
}
"""The types of messages that Protobuf itself gives a meaning. A Duration is in seconds,
with all of its digits."""


def check_held(
    field: ProtoField, message: ProtoMessage | None, inside: tuple[str, ...], path: str
) -> None:
    """Raise `NoColumnError` where no column holds a field of this message; `inside` are
    those around it."""
    if field.kind == "group":
        _refuse(path, "is a group")
    if message is not None and message.name in inside:
        _refuse(path, f"is of type {message.name}, which holds itself")
    if message is not None and not message.fields:
        _refuse(path, f"is of type {message.name}, which has no fields")


def _refuse(path: str, why: str) -> NoReturn:
    raise NoColumnError(path, why)
