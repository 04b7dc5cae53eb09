"""The rows of a table that a unit test gives, before the first batch and after each
batch of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.decode import Node
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.model.unit_tests import GivenRef
from lakesql.unit.arrivals_given import EPOCH
from lakesql.unit.change_given import GivenChange, read_table_change
from lakesql.unit.fixtures import (
    Other,
    Row,
    needs_spark,
    read_each,
    read_items,
    read_row,
    read_rows,
)


def read_states(
    given: GivenRef,
    types: Mapping[str, str],
    keys: Sequence[str],
    folder: Path,
    other: Other = needs_spark,
) -> list[list[Row]]:
    """The rows of the table before the batches, then those after each of them.

    `types` are the types of the table's columns by name. `keys` are the columns that
    identify a row; without them a row is found by all columns that the test names of
    it. Raises `ProjectError` for rows that do not fit, for a change of a row that does
    not exist, and for a second row with the same key.
    """
    what = f"the table of '{given.ref}'"
    rows = (
        []
        if given.rows is None
        else [it.values for it in read_rows(given.rows, types, what, folder, other)]
    )
    states = [[_whole(row, types) for row in rows]]
    lowered = {key.lower() for key in keys}
    key = tuple(name for name in types if name.lower() in lowered)
    read = partial(read_row, columns=types, what=what, other=other)
    for batch in given.batches:
        state = [*states[-1]]

        def change(node: Node, state: list[Row] = state) -> None:
            _apply(read_table_change(node, tuple(types), read, key), node, state, key)

        read_each(read_items(batch, folder), change, lambda node: node.place)
        states.append(state)
    return states


def keys_of(manifest: Manifest, name: str, built: dict[str, Select]) -> tuple[str, ...]:
    """The columns that identify a row of a model's table; none for a seed."""
    return (
        ()
        if name in manifest.seeds
        else build_select(manifest, name, built).writing.keys
    )


def time_of_refresh(now: datetime | None, number: int) -> datetime:
    """The time of the refresh, or of the batch, with this number, in UTC: the test's
    `now`, or else 1970, plus as many seconds."""
    return (now or EPOCH) + timedelta(seconds=number)


def _apply(
    change: GivenChange, node: Node, state: list[Row], key: Sequence[str]
) -> None:
    """Apply a change to the rows, in place. Raises `ProjectError` if its row does not
    exist, or exists already."""
    after = {**change.row}
    if change.op == "c":
        _refuse_second(after, node, state, key)
        state.append(after)
        return
    place = _find(change, node, state, key)
    if change.op == "d":
        del state[place]
    else:
        state[place] = after


def _find(
    change: GivenChange, node: Node, state: Sequence[Row], key: Sequence[str]
) -> int:
    """The index of the row that is changed: the one with the values that the change's
    `before` names, or else with its key. Raises `ProjectError` if no row has them, or
    if rows that differ do."""
    before = node.get("before")
    if before is None and not key:
        fix = "Say the row before it: {op: u, before: …, after: …}."
        raise ProjectError.of(
            "bad-fixture",
            "The rows of this table have no key by which to find one.",
            fix=fix,
            place=node.place,
        )
    named = (
        {name.lower() for name in before.entries()}
        if before is not None
        else {name.lower() for name in key}
    )
    row = change.row if before is None else change.before or change.row
    wanted = {name: value for name, value in row.items() if name.lower() in named}
    found = [number for number, each in enumerate(state) if _has(each, wanted)]
    if not found:
        what = (
            f"No row has the values {_shown(wanted)} that this change finds its row by."
        )
        fix = "Each change is of the rows as the changes before it have left them."
        raise ProjectError.of("bad-fixture", what, fix=fix, place=node.place)
    if any(state[number] != state[found[0]] for number in found):
        what = f"{len(found)} rows have the values {_shown(wanted)} that this change finds its row by."
        fix = "Name more of its columns under `before`."
        raise ProjectError.of("bad-fixture", what, fix=fix, place=node.place)
    return found[0]


def _refuse_second(
    row: Row, node: Node, state: Sequence[Row], key: Sequence[str]
) -> None:
    wanted = {name: row[name] for name in key}
    if key and any(_has(each, wanted) for each in state):
        what = f"A row of the key {_shown(wanted)} is there already."
        fix = "A change of it has op u, with the row after it."
        raise ProjectError.of("bad-fixture", what, fix=fix, place=node.place)


def _has(row: Row, values: Row) -> bool:
    return all(row[name] == value for name, value in values.items())


def _shown(values: Row) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def _whole(row: Row, columns: Mapping[str, str]) -> Row:
    """The row with all columns; those that the test does not name are NULL."""
    return {name: row.get(name) for name in columns}
