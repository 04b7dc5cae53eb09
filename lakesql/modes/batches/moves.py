"""Key changes in the batches of a mirror: which of two rows has a key in the end, which
values follow a row to its new key, and what later batches must know.

All that a mirror does for key changes stands here. Other modules use `KeyChanges`; a
mode that does not handle key changes has none.

A change feed has a key change as two records, the delete of the old key and the insert
of the new one. In a database that checks keys at the end of a transaction, two rows may
have the same key within it: `1 → 2, 2 → 1` is sent as `d1 c2 d2 c1`. Then the last
change of key 2 is a delete, but of the row that had the key before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesql.compile.batch import Bounded, MakeView, RememberMoves, forget
from lakesql.compile.quote import column_of, identifier, identifiers, table_name, text
from lakesql.compile.select import Select
from lakesql.compile.table import TableColumn
from lakesql.model.table_name import TableName
from lakesql.names import (
    CHANGE,
    CHANGES_VIEW,
    COMPARED,
    CUT_VIEW,
    DELETED_AT,
    FROM,
    HALF,
    MARKED_AT,
    MOVE,
    MOVE_TYPE,
    MOVED_ON_VIEW,
    MOVED_VIEW,
    NEWEST_VIEW,
    OCCUPIED,
    OP_BEFORE,
    PAIR,
    POSITION,
    TOLD_APART_VIEW,
    UNSENT,
)

MOVES_WHEN = "each batch with changes of keys"
READ_AS_NEWEST = f", read as {NEWEST_VIEW} from there on"

_TOLD_APART = """\
WITH said AS (
  SELECT struct({keys}) AS key, {change}.tx AS tx, {change}.op AS op, {change}.position AS position,
    {position}.source AS source, {half} AS half, {move} AS move,
    false AS is_earlier, CAST(NULL AS boolean) AS occupied, current_timestamp() AS at
  FROM {changes}
  UNION ALL
  SELECT struct({keys}), {change}.tx, {change}.op, {change}.position,
    {position}.source, {half}, {move},
    true, if({change}.op = 'c', {occupied}, NULL), {deleted_at}
  FROM {moved}
  WHERE {change}.tx IN (SELECT {change}.tx FROM {changes})
),
varying AS (
  SELECT collect_set(place) AS places
  FROM (
    SELECT place
    FROM (
      SELECT source, posexplode(move.removed) AS (place, value)
      FROM said
    )
    GROUP BY source, place
    HAVING min(value) <> max(value)
  )
),
left_behind AS (
  SELECT half, first(move.removed) AS removed
  FROM said
  WHERE op = 'd' AND half IS NOT NULL
  GROUP BY half
),
sources AS (
  SELECT source, bool_or(op = 'u' AND move.removed IS NULL) AS sends_keys
  FROM said
  GROUP BY source
),
compared AS (
  SELECT said.* EXCEPT (source, move),
    size(places) AS compares,
    sends_keys,
    coalesce(move.removed, left_behind.removed) AS row_before,
    struct(
      position,
      op,
      if(move.added IS NULL, NULL, transform(places, place -> get(move.added, place))) AS added,
      if(move.removed IS NULL, NULL, transform(places, place -> get(move.removed, place))) AS removed
    ) AS event
  FROM said
  CROSS JOIN varying
  LEFT JOIN left_behind ON left_behind.half = said.half
  LEFT JOIN sources ON sources.source = said.source
  WHERE op IN ('c', 'u', 'd') AND tx IS NOT NULL
),
counted AS (
  SELECT key, tx,
    first(compares) AS compares,
    min(row_before) = max(row_before)
      AND (bool_or(sends_keys) OR forall(max(row_before), value -> value = xxhash64(CAST(NULL AS int))))
      AND NOT arrays_overlap(collect_set(event.added), collect_set(event.removed)) AS has_keys_alone,
    max(position) AS position,
    collect_set(event) AS events,
    collect_set(if(is_earlier, event, NULL)) AS earlier,
    min_by(occupied, if(occupied IS NULL, NULL, at)) AS occupied
  FROM compared
  GROUP BY key, tx
  HAVING bool_or(op = 'c')
    AND bool_or(op = 'd')
    AND bool_or(half IS NOT NULL)
    AND bool_and(op = 'c' OR event.removed IS NOT NULL)
),
told AS (
  SELECT *,
    {entered} AS entered,
    {left} AS has_left,
    {entered_before} AS entered_before,
    {left_before} AS left_before
  FROM counted
  WHERE NOT coalesce(has_keys_alone, false){compares}
)
SELECT changes.* EXCEPT ({change}, {compared}),
  struct(
    {fields}
  ) AS {change}
FROM (
  SELECT changes.*,
    if({move}.added IS NULL, NULL, transform(varying.places, place -> get({move}.added, place))) AS {compared}
  FROM {changes} AS changes
  CROSS JOIN varying
) AS changes
LEFT JOIN told
ON told.key = struct({changes_keys}) AND told.tx = changes.{change}.tx
WHERE CASE
  WHEN told.tx IS NULL OR changes.{change}.op NOT IN ('c', 'u', 'd') THEN true
  WHEN size(told.entered) = 1 THEN coalesce(changes.{compared} = told.entered[0], false)
  WHEN size(told.has_left) > 0 OR size(told.entered) > 1 THEN true
  WHEN size(told.left_before) > 0 THEN coalesce(array_contains(told.left_before, changes.{compared}), false)
  ELSE size(told.entered_before) > 0 AND NOT coalesce(told.occupied, false) AND changes.{change}.op = 'd'
END"""

_MORE = """\
filter(
      array_distinct({events}.{one}),
      it -> it IS NOT NULL AND size(filter({events}, e -> e.{one} = it)) > size(filter({events}, e -> e.{other} = it))
    )"""

_CUT = """\
WITH halves AS (
  SELECT {half} AS half, {change}.op AS op, {change}.tx AS tx FROM {changes} WHERE {half} IS NOT NULL
  UNION ALL
  SELECT {half}, {change}.op, {change}.tx FROM {moved} WHERE {half} IS NOT NULL
),
parted AS (
  SELECT half, max(tx) AS tx
  FROM halves
  GROUP BY half
  HAVING count(DISTINCT op) = 1
),
swapped AS (
  SELECT tx
  FROM (
    SELECT struct({keys}) AS key, {change}.tx AS tx, {change}.op AS op, {half} AS half FROM {changes}
    UNION ALL
    SELECT struct({keys}), {change}.tx, {change}.op, {half} FROM {moved}
  )
  GROUP BY key, tx
  HAVING bool_or(op = 'c') AND bool_or(op = 'd') AND bool_or(half IS NOT NULL)
),
needed AS (
  SELECT tx FROM parted
  UNION
  SELECT tx FROM swapped
  UNION
  SELECT max_by({change}.tx, {position}.offset) FROM {changes} GROUP BY {position}.source, {position}.partition
),
cut AS (
  SELECT DISTINCT tx
  FROM halves
  WHERE tx IN (SELECT tx FROM needed)
)
SELECT {keys}, {change}, {half}, {move}, {position},
  first({op_before}) OVER (PARTITION BY {keys}, {change}.tx ORDER BY {position}) AS {op_before}
FROM (
  SELECT {keys}, {half}, {move}, {position},
    struct({change}.op AS op, {change}.position AS position, {change}.tx AS tx) AS {change},
    lag({change}.op) OVER (PARTITION BY {keys} ORDER BY {position}) AS {op_before}
  FROM {changes}
)
WHERE {change}.op IN ('c', 'u', 'd')
  AND ({change}.tx IN (SELECT tx FROM cut) OR {half} IN (SELECT half FROM parted))"""

_REMEMBER = """\
INSERT INTO {moves} BY NAME
SELECT cut.* EXCEPT ({op_before}),
  CASE
    WHEN cut.{op_before} IS NOT NULL THEN cut.{op_before} <> 'd'
    ELSE {is_stored}
  END AS {occupied},{values}
  current_timestamp() AS {deleted_at}
FROM {cut} AS cut{former}
LEFT JOIN {table} AS stored
ON {match}
  AND """

_VALUES = """
  {kept},
  CASE
    WHEN size(former.{unsent}) > 0 AND ({stored_key} IS NULL OR array_contains(former.{unsent}, ''))
    THEN array_append(former.{unsent}, '')
    ELSE filter(former.{unsent}, name -> false)
  END AS {unsent},"""

_FORMER = """
LEFT JOIN {newest} AS former
ON cut.{change}.op = 'd'
  AND former.{change}.op = 'd'
  AND former.{half} = cut.{half}
  AND former.{position} = cut.{position}"""

_PLACED_LAST = """\
if(
      size(told.entered) = 1 AND changes.{change}.position < told.position,
      array_append(told.position, 1L),
      changes.{change}.position
    )"""

_MOVED_ON = """\
SELECT life.* EXCEPT ({kept}, {unsent}, {pair}, {from_key}),
  {values},
  CASE
    WHEN life.{pair} IS NULL OR array_contains(life.{unsent}, '') THEN life.{unsent}
    WHEN former.{half} IS NULL
      OR (array_contains(former.{unsent}, '') AND arrays_overlap(life.{unsent}, former.{unsent}))
    THEN array_append(life.{unsent}, '')
    ELSE array_intersect(life.{unsent}, former.{unsent})
  END AS {unsent},
  former.{pair} AS {pair},
  CASE
    WHEN former.{half} IS NULL THEN life.{from_key}
    ELSE coalesce(former.{from_key}, struct({former_keys}))
  END AS {from_key}
FROM {newest} AS life
LEFT JOIN (
  SELECT *, row_number() OVER (PARTITION BY {half} ORDER BY {position}) AS {compared}
  FROM (
    SELECT {keys}, {kept}, {unsent}, {pair}, {from_key}, {half}, {position}
    FROM {newest}
    WHERE {change}.op = 'd' AND {half} IS NOT NULL
    UNION ALL
    SELECT {keys}, {kept}, {unsent}, NULL, NULL, {half}, {position}
    FROM {moved}
    WHERE {change}.op = 'd' AND {half} IS NOT NULL
  )
) AS former
ON former.{half} = life.{pair} AND former.{compared} = 1"""


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The views and statements of a mirror for batches with key changes. `marks`: rows
    that the source deletes stay in the table, marked as deleted."""

    select: Select
    marks: bool

    def told_apart(self) -> MakeView:
        """The view of the changes without those of rows that got a key and lost it
        again within one transaction."""
        (stream,) = self.select.streams.values()
        has_keys_alone = len(stream.columns) == len(self._keys)
        order, fields = self.select.order, self.select.change_columns
        query = told_apart(
            self._keys, fields, has_keys_alone, f"{CHANGE}.position" in order
        )
        when = f"{MOVES_WHEN}: without those of rows that have lost the key again, read as {CHANGES_VIEW} from there on"
        return MakeView(when, TOLD_APART_VIEW, query, CHANGES_VIEW)

    def cut(self) -> MakeView:
        """The view of the key changes that later batches may need."""
        when = (
            f"{MOVES_WHEN}: those of transactions of which a later one may have a part"
        )
        return MakeView(when, CUT_VIEW, cut_moves(self._keys))

    def moved_on(self) -> MakeView | None:
        """The view of the newest changes, with missing values filled from the rows'
        former keys; None if the model keeps no values of the table.

        The view is computed again until no row has a `_lakesql_pair`.
        """
        if not self.select.kept:
            return None
        columns = (
            column.name
            for stream in self.select.streams.values()
            for column in stream.columns
        )
        keys = tuple(column for column in columns if column in self._keys)
        when = f"{MOVES_WHEN} that have not sent all values, once for each in a row of them: those of the former key"
        query = moved_on(keys, tuple(self.select.kept))
        return MakeView(f"{when}{READ_AS_NEWEST}", MOVED_ON_VIEW, query, NEWEST_VIEW)

    def remember(self, landed: Mapping[str, tuple[str, ...]]) -> RememberMoves:
        """The step that stores the key changes which later batches may need. `landed`
        has, for each column of the feed whose values the table keeps, the table's
        columns that have them."""
        table, keys = self.select.model.table, self.select.feed_keys
        named = ", ".join(
            f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items()
        )
        return RememberMoves(
            f"{MOVES_WHEN} of which a later one may have a part: they are remembered",
            Bounded(remember_moves(table, keys, landed, self.marks), ("stored",)),
            f"SELECT {named} FROM {CUT_VIEW} UNION SELECT {named} FROM {NEWEST_VIEW} WHERE {CHANGE}.op <> 't'",
            forget(self.select, "moves"),
        )

    def columns(self) -> tuple[TableColumn, ...]:
        """The columns of the table that stores key changes, `<table>__moves`."""
        (stream,) = self.select.streams.values()
        types = {column.name: column.type for column in stream.columns}
        unsent = TableColumn(
            UNSENT, "array<string>", "The columns whose values are not known."
        )
        return (
            *(
                TableColumn(name, types[name])
                for name in (*self._keys, *self.select.kept)
            ),
            TableColumn(CHANGE, "struct<op:string,position:array<bigint>,tx:string>"),
            TableColumn(HALF, "string", "The key change that it is a half of."),
            TableColumn(MOVE, MOVE_TYPE, "Hashes of its rows."),
            TableColumn(
                POSITION, "struct<source:string,partition:bigint,offset:bigint>"
            ),
            *((unsent,) if self.select.kept else ()),
            TableColumn(
                OCCUPIED,
                "boolean",
                "Whether there was a row of the key before the transaction.",
            ),
        )

    @property
    def _keys(self) -> tuple[str, ...]:
        """The feed's names of the key columns."""
        return tuple(self.select.feed_keys.values())


def told_apart(
    keys: Sequence[str], fields: Sequence[str], is_keys_only: bool, is_placed: bool
) -> str:
    """The query for the view `_lakesql_changes` without the changes of rows that had a
    key only within a transaction.

    For each key and transaction, the row values that the key gains and loses are
    counted, as hashes: `+X -Y` means that `X` replaces `Y`, and `+X -X` that the key is
    as before the transaction. Only columns in which the images before changes differ at
    all are compared: if the database sends only the key of a deleted row, the others
    are equal in every delete, whatever the row had in them. If no column differs, a
    delete counts as a delete, except in a table that has key columns alone
    (`is_keys_only`).

    Partitions of the source table may differ in whether they send only the key, and so
    may sources. All rows that have or get one key are of one partition. Only the key is
    sent if all their images before changes are equal, and these are NULL throughout or
    the source has sent an update without one. Then too a delete counts as a delete.

    Changes of the transaction that earlier batches have read are counted too, and the
    table has their result. So if the key is as before the transaction, the row that
    those removed must be inserted again, and the row that they inserted removed.

    `fields` are those of `_change`, in their order. `is_placed`: the row that remains
    gets a log position behind all changes of its key in the transaction; otherwise a
    repeated delete of the other row would count as newer.
    """
    changed = [f"changes.{CHANGE}.{field}" for field in fields]
    placed = {"position": _PLACED_LAST.format(change=CHANGE)} if is_placed else {}
    return _TOLD_APART.format(
        position=POSITION,
        half=HALF,
        move=MOVE,
        changes=CHANGES_VIEW,
        moved=MOVED_VIEW,
        occupied=OCCUPIED,
        deleted_at=DELETED_AT,
        compared=COMPARED,
        change=CHANGE,
        entered=_MORE.format(events="events", one="added", other="removed"),
        left=_MORE.format(events="events", one="removed", other="added"),
        entered_before=_MORE.format(events="earlier", one="added", other="removed"),
        left_before=_MORE.format(events="earlier", one="removed", other="added"),
        keys=identifiers(keys),
        changes_keys=", ".join(column_of("changes", key) for key in keys),
        compares="" if is_keys_only else " AND compares > 0",
        fields=",\n    ".join(
            f"{placed.get(field, value)} AS {field}"
            for field, value in zip(fields, changed, strict=True)
        ),
    )


def cut_moves(keys: Sequence[str]) -> str:
    """The query for the changes of the view `_lakesql_changes` whose transactions have
    key changes and may continue in a later batch.

    These are the last transaction of each partition, and those of which the batch has
    only the delete or only the insert of a key change. So are transactions in which two
    rows had one key, as a connector that was killed may send their end again.

    Later batches need these changes to distinguish rows that had one key, and for
    values that must be read under a former key.
    """
    return _CUT.format(
        keys=identifiers(keys),
        half=HALF,
        move=MOVE,
        change=CHANGE,
        changes=CHANGES_VIEW,
        moved=MOVED_VIEW,
        position=POSITION,
        op_before=OP_BEFORE,
    )


def remember_moves(
    table: TableName,
    keys: Mapping[str, str],
    kept: Mapping[str, tuple[str, ...]],
    marks: bool,
) -> tuple[str, str]:
    """The INSERT of the view `_lakesql_cut` into the table of remembered key changes:
    the parts between which the bounds of the batch's keys are inserted.

    `keys` has the feed's key columns by the model's names for them, `kept` the model's
    names by columns of the feed. A delete is stored with the values that the row had
    before. The stored rows depend on the log alone and not on the batch that read it:
    to store them twice, or for a batch that is never published, does no harm.
    """
    stored_key = column_of("stored", next(iter(keys)))
    is_there = f"{stored_key} IS NOT NULL"
    is_stored = (
        f"{is_there} AND {column_of('stored', MARKED_AT)} IS NULL"
        if marks
        else is_there
    )
    values = _VALUES.format(
        kept=",\n  ".join(
            f"if(array_contains(former.{UNSENT}, {text(name)}), {column_of('stored', outputs[0])}, "
            f"{column_of('former', name)}) AS {identifier(name)}"
            if outputs
            else f"{column_of('former', name)} AS {identifier(name)}"
            for name, outputs in kept.items()
        ),
        unsent=UNSENT,
        stored_key=stored_key,
    )
    former = _FORMER.format(
        newest=NEWEST_VIEW, change=CHANGE, half=HALF, position=POSITION
    )
    query = _REMEMBER.format(
        moves=table_name(table.moves),
        op_before=OP_BEFORE,
        is_stored=is_stored,
        occupied=OCCUPIED,
        values=values if kept else "",
        deleted_at=DELETED_AT,
        cut=CUT_VIEW,
        former=former if kept else "",
        table=table_name(table),
        match="\n  AND ".join(
            f"{column_of('stored', key)} = coalesce(former.{FROM}.{identifier(column)}, {column_of('cut', column)})"
            if kept
            else f"{column_of('stored', key)} = {column_of('cut', column)}"
            for key, column in keys.items()
        ),
    )
    return query, ""


def moved_on(keys: Sequence[str], kept: Sequence[str]) -> str:
    """The query for the view `_lakesql_newest` with missing values filled from the key
    that a row had before its last key change.

    A value missing there too is to be found one key change earlier, and in the end in
    the table, under the key in `_lakesql_from`. The delete of an earlier batch was
    remembered with the row's values. If the delete comes in a later batch only, the
    value cannot be found.
    """
    return _MOVED_ON.format(
        kept=identifiers(kept),
        unsent=UNSENT,
        pair=PAIR,
        from_key=FROM,
        values=",\n  ".join(
            f"if(array_contains(life.{UNSENT}, {text(name)}), {column_of('former', name)}, {column_of('life', name)}) "
            f"AS {identifier(name)}"
            for name in kept
        ),
        keys=identifiers(keys),
        moved=MOVED_VIEW,
        former_keys=", ".join(
            f"{column_of('former', key)} AS {identifier(key)}" for key in keys
        ),
        newest=NEWEST_VIEW,
        half=HALF,
        move=MOVE,
        position=POSITION,
        compared=COMPARED,
        change=CHANGE,
    )
