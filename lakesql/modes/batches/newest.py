"""The newest change of each key among the changes of a feed in a batch, with the values
that it has not sent."""

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
"""What tells truncates apart, which have no key: the newest one of each partition is
kept."""


@dataclass(frozen=True, slots=True)
class Newest:
    """What the newest change of a key is found by, and what is had with it.

    `keys` are columns of the feed, or fields of `_change`, that identify a row, and
    `sequence` is what says which of two changes is newer, before their arrival does.
    `latest` are all columns of the feed, where a deleted row has with it how it was
    before. `kept` are the columns whose values the table has where a change does not
    send them. `has_moves`: the changes say what they do to keys, which is left out.
    """

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    has_moves: bool = False

    def changes(self) -> str:
        """The newest change of each key in the view `_lakesql_changes`, and of each
        partition the newest truncate.

        Columns that are `kept` are those of the row before, where the newest change is
        its delete and deleted rows stay.
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

        `_lakesql_unsent` then names the columns of which no change of the batch has
        sent the value. Where the row came from another key in the batch,
        `_lakesql_pair` says by which key change, and the deletes of these stand there
        too, of whatever rank, with what the old key had until then. A value ends with a
        delete, unless deleted rows stay.
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
        """The row as the newest change of its key has it that is no delete."""
        if not self.latest:
            return []
        row = f"struct({identifiers(self.latest)}, {POSITION})"
        is_row = f"{CHANGE}.op IN ('c', 'u', 'r')"
        return [
            f"first(CASE WHEN {is_row} THEN {row} END, true)\n    OVER from_here_back AS {LATEST}"
        ]

    def _windowed(self, columns: list[str], source: str, windows: list[str]) -> str:
        """A query of these columns, the first of which begins it, over windows of the
        changes of each key."""
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

    # --- the values that changes have not sent

    def _said(self) -> str:
        """What each change says of each column: a value, that it is gone with a delete,
        or that it stands elsewhere."""
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
        """What is known of a column from the change itself, if it makes the row, or
        else from those before it."""
        known = _known(name)
        return f"coalesce(if({CHANGE}.op = 'c', {known}, NULL), first({known}, true) OVER before_this)"

    def _unknown(self) -> str:
        """The columns of which no change of the batch has sent the value; '' among
        them: it is of no stored row."""
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
        """The key change by which the row came to its key, where a value stands under
        the former one."""
        pairs = ",\n    ".join(
            f"if({_is_unsent(name)}, {_known(name)}.pair, NULL)" for name in self.kept
        )
        return f"coalesce(\n    {pairs}\n  )"


def _is_unsent(name: str) -> str:
    return f"array_contains({UNSENT}, {text(name)})"


def _known(name: str) -> str:
    return f"{KNOWN}.{identifier(name)}"


def of_feed_column(name: str) -> str:
    """A column of the feed, or a field of `_change`, as SQL."""
    return name if name.startswith(f"{CHANGE}.") else identifier(name)
