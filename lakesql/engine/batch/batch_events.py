"""Which events a batch emits: that it begins, that the table has it already, and what
it has written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from lakesql.engine.batch.counters import BatchCounts, ReplacedText
from lakesql.engine.batch.dead_letter import DeadLetters, union_letters
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.watermark import Arrivals
from lakesql.engine.ledger import snapshots
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    BatchStarted,
    ReadRange,
)
from lakesql.ledger.entry import (
    Entry,
    Snapshot,
    find_writer,
    ledger_tag,
    rows_written,
    totals_of,
    whole,
)
from lakesql.table.uncompacted import small_files_of


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The counts of a batch that is done; `rejected` records were written to the
    dead-letter table."""

    batch: int
    counts: BatchCounts
    arrivals: Arrivals
    rejected: int
    replaced: ReplacedText


def batch_started(
    sink: Sink,
    session: SparkSession,
    table: snapshots.JavaTable,
    entry: Entry,
    batch: int,
) -> BatchStarted:
    """The event of a batch that the table does not have yet."""
    return BatchStarted(
        model=sink.model.name,
        batch=batch,
        checkpoint=entry.checkpoint,
        reads=_located(sink, session),
        table=str(sink.model.table),
        location=str(table.location()),
        is_repeated=batch <= sink.progress.planned_before,
    )


def batch_skipped(
    sink: Sink, session: SparkSession, table: snapshots.JavaTable, entry: Entry
) -> BatchSkipped:
    """The event of a batch that the table has already."""
    name = entry.model
    return BatchSkipped(
        model=sink.model.name,
        batch=entry.batch,
        checkpoint=entry.checkpoint,
        reads=_located(sink, session),
        table=str(sink.model.table),
        location=str(table.location()),
        snapshot=find_writer(
            snapshots.read_ledger(table, (ledger_tag(name),)),
            name,
            entry.checkpoint,
            entry.batch,
        ),
    )


def batch_empty(
    sink: Sink, table: snapshots.JavaTable, outcome: BatchOutcome, letters: DeadLetters
) -> BatchEmpty:
    """The event of a batch that had no row to write. `letters` are its dead letters."""
    counts, arrivals, replaced = outcome.counts, outcome.arrivals, outcome.replaced
    return BatchEmpty(
        model=sink.model.name,
        batch=outcome.batch,
        records=arrivals.records,
        rejected=outcome.rejected,
        late=arrivals.late,
        ignored=counts.ignored,
        violations=counts.violations,
        furthest=arrivals.furthest,
        without_event_time=_without_event_time(sink, arrivals),
        replaced=replaced.values,
        replaced_keys=replaced.in_keys,
        unusable=_unusable(sink, table, counts, letters),
    )


def batch_committed(
    sink: Sink,
    outcome: BatchOutcome,
    entry: Entry,
    head: Snapshot,
    written: snapshots.JavaTable,
    started: float,
) -> BatchCommitted:
    """The event of a batch that has become the snapshot `head` of the table `written`.
    `started` is its start by the monotonic clock, in seconds."""
    counts, arrivals, replaced = outcome.counts, outcome.arrivals, outcome.replaced
    small = small_files_of(head, snapshots.target_file_bytes(written))
    return BatchCommitted(
        model=sink.model.name,
        batch=outcome.batch,
        records=arrivals.records,
        rows=rows_written(head.summary),
        rejected=outcome.rejected,
        snapshot=head.id,
        duration_ms=round((time.monotonic() - started) * 1000),
        event_time=counts.event_time,
        late=arrivals.late,
        ignored=counts.ignored,
        remembered=entry.remembered,
        older=entry.older,
        table=totals_of(head.summary),
        removed_delete_files=whole(head.summary, "removed-delete-files") or 0,
        small_files=small.in_partition,
        small_bytes=small.size_bytes,
        partitions=whole(head.summary, "changed-partition-count")
        if snapshots.is_partitioned(written)
        else None,
        violations=counts.violations,
        furthest=arrivals.furthest,
        without_event_time=_without_event_time(sink, arrivals),
        replaced=replaced.values,
        replaced_keys=replaced.in_keys,
        location=str(written.location()),
    )


def _without_event_time(sink: Sink, arrivals: Arrivals) -> int:
    """How many records of the batch have no event time, if the SELECT groups or joins
    by it: no row of the table is made of them."""
    return arrivals.without_event_time if sink.select.drops_late else 0


def _located(sink: Sink, session: SparkSession) -> tuple[ReadRange, ...]:
    """What the batch reads; tables with the location of their files."""
    tables = {
        binding.stream.name: binding.table
        for binding in sink.bindings
        if binding.table is not None
    }
    found = []
    for each in sink.progress.reads:
        table = tables.get(each.name)
        location = sink.located.find(session, table) if table is not None else ""
        found.append(replace(each, location=location))
    return tuple(found)


def _unusable(
    sink: Sink, table: snapshots.JavaTable, counts: BatchCounts, letters: DeadLetters
) -> str:
    """Reason and detail of the first dead letter of a batch whose records are all dead
    letters, if the table has no row yet; otherwise ''."""
    is_of_letters = sink.select.query.stateful or sink.letters is not None
    if (
        is_of_letters
        or not letters
        or counts.rejected < counts.records - counts.ignored
    ):
        return ""
    if not snapshots.is_empty(table):
        return ""
    first = union_letters(letters).select("reason", "detail").head()
    return f"{first['reason']}, {first['detail']}" if first else ""
