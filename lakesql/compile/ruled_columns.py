"""What a group says of columns and records, as the SELECT that stands in the place of a
feed's table."""

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
    """The SELECT that the group's rules, and its route, make of the stream of one of
    its models, by the stream's name in small letters.

    None where no rule names a column of it, and all records are the table's. Raises
    `ProjectError` (`group-column`) where a rule would change a column of the key, by
    which changes find their rows.
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
    # Columns that no rule names are not named: another one is no other SELECT.
    columns = ",\n  ".join(
        [f"* EXCEPT ({', '.join(identifier(column.name) for column in ruled)})", *items]
    )
    return {
        (
            stream.name.lower(),
        ): f"SELECT\n  {columns}\nFROM {identifier(stream.name)}{where}"
    }


def route_condition(route: Route) -> str:
    """Whether a record is one of the table: its column, or the field of a struct, has
    the table's value."""
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
    """The text that replaces a column named by a rule; nothing where the rule leaves it
    out."""
    rule = member.rule_of(column.name)
    value = _value(rule, column) if rule is not None else ""
    if value:
        yield f"{value} AS {identifier(column.name)}"


def _value(rule: ColumnRule, column: Column) -> str:
    """The expression that replaces a column's value; '' where no rule does."""
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
