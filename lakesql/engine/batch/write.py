"""One micro-batch, from raw records to a commit that readers see, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import Literal, assert_never

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.batch import (
    CheckDeletes,
    CheckRows,
    FillUnsent,
    KeepRows,
    MakeView,
    ReadBounds,
    Remember,
    RememberMoves,
    TakeTombstones,
    Truncate,
    Write,
    batch_steps,
    made_views,
)
from lakesql.compile.batch import Step as BatchStep
from lakesql.compile.checks import Check, names_of
from lakesql.compile.merge import KeyRange
from lakesql.compile.quote import identifier, table_name, text
from lakesql.compile.select import Select
from lakesql.engine.batch.arrivals import Arrivals
from lakesql.engine.batch.bounds import bounds_pay, match_few, may_match, read_keys
from lakesql.engine.batch.counters import BatchCounters, Counts
from lakesql.engine.batch.cuts import Moves
from lakesql.engine.batch.dead_letter import (
    DeadLetters,
    failed_places,
    rejected_records,
    rejected_rows,
    union_letters,
    unknown_rows,
    write_dead_letters,
)
from lakesql.engine.batch.feed import Feed, open_feed
from lakesql.engine.batch.gather import gather
from lakesql.engine.batch.late import late_letters
from lakesql.engine.batch.letters import take_letters
from lakesql.engine.batch.new_columns import Follow, check_schemas
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.batch.tombstones import Tombstones
from lakesql.engine.ledger import snapshots
from lakesql.engine.ledger.entry import Entry, Snapshot, summary_of, totals_of, whole
from lakesql.engine.maintenance.figures import SnapshotFacts, added_small
from lakesql.engine.maintenance.keeper import Keeper
from lakesql.engine.progress.progress import Progress
from lakesql.engine.progress.replay import ReplayProgress
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import deleted_keys, good_records, unpack
from lakesql.errors import LakesqlError, Problem, RunError
from lakesql.events import BatchCommitted, BatchEmpty, BatchSkipped, Emit, RecordsRejected, now_ms
from lakesql.model.model import Model
from lakesql.names import (
    CHECKED_VIEW,
    FAILED,
    MADE_VIEW,
    ROWS_VIEW,
    TOMBSTONES_VIEW,
    UNKNOWN,
    is_reserved,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Step = Literal["look-up", "view", "stage", "dead-letter", "publish", "finish"]
"""The steps of `write_batch`, and its end."""

PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""The settings of a statement that is planned once, not again after each stage, and whose rows meet in one task."""

PUBLISH_TRIES = 5
"""How often a batch is staged anew because a foreign commit moved the head, before it fails."""

EXAMPLES = 3
"""How many of the rows that stop a model its error shows."""

EXAMPLE_CHARACTERS = 300
"""How much of each."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a model's batches go, and what they need on the way: fixed for as long as its query runs.

    `companion` is the progress of the query that writes a stateful model's dead letters. `arrivals` is what a stateful
    model's query has read in its batch, once its rows have been computed. `letters` are the dead letters that are read
    again, where the batch is their replay. `follow` is told of the columns that an open stream has from now on.
    `reached` is told before each step which one it is, and raises where this runner must not continue.
    """

    select: Select
    bindings: tuple[StreamBinding, ...]
    progress: Progress | ReplayProgress
    table: TableSync
    emit: Emit
    tombstones: Tombstones = field(default_factory=Tombstones)
    moves: Moves = field(default_factory=Moves)
    keeper: Keeper | None = None
    companion: Progress | None = None
    arrivals: Callable[[], Arrivals] | None = None
    letters: DataFrame | None = None
    follow: Follow = lambda stream, schema_fields: None
    reached: Callable[[Step], None] = lambda step: None

    @property
    def model(self) -> Model:
        """The model whose batches these are."""
        return self.select.model


def write_batch(sink: Sink, arrived: DataFrame, batch: int) -> Snapshot | None:
    """Write one batch of a model: `arrived` are its parsed records, or the rows of a stateful SELECT.

    Returns the snapshot that has become the table's head; None where nothing was written to the table.

    The steps, and what a crash after each leaves:

    1. Look the batch up in the ledger; stop if the table holds it.  Nothing.
    2. Make views: of each stream's good records, and of the rows that the SELECT makes of them.  Nothing.
    3. Stage the rows: a snapshot with the ledger entry that no reader sees yet.  A staged snapshot, which is never
       published: the replay stages another.
    4. Write the dead letters, with the same entry.  Dead letters of a batch that is not visible; the replay finds them.
       Where the batch is itself a replay of dead letters, those that do not fail any more are marked instead.
    5. Publish the staged snapshot, which Iceberg checks atomically.  Everything; the replay stops at step 1.
    """
    started = time.monotonic()
    session, model = arrived.sparkSession, sink.model
    sink.reached("look-up")
    entry = sink.progress.entry(batch)
    table = snapshots.load_table(session, model.table)
    if sink.progress.holds(table, entry):
        if sink.select.query.stateful:  # its state store must see every batch, or Spark ends the query
            arrived.write.format("noop").mode("append").save()
        sink.progress.note_written(entry)
        sink.emit(BatchSkipped(model.name, batch, now_ms()))
        return None
    sink.reached("view")
    if not sink.select.query.stateful:
        arrived = gather(arrived, sink.progress.planned)
    rows = _open_rows(sink, session, arrived)
    if rows.is_counted and rows.checked is not None:
        _check_expectations(sink.select, rows.counters.read(), rows.checked)
    sink.reached("stage")
    with ExitStack() as stack:
        write = _prepare_write(sink, table, rows, entry, stack)
        snapshot = _stage(sink, session, write) if write else None
        counts = rows.counters.read()
        try:
            _check_batch(sink, rows, counts, batch)
        except LakesqlError:
            if snapshot is not None:
                snapshots.drop_staged(snapshots.load_table(session, model.table), snapshot)
            raise
        arrivals = sink.arrivals() if sink.arrivals else Arrivals(counts.records, 0)
        sink.progress.check_topics()  # now that all is read
        sink.reached("dead-letter")
        letters = _dead_letters(sink, rows, counts) if counts.rejected else []
        if write and write.unknown is not None:
            letters += unknown_rows(write.unknown, rows.records, sink.bindings)
        if arrivals.late and sink.select.late_text:
            letters += late_letters(session, sink.select, sink.bindings, arrivals.execution)
        rejected = 0
        if sink.letters is not None:  # those that fail still stand there
            take_letters(session, model.table.dead_letter, sink.letters, letters, entry.checkpoint)
        elif letters:
            rejected = _write_dead_letters(sink, session, letters, entry)
        sink.reached("publish")
        if write is None or snapshot is None:
            sink.progress.note_empty(entry)
            late, ignored, at_ms = arrivals.late, counts.ignored, now_ms()
            sink.emit(
                BatchEmpty(model.name, batch, arrivals.records, rejected, at_ms, late, ignored, counts.violations)
            )
            return None

        def prepare_again() -> _PreparedWrite | None:
            return _prepare_write(sink, snapshots.load_table(session, model.table), rows, entry, stack)

        head = _publish(sink, session, write, snapshot, prepare_again)
    sink.progress.note_written(entry, _iso(counts))
    sink.reached("finish")
    commit = SnapshotFacts(head.id, head.parent, now_ms(), head.summary)
    small_files, small_bytes = added_small(commit, snapshots.target_file_bytes(table))
    sink.emit(
        BatchCommitted(
            model=model.name,
            batch=batch,
            records=arrivals.records,
            rows=snapshot.added,
            rejected=rejected,
            snapshot=head.id,
            duration_ms=round((time.monotonic() - started) * 1000),
            event_time=_iso(counts),
            at_ms=now_ms(),
            late=arrivals.late,
            ignored=counts.ignored,
            remembered=write.entry.remembered,
            table=totals_of(head.summary),
            small_files=small_files,
            small_bytes=small_bytes,
            partitions=whole(head.summary, "changed-partition-count") if snapshots.is_partitioned(table) else None,
            is_event_in_ledger=bool(write.entry.event_time),
            violations=rows.counters.read().violations,
        )
    )
    return head


def preview_batch(sink: Sink, arrived: DataFrame) -> tuple[int, dict[str, int]]:
    """How many rows a batch of a stateless model has for its table, and how many dead letters of each reason.

    Writes nothing. Raises `RunError` (`expectation-failed`) where rows would stop the model.
    """
    counters, select, session = BatchCounters(), sink.select, arrived.sparkSession
    records, _ = _open_streams(sink, arrived, counters, Moves())
    checked = None
    if select.writing.is_mirror:
        rows = session.sql(select.text)
    else:
        rows = counters.rows(
            _checked(session, select, session.sql(select.text)), select.writing.not_null, select.checks
        )
        if select.checks:
            checked, rows = rows, _kept(session, select, rows)
    rows.write.format("noop").mode("append").save()
    rows.createOrReplaceTempView(ROWS_VIEW)
    counts = counters.read()
    if checked is not None:
        _check_expectations(select, counts, checked)
    letters = _dead_letters(sink, _Rows(rows, records, (), counters, checked=checked), counts)
    by_reason = union_letters(letters).groupBy("reason").count().collect() if letters else []
    return counts.usable, {row["reason"]: row["count"] for row in by_reason}


def write_dead_letter_batch(sink: Sink, arrived: DataFrame, batch: int) -> None:
    """Write the bad records of one batch of a stateful model's streams: the companion of its streaming query."""
    letters = _bad_records(sink, unpack(arrived, sink.select, sink.bindings))
    if not union_letters(letters).isEmpty():
        session = arrived.sparkSession
        sink.reached("dead-letter")
        entry = sink.progress.entry(batch)
        sink.progress.check_topics()
        _write_dead_letters(sink, session, letters, entry)


# --- 2. the rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the batch, which are the view `_lakesql_rows` too; the records that they are made of, by stream; the
    steps that write them; and what is counted on the way. `is_counted`: they have been made already. `checked` are the
    rows, with those that are set aside, that say what they fail; None where nothing is expected of them, or it is a
    step of the batch."""

    frame: DataFrame
    records: list[DataFrame]
    steps: tuple[BatchStep, ...]
    counters: BatchCounters
    feed: Feed = Feed()
    is_counted: bool = False
    checked: DataFrame | None = None


def _open_rows(sink: Sink, session: SparkSession, arrived: DataFrame) -> _Rows:
    select, counters = sink.select, BatchCounters()
    if select.query.stateful:  # the SELECT has run already: it is the streaming query
        records, feed = list[DataFrame](), Feed()
        rows = counters.stateful_rows(arrived)
    else:
        records, feed = _open_streams(sink, arrived, counters, sink.moves)
        rows = session.sql(select.text)
    steps = batch_steps(select, sink.table.columns(rows.schema))
    writing = select.writing
    checks = () if writing.is_mirror else select.checks
    if checks:
        rows = _checked(session, select, rows)
    if checks or writing.not_null or (writing.empty_when == "no rows arrived" and not writing.is_mirror):
        rows = counters.rows(rows, writing.not_null, checks)
    is_counted = False
    is_read_again = writing.not_null or any(isinstance(step, ReadBounds) for step in steps)
    is_read_again = is_read_again or names_of(checks, "dead_letter", "stop")
    # What stops the model is to be known before anything is remembered. A history reads its batch several times.
    remembers = any(isinstance(step, Remember) for step in steps)
    is_needed_now = (names_of(checks, "stop") and remembers) or (checks and writing.is_history)
    if (
        is_needed_now
        or select.has_unsteady_checks
        or (is_read_again and (select.query.reads_tables or select.query.stateful))
    ):
        # Made once, and for good. Spark reads a table's newest version whenever a plan is run, also where its rows are
        # persisted: the keys that bound the MERGE, its rows and the dead letters could be of three versions. Rows of a
        # stateful SELECT, with its state, would be made anew where another model's session replaces a view: Spark then
        # forgets whatever is persisted, in any session, by a plan that has a view of that name.
        rows, is_counted = rows.localCheckpoint(), True
    checked = rows if checks else None
    if checks:
        rows = _kept(session, select, rows)
    rows.createOrReplaceTempView(ROWS_VIEW)
    return _Rows(rows, records, steps, counters, feed, is_counted, checked)


def _checked(session: SparkSession, select: Select, made: DataFrame) -> DataFrame:
    """The rows of the SELECT, each with what it fails, if anything is expected of them."""
    if not select.checks:
        return made
    made.createOrReplaceTempView(MADE_VIEW)
    return session.sql(_query_of(select, CHECKED_VIEW))


def _kept(session: SparkSession, select: Select, checked: DataFrame) -> DataFrame:
    """Those of the rows whose records do not become dead letters by what they fail."""
    checked.createOrReplaceTempView(CHECKED_VIEW)
    return session.sql(_query_of(select, ROWS_VIEW))


def _query_of(select: Select, view: str) -> str:
    return next(made.query for made in made_views(select) if made.name == view)


def _open_streams(
    sink: Sink, arrived: DataFrame, counters: BatchCounters, moves: Moves
) -> tuple[list[DataFrame], Feed]:
    """The records of each stream, and a view of the good ones under the stream's name: of a feed that is mirrored, of
    the rows that its changes leave."""
    all_records, feed = unpack(arrived, sink.select, sink.bindings), Feed()
    for binding, records in zip(sink.bindings, all_records, strict=True):
        counted = counters.stream(records, binding.stream, sink.select)
        good = good_records(counted)
        if sink.select.writing.is_mirror:
            feed = open_feed(arrived.sparkSession, sink.select, binding, good, counters, moves)
        else:
            good.createOrReplaceTempView(identifier(binding.stream.name))
    return all_records, feed


# --- 3. staging


@dataclass(frozen=True, slots=True)
class _PreparedWrite:
    """The statement that writes the rows, with the entry that its snapshot gets. It may be run again.

    `new` is the one that does it to a table that has no row of these keys, where `new_to`, its head, was seen to have
    none. `unknown` are the rows of which a value is nowhere to be found. `is_of_table`: what is written is made of the
    table's rows too, or of there being none, and is made anew where these have changed. `is_small`: few rows of the
    batch and of the table are all that it joins.
    """

    statement: str
    new: str
    new_to: int | None
    is_unchecked: bool
    entry: Entry
    counters: BatchCounters
    unknown: DataFrame | None = None
    is_of_table: bool = False
    is_small: bool = False


def _prepare_write(
    sink: Sink, table: snapshots.JavaTable, rows: _Rows, entry: Entry, stack: ExitStack
) -> _PreparedWrite | None:
    """Take the steps before the write: views, and the keys that bound it. None where there is no row to write."""
    session, model = rows.frame.sparkSession, sink.model
    frames = {view.name: rows.frame for view in made_views(sink.select)}  # which are there
    bounds, unknown = tuple[KeyRange, ...](), None
    is_counted, is_bounded, is_sequenced = rows.is_counted, False, False
    write = rows.steps[-1]
    is_first = isinstance(write, Write) and write.new is not None and snapshots.is_empty(table)
    for step in rows.steps:
        match step:
            case MakeView(name=name, query=query):
                if name not in frames:
                    frames[name] = session.sql(query)
                    frames[name].createOrReplaceTempView(name)
            case CheckDeletes() if is_first:
                pass  # there is nothing to delete
            case CheckDeletes(view=view, ratio=ratio, condition=condition):
                deletes = _keep(frames[view], stack).where(condition)
                _check_deletes(sink.select, ratio, deletes, rows.feed.truncate, table)
            case RememberMoves() if rows.feed.is_cut:
                found = read_keys(session.sql(step.keys), sink.select.writing.keys)
                sink.moves.remember(session, sink.table, step, found or ())
            case RememberMoves():
                pass
            case ReadBounds() if rows.feed.truncate or (is_first and not sink.select.query.stateful):
                pass  # all of the table is looked at, or nothing
            case ReadBounds(view=view, keys=keys, margins_ms=margins_ms):
                # What makes the rows runs in each statement that reads them: a stateful SELECT, with its state, once.
                if sink.select.query.stateful or bounds_pay(snapshots.read_history(table), model.name):
                    kept = _keep(frames[view], stack)
                    if session.conf.get("spark.sql.adaptive.enabled") != "true":
                        kept.count()  # all of it, which is counted: a look at some keys would stop before the last task
                    found, is_counted, is_bounded = read_keys(kept, keys, margins_ms), True, True
                    if found is None and not rows.counters.read().tombstones:
                        return None
                    bounds = found or ()
                    late = sink.arrivals().late if sink.arrivals else 0
                    entry = replace(entry, event_time=_iso(rows.counters.read()), late=late)
            case FillUnsent(view=view, query=query, known=known):
                if rows.counters.read().unsent:
                    filled = session.sql(query.text(bounds)).localCheckpoint()
                    unknown = filled.where(UNKNOWN)
                    frames[view] = filled.where(known).drop(UNKNOWN)
                    frames[view].createOrReplaceTempView(view)
            case CheckRows(view=view, query=query):
                checked = session.sql(query)
                frames[view] = rows.counters.checked(checked, sink.select.checks).localCheckpoint()
                frames[view].createOrReplaceTempView(view)
                _check_expectations(sink.select, rows.counters.read(), frames[view])
            case TakeTombstones(name=name, rows=query, newest=newest, keys=keys):
                deleted = deleted_keys(rows.records[0], sink.select.feed_keys)
                if rows.counters.read().tombstones if is_counted else deleted.count():
                    deleted = deleted.localCheckpoint()
                    deleted.createOrReplaceTempView(TOMBSTONES_VIEW)
                    session.sql(query.text(read_keys(deleted, keys) or ())).createOrReplaceTempView(name)
                    frames[newest.name] = session.sql(newest.query)
                    frames[newest.name].createOrReplaceTempView(newest.name)
                    bounds = read_keys(_keep(frames[newest.name], stack), keys) or () if is_bounded else ()
                    is_sequenced = len(query.parts) > 1
            case KeepRows(name=name, query=query):
                frames[name] = session.sql(query.text(bounds)).localCheckpoint()
                frames[name].createOrReplaceTempView(name)
            case Remember(view=view, condition=condition):
                if rows.feed.truncate or not _keep(frames[view], stack).where(condition).isEmpty():
                    entry = replace(entry, remembered=sink.tombstones.remember(session, model.table, step))
            case Write(is_unchecked=is_unchecked):
                if sink.select.checks and (is_counted or sink.select.writing.is_mirror):  # its rows are checked by now
                    entry = replace(entry, violations=rows.counters.read().violations)
                merge = step.truncating_text(rows.feed.truncate) if rows.feed.truncate else step.text(bounds)
                is_small = _is_small(sink, table, bounds)
                is_new = is_first or (step.new is not None and not rows.feed.truncate and not may_match(table, bounds))
                return _PreparedWrite(
                    statement=merge,
                    new=step.new.text(bounds) if is_new and step.new else "",
                    new_to=snapshots.head_of(table),
                    is_unchecked=is_unchecked,
                    entry=entry,
                    counters=rows.counters,
                    unknown=unknown,
                    is_of_table=is_new or is_sequenced or unknown is not None or sink.select.writing.is_history,
                    is_small=is_small,
                )
            case _:
                assert_never(step)
    raise AssertionError("the last step of a batch is its write")


def _is_small(sink: Sink, table: snapshots.JavaTable, bounds: tuple[KeyRange, ...]) -> bool:
    """Whether few rows of the table can match. Of a file that is written anew, all rows are joined."""
    writing = sink.select.writing
    has_few = bool(writing.keys) and not writing.is_history and match_few(bounds, writing.keys)
    return has_few and not snapshots.rewrites_files(table)


def _check_deletes(
    select: Select, allowed: float, deletes: DataFrame, truncate: Truncate | None, table: snapshots.JavaTable
) -> None:
    """Raise `RunError` (`too-many-deletes`) for a batch that would delete more of the table's rows than it may.

    Most changes of a mirror that filters may be of rows that it does not have: where all are too many, keys are looked
    up.
    """
    model, head = select.model, next(snapshots.read_history(table), None)
    live = head.live if head else 0
    found = deletes.count() if live and not truncate else 0
    if found > allowed * live:
        stored = deletes.sparkSession.table(table_name(model.table))
        same = (stored[identifier(key)] == deletes[identifier(key)] for key in select.writing.keys)
        found = deletes.join(stored, reduce(and_, same), "left_semi").count()
    if live and (truncate or found > allowed * live):
        what = "truncates the table" if truncate else f"deletes {found:,} of the {live:,} rows of its table"
        raise RunError.of(
            "too-many-deletes",
            f"This batch of model '{model.name}' {what}: more than max_delete_ratio={allowed:g} allows. Nothing of it "
            "was written.",
            fix=f"See whether the source means it (`lakesql show {model.name} --preview`). If it does, run once with a "
            f"higher ratio: lakesql run --once --select {model.name}",
            place=model.option_place("max_delete_ratio"),
        )


def _keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """The frame, whose rows are kept in memory from the first time that they are made until `stack` ends."""
    if not frame.is_cached:
        frame.persist()
        stack.callback(frame.unpersist)
    return frame


def _stage(sink: Sink, session: SparkSession, write: _PreparedWrite) -> Snapshot | None:
    """Write the rows into a staged snapshot; one that turns out to change nothing is dropped again."""
    table_name = sink.model.table
    table = snapshots.load_table(session, table_name) if write.is_unchecked or write.new else None
    head = snapshots.head_of(table) if table is not None else None
    is_new = bool(write.new) and head == write.new_to
    settings = {**(snapshots.merge_settings(table) if is_new else {}), **(PLANNED_ONCE if write.is_small else {})}
    with snapshots.commit_properties(session, summary_of(write.entry), write.entry.wap_id, settings):
        session.sql(write.new if is_new else write.statement)
    table = snapshots.load_table(session, table_name)
    snapshot = snapshots.staged_snapshot(table, write.entry.wap_id)
    assert snapshot is not None, "the write was not staged"
    if (write.is_unchecked or is_new) and snapshot.parent != head:
        snapshots.drop_staged(table, snapshot)
        raise snapshots.conflict(table_name)
    match sink.select.writing.empty_when:
        case "no rows added":
            is_empty = not snapshot.added
        case "no rows arrived":
            counts = write.counters.read()
            is_empty = not (counts.usable or counts.tombstones)
    if is_empty:
        snapshots.drop_staged(table, snapshot)
        return None
    return snapshot


# --- 4. dead letters


def _check_batch(sink: Sink, rows: _Rows, counts: Counts, batch: int) -> None:
    """Raise where the batch must not be published as it was staged."""
    if counts.reshaped and rows.records:
        streams = zip((binding.stream for binding in sink.bindings), rows.records, strict=True)
        check_schemas(sink.model, batch, streams, sink.follow, sink.emit)
    if rows.checked is not None:
        _check_expectations(sink.select, counts, rows.checked)
    if sink.letters is None:
        _check_ratio(sink.model, counts)


def _check_expectations(select: Select, counts: Counts, checked: DataFrame) -> None:
    """Raise `RunError` (`expectation-failed`) where some of the checked rows must not be seen."""
    failing = dict(counts.violations)
    stopping = [check for check in select.checks if check.on_fail == "stop" and check.name in failing]
    if stopping:
        raise RunError(_say_failed(select.model, check, failing[check.name], checked) for check in stopping)


def _say_failed(model: Model, check: Check, number: int, checked: DataFrame) -> Problem:
    columns = [identifier(name) for name in checked.columns if not is_reserved(name)]
    failing = checked.where(f"array_contains({FAILED}, {text(check.name)})").selectExpr(
        f"to_json(struct({', '.join(columns)})) AS row"
    )
    found = [str(row["row"]) for row in failing.limit(EXAMPLES).collect()]
    shown = (each if len(each) <= EXAMPLE_CHARACTERS else f"{each[:EXAMPLE_CHARACTERS]}…" for each in found)
    said = "" if check.name == check.condition else f" ({check.condition})"
    rows = "1 row" if number == 1 else f"{number:,} rows"
    return Problem(
        "expectation-failed",
        f"{rows} of this batch of model '{model.name}' fail{'s' if number == 1 else ''} '{check.name}'{said}. Nothing "
        "of the batch was written.",
        f"For instance: {'; '.join(shown)}",
        place=check.place,
    )


def _check_ratio(model: Model, counts: Counts) -> None:
    allowed = model.config.max_dead_letter_ratio
    if counts.rejected <= allowed * counts.records:
        return
    raise RunError.of(
        "too-many-dead-letters",
        f"{counts.rejected} of {counts.records} records of this batch cannot be used: more than "
        f"max_dead_letter_ratio={allowed:g} allows. Nothing of the batch was written.",
        fix=f"Look at the records with `lakesql show {model.name} --preview`, or raise the ratio.",
        place=model.option_place("max_dead_letter_ratio"),
    )


def _write_dead_letters(sink: Sink, session: SparkSession, letters: DeadLetters, entry: Entry) -> int:
    """Write the dead letters of a batch that has some, once; how many were written now."""
    model = sink.model
    written = write_dead_letters(session, model, letters, entry)
    if written is None:
        return 0
    table = str(model.table.dead_letter)
    sink.emit(RecordsRejected(model.name, entry.batch, table, written.count, written.reasons, now_ms()))
    return written.count


def _dead_letters(sink: Sink, rows: _Rows, counts: Counts) -> DeadLetters:
    """The batch's dead letters, by their kinds; of the kinds alone that `counts` has seen."""
    letters: DeadLetters = []
    if rows.records and counts.bad:  # a stateful model's are its companion's to write
        letters += _bad_records(sink, rows.records)
    if counts.keyless or counts.set_aside:
        failed = None
        if rows.checked is not None and counts.set_aside:
            failed = failed_places(rows.checked, sink.select.checks)
        letters += rejected_rows(rows.frame, rows.records, sink.select.writing, sink.bindings, failed)
    return letters


def _bad_records(sink: Sink, records: list[DataFrame]) -> DeadLetters:
    """The rejected ones of each stream's records."""
    return [rejected_records(parsed, binding) for parsed, binding in zip(records, sink.bindings, strict=True)]


# --- 5. publishing


def _publish(
    sink: Sink,
    session: SparkSession,
    write: _PreparedWrite,
    snapshot: Snapshot,
    prepare_again: Callable[[], _PreparedWrite | None],
) -> Snapshot:
    """Make the staged snapshot current. One that may not be replayed on top of a foreign commit is staged again."""
    model, progress, can_replay, entry = sink.model, sink.progress, sink.select.writing.can_replay, write.entry
    for _ in range(PUBLISH_TRIES):
        try:
            return snapshots.publish(
                session,
                model.table,
                snapshot,
                progress.identity.owner,
                lambda table: progress.holds(table, entry),
                can_replay,
            )
        except snapshots.HeadMovedError:
            snapshots.drop_staged(snapshots.load_table(session, model.table), snapshot)
            if write.is_of_table:
                again = prepare_again()
                assert again is not None, "the rows of a batch do not change"
                write = again
            staged = _stage(sink, session, write)
            assert staged is not None, "the rows of a batch do not change"
            snapshot = staged
    raise snapshots.conflict(model.table)


def _iso(counts: Counts) -> str:
    """The newest event, as ISO 8601 in UTC; '' where there is none, or it is beyond the years that ISO counts."""
    try:
        return (_EPOCH + timedelta(microseconds=counts.event_us)).isoformat() if counts.event_us is not None else ""
    except OverflowError:
        return ""
