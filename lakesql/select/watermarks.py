"""Which type the event time of a watermark has, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakesql.errors import Place, Problem
from lakesql.select.query import read_event_time
from lakesql.stream.event_time import (
    check_event_time,
    find_unnamed,
    is_expression,
    named_type,
)


def event_type(column: str, types: Mapping[str, str]) -> str:
    """The type of an event time that is a column, a field or an expression over columns
    of these types; '' where only Spark knows it."""
    if not is_expression(column, types):
        return named_type(column, types)
    found = read_event_time(column, types)
    return "" if found is None or isinstance(found, Problem) else found.text


def find_unfit(
    column: str, types: Mapping[str, str], owner: str, place: Place | None
) -> Iterator[Problem]:
    """The problems of a watermark on `column`, for which messages name the `owner`:
    what has columns of these types. '' is a type that only Spark knows."""
    if not is_expression(column, types):
        yield from find_unnamed(column, types, owner, place)
        return
    found = read_event_time(column, types)
    if isinstance(found, Problem):
        yield found.at(place) if place else found
    elif found is not None:
        yield from check_event_time(column, found.text, place)
