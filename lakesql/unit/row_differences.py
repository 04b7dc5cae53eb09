"""Compares the rows that are expected with those that are found, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lakesql.unit.fixture_values import Value
from lakesql.unit.fixtures import NamedRow, Row

Side = Literal["missing", "unexpected"]


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that is only expected (`missing`), or only found (`unexpected`)."""

    side: Side
    row: Row


@dataclass(frozen=True, slots=True)
class RowDifference:
    """The rows that differ. Each missing row stands before the unexpected row that is
    most like it.

    `same` is the number of rows that are as expected.
    """

    what: str
    rows: tuple[OddRow, ...]
    same: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the missing rows name; all columns if none is missing."""
        named = [odd.row for odd in self.rows if odd.side == "missing"] or [
            odd.row for odd in self.rows
        ]
        return tuple(dict.fromkeys(column for row in named for column in row))


def find_difference(
    what: str, expected: Sequence[NamedRow], found: Sequence[Row]
) -> RowDifference | None:
    """How the rows differ. None if each expected row matches a found one in the columns
    that it names, and no found row is left over."""
    match_of = _match([row.values for row in expected], found)
    missing = [
        row.values for index, row in enumerate(expected) if index not in match_of
    ]
    taken = set(match_of.values())
    unexpected = [row for index, row in enumerate(found) if index not in taken]
    if not missing and not unexpected:
        return None
    rows: list[OddRow] = []
    for row in missing:
        rows.append(OddRow("missing", row))
        if unexpected:
            nearest = max(
                unexpected,
                key=lambda other: sum(_is_same(other[name], row[name]) for name in row),
            )
            unexpected.remove(nearest)
            rows.append(OddRow("unexpected", nearest))
    rows += [OddRow("unexpected", row) for row in unexpected]
    return RowDifference(what, tuple(rows), len(match_of))


def _match(expected: Sequence[Row], found: Sequence[Row]) -> dict[int, int]:
    """Which found row each expected row matches, by their indexes: as many matches as
    are possible (maximum bipartite matching).

    Rows that name different columns may fit several found rows, so a match is changed
    if that lets another row have one.
    """
    fits = [
        [at for at, row in enumerate(found) if _fits(wanted, row)]
        for wanted in expected
    ]
    owner: dict[int, int] = {}

    def place(index: int, seen: set[int]) -> bool:
        for at in fits[index]:
            if at not in seen:
                seen.add(at)
                if at not in owner or place(owner[at], seen):
                    owner[at] = index
                    return True
        return False

    for index in range(len(expected)):
        place(index, set())
    return {index: at for at, index in owner.items()}


def _fits(wanted: Row, row: Row) -> bool:
    return all(_is_same(row[name], value) for name, value in wanted.items())


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values of one type are equal. NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    return bool(one == other)
