"""The statements of a batch in which rows have changed their keys: which of two rows a key has, and what moves along.

A database sends such a change as two records, the delete of the old key and the insert of the new one. Where a key is
checked at the end of a transaction, two rows may have the same one within it: `1 → 2, 2 → 1` is sent as `d1 c2 d2 c1`.
The last that is said of key 2 is a delete then, and of a row that has the key no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.compile.quote import column_of, identifier, identifiers, text
from lakesql.names import CHANGE, CHANGES_VIEW, COMPARED, FROM, HALF, MOVE, NEWEST_VIEW, PAIR, POSITION, UNSENT

_TOLD_APART = """\
WITH varying AS (
  SELECT collect_set(place) AS places
  FROM (
    SELECT place
    FROM (
      SELECT {position}.source AS source, posexplode({move}.removed) AS (place, value)
      FROM {changes}
    )
    GROUP BY source, place
    HAVING min(value) <> max(value)
  )
),
compared AS (
  SELECT *,
    struct(
      places,
      transform(places, place -> {move}.added[place]) AS added,
      transform(places, place -> {move}.removed[place]) AS removed
    ) AS {compared}
  FROM {changes}
  CROSS JOIN varying
),
counted AS (
  SELECT struct({keys}) AS key, {change}.tx AS tx,
    size(first({compared}.places)) AS compares,
    max({change}.position) AS position,
    collect_set(
      struct(
        {change}.position AS position,
        {change}.op AS op,
        {compared}.added AS added,
        {compared}.removed AS removed
      )
    ) AS events
  FROM compared
  WHERE {change}.op IN ('c', 'u', 'd') AND {change}.tx IS NOT NULL
  GROUP BY {keys}, {change}.tx
  HAVING bool_or({change}.op = 'c')
    AND bool_or({change}.op = 'd')
    AND bool_or({half} IS NOT NULL)
    AND bool_and({change}.op = 'c' OR {compared}.removed IS NOT NULL)
),
told AS (
  SELECT *,
    filter(
      array_distinct(events.added),
      it -> size(filter(events, e -> e.added = it)) > size(filter(events, e -> e.removed = it))
    ) AS entered,
    exists(
      events.removed,
      it -> size(filter(events, e -> e.removed = it)) > size(filter(events, e -> e.added = it))
    ) AS has_left
  FROM counted{where}
)
SELECT changes.* EXCEPT ({change}, {compared}),
  struct(
    {fields}
  ) AS {change}
FROM compared AS changes
LEFT JOIN told
ON told.key = struct({changes_keys}) AND told.tx = changes.{change}.tx
WHERE CASE
  WHEN told.tx IS NULL OR changes.{change}.op NOT IN ('c', 'u', 'd') THEN true
  WHEN size(told.entered) = 1 THEN coalesce(changes.{compared}.added = told.entered[0], false)
  ELSE told.has_left OR size(told.entered) > 1
END"""

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
  FROM {newest}
  WHERE {change}.op = 'd' AND {half} IS NOT NULL
) AS former
ON former.{half} = life.{pair} AND former.{compared} = 1"""


def told_apart(keys: Sequence[str], fields: Sequence[str], is_keys_only: bool, is_placed: bool) -> str:
    """The view `_lakesql_changes` without the changes of rows that had a key within a transaction only.

    What a row leaves of a key and what another brings are counted by their values: `+X -Y` is `Y` replaced by `X`, and
    `+X -X` leaves the key as it was before the transaction. Compared are the columns in which the rows before changes
    differ at all: where the database sends the key alone, the others are the same in every delete, whatever stood in
    them. Where none differs, a delete deletes; but in a table of nothing else than keys there is none to compare.

    `fields` are those of `_change`, in their order. `is_placed`: a row that is left gets the place in the log behind
    all that its transaction has said of its key, or a repeated delete of the other row would be the newer one.
    """
    changed = [f"changes.{CHANGE}.{field}" for field in fields]
    placed = {"position": _PLACED_LAST.format(change=CHANGE)} if is_placed else {}
    return _TOLD_APART.format(
        position=POSITION,
        half=HALF,
        move=MOVE,
        changes=CHANGES_VIEW,
        compared=COMPARED,
        change=CHANGE,
        keys=identifiers(keys),
        changes_keys=", ".join(column_of("changes", key) for key in keys),
        where="" if is_keys_only else "\n  WHERE compares > 0",
        fields=",\n    ".join(
            f"{placed.get(field, value)} AS {field}" for field, value in zip(fields, changed, strict=True)
        ),
    )


def moved_on(keys: Sequence[str], kept: Sequence[str]) -> str:
    """The view `_lakesql_newest` with the values that stand under the key that a row had before its last key change.

    What that one has not either is to be found one key change earlier, and at last in the table, under the key in
    `_lakesql_from`. A key change of which the delete is in another batch leaves a value that is nowhere to be found.
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
        former_keys=", ".join(f"{column_of('former', key)} AS {identifier(key)}" for key in keys),
        newest=NEWEST_VIEW,
        half=HALF,
        move=MOVE,
        position=POSITION,
        compared=COMPARED,
        change=CHANGE,
    )
