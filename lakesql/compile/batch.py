"""A batch as the list of steps that it takes: `lakesql compile` prints them, and the engine runs them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from lakesql.compile.insert import insert_statement
from lakesql.compile.merge import BOUNDS_PLACE, KeyRange, bounds_text, inserts_only, merge_parts, newest_rows
from lakesql.compile.mirror import NOT_IN_FEED, current_rows, mirrored_rows, newest_changes
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.model.config import Append, Cdc, Upsert
from lakesql.names import BATCH_VIEW, DELETE, NEWEST_VIEW, ROWS_VIEW

COMMIT = "each batch: the commit"


@dataclass(frozen=True, slots=True)
class MakeView:
    """Give the rows of a query a name. `when` says for people when the step is taken."""

    when: str
    name: str
    query: str

    @property
    def text(self) -> str:
        """The statement that makes the view."""
        return f"CREATE OR REPLACE TEMPORARY VIEW {self.name} AS\n{self.query.strip()}"


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """Read the keys of the rows in a view: they bound what the write that follows reads of the table."""

    view: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """The one statement that changes the table, up to the place of the batch's bounds, and after it.

    `after` is None where the statement has no such place. `is_unchecked`: Iceberg does not check when it commits that
    the table is still as the statement has read it. `truncating` is what the statement of a batch with a truncate ends
    with, besides; it has no bounds.
    """

    when: str
    before: str
    after: str | None = None
    is_unchecked: bool = False
    truncating: str = ""

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The statement, with these bounds in their place; None leaves a mark there, as the compiled file has it."""
        if self.after is None:
            return self.before
        return f"{self.before}{BOUNDS_PLACE if bounds is None else bounds_text(bounds)}{self.after}"

    @property
    def truncating_text(self) -> str:
        """The statement of a batch with a truncate; '' where a truncate is nothing to the mode."""
        return f"{self.text(())}\n{self.truncating}" if self.truncating else ""


Step = MakeView | ReadBounds | Write


def newest_view(select: Select) -> MakeView:
    """The view of the newest changes of a feed that is mirrored. Its rows are made once."""
    newest = newest_changes(tuple(select.feed_keys.values()))
    return MakeView("each batch: the newest change of each key", NEWEST_VIEW, newest)


def current_view(select: Select, has_truncate: bool) -> MakeView:
    """The view, under the stream's name, of the rows that these changes leave."""
    (stream,) = select.query.streams_read
    when = f"each batch{' with a truncate' if has_truncate else ''}: the rows of the source that they leave"
    return MakeView(when, identifier(stream), current_rows(has_truncate))


def batch_steps(select: Select, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
    """The steps of each batch of a model: the view `_lakesql_rows` of what its SELECT makes first, one `Write` last.

    `columns` are those that land in the table; None where only Spark's analyzer knows them.
    """
    config, table = select.model.config, select.model.table
    when = "the streaming query" if select.query.stateful else "each batch: the rows that the SELECT makes of it"
    rows = MakeView(when, ROWS_VIEW, select.text)
    match config:
        case Append():
            return rows, Write(COMMIT, insert_statement(table, columns))
        case Upsert(keys=keys):
            newest = newest_rows(config, select.writing.is_positioned, columns or ())
            before, after = merge_parts(table, config, columns)
            return (
                rows,
                MakeView("each batch: the newest row of each key", BATCH_VIEW, newest),
                ReadBounds(BATCH_VIEW, keys),
                Write(COMMIT, before, after, columns is not None and inserts_only(config, columns)),
            )
        case Cdc(keys=keys):
            before, after = merge_parts(table, Upsert(keys=keys, delete_when=DELETE), columns)
            return (
                rows,
                MakeView("each batch: each key that has changed", BATCH_VIEW, mirrored_rows(select.feed_keys, columns)),
                ReadBounds(BATCH_VIEW, keys),
                Write(COMMIT, before, after, truncating=NOT_IN_FEED),
            )
        case _:
            assert_never(config)
