"""The statements of a batch that mirrors a change feed: the newest change of each key, and what becomes of its row."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.compile.quote import column_of, identifier, identifiers, text
from lakesql.names import CHANGE, CHANGES_VIEW, DELETE, NEWEST_VIEW, POSITION, RANK, ROWS_VIEW

_NEWEST = """\
SELECT *
FROM (
  SELECT *,
    row_number() OVER (
      PARTITION BY {keys}, if({change}.op = 't', {position}.partition, NULL)
      ORDER BY {position} DESC
    ) AS {rank}
  FROM {changes}
)
WHERE {rank} = 1"""

_CURRENT = """\
SELECT *
FROM {newest} AS changed
WHERE {change}.op IN ('c', 'u', 'r')"""

_AFTER_TRUNCATES = """
  AND NOT EXISTS (
    SELECT 1
    FROM {newest} AS emptied
    WHERE emptied.{change}.op = 't'
      AND CASE
        WHEN emptied.{position}.source = changed.{position}.source
          AND emptied.{position}.partition = changed.{position}.partition
        THEN emptied.{position}.offset > changed.{position}.offset
        ELSE emptied.{change}.position >= changed.{change}.position
      END
  )"""

_BATCH = """\
SELECT {columns},
  CASE
    WHEN count(*) OVER (PARTITION BY {touched_keys}) > 1 THEN raise_error({twice})
    ELSE {made_key} IS NULL
  END AS {delete}
FROM (
  SELECT {feed_keys}
  FROM {newest}
  WHERE {change}.op <> 't'
) AS touched
LEFT JOIN {rows} AS made
ON {match}"""

NOT_IN_FEED = "WHEN NOT MATCHED BY SOURCE THEN DELETE"
"""The clause of a MERGE that empties the table: of what was there before a truncate, no row is in the batch."""


def newest_changes(feed_keys: tuple[str, ...]) -> str:
    """The newest change of each key in the view `_lakesql_changes`, and of each partition the newest truncate."""
    return _NEWEST.format(
        change=CHANGE, keys=identifiers(feed_keys), position=POSITION, rank=RANK, changes=CHANGES_VIEW
    )


def current_rows(has_truncate: bool) -> str:
    """The rows of the source that these changes leave: not of deletes, nor from before a truncate.

    A truncate has no key, so it stands in any partition. What is in the same one is before it or after it by arrival,
    and what is in another by its position in the database's log.
    """
    text = _CURRENT + (_AFTER_TRUNCATES if has_truncate else "")
    return text.format(change=CHANGE, newest=NEWEST_VIEW, position=POSITION)


def mirrored_rows(keys: Mapping[str, str], columns: tuple[str, ...] | None) -> str:
    """A row for each key that has changed: the one that the SELECT makes, or `_lakesql_delete` where it makes none.

    `keys` are the columns of the feed's key, by the model's names for them. `columns` are those that land, None where
    only Spark's analyzer knows them.
    """
    names = {key.lower() for key in keys}
    if columns is None:
        landing = [*(column_of("touched", key) for key in keys), f"made.* EXCEPT ({identifiers(tuple(keys))})"]
    else:
        landing = [column_of("touched" if column.lower() in names else "made", column) for column in columns]
    return _BATCH.format(
        columns=",\n  ".join(landing),
        touched_keys=", ".join(column_of("touched", key) for key in keys),
        twice=text("The SELECT makes several rows of one row of the source."),
        made_key=column_of("made", next(iter(keys))),
        delete=DELETE,
        feed_keys=", ".join(f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items()),
        newest=NEWEST_VIEW,
        change=CHANGE,
        rows=ROWS_VIEW,
        match="\n  AND ".join(f"{column_of('made', key)} = {column_of('touched', key)}" for key in keys),
    )
