"""A batch as the list of steps that it takes: `lakesql compile` prints them, and the engine runs them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from lakesql.compile.insert import insert_statement
from lakesql.compile.merge import (
    BOUNDS_PLACE,
    KeyRange,
    bounds_text,
    inserts_only,
    merge_parts,
    newest_rows,
    remember_statement,
)
from lakesql.compile.mirror import (
    POSITION_PLACE,
    changed_keys,
    current_rows,
    mirrored_rows,
    newest_changes,
    not_in_feed,
    position_text,
    truncates,
)
from lakesql.compile.quote import Instant, identifier, literal, table_name
from lakesql.compile.select import Select
from lakesql.model.config import Append, Cdc, Upsert
from lakesql.model.table_name import TableName
from lakesql.names import BATCH_VIEW, CHANGED_VIEW, DELETE, DELETED_AT, NEWEST_VIEW, ROWS_VIEW

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
class Remember:
    """Insert the keys that a batch deletes, if it does, into the tombstones: they are those of the rows of a view with
    `_lakesql_delete`. Done twice, it says the same."""

    when: str
    view: str
    text: str


@dataclass(frozen=True, slots=True)
class Truncate:
    """That there is a truncate among the changes of a batch. `position` is the newest one's, where the mode asks."""

    position: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """The one statement that changes the table, cut where the bounds of the batch's keys come, if they do.

    The last bounds are those of the target, the ones before it those of the tombstones. `is_unchecked`: Iceberg does
    not check when it commits that the table is still as the statement has read it. `truncating` is what the statement
    of a batch with a truncate ends with, besides; it has no bounds.
    """

    when: str
    parts: tuple[str, ...]
    is_unchecked: bool = False
    truncating: str = ""

    def text(self, bounds: tuple[KeyRange, ...] | None = None) -> str:
        """The statement, with these bounds in their place; None leaves a mark there, as the compiled file has it."""
        whole, *rest = self.parts
        for alias, part in zip(("deleted", "target")[-len(rest) :], rest, strict=False):
            whole += (BOUNDS_PLACE if bounds is None else bounds_text(bounds, alias)) + part
        return whole

    def truncating_text(self, truncate: Truncate | None = None) -> str:
        """The statement of a batch with this truncate, or with a mark for it; '' where it is nothing to the mode."""
        end = self.truncating
        if truncate is not None:
            end = end.replace(POSITION_PLACE, position_text(truncate.position))
        return f"{self.text(())}\n{end}" if end else ""


Step = MakeView | ReadBounds | Remember | Write


def newest_view(select: Select) -> MakeView:
    """The view of the newest changes of a feed that is mirrored. Its rows are made once."""
    newest = newest_changes(tuple(select.feed_keys.values()), tuple(select.sequence.values()))
    return MakeView("each batch: the newest change of each key", NEWEST_VIEW, newest)


def changed_view(select: Select, has_truncate: bool) -> MakeView:
    """The view of the keys that these changes are of."""
    keys = changed_keys(has_truncate, select.has_sequenced_truncates)
    which = " with a truncate" if has_truncate else ""
    return MakeView(f"each batch{which}: the keys that have changed", CHANGED_VIEW, keys)


def current_view(select: Select) -> MakeView:
    """The view, under the stream's name, of the rows that these changes leave."""
    (stream,) = select.query.streams_read
    return MakeView("each batch: the rows of the source that they leave", identifier(stream), current_rows())


def batch_steps(select: Select, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
    """The steps of each batch of a model: the view `_lakesql_rows` of what its SELECT makes first, one `Write` last.

    `columns` are those that land in the table; None where only Spark's analyzer knows them.
    """
    config, table = select.model.config, select.model.table
    when = "the streaming query" if select.query.stateful else "each batch: the rows that the SELECT makes of it"
    rows = MakeView(when, ROWS_VIEW, select.text)
    match config:
        case Append():
            return rows, Write(COMMIT, (insert_statement(table, columns),))
        case Upsert(keys=keys):
            newest = newest_rows(config, select.writing.is_positioned, columns or ())
            remembers = select.writing.retention is not None
            merge = merge_parts(table, config, columns, remembers)
            return (
                rows,
                MakeView("each batch: the newest row of each key", BATCH_VIEW, newest),
                ReadBounds(BATCH_VIEW, keys),
                *((_remember(remember_statement(table, config)),) if remembers else ()),
                Write(COMMIT, merge, columns is not None and inserts_only(config, columns)),
            )
        case Cdc(keys=keys):
            sequence, empties = select.sequence, select.has_sequenced_truncates
            merged = Upsert(keys=keys, sequence_by=tuple(sequence), delete_when=DELETE)
            position = next(iter(sequence)) if empties else ""
            of_truncates = truncates(keys) if empties else ""
            return (
                rows,
                MakeView(
                    "each batch: each key that has changed",
                    BATCH_VIEW,
                    mirrored_rows(select.feed_keys, sequence, columns),
                ),
                ReadBounds(BATCH_VIEW, keys),
                *((_remember(remember_statement(table, merged, of_truncates)),) if sequence else ()),
                Write(
                    COMMIT,
                    merge_parts(table, merged, columns, bool(sequence), empties),
                    truncating=not_in_feed(position),
                ),
            )
        case _:
            assert_never(config)


def _remember(statement: str) -> Remember:
    return Remember("each batch that deletes: what it deletes is remembered", BATCH_VIEW, statement)


def forget_statement(table: TableName, before: Instant) -> str:
    """Delete the tombstones of the days before one: whole files, as they lie by day."""
    return f"DELETE FROM {table_name(table.tombstones)} WHERE {DELETED_AT} < {literal(before)}"
