"""The SQL for the newest change of each key of a change feed in a batch, and for
filling columns missing in it from earlier changes."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.compile.quote import column_of, identifier, identifiers, text
from lakesql.compile.with_query import with_query
from lakesql.names import (
    CHANGE,
    CHANGES_VIEW,
    HALF,
    KNOWN,
    LATEST,
    MOVE,
    PAIR,
    POSITION,
    RANK,
    UNSENT,
)

_OF_KEY = f"if({CHANGE}.op = 't', {POSITION}.partition, NULL)"
"""The part of the partitioning by which truncates, which have no key, are grouped: the
newest one of each partition of the topic is kept."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The queries for the newest change of each key.

    `keys` are columns of the feed, or fields of `_change`, that identify a row.
    `sequence` decides which of two changes is newer, and arrival decides between equal
    ones. `latest` are all columns of the feed if a deleted row is to keep its last
    values, else empty. `kept` are the columns whose values are taken from the table if
    they are missing in a change event. `has_moves`: the changes have the columns that
    describe key changes, which the query leaves out.
    """

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    has_moves: bool = False

    def changes(self) -> str:
        """The query for the newest change of each key in the view `_lakesql_changes`,
        and for the newest truncate of each partition.

        If deleted rows keep their last values, the `kept` columns of a delete are those
        of the row before it.
        """
        left_out = f" EXCEPT ({HALF}, {MOVE})" if self.has_moves else ""
        ranked = self._windowed(
            [f"SELECT *{left_out}", self._rank, *self._latest],
            CHANGES_VIEW,
            ["newest_first"],
        )
        values = ""
        if self.latest and self.kept:
            before = ", ".join(
                f"{column_of(LATEST, name)} AS {identifier(name)}" for name in self.kept
            )
            values = f" EXCEPT ({identifiers(self.kept)}), {before}"
        return with_query(
            {"ranked": ranked}, f"SELECT *{values}\nFROM ranked\nWHERE {RANK} = 1"
        )

    def changes_known(self) -> str:
        """Like `changes`; columns missing from a key's newest change are filled from
        the latest earlier change in the batch that has them.

        `_lakesql_unsent` then names the columns that no change of the batch has. If the
        row got its key in the batch, and values must be read under its former key,
        `_lakesql_pair` names the key change. The deletes of key changes are kept too,
        of whatever rank, with the values that the old key had until then. A delete ends
        a value, unless deleted rows stay.
        """
        all_kept = f"array({', '.join(map(text, self.kept))})"
        found = ",\n".join(
            f"  {self._found(name)} AS {identifier(name)}" for name in self.kept
        )
        ranked = [
            f"SELECT * EXCEPT ({KNOWN}, {UNSENT})",
            f"if({CHANGE}.op = 'd', {all_kept}, {UNSENT}) AS {UNSENT}",
            self._rank,
            *self._latest,
            f"struct(\n{found}\n) AS {KNOWN}",
        ]
        values = ",\n".join(
            f"  if({_is_unsent(name)}, {_known(name)}.value, {identifier(name)}) AS {identifier(name)}"
            for name in self.kept
        )
        parts = {
            "said": f"SELECT *,\n  struct(\n{self._said()}\n  ) AS {KNOWN}\nFROM {CHANGES_VIEW}",
            "ranked": self._windowed(ranked, "said", ["newest_first", "before_this"]),
            "newest": f"SELECT *\nFROM ranked\nWHERE {RANK} = 1 OR ({CHANGE}.op = 'd' AND {HALF} IS NOT NULL)",
        }
        return with_query(
            parts,
            f"""\
SELECT * EXCEPT ({identifiers(self.kept)}, {UNSENT}, {KNOWN}),
{values},
  {self._unknown()} AS {UNSENT},
  {self._pair()} AS {PAIR}
FROM newest""",
        )

    # --- the order of the changes of a key

    @property
    def _rank(self) -> str:
        return f"row_number() OVER newest_first AS {RANK}"

    @property
    def _latest(self) -> list[str]:
        """The column with the row of the key's newest change that is no delete; no
        column if deleted rows do not keep their values."""
        if not self.latest:
            return []
        row = f"struct({identifiers(self.latest)}, {POSITION})"
        is_row = f"{CHANGE}.op IN ('c', 'u', 'r')"
        return [
            f"first(CASE WHEN {is_row} THEN {row} END, true)\n    OVER from_here_back AS {LATEST}"
        ]

    def _windowed(self, columns: list[str], source: str, windows: list[str]) -> str:
        """A query over `source` with windows over the changes of each key. `columns`
        are its select list, of which the first item begins with SELECT."""
        keys = ", ".join(map(of_feed_column, self.keys))
        order = ", ".join(
            f"{each} DESC" for each in (*map(of_feed_column, self.sequence), POSITION)
        )
        rows = {
            "newest_first": "",
            "before_this": "\n    ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "from_here_back": "\n    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        }
        names = [*windows, *(["from_here_back"] if self.latest else [])]
        each = ",\n".join(
            f"  {name} AS (\n    PARTITION BY {keys}, {_OF_KEY}\n    ORDER BY {order}{rows[name]}\n  )"
            for name in names
        )
        chosen = ",\n  ".join(column.replace("\n", "\n  ") for column in columns)
        return f"{chosen}\nFROM {source}\nWINDOW\n{each}"

    # --- columns missing in change events

    def _said(self) -> str:
        """For each change and column, a struct of where its value comes from: sent with
        the change, removed by a delete, or to be read under the row's former key. NULL
        if the change lacks the column, so that an earlier change has it."""
        ends = "'c'" if self.latest else "'c', 'd'"
        says = (
            f"""\
    CASE
      WHEN NOT {_is_unsent(name)} OR {CHANGE}.op IN ({ends})
      THEN struct(
        {identifier(name)} AS value,
        {CHANGE}.op = 'd' AS is_gone,
        if({CHANGE}.op = 'c' AND {_is_unsent(name)}, {HALF}, NULL) AS pair
      )
    END AS {identifier(name)}"""
            for name in self.kept
        )
        return ",\n".join(says)

    def _found(self, name: str) -> str:
        """The struct of `_said` that holds for a column of a change: its own if it
        inserts the row, else that of the latest earlier change which has one."""
        known = _known(name)
        return f"coalesce(if({CHANGE}.op = 'c', {known}, NULL), first({known}, true) OVER before_this)"

    def _unknown(self) -> str:
        """The array of the columns that no change of the batch has. With '' among them,
        no stored row has the values either."""
        cases = "\n      ".join(
            f"WHEN {text(name)} THEN {known} IS NULL OR {known}.is_gone OR {known}.pair IS NOT NULL"
            for name, known in ((name, _known(name)) for name in self.kept)
        )
        unknown = f"filter(\n    {UNSENT},\n    name -> CASE name\n      {cases}\n    END\n  )"
        if self.latest:
            return unknown
        is_gone = "\n      OR ".join(
            f"({_is_unsent(name)} AND coalesce({_known(name)}.is_gone, false))"
            for name in self.kept
        )
        return f"{unknown} || if(\n    {is_gone},\n    array(''),\n    array()\n  )"

    def _pair(self) -> str:
        """The key change that gave the row its key, if a value must be read under the
        former key; else NULL."""
        pairs = ",\n    ".join(
            f"if({_is_unsent(name)}, {_known(name)}.pair, NULL)" for name in self.kept
        )
        return f"coalesce(\n    {pairs}\n  )"


def _is_unsent(name: str) -> str:
    return f"array_contains({UNSENT}, {text(name)})"


def _known(name: str) -> str:
    return f"{KNOWN}.{identifier(name)}"


def of_feed_column(name: str) -> str:
    """A column of the feed, quoted, or a field of `_change` as it is."""
    return name if name.startswith(f"{CHANGE}.") else identifier(name)
