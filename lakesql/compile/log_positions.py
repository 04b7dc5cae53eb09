"""How the places of two changes in a database's log are compared, where one is a row that a snapshot has read. Pure.

A streamed change has its place, such as `[lsn, number]`. A row that a snapshot has read has -1, and then the place that
the database gave the snapshot, if it gave one. So it is older than each change: those that follow it in the feed may
have begun before the snapshot, and so have a smaller place in the log than that. And it replaces what came before it in
the feed, unless the log says that this came after the snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.compile.quote import column_of, identifiers
from lakesql.names import CHANGE, CHANGES_VIEW, POSITION

READ_BY_SNAPSHOT = -1
"""What the place of a row begins with that a snapshot has read."""

LATE_READ = -2
"""What it begins with where the row comes as a dead letter, by itself: it is older than all that is there."""

_IT, _AT = "_lakesql_it", "_lakesql_at"
"""A number of a place, and where it stands there. Such a name hides a column of the same name."""

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
"""The column of the place of the newest change before a row that a snapshot has read."""


def not_replaced(keys: Sequence[str]) -> str:
    """The view `_lakesql_changes` without what rows that a snapshot has read replace.

    That is what came before them in their partition, and in others what has a smaller place in the log than the
    snapshot; but not what has a greater one.
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
    """The view `_lakesql_changes` of a history: each row that a snapshot has read is placed behind the newest change
    that came before it in its partition, or where the snapshot is in the log, if that is older.

    `fields` are those of `_change`, in their order. Where a change came before it, a row that has no place in the log
    says nothing new.
    """
    place = f"changes.{CHANGE}.position"
    placed = _PLACED_BEHIND.format(before=BEFORE, place=place, is_read=is_read(place), own=own_place(place))
    changes = placed_anew(placed, BEFORE, is_read(f"{CHANGE}.position"), keys, fields)
    return f"{changes}\nWHERE {BEFORE} IS NULL OR NOT {is_unplaced(place)}"


def placed_anew(placed: str, before: str, passed_over: str, keys: Sequence[str], fields: Sequence[str]) -> str:
    """The view `_lakesql_changes`, as `changes`, in which `placed` stands in the place of each position.

    That may name `before`: the greatest position of a change of the row's key up to the row in its partition, but for
    those that are `passed_over`. `fields` are those of `_change`, in their order.
    """
    values = {field: placed if field == "position" else f"changes.{CHANGE}.{field}" for field in fields}
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
    """Whether a snapshot has read the row of this place, which has no place in the log itself."""
    return f"element_at({place}, -1) = {READ_BY_SNAPSHOT}"


def own_place(place: str) -> str:
    """The place in the log: the snapshot's, of a row that one has read; empty where it has none."""
    return f"filter({place}, ({_IT}, {_AT}) -> {_AT} >= array_position({place}, {READ_BY_SNAPSHOT}L))"


def place_before(place: str) -> str:
    """The place that a row of a history which a snapshot has read is behind; any other place as it is."""
    at = f"CAST(array_position({place}, {READ_BY_SNAPSHOT}L) AS int)"
    return f"if({is_read(place)}, slice({place}, 1, {at} - 1), {place})"


def behind(place: str, before: str) -> str:
    """The place of a row that a snapshot has read, behind a change that it comes after."""
    of_snapshot = (
        f"filter({place}, (_lakesql_n, _lakesql_i) -> _lakesql_i + 1 >= array_position({place}, {READ_BY_SNAPSHOT}L))"
    )
    return f"concat(greatest({before}, {place_before(place)}), {of_snapshot})"


def is_not_older(column: str, stored: str, batch: str) -> str:
    """Whether a row of the batch is not older than one that is there; both by the aliases of what has them."""
    arrived, known = column_of(batch, column), column_of(stored, column)
    return f"""\
({known} IS NULL OR {arrived} >= {known}
    OR {is_read(arrived)} AND ({is_unplaced(arrived)} OR {own_place(arrived)} >= {own_place(known)}))"""
