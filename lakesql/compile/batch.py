"""A batch as the list of steps that it takes: `lakesql compile` prints them, and the engine runs them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakesql.compile.key_range import BOUNDS_PLACE, KeyRange, bounds_text
from lakesql.names import DELETE

COMMIT = "each batch: the commit"
NEW_COMMIT = "each batch of keys that no file of the table can have: the commit"

TIME_PLACE = "/* the truncate's time */ current_timestamp()"
"""What stands in the compiled MERGE for the time of the batch's newest truncate."""

POSITION_PLACE = "/* the truncate's position */ array()"
"""What stands in the compiled MERGE for the position of the batch's newest truncate."""


@dataclass(frozen=True, slots=True)
class MakeView:
    """Give the rows of a query a name. `when` says for people when the step is taken.

    `stands_for` is the view in whose place the statements that follow read these rows; '' where it has a place of its
    own.
    """

    when: str
    name: str
    query: str
    stands_for: str = ""

    @property
    def text(self) -> str:
        """The statement that makes the view."""
        return f"CREATE OR REPLACE TEMPORARY VIEW {self.name} AS\n{self.query.strip()}"


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """Read the keys of the rows in a view: they bound what the write that follows reads of the table.

    It also looks at rows that lie beyond them by some milliseconds, in the columns of `margins_ms`.
    """

    view: str
    keys: tuple[str, ...]
    margins_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckDeletes:
    """Stop before the batch is written if more of the rows in a view than this share of the table are deletes, as the
    condition says."""

    view: str
    ratio: float
    condition: str = DELETE


@dataclass(frozen=True, slots=True)
class Bounded:
    """A query, cut where the bounds of the batch's keys come: each time of another table, by these aliases."""

    parts: tuple[str, ...]
    aliases: tuple[str, ...]

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The query with these bounds in their places; None leaves a mark there, as the compiled file has it."""
        whole, *rest = self.parts
        for alias, part in zip(self.aliases, rest, strict=True):
            whole += (BOUNDS_PLACE if bounds is None else bounds_text(bounds, alias)) + part
        return whole


@dataclass(frozen=True, slots=True)
class CheckRows:
    """Make the rows of a view anew, once, each with what it fails, and stop before the batch is written if it must.

    They have a `name` of their own, and stand for those of the view.
    """

    when: str
    view: str
    query: str
    name: str

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query).text


@dataclass(frozen=True, slots=True)
class TakeTombstones:
    """Where records of the batch have no value: make the rows of a view anew, with these as rows that delete their key.

    `rows` has the name and the query of both, bounded by the keys of `_lakesql_tombstones`, and `newest` makes the view
    of them.
    """

    when: str
    name: str
    rows: Bounded
    newest: MakeView
    keys: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement that makes the view of both, as the compiled file has it."""
        return MakeView(self.when, self.name, self.rows.text()).text


@dataclass(frozen=True, slots=True)
class KeepRows:
    """Make the rows of a query that reads the table itself, once, and give them a name.

    `stands_for` is as in `MakeView`.
    """

    when: str
    name: str
    query: Bounded
    stands_for: str = ""

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query.text()).text


@dataclass(frozen=True, slots=True)
class FillUnsent:
    """Where changes of the batch have left out values: make the rows of a view anew, with those that the table has.

    `known` is the condition of the rows that are written. They have a `name` of their own, and stand for those of the
    view.
    """

    when: str
    view: str
    query: Bounded
    known: str
    name: str

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query.text()).text


@dataclass(frozen=True, slots=True)
class Remember:
    """Insert some rows of a view, those for which the condition holds, into the tombstones, if there are any.

    Done twice, it says the same. `forget` removes, whole days at a time, those whose time is over.
    """

    when: str
    view: str
    condition: str
    text: str
    forget: str


@dataclass(frozen=True, slots=True)
class RememberMoves:
    """Where a batch may have a part of a transaction that changes keys: remember its changes.

    Done twice, it says the same. `keys` makes of the batch the model's keys that bound it, and `forget` removes, whole
    days at a time, those whose time is over.
    """

    when: str
    statement: Bounded
    keys: str
    forget: str

    @property
    def text(self) -> str:
        """The statement, as the compiled file has it."""
        return self.statement.text()


@dataclass(frozen=True, slots=True)
class Truncate:
    """That there is a truncate among the changes of a batch.

    `position` is the newest one's, and `at_us` its time, in microseconds since the epoch, where the mode asks.
    """

    position: tuple[int, ...] = ()
    at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """The one statement that changes the table.

    `truncating` is what the statement of a batch with a truncate ends with, besides; it has no bounds. `new` does the
    same to a table that has no row of the batch's keys, and looks at no row of it. `only_adds`: no row of the table is
    changed or deleted. `compares`: which rows it adds or changes depends on those of the table. `skips_older`: rows of
    the batch are left out where the table has newer ones.
    """

    when: str
    statement: Bounded
    truncating: str = ""
    new: Bounded | None = None
    only_adds: bool = False
    compares: bool = True
    skips_older: bool = False

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The statement, with these bounds in their place; None leaves a mark there, as the compiled file has it."""
        return self.statement.text(bounds)

    def truncating_text(self, truncate: Truncate | None = None) -> str:
        """The statement of a batch with this truncate, or with a mark for it; '' where it is nothing to the mode."""
        end = self.truncating
        if truncate is not None:
            end = end.replace(POSITION_PLACE, position_text(truncate.position))
            at = "current_timestamp()" if truncate.at_us is None else f"timestamp_micros({truncate.at_us}L)"
            end = end.replace(TIME_PLACE, at)
        return f"{self.text(())}\n{end}" if end else ""


Step = (
    MakeView
    | CheckRows
    | CheckDeletes
    | ReadBounds
    | FillUnsent
    | TakeTombstones
    | KeepRows
    | Remember
    | RememberMoves
    | Write
)


def position_text(position: Sequence[int]) -> str:
    """A position in a database's log as a literal."""
    return f"array({', '.join(f'{number}L' for number in position)})"
