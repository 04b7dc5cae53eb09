"""Reads the changes of a feed, or of a table, as a unit test writes them: `{op: u,
before: {…}, after: {…}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lakesql.decode import Node, decode, option
from lakesql.errors import Problem, ProjectError
from lakesql.unit.fixture_values import Value, read_time

Row = Mapping[str, Value]
ReadRow = Callable[[Node], Row]


def _read_ts(node: Node) -> datetime:
    found = read_time(node.value) if isinstance(node.value, str) else None
    if found is None or found.microsecond % 1000:
        fix = "Write a time in ISO 8601, of whole milliseconds, such as 2026-03-05T12:00:00Z."
        raise ProjectError.of(
            "bad-fixture",
            f"{node.shown} is no time of a change.",
            fix=fix,
            place=node.place,
        )
    return found


def _read_position(node: Node) -> int:
    if (
        isinstance(node.value, int)
        and not isinstance(node.value, bool)
        and 0 <= node.value < 2**63
    ):
        return node.value
    fix = "Write a whole number, which rises as the log of the database does."
    raise ProjectError.of(
        "bad-fixture", f"{node.shown} is no place in a log.", fix=fix, place=node.place
    )


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """One change of a feed whose envelope is `debezium`, or of another model's
    table."""

    op: Literal["c", "u", "d", "r", "t"] = option(
        "Operation: a row was inserted (`c`), updated (`u`), deleted (`d`) or read by a snapshot (`r`), or the table "
        "was truncated (`t`)."
    )
    after: Node | None = option(
        "Row after the change, for `c`, `u` and `r`.",
        default=None,
        read=lambda node: node,
    )
    before: Node | None = option(
        "Row before the change, for `u` and `d`; a `d` needs at least the key.",
        default=None,
        read=lambda node: node,
    )
    ts: datetime | None = option(
        "`_change.ts`: the time of the change in the database.",
        default=None,
        read=_read_ts,
    )
    position: int | None = option(
        "`_change.position`: the position in the database's log. If left out, the number of the record among those "
        "that the test gives of the stream: 1, 2, 3 and so on.",
        default=None,
        read=_read_position,
    )
    tx: str | None = option(
        "`_change.tx`: the transaction of the change.", default=None
    )
    source_table: str = option(
        "Table of the database, as `schema.table` or `database.schema.table`, for `_change.source_table` and the "
        "like; the stream's `source_table` if left out.",
        default="",
    )


@dataclass(frozen=True, slots=True)
class GivenChange:
    """A change of a row. `row` has all columns: the values after the change, and for a
    delete those before it. `position` is a single number, like a position in
    PostgreSQL's log."""

    op: str
    row: Row
    before: Row | None
    ts: datetime | None
    position: int
    tx: str | None
    source_table: str = ""


def read_change(
    node: Node,
    number: int,
    columns: tuple[str, ...],
    read_row: ReadRow,
    key: tuple[str, ...],
) -> GivenChange:
    """A change of a feed with these columns. `number` is its position where the test
    gives none.

    Raises `ProjectError` for a change that Debezium would not write.
    """
    said = decode(node, ChangeOptions, what="a change")
    wanted = {
        "c": ("after",),
        "u": ("after",),
        "r": ("after",),
        "d": ("before",),
        "t": (),
    }[said.op]
    allowed = (*wanted, "before") if said.op == "u" else wanted
    problems = []
    for side, given in (("after", said.after), ("before", said.before)):
        if given is None and side in wanted:
            problems.append(
                Problem(
                    "bad-fixture",
                    f"A change of op {said.op} has '{side}'.",
                    place=node.place,
                )
            )
        elif given is not None and side not in allowed:
            what = f"A change of op {said.op} has no '{side}'."
            problems.append(Problem("bad-fixture", what, place=node.key_place(side)))
    if problems:
        raise ProjectError(problems)
    sides = {
        side: _whole(read_row(given), columns)
        for side, given in _sides(said)
        if given is not None
    }
    before = sides.get("before")
    row = sides["after"] if "after" in sides else before or _whole({}, columns)
    if (
        said.op == "u"
        and before is not None
        and any(before[name] != row[name] for name in key)
    ):
        what = "This update changes the key of its row, which arrives as a delete and an insert."
        fix = "Write two changes: {op: d, before: …} and {op: c, after: …}."
        raise ProjectError.of("bad-fixture", what, fix=fix, place=node.place)
    position = number if said.position is None else said.position
    return GivenChange(
        said.op, row, before, said.ts, position, said.tx, said.source_table
    )


def read_table_change(
    node: Node, columns: tuple[str, ...], read_row: ReadRow, key: tuple[str, ...]
) -> GivenChange:
    """A change of a row of another model's table, which has these columns. Raises
    `ProjectError` for a change that no commit makes."""
    change = read_change(node, 0, columns, read_row, key)
    if change.op not in ("c", "u", "d"):
        what = f"A commit changes rows by op c, u or d, and not by {change.op}."
        fix = "A table that is emptied has a `d` of each row."
        raise ProjectError.of("bad-fixture", what, fix=fix, place=node.place)
    for word in ("position", "tx", "source_table"):
        if node.get(word) is not None:
            what = f"A change of a table has no '{word}'."
            raise ProjectError.of("bad-fixture", what, place=node.key_place(word))
    return change


def _sides(said: ChangeOptions) -> tuple[tuple[str, Node | None], ...]:
    return ("after", said.after), ("before", said.before)


def _whole(row: Row, columns: tuple[str, ...]) -> Row:
    return {name: row.get(name) for name in columns}
