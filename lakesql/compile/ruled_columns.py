"""The rules of a group for columns and records, as a SELECT that replaces the feed's
table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from lakesql.compile.quote import field_path, identifier, text
from lakesql.errors import Problem, ProjectError, quoted
from lakesql.model.column_rules import ColumnRule, GroupMember
from lakesql.model.model import Model
from lakesql.stream.route import Route
from lakesql.stream.stream import Column, Stream


def ruled_views(
    model: Model, streams: Mapping[str, Stream]
) -> dict[tuple[str, ...], str]:
    """The SELECT that the group's rules and its route make of the stream of one of its
    models, by the stream's name in lower case.

    Empty if no rule names a column of the stream and all records are the table's.
    Raises `ProjectError` (`group-column`) if a rule would change a key column, by which
    changes find their rows.
    """
    member = model.member
    if member is None or member.stream not in streams:
        return {}
    stream = streams[member.stream]
    where = (
        f"\nWHERE {route_condition(stream.route)}" if stream.route is not None else ""
    )
    if not any(member.rule_of(column.name) for column in stream.columns):
        return (
            {(stream.name.lower(),): f"SELECT *\nFROM {identifier(stream.name)}{where}"}
            if where
            else {}
        )
    if problems := [*_check_key(model, member, stream)]:
        raise ProjectError(problems)
    ruled = [
        column for column in stream.columns if member.rule_of(column.name) is not None
    ]
    items = [item for column in ruled for item in _items(member, column)]
    if not items and len(ruled) == len(stream.columns):
        what = f"The rules of group '{member.group}' leave table '{member.source_table}' no column."
        raise ProjectError.of("group-column", what, place=model.option_place("tables"))
    # Columns without a rule are not named, so that a new column does not change the
    # SELECT.
    columns = ",\n  ".join(
        [f"* EXCEPT ({', '.join(identifier(column.name) for column in ruled)})", *items]
    )
    return {
        (
            stream.name.lower(),
        ): f"SELECT\n  {columns}\nFROM {identifier(stream.name)}{where}"
    }


def route_condition(route: Route) -> str:
    """The condition that a record belongs to the route's table: its column, or the
    field of a struct, has the table's value."""
    return f"{field_path(route.column)} = {text(route.value)}"


def _check_key(model: Model, member: GroupMember, stream: Stream) -> Iterator[Problem]:
    ruled = [name for name in stream.key if member.rule_of(name) is not None]
    if ruled:
        yield Problem(
            "group-column",
            f"A rule of group '{member.group}' changes {quoted(ruled)}, the key of table '{member.source_table}'.",
            "A change finds its row by its key, as the source has it.",
            "Name the other columns in `columns`; or give the table a model of its own.",
            model.option_place("tables"),
        )


def _items(member: GroupMember, column: Column) -> Iterator[str]:
    """The select item that replaces a column named by a rule; none if the rule drops
    the column."""
    rule = member.rule_of(column.name)
    value = _value(rule, column) if rule is not None else ""
    if value:
        yield f"{value} AS {identifier(column.name)}"


def _value(rule: ColumnRule, column: Column) -> str:
    """The expression that replaces a column's value; '' if the rule drops the
    column."""
    name = identifier(column.name)
    match rule.action:
        case "mask_hash":
            return f"sha2(CAST({name} AS string), 256)"
        case "mask_null":
            return f"CAST(NULL AS {column.type})"
        case "mask_truncate":
            return f"left(CAST({name} AS string), {rule.argument})"
        case "cast":
            return f"CAST({name} AS {rule.argument})"
        case "drop":
            return ""
        case _:
            assert_never(rule.action)
