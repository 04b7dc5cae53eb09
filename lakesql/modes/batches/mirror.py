"""The SQL of a batch in mode `cdc`: the rows that the newest changes of a feed leave,
values that they lack, deletes and truncates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lakesql.compile.batch import POSITION_PLACE, TIME_PLACE
from lakesql.compile.log_positions import is_unplaced, own_place
from lakesql.compile.quote import column_of, identifier, identifiers, table_name, text
from lakesql.compile.with_query import with_query
from lakesql.model.table_name import TableName
from lakesql.modes.batches.newest import of_feed_column
from lakesql.names import (
    BATCH_VIEW,
    CHANGE,
    CHANGED_VIEW,
    DELETE,
    FROM,
    LATEST,
    MARK,
    MARKED_AT,
    NEWEST_VIEW,
    ONLY_MARKS,
    POSITION,
    RANK,
    ROWS_VIEW,
    UNKNOWN,
    UNSENT,
)

_FILLED = """\
SELECT batch.* EXCEPT ({columns}),
  {values},
  size(batch.{unsent}) > 0 AND NOT batch.{delete} AND {stored_key} IS NULL AS {unknown}{only_marks}
FROM {batch} AS batch
LEFT JOIN {table} AS stored
ON {match}
  AND NOT batch.{delete}
  AND size(batch.{unsent}) > 0
  AND NOT array_contains(batch.{unsent}, '')
  AND """

_OR_UNKNOWN = """,
  batch.{only_marks}
    OR batch.{marked_at} IS NOT NULL AND size(batch.{unsent}) > 0 AND {stored_key} IS NULL AS {only_marks}"""

_TOUCHED = "_lakesql_touched"
"""The common table expression of the keys that have changed. Correlated sub-queries use
the name, so it must not be that of a column."""

_EMPTIED = """\
SELECT {change} AS change,
  {change}.position AS place,
  {position} AS arrival,
  {position}.*
FROM {newest}
WHERE {change}.op = 't'"""
"""The query for the truncates. The values by which they are compared are columns of
their own: with a field of a struct in the condition of an EXISTS, Spark's optimizer may
take it from the wrong side (`NestedColumnAliasing`)."""

_LATER_BY_ARRIVAL = """\
CASE
    WHEN emptied.source = {touched}.{position}.source
      AND emptied.partition = {touched}.{position}.partition
    THEN emptied.offset > {touched}.{position}.offset
    ELSE {is_emptied}
  END"""

_LATER_BY_POSITION = """\
CASE
    WHEN {is_unplaced}
      AND emptied.source = {touched}.{position}.source
      AND emptied.partition = {touched}.{position}.partition
    THEN emptied.offset > {touched}.{position}.offset
    ELSE {is_emptied}
  END"""

_CURRENT = """\
SELECT *
FROM {changed}
WHERE {change}.op IN ('c', 'u', 'r')"""

_LATEST = """\
SELECT * EXCEPT ({columns}, {latest}, {mark}),
  {values}
FROM {changed}
WHERE {latest} IS NOT NULL"""

_BATCH = """\
SELECT {columns},
  CASE
    WHEN count(*) OVER (PARTITION BY {touched_keys}) > 1 THEN raise_error({twice})
    ELSE {made_key} IS NULL{unless}
  END AS {delete}
FROM touched
LEFT JOIN {rows} AS made
ON {match}"""

_EACH = """\
SELECT {columns},
  false AS {delete}
FROM {rows}
UNION ALL
SELECT {gone},
  true
FROM {changed}
WHERE {change}.op NOT IN ('c', 'u', 'r')"""

_NOT_IN_FEED = "WHEN NOT MATCHED BY SOURCE{older} THEN DELETE"

_NOT_IN_FEED_MARKED = """\
WHEN NOT MATCHED BY SOURCE AND {marked_at} IS NULL{older} THEN UPDATE SET
  {sets}"""


def filled_rows(
    table: TableName,
    keys: Mapping[str, str],
    kept: Mapping[str, tuple[str, ...]],
    marks: bool = False,
    mirrored: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """The query for the rows of the batch, in which values that no change of the batch
    has are read from the table: the parts between which the bounds of the batch's keys
    are inserted.

    `_lakesql_unknown` is true on rows whose values the table lacks too. `keys` has the
    feed's key columns by the model's names for them, `kept` the model's names by
    columns of the feed. `marks`: the mirror marks deleted rows; a deleted row whose
    values are unknown only marks the stored row. The input is the last of the named
    queries `mirrored`, or without these the view `_lakesql_batch`; its column
    `_lakesql_unsent` names the missing values.
    """
    stored_key = column_of("stored", next(iter(keys)))
    outputs = {output: name for name, names in kept.items() for output in names}
    query = _FILLED.format(
        columns=f"{identifiers(outputs)}, {ONLY_MARKS}"
        if marks
        else identifiers(outputs),
        values=",\n  ".join(
            f"if(array_contains(batch.{UNSENT}, {text(name)}), {column_of('stored', output)}, "
            f"{column_of('batch', output)}) AS {identifier(output)}"
            for output, name in outputs.items()
        ),
        unsent=UNSENT,
        delete=DELETE,
        unknown=UNKNOWN,
        stored_key=stored_key,
        only_marks=_OR_UNKNOWN.format(
            only_marks=ONLY_MARKS,
            marked_at=MARKED_AT,
            unsent=UNSENT,
            stored_key=stored_key,
        )
        if marks
        else "",
        batch=list(mirrored)[-1] if mirrored else BATCH_VIEW,
        table=table_name(table),
        match="\n  AND ".join(
            f"{column_of('stored', key)} = coalesce(batch.{FROM}.{identifier(column)}, {column_of('batch', key)})"
            for key, column in keys.items()
        ),
    )
    return with_query(mirrored, query), ""


def changed_keys(
    has_truncate: bool, by_position: bool, keeps: bool = False, marks: bool = False
) -> str:
    """The query for the changes of the view `_lakesql_newest` without those that a
    truncate follows. If the mirror `marks` deleted rows, those are included, as rows
    that the truncate deletes.

    A truncate has no key, so it may be in any partition. `by_position`: its position in
    the database's log decides which changes it follows. Otherwise arrival decides
    within its partition, and the log position for other partitions. `keeps`: the table
    keeps values missing in change events, so that the view has changes beside the
    newest of each key, which are left out.
    """
    newest_only = f" AND {RANK} = 1" if keeps else ""
    changed = f"SELECT *\nFROM {NEWEST_VIEW}\nWHERE {CHANGE}.op <> 't'{newest_only}"
    marked = f"CASE WHEN {CHANGE}.op = 'd' THEN coalesce({CHANGE}.ts, current_timestamp()) END AS {MARK}"
    columns = f"* EXCEPT ({CHANGE}), {CHANGE},\n  {marked}" if marks else "*"
    if not has_truncate:
        return (
            with_query({_TOUCHED: changed}, f"SELECT {columns}\nFROM {_TOUCHED}")
            if marks
            else changed
        )
    place = f"{_TOUCHED}.{CHANGE}.position"
    later = (_LATER_BY_POSITION if by_position else _LATER_BY_ARRIVAL).format(
        position=POSITION,
        touched=_TOUCHED,
        is_emptied=f"emptied.place >= {own_place(place)}",
        is_unplaced=is_unplaced(place),
    )
    is_before = f"EXISTS (\n  SELECT 1\n  FROM emptied\n  WHERE {later}\n)"
    parts = {
        _TOUCHED: changed,
        "emptied": _EMPTIED.format(
            change=CHANGE, position=POSITION, newest=NEWEST_VIEW
        ),
    }
    after = f"SELECT {columns}\nFROM {_TOUCHED}\nWHERE NOT {is_before}"
    if not marks:
        return with_query(parts, after)
    parts["last_truncate"] = (
        "SELECT max_by(change, struct(place, arrival)) AS change\nFROM emptied"
    )
    deleted_at = f"coalesce(CASE WHEN {CHANGE}.op = 'd' THEN {CHANGE}.ts END, last_truncate.change.ts, current_timestamp())"
    before = f"""\
SELECT {_TOUCHED}.* EXCEPT ({CHANGE}), last_truncate.change,
  {deleted_at}
FROM {_TOUCHED}
CROSS JOIN last_truncate
WHERE {is_before}"""
    return with_query(parts, f"{after}\nUNION ALL\n{before}")


def current_rows(
    latest: Sequence[str] = (), kept: Sequence[str] = (), with_deleted: bool = True
) -> str:
    """The query for the rows of the source that the changes of the view
    `_lakesql_changed` leave: one for each key that was not deleted.

    With `latest`, all columns of the feed, deleted rows are included with their last
    values, unless `with_deleted` is false. The columns `kept` have these values
    already.
    """
    if not latest:
        return _CURRENT.format(change=CHANGE, changed=CHANGED_VIEW)
    placed = [name for name in latest if name not in kept]
    values = ",\n  ".join(
        f"{column_of(LATEST, name)} AS {identifier(name)}" for name in placed
    )
    text = _LATEST.format(
        columns=identifiers(placed),
        latest=LATEST,
        mark=MARK,
        values=values,
        changed=CHANGED_VIEW,
    )
    return text if with_deleted else f"{text}\n  AND {MARK} IS NULL"


def mirrored_rows(
    keys: Mapping[str, str],
    sequence: Mapping[str, str],
    columns: tuple[str, ...] | None,
    keeps: bool = False,
    marks: bool = False,
) -> str:
    """The named queries of `mirrored_parts` as one query."""
    *parts, (_, last) = mirrored_parts(keys, sequence, columns, keeps, marks).items()
    return with_query(dict(parts), last)


def each_row(
    keys: Mapping[str, str], sequence: Mapping[str, str], columns: tuple[str, ...]
) -> str:
    """Like `mirrored_rows`, without a join: for a SELECT that makes exactly one row of
    each source row, and changes that have all values. The rows of the SELECT, and the
    keys of deleted rows."""
    of_feed = {name.lower(): column for name, column in {**keys, **sequence}.items()}
    gone = {column: of_feed.get(column.lower()) for column in columns}
    return _EACH.format(
        columns=",\n  ".join(map(identifier, columns)),
        gone=",\n  ".join(
            "NULL" if of_key is None else of_feed_column(of_key)
            for of_key in gone.values()
        ),
        delete=DELETE,
        rows=ROWS_VIEW,
        changed=CHANGED_VIEW,
        change=CHANGE,
    )


def mirrored_parts(
    keys: Mapping[str, str],
    sequence: Mapping[str, str],
    columns: tuple[str, ...] | None,
    keeps: bool = False,
    marks: bool = False,
) -> dict[str, str]:
    """Named queries, of which the last returns a row for each key that has changed: the
    row that the SELECT makes, or one with `_lakesql_delete` if it makes none.

    `keys` has the feed's key columns by the model's names for them, `sequence` those
    that order its changes. `columns` are those that the table gets; None if only
    Spark's analyzer knows them. `keeps`: the table keeps values missing in change
    events, so that each row has the names of missing columns and its record's position.
    `marks`: the mirror marks deleted rows, so that each row has `_deleted_at`, and
    `_lakesql_only_marks`, true if the batch has no values for it.
    """
    of_feed = {**keys, **sequence}
    names = {name.lower() for name in of_feed}
    if columns is None:
        landing = [
            *(column_of("touched", name) for name in of_feed),
            f"made.* EXCEPT ({identifiers(of_feed)})",
        ]
    else:
        landing = [
            column_of("touched" if column.lower() in names else "made", column)
            for column in columns
        ]
    landing += [
        column_of("touched", name)
        for name in ((UNSENT, FROM, POSITION) if keeps else ())
    ]
    carried: tuple[str, ...] = (UNSENT, FROM, POSITION) if keeps else ()
    if keeps and marks:  # of the change that has the row, if there is one
        unsent = f"filter({UNSENT}, name -> {LATEST} IS NOT NULL) AS {UNSENT}"
        carried = (
            unsent,
            FROM,
            f"coalesce({LATEST}.{POSITION}, {POSITION}) AS {POSITION}",
        )
    marking = (MARK, f"{LATEST} IS NULL AS {ONLY_MARKS}") if marks else ()
    if marks:
        landing += [
            f"{column_of('touched', MARK)} AS {MARKED_AT}",
            column_of("touched", ONLY_MARKS),
        ]
    of_changes = (
        f"{of_feed_column(column)} AS {identifier(name)}"
        for name, column in of_feed.items()
    )
    touched = (
        f"SELECT {', '.join((*of_changes, *carried, *marking))}\nFROM {CHANGED_VIEW}"
    )
    made = _BATCH.format(
        columns=",\n  ".join(landing),
        touched_keys=", ".join(column_of("touched", key) for key in keys),
        twice=text("The SELECT makes several rows of one row of the source."),
        made_key=column_of("made", next(iter(keys))),
        unless=f" AND NOT {column_of('touched', ONLY_MARKS)}" if marks else "",
        delete=DELETE,
        rows=ROWS_VIEW,
        match="\n  AND ".join(
            f"{column_of('made', key)} = {column_of('touched', key)}" for key in keys
        ),
    )
    return {"touched": touched, "mirrored": made}


def truncates(keys: tuple[str, ...]) -> str:
    """The query for the truncates of a batch as tombstones, whose key is NULL."""
    nulls = ", ".join("NULL" for _ in keys)
    return f"SELECT {nulls}, {CHANGE}.position, current_timestamp() FROM {NEWEST_VIEW} WHERE {CHANGE}.op = 't'"


def not_in_feed(position_column: str, marks: bool = False) -> str:
    """The clause of a MERGE that deletes the rows which a truncate removed: all rows
    that are not in the batch.

    `position_column` is the table's column with the log position of each row's change,
    by which rows newer than the truncate stay; '' if it has none. `marks`: the clause
    marks the rows as deleted instead.
    """
    column = column_of("target", position_column)
    older = (
        f" AND ({column} IS NULL OR {own_place(column)} <= {POSITION_PLACE})"
        if position_column
        else ""
    )
    if marks:
        sets = {
            MARKED_AT: TIME_PLACE,
            **({position_column: POSITION_PLACE} if position_column else {}),
        }
        return _NOT_IN_FEED_MARKED.format(
            marked_at=column_of("target", MARKED_AT),
            older=older,
            sets=",\n  ".join(
                f"{identifier(name)} = {value}" for name, value in sets.items()
            ),
        )
    return _NOT_IN_FEED.format(older=older)
