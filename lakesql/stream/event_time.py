"""What a watermark is on: a timestamp column, a field of a struct, or an expression
over columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakesql.errors import Place, Problem, did_you_mean
from lakesql.stream.types import parse_type, type_at


def is_column(column: str, types: Mapping[str, str]) -> bool:
    """Whether the event time is one of the columns in `types`, ignoring case."""
    return column.lower() in map(str.lower, types)


def is_expression(column: str, types: Mapping[str, str]) -> bool:
    """Whether the event time is an expression, as it is neither one of these columns
    nor written like a column or a field."""
    return not is_column(column, types) and not all(
        part.isidentifier() for part in column.split(".")
    )


def named_type(column: str, types: Mapping[str, str]) -> str:
    """The type of an event time that is a column or a field; '' if only Spark knows
    it."""
    return type_at({name.lower(): kind for name, kind in types.items()}, column)


def find_unnamed(
    column: str, types: Mapping[str, str], owner: str, place: Place | None
) -> Iterator[Problem]:
    """Problems of a watermark on the column or field `column` of `owner`: it does not
    exist, or is no timestamp. An expression has none here.

    `types` are those of the owner's columns; '' is a type that only Spark knows.
    """
    if is_expression(column, types):
        return
    path = [column] if is_column(column, types) else column.split(".")
    if not is_column(path[0], types):
        what = f"'{column}' in 'watermark' is not a column of {owner}."
        yield Problem(
            "unknown-column", what, fix=did_you_mean(column, types), place=place
        )
    elif (missing := _find_missing(path, types)) is not None:
        name, fields = missing
        what = f"'{name}' in 'watermark: {{column: {column}}}' is no field of {owner}."
        yield Problem(
            "unknown-column", what, fix=did_you_mean(name, fields), place=place
        )
    else:
        yield from check_event_time(column, named_type(column, types), place)


def check_event_time(column: str, kind: str, place: Place | None) -> Iterator[Problem]:
    """Problems of an event time of this type; '' is a type that only Spark knows."""
    if kind in ("timestamp", ""):
        return
    what = f"The watermark's column '{column}' is {kind}, and not timestamp."
    fix = (
        f"Write `column: CAST({column} AS timestamp)`, and group and join by it in the same words."
        if kind == "timestamp_ntz"
        else ""
    )
    yield Problem("wrong-type", what, fix=fix, place=place)


def _find_missing(
    path: list[str], types: Mapping[str, str]
) -> tuple[str, tuple[str, ...]] | None:
    """The first name in a path that is no field of the part before it, with the fields
    that exist; None if all exist."""
    kind = parse_type(named_type(path[0], types))
    for name in path[1:]:
        if kind is None:
            return None
        fields = (
            {field.name.lower(): field for field in kind.fields}
            if kind.name == "struct"
            else {}
        )
        if name.lower() not in fields:
            return name, tuple(field.name for field in fields.values())
        kind = fields[name.lower()].type
    return None
