"""One micro-batch, from raw records to a commit that readers see, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import now_ms
from lakesql.engine.batch.ahead import ahead_letters
from lakesql.engine.batch.arrivals import Arrivals
from lakesql.engine.batch.counters import BatchCounts, ReplacedText, count_rescued_in
from lakesql.engine.batch.dead_letter import DeadLetters, union_letters, unknown_rows, write_dead_letters
from lakesql.engine.batch.file_headers import batch_bindings
from lakesql.engine.batch.gather import gather
from lakesql.engine.batch.late import late_letters, raw_records_read, records_of
from lakesql.engine.batch.letters import take_letters
from lakesql.engine.batch.log_restarts import check_log
from lakesql.engine.batch.mixed_tables import check_source_table
from lakesql.engine.batch.prepare import PreparedWrite, prepare_write
from lakesql.engine.batch.refuse import check_batch, check_expectations
from lakesql.engine.batch.rows import BatchRows, bad_records, find_letters, open_rows
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.unreadable_files import unreadable_letters
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
from lakesql.engine.sources.file_types import check_file_types
from lakesql.engine.sources.nanoseconds import refuse_nanoseconds, with_nanoseconds
from lakesql.engine.sources.parsed import raw_records
from lakesql.errors import LakesqlError
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    BatchStarted,
    FieldsRescued,
    ReadRange,
    RecordsRejected,
)
from lakesql.ledger.entry import Entry, Snapshot, find_writer, ledger_tag, rows_written, totals_of, whole
from lakesql.table.uncompacted import small_files_of


def write_batch(sink: Sink, arrived: DataFrame, batch: int) -> Snapshot | None:
    """Write one batch of a model: `arrived` are its raw records, or the rows of a stateful SELECT.

    Returns the snapshot that has become the table's head; None where nothing was written to the table.

    The steps, and what a crash after each leaves:

    1. Look the batch up in the ledger; stop if the table holds it.  Nothing.
    2. Make views: of each stream's good records, and of the rows that the SELECT makes of them.  Nothing.
    3. Stage the rows: files, and a snapshot that the catalog does not know yet.  Files that no table has: the replay
       writes others, and `remove_orphan_files` takes these.
    4. Write the dead letters, with the same entry.  Dead letters of a batch that is not visible; the replay finds them.
       Where the batch is itself a replay of dead letters, those that do not fail any more are marked instead.
    5. Publish the staged snapshot with the ledger entry, which the catalog checks atomically.  Everything; the replay
       stops at step 1.
    """
    return sink.schemas.write(sink, arrived, lambda known: _write_batch(known, arrived, batch))


def _write_batch(sink: Sink, arrived: DataFrame, batch: int) -> Snapshot | None:
    started = time.monotonic()
    session, model = arrived.sparkSession, sink.model
    sink.reached("look-up")
    entry = sink.progress.entry(batch)
    table = snapshots.load_table(session, model.table)
    if sink.progress.holds(table, entry):
        if sink.select.query.stateful:  # its state store must see every batch, or Spark ends the query
            arrived.write.format("noop").mode("append").save()
        sink.progress.note_written(entry)
        sink.emit(_skipped(sink, session, table, entry))
        return None
    sink.emit(
        BatchStarted(
            model=model.name,
            batch=batch,
            checkpoint=entry.checkpoint,
            reads=_located(sink, session),
            table=str(model.table),
            location=str(table.location()),
            at_ms=now_ms(),
            is_repeated=batch <= sink.progress.planned_before,
        )
    )
    sink.reached("view")
    is_small = False
    check_file_types(session, arrived, sink.bindings)
    if sink.select.query.stateful:
        refuse_nanoseconds(session, arrived, sink.bindings)
    else:
        arrived = with_nanoseconds(session, arrived, sink.bindings, sink.emit)
        sink = sink.over(batch_bindings(session, arrived, sink.bindings, sink.emit))
        sink.capitals.tell(model.name, raw_records(arrived, sink.bindings), sink.emit)
        arrived, is_small = gather(arrived, sink.progress.planned, any(each.file_order for each in sink.bindings))
    rows = open_rows(sink, session, arrived, is_small)
    if rows.is_counted and rows.checked is not None:
        check_expectations(sink.select, rows.counters.read(), rows.checked)
    source_table = ""
    if rows.feed.is_read:  # its changes have been counted, and what they leave is remembered before it is published
        source_table = check_source_table(sink, table, rows)
    sink.reached("stage")
    with ExitStack() as stack:
        begun = begin_commit(table)
        write = prepare_write(sink, table, rows, stack)
        staged = _stage(session, begun, write) if write else None
        counts = rows.counters.read()
        replaced = rows.counters.read_replaced() if staged is not None else ReplacedText()
        try:
            check_batch(sink, rows, counts, batch)
            newest_place = check_log(sink, table, counts)
            if not rows.feed.is_read:
                source_table = check_source_table(sink, table, rows)
        except LakesqlError:
            if staged is not None:
                discard(staged)
            raise
        arrivals = sink.arrivals() if sink.arrivals else Arrivals(counts.records, 0)
        if arrivals.execution is not None:
            sink.capitals.tell(model.name, raw_records_read(session, sink.bindings, arrivals.execution), sink.emit)
        sink.progress.check_topics()  # now that all is read
        sink.reached("dead-letter")
        unknown = write.unknown if write else None
        letters = _find_dead_letters(sink, session, rows, counts, arrivals, unknown, batch)
        rejected = 0
        if sink.letters is not None:  # those that fail still stand there
            take_letters(session, model.table.dead_letter, sink.letters, letters, entry.checkpoint)
        elif letters:
            rejected = _write_dead_letters(sink, session, letters, entry)
        sink.reached("publish")
        entry = replace(
            entry,
            event_time=counts.event_time,
            late=arrivals.late,
            violations=counts.violations,
            remembered=write.remembered if write else 0,
            newest_place=newest_place,
            source_table=source_table,
            older=rows.counters.count_older(rows_written(staged.snapshot.summary)) if staged is not None else 0,
            rescued=counts.rescued,
        )
        prepare_again = partial(prepare_write, sink, table, rows, stack)
        head = _publish(sink, session, staged, write, entry, prepare_again) if write and staged else None
    if counts.rescued:
        sink.emit(FieldsRescued(model.name, batch, counts.rescued, now_ms()))
    if head is None:
        sink.progress.note_empty(entry)
        sink.emit(
            BatchEmpty(
                model=model.name,
                batch=batch,
                records=arrivals.records,
                rejected=rejected,
                at_ms=now_ms(),
                late=arrivals.late,
                ignored=counts.ignored,
                violations=counts.violations,
                furthest=arrivals.furthest,
                replaced=replaced.values,
                replaced_keys=replaced.in_keys,
                unusable=_unusable(sink, table, counts, letters),
            )
        )
        return None
    sink.progress.note_written(entry)
    sink.reached("finish")
    written = begun.target  # the catalog's would be read again, as it has changed
    small = small_files_of(head, snapshots.target_file_bytes(written))
    sink.emit(
        BatchCommitted(
            model=model.name,
            batch=batch,
            records=arrivals.records,
            rows=rows_written(head.summary),
            rejected=rejected,
            snapshot=head.id,
            duration_ms=round((time.monotonic() - started) * 1000),
            event_time=counts.event_time,
            at_ms=now_ms(),
            late=arrivals.late,
            ignored=counts.ignored,
            remembered=entry.remembered,
            older=entry.older,
            table=totals_of(head.summary),
            removed_delete_files=whole(head.summary, "removed-delete-files") or 0,
            small_files=small.in_partition,
            small_bytes=small.size_bytes,
            partitions=whole(head.summary, "changed-partition-count") if snapshots.is_partitioned(written) else None,
            violations=counts.violations,
            furthest=arrivals.furthest,
            replaced=replaced.values,
            replaced_keys=replaced.in_keys,
            location=str(written.location()),
        )
    )
    return head


def _skipped(sink: Sink, session: SparkSession, table: snapshots.JavaTable, entry: Entry) -> BatchSkipped:
    """The event of a batch that the table has."""
    name = entry.model
    return BatchSkipped(
        model=sink.model.name,
        batch=entry.batch,
        at_ms=now_ms(),
        checkpoint=entry.checkpoint,
        reads=_located(sink, session),
        table=str(sink.model.table),
        location=str(table.location()),
        snapshot=find_writer(snapshots.read_ledger(table, (ledger_tag(name),)), name, entry.checkpoint, entry.batch),
    )


def _located(sink: Sink, session: SparkSession) -> tuple[ReadRange, ...]:
    """What the batch reads, tables with where their files are."""
    tables = {binding.stream.name: binding.table for binding in sink.bindings if binding.table is not None}
    found = []
    for each in sink.progress.reads:
        table = tables.get(each.name)
        location = sink.located.find(session, table) if table is not None else ""
        found.append(replace(each, location=location))
    return tuple(found)


def write_dead_letter_batch(sink: Sink, arrived: DataFrame, batch: int) -> None:
    """Write the bad records of one batch of a stateful model's streams: the companion of its streaming query."""
    entry = sink.progress.entry(batch)
    check_file_types(arrived.sparkSession, arrived, sink.bindings)
    arrived = with_nanoseconds(arrived.sparkSession, arrived, sink.bindings, sink.emit)
    sink = sink.over(batch_bindings(arrived.sparkSession, arrived, sink.bindings, sink.emit))
    parsed = sink.parsing.parse(arrived)
    letters = bad_records(sink, parsed)
    letters += unreadable_letters(sink, arrived.sparkSession, batch)
    if rescued := count_rescued_in(zip((it.stream for it in sink.bindings), parsed, strict=True)):
        sink.emit(FieldsRescued(sink.model.name, batch, rescued, now_ms()))
    if not union_letters(letters).isEmpty():
        session = arrived.sparkSession
        sink.reached("dead-letter")
        sink.progress.check_topics()
        _write_dead_letters(sink, session, letters, entry)


def _stage(session: SparkSession, begun: Begun, write: PreparedWrite) -> Staged | None:
    """Write the rows into a staged snapshot; one that turns out to change nothing is discarded."""
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


def _find_dead_letters(
    sink: Sink,
    session: SparkSession,
    rows: BatchRows,
    counts: BatchCounts,
    arrivals: Arrivals,
    unknown: DataFrame | None,
    batch: int,
) -> DeadLetters:
    """The dead letters of a batch: records that the SELECT, a mirror's memory (`unknown`) or a watermark refuses, and
    files that cannot be read."""
    letters = find_letters(sink, rows, counts) if counts.rejected else []
    if unknown is not None:
        letters += unknown_rows(unknown, rows.records, sink.bindings)
    if arrivals.late and sink.select.late_text:
        letters += late_letters(session, sink.select, sink.bindings, arrivals.execution)
    if arrivals.ahead:
        records = records_of(session, sink.select, sink.bindings, arrivals.execution)
        letters += ahead_letters(session, records, sink.bindings, arrivals.execution)
    if sink.letters is None:
        letters += unreadable_letters(sink, session, batch)
    return letters


def _unusable(sink: Sink, table: snapshots.JavaTable, counts: BatchCounts, letters: DeadLetters) -> str:
    """What is wrong with the first record of a batch whose records are all dead letters, if the table has no row; ''
    elsewhere."""
    is_of_letters = sink.select.query.stateful or sink.letters is not None
    if is_of_letters or not letters or counts.rejected < counts.records - counts.ignored:
        return ""
    if not snapshots.is_empty(table):
        return ""
    first = union_letters(letters).select("reason", "detail").head()
    return f"{first['reason']}, {first['detail']}" if first else ""


def _write_dead_letters(sink: Sink, session: SparkSession, letters: DeadLetters, entry: Entry) -> int:
    """Write the dead letters of a batch that has some, once; how many were written now."""
    model = sink.model
    written = write_dead_letters(session, model, letters, entry)
    if written is None:
        return 0
    table = str(model.table.dead_letter)
    sink.emit(
        RecordsRejected(model.name, entry.batch, table, written.count, written.reasons, now_ms(), written.location)
    )
    return written.count


# --- 5. publishing


def _publish(
    sink: Sink,
    session: SparkSession,
    staged: Staged,
    write: PreparedWrite,
    entry: Entry,
    prepare_again: Callable[[], PreparedWrite | None],
) -> Snapshot | None:
    """Make the staged snapshot current. One that may not be replayed on top of a foreign commit is staged again.

    None where that commit has brought all keys which the batch would have added.
    """
    model, progress, table = sink.model, sink.progress, staged.table
    for _ in range(PUBLISH_TRIES):
        try:
            is_written = partial(progress.holds, table, entry)
            publication = Publication(staged, entry, model.table, is_written, not write.compares)
            return publish(publication) if sink.seat is None else sink.seat.publish(publication)
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
