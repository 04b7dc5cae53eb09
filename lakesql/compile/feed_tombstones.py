"""What a tombstone (a record without a value) deletes in a mirrored change feed if it
follows no delete. Pure.

A tombstone that follows a delete of its key adds nothing: the broker needs it for
compaction. If the broker has compacted the delete away, the tombstone is all that is
left of it; and a flat feed may write nothing but tombstones for deletes. A tombstone is
newer than what came before it in its partition, and older than each change that
follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesql.compile.log_positions import is_read, place_before, placed_anew
from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.names import CHANGE, CHANGES_VIEW, EARLIER_VIEW, POSITION, RAW

_FORMER = "_lakesql_former"
_IS_EARLIER = "_lakesql_is_earlier"
_PLACE = "_lakesql_place"

_FIRST = """\
SELECT {position}.source AS topic, {position}.partition AS partition, {position}.offset AS offset
FROM (
  SELECT {position}, {raw}.value IS NULL AS is_tombstone,
    row_number() OVER (PARTITION BY {position}.source, {position}.partition ORDER BY {position}.offset) AS number
  FROM {changes}
)
WHERE is_tombstone AND number = 1"""

_ALONE = """\
SELECT * EXCEPT ({former}, {is_earlier})
FROM (
  SELECT *,
    lag({change}.op) OVER (
      PARTITION BY {keys}, {position}.source, {position}.partition
      ORDER BY {position}.offset
    ) AS {former}
  FROM (
    SELECT *, false AS {is_earlier} FROM {changes}
    UNION ALL
    SELECT *, true FROM {earlier}
  )
)
WHERE NOT {is_earlier} AND ({raw}.value IS NOT NULL OR NOT {former} <=> 'd')"""

_CLOSING = """\
{changes}
LEFT JOIN (
  SELECT {stored_keys}, max({known_place}) AS {known_place}
  FROM (
    SELECT {stored_keys}, {place} AS {known_place} FROM {table} AS stored
    WHERE """

_OF_DELETED = """
    UNION ALL
    SELECT {stored_keys}, {place} FROM {tombstones} AS deleted
    WHERE """

_OF_KEYS = """
  )
  GROUP BY {stored_keys}
) AS known
ON changes.{raw}.value IS NULL
  AND {match}"""


def first_tombstones() -> str:
    """The query for the positions of tombstones that are the first record of their
    partition in a batch: only an earlier batch tells whether they follow a delete."""
    return _FIRST.format(position=POSITION, raw=RAW, changes=CHANGES_VIEW)


def without_followers(keys: Sequence[str]) -> str:
    """The query for the changes without tombstones that only follow a delete of the
    same key. `_lakesql_earlier` has the records of the topic before the batch, for the
    tombstones that `first_tombstones` returns."""
    return _ALONE.format(
        former=_FORMER,
        change=CHANGE,
        keys=identifiers(keys),
        position=POSITION,
        raw=RAW,
        changes=CHANGES_VIEW,
        earlier=EARLIER_VIEW,
        is_earlier=_IS_EARLIER,
    )


def closing_tombstones(
    table: TableName, keys: Mapping[str, str], place: str, fields: Sequence[str]
) -> tuple[str, str, str]:
    """The query for the changes of a history in which each tombstone is placed just
    after the newest change of its key: among those before it in its partition, and
    those in the table and its table of tombstones. It is returned in three parts, with
    the bounds of the keys to be put between them.

    `keys` are the columns of the feed's key by the model's names for them, `place` is
    the table's column of positions, and `fields` are those of `_change`, in their
    order.
    """
    known = f"greatest(coalesce({_FORMER}, array()), coalesce(known.{_PLACE}, array()))"
    own = f"changes.{CHANGE}.position"
    placed = f"if(changes.{RAW}.value IS NULL, concat({known}, array(0L)), {own})"
    passed_over = f"{RAW}.value IS NULL OR {is_read(f'{CHANGE}.position')}"
    words = {
        "changes": placed_anew(placed, _FORMER, passed_over, [*keys.values()], fields),
        "raw": RAW,
        "stored_keys": identifiers([*keys]),
        "known_place": _PLACE,
        "place": place_before(identifier(place)),
        "table": table_name(table),
        "tombstones": table_name(table.tombstones),
        "match": "\n  AND ".join(
            f"{column_of('known', key)} = {column_of('changes', column)}"
            for key, column in keys.items()
        ),
    }
    return (
        _CLOSING.format(**words),
        _OF_DELETED.format(**words),
        _OF_KEYS.format(**words),
    )
