"""Compares what a unit test expects with the table, the dead letters and the tombstones
after its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lakesql.model.unit_tests import UnitTest
from lakesql.unit.fixtures import Other, Row, needs_spark, read_rows
from lakesql.unit.outcomes import Failed, Outcome, Passed
from lakesql.unit.row_differences import RowDifference, find_difference

ReadTable = Callable[[], tuple[Mapping[str, str], Sequence[Row]]]
"""A function that returns the types of a table's columns, and its rows."""


def compare_after(
    number: int,
    test: UnitTest,
    folder: Path,
    table: ReadTable,
    other: Other = needs_spark,
) -> RowDifference | None:
    """How the rows of the table differ from those expected after the batch of this
    number, counted from 0. None if they do not differ, or if the test expects none
    after single batches. Raises the same errors as `compare`."""
    if not test.expect.batches:
        return None
    types, rows = table()
    wanted = read_rows(
        test.expect.batches[number],
        types,
        f"the table of model '{test.model}'",
        folder,
        other,
    )
    return find_difference(f"rows after batch {number + 1}", wanted, rows)


def compare(
    test: UnitTest,
    folder: Path,
    table: ReadTable,
    letters: Sequence[Row],
    tombstones: ReadTable,
    other: Other = needs_spark,
    earlier: Sequence[RowDifference | None] = (),
) -> Outcome:
    """The outcome of a test whose batches are all written. The table and its tombstones
    are read only if the test expects something of them; dead letters are always
    compared. `earlier` has what differed after single batches.

    Raises `ProjectError` for expected rows that do not fit, and what `other` raises.
    """
    expect, differences = test.expect, [*earlier]
    if expect.rows is not None:
        types, rows = table()
        wanted = read_rows(
            expect.rows, types, f"the table of model '{test.model}'", folder, other
        )
        differences.append(find_difference("rows", wanted, rows))
    columns = {"reason": "string", "stream": "string"}
    wanted = (
        read_rows(expect.dead_letters, columns, "a dead letter", folder)
        if expect.dead_letters
        else []
    )
    differences.append(find_difference("dead letters", wanted, letters))
    if expect.tombstones is not None:
        types, rows = tombstones()
        what = f"the tombstones of model '{test.model}'"
        wanted = read_rows(expect.tombstones, types, what, folder, other)
        differences.append(find_difference("tombstones", wanted, rows))
    found = tuple(difference for difference in differences if difference is not None)
    return Failed(found) if found else Passed()
