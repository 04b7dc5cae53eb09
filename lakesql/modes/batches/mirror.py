"""The statements of a batch that mirrors a change feed: the newest change of each key, and what becomes of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesql.compile.batch import POSITION_PLACE, TIME_PLACE
from lakesql.compile.log_positions import is_unplaced, own_place
from lakesql.compile.quote import column_of, identifier, identifiers, table_name, text
from lakesql.model.table_name import TableName
from lakesql.names import (
    BATCH_VIEW,
    CHANGE,
    CHANGED_VIEW,
    CHANGES_VIEW,
    DELETE,
    FROM,
    HALF,
    KNOWN,
    LATEST,
    MARK,
    MARKED_AT,
    MOVE,
    NEWEST_VIEW,
    ONLY_MARKS,
    PAIR,
    POSITION,
    RANK,
    ROWS_VIEW,
    UNKNOWN,
    UNSENT,
)

_NEWEST = """\
SELECT *
FROM (
  SELECT *{without_move},
    row_number() OVER (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {newest_first}
    ) AS {rank}
  FROM {changes}
)
WHERE {rank} = 1"""

_NEWEST_KNOWN = """\
SELECT * EXCEPT ({kept}, {unsent}, {known}),
  {values},
  filter(
    {unsent},
    name -> CASE name
      {is_unknown}
    END
  ){gone} AS {unsent},
  coalesce(
    {pairs}
  ) AS {pair}
FROM (
  SELECT * EXCEPT ({known}),
    row_number() OVER newest_first AS {rank},{latest}
    struct(
      {found}
    ) AS {known}
  FROM (
    SELECT * EXCEPT ({unsent}),
      if({change}.op = 'd', {all_kept}, {unsent}) AS {unsent},
      struct(
        {said}
      ) AS {known}
    FROM {changes}
  )
  WINDOW
    newest_first AS (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {newest_first}
    ),
    before_this AS (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {newest_first}
      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ){from_here_back}
)
WHERE {rank} = 1 OR ({change}.op = 'd' AND {half} IS NOT NULL)"""

_GONE = """\
 || if(
    {is_gone},
    array(''),
    array()
  )"""

_SAID = """\
CASE
          WHEN NOT array_contains({unsent}, {name}) OR {change}.op IN ({ends})
          THEN struct(
            {column} AS value,
            {change}.op = 'd' AS is_gone,
            if({change}.op = 'c' AND array_contains({unsent}, {name}), {half}, NULL) AS pair
          )
        END AS {column}"""

_NEWEST_LATEST = """\
SELECT *{values}
FROM (
  SELECT *{without_move},
    row_number() OVER newest_first AS {rank},{latest}
  FROM {changes}
  WINDOW
    newest_first AS (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {newest_first}
    ){from_here_back}
)
WHERE {rank} = 1"""

_WITH_LATEST = """
    first(CASE WHEN {change}.op IN ('c', 'u', 'r') THEN struct({columns}, {position}) END, true)
      OVER from_here_back AS {latest}"""

_FROM_HERE_BACK = """,
    from_here_back AS (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {newest_first}
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    )"""

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

_CHANGED = """\
SELECT *
FROM {newest}
WHERE {change}.op <> 't'"""

_BEFORE_A_TRUNCATE = """\
EXISTS (
    SELECT 1
    FROM {newest} AS emptied
    WHERE emptied.{change}.op = 't'
      AND {is_later}
  )"""

_MARKED = """\
SELECT * EXCEPT ({change}), {change},
  CASE WHEN {change}.op = 'd' THEN coalesce({change}.ts, current_timestamp()) END AS {mark}
FROM {newest}
WHERE {change}.op <> 't'"""

_MARKED_BY_TRUNCATE = """
UNION ALL
SELECT * EXCEPT ({change}), ({last}),
  coalesce(CASE WHEN {change}.op = 'd' THEN {change}.ts END, ({last}).ts, current_timestamp())
FROM {newest}
WHERE {change}.op <> 't'{newest_only}
  AND """

_LAST_TRUNCATE = """\
SELECT max_by({change}, struct({change}.position, {position})) FROM {newest} WHERE {change}.op = 't'"""

_LATER_BY_ARRIVAL = """\
CASE
        WHEN emptied.{position}.source = {newest}.{position}.source
          AND emptied.{position}.partition = {newest}.{position}.partition
        THEN emptied.{position}.offset > {newest}.{position}.offset
        ELSE {is_emptied}
      END"""

_LATER_BY_POSITION = """\
CASE
        WHEN {is_unplaced}
          AND emptied.{position}.source = {newest}.{position}.source
          AND emptied.{position}.partition = {newest}.{position}.partition
        THEN emptied.{position}.offset > {newest}.{position}.offset
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
FROM (
  SELECT {feed_columns}
  FROM {changed}
) AS touched
LEFT JOIN {rows} AS made
ON {match}"""

_NOT_IN_FEED = "WHEN NOT MATCHED BY SOURCE{older} THEN DELETE"

_NOT_IN_FEED_MARKED = """\
WHEN NOT MATCHED BY SOURCE AND {marked_at} IS NULL{older} THEN UPDATE SET
  {sets}"""


def newest_changes(
    keys: Sequence[str],
    sequence: Sequence[str],
    has_moves: bool = False,
    latest: Sequence[str] = (),
    kept: Sequence[str] = (),
) -> str:
    """The newest change of each key in the view `_lakesql_changes`, and of each partition the newest truncate.

    `keys` are columns of the feed, and fields of `_change`. `sequence` is what says which of two changes is newer,
    before their arrival does. `has_moves`: the changes say what they do to keys, which is left out. With `latest`, all
    columns of the feed, a deleted row has with it how it was before; those that are `kept` it has in their own places.
    """
    names = _Names(keys, sequence)
    without_move = f" EXCEPT ({HALF}, {MOVE})" if has_moves else ""
    if not latest:
        return names.fill(_NEWEST, without_move=without_move)
    values = ", ".join(f"{column_of(LATEST, name)} AS {identifier(name)}" for name in kept)
    return names.fill(
        _NEWEST_LATEST,
        values=f" EXCEPT ({identifiers(kept)}), {values}" if kept else "",
        without_move=without_move,
        latest=names.fill(_WITH_LATEST, columns=identifiers(latest), latest=LATEST),
        from_here_back=names.fill(_FROM_HERE_BACK),
    )


def newest_known(keys: Sequence[str], sequence: Sequence[str], kept: Sequence[str], latest: Sequence[str] = ()) -> str:
    """As `newest_changes`, with the values that the newest change of a key has not sent from the last one that has.

    `_lakesql_unsent` then names the columns of which no change of the batch has sent the value. Where the row came from
    another key in the batch, `_lakesql_pair` says by which key change, and the deletes of these stand there too, of
    whatever rank, with what the old key had until then. A value ends with a delete, unless deleted rows stay: where
    there is `latest`.
    """
    names = _Names(keys, sequence)
    known = [f"{KNOWN}.{identifier(name)}" for name in kept]
    is_gone = "\n      OR ".join(
        f"(array_contains({UNSENT}, {text(name)}) AND coalesce({value}.is_gone, false))"
        for name, value in zip(kept, known, strict=True)
    )
    return names.fill(
        _NEWEST_KNOWN,
        kept=identifiers(kept),
        unsent=UNSENT,
        known=KNOWN,
        values=",\n  ".join(
            f"if(array_contains({UNSENT}, {text(name)}), {value}.value, {identifier(name)}) AS {identifier(name)}"
            for name, value in zip(kept, known, strict=True)
        ),
        is_unknown="\n      ".join(
            f"WHEN {text(name)} THEN {value} IS NULL OR {value}.is_gone OR {value}.pair IS NOT NULL"
            for name, value in zip(kept, known, strict=True)
        ),
        gone="" if latest else _GONE.format(is_gone=is_gone),
        pairs=",\n    ".join(
            f"if(array_contains({UNSENT}, {text(name)}), {value}.pair, NULL)"
            for name, value in zip(kept, known, strict=True)
        ),
        all_kept=f"array({', '.join(map(text, kept))})",
        half=HALF,
        pair=PAIR,
        said=",\n        ".join(
            _SAID.format(
                change=CHANGE,
                unsent=UNSENT,
                name=text(name),
                ends="'c'" if latest else "'c', 'd'",
                column=identifier(name),
                half=HALF,
            )
            for name in kept
        ),
        found=",\n      ".join(
            f"coalesce(if({CHANGE}.op = 'c', {value}, NULL), first({value}, true) OVER before_this) "
            f"AS {identifier(name)}"
            for name, value in zip(kept, known, strict=True)
        ),
        latest=names.fill(_WITH_LATEST, columns=identifiers(latest), latest=LATEST) + "," if latest else "",
        from_here_back=names.fill(_FROM_HERE_BACK) if latest else "",
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """What the forms of the newest change have in common: what tells rows apart, and what orders their changes."""

    keys: Sequence[str]
    sequence: Sequence[str]

    def fill(self, form: str, **more: str) -> str:
        return form.format(
            change=CHANGE,
            keys=", ".join(map(_of_feed, self.keys)),
            newest_first=", ".join(f"{each} DESC" for each in (*map(_of_feed, self.sequence), POSITION)),
            position=POSITION,
            rank=RANK,
            changes=CHANGES_VIEW,
            **more,
        )


def filled_rows(
    table: TableName, keys: Mapping[str, str], kept: Mapping[str, tuple[str, ...]], marks: bool = False
) -> tuple[str, str]:
    """The rows of the view `_lakesql_batch` with the values from the table that no change of the batch has sent.

    Cut where the bounds of the batch's keys come. `_lakesql_unknown` are those whose values the table has not. `keys`
    are the columns of the feed's key, by the model's names for them. Of such a row that was deleted, a mirror that
    `marks` it has nothing but that.
    """
    stored_key = column_of("stored", next(iter(keys)))
    outputs = {output: name for name, names in kept.items() for output in names}
    query = _FILLED.format(
        columns=f"{identifiers(outputs)}, {ONLY_MARKS}" if marks else identifiers(outputs),
        values=",\n  ".join(
            f"if(array_contains(batch.{UNSENT}, {text(name)}), {column_of('stored', output)}, "
            f"{column_of('batch', output)}) AS {identifier(output)}"
            for output, name in outputs.items()
        ),
        unsent=UNSENT,
        delete=DELETE,
        unknown=UNKNOWN,
        stored_key=stored_key,
        only_marks=_OR_UNKNOWN.format(only_marks=ONLY_MARKS, marked_at=MARKED_AT, unsent=UNSENT, stored_key=stored_key)
        if marks
        else "",
        batch=BATCH_VIEW,
        table=table_name(table),
        match="\n  AND ".join(
            f"{column_of('stored', key)} = coalesce(batch.{FROM}.{identifier(column)}, {column_of('batch', key)})"
            for key, column in keys.items()
        ),
    )
    return query, ""


def changed_keys(has_truncate: bool, by_position: bool, keeps: bool = False, marks: bool = False) -> str:
    """The keys that these changes are of, without those that a truncate comes after; where a mirror `marks` what is
    deleted, with them, as what the truncate deletes.

    A truncate has no key, so it stands in any partition. `by_position`: its place in the database's log says what it
    comes after. Otherwise what is in the same partition is before it or after it by arrival, and what is in another by
    its position. Where the table `keeps` values, not every change there is the newest of its key.
    """
    later = _LATER_BY_POSITION if by_position else _LATER_BY_ARRIVAL
    before = _BEFORE_A_TRUNCATE.replace("{is_later}", later)
    newest_only = f"\n  AND {RANK} = 1" if keeps else ""
    text = (_MARKED if marks else _CHANGED) + newest_only + (f"\n  AND NOT {before}" if has_truncate else "")
    if marks and has_truncate:
        text += _MARKED_BY_TRUNCATE.replace("{last}", _LAST_TRUNCATE).replace("{newest_only}", newest_only) + before
    place = f"{NEWEST_VIEW}.{CHANGE}.position"
    return text.format(
        change=CHANGE,
        newest=NEWEST_VIEW,
        position=POSITION,
        mark=MARK,
        is_emptied=f"emptied.{CHANGE}.position >= {own_place(place)}",
        is_unplaced=is_unplaced(place),
    )


def current_rows(latest: Sequence[str] = (), kept: Sequence[str] = (), with_deleted: bool = True) -> str:
    """The rows of the source that these changes leave: of each key that was not deleted.

    With `latest`, all columns of the feed, those that were deleted too, as they were before; but not without
    `with_deleted`. Those that are `kept` stand in their own places already.
    """
    if not latest:
        return _CURRENT.format(change=CHANGE, changed=CHANGED_VIEW)
    placed = [name for name in latest if name not in kept]
    values = ",\n  ".join(f"{column_of(LATEST, name)} AS {identifier(name)}" for name in placed)
    text = _LATEST.format(columns=identifiers(placed), latest=LATEST, mark=MARK, values=values, changed=CHANGED_VIEW)
    return text if with_deleted else f"{text}\n  AND {MARK} IS NULL"


def mirrored_rows(
    keys: Mapping[str, str],
    sequence: Mapping[str, str],
    columns: tuple[str, ...] | None,
    keeps: bool = False,
    marks: bool = False,
) -> str:
    """A row for each key that has changed: the one that the SELECT makes, or `_lakesql_delete` where it makes none.

    `keys` are the columns of the feed's key, by the model's names for them, and `sequence` what orders its changes.
    `columns` are those that land, None where only Spark's analyzer knows them. Where the table `keeps` values that a
    change has not sent, the row says of which columns, and where its record is. Where it `marks` what is deleted,
    `_deleted_at` is there, and `_lakesql_only_marks` where nothing is known of the row but that it was deleted.
    """
    of_feed = {**keys, **sequence}
    names = {name.lower() for name in of_feed}
    if columns is None:
        landing = [*(column_of("touched", name) for name in of_feed), f"made.* EXCEPT ({identifiers(of_feed)})"]
    else:
        landing = [column_of("touched" if column.lower() in names else "made", column) for column in columns]
    landing += [column_of("touched", name) for name in ((UNSENT, FROM, POSITION) if keeps else ())]
    carried: tuple[str, ...] = (UNSENT, FROM, POSITION) if keeps else ()
    if keeps and marks:  # of the change that has the row, if there is one
        unsent = f"filter({UNSENT}, name -> {LATEST} IS NOT NULL) AS {UNSENT}"
        carried = (unsent, FROM, f"coalesce({LATEST}.{POSITION}, {POSITION}) AS {POSITION}")
    marking = (MARK, f"{LATEST} IS NULL AS {ONLY_MARKS}") if marks else ()
    if marks:
        landing += [f"{column_of('touched', MARK)} AS {MARKED_AT}", column_of("touched", ONLY_MARKS)]
    return _BATCH.format(
        columns=",\n  ".join(landing),
        touched_keys=", ".join(column_of("touched", key) for key in keys),
        twice=text("The SELECT makes several rows of one row of the source."),
        made_key=column_of("made", next(iter(keys))),
        unless=f" AND NOT {column_of('touched', ONLY_MARKS)}" if marks else "",
        delete=DELETE,
        feed_columns=", ".join(
            (*(f"{_of_feed(column)} AS {identifier(name)}" for name, column in of_feed.items()), *carried, *marking)
        ),
        changed=CHANGED_VIEW,
        rows=ROWS_VIEW,
        match="\n  AND ".join(f"{column_of('made', key)} = {column_of('touched', key)}" for key in keys),
    )


def truncates(keys: tuple[str, ...]) -> str:
    """The truncates of a batch as tombstones: of no key."""
    nulls = ", ".join("NULL" for _ in keys)
    return f"SELECT {nulls}, {CHANGE}.position, current_timestamp() FROM {NEWEST_VIEW} WHERE {CHANGE}.op = 't'"


def not_in_feed(position_column: str, marks: bool = False) -> str:
    """The clause of a MERGE that empties the table: of what was there before a truncate, no row is in the batch.

    With the column of the table that has the position of each row's change, what is newer than the truncate stays.
    Where the mirror `marks` what is deleted, the clause marks the rows that are not marked.
    """
    column = column_of("target", position_column)
    older = f" AND ({column} IS NULL OR {own_place(column)} <= {POSITION_PLACE})" if position_column else ""
    if marks:
        sets = {MARKED_AT: TIME_PLACE, **({position_column: POSITION_PLACE} if position_column else {})}
        return _NOT_IN_FEED_MARKED.format(
            marked_at=column_of("target", MARKED_AT),
            older=older,
            sets=",\n  ".join(f"{identifier(name)} = {value}" for name, value in sets.items()),
        )
    return _NOT_IN_FEED.format(older=older)


def _of_feed(name: str) -> str:
    """A column of the feed, or a field of `_change`."""
    return name if name.startswith(f"{CHANGE}.") else identifier(name)
