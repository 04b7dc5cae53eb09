"""What a batch does before its write: it makes views, remembers keys for later batches,
and reads the keys that bound the write."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame

from lakesql.compile.batch import (
    CheckDeletes,
    CheckRows,
    FillUnsent,
    KeepRows,
    KeyRange,
    MakeView,
    ReadBounds,
    Remember,
    RememberMoves,
    Step,
    TakeTombstones,
    Write,
)
from lakesql.engine.batch.bounds import (
    bounds_of_write,
    bounds_pay,
    has_few,
    joins_few,
    may_match,
    read_keys,
)
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.refuse import (
    check_deletes,
    check_expectations,
    check_source_table,
)
from lakesql.engine.batch.rows import BatchRows
from lakesql.engine.batch.sink import Sink
from lakesql.engine.ledger import snapshots
from lakesql.engine.sources.parsed import deleted_keys
from lakesql.engine.spark.few_rows import (
    NOT_ADAPTIVE,
    PLANNED_ONCE,
    changed_settings,
    make_rows,
    settings_of_few,
)
from lakesql.engine.spark.internals import replace_view
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import BATCH_VIEW, TOMBSTONES_VIEW, UNKNOWN


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """The statement that writes the rows, and Spark's `settings` for it. It may be run
    again.

    `remembered` is how many rows the batch has put into the tombstones, `unknown` are
    the rows with a missing value that is nowhere to be found. `is_of_table`: what is
    written depends on the table's rows, or on their absence, and must be prepared again
    if these have changed. `only_adds` and `compares` are those of `Write`.
    """

    statement: str
    settings: Mapping[str, str]
    counters: BatchCounters
    remembered: int
    unknown: DataFrame | None
    is_of_table: bool
    only_adds: bool
    compares: bool


def prepare_write(
    sink: Sink, table: snapshots.JavaTable, rows: BatchRows, stack: ExitStack
) -> PreparedWrite | None:
    """Take the steps before the write, and return it; None if there is no row to
    write."""
    write = rows.steps[-1]
    assert isinstance(write, Write), "the last step of a batch is its write"
    session = rows.frame.sparkSession
    of_few = settings_of_few(session) if rows.are_few else {}
    preparation = _Preparation(sink, table, rows, write, stack, of_few)
    with changed_settings(session, of_few):
        for step in rows.steps[:-1]:
            preparation.take(step)
            if preparation.is_empty:
                return None
        return preparation.finish()


class _Preparation:
    """The state of a batch between its steps.

    `frames` are the views that exist. `bounds` are those of the batch's keys, if they
    were read (`is_bounded`); without any, all of the table is read. `is_counted`: the
    rows have been computed. `is_empty`: there are none.
    """

    def __init__(
        self,
        sink: Sink,
        table: snapshots.JavaTable,
        rows: BatchRows,
        write: Write,
        stack: ExitStack,
        of_few: Mapping[str, str],
    ) -> None:
        self.is_empty = False
        self._sink, self._select, self._session = (
            sink,
            sink.select,
            rows.frame.sparkSession,
        )
        self._table, self._rows, self._write, self._stack = table, rows, write, stack
        self._remembered, self._of_few = 0, of_few
        self._frames = {
            view.name: rows.frame for view in batches_of(sink.select).made_views()
        }
        self._made: dict[str, DataFrame] = {}
        self._bounds: tuple[KeyRange, ...] = ()
        self._unknown: DataFrame | None = None
        self._is_counted, self._is_bounded, self._is_of_table = (
            rows.is_counted,
            False,
            False,
        )
        self._is_first = write.new is not None and snapshots.is_empty(table)

    def take(self, step: Step) -> None:
        """Take a step before the write."""
        match step:
            case MakeView(name=name, query=query):
                if name not in self._frames:
                    self._make_view(name, self._session.sql(query))
            case CheckDeletes():
                self._check_deletes(step)
            case RememberMoves():
                self._remember_moves(step)
            case ReadBounds():
                self._read_bounds(step)
            case FillUnsent():
                self._fill_unsent(step)
            case CheckRows():
                self._check_rows(step)
            case TakeTombstones():
                self._take_tombstones(step)
            case KeepRows(name=name, query=query):
                self._make_view(name, self._make_rows(query.text(self._bounds)))
                self._is_of_table = True
            case Remember():
                self._remember(step)
            case Write():
                raise AssertionError("a batch has one write, at its end")
            case _:
                assert_never(step)

    def finish(self) -> PreparedWrite:
        """The write, after all steps before it."""
        write, truncate = self._write, self._rows.feed.truncate
        has_none = self._is_first or (
            write.new is not None
            and not truncate
            and not may_match(self._table, self._bounds)
        )
        if has_none and write.new is not None:
            statement = write.new.text(self._bounds)
        elif truncate:
            statement = write.truncating_text(truncate)
        else:
            statement = write.text(self._write_bounds())
        return PreparedWrite(
            statement=statement,
            settings=self._settings(has_none),
            counters=self._rows.counters,
            remembered=self._remembered,
            unknown=self._unknown,
            is_of_table=has_none or self._is_of_table or self._unknown is not None,
            only_adds=write.only_adds,
            compares=write.compares,
        )

    def _settings(self, inserts: bool) -> dict[str, str]:
        """Spark's settings for the write. `inserts`: the table has none of its keys."""
        is_changing = not self._write.only_adds
        is_small = (
            self._rows.is_small
            and not self._rows.feed.truncate
            and self._is_still_small()
        )
        is_joining_few = bool(self._select.writing.keys) and joins_few(
            self._table,
            self._bounds,
            batches_of(self._select).unique_by,
            # the number of remembered deletes is unknown
            is_small=is_small and not self._select.writing.memories,
        )
        settings = snapshots.distribution(
            self._table,
            is_changing,
            inserts,
            gathers=is_small and not is_joining_few and is_changing,
            is_together=is_small and (is_joining_few or self._is_plain(inserts)),
        )
        if not is_joining_few:
            return settings
        return {
            **settings,
            **PLANNED_ONCE,
            **(self._of_few if has_few(self._table) else {}),
        }

    def _is_plain(self, inserts: bool) -> bool:
        """Whether the rows are computed in the tasks that read their records, and
        joined with nothing."""
        query, writing = self._select.query, self._select.writing
        is_one = (
            len(query.streams_read) == 1
            and not query.reads_tables
            and not query.multiplies
        )
        return is_one and not writing.memories and (inserts or not writing.keys)

    def _is_still_small(self) -> bool:
        """Whether the SELECT has not made many rows of few records, as far as they have
        been counted."""
        return not self._is_counted or self._rows.counters.read().are_of_one_task

    def _write_bounds(self) -> tuple[KeyRange, ...]:
        """The bounds of the write; for one that changes rows, those of
        `bounds_of_write`."""
        return (
            self._bounds
            if self._write.only_adds
            else bounds_of_write(self._table, self._bounds)
        )

    def _check_deletes(self, step: CheckDeletes) -> None:
        if not self._is_first:  # there is nothing to delete then
            deletes = self._keep(step.view).where(step.condition)
            check_deletes(
                self._select,
                step.ratio,
                deletes,
                self._table,
                truncates=self._rows.feed.truncate is not None,
            )

    def _remember_moves(self, step: RememberMoves) -> None:
        if self._rows.feed.is_cut:
            found = read_keys(self._session.sql(step.keys), self._select.writing.keys)
            self._sink.moves.remember(
                self._session, self._select, self._sink.table, step, found or ()
            )

    def _read_bounds(self, step: ReadBounds) -> None:
        stateful = self._select.query.stateful
        if self._rows.feed.truncate or (self._is_first and not stateful):
            return  # all of the table is looked at, or nothing
        # Each statement that reads the rows computes them again, unless they are kept.
        # A stateful SELECT must run once only, because of its state.
        if not (
            stateful
            or bounds_pay(snapshots.read_history(self._table), self._sink.model.name)
        ):
            return
        kept = self._keep(step.view)
        # before the rows are read again: if Spark drops them, they are counted twice
        counts = self._rows.counters.read()
        found = read_keys(kept, step.keys, step.margins_ms)
        self._is_counted = self._is_bounded = True
        self.is_empty = found is None and not counts.tombstones
        self._bounds = found or ()

    def _fill_unsent(self, step: FillUnsent) -> None:
        if self._rows.counters.read().unsent:
            filled = self._make_rows(step.query.text(self._bounds))
            self._unknown = filled.where(UNKNOWN)
            known = filled.where(step.known).drop(UNKNOWN)
            replace_view(known, step.name)
            self._make_view(step.view, known)

    def _check_rows(self, step: CheckRows) -> None:
        counters = self._rows.counters
        checked = counters.checked(self._session.sql(step.query), self._select.checks)
        rows = checked.localCheckpoint()
        replace_view(rows, step.name)
        self._make_view(step.view, rows)
        check_expectations(self._select, counters.read(), self._frames[step.view])

    def _take_tombstones(self, step: TakeTombstones) -> None:
        if not self._is_counted:
            self._keep(step.newest.name)
            self._is_counted = True
        if not self._rows.counters.read().tombstones:
            return
        deleted = deleted_keys(
            self._rows.records[0], self._select.feed_keys
        ).localCheckpoint()
        replace_view(deleted, TOMBSTONES_VIEW)
        rows = self._session.sql(step.rows.text(read_keys(deleted, step.keys) or ()))
        replace_view(rows, step.name)
        self._make_view(step.newest.name, self._session.sql(step.newest.query))
        self._bounds = (
            read_keys(self._keep(step.newest.name), step.keys) or ()
            if self._is_bounded
            else ()
        )
        self._is_of_table = self._is_of_table or len(step.rows.parts) > 1

    def _remember(self, step: Remember) -> None:
        if (
            self._rows.feed.truncate
            or not self._keep(step.view).where(step.condition).isEmpty()
        ):
            check_source_table(self._sink, self._table, self._rows)
            self._remembered = self._sink.tombstones.remember(
                self._session, self._select, step
            )

    def _make_rows(self, query: str) -> DataFrame:
        return make_rows(self._session.sql(query), are_few=self._rows.are_few)

    def _make_view(self, name: str, frame: DataFrame) -> None:
        if name == BATCH_VIEW and self._write.skips_older:
            frame = self._rows.counters.touched(frame)
        self._frames[name] = frame
        replace_view(frame, name)

    def _keep(self, view: str) -> DataFrame:
        """The rows of a view, all computed now, and cached until the batch ends.

        The view of few rows is replaced by the computed ones; more rows are cached, and
        Spark uses the cache in every plan that has them.
        """
        frame = self._frames[view]
        if self._rows.are_few:
            if self._made.get(view) is not frame:
                self._made[view] = self._frames[view] = make_rows(frame, are_few=True)
                replace_view(self._made[view], view)
            return self._made[view]
        if not frame.is_cached:
            frame.persist()
            self._stack.callback(frame.unpersist)
            make_once(frame)
        return frame


def make_once(kept: DataFrame) -> None:
    """Compute the rows of a cached frame in one job, so that what is counted on the way
    is counted once.

    An adaptive plan computes them in one job, and reads them in the next. If between
    the two another model's session replaces a view with a name that their plan has,
    Spark drops them, and they are computed and counted a second time.
    """
    with changed_settings(kept.sparkSession, NOT_ADAPTIVE):
        kept.count()
