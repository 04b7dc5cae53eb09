"""What a route may be: which columns of a stream hold texts, and which values sampled
records have for one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakesql.stream.json_samples import parse_value
from lakesql.stream.recording import RawRecord, payload_of
from lakesql.stream.stream import Column, Stream
from lakesql.stream.types import parse_type, type_at

MOST_VALUES = 1_000
"""The maximum number of values of a route that are found rather than declared; a column
with more does not name tables."""


def route_type(column: str, stream: Stream) -> str:
    """The type of a column, or of a field of a struct by its path; '' if the stream has
    none of this name."""
    return type_at({each.name.lower(): each.type for each in stream.columns}, column)


def text_columns(stream: Stream) -> list[str]:
    """The columns of type string, and such fields of structs by their paths: these may
    be a route."""
    found: list[str] = []
    for column in stream.columns:
        if not column.is_rescued:
            found += _texts_in(column.name, column.type)
    return found


def _texts_in(path: str, kind: str) -> Iterator[str]:
    if kind == "string":
        yield path
    parsed = parse_type(kind)
    for field in (
        parsed.fields if parsed is not None and parsed.name == "struct" else ()
    ):
        yield from _texts_in(f"{path}.{field.name}", field.type.text)


def read_of(route: str, stream: Stream) -> tuple[Column, list[str]]:
    """The column of a stream that contains the route, and the names of the fields that
    lead to it."""
    name, *fields = route.split(".")
    return next(
        column for column in stream.columns if column.name.lower() == name.lower()
    ), fields


def may_look_for_values(stream: Stream) -> bool:
    """Whether the values of a route can be read from records without Spark: from JSON,
    also after the id of a schema, and from formats that a registry's schema turns into
    JSON."""
    kind = stream.record_format
    return (
        kind.is_document
        or kind.is_framed
        or (kind.tells_columns and bool(stream.registry))
    )


def values_in(records: Iterable[RawRecord], stream: Stream, column: str) -> list[str]:
    """The values of a route in records of JSON, in the order in which they first
    appear.

    It is a first look, at texts alone; batches find the other values. Records whose
    schema was in a registry have it beside them.
    """
    read_from, fields = read_of(column, stream)
    found: dict[str, None] = {}
    for record in records:
        value = parse_value(record.key if read_from.is_in_key else record.value)
        if stream.registry:
            value = payload_of(value)
        for field in (read_from.key_field, *fields):
            value = _member(value, field)
        if isinstance(value, str):
            found[value] = None
    return [*found]


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
