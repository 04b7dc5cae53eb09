"""How one micro-batch becomes, exactly once, a commit that readers see."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.batch.batch_events import (
    BatchOutcome,
    batch_committed,
    batch_empty,
    batch_skipped,
    batch_started,
)
from lakesql.engine.batch.batch_files import check_files, open_files
from lakesql.engine.batch.counters import BatchCounts, ReplacedText, count_rescued_in
from lakesql.engine.batch.dead_letter import DeadLetters, union_letters, unknown_rows
from lakesql.engine.batch.letters import take_letters
from lakesql.engine.batch.prepare import PreparedWrite, prepare_write
from lakesql.engine.batch.refuse import (
    check_batch,
    check_expectations,
    check_log,
    check_source_table,
    keep_unknown,
)
from lakesql.engine.batch.rows import (
    BatchRows,
    BatchSize,
    bad_records,
    find_letters,
    gather,
    open_rows,
)
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.unreadable_files import unreadable_letters
from lakesql.engine.batch.watermark import (
    Arrivals,
    raw_records_read,
    watermark_letters,
)
from lakesql.engine.batch.write_letters import write_dead_letters
from lakesql.engine.ledger import snapshots
from lakesql.engine.ledger.commit import (
    PUBLISH_TRIES,
    Begun,
    HeadMovedError,
    Publication,
    Staged,
    begin_commit,
    conflict,
    discard,
    publish,
    stage,
)
from lakesql.engine.sources.parsed import raw_records
from lakesql.errors import LakesqlError
from lakesql.events import FieldsRescued, RecordsRejected
from lakesql.ledger.entry import Entry, Snapshot, rows_written


def write_batch(sink: Sink, arrived: DataFrame, batch: int) -> Snapshot | None:
    """Write one batch of a model: `arrived` are its raw records, or the rows of a
    stateful SELECT.

    Returns the snapshot that has become the table's head; None if nothing was written
    to the table.

    The steps, and what a crash after each leaves:

    1. Look the batch up in the ledger; stop if the table holds it.  Nothing.
    2. Make views: of each stream's good records, and of the rows that the SELECT makes
       of them.  Nothing.
    3. Stage the rows: files, and a snapshot that the catalog does not know yet.  Files
       that no table has: the replay writes others, and `remove_orphan_files` takes
       these.
    4. Write the dead letters, with the same entry.  Dead letters of a batch that is not
       visible; the replay finds them. If the batch is itself a replay of dead letters,
       those that do not fail any more are marked instead.
    5. Publish the staged snapshot with the ledger entry, which the catalog checks
       atomically.  Everything; the replay stops at step 1.
    """
    return sink.schemas.write(
        sink, arrived, lambda known: _write_batch(known, arrived, batch)
    )


def pass_batch(sink: Sink, batch: int) -> None:
    """Record a batch that has nothing for the model, as the model that read it for
    several has found."""
    sink.reached("look-up")
    entry = sink.progress.entry(batch)
    sink.progress.check_topics()
    sink.progress.note_empty(entry)


@dataclass(frozen=True, slots=True)
class _NewBatch:
    """A batch that its table does not have yet: its sink and table, its ledger entry,
    and its rows."""

    number: int
    sink: Sink
    session: SparkSession
    table: snapshots.JavaTable
    entry: Entry
    rows: BatchRows


@dataclass(frozen=True, slots=True)
class _CheckedBatch:
    """What was counted and checked of a batch whose rows are made and may be published.

    `newest_place` and `source_table` are as the ledger has them: how far a database's
    log has been read, and the database table that the changes are of.
    """

    counts: BatchCounts
    replaced: ReplacedText
    newest_place: str
    source_table: str


def _write_batch(sink: Sink, arrived: DataFrame, number: int) -> Snapshot | None:
    started = time.monotonic()
    session = arrived.sparkSession
    sink.reached("look-up")
    entry = sink.progress.entry(number)
    table = snapshots.load_table(session, sink.model.table)
    if sink.progress.holds(table, entry):
        _skip(sink, arrived, table, entry)
        return None
    sink.emit(batch_started(sink, session, table, entry, number))
    sink.reached("view")
    sink, rows = _make_views(sink, arrived)
    batch = _NewBatch(number, sink, session, table, entry, rows)
    # If the changes of a feed have been read already, their counts are known: the table
    # that they are of is checked before anything of them is remembered.
    source_table = check_source_table(sink, table, rows) if rows.feed.is_read else None
    sink.reached("stage")
    with ExitStack() as stack:
        begun = begin_commit(table)
        write = prepare_write(sink, table, rows, stack)
        staged = _stage(session, begun, write) if write else None
        checked = _check_staged(batch, staged, source_table)
        arrivals = _read_arrivals(batch, checked.counts)
        sink.progress.check_topics()  # now that all is read
        sink.reached("dead-letter")
        letters = _find_dead_letters(
            batch, checked.counts, arrivals, write.unknown if write else None
        )
        rejected = _settle_dead_letters(batch, letters)
        sink.reached("publish")
        entry = _complete_entry(batch, write, staged, checked, arrivals)
        prepare_again = partial(prepare_write, sink, table, rows, stack)
        head = (
            _publish(sink, session, staged, write, entry, prepare_again)
            if write and staged
            else None
        )
    outcome = BatchOutcome(number, checked.counts, arrivals, rejected, checked.replaced)
    if checked.counts.rescued:
        sink.emit(FieldsRescued(sink.model.name, number, checked.counts.rescued))
    if head is None:
        sink.progress.note_empty(entry)
        sink.emit(batch_empty(sink, table, outcome, letters))
        return None
    sink.progress.note_written(entry)
    sink.reached("finish")
    # `begun.target` is the table as it was written; the catalog's would have to be
    # loaded again.
    sink.emit(batch_committed(sink, outcome, entry, head, begun.target, started))
    return head


# --- 1. a batch that the table has


def _skip(
    sink: Sink, arrived: DataFrame, table: snapshots.JavaTable, entry: Entry
) -> None:
    """Write nothing of a batch that the table has, and emit an event about it."""
    # the query's state store must see every batch, or Spark ends the query
    if sink.select.query.stateful:
        arrived.write.format("noop").mode("append").save()
    sink.progress.note_written(entry)
    sink.emit(batch_skipped(sink, arrived.sparkSession, table, entry))


# --- 2. views


def _make_views(sink: Sink, arrived: DataFrame) -> tuple[Sink, BatchRows]:
    """The rows of a batch, and its sink with the bindings of this batch's files.

    Raises if an expectation that stops the model is already known to fail.
    """
    session, size = arrived.sparkSession, BatchSize.LARGE
    if sink.select.query.stateful:
        check_files(session, arrived, sink.bindings)
    else:
        arrived, bindings = open_files(session, arrived, sink.bindings, sink.emit)
        sink = sink.over(bindings)
        sink.capitals.tell(
            sink.model.name, raw_records(arrived, sink.bindings), sink.emit
        )
        has_file_order = any(binding.file_order for binding in sink.bindings)
        arrived, size = gather(arrived, sink.progress.planned, has_file_order)
    rows = open_rows(sink, session, arrived, size)
    if rows.is_counted and rows.checked is not None:
        check_expectations(sink.select, rows.counters.read(), rows.checked)
    return sink, rows


# --- 3. staging


def _stage(session: SparkSession, begun: Begun, write: PreparedWrite) -> Staged | None:
    """The staged write of the rows; None if it changes nothing, in which case it is
    discarded."""
    staged = stage(session, begun, write.statement, write.settings)
    if write.only_adds:
        is_empty = not staged.snapshot.added
    else:  # one that updates or deletes adds no rows either
        counts = write.counters.read()
        is_empty = not (counts.usable or counts.tombstones)
    if is_empty:
        discard(staged)
        return None
    return staged


def _check_staged(
    batch: _NewBatch, staged: Staged | None, source_table: str | None
) -> _CheckedBatch:
    """The counts of the batch now that its rows are made.

    `source_table` is None if it is not known yet. If the batch must not be published,
    discards what is staged, and raises.
    """
    sink, table, rows = batch.sink, batch.table, batch.rows
    counts = rows.counters.read()
    replaced = rows.counters.read_replaced() if staged is not None else ReplacedText()
    try:
        check_batch(sink, rows, counts, batch.number)
        newest_place = check_log(sink, table, counts)
        keep_unknown(sink, rows, counts)
        if source_table is None:
            source_table = check_source_table(sink, table, rows)
    except LakesqlError:
        if staged is not None:
            discard(staged)
        raise
    return _CheckedBatch(counts, replaced, newest_place, source_table)


def _read_arrivals(batch: _NewBatch, counts: BatchCounts) -> Arrivals:
    """How many records the batch has read; for a stateful model, from the metrics of
    its query."""
    sink = batch.sink
    if sink.arrivals is None:
        return Arrivals(counts.records, 0)
    arrivals = sink.arrivals()
    if arrivals.execution is not None:
        records = raw_records_read(batch.session, sink.bindings, arrivals.execution)
        sink.capitals.tell(sink.model.name, records, sink.emit)
    return arrivals


# --- 4. dead letters


def _find_dead_letters(
    batch: _NewBatch, counts: BatchCounts, arrivals: Arrivals, unknown: DataFrame | None
) -> DeadLetters:
    """The dead letters of a batch: records that the SELECT or a watermark refuses,
    changes whose missing values are `unknown`, and files that cannot be read."""
    sink, session, rows = batch.sink, batch.session, batch.rows
    letters = find_letters(sink, rows, counts) if counts.rejected else []
    if unknown is not None:
        letters += unknown_rows(unknown, rows.records, sink.bindings)
    letters += watermark_letters(session, sink.select, sink.bindings, arrivals)
    if sink.letters is None:
        letters += unreadable_letters(sink, session, batch.number)
    return letters


def _settle_dead_letters(batch: _NewBatch, letters: DeadLetters) -> int:
    """Write the dead letters of a batch. Returns how many were written now.

    A replay of dead letters writes none: those that fail again are still in their
    table, and the others are marked.
    """
    sink = batch.sink
    if sink.letters is not None:
        dead_letter_table = sink.model.table.dead_letter
        take_letters(
            batch.session,
            dead_letter_table,
            sink.letters,
            letters,
            batch.entry.checkpoint,
        )
        return 0
    if not letters:
        return 0
    return _write_dead_letters(sink, batch.session, letters, batch.entry)


def _write_dead_letters(
    sink: Sink, session: SparkSession, letters: DeadLetters, entry: Entry
) -> int:
    """Write the dead letters of a batch, of which there are some, once. Returns how
    many were written now."""
    model = sink.model
    written = write_dead_letters(session, model, letters, entry)
    if written is None:
        return 0
    table = str(model.table.dead_letter)
    sink.emit(
        RecordsRejected(
            model.name,
            entry.batch,
            table,
            written.count,
            written.reasons,
            written.location,
        )
    )
    return written.count


# --- 5. publishing


def _complete_entry(
    batch: _NewBatch,
    write: PreparedWrite | None,
    staged: Staged | None,
    checked: _CheckedBatch,
    arrivals: Arrivals,
) -> Entry:
    """The batch's ledger entry, completed with what is known once the batch is
    staged."""
    counts, older = checked.counts, 0
    if staged is not None:
        older = batch.rows.counters.count_older(rows_written(staged.snapshot.summary))
    return replace(
        batch.entry,
        event_time=counts.event_time,
        late=arrivals.late,
        violations=counts.violations,
        remembered=write.remembered if write else 0,
        newest_place=checked.newest_place,
        source_table=checked.source_table,
        older=older,
        rescued=counts.rescued,
    )


def _publish(
    sink: Sink,
    session: SparkSession,
    staged: Staged,
    write: PreparedWrite,
    entry: Entry,
    prepare_again: Callable[[], PreparedWrite | None],
) -> Snapshot | None:
    """Make the staged snapshot current. If a foreign commit came in between and the
    staged one may not be replayed on top of it, it is staged again.

    None if that commit has brought all keys that the batch would have added.
    """
    model, progress, table = sink.model, sink.progress, staged.table
    for _ in range(PUBLISH_TRIES):
        try:
            is_written = partial(progress.holds, table, entry)
            publication = Publication(
                staged, entry, model.table, is_written, not write.compares
            )
            return (
                publish(publication)
                if sink.seat is None
                else sink.seat.publish(publication)
            )
        except HeadMovedError:
            begun = begin_commit(table)
            if write.is_of_table:
                again = prepare_again()
                assert again is not None, "the rows of a batch do not change"
                write = again
            anew = _stage(session, begun, write)
            if anew is None:
                return None
            staged = anew
    raise conflict(model.table)


# --- the companion of a stateful query


def write_dead_letter_batch(sink: Sink, arrived: DataFrame, batch: int) -> None:
    """Write the bad records of one batch of a stateful model's streams, in the query
    that runs beside its streaming query."""
    entry = sink.progress.entry(batch)
    session = arrived.sparkSession
    arrived, bindings = open_files(session, arrived, sink.bindings, sink.emit)
    sink = sink.over(bindings)
    parsed = sink.parsing.parse(arrived)
    letters = bad_records(sink, parsed)
    letters += unreadable_letters(sink, session, batch)
    if rescued := count_rescued_in(
        zip((it.stream for it in sink.bindings), parsed, strict=True)
    ):
        sink.emit(FieldsRescued(sink.model.name, batch, rescued))
    if not union_letters(letters).isEmpty():
        sink.reached("dead-letter")
        sink.progress.check_topics()
        _write_dead_letters(sink, session, letters, entry)
