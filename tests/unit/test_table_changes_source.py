"""Where a reader of the changes of a table stands, and whether it has read all of
them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from lakesql.source.kinds import SOURCES
from lakesql.source.table import TableSource
from lakesql.source.table_changes import ChangesSource, changes_position, snapshot_read
from tests.cases import each_of


def table(*commits: tuple[int, str]) -> Mock:
    """A table, its newest commit first."""
    history = [
        Mock(id=id_, summary={"operation": operation}) for id_, operation in commits
    ]
    return Mock(table=Mock(return_value=Mock(history=history)))


@each_of(
    ("commits", "is_read"),
    [
        ([(7, "overwrite"), (6, "append")], True),
        ([(9, "replace"), (8, "replace"), (7, "overwrite")], True),
        ([(8, "append"), (7, "overwrite")], False),
        ([(9, "replace"), (8, "delete"), (7, "overwrite")], False),
        ([(9, "replace"), (8, "replace")], False),
        ([], False),
    ],
)
def test_nothing_but_rewrites_is_nothing_new(
    commits: list[tuple[int, str]], is_read: bool
) -> None:
    source, now = ChangesSource("l.n.t"), table(*commits)
    assert source.is_read(Mock(), 0, changes_position(7), Mock(), now) is is_read
    assert not source.is_read(Mock(), 0, None, Mock(), now)


ROWS = {"version": 1, "snapshot_id": 7, "position": 3, "scan_all_files": False}


def test_the_place_of_a_reader_of_rows_is_none_of_a_reader_of_changes() -> None:
    """A model whose rows began to change: what was read of the files of a snapshot says
    nothing of its changes."""
    changes: Any = changes_position(7)
    assert ChangesSource.is_position(changes) and not TableSource.is_position(changes)
    assert TableSource.is_position(ROWS) and not ChangesSource.is_position(ROWS)
    assert [kind.noted_start(changes) for kind in SOURCES.values()] == [None] * len(
        SOURCES
    )
    assert (snapshot_read(changes), snapshot_read(None)) == (7, None)
