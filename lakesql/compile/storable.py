"""Problems that Iceberg would raise when a table is created, found in advance: types of
columns, partition fields and sort fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from lakesql.errors import Place, Problem
from lakesql.model.config import PartitionField, SortField
from lakesql.stream.types import parse_type, parts_of, stored_type

_SINCE = {"void": 3}
_NEVER = frozenset({"interval", "time", "variant"})
"""Types of Spark that no table can hold: Iceberg has no interval, and its Spark runtime
no time. A variant could be written to a table of version 3, but pyiceberg 0.12 could
then no longer read the table's metadata."""


def find_unstorable(text: str, format_version: int) -> str:
    """The part of a type that a table of this format version cannot hold; '' if there
    is none, or if the type is unknown."""
    parsed = parse_type(text)
    if parsed is None:
        return ""
    parts = (
        part
        for part in parts_of(parsed)
        if part.name in _NEVER or _SINCE.get(part.name, 0) > format_version
    )
    return next((part.text for part in parts), "")


def say_unstorable(text: str, part: str) -> tuple[str, str]:
    """The reason why a type cannot be stored, and what to do about it."""
    inside = "" if text == part else f" of {text}"
    name = part.split("(")[0].split(" ")[0]
    if name == "variant":
        why = f"lakesql reads tables by pyiceberg, which knows no column of type {part}{inside}."
        return why, "Cast it to string."
    if name in _SINCE:
        why = f"Iceberg has {part}{inside} in tables of format version {_SINCE[name]} or later alone."
        return (
            why,
            f"Cast it to a type that tables have, or set properties={{'format-version': '{_SINCE[name]}'}}.",
        )
    return (
        f"Iceberg has no column of type {part}{inside}.",
        "Cast it to a type that tables have, such as bigint or string.",
    )


def find_taken_names(
    fields: Iterable[PartitionField], columns: Collection[str]
) -> Mapping[PartitionField, str]:
    """The partition fields whose name a column already has, each with that column."""
    spelled = {column.lower(): column for column in columns}
    return {
        field: spelled[name]
        for field in fields
        if (name := field.name.lower()) in spelled
    }


_NESTED = frozenset({"struct", "array", "map"})
_DATES = frozenset({"date", "timestamp", "timestamp_ntz"})
_SOURCES = {
    "years": _DATES,
    "months": _DATES,
    "days": _DATES,
    "hours": _DATES - {"date"},
    "bucket": _DATES | {"int", "bigint", "decimal", "string", "binary"},
    "truncate": frozenset({"int", "bigint", "decimal", "string", "binary"}),
}
"""The types that each transform accepts (Iceberg's specification, partition
transforms)."""


def takes(field: PartitionField, text: str) -> bool:
    """Whether a column of Spark's type `text` can be partitioned by this field; true if
    the type is unknown."""
    kind = parse_type(stored_type(text))
    if kind is None:
        return True
    return (
        kind.name in _SOURCES[field.transform]
        if field.transform in _SOURCES
        else kind.name not in _NESTED
    )


def can_be_ordered(text: str) -> bool:
    """Whether Iceberg can sort rows by a column of Spark's type `text`; true if the
    type is unknown."""
    kind = parse_type(stored_type(text))
    return kind is None or kind.name not in _NESTED


def find_misused(
    model: str,
    types: Mapping[str, str],
    order_by: Iterable[SortField],
    compared: Mapping[str, Iterable[str]],
    place: Callable[[str], Place | None] = lambda option: None,
) -> Iterator[Problem]:
    """Problems of columns by which rows are sorted or compared although their type has
    no order.

    `types` are Spark's types by column in lower case, as far as they are known;
    `compared` are the columns by option.
    """
    for field in order_by:
        kind = types.get(field.column.lower(), "")
        if kind and not can_be_ordered(kind):
            what = f"'{field.column}' in order_by of model '{model}' is of type {kind}, by which Iceberg orders no rows."
            yield Problem("order-type", what, place=place("order_by"))
    for option, columns in compared.items():
        for column in columns:
            kind = types.get(column.lower(), "")
            parsed = parse_type(stored_type(kind)) if kind else None
            if parsed is not None and any(
                part.name in _NEVER_EQUAL for part in parts_of(parsed)
            ):
                what = f"'{column}' in {option} of model '{model}' is of type {kind}, whose values Spark cannot compare."
                yield Problem("key-type", what, place=place(option))


_NEVER_EQUAL = frozenset({"map", "variant"})
