"""A batch as a list of steps, which `lakesql compile` prints and the engine runs.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakesql.compile.quote import Literal, column_of, literal, table_name
from lakesql.compile.select import Select
from lakesql.names import DELETE, DELETED_AT, Memory

BOUNDS_PLACE = "/* the batch's key range */ true"
"""The placeholder in the compiled MERGE for the literal predicate of each batch on the
target's keys."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one batch in one column: all of them (`values`), the smallest and the
    largest, or both. NULL is marked separately (`has_null`), and may be the only
    key."""

    column: str
    values: tuple[Literal, ...] = ()
    low: Literal | None = None
    high: Literal | None = None
    has_null: bool = False


def bounds_text(ranges: tuple[KeyRange, ...], alias: str = "target") -> str:
    """The literal predicate on the keys of a table; `true` if there are no ranges."""
    return "\n  AND ".join(_bound(bound, alias) for bound in ranges) or "true"


def _bound(bound: KeyRange, alias: str) -> str:
    column, tests = column_of(alias, bound.column), []
    if bound.low is not None and bound.high is not None:
        tests.append(f"{column} BETWEEN {literal(bound.low)} AND {literal(bound.high)}")
    if bound.values:
        tests.append(
            f"{column} IN ({', '.join(literal(value) for value in bound.values)})"
        )
    known = "\n  AND ".join(tests)
    if not bound.has_null:
        return known
    return f"({known} OR {column} IS NULL)" if known else f"{column} IS NULL"


COMMIT = "each batch: the commit"
NEW_COMMIT = "each batch of keys that no file of the table can have: the commit"

TIME_PLACE = "/* the truncate's time */ current_timestamp()"
"""The placeholder in the compiled MERGE for the time of the batch's newest truncate."""

POSITION_PLACE = "/* the truncate's position */ array()"
"""The placeholder in the compiled MERGE for the position of the batch's newest
truncate."""


@dataclass(frozen=True, slots=True)
class MakeView:
    """The step that creates a temporary view of a query. `when` describes for people
    when the step is taken.

    `stands_for` is the view that this one replaces in the statements that follow; '' if
    it replaces none.
    """

    when: str
    name: str
    query: str
    stands_for: str = ""

    @property
    def text(self) -> str:
        """The statement that creates the view."""
        return f"CREATE OR REPLACE TEMPORARY VIEW {self.name} AS\n{self.query.strip()}"


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The step that reads the range of the keys in a view: it bounds which files of the
    table the following write reads.

    In the columns of `margins_ms` the range is widened by so many milliseconds.
    """

    view: str
    keys: tuple[str, ...]
    margins_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckDeletes:
    """The step that fails the batch before it is written if the rows of a view that are
    deletes (`condition`) are more than the share `ratio` of the table."""

    view: str
    ratio: float
    condition: str = DELETE


@dataclass(frozen=True, slots=True)
class Bounded:
    """A query in parts, with a place for the bounds of the batch's keys between each
    two. The bounds at each place are on the table with the alias of the same index in
    `aliases`."""

    parts: tuple[str, ...]
    aliases: tuple[str, ...]

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The query with these bounds in their places; without them (None) with
        placeholders, as in the compiled file."""
        whole, *rest = self.parts
        for alias, part in zip(self.aliases, rest, strict=True):
            whole += (
                BOUNDS_PLACE if bounds is None else bounds_text(bounds, alias)
            ) + part
        return whole


@dataclass(frozen=True, slots=True)
class CheckRows:
    """The step that evaluates a mirror's expectations: the rows of `view` are computed
    once, each with the expectations that it fails; the batch fails before it is written
    if one of these has `on_fail: stop`.

    The computed rows are the view `name`, which the following steps read instead of
    `view`.
    """

    when: str
    view: str
    query: str
    name: str

    @property
    def text(self) -> str:
        """The statement that creates the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query).text


@dataclass(frozen=True, slots=True)
class TakeTombstones:
    """The step that adds the deletes of tombstones, which are records without a value.
    It is taken if the batch has any.

    `rows` creates the view `name` of the batch's rows and of one row for each
    tombstone; it is bounded by the keys of `_lakesql_tombstones`. `newest` creates the
    view of the newest row of each key among them.
    """

    when: str
    name: str
    rows: Bounded
    newest: MakeView
    keys: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement that creates the view of rows and tombstones, as the compiled
        file has it."""
        return MakeView(self.when, self.name, self.rows.text()).text


@dataclass(frozen=True, slots=True)
class KeepRows:
    """The step that computes a query over the target table once and names its rows, as
    the table changes later in the batch.

    `stands_for` is as in `MakeView`.
    """

    when: str
    name: str
    query: Bounded
    stands_for: str = ""

    @property
    def text(self) -> str:
        """The statement that creates the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query.text()).text


@dataclass(frozen=True, slots=True)
class FillUnsent:
    """The step that fills columns missing in change events with the table's values. It
    is taken if events of the batch have missing columns.

    The filled rows are the view `name`, which the following steps read instead of
    `view`. `known` is the condition of the rows that are written; of the other rows a
    missing value is nowhere to be found.
    """

    when: str
    view: str
    query: Bounded
    known: str
    name: str

    @property
    def text(self) -> str:
        """The statement that creates the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query.text()).text


@dataclass(frozen=True, slots=True)
class Remember:
    """The step that inserts the rows of a view with `condition` into the table of
    tombstones, if there are any.

    It is idempotent. `forget` is the statement that removes tombstones past their
    retention, whole days at a time.
    """

    when: str
    view: str
    condition: str
    text: str
    forget: str


@dataclass(frozen=True, slots=True)
class RememberMoves:
    """The step that stores the batch's key changes, as the batch may hold only a part
    of the transaction that made them.

    It is idempotent. `keys` is the query for the model's keys in the batch, which bound
    `statement`. `forget` is the statement that removes stored key changes past their
    retention, whole days at a time.
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
    """The newest truncate among the changes of a batch: its `position` in the log, and
    its time `at_us` in microseconds since the epoch, None unless the mode needs it."""

    position: tuple[int, ...] = ()
    at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """The one statement that changes the table.

    `truncating` is the text appended to the statement if the batch has a truncate; the
    statement then has no bounds. `new` is the statement for a batch whose keys no file
    of the table can have: it reads no row of the table. `only_adds`: no row of the
    table is updated or deleted. `compares`: which rows it adds or updates depends on
    the rows of the table. `skips_older`: rows of the batch are left out if the table
    has newer ones.
    """

    when: str
    statement: Bounded
    truncating: str = ""
    new: Bounded | None = None
    only_adds: bool = False
    compares: bool = True
    skips_older: bool = False

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The statement with these bounds in their places; without them (None) with
        placeholders, as in the compiled file."""
        return self.statement.text(bounds)

    def truncating_text(self, truncate: Truncate | None = None) -> str:
        """The statement of a batch with this truncate, or with placeholders if it is
        None; '' if the mode does nothing at a truncate."""
        end = self.truncating
        if truncate is not None:
            end = end.replace(POSITION_PLACE, position_text(truncate.position))
            at = (
                "current_timestamp()"
                if truncate.at_us is None
                else f"timestamp_micros({truncate.at_us}L)"
            )
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
    """A position in a database's log as an SQL literal."""
    return f"array({', '.join(f'{number}L' for number in position)})"


def forget(select: Select, kind: Memory) -> str:
    """The statement that removes what the batches have remembered for longer than the
    retention, whole days at a time."""
    seconds = select.writing.memories[kind].length_ms // 1000
    oldest = f"date_trunc('DAY', current_timestamp() - INTERVAL '{seconds}' SECOND)"
    return f"DELETE FROM {table_name(select.model.table.memory(kind))} WHERE {DELETED_AT} < {oldest}"
