"""What must hold for a group with a route: one whose tables are made of the values of a
stream's column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakesql.errors import Place, Problem, did_you_mean
from lakesql.model.group import NAME_PARTS, ModelGroup
from lakesql.stream.route_values import (
    MOST_VALUES,
    may_look_for_values,
    route_type,
    text_columns,
)
from lakesql.stream.source_table import SourceTable
from lakesql.stream.stream import Stream


def check_route(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    """Problems of a group's route, and of the stream whose records it distributes to
    tables."""
    if feed.is_feed:
        yield _problem(
            group,
            f"Stream '{feed.name}' is a change feed, and '{group.name}' has a route.",
            "A change says which table it is of. A row whose column has another value then would stay in the table of "
            "the former one.",
            "Leave `route` out: a table is made of each of the database's.",
        )
        return
    yield from _check_origin(group, feed)
    yield from _check_column(group, feed)
    others = [
        part
        for part in NAME_PARTS
        if part != "value" and f"{{{part}}}" in group.tables.name
    ]
    if others:
        what = f"`name` of group '{group.name}' has {{{others[0]}}} in it, and a route has values alone."
        yield _problem(group, what, "", "Write {value}.")
    if group.config.consistent:
        yield Problem(
            "group-transactions",
            f"Group '{group.name}' says consistent=True, and stream '{feed.name}' tells of no transactions.",
            "Records that are no changes of a database are of none.",
            "Leave `consistent` out.",
            group.place,
        )


def check_one_route(groups: Iterable[ModelGroup]) -> Iterator[Problem]:
    """Problems of groups that distribute the records of one stream by different
    columns: values are recorded for a stream, without the column."""
    first: dict[str, ModelGroup] = {}
    for group in groups:
        other = first.setdefault(group.stream, group)
        if group.tables.route != other.tables.route:
            yield _problem(
                group,
                f"Groups '{other.name}' and '{group.name}' make tables of stream '{group.stream}' by several routes.",
                "A value is known as one of a stream's.",
                "Declare another stream of the same topic, and let one of them read that.",
            )


def check_empty(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    """The remark that no value of a group's route is known, so that no table is
    made."""
    if not group.tables.route:
        return
    why = "Nor has one of the newest records of the topic a text there, as far as it was looked at on this machine."
    fix = "`lakesql run` looks at it. Or declare one"
    if not may_look_for_values(feed):
        why = f"Records in format '{feed.format}' are read by Spark alone, and their values found in batches of a table."
        fix = "Declare one, and the batches of its table find the others"
    yield Problem(
        "group-empty",
        f"Group '{group.name}' has no table yet: no file declares a value of {group.tables.route}.",
        why,
        f"{fix}: source_tables: [{{stream: {group.stream}, name: …}}].",
        group.place,
    )


def check_declared(group: ModelGroup, table: SourceTable) -> Iterator[Problem]:
    """The problem that the declaration of a value has options that only the stream may
    have."""
    said = {
        "topic": table.topic,
        "key": table.key,
        "columns": table.columns,
        "fields": table.schema_fields,
    }
    options = [option for option, value in said.items() if value]
    if options:
        yield Problem(
            "group-route",
            f"'{table.name}' has `{options[0]}`, and is a value of the route of group '{group.name}'.",
            "Topic, key and columns of all its tables are those of the stream.",
            f"Leave it out. A file {group.name}.{group.tables.member_name(table)}.sql gives one table a SELECT and a "
            "mode of its own.",
            table.place,
        )


def check_values(group: ModelGroup, tables: Iterable[SourceTable]) -> Iterator[Problem]:
    """The remark that a column has too many values to make tables of: those that no
    file declares get no table."""
    found = sum(not table.is_declared for table in tables)
    if group.tables.route and found > MOST_VALUES:
        yield _problem(
            group,
            f"The route of group '{group.name}', {group.tables.route}, has more than {MOST_VALUES:,} values that no "
            "file declares.",
            "None of them gets a table: so many are no kinds of records.",
            "Name another column, or the values that are meant: tables={'include': ['order_*']}.",
        )


def _check_origin(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    """Problems of what the stream reads, and of where it begins."""
    if feed.origin.brings != "records" or not feed.origin.find_topics(tuple):
        yield _problem(
            group,
            f"Stream '{feed.name}', of whose records '{group.name}' makes tables, names no topics.",
            "A table of a value that comes later reads the topic from its start.",
            "Name them: `topic` or `topics`.",
        )
    if feed.start == "latest":
        yield _problem(
            group,
            f"Stream '{feed.name}' starts at 'latest', and '{group.name}' makes a table of a value once it has come.",
            "The table would begin behind the record that made it.",
            "Write a time in the place of `latest`: `start: 2026-01-01T00:00:00Z`.",
        )


def _check_column(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    route = group.tables.route
    kind = route_type(route, feed)
    if not feed.columns:
        what = f"Stream '{feed.name}' declares no columns, and '{group.name}' makes tables by {route}."
        yield _problem(group, what, "", "Declare the stream's `columns`.")
    elif kind and kind != "string":
        what = f"The route of group '{group.name}', {route}, is {kind}, and no string."
        yield _problem(
            group,
            what,
            "",
            f"Declare it as string, or take another: {_some(text_columns(feed))}.",
        )
    elif not kind:
        what = f"The route of group '{group.name}', {route}, is no column of stream '{feed.name}'."
        yield Problem(
            "unknown-column",
            what,
            "",
            did_you_mean(route, text_columns(feed)),
            _place(group),
        )


def _some(columns: list[str]) -> str:
    return ", ".join(columns[:5]) or "there is none"


def _problem(group: ModelGroup, what: str, why: str, fix: str) -> Problem:
    return Problem("group-route", what, why, fix, _place(group))


def _place(group: ModelGroup) -> Place:
    return group.said.key_place("tables")
