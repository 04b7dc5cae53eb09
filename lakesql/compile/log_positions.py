"""How the positions of two changes in a database's log are compared in SQL, if one may
be a row that a snapshot of the database has read. Pure.

A streamed change has its position, such as `[lsn, number]`. A row that a snapshot has
read has -1, followed by the snapshot's own position if the database gave one. So it
compares as older than every streamed change: changes that follow it in the feed may
have begun before the snapshot, and so have smaller positions than the snapshot. And it
replaces what came before it in the feed, unless the log says that this came after the
snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.compile.quote import column_of, identifiers
from lakesql.names import CHANGE, CHANGES_VIEW, POSITION

READ_BY_SNAPSHOT = -1
"""The number with which the position of a row begins that a snapshot has read."""

LATE_READ = -2
"""The number with which the position of such a row begins if it comes alone, as a
replayed dead letter: it is older than everything in the table."""

_IT, _AT = "_lakesql_it", "_lakesql_at"
"""The names of a number in a position and of its index, in lambdas. They would hide
columns of the same name."""

READS = "_lakesql_reads"
"""The column with what snapshots have read of a row."""

_NOT_REPLACED = """\
SELECT * EXCEPT ({reads})
FROM (
  SELECT *,
    collect_list(if({is_read}, struct({position}, {own} AS own), NULL)) OVER (PARTITION BY {keys}) AS {reads}
  FROM {changes}
)
WHERE {change}.op = 't'
  OR NOT exists(
    {reads},
    it -> CASE
      WHEN it.{position}.source = {position}.source AND it.{position}.partition = {position}.partition
      THEN it.{position}.offset > {position}.offset AND (size(it.own) = 0 OR it.own >= {own})
      ELSE it.own >= {own} AND NOT {is_read}
    END
  )"""

_PLACED_ANEW = """\
SELECT changes.* EXCEPT ({change}, {before}),
  struct(
    {fields}
  ) AS {change}
FROM (
  SELECT *,
    max(if({passed_over}, NULL, {change}.position)) OVER (
      PARTITION BY {keys}, {position}.source, {position}.partition
      ORDER BY {position}.offset
    ) AS {before}
  FROM {changes}
) AS changes"""

_PLACED_BEHIND = """\
CASE
      WHEN {before} IS NULL OR NOT {is_read} THEN {place}
      WHEN {before} <= {own} THEN concat({before}, {place})
      ELSE {own}
    END"""

BEFORE = "_lakesql_before_it"
"""The column with the position of the newest change before a row that a snapshot has
read."""


def not_replaced(keys: Sequence[str]) -> str:
    """The query for the changes of `_lakesql_changes` that no row of a snapshot
    replaces.

    A row that a snapshot has read replaces the changes of its key that came before it
    in its partition, and those in other partitions; but no change with a greater
    position than the snapshot. If the snapshot has no position, it replaces only
    changes in its own partition.
    """
    place = f"{CHANGE}.position"
    return _NOT_REPLACED.format(
        reads=READS,
        is_read=is_read(place),
        own=own_place(place),
        position=POSITION,
        keys=identifiers(keys),
        changes=CHANGES_VIEW,
        change=CHANGE,
    )


def placed_behind(keys: Sequence[str], fields: Sequence[str]) -> str:
    """The query for the changes of a history in which each row of a snapshot gets a
    position just after the newest change of its key that came before it in its
    partition; the snapshot's own position if that change has a greater one.

    `fields` are those of `_change`, in their order. A row without a position in the log
    is left out if a change of its key came before it, as it adds nothing new.
    """
    place = f"changes.{CHANGE}.position"
    placed = _PLACED_BEHIND.format(
        before=BEFORE, place=place, is_read=is_read(place), own=own_place(place)
    )
    changes = placed_anew(placed, BEFORE, is_read(f"{CHANGE}.position"), keys, fields)
    return f"{changes}\nWHERE {BEFORE} IS NULL OR NOT {is_unplaced(place)}"


def placed_anew(
    placed: str,
    before: str,
    passed_over: str,
    keys: Sequence[str],
    fields: Sequence[str],
) -> str:
    """The query for `_lakesql_changes`, as `changes`, in which the expression `placed`
    replaces the positions.

    The expression may use `before`: the greatest position among the earlier changes of
    the row's key in its partition, without those for which `passed_over` is true.
    `fields` are those of `_change`, in their order.
    """
    values = {
        field: placed if field == "position" else f"changes.{CHANGE}.{field}"
        for field in fields
    }
    return _PLACED_ANEW.format(
        change=CHANGE,
        before=before,
        fields=",\n    ".join(f"{value} AS {field}" for field, value in values.items()),
        passed_over=passed_over,
        keys=identifiers(keys),
        position=POSITION,
        changes=CHANGES_VIEW,
    )


def is_read(place: str) -> str:
    """The condition that a snapshot has read the row with this position."""
    return f"array_contains({place}, {READ_BY_SNAPSHOT}L)"


def is_unplaced(place: str) -> str:
    """The condition that a snapshot without a position of its own has read the row with
    this position."""
    return f"element_at({place}, -1) = {READ_BY_SNAPSHOT}"


def own_place(place: str) -> str:
    """The expression for the position in the log: of a row that a snapshot has read the
    snapshot's, an empty array if it has none."""
    return f"filter({place}, ({_IT}, {_AT}) -> {_AT} >= array_position({place}, {READ_BY_SNAPSHOT}L))"


def place_before(place: str) -> str:
    """The expression for the position of the change after which a snapshot's row was
    placed in a history; any other position is unchanged."""
    at = f"CAST(array_position({place}, {READ_BY_SNAPSHOT}L) AS int)"
    return f"if({is_read(place)}, slice({place}, 1, {at} - 1), {place})"


def behind(place: str, before: str) -> str:
    """The expression for the position of a snapshot's row that is placed after the
    change at `before`."""
    of_snapshot = f"filter({place}, (_lakesql_n, _lakesql_i) -> _lakesql_i + 1 >= array_position({place}, {READ_BY_SNAPSHOT}L))"
    return f"concat(greatest({before}, {place_before(place)}), {of_snapshot})"


def is_not_older(column: str, stored: str, batch: str) -> str:
    """The condition that a row of the batch is not older than the stored row, by a
    column of positions. `stored` and `batch` are the aliases of the two."""
    arrived, known = column_of(batch, column), column_of(stored, column)
    return f"""\
({known} IS NULL OR {arrived} >= {known}
    OR {is_read(arrived)} AND ({is_unplaced(arrived)} OR {own_place(arrived)} >= {own_place(known)}))"""
