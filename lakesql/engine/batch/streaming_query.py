"""How the streaming query of a model runs: from its streams to `write_batch`, started,
watched and stopped."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakesql.counts import count
from lakesql.engine.batch.planned_query import PlannedQuery
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.stream_views import view_stream
from lakesql.engine.batch.unreadable_files import check_empty, set_aside
from lakesql.engine.batch.watermark import (
    count_arrivals,
    find_waiting,
    leave_out_ahead,
    read_arrivals,
)
from lakesql.engine.batch.write import pass_batch, write_batch, write_dead_letter_batch
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.taken_files import TakenFiles, without_unreadable
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.csv_headers import refuse_other_headers
from lakesql.engine.sources.parsed import (
    good_records,
    name_raw,
    parse_binding,
    read_records,
)
from lakesql.engine.sources.raw import planned_batches, read_raw, taken_at_once
from lakesql.engine.sources.spark_source import (
    BatchPutOffError,
    PlannedBatches,
    Planning,
)
from lakesql.engine.spark.arrow import ALLOCATOR_CLEANER
from lakesql.engine.spark.few_rows import changed_settings
from lakesql.errors import FilesSetAside
from lakesql.events import FilesLeftOut, Noted, PartitionLag
from lakesql.ledger.entry import Snapshot
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.names import RAW, REBUILD_SUFFIX
from lakesql.progress.position import even_limit
from lakesql.project.catalog import LOCAL_FILES
from lakesql.source.cluster import lag_of, numbered
from lakesql.source.log import BEHIND_MS
from lakesql.source.source import BacklogUnit, offsets_of

_log = logging.getLogger(__name__)

BatchWriter = Callable[[Sink, DataFrame, int], Snapshot | None]
WAITS_FOR_SOURCES_S = 10.0
"""How long a query that was asked to stop may go on asking its sources for new data
before it is interrupted: with a broker that does not answer, that would take
minutes."""


MOVES_FOR_S = 1.0
"""How long files that were read are moved or deleted in one step: the run's loop waits
for it."""

END_POLL_S = 0.05

FULL = 0.9
"""From which share of `max_per_batch` on a batch counts as full: Spark rounds the limit
per partition."""


class _Stopped(Exception):  # noqa: N818  not an error: it ends a query that was asked to stop
    """Raised at the start of a batch that is no longer to be written. Nothing of the
    batch has happened yet."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a query has still to read, as its sources reported it last.

    `is_busy` until they have reported for the first time, and while a batch is being
    written; in between, the query waits for new data. A query that ends by itself is
    busy until it ends.
    """

    count: int | None
    unit: BacklogUnit
    lag: tuple[PartitionLag, ...] = ()
    is_busy: bool = False


@dataclass(slots=True)
class _WrittenBatches:
    """What the batch handler of a query shares with the query: why a batch failed,
    which queries are writing one, and whether a batch was not begun because of a stop.

    The handler must not refer to the query. Java keeps the handler for as long as the
    query exists in Java, which is as long as Python refers to the query: a reference
    from the handler to the query would keep both alive forever.
    """

    stopping: threading.Event = field(default_factory=threading.Event)
    writing: set[str] = field(default_factory=set)
    was_stopped: bool = False
    failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Record why the first failing batch failed."""
        self.failure = self.failure or error


class ModelQuery:
    """The running query of a model; a stateful model has a second one beside it that
    writes its dead letters.

    It stops between batches: a stop in the middle of one makes Spark print what looks
    like a crash. With `takes_files`, files that were read are moved or deleted if their
    stream is configured so. With `rests`, the query is started again whenever there is
    something to read, and its table is maintained like that of a query that runs all
    the time.
    """

    def __init__(
        self, sink: Sink, takes_files: bool = False, rests: bool = False
    ) -> None:
        self.sink = sink
        self._takes_files = takes_files
        self._rests = rests
        self._taken: TakenFiles | None = None
        self._is_to_follow = threading.Event()
        self._batches = _WrittenBatches()
        self._queries: list[StreamingQuery | PlannedQuery] = []
        self._asked_at: float | None = None
        self._at_end: threading.Thread | None = None
        self._ends_by_itself = False

    def start(self, session: SparkSession, trigger: Trigger) -> None:
        """Start reading. `session` is the model's own: its views are named after
        streams."""
        self._ends_by_itself = isinstance(trigger, AvailableNow)
        self._taken = self._open_taken(session)
        self.sink = _without_unreadable(session, self.sink)
        self.sink = _named(self.sink, self._ends_by_itself)
        self.sink = (
            _evened(self.sink)
            if self._ends_by_itself and self.sink.seat is None
            else self.sink
        )
        select, bindings = self.sink.select, self.sink.bindings
        identity = self.sink.progress.identity
        open_files = partial(CheckpointFiles, session)
        planning = Planning(
            self.sink.model.name,
            open_files(identity.folder),
            self.sink.emit,
            open_files,
        )
        planned: PlannedBatches | None = self.sink.seat
        if planned is None and not select.query.stateful:
            planned = planned_batches(session, bindings, planning)
        if planned is not None:
            handle = self._handler(self.sink, write_batch, trigger, session)
            query = PlannedQuery(
                session, identity.owner, identity.folder, planned, handle, trigger
            )
            self._queries.append(query.start())
            self._watch_end(session)
            return
        if not select.query.stateful:
            self._start(
                read_records(session, bindings),
                self.sink,
                write_batch,
                "append",
                trigger,
            )
            self._watch_end(session)
            return
        sink = replace(
            self.sink, arrivals=lambda: read_arrivals(session, identity.owner)
        )
        self._start(
            self._stateful_rows(session),
            sink,
            write_batch,
            select.writing.output_mode,
            trigger,
        )
        assert self.sink.companion is not None
        companion = _without_unreadable(
            session, replace(self.sink, progress=self.sink.companion)
        )
        companion = _named(companion, self._ends_by_itself)
        self._start(
            read_records(session, companion.bindings),
            companion,
            write_dead_letter_batch,
            "append",
            trigger,
        )
        self._watch_end(session)

    def step(self) -> None:
        """Move or delete the files of batches that are done, for a moment. The batches
        themselves run without it."""
        if self._taken is None or not self._is_to_follow.is_set():
            return
        try:
            if self._taken.follow(MOVES_FOR_S):
                self._is_to_follow.clear()
        except Exception as error:
            self._batches.fail(error)

    def _open_taken(self, session: SparkSession) -> TakenFiles | None:
        """The mover of files that were read, or None if no stream's files are moved or
        deleted. Files left by earlier runs are moved now."""
        sink = self.sink
        if not self._takes_files or not any(
            binding.takes_away for binding in sink.bindings
        ):
            return None
        queries = (
            [sink.progress, sink.companion]
            if sink.companion is not None
            else [sink.progress]
        )

        def tell(stream: str, why: str) -> None:
            sink.emit(FilesLeftOut(sink.model.name, stream, why))

        folders = [query.identity.folder for query in queries]
        taken = TakenFiles(
            session, folders, sink.bindings, tell, self._batches.stopping.is_set
        )
        taken.begin()
        return taken

    def _finish_taken(self) -> None:
        """Move or delete what is left once the query has ended, and report how many
        files there were."""
        if self._taken is None:
            return
        self._taken.follow()
        if self._taken.moved:
            text = f"{count(self._taken.moved, 'file')} that were read are archived or deleted, as their streams say"
            self.sink.emit(Noted(text, self.sink.model.name))

    def is_active(self) -> bool:
        """Whether one of its queries still runs, or its tables are being maintained."""
        return any(query.isActive for query in self._queries) or (
            self._at_end is not None and self._at_end.is_alive()
        )

    def error(self) -> Exception | None:
        """Why it ended, if it failed: the exception of `write_batch`, or Spark's; None
        otherwise."""
        if self._batches.failure is not None:
            return self._batches.failure
        if self._batches.stopping.is_set():
            return None
        ended = (query.exception() for query in self._queries if not query.isActive)
        return next((error for error in ended if error is not None), None)

    def request_stop(self) -> None:
        """Let the batch that is being written finish, and begin no other. Called again,
        stops the queries that are idle by now.

        `is_active` tells when all have stopped.
        """
        self._batches.stopping.set()
        self._asked_at = self._asked_at or time.monotonic()
        is_late = time.monotonic() - self._asked_at > WAITS_FOR_SOURCES_S
        for query in self._queries:
            is_idle = query.isActive and not query.status["isTriggerActive"]
            if is_idle or (
                is_late and query.isActive and query.name not in self._batches.writing
            ):
                self._batches.was_stopped = True
                query.stop()

    def was_stopped(self) -> bool:
        """Whether it ended because of a stop while there was, or may have been, another
        batch to write."""
        return self._batches.was_stopped

    def progress(self) -> tuple[float, Backlog]:
        """Records per second of the last batch, and what is left to read."""
        unit = unit_of(self.sink.bindings)
        reports = [query.lastProgress for query in self._queries]
        last = reports[0] if reports else None
        if last is None:
            return 0.0, Backlog(None, unit, is_busy=True)
        report: Any = json.loads(last.json)
        backlog = backlog_of(report["sources"], unit)
        if backlog.count is not None:
            self.sink.progress.note_backlog(f"{backlog.count} {unit}")
        is_busy = (
            self._ends_by_itself
            or bool(self._batches.writing)
            or any(each is None for each in reports)
        )
        return float(report["processedRowsPerSecond"]), replace(
            backlog, is_busy=is_busy
        )

    def _watch_end(self, session: SparkSession) -> None:
        """For a query that ends by itself, start a thread that waits for its end, then
        reports what waits in its state and maintains the model's tables."""
        sink, keeper, batches = self.sink, self.sink.keeper, self._batches
        is_stateful = sink.select.query.stateful
        if (
            self._rests
            or not self._ends_by_itself
            or (keeper is None and not is_stateful and self._taken is None)
        ):
            return

        def at_end() -> None:
            try:
                while any(query.isActive for query in self._queries):
                    time.sleep(END_POLL_S)
                if batches.failure is not None or any(
                    query.exception() for query in self._queries
                ):
                    return
                last = self._queries[0].lastProgress if is_stateful else None
                if last is not None:
                    waiting = find_waiting(sink.select, json.loads(last.json))
                    if waiting is not None:
                        sink.emit(waiting)
                self._finish_taken()
                if keeper is not None:
                    keeper.at_end(session, batches.stopping.is_set)
            except Exception as error:
                batches.fail(error)

        self._at_end = threading.Thread(
            target=at_end, name=f"maintain {self.sink.model.name}", daemon=True
        )
        self._at_end.start()

    def _stateful_rows(self, session: SparkSession) -> DataFrame:
        """The author's SELECT as a streaming query over the good records of its
        streams."""
        select = self.sink.select
        for binding in self.sink.bindings:
            raw = refuse_other_headers(read_raw(session, binding), binding).alias(
                name_raw(binding.stream)
            )
            has_watermark = binding.stream.watermark is not None
            records = parse_binding(raw, binding, select, keep_raw=has_watermark)
            records = good_records(count_arrivals(records, binding.stream))
            if has_watermark:
                records = leave_out_ahead(records, binding).drop(RAW)
            view_stream(records, binding.stream, select, is_streaming=True)
        return session.sql(select.text)

    def _handler(
        self, sink: Sink, write: BatchWriter, trigger: Trigger, session: SparkSession
    ) -> Callable[[DataFrame | None, int], None]:
        """The function that is called with each batch, or with None for a batch that
        has nothing for the model."""
        batches = self._batches
        takes_all = isinstance(trigger, AvailableNow) and not self._rests

        def handle(batch_rows: DataFrame | None, batch: int) -> None:
            if batches.stopping.is_set():
                batches.was_stopped = True
                raise _Stopped
            if batch_rows is None:
                pass_batch(sink, batch)
                return
            batches.writing.add(sink.progress.identity.owner)
            try:
                with ALLOCATOR_CLEANER.reading():
                    check_empty(sink, session, batch, batch_rows)
                    head = write(sink, batch_rows, batch)
                    self._is_to_follow.set()
                    if head is not None and sink.keeper is not None:
                        is_behind = takes_all or _is_full(sink)
                        sink.keeper.after_batch(
                            batch_rows.sparkSession, head.summary, is_behind
                        )
            except BatchPutOffError:
                # the next try asks the tables again
                sink.moves.is_open = None
                raise
            except Exception as error:
                batches.stopping.set()
                batches.fail(
                    FilesSetAside()
                    if _may_start_anew(sink, session, batch, batch_rows, error)
                    else error
                )
                raise
            finally:
                batches.writing.discard(sink.progress.identity.owner)

        return handle

    def _start(
        self,
        rows: DataFrame,
        sink: Sink,
        write: BatchWriter,
        mode: Any,
        trigger: Trigger,
    ) -> None:
        identity = sink.progress.identity
        handle = self._handler(sink, write, trigger, rows.sparkSession)
        writer = rows.writeStream.foreachBatch(handle).outputMode(mode)
        writer = writer.option("checkpointLocation", identity.folder).queryName(
            identity.owner
        )
        at_once = (
            taken_at_once(sink.bindings) if isinstance(trigger, AvailableNow) else ()
        )
        is_to_be_ended = bool(at_once) and len(at_once) == len(sink.bindings)
        # nothing else would end it while producers go on to send
        if at_once and not is_to_be_ended:
            names = ", ".join(binding.stream.name for binding in at_once)
            text = f"one batch of {names} is taken in this run, the rest in the next ones, as other streams are read too"
            sink.emit(Noted(text, sink.model.name))
        match trigger:
            case AvailableNow() if is_to_be_ended:
                writer = writer.trigger(processingTime="0 seconds")
            case AvailableNow():
                writer = writer.trigger(availableNow=True)
            case Every(interval_ms=interval_ms):
                writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        with changed_settings(
            rows.sparkSession, _checkpoint_settings(rows.sparkSession, sink)
        ):
            query = writer.start()
        self._queries.append(query)
        if is_to_be_ended:
            threading.Thread(
                target=_end, args=(query,), name=f"end of {identity.owner}", daemon=True
            ).start()


def _named(sink: Sink, is_bounded: bool) -> Sink:
    """The sink with bindings that know the name of the query that reads them, and
    whether it ends by itself.

    The query of a rebuild has no name: a broker that keeps what a query has not read
    yet must keep it for the live query.
    """
    identity = sink.progress.identity
    is_rebuild = REBUILD_SUFFIX in identity.folder.rpartition("/")[2]
    owner = "" if is_rebuild else identity.owner
    named = tuple(
        replace(each, query=owner, is_bounded=is_bounded) for each in sink.bindings
    )
    # a query that is started again keeps what it knows of its parsing
    return sink if named == sink.bindings else sink.over(named)


def _evened(sink: Sink) -> Sink:
    """The sink with batches of equal size, for a query that ends once it has read the
    backlog: see `even_limit`."""
    bindings = []
    for binding in sink.bindings:
        limit, backlog = (
            binding.stream.max_per_batch,
            sink.progress.backlog_of(binding.stream.name),
        )
        if limit and backlog:
            binding = replace(
                binding,
                stream=replace(
                    binding.stream, max_per_batch=even_limit(backlog, limit)
                ),
            )
        bindings.append(binding)
    return sink.over(tuple(bindings))


def _end(query: StreamingQuery) -> None:
    """Stop a query once it has read all that its streams have."""
    with suppress(Exception):  # the query has it too
        query.processAllAvailable()
    query.stop()


def _without_unreadable(session: SparkSession, sink: Sink) -> Sink:
    """The sink without the unreadable files that this query has set aside."""
    return sink.over(
        without_unreadable(session, sink.progress.identity.folder, sink.bindings)
    )


def _may_start_anew(
    sink: Sink, session: SparkSession, batch: int, rows: DataFrame, error: Exception
) -> bool:
    """Whether a query whose batch has failed can be started again, because the
    unreadable files of the batch were set aside."""
    try:
        return set_aside(sink, session, batch, rows, error) or isinstance(
            error, FilesSetAside
        )
    except Exception:  # what has failed first is to be told
        _log.exception("The files of a batch that has failed cannot be looked at")
        return False


def _checkpoint_settings(session: SparkSession, sink: Sink) -> dict[str, str]:
    """The settings by which a query writes its checkpoint without starting `chmod` for
    each file, as its catalog writes tables.

    They hold for everything that the query does, so it must read no files: see
    `LOCAL_FILES`.
    """
    if any(binding.glob is not None for binding in sink.bindings):
        return {}
    own = f"spark.sql.catalog.{sink.model.table.catalog}"
    found = {
        key.removeprefix("hadoop."): session.conf.get(f"{own}.{key}", None)
        for key in LOCAL_FILES
    }
    return {key: value for key, value in found.items() if value is not None}


def _is_full(sink: Sink) -> bool:
    """Whether the batch is as large as a batch may be, so that more records are
    probably waiting."""
    limit = sum(binding.stream.max_per_batch or 0 for binding in sink.bindings)
    return (
        bool(limit)
        and sink.progress.planned is not None
        and sink.progress.planned >= FULL * limit
    )


def unit_of(bindings: Iterable[StreamBinding]) -> BacklogUnit:
    """The unit of these streams' backlog: records if one of them counts records,
    otherwise files."""
    return (
        "records"
        if any(binding.source.backlog_unit == "records" for binding in bindings)
        else "files"
    )


def backlog_of(sources: Sequence[Mapping[str, Any]], unit: BacklogUnit) -> Backlog:
    """What is left to read, summed over the sources that count in this unit; its count
    is None before they have reported. For logs that do not count records, it is the
    longest time that one of them is behind.

    Spark's own metrics have no sum of a topic's lag, only the largest and smallest of
    its partitions.
    """
    lag: list[PartitionLag] = []
    files: list[int] = []
    for source in sources:
        latest = offsets_of(source.get("latestOffset"))
        if latest:
            behind = lag_of(numbered(source.get("endOffset")), numbered(latest))
            lag += [
                PartitionLag(topic, partition, records)
                for topic, partitions in behind.items()
                for partition, records in partitions.items()
            ]
        metrics = source.get("metrics") or {}
        if "numFilesOutstanding" in metrics:
            files.append(int(metrics["numFilesOutstanding"]))
    behind_ms = [int(source[BEHIND_MS]) for source in sources if BEHIND_MS in source]
    if unit == "records" and behind_ms and not lag:
        return Backlog(max(behind_ms), "ms")
    if unit == "records":
        return Backlog(
            sum(each.records for each in lag) if lag else None, unit, tuple(lag)
        )
    return Backlog(sum(files) if files else None, unit)
