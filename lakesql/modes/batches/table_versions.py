"""The SQL of a refresh in mode `scd2` over tables: the rows that differ from the
current versions of their keys, and the MERGE that ends and adds versions."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.modes.scd2_of_tables import Scd2OfTables
from lakesql.names import (
    AT,
    DIFFERENCES_VIEW,
    ENDS,
    HISTORY_VIEW,
    NOW,
    ROWS_VIEW,
    STORED,
    TIME_VIEW,
    VERSION,
)

_FIRST = """\
SELECT {columns}, {at} AS {valid_from}, CAST(NULL AS timestamp) AS {valid_to}, true AS {is_current}
FROM {rows}
CROSS JOIN {time}"""

_NEWEST = """\
SELECT CAST(ceil(unix_micros(max(greatest({valid_from}, {valid_to}))) / 1000) AS bigint)
FROM {table}"""

_DIFFERENCES = """\
SELECT
  {values},
  {stored}.{valid_from} AS {valid_from},
  {at},
  {now}.{version} IS NOT NULL AS {version},
  {stored}.{ends} IS NOT NULL AS {ends}
FROM (
  SELECT *, true AS {version}
  FROM {rows}
) AS {now}
FULL OUTER JOIN (
  SELECT {columns}, {valid_from}, true AS {ends}
  FROM {table}
  WHERE {is_current}
) AS {stored}
  ON {same_key}
CROSS JOIN {time}
WHERE {now}.{version} IS NULL
  OR {stored}.{ends} IS NULL{differs}"""

_DIFFERS = """
  OR NOT (
    {same}
  )"""

_CHANGED = """\
SELECT {columns}, {at} AS {valid_from}, {at}, false AS {ends}
FROM {differences}
WHERE {version}
UNION ALL
SELECT {keys_alone}, {valid_from}, {at}, true
FROM {differences}
WHERE {ends}"""

_MERGE = """\
MERGE INTO {table} AS target
USING {history} AS source
ON {match}
  AND target.{is_current}
  AND source.{ends}
WHEN MATCHED THEN UPDATE SET
  {valid_to} = source.{at},
  {is_current} = false
WHEN NOT MATCHED AND NOT source.{ends} THEN
  INSERT ({columns}, {valid_from}, {valid_to}, {is_current})
  VALUES ({values}, source.{at}, NULL, true)"""


@dataclass(frozen=True, slots=True)
class TableVersions:
    """The statements of one model. `columns` are those of its SELECT that the table
    has.

    A row is compared with the current version of its key. If it differs in a tracked
    column, that version ends and a new one begins; if the key has no row any more, its
    version ends; if it had no version, one begins. All this happens at one time, which
    is the row of the view `_lakesql_time`. Versions that have ended are not read.
    """

    table: TableName
    config: Scd2OfTables
    columns: tuple[str, ...]

    @property
    def tracked(self) -> tuple[str, ...]:
        """The columns in which a difference makes a version: the configured ones, or
        all but the keys."""
        keys = {name.lower() for name in self.config.keys}
        chosen = {name.lower() for name in self.config.track_columns or self.columns}
        return tuple(name for name in self.columns if name.lower() in chosen - keys)

    @property
    def first(self) -> str:
        """The query for the versions of the first refresh, which creates the table: one
        for each row of the SELECT."""
        return _FIRST.format(**self._words)

    @property
    def newest(self) -> str:
        """The query for the latest time at which a version of the table begins or ends,
        in milliseconds since the epoch, rounded up; NULL if it has none."""
        return _NEWEST.format(**self._words)

    @property
    def differences(self) -> str:
        """The query for the keys whose row differs from their current version, or that
        have only one of the two."""
        keys = {name.lower() for name in self.config.keys}
        values = (
            f"coalesce({column_of(NOW, name)}, {column_of(STORED, name)}) AS {identifier(name)}"
            if name.lower() in keys
            else f"{column_of(NOW, name)} AS {identifier(name)}"
            for name in self.columns
        )
        same = " AND\n    ".join(_same(NOW, STORED, name) for name in self.tracked)
        return _DIFFERENCES.format(
            **self._words,
            values=",\n  ".join(values),
            same_key="\n  AND ".join(
                _same(NOW, STORED, name) for name in self.config.keys
            ),
            differs=_DIFFERS.format(same=same) if same else "",
        )

    @property
    def changed(self) -> str:
        """The query for the versions that begin, with their columns, and those that
        end, with their key and their start."""
        keys = {name.lower() for name in self.config.keys}
        alone = (
            identifier(name) if name.lower() in keys else "NULL"
            for name in self.columns
        )
        return _CHANGED.format(**self._words, keys_alone=", ".join(alone))

    @property
    def merge(self) -> str:
        """The MERGE of the versions that begin and end."""
        matched = (*self.config.keys, self.config.valid_from)
        return _MERGE.format(
            **self._words,
            match="\n  AND ".join(_same("target", "source", name) for name in matched),
            values=", ".join(column_of("source", name) for name in self.columns),
        )

    @property
    def _words(self) -> dict[str, str]:
        return {
            "table": table_name(self.table),
            "columns": identifiers(self.columns),
            "valid_from": identifier(self.config.valid_from),
            "valid_to": identifier(self.config.valid_to),
            "is_current": identifier(self.config.is_current),
            "at": AT,
            "differences": DIFFERENCES_VIEW,
            "ends": ENDS,
            "history": HISTORY_VIEW,
            "now": NOW,
            "rows": ROWS_VIEW,
            "stored": STORED,
            "time": TIME_VIEW,
            "version": VERSION,
        }


def _same(one: str, other: str, column: str) -> str:
    """The condition that a column has the same value in both, or is NULL in both."""
    return f"{column_of(one, column)} <=> {column_of(other, column)}"
