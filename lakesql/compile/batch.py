"""A batch as the list of steps that it takes: `lakesql compile` prints them, and the engine runs them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, assert_never

from lakesql.compile.checks import checked_rows, is_dead, kept_rows
from lakesql.compile.feed_tombstones import closing_tombstones, without_followers
from lakesql.compile.history import History
from lakesql.compile.insert import insert_first_parts, insert_statement, keyed_rows
from lakesql.compile.log_positions import not_replaced, placed_behind
from lakesql.compile.merge import (
    BOUNDS_PLACE,
    NEVER,
    KeyRange,
    bounds_text,
    insert_parts,
    merge_parts,
    newest_rows,
    remember_statement,
    tombstoned_rows,
)
from lakesql.compile.mirror import (
    POSITION_PLACE,
    TIME_PLACE,
    changed_keys,
    current_rows,
    filled_rows,
    mirrored_rows,
    newest_changes,
    newest_known,
    not_in_feed,
    position_text,
    truncates,
)
from lakesql.compile.moves import cut_moves, moved_on, remember_moves, told_apart
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.select import Select
from lakesql.model.config import Append, Cdc, Scd2, Upsert
from lakesql.names import (
    BATCH_VIEW,
    CHANGE,
    CHANGED_VIEW,
    CHANGES_VIEW,
    CHECKED_VIEW,
    CUT_VIEW,
    DELETE,
    DELETED_AT,
    HISTORY_VIEW,
    MADE_VIEW,
    MARKED_AT,
    NEWEST_VIEW,
    ONLY_MARKS,
    RAW,
    REMEMBERED,
    ROWS_VIEW,
    STORED,
    TOMBSTONED_VIEW,
    UNKNOWN,
    Memory,
)

COMMIT = "each batch: the commit"
NEW_COMMIT = "each batch of keys that no file of the table can have: the commit"
UNSENT_WHEN = "each batch with updates that have not sent all values"
MOVES_WHEN = "each batch with changes of keys"


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
    """Make the rows of a view anew, once, each with what it fails, and stop before the batch is written if it must."""

    when: str
    view: str
    query: str

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.view, self.query).text


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
    """Make the rows of a query that reads the table itself, once, and give them a name."""

    when: str
    name: str
    query: Bounded

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.name, self.query.text()).text


@dataclass(frozen=True, slots=True)
class FillUnsent:
    """Where changes of the batch have left out values: make the rows of a view anew, with those that the table has.

    `known` is the condition of the rows that are written.
    """

    when: str
    view: str
    query: Bounded
    known: str

    @property
    def text(self) -> str:
        """The statement that makes the view, as the compiled file has it."""
        return MakeView(self.when, self.view, self.query.text()).text


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
    same to a table that has no row of the batch's keys, and looks at no row of it.
    """

    when: str
    statement: Bounded
    truncating: str = ""
    new: Bounded | None = None

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


def newest_view(select: Select) -> MakeView:
    """The view of the newest changes of a feed that is mirrored. Its rows are made once."""
    keys, sequence = tuple(select.feed_keys.values()), select.order
    if select.writing.is_history:
        return MakeView("each batch: its changes, each once", NEWEST_VIEW, newest_changes((*keys, *sequence), ()))
    newest = newest_changes(keys, sequence, select.has_moves, _latest(select), tuple(select.kept))
    return MakeView("each batch: the newest change of each key", NEWEST_VIEW, newest)


def placed_view(select: Select) -> MakeView | None:
    """The view of the changes where a snapshot has read some of the rows; None where the place in the log is nothing to
    the order."""
    if not select.orders_reads:
        return None
    keys, when = tuple(select.feed_keys.values()), "each batch of changes and a snapshot's rows"
    if not select.writing.is_history:
        return MakeView(f"{when}: without what these replace", CHANGES_VIEW, not_replaced(keys))
    placed = placed_behind(keys, select.change_columns)
    return MakeView(f"{when}: these behind what they follow", CHANGES_VIEW, placed)


def lone_tombstones_view(select: Select) -> MakeView | None:
    """The view of the changes of a feed without the tombstones that delete nothing; None where a column of the feed
    orders them, which no tombstone has."""
    if not all(word.startswith(f"{CHANGE}.") for word in select.sequence.values()):
        return None
    when = "each batch with tombstones of the feed: without those that follow a delete of their key"
    return MakeView(when, CHANGES_VIEW, without_followers(tuple(select.feed_keys.values())))


def closing_view(select: Select) -> KeepRows | None:
    """The view of the changes where tombstones are placed in a history; None where they need no place in the log."""
    if not (select.writing.is_history and select.is_placed):
        return None
    (place,) = select.sequence
    query = closing_tombstones(select.model.table, select.feed_keys, place, select.change_columns)
    when = "each batch with tombstones of the feed that stand alone: behind what their key has had"
    return KeepRows(when, CHANGES_VIEW, Bounded(query, ("stored", "deleted")))


def tombstone_keys_query(select: Select) -> str:
    """The keys of the tombstones among the changes, by the model's names for them."""
    named = ", ".join(f"{identifier(column)} AS {identifier(key)}" for key, column in select.feed_keys.items())
    return f"SELECT {named} FROM {CHANGES_VIEW} WHERE {RAW}.value IS NULL"


def told_apart_view(select: Select) -> MakeView | None:
    """The view of the changes where rows have changed their keys; None where that is nothing to the mode."""
    if not select.has_moves:
        return None
    keys = tuple(select.feed_keys.values())
    (stream,) = select.streams.values()
    has_keys_alone = len(stream.columns) == len(keys)
    query = told_apart(keys, select.change_columns, has_keys_alone, "_change.position" in select.order)
    return MakeView(f"{MOVES_WHEN}: without those of rows that have lost the key again", CHANGES_VIEW, query)


def cut_view(select: Select) -> MakeView:
    """The view of the changes of keys that later batches may need."""
    query = cut_moves(tuple(select.feed_keys.values()))
    return MakeView(f"{MOVES_WHEN}: those of transactions of which a later one may have a part", CUT_VIEW, query)


def moved_on_view(select: Select) -> MakeView | None:
    """The view of the newest changes, with values that stand under former keys; None where the model keeps none.

    It is made anew until no row has a `_lakesql_pair`.
    """
    columns = (column.name for stream in select.streams.values() for column in stream.columns)
    keys = tuple(column for column in columns if column in select.feed_keys.values())
    query = moved_on(keys, tuple(select.kept))
    when = f"{MOVES_WHEN} that have not sent all values, once for each in a row of them: those of the former key"
    return MakeView(when, NEWEST_VIEW, query) if select.kept else None


def newest_known_view(select: Select) -> MakeView | None:
    """The same view where changes of the batch have left out values; None where the model keeps none."""
    keys, sequence, kept = tuple(select.feed_keys.values()), select.order, tuple(select.kept)
    when = f"{UNSENT_WHEN}: the newest change of each key, with what earlier ones have sent"
    return MakeView(when, NEWEST_VIEW, newest_known(keys, sequence, kept, _latest(select))) if kept else None


def changed_view(select: Select, has_truncate: bool) -> MakeView:
    """The view of the keys that these changes are of."""
    marks = select.writing.marks_deletes
    keys = changed_keys(has_truncate, select.is_placed, bool(select.kept), marks)
    which = " with a truncate" if has_truncate else ""
    return MakeView(f"each batch{which}: the keys that have changed", CHANGED_VIEW, keys)


def current_view(select: Select, with_deleted: bool = True) -> MakeView:
    """The view, under the stream's name, of the rows that these changes leave; `with_deleted`, where the mode marks
    them, those that were deleted too."""
    (stream,) = select.query.streams_read
    which = ", and those that they delete" if select.writing.marks_deletes else ""
    query = current_rows(_latest(select), tuple(select.kept), with_deleted)
    return MakeView(f"each batch: the rows of the source that they leave{which}", identifier(stream), query)


def _latest(select: Select) -> tuple[str, ...]:
    """The columns of a feed whose deleted rows are kept."""
    (stream,) = select.query.streams_read
    return select.streams[stream].column_names if select.writing.marks_deletes else ()


def batch_steps(select: Select, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
    """The steps of each batch of a model: the view `_lakesql_rows` of what its SELECT makes first, one `Write` last.

    `columns` are those that land in the table; None where only Spark's analyzer knows them.
    """
    config, table = select.model.config, select.model.table
    rows = made_views(select)
    match config:
        case Append(keys=keys, within=within) if keys:
            margins = {config.time_column: within.length_ms} if within else {}
            return (
                *rows,
                MakeView(
                    f"each batch: {'its rows, numbered' if within else 'the first row of each key'}",
                    BATCH_VIEW,
                    keyed_rows(config, select.writing.is_positioned),
                ),
                ReadBounds(BATCH_VIEW, (*keys, *margins), margins),
                Write(COMMIT, Bounded(insert_first_parts(table, config, columns), ("target",))),
            )
        case Append():
            return *rows, Write(COMMIT, Bounded((insert_statement(table, columns),), ()))
        case Upsert(keys=keys):
            takes_tombstones = select.writing.takes_tombstones
            config = replace(config, delete_when=config.delete_when or (NEVER if takes_tombstones else ""))
            newest = newest_rows(config, select.writing.is_positioned, columns or ())
            remembers = select.writing.retention is not None
            aliases = ("deleted", "target") if remembers else ("target",)
            merge = Bounded(merge_parts(table, config, columns, remembers), aliases)
            return (
                *rows,
                MakeView("each batch: the newest row of each key", BATCH_VIEW, newest),
                ReadBounds(BATCH_VIEW, keys),
                *((_take_tombstones(select, config, columns or ()),) if takes_tombstones else ()),
                *_check_deletes(select),
                *((_remember(select, remember_statement(table, config)),) if remembers else ()),
                Write(
                    COMMIT,
                    merge,
                    new=Bounded(insert_parts(table, config, columns, remembers), aliases[:-1]),
                ),
            )
        case Cdc(keys=keys):
            sequence, is_placed = select.sequence, select.is_placed
            merged = Upsert(keys=keys, sequence_by=tuple(sequence), delete_when=DELETE)
            position = next(iter(sequence)) if is_placed else ""
            of_truncates = truncates(keys) if is_placed else ""
            marks = select.writing.marks_deletes
            condition = f"{DELETE} OR {MARKED_AT} IS NOT NULL" if marks else DELETE
            landing = (*columns, MARKED_AT) if marks and columns is not None else columns
            return (
                *rows,
                MakeView(
                    "each batch: each key that has changed",
                    BATCH_VIEW,
                    mirrored_rows(select.feed_keys, sequence, columns, bool(select.kept), marks),
                ),
                *_check_deletes(select, condition),
                *((_remember_moves(select, columns),) if select.has_moves else ()),
                ReadBounds(BATCH_VIEW, keys),
                *_fill_unsent(select, columns),
                *_check_rows(select, condition),
                *(
                    (_remember(select, remember_statement(table, merged, of_truncates, condition), condition),)
                    if sequence
                    else ()
                ),
                Write(
                    COMMIT,
                    Bounded(
                        merge_parts(table, merged, landing, bool(sequence), marks, is_placed),
                        ("deleted", "target") if sequence else ("target",),
                    ),
                    truncating=not_in_feed(position, marks),
                    new=Bounded(
                        insert_parts(table, merged, landing, bool(sequence), marks, is_placed),
                        ("deleted",) if sequence else (),
                    ),
                ),
            )
        case Scd2(keys=keys):
            sequence = select.sequence or {name: name for name in config.sequence_by}
            if select.writing.is_mirror:
                batch = mirrored_rows({**select.feed_keys, **sequence}, {}, columns)
            else:
                batch = newest_rows(Upsert(keys=(*keys, *sequence)), select.writing.is_positioned)
            history = History(table, config, tuple(sequence), columns or (), select.is_placed)
            return (
                *rows,
                MakeView("each batch: its changes, and what the SELECT makes of them", BATCH_VIEW, batch),
                ReadBounds(BATCH_VIEW, keys),
                *_check_rows(select, DELETE),
                KeepRows(
                    "each batch: all changes of its keys",
                    HISTORY_VIEW,
                    Bounded(history.changes(select.writing.is_mirror), (STORED, REMEMBERED)),
                ),
                Remember(
                    "each batch: changes that make no version are remembered",
                    HISTORY_VIEW,
                    history.is_forgotten,
                    history.remember,
                    _forget(select, "tombstones"),
                ),
                Write(COMMIT, Bounded(history.merge, ("target",))),
            )
        case _:
            assert_never(config)


def made_views(select: Select) -> tuple[MakeView, ...]:
    """The views of what the SELECT makes, `_lakesql_rows` last; of a mirror, rows are checked as they are to be
    written."""
    when = "the streaming query" if select.query.stateful else "each batch: the rows that the SELECT makes of it"
    if not select.checks or select.writing.is_mirror:
        return (MakeView(when, ROWS_VIEW, select.text),)
    sets_aside = bool(is_dead(select.checks))
    return (
        MakeView(when, MADE_VIEW, select.text),
        MakeView("each batch: its rows, each with what it fails", CHECKED_VIEW, checked_rows(select.checks)),
        MakeView(
            f"each batch: its rows{', without those whose records are dead letters' if sets_aside else ''}",
            ROWS_VIEW,
            kept_rows(select.checks, is_placed=select.writing.is_positioned and not select.writing.keys),
        ),
    )


def _check_rows(select: Select, deleted: str) -> tuple[CheckRows, ...]:
    """The rows of a mirror's batch that are not deleted, checked."""
    if not (select.checks and select.writing.is_mirror):
        return ()
    query = checked_rows(select.checks, BATCH_VIEW, f"NOT ({deleted})")
    return (CheckRows("each batch: its rows, each with what it fails", BATCH_VIEW, query),)


def named_steps(select: Select, conditions: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps of each batch, in which these texts stand for the configuration's conditions, by their options, and
    nothing is expected of rows.

    A condition is the author's SQL; without it, all of a step's text is lakesql's own.
    """
    config = select.model.config
    has = {each.name for each in fields(config)}
    texts: dict[str, Any] = {name: conditions.get(name, "") for name in CONDITIONS if name in has}
    model = replace(select.model, config=replace(config, **texts))
    return batch_steps(replace(select, model=model, checks=()), select.columns)


CONDITIONS = ("delete_when", "when_matched")
"""The options of models that are conditions on rows."""


def _fill_unsent(select: Select, columns: tuple[str, ...] | None) -> tuple[FillUnsent, ...]:
    kept = {name: landed for name, landed in _landed(select, columns).items() if landed}
    if not kept:
        return ()
    marks = select.writing.marks_deletes
    filled = Bounded(filled_rows(select.model.table, select.feed_keys, kept, marks), ("stored",))
    known = f"NOT {UNKNOWN} OR {ONLY_MARKS}" if marks else f"NOT {UNKNOWN}"
    return (FillUnsent(f"{UNSENT_WHEN}: those from the table", BATCH_VIEW, filled, known),)


def _landed(select: Select, columns: tuple[str, ...] | None) -> dict[str, tuple[str, ...]]:
    """The columns of the feed whose values the table keeps, with those of its columns that have them."""
    landing = {column.lower() for column in columns or ()}
    return {
        name: tuple(output for output in outputs if columns is None or output.lower() in landing)
        for name, outputs in select.kept.items()
    }


def _remember_moves(select: Select, columns: tuple[str, ...] | None) -> RememberMoves:
    table, keys = select.model.table, select.feed_keys
    statement = remember_moves(table, keys, _landed(select, columns), select.writing.marks_deletes)
    named = ", ".join(f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items())
    return RememberMoves(
        f"{MOVES_WHEN} of which a later one may have a part: they are remembered",
        Bounded(statement, ("stored",)),
        f"SELECT {named} FROM {CUT_VIEW} UNION SELECT {named} FROM {NEWEST_VIEW} WHERE {CHANGE}.op <> 't'",
        _forget(select, "moves"),
    )


def _take_tombstones(select: Select, config: Upsert, columns: tuple[str, ...]) -> TakeTombstones:
    when, sequenced = "each batch with tombstones", bool(config.sequence_by)
    rows = tombstoned_rows(select.model.table, config, select.columns or ())
    newest = newest_rows(config, select.writing.is_positioned, columns, has_tombstones=True)
    return TakeTombstones(
        f"{when}: its rows and these{', in the sequence of what they delete' if sequenced else ''}",
        TOMBSTONED_VIEW,
        Bounded(rows, (STORED, REMEMBERED) if sequenced else ()),
        MakeView(f"{when}: the newest row of each key", BATCH_VIEW, newest),
        config.keys,
    )


def _check_deletes(select: Select, condition: str = DELETE) -> tuple[CheckDeletes, ...]:
    ratio = select.writing.max_delete_ratio
    return (CheckDeletes(BATCH_VIEW, ratio, condition),) if ratio < 1 else ()


def _remember(select: Select, statement: str, condition: str = DELETE) -> Remember:
    when = "each batch that deletes: what it deletes is remembered"
    return Remember(when, BATCH_VIEW, condition, statement, _forget(select, "tombstones"))


def _forget(select: Select, kind: Memory) -> str:
    seconds = select.writing.memories[kind].length_ms // 1000
    oldest = f"date_trunc('DAY', current_timestamp() - INTERVAL '{seconds}' SECOND)"
    return f"DELETE FROM {table_name(select.model.table.memory(kind))} WHERE {DELETED_AT} < {oldest}"
