"""One micro-batch, from raw records to a commit that readers see, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakesql.compile.insert import insert_statement
from lakesql.compile.merge import KeyRange, inserts_only, merge_statement, newest_rows
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.batch.bounds import bounds_pay, read_keys
from lakesql.engine.batch.counters import BatchCounters, Counts
from lakesql.engine.batch.dead_letter import Letters, rejected_records, rejected_rows, union_letters, write_dead_letters
from lakesql.engine.ledger import snapshots
from lakesql.engine.ledger.entry import Entry, Snapshot, summary_of
from lakesql.engine.progress.progress import Progress
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import good_records, unpack
from lakesql.errors import RunError
from lakesql.events import BatchCommitted, BatchEmpty, BatchSkipped, Emit, RecordsRejected
from lakesql.model.config import Append, Upsert
from lakesql.model.model import Model
from lakesql.names import BATCH_VIEW, ROWS_VIEW

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Step = Literal["look-up", "view", "stage", "dead-letter", "publish", "finish"]
"""The steps of `write_batch`, and its end."""

PUBLISH_TRIES = 5
"""How often a batch is staged anew because a foreign commit moved the head, before it fails."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a model's batches go, and what they need on the way: fixed for as long as its query runs.

    `land` brings the table in line with a schema of the SELECT, and says which of its columns land. `companion` is the
    progress of the query that sets a stateful model's bad records aside. `now_ms` is the time since the epoch.
    `reached` is told before each step which one it is, and raises where this runner must not go on.
    """

    select: Select
    bindings: tuple[StreamBinding, ...]
    progress: Progress
    land: Callable[[StructType], tuple[str, ...]]
    emit: Emit
    now_ms: Callable[[], int]
    companion: Progress | None = None
    reached: Callable[[Step], None] = lambda step: None

    @property
    def model(self) -> Model:
        """The model whose batches these are."""
        return self.select.model


def write_batch(sink: Sink, arrived: DataFrame, batch: int) -> None:
    """Write one batch of a model: `arrived` are its parsed records, or the rows of a stateful SELECT.

    The steps, and what a crash after each leaves:

    1. Look the batch up in the ledger; stop if the table holds it.  Nothing.
    2. Make views: of each stream's good records, and of the rows that the SELECT makes of them.  Nothing.
    3. Stage the rows: a snapshot with the ledger entry that no reader sees yet.  A staged snapshot, which is never
       published: the replay stages another.
    4. Write the dead letters, with the same entry.  Dead letters of a batch that is not visible; the replay finds them.
    5. Publish the staged snapshot, which Iceberg checks atomically.  Everything; the replay stops at step 1.

    With `fence='lease'` step 3 is the commit itself, step 5 falls away, and a replay makes up for step 4.
    """
    started = time.monotonic()
    session, model = arrived.sparkSession, sink.model
    sink.reached("look-up")
    entry = sink.progress.entry(batch)
    table = snapshots.load_table(session, model.table)
    if sink.progress.holds(table, entry):
        _finish_replay(sink, session, arrived, entry)
        sink.progress.note_written(entry)
        sink.emit(BatchSkipped(model.name, batch, sink.now_ms()))
        return
    sink.reached("view")
    if not model.config.is_staged:
        sink.progress.check_topics()
    rows = _open_rows(sink, session, arrived)
    sink.reached("stage")
    with ExitStack() as stack:
        stage = _build_stage(sink, table, rows, entry, stack)
        snapshot = stage()
        counts = rows.watch.read()
        if model.config.is_staged:
            _check_ratio(session, model, counts, snapshot)
            sink.progress.check_topics()  # now that all is read
        sink.reached("dead-letter")
        rejected = _set_aside(sink, session, _letters(sink, rows, counts), entry) if counts.rejected else 0
        sink.reached("publish")
        if snapshot is None:
            sink.progress.note_empty(entry)
            sink.emit(BatchEmpty(model.name, batch, counts.records, rejected, sink.now_ms()))
            return
        head = _publish(sink, session, entry, snapshot, stage) if model.config.is_staged else snapshot
    sink.progress.note_written(entry)
    sink.reached("finish")
    sink.emit(
        BatchCommitted(
            model=model.name,
            batch=batch,
            records=counts.records,
            rows=snapshot.added,
            rejected=rejected,
            snapshot=head.id,
            duration_ms=round((time.monotonic() - started) * 1000),
            event_time=_iso(counts),
            at_ms=sink.now_ms(),
        )
    )


def write_dead_letter_batch(sink: Sink, arrived: DataFrame, batch: int) -> None:
    """Write the bad records of one batch of a stateful model's streams: the companion of its streaming query."""
    letters = _bad_records(sink, unpack(arrived, sink.select, sink.bindings))
    if not union_letters(letters).isEmpty():
        session = arrived.sparkSession
        sink.reached("dead-letter")
        entry = sink.progress.entry(batch)
        sink.progress.check_topics()
        _set_aside(sink, session, letters, entry)


# --- 1. a batch that is there


def _finish_replay(sink: Sink, session: SparkSession, arrived: DataFrame, entry: Entry) -> None:
    """What is still to be done for a batch that is in the table: Spark's state, and dead letters that came after it."""
    if sink.select.query.stateful:  # its state store must see every batch, or Spark ends the query
        arrived.write.format("noop").mode("append").save()
    if not sink.model.config.is_staged:
        letters = _letters(sink, _open_rows(sink, session, arrived))
        if letters and not union_letters(letters).isEmpty():
            _set_aside(sink, session, letters, entry)


# --- 2. the rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the batch, which are the view `_lakesql_rows` too; the records that they are made of, by stream; the
    columns that land; and what was counted."""

    frame: DataFrame
    records: list[DataFrame]
    columns: tuple[str, ...]
    watch: BatchCounters


def _open_rows(sink: Sink, session: SparkSession, arrived: DataFrame) -> _Rows:
    select, watch = sink.select, BatchCounters()
    if select.query.stateful:  # the SELECT has run already: it is the streaming query
        records: list[DataFrame] = []
        rows = watch.stateful_rows(arrived)
    else:
        records = _open_streams(sink, arrived, watch)
        rows = session.sql(select.text)
    columns = sink.land(rows.schema)
    if isinstance(sink.model.config, Upsert):
        rows = watch.keyed_rows(rows, (*sink.model.config.keys, *sink.model.config.sequence_by))
        if select.query.reads_tables and not select.query.stateful:
            # Made once, and for good. Spark reads a table's newest version whenever a plan is run, also where its rows
            # are persisted: the keys that bound the MERGE, its rows and the dead letters could be of three versions.
            rows = rows.localCheckpoint()
    rows.createOrReplaceTempView(ROWS_VIEW)
    return _Rows(rows, records, columns, watch)


def _open_streams(sink: Sink, arrived: DataFrame, watch: BatchCounters) -> list[DataFrame]:
    """The records of each stream, and a view of the good ones under the stream's name."""
    all_records = unpack(arrived, sink.select, sink.bindings)
    for binding, records in zip(sink.bindings, all_records, strict=True):
        watched = watch.stream(records, binding.stream, sink.select)
        good_records(watched).createOrReplaceTempView(identifier(binding.stream.name))
    return all_records


# --- 3. staging


def _build_stage(
    sink: Sink, table: snapshots.JavaTable, rows: _Rows, entry: Entry, stack: ExitStack
) -> Callable[[], Snapshot | None]:
    """A function that writes the rows and returns the snapshot they are in: staged, or with `fence='lease'` current.

    It returns None where there is no row to write, and may be called again when the table has changed under it.
    """
    session, model = rows.frame.sparkSession, sink.model
    match model.config:
        case Append():
            if not model.config.is_staged and not _count_kept(rows.frame, stack):
                return lambda: None
            insert = insert_statement(model.table, rows.columns)
            return lambda: _write(session, model, entry, insert, lambda snapshot: snapshot.added)
        case Upsert() as config:
            newest = session.sql(newest_rows(config, sink.select.positioned))
            bounds: tuple[KeyRange, ...] = ()
            # What makes the rows runs in each statement that reads them: a stateful SELECT, with its state, only once.
            is_kept = not config.is_staged or sink.select.query.stateful
            if is_kept or bounds_pay(snapshots.read_history(table), model.name):
                stack.callback(newest.persist().unpersist)
                if session.conf.get("spark.sql.adaptive.enabled") != "true":
                    newest.count()  # all of it, which is counted: a look at some keys would stop before the last task
                found = read_keys(newest, config.keys)
                if found is None:
                    return lambda: None
                bounds = found
                entry = replace(entry, event_time=_iso(rows.watch.read()))
            newest.createOrReplaceTempView(BATCH_VIEW)
            merge = merge_statement(model.table, config, rows.columns, bounds)
            is_blind = config.is_staged and inserts_only(config, rows.columns)
            return lambda: _write(session, model, entry, merge, lambda snapshot: rows.watch.read().keyed, is_blind)
        case _:
            assert_never(model.config)


def _count_kept(rows: DataFrame, stack: ExitStack) -> int:
    """How many rows there are; they are kept in memory, to be written without being made again."""
    stack.callback(rows.persist().unpersist)
    return rows.count()


def _write(
    session: SparkSession,
    model: Model,
    entry: Entry,
    statement: str,
    count: Callable[[Snapshot], int],
    is_blind: bool = False,
) -> Snapshot | None:
    """Run the statement. A staged snapshot that turns out to be of no rows, which `count` says, is dropped.

    `is_blind`: Iceberg does not check that the table is as a staged statement has read it, so that is done here.
    """
    head = snapshots.head_of(snapshots.load_table(session, model.table)) if is_blind else None
    with snapshots.commit_properties(session, summary_of(entry), entry.wap_id if model.config.is_staged else None):
        session.sql(statement)
    table = snapshots.load_table(session, model.table)
    if not model.config.is_staged:
        return next(snapshots.read_history(table))
    snapshot = snapshots.staged_snapshot(table, entry.wap_id)
    assert snapshot is not None, "the write was not staged"
    if is_blind and snapshot.parent != head:
        snapshots.drop_staged(table, snapshot)
        raise snapshots.conflict(model.table)
    if not count(snapshot):
        snapshots.drop_staged(table, snapshot)
        return None
    return snapshot


# --- 4. dead letters


def _check_ratio(session: SparkSession, model: Model, counts: Counts, staged: Snapshot | None) -> None:
    allowed = model.config.max_dead_letter_ratio
    if counts.rejected <= allowed * counts.records:
        return
    if staged is not None:
        snapshots.drop_staged(snapshots.load_table(session, model.table), staged)
    raise RunError.of(
        "too-many-dead-letters",
        f"{counts.rejected} of {counts.records} records of this batch cannot be used: more than "
        f"max_dead_letter_ratio={allowed:g} allows. Nothing of the batch was written.",
        fix=f"Look at the records with `lakesql show {model.name} --preview`, or raise the ratio.",
        place=model.option_place("max_dead_letter_ratio"),
    )


def _set_aside(sink: Sink, session: SparkSession, letters: Letters, entry: Entry) -> int:
    """Write the dead letters of a batch that has some, once; how many were written now."""
    model = sink.model
    written = write_dead_letters(session, model, letters, entry)
    if written is None:
        return 0
    table = str(model.table.dead_letter)
    sink.emit(RecordsRejected(model.name, entry.batch, table, written.count, written.reasons, sink.now_ms()))
    return written.count


def _letters(sink: Sink, rows: _Rows, counts: Counts | None = None) -> Letters:
    """The batch's dead letters, by their kinds; of the kinds alone that `counts` has seen."""
    letters: Letters = []
    if rows.records and (counts is None or counts.bad):  # a stateful model's are its companion's to set aside
        letters += _bad_records(sink, rows.records)
    if isinstance(sink.model.config, Upsert) and (counts is None or counts.keyless):
        letters += rejected_rows(rows.frame, rows.records, sink.model.config, sink.bindings)
    return letters


def _bad_records(sink: Sink, records: list[DataFrame]) -> Letters:
    """The rejected ones of each stream's records."""
    return [rejected_records(parsed, binding) for parsed, binding in zip(records, sink.bindings, strict=True)]


# --- 5. publishing


def _publish(
    sink: Sink, session: SparkSession, entry: Entry, snapshot: Snapshot, stage: Callable[[], Snapshot | None]
) -> Snapshot:
    """Make the staged snapshot current. Where a foreign commit came between, a MERGE is staged again on top of it."""
    model, progress = sink.model, sink.progress
    for _ in range(PUBLISH_TRIES):
        try:
            replays = isinstance(model.config, Append)
            return snapshots.publish(
                session, model.table, snapshot, model.name, lambda table: progress.holds(table, entry), replays
            )
        except snapshots.HeadMovedError:
            snapshots.drop_staged(snapshots.load_table(session, model.table), snapshot)
            staged = stage()
            assert staged is not None, "the rows of a batch do not change"
            snapshot = staged
    raise snapshots.conflict(model.table)


def _iso(counts: Counts) -> str:
    """The newest event, as ISO 8601 in UTC; '' where there is none, or it is beyond the years that ISO counts."""
    try:
        return (_EPOCH + timedelta(microseconds=counts.event_us)).isoformat() if counts.event_us is not None else ""
    except OverflowError:
        return ""
