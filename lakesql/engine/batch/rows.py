"""The rows of a batch: in how many tasks its records are read, and what the SELECT
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
    """The rows of the batch, which are the view `_lakesql_rows` too; the records that
    they are made of, by stream; the steps that write them; and what is counted on the
    way. `is_counted`: they have been made already. `checked` are the rows, with those
    that are set aside, that say what they fail; None where nothing is expected of them,
    or it is a step of the batch. `is_small`: the records come in one task; `are_few`:
    they, and the rows, are no work at all."""

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
    """Whether few records have come, of which the SELECT makes as few rows."""
    query = sink.select.query
    if size > BatchSize.FEW or sink.letters is not None or query.stateful:
        return False
    return (
        len(query.streams_read) == 1 and not query.reads_tables and not query.multiplies
    )


def open_rows(
    sink: Sink, session: SparkSession, arrived: DataFrame, size: BatchSize
) -> BatchRows:
    """Run the SELECT over the records of a batch; where nothing reads its rows again,
    they are not made yet."""
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
    """Whether rows are counted as the SELECT makes them: those that fail something, or
    that a write may leave out."""
    write = steps[-1]
    assert isinstance(write, Write), "the last step of a batch is its write"
    if checks or select.writing.not_null:
        return True
    return not feed.is_read and not write.only_adds


def _must_be_made(
    select: Select, steps: Sequence[Step], checks: Sequence[Check]
) -> bool:
    """Whether the rows are made before the batch's steps, once and for good.

    Spark reads a table's newest version whenever a plan is run, also where its rows are
    persisted: the keys that bound the MERGE, its rows and the dead letters could be of
    three versions. Rows of a stateful SELECT, with its state, would be made anew where
    another model's session replaces a view: Spark then forgets whatever is persisted,
    in any session, by a plan that has a view of that name.
    """
    if select.has_unsteady_checks or _are_needed_first(steps, checks):
        return True
    if not select.query.reads_tables and not select.query.stateful:
        return False
    return _are_read_again(select, steps, checks)


def _are_needed_first(steps: Sequence[Step], checks: Sequence[Check]) -> bool:
    """Whether a step of the batch needs to know what the rows fail: what stops the
    model is to be known before anything is remembered, and what keeps rows reads its
    batch several times."""
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
    """Whether something reads the rows beside their write."""
    if select.writing.not_null or names_of(checks, "dead_letter", "stop"):
        return True
    return any(isinstance(step, ReadBounds) for step in steps)


def checked_rows(session: SparkSession, select: Select, made: DataFrame) -> DataFrame:
    """The rows of the SELECT, each with what it fails, if anything is expected of
    them."""
    if not select.checks:
        return made
    replace_view(made, MADE_VIEW)
    return session.sql(_query_of(select, CHECKED_VIEW))


def kept_rows(session: SparkSession, select: Select, checked: DataFrame) -> DataFrame:
    """Those of the rows whose records do not become dead letters by what they fail."""
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
    """The records of each stream, and a view of the good ones under the stream's name:
    of a feed that is mirrored, of the rows that its changes leave."""
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
    """The batch's dead letters, by their kinds; of the kinds alone that `counts` has
    seen."""
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
    """The rejected ones of each stream's records."""
    return [
        rejected_records(parsed, binding)
        for parsed, binding in zip(records, sink.bindings, strict=True)
    ]


FEW_BYTES = 2**16
"""A file of no more bytes is taken to have few records."""

SMALL_BYTES = 2**20
"""A file of no more bytes is worth one task: of JSON it has some thousand records,
compressed some ten thousand."""


class BatchSize(IntEnum):
    """What a batch is known to be: `FEW` records, `SMALL` enough for one task, or
    neither."""

    FEW = 0
    SMALL = 1
    LARGE = 2


def gather(
    arrived: DataFrame, records: int | None, has_order: bool
) -> tuple[DataFrame, BatchSize]:
    """A batch in as many tasks as pay, and its size.

    They are one for each `TASK_RECORDS` of it, and no more than there are cores. Spark
    reads each partition of a topic in tasks of its own, of which each would write a
    file. Tasks are brought together here without a shuffle; of one task's rows, Spark
    knows that those of a key are together. `records` is None where nobody knows how
    many there are. Where a batch of files `has_order`, tasks that read parts of one
    file stay apart: those that are brought together may be any.
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
    """The size of a batch that comes in one task, which reads files."""
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
