"""How the places of two changes in a database's log are compared, where one is a row
that a snapshot has read. Pure.

A streamed change has its place, such as `[lsn, number]`. A row that a snapshot has read
has -1, and then the place that the database gave the snapshot, if it gave one. So it is
older than each change: those that follow it in the feed may have begun before the
snapshot, and so have a smaller place in the log than that. And it replaces what came
before it in the feed, unless the log says that this came after the snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.compile.quote import column_of, identifiers
from lakesql.names import CHANGE, CHANGES_VIEW, POSITION

READ_BY_SNAPSHOT = -1
"""What the place of a row begins with that a snapshot has read."""

LATE_READ = -2
"""What it begins with where the row comes as a dead letter, by itself: it is older than
all that is there."""

_IT, _AT = "_lakesql_it", "_lakesql_at"
"""A number of a place, and where it stands there. Such a name hides a column of the
same name."""

READS = "_lakesql_reads"
"""The column of what snapshots have read of a row."""

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
"""The column of the place of the newest change before a row that a snapshot has
read."""


def not_replaced(keys: Sequence[str]) -> str:
    """The query for the changes of `_lakesql_changes` that no row of a snapshot
    replaces.

    A row that a snapshot has read replaces the changes of its key that come before it
    in its partition, and those of other partitions; but none with a greater place in
    the log than the snapshot. Where the snapshot has no place in the log, its
    partition's are replaced alone.
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
    """The query for the changes of a history, in which each row of a snapshot is placed
    behind the newest change of its key that came before it in its partition; at the
    snapshot's own place in the log where that change has a greater one.

    `fields` are those of `_change`, in their order. A row without a place in the log is
    left out where a change of its key came before it, as it says nothing new.
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
    """The query for `_lakesql_changes`, as `changes`, whose positions are replaced by
    the expression `placed`.

    The expression may name `before`: the greatest position among the changes of the
    row's key that came before it in its partition, without those for which
    `passed_over` holds. `fields` are those of `_change`, in their order.
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
    """Whether a snapshot has read the row of this place."""
    return f"array_contains({place}, {READ_BY_SNAPSHOT}L)"


def is_unplaced(place: str) -> str:
    """Whether a snapshot has read the row of this place, which has no place in the log
    itself."""
    return f"element_at({place}, -1) = {READ_BY_SNAPSHOT}"


def own_place(place: str) -> str:
    """The place in the log: the snapshot's, of a row that one has read; empty where it
    has none."""
    return f"filter({place}, ({_IT}, {_AT}) -> {_AT} >= array_position({place}, {READ_BY_SNAPSHOT}L))"


def place_before(place: str) -> str:
    """The expression for the position of the change that a snapshot's row is placed
    behind, in a history; any other position as it is."""
    at = f"CAST(array_position({place}, {READ_BY_SNAPSHOT}L) AS int)"
    return f"if({is_read(place)}, slice({place}, 1, {at} - 1), {place})"


def behind(place: str, before: str) -> str:
    """The expression for the position of a snapshot's row that is placed behind the
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
