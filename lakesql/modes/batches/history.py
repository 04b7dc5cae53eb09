"""The SQL of a batch in mode `scd2`: the query for all changes of the batch's keys, the
versions that they make, and the MERGE that writes these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.compile.log_positions import (
    BEFORE,
    READS,
    behind,
    is_read,
    is_unplaced,
    own_place,
    place_before,
)
from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.modes.scd2 import Scd2
from lakesql.names import (
    BATCH_VIEW,
    DELETE,
    DELETED_AT,
    END,
    ENDED,
    ENDS,
    HISTORY_VIEW,
    NEXT,
    ORIGIN,
    RANK,
    REMEMBERED,
    STORED,
    UNTIL,
    VERSION,
)

_CHANGES = """\
SELECT * FROM (
  SELECT *,
    lead(CASE WHEN {version} OR {delete} THEN {valid_from} END) IGNORE NULLS OVER in_order AS {until}
  FROM (
    SELECT *,
      NOT {delete} AND (
        coalesce(lag({delete}) OVER in_order, true)
        OR NOT struct({tracked}) <=> lag(struct({tracked})) OVER in_order
      ) AS {version}
    FROM (
      SELECT
        {ended_columns},
        {delete} OR {end} <> 0 AS {delete}, {origin}, {end}
      FROM (
        SELECT *, lead(CASE WHEN {ends} THEN {valid_from} END) IGNORE NULLS OVER in_sequence AS {next}
        FROM (
          SELECT *,
            row_number() OVER newest AS {rank},
            max({valid_to}) OVER same AS {ended},
            max({origin} = 1 OR {origin} = 2 AND {delete}) OVER same AS {ends}
          FROM ({open}
            SELECT
              {columns}, {batch_delete} AS {delete},
              0 AS {origin}, CAST(NULL AS timestamp) AS {deleted_at}, NULL AS {valid_to}
            FROM {batch}
            UNION ALL
            SELECT {columns}, false, 1, NULL, {valid_to}
            FROM {table} AS {stored}
            WHERE EXISTS (SELECT 1 FROM {batch} WHERE {stored_match})
              AND """

_REMEMBERED = """
            UNION ALL
            SELECT {columns}, {delete}, 2, {deleted_at}, NULL
            FROM {tombstones} AS {remembered}
            WHERE EXISTS (SELECT 1 FROM {batch} WHERE {remembered_match})
              AND """

_IN_ORDER = """{close}
          )
          WINDOW
            same AS (PARTITION BY {keys}, {sequence}),
            newest AS (PARTITION BY {keys}, {sequence} ORDER BY {origin}, {deleted_at} DESC)
        )
        WHERE {rank} = 1
        WINDOW in_sequence AS (PARTITION BY {keys} ORDER BY {sequence})
      )
      LATERAL VIEW explode(
        CASE
          WHEN {ended} IS NULL OR {ended} <=> {next} THEN array(0)
          WHEN {ended} = {valid_from} THEN array(0, 1)
          ELSE array(0, -1)
        END
      ) AS {end}
    )
    WINDOW in_order AS (PARTITION BY {keys} ORDER BY {sequence}, {end})
  )
  WINDOW in_order AS (PARTITION BY {keys} ORDER BY {sequence}, {end})
)
WHERE {end} = 0"""

_OPEN = """
            SELECT {placed_columns}, {delete}, {origin}, {deleted_at}, {valid_to}
            FROM (
              SELECT *,
                max(CASE WHEN {origin} > 0 THEN {place_before} END) OVER (PARTITION BY {keys}) AS {before},
                collect_set(CASE WHEN {origin} > 0 AND {is_read} THEN {own} END) OVER (PARTITION BY {keys}) AS {reads}
              FROM ("""

_CLOSE = """
              )
            )
            WHERE {origin} > 0
              OR NOT {is_read}
              OR CASE
                WHEN {is_unplaced} THEN {before} IS NULL
                ELSE NOT array_contains({reads}, {own})
              END"""

_PLACED = """\
CASE
              WHEN {origin} > 0 OR {before} IS NULL OR NOT {is_read} OR {is_unplaced} THEN {place}
              WHEN {before} <= {own} THEN {behind}
              ELSE {own}
            END AS {place}"""

_REMEMBER = """\
INSERT INTO {tombstones} ({columns}, {delete}, {deleted_at})
SELECT {columns}, {delete}, current_timestamp() FROM {history} WHERE {is_forgotten}"""

_MERGE = """\
MERGE INTO {table} AS target
USING {history} AS source
ON {match}
  AND """

_CLAUSES = """
WHEN MATCHED AND NOT source.{version} THEN DELETE
WHEN MATCHED AND (source.{origin} = 0 OR NOT {valid_to} <=> source.{until}) THEN UPDATE SET
  {sets}
WHEN NOT MATCHED AND source.{version} THEN INSERT ({names})
  VALUES ({values})"""


@dataclass(frozen=True, slots=True)
class History:
    """The statements of one model. `sequence` are the columns that order the changes of
    a key; `columns` those of its SELECT. `is_placed`: the sequence is a position in a
    database's log.

    Of two changes of a key with the same sequence the last one counts. A change that
    equals the one before it in the tracked columns makes no version. Such changes, and
    deletes, are remembered in the tombstones, as a change that arrives late may turn
    them into versions. If the table has the end of a version and no known change ended
    it, a delete that is no longer remembered did: the version keeps its end.
    """

    table: TableName
    config: Scd2
    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    is_placed: bool = False

    @property
    def is_forgotten(self) -> str:
        """The condition of the changes that make no version and are not among the
        tombstones yet."""
        return f"NOT {VERSION} AND {ORIGIN} < 2"

    def changes(self, deletes: bool) -> tuple[str, ...]:
        """The query for all changes of the keys of the view `_lakesql_batch`: the parts
        between which the bounds of these keys are inserted.

        `deletes`: the rows of the batch have `_lakesql_delete`; otherwise none of them
        is a delete.
        """
        keys = self.config.keys
        untracked = {name.lower() for name in (*keys, *self.sequence)}
        tracked = self.config.track_columns or [
            name for name in self.columns if name.lower() not in untracked
        ]
        words = {
            "table": table_name(self.table),
            "tombstones": table_name(self.table.tombstones),
            "batch": BATCH_VIEW,
            "columns": identifiers(self.columns),
            "keys": identifiers(keys),
            "sequence": identifiers(self.sequence),
            "valid_from": identifier(self.sequence[0]),
            "valid_to": identifier(self.config.valid_to),
            "ended_columns": ",\n        ".join(map(self._at_end, self.columns)),
            "tracked": identifiers(tracked) or "true",
            "stored_match": self._match(STORED, keys, BATCH_VIEW),
            "remembered_match": self._match(REMEMBERED, keys, BATCH_VIEW),
            "batch_delete": DELETE if deletes else "false",
            "delete": DELETE,
            "deleted_at": DELETED_AT,
            "end": END,
            "ended": ENDED,
            "ends": ENDS,
            "next": NEXT,
            "origin": ORIGIN,
            "rank": RANK,
            "remembered": REMEMBERED,
            "stored": STORED,
            "until": UNTIL,
            "version": VERSION,
        }
        words |= self._placing(words) if self.is_placed else {"open": "", "close": ""}
        return (
            _CHANGES.format(**words),
            _REMEMBERED.format(**words),
            _IN_ORDER.format(**words),
        )

    def _placing(self, words: Mapping[str, str]) -> Mapping[str, str]:
        """The parts of `_CHANGES` and `_IN_ORDER` that give a snapshot's rows a log
        position behind the known changes of their key, by their places in these."""
        (column,) = self.sequence
        place = identifier(column)
        placing = {
            **words,
            "before": BEFORE,
            "reads": READS,
            "place": place,
            "place_before": place_before(place),
            "is_read": is_read(place),
            "is_unplaced": is_unplaced(place),
            "own": own_place(place),
            "behind": behind(place, BEFORE),
        }
        placed = _PLACED.format(**placing)
        columns = ", ".join(
            placed if name == column else identifier(name) for name in self.columns
        )
        return {
            "open": _OPEN.format(**placing, placed_columns=columns),
            "close": _CLOSE.format(**placing),
        }

    def _at_end(self, column: str) -> str:
        """A column of a change, or of the end of a version: an end has the time at
        which the version ended as its start, and NULL in the other columns of the
        sequence unless the version ended when it began."""
        name = identifier(column)
        if column == self.sequence[0]:
            return f"CASE WHEN {END} = 0 THEN {name} ELSE {ENDED} END AS {name}"
        return (
            f"CASE WHEN {END} >= 0 THEN {name} END AS {name}"
            if column in self.sequence
            else name
        )

    @property
    def remember(self) -> str:
        """The INSERT into the tombstones of the changes that make no version."""
        return _REMEMBER.format(
            tombstones=table_name(self.table.tombstones),
            columns=identifiers(self.columns),
            delete=DELETE,
            deleted_at=DELETED_AT,
            history=HISTORY_VIEW,
            is_forgotten=self.is_forgotten,
        )

    @property
    def merge(self) -> tuple[str, ...]:
        """The MERGE of the versions in the view `_lakesql_history`: the parts between
        which the bounds of the batch's keys are inserted."""
        config = self.config
        until = f"source.{UNTIL}"
        values = {
            **{name: column_of("source", name) for name in self.columns},
            config.valid_from: column_of("source", self.sequence[0]),
            config.valid_to: until,
            config.is_current: f"{until} IS NULL",
        }
        match = self._match("target", (*config.keys, *self.sequence), "source", "\n  ")
        clauses = _CLAUSES.format(
            version=VERSION,
            origin=ORIGIN,
            until=UNTIL,
            valid_to=column_of("target", config.valid_to),
            sets=",\n  ".join(
                f"{identifier(name)} = {value}" for name, value in values.items()
            ),
            names=identifiers(values),
            values=", ".join(values.values()),
        )
        return _MERGE.format(
            table=table_name(self.table), history=HISTORY_VIEW, match=match
        ), clauses

    def _match(
        self, alias: str, columns: tuple[str, ...], other: str, indent: str = " "
    ) -> str:
        return f"{indent}AND ".join(
            f"{column_of(alias, name)} = {column_of(other, name)}" for name in columns
        )
