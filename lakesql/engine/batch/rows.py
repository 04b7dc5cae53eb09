"""Which rows a batch has: in how many tasks its records are read, and what the SELECT
makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.batch import (
    KeepRows,
    ReadBounds,
    Remember,
    Step,
    Write,
)
from lakesql.compile.checks import Check, names_of
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounters, BatchCounts
from lakesql.engine.batch.dead_letter import (
    DeadLetters,
    failed_places,
    rejected_records,
    rejected_rows,
)
from lakesql.engine.batch.feed import Feed, give_rows
from lakesql.engine.batch.memories import Moves
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.valid_text import with_valid_text
from lakesql.engine.spark.few_rows import FEW_RECORDS, changed_settings, settings_of_few
from lakesql.engine.spark.internals import replace_view
from lakesql.model.writing import TASK_RECORDS
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import CHECKED_VIEW, MADE_VIEW, ROWS_VIEW


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of a batch, which are the view `_lakesql_rows` too; the parsed records
    by stream; the steps that write the rows; and the counters. `is_counted`: the rows
    have been computed already. `checked` are all rows, including those that become dead
    letters, with the expectations that each fails; None if there are no expectations,
    or a step of the batch checks them. `is_small`: the records come in one task;
    `are_few`: records and rows take next to no time."""

    frame: DataFrame
    records: list[DataFrame]
    steps: tuple[Step, ...]
    counters: BatchCounters
    feed: Feed = Feed()
    is_counted: bool = False
    checked: DataFrame | None = None
    is_small: bool = False
    are_few: bool = False


def makes_few(sink: Sink, size: BatchSize) -> bool:
    """Whether few records have arrived, of which the SELECT makes no more rows than
    records."""
    query = sink.select.query
    if size > BatchSize.FEW or sink.letters is not None or query.stateful:
        return False
    return (
        len(query.streams_read) == 1 and not query.reads_tables and not query.multiplies
    )


def open_rows(
    sink: Sink, session: SparkSession, arrived: DataFrame, size: BatchSize
) -> BatchRows:
    """The rows that the SELECT makes of the records of a batch; computed at once only
    if they are read several times."""
    is_small, are_few = size < BatchSize.LARGE, makes_few(sink, size)
    with changed_settings(session, settings_of_few(session) if are_few else {}):
        return _open_rows(sink, session, arrived, is_small, are_few)


def _open_rows(
    sink: Sink, session: SparkSession, arrived: DataFrame, is_small: bool, are_few: bool
) -> BatchRows:
    select, counters = sink.select, BatchCounters()
    if select.query.stateful:  # the SELECT has run already: it is the streaming query
        records, feed = list[DataFrame](), Feed()
        rows = counters.stateful_rows(arrived)
    else:
        records, feed = open_streams(
            sink, arrived, counters, sink.moves, are_few=are_few
        )
        rows = session.sql(select.text)
    rows = with_valid_text(rows, select, sink.bindings, counters)
    steps = batches_of(select).steps(sink.table.columns(rows.schema))
    checks = () if feed.is_read else select.checks
    if checks:
        rows = checked_rows(session, select, rows)
    if _are_counted(select, steps, checks, feed):
        rows = counters.rows(rows, select.writing.not_null, checks)
    is_made = _must_be_made(select, steps, checks)
    if is_made:
        rows = rows.localCheckpoint()
    checked = rows if checks else None
    if checks:
        rows = kept_rows(session, select, rows)
    replace_view(rows, ROWS_VIEW)
    return BatchRows(
        rows, records, steps, counters, feed, is_made, checked, is_small, are_few
    )


def _are_counted(
    select: Select, steps: Sequence[Step], checks: Sequence[Check], feed: Feed
) -> bool:
    """Whether rows are counted as the SELECT makes them: because some may fail
    something, or the write may leave some out."""
    write = steps[-1]
    assert isinstance(write, Write), "the last step of a batch is its write"
    if checks or select.writing.not_null:
        return True
    return not feed.is_read and not write.only_adds


def _must_be_made(
    select: Select, steps: Sequence[Step], checks: Sequence[Check]
) -> bool:
    """Whether the rows are computed before the batch's steps, exactly once.

    Spark reads a table's newest version whenever a plan runs, even if its rows are
    persisted: the keys that bound the MERGE, its rows and the dead letters could come
    from three versions. Rows of a stateful SELECT would be computed again, with its
    state, if another model's session replaces a view: Spark then drops whatever is
    persisted, in any session, with a plan that has a view of that name.
    """
    if select.has_unsteady_checks or _are_needed_first(steps, checks):
        return True
    if not select.query.reads_tables and not select.query.stateful:
        return False
    return _are_read_again(select, steps, checks)


def _are_needed_first(steps: Sequence[Step], checks: Sequence[Check]) -> bool:
    """Whether a step of the batch needs to know which expectations the rows fail: a
    failure that stops the model must be known before anything is remembered, and a step
    that keeps rows reads its batch several times."""
    if not checks:
        return False
    if any(isinstance(step, KeepRows) for step in steps):
        return True
    return bool(names_of(checks, "stop")) and any(
        isinstance(step, Remember) for step in steps
    )


def _are_read_again(
    select: Select, steps: Sequence[Step], checks: Sequence[Check]
) -> bool:
    """Whether the rows are read by something else than their write."""
    if select.writing.not_null or names_of(checks, "dead_letter", "stop"):
        return True
    return any(isinstance(step, ReadBounds) for step in steps)


def checked_rows(session: SparkSession, select: Select, made: DataFrame) -> DataFrame:
    """The rows of the SELECT, each with the expectations that it fails; unchanged if
    there are no expectations."""
    if not select.checks:
        return made
    replace_view(made, MADE_VIEW)
    return session.sql(_query_of(select, CHECKED_VIEW))


def kept_rows(session: SparkSession, select: Select, checked: DataFrame) -> DataFrame:
    """The rows without those that become dead letters because of a failed
    expectation."""
    replace_view(checked, CHECKED_VIEW)
    return session.sql(_query_of(select, ROWS_VIEW))


def _query_of(select: Select, view: str) -> str:
    return next(
        made.query for made in batches_of(select).made_views() if made.name == view
    )


def open_streams(
    sink: Sink,
    arrived: DataFrame,
    counters: BatchCounters,
    moves: Moves,
    *,
    are_few: bool = False,
) -> tuple[list[DataFrame], Feed]:
    """The parsed records of each stream; and a view of the good ones under the stream's
    name, or, for a feed that is mirrored, of the rows that its changes leave."""
    all_records, feed = sink.parsing.parse(arrived, are_few=are_few), Feed()
    for binding, records in zip(sink.bindings, all_records, strict=True):
        feed = give_rows(
            arrived.sparkSession,
            sink.select,
            binding,
            records,
            counters,
            moves,
            are_few=are_few,
        )
    return all_records, feed


def find_letters(sink: Sink, rows: BatchRows, counts: BatchCounts) -> DeadLetters:
    """The dead letters of the batch, of those kinds that `counts` has counted."""
    letters: DeadLetters = []
    if rows.records and counts.bad:  # a stateful model's are its companion's to write
        letters += bad_records(sink, rows.records)
    if counts.keyless or counts.set_aside:
        failed = None
        if rows.checked is not None and counts.set_aside:
            failed = failed_places(rows.checked, sink.select.checks)
        letters += rejected_rows(
            rows.frame, rows.records, sink.select.writing, sink.bindings, failed
        )
    return letters


def bad_records(sink: Sink, records: list[DataFrame]) -> DeadLetters:
    """The rejected records of each stream."""
    return [
        rejected_records(parsed, binding)
        for parsed, binding in zip(records, sink.bindings, strict=True)
    ]


FEW_BYTES = 2**16
"""A file with at most this many bytes is assumed to have few records."""

SMALL_BYTES = 2**20
"""A file with at most this many bytes is read in one task: as JSON it has some thousand
records, compressed some ten thousand."""


class BatchSize(IntEnum):
    """How large a batch is known to be: `FEW` records, `SMALL` enough for one task, or
    larger."""

    FEW = 0
    SMALL = 1
    LARGE = 2


def gather(
    arrived: DataFrame, records: int | None, has_order: bool
) -> tuple[DataFrame, BatchSize]:
    """The batch in as many tasks as pay, and its size.

    There is one task for each `TASK_RECORDS` records, and no more than there are cores.
    Spark reads each partition of a topic in tasks of its own, each of which would write
    a file. Tasks are combined without a shuffle; if there is only one, Spark knows that
    all rows of a key are in it. `records` is None if the number is unknown. If a batch
    of files `has_order`, its tasks are not combined: tasks that read parts of one file
    could be combined in any order.
    """
    size = (
        _size_in_files(arrived)
        if records is None
        else _size_of(records, FEW_RECORDS, TASK_RECORDS)
    )
    if size < BatchSize.LARGE:
        return arrived.coalesce(1), size
    if has_order:
        return arrived, size
    cores = int(arrived.sparkSession.sparkContext.defaultParallelism)
    return arrived.coalesce(
        cores if records is None else min(cores, -(-records // TASK_RECORDS))
    ), size


def _size_of(amount: int, few: int, small: int) -> BatchSize:
    if amount <= few:
        return BatchSize.FEW
    return BatchSize.SMALL if amount <= small else BatchSize.LARGE


def _size_in_files(arrived: DataFrame) -> BatchSize:
    """The size of a batch of files that comes in one task; other batches count as
    large."""
    partitions = arrived._jdf.queryExecution().toRdd().partitions()
    if (
        len(partitions) != 1
        or str(partitions[0].getClass().getSimpleName()) != "FilePartition"
    ):
        return BatchSize.LARGE
    return _size_of(
        sum(int(file.length()) for file in partitions[0].files()),
        FEW_BYTES,
        SMALL_BYTES,
    )
