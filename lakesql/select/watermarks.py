"""The event time that a watermark is on: what is wrong with it, and its type."""

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
    """The type of the event time that is made of columns of these types; '' where only
    Spark knows it."""
    if not is_expression(column, types):
        return named_type(column, types)
    found = read_event_time(column, types)
    return "" if found is None or isinstance(found, Problem) else found.text


def find_unfit(
    column: str, types: Mapping[str, str], owner: str, place: Place | None
) -> Iterator[Problem]:
    """What is wrong with a watermark on `column` of what is called `owner`, which has
    columns of these types.

    A type that is '' only Spark knows.
    """
    if not is_expression(column, types):
        yield from find_unnamed(column, types, owner, place)
        return
    found = read_event_time(column, types)
    if isinstance(found, Problem):
        yield found.at(place) if place else found
    elif found is not None:
        yield from check_event_time(column, found.text, place)
