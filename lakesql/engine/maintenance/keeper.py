"""Maintains the tables of one model: between two of its batches, and at the end of a run that ends by itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, assert_never
from uuid import uuid4

from pyspark.sql import Row, SparkSession

from lakesql.clock import now_ms
from lakesql.compile.maintenance import call_text, iceberg_options, partitions_text
from lakesql.compile.quote import table_name
from lakesql.engine.ledger.snapshots import JavaTable, load_table, read_history, read_json, table_exists
from lakesql.engine.maintenance.orphans import Sweep, remove_orphans
from lakesql.engine.maintenance.partitions import read_partitions
from lakesql.engine.maintenance.planned import plan_rewrite
from lakesql.engine.maintenance.protect import Reader, find_needed, tag_entries
from lakesql.engine.spark.arrow import ALLOCATOR_CLEANER
from lakesql.engine.spark.failure import read_cause
from lakesql.events import Emit, MaintenanceFailed, Noted, TableMaintained
from lakesql.ledger.entry import totals_of
from lakesql.model.config import SortField
from lakesql.model.retention import GC_ENABLED
from lakesql.model.table_name import TableName
from lakesql.model.upkeep import MaintenanceTask
from lakesql.names import MAINTAINED_PROPERTY, MAINTENANCE_PROPERTY
from lakesql.project.procedures import (
    AT_END,
    BYTES_PER_MS,
    HOUR_MS,
    RECENT,
    RESTS_MS,
    TAKES_IN,
    WHOLE_EVERY,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    group_files,
    spared_bytes,
)
from lakesql.table.due import AT_ONCE, URGENT, KnownAmounts, find_due, follows, time_left_ms, why_due
from lakesql.table.expiry import count_older, expires_before_ms, goes_further, snapshots_kept
from lakesql.table.maintenance_record import MaintenanceRecord, parse_record, render_record
from lakesql.table.metadata import TableMetadata, parse_metadata
from lakesql.table.uncompacted import Uncompacted, count_commit, measure_uncompacted

MaintenanceStep = Literal["maintain", "maintained"]
"""Before each procedure, and after it."""

LOOKS_AGAIN_MS = 60_000
"""How long a look at a table's metadata is good for, where its commits do not say that something is due."""

MEASURED_BYTES = 32 * 1024**2
"""From how many bytes on the time of a rewrite says how fast the next one will be: planning it takes a second."""

TRIES = 3
"""How often a procedure is called where somebody else's commit comes between."""

CANCELS_EVERY_S = 1.0
"""How often the jobs of a procedure are cancelled whose time is over: it may begin others."""

MAX_FILES = "max-files-to-rewrite"
"""The option of Iceberg's by which a rewrite is cut down to the bytes and the time that there are for it."""

MIN_BYTES = "min-file-size-bytes"
"""The option of Iceberg's by which a rewrite leaves what earlier ones have made."""

MIN_FILES = "min-input-files"
"""The option of Iceberg's by which a rewrite that takes in all small files finds two in a partition, not only five."""

CONFLICTS = ("CommitFailedException", "ValidationException", "CommitStateUnknownException")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a model's tables need: its tasks, the order of its own table, and who reads that as a stream.

    A procedure is cancelled after `max_time_ms`. `left` says why a table of the model has no tasks, if so.
    `checkpoints` are the target's.
    """

    model: str
    table: TableName
    tasks: tuple[MaintenanceTask, ...] = ()
    order: tuple[SortField, ...] = ()
    readers: tuple[Reader, ...] = ()
    max_time_ratio: float = 0.1
    max_time_ms: int = 600_000
    left: str = ""
    checkpoints: str = ""

    def tables(self) -> Mapping[TableName, tuple[MaintenanceTask, ...]]:
        """The tasks of each table."""
        names = dict.fromkeys(task.table for task in self.tasks)
        return {name: tuple(task for task in self.tasks if task.table == name) for name in names}


@dataclass(slots=True)
class _Watched:
    """A table as it was seen last, at the level `start`, and the `level` with what was written to it since."""

    facts: TableMetadata
    start: Uncompacted
    level: Uncompacted
    seen_ms: int


class _OvertimeError(Exception):
    """A procedure has taken longer than it may, and its jobs were cancelled."""


class Keeper:
    """Runs the tasks that are due. It belongs to the thread of the model's batches: none is written meanwhile.

    `reached` is told before and after each procedure, and raises where this runner must not continue; whatever else
    happens here fails no batch.
    """

    def __init__(
        self,
        upkeep: Upkeep,
        emit: Emit,
        reached: Callable[[MaintenanceStep], None] = lambda step: None,
        clock: Callable[[], int] = now_ms,
        sweep: Sweep = "",
    ) -> None:
        self.upkeep = upkeep
        self._sweep = sweep
        self._emit = emit
        self._reached = reached
        self._clock = clock
        self._watched: dict[TableName, _Watched] = {}
        self._shared: MaintenanceRecord | None = None
        self._is_kept = True
        self._allowed = 0.0
        self._told: set[str] = set()
        self._absent: dict[TableName, int] = {}
        self._at_once = False
        self._looked: dict[TableName, MaintenanceRecord] = {}
        self.failed = set[str]()
        """The tasks that have failed, and the tables that could not be looked at."""

    def after_batch(self, session: SparkSession, head: Mapping[str, str], is_behind: bool) -> None:
        """Run what is due now that a batch is in the table, whose snapshot has the summary `head`.

        `is_behind`: the source has more to read at once. Only what is overdue is done then.
        """
        own = self.upkeep.table
        if (watched := self._watched.get(own)) is not None:
            watched.level = count_commit(watched.start, watched.level, watched.facts, head)
        for table, tasks in self.upkeep.tables().items():
            self._maintain(session, table, tasks, URGENT if is_behind else 1.0)
        self._keep_shared(session)

    def at_end(
        self, session: SparkSession, is_ending: Callable[[], bool] = lambda: False, at_once: bool = False
    ) -> None:
        """Run what is due now that nothing is left to be written; with `at_once` all tasks, however long they take."""
        self._at_once = at_once
        self._watched.clear()
        self._absent.clear()
        if self.upkeep.left:
            self._tell_once(self.upkeep.left)
        for table, tasks in self.upkeep.tables().items():
            if not is_ending():
                with ALLOCATOR_CLEANER.reading():  # of which a batch is a block already
                    self._maintain(session, table, tasks, AT_ONCE if at_once else AT_END)
        self._keep_shared(session)

    def _maintain(
        self, session: SparkSession, table: TableName, tasks: tuple[MaintenanceTask, ...], factor: float
    ) -> None:
        try:
            watched = self._look(session, table, tasks, factor)
            due = [] if watched is None else self._due(session, table, tasks, watched, factor)
        except Exception as error:  # a catalog that is away for a moment is no reason to fail a batch that is written
            self.failed.add(str(table))
            self._tell_once(f"the state of {table} cannot be read: {read_cause(error)[1]}")
            return
        if watched is None:
            return
        done: dict[str, int] = {}
        facts: TableMetadata | None = watched.facts  # as they are before the first procedure
        for number, task in enumerate(due):
            if number and not follows(task, due[number - 1]) and self._time_left(watched.facts) <= 0:
                self._tell_waiting(due[number:], factor)
                break
            self._reached("maintain")
            if self._call(session, task, facts):
                done[task.procedure] = self._clock()
            facts = None
            self._reached("maintained")
        if done:
            self._watched.pop(table, None)
        if done or (watched.facts.is_start_moving and not watched.facts.is_left):
            self._note(session, table, done, watched.facts.start_ms)

    def _look(
        self, session: SparkSession, table: TableName, tasks: tuple[MaintenanceTask, ...], factor: float
    ) -> _Watched | None:
        """The table as it is known, or anew where that is too long ago or something is due; None if there is none."""
        found, now = self._watched.get(table), self._clock()
        if found is not None and now - found.seen_ms < LOOKS_AGAIN_MS:
            rewrites = [task for task in tasks if isinstance(task.options, RewriteDataFiles) and self._may(task)]
            if self._time_left(found.facts) <= 0 or not any(
                why_due(task, KnownAmounts(found.facts, found.level, 0), now, factor) for task in rewrites
            ):
                return None
        if now - self._absent.get(table, 0) < LOOKS_AGAIN_MS:
            return None
        if found is None and table != self.upkeep.table and not table_exists(session, table):
            self._absent[table] = now
            return None
        facts = _read_facts(session, table)
        level = measure_uncompacted(facts)
        watched = self._watched[table] = _Watched(facts, level, level, now)
        if self._shared is None:
            own = self.upkeep.table
            self._shared = facts.record if table == own else _read_work(load_table(session, own))
        return watched

    def _due(
        self,
        session: SparkSession,
        table: TableName,
        tasks: Iterable[MaintenanceTask],
        watched: _Watched,
        factor: float,
    ) -> list[MaintenanceTask]:
        """The tasks that are due, as far as there is time for them."""
        facts, now = watched.facts, self._clock()
        if facts.is_left:
            self._tell_once(f"{table} is left alone: by its property {MAINTAINED_PROPERTY} somebody else maintains it")
            return []
        if facts.is_shared:
            self._tell_once(f"no file of {table} is deleted, as its property {GC_ENABLED} says")
        is_over = self._time_left(facts) <= 0
        if is_over and factor != AT_END:
            return []
        manifests = facts.manifests
        if manifests is None:
            manifests = _count_manifests(load_table(session, table))
        may = [task for task in tasks if self._may(task)]
        amounts = KnownAmounts(facts, watched.level, manifests)
        due = [task for task, _ in find_due(may, amounts, now, factor)]
        if is_over:
            self._tell_waiting(due, factor)
            return []
        return due

    def _tell_waiting(self, tasks: Iterable[MaintenanceTask], factor: float) -> None:
        """Say at the end of a run what is due and has to wait for the next one."""
        names = ", ".join(task.name for task in tasks)
        if names and factor == AT_END:
            self._tell_once(
                f"{names} is due, and waits for the next run: maintenance has taken its share of the time "
                f"(max_time_ratio {self.upkeep.max_time_ratio:g}). At once: lakesql maintain {self.upkeep.model} --now"
            )

    def _may(self, task: MaintenanceTask) -> bool:
        return self._at_once or self._remembered.may(task.name, self._clock())

    @property
    def _remembered(self) -> MaintenanceRecord:
        """What all tables of the model share, this run's part in it too."""
        return self._shared or MaintenanceRecord()

    @property
    def _speed(self) -> float:
        """How many bytes a rewrite takes in a millisecond."""
        return self._remembered.bytes_per_ms or BYTES_PER_MS

    def _remember(self, **changes: Any) -> None:
        self._shared = replace(self._remembered, **changes)

    def _rest(self, task: MaintenanceTask, for_ms: int) -> None:
        """Let a task wait before it is called again."""
        now = self._clock()
        waiting = {name: until_ms for name, until_ms in self._remembered.retry_at.items() if until_ms > now}
        self._remember(retry_at={**waiting, task.name: now + for_ms})

    def _time_left(self, facts: TableMetadata) -> float:
        if self._at_once:
            return float("inf")
        return time_left_ms(self._remembered.spent, self.upkeep.max_time_ratio, facts.start_ms, self._clock())

    def _call(self, session: SparkSession, task: MaintenanceTask, facts: TableMetadata | None) -> bool:
        """Run one task, and say what it did; whether it is done. `facts` are the table's, where they are known."""
        started = time.monotonic()
        counts: Mapping[str, int] | None = {}
        problem = ""
        for _ in range(TRIES):
            try:
                problem, counts = "", self._run(session, task, facts)
                break
            except _OvertimeError:
                problem = f"it took longer than {self.upkeep.max_time_ms / 1000:g} seconds, and was cancelled"
                if isinstance(task.options, RewriteDataFiles):
                    speed = min(self._speed, self._allowed / self.upkeep.max_time_ms) / 2
                    self._remember(bytes_per_ms=max(1, round(speed)))
                break
            except Exception as error:  # whatever a procedure raises: the stream goes on
                name, what = read_cause(error)
                problem, facts = what or name, None
                if not any(each in str(error) for each in CONFLICTS):
                    break
        took_ms = round((time.monotonic() - started) * 1000)
        at_ms = self._clock()
        recent = (each for each in self._remembered.spent if at_ms - each[0] < HOUR_MS)
        self._remember(spent=(*recent, (at_ms, took_ms)))
        self._is_kept = self._is_kept and not problem and counts is None  # what was not called took no time
        if problem:
            self._rest(task, RESTS_MS if took_ms >= self.upkeep.max_time_ms else LOOKS_AGAIN_MS)
            self.failed.add(task.name)
            self._emit(MaintenanceFailed(self.upkeep.model, task.name, str(task.table), problem, took_ms, at_ms))
            return False
        if counts is None:
            self._rest(task, LOOKS_AGAIN_MS)
            return False
        if has_changed_nothing(task.options, counts):
            self._rest(task, RESTS_MS)
        if isinstance(task.options, RewriteDataFiles):
            rewritten = counts.get("rewritten_bytes_count", 0)
            speed = rewritten / max(1, took_ms)
            if rewritten >= MEASURED_BYTES or speed > self._speed:  # of a few bytes it is surely too low
                self._remember(bytes_per_ms=max(1, round(speed)))
        self._emit(
            TableMaintained(self.upkeep.model, task.name, str(task.table), tuple(counts.items()), took_ms, at_ms)
        )
        return True

    def _run(
        self, session: SparkSession, task: MaintenanceTask, facts: TableMetadata | None
    ) -> Mapping[str, int] | None:
        """What the procedure counts; None where it was not called."""
        match task.options:
            case RewriteDataFiles() as options:
                return self._rewrite(session, task, options, facts or _read_facts(session, task.table))
            case RewritePositionDeleteFiles():
                if not _has_delete_files(load_table(session, task.table)):
                    return None
                return _counts(self._collect(session, call_text(task)))
            case RewriteManifests():
                return _counts(self._collect(session, call_text(task)))
            case ExpireSnapshots() as options:
                return self._expire(session, task, options, facts or _read_facts(session, task.table))
            case RemoveOrphanFiles() as options:
                return self._remove_orphans(session, task, options)
            case _:
                assert_never(task.options)

    def _rewrite(
        self, session: SparkSession, task: MaintenanceTask, options: RewriteDataFiles, facts: TableMetadata
    ) -> Mapping[str, int] | None:
        bound, narrowed = self._spare(task, options, facts) | _foreign_deletes(options, facts), options
        if options.where == RECENT:
            since = facts.record.rewritten if MIN_BYTES in bound else facts.record.rewritten_whole
            recent = self._recent(session, task.table, load_table(session, task.table), since)
            if recent is None:
                return None
            narrowed = replace(options, where=recent)
        bound |= self._cut(session, task, narrowed, facts, bound)
        order = self.upkeep.order if facts.is_ordered and not task.is_beside else ()
        counts = _counts(self._collect(session, call_text(replace(task, options=narrowed), order, options=bound)))
        self._looked[task.table] = note_rewrite(options, bound, counts, facts)
        return counts

    def _expire(
        self, session: SparkSession, task: MaintenanceTask, options: ExpireSnapshots, facts: TableMetadata
    ) -> Mapping[str, int] | None:
        before_ms = expires_before_ms(facts, options, self._clock())
        options = replace(options, retain_last=snapshots_kept(facts, options))
        if not task.is_beside:
            needed = find_needed(session, facts, self.upkeep.readers)
            if needed.waiting:
                names = " or ".join(needed.waiting)
                self._tell_once(f"no snapshot of {task.table} expires, as nothing says what {names} has read of it")
                return None
            if needed.since_ms is not None and needed.since_ms < before_ms:
                before_ms = needed.since_ms
                if not self._pays(task, options, facts, count_older(facts, options, before_ms)):
                    return None
        if goes_further(facts, options, before_ms, self._clock()):
            hours = math.ceil(options.older_than.length_ms / HOUR_MS)
            change = f"ALTER TABLE {table_name(task.table)} REPLACE BRANCH main WITH SNAPSHOT RETENTION {hours} HOURS"
            self._tell_once(
                f"no snapshot of {task.table} expires: the branch main says by itself how long they are kept, which is "
                f"less than is needed. To have it say as much as lakesql does: {change}"
            )
            return None
        tag_entries(load_table(session, task.table), facts)
        return _counts(self._collect(session, call_text(replace(task, options=options), before=_time(before_ms))))

    def _remove_orphans(
        self, session: SparkSession, task: MaintenanceTask, options: RemoveOrphanFiles
    ) -> Mapping[str, int] | None:
        if self._is_rebuilt(session):
            return None
        known = self._looked.get(task.table) or _read_work(load_table(session, task.table))
        found = remove_orphans(
            session,
            task,
            _time(self._clock() - options.older_than.length_ms),
            self.upkeep.checkpoints,
            lambda statement: self._collect(session, statement),
            self._sweep,
            known.unknown.listed,
        )
        self._looked[task.table] = replace(known, unknown=found.unknown)
        if self._sweep == "list":
            for file in found.left:
                self._emit(Noted(f"unknown file: {file}", self._clock(), self.upkeep.model))
        return {"orphan_files_count": found.removed, "unknown_files_count": found.unknown.count}

    def _is_rebuilt(self, session: SparkSession) -> bool:
        """Whether the model is being rebuilt.

        Files of its replacement, and of the replacement's dead letters, lie among those of its tables then, and no
        version of these has them yet.
        """
        rebuild = self.upkeep.table.rebuild
        return any(table_exists(session, name) for name in (rebuild, rebuild.dead_letter))

    def _pays(self, task: MaintenanceTask, options: ExpireSnapshots, facts: TableMetadata, old: int) -> bool:
        """Whether a call is worth it that removes so few, as readers need the others: only a look at these says it."""
        rests_ms = options.trigger.length_ms if options.trigger else HOUR_MS
        is_time = self._clock() - facts.record.done.get(task.procedure, 0) >= rests_ms
        return old >= options.snapshots or (old > 0 and (is_time or self._at_once))

    def _collect(self, session: SparkSession, statement: str) -> list[Row]:
        with self._timed(session):
            return session.sql(statement).collect()

    def _recent(self, session: SparkSession, name: TableName, table: JavaTable, since: int | None) -> str | None:
        """A condition on the partitions with files of commits after `since`; '' for all, None for none.

        The files are those of the current snapshot: their sequence numbers outlive the snapshots that brought them.
        """
        if since is None:
            return ""  # the first one looks at all
        found = read_partitions(session, name, table, since)
        if found == []:
            return None
        where = None if found is None else partitions_text(name.catalog, found)
        if where is None:
            self._tell_once(
                f"{name} is rewritten whole: no condition can be written for the partitions that were written to"
            )
        return where or ""

    @contextmanager
    def _timed(self, session: SparkSession) -> Iterator[None]:
        """Cancel the Spark jobs that are begun here once their time is over, and raise `_OvertimeError` then.

        Jobs write files that no version of the table has yet. What is committed by then stays, and a commit itself is
        no job: it is never cancelled.
        """
        if self._at_once:
            yield
            return
        context, tag = session.sparkContext, f"lakesql-maintenance-{uuid4().hex}"
        done, is_over = threading.Event(), threading.Event()

        def watch() -> None:
            wait_s = self.upkeep.max_time_ms / 1000
            while not done.wait(wait_s):
                is_over.set()
                context.cancelJobsWithTag(tag)
                wait_s = CANCELS_EVERY_S

        watcher = threading.Thread(target=watch, name="maintenance time", daemon=True)
        context.addJobTag(tag)
        watcher.start()
        try:
            yield
        except Exception as error:
            if is_over.is_set():
                raise _OvertimeError from error
            raise
        finally:
            done.set()
            watcher.join()
            context.removeJobTag(tag)

    def _spare(self, task: MaintenanceTask, options: RewriteDataFiles, facts: TableMetadata) -> dict[str, str]:
        """From which size on one rewrite leaves files, or of how many small files it takes in all."""
        level = measure_uncompacted(facts)
        spared = None
        if not self._at_once and not task.is_by_time:
            spared = spared_bytes(
                options,
                facts.target_bytes,
                facts.record.since_whole,
                files=level.small_files,
                partition_bytes=level.partition_bytes,
                most_bytes=level.most_bytes,
            )
        if spared is not None:
            return {MIN_BYTES: str(round(spared))}
        if self._at_once or facts.record.since_whole >= WHOLE_EVERY:
            return {MIN_FILES: str(group_files(options, is_whole=True))}
        return {}

    def _cut(
        self,
        session: SparkSession,
        task: MaintenanceTask,
        options: RewriteDataFiles,
        facts: TableMetadata,
        bound: Mapping[str, str],
    ) -> dict[str, str]:
        """How many files one rewrite takes at most, in the time that there is; nothing, where all of them fit."""
        head = facts.head
        if head is None:
            return {}
        time_ms = self._time_left(facts)
        if not self._at_once:
            time_ms = min(time_ms, self.upkeep.max_time_ms)
        allowed = min(float(options.max_bytes.size_bytes), max(0.0, time_ms) * self._speed)
        size = head.count("total-files-size")
        if size <= allowed:  # all of the table
            self._allowed = (
                min(size, TAKES_IN * measure_uncompacted(facts).small_bytes or size) if MIN_BYTES in bound else size
            )
            return {}
        files, size = plan_rewrite(session, task.table, options.where, {**iceberg_options(options), **bound})
        self._allowed = min(allowed, size)
        if size <= allowed:
            return {}
        most = max(group_files(options), int(files * allowed / size))
        return {MAX_FILES: str(min(most, options.max_files_to_rewrite or most))}

    def _keep_shared(self, session: SparkSession) -> None:
        """Keep with the own table what procedures took that have failed, or were those of the tables beside it."""
        if not self._is_kept:
            self._note(session, self.upkeep.table, {})

    def _note(
        self, session: SparkSession, table: TableName, done: Mapping[str, int], start_ms: int | None = None
    ) -> None:
        """Keep with the table what was done when, and since when it is there, for the runs to come.

        With the own table goes what all tables of the model share.
        """
        is_own = table == self.upkeep.table
        try:
            loaded = load_table(session, table)
            known = _read_work(loaded)
            since = start_ms if known.since_ms is None else known.since_ms
            work = replace(self._looked.pop(table, known), done={**known.done, **done}, since_ms=since)
            shared = self._remembered if is_own else MaintenanceRecord()
            work = replace(work, spent=shared.spent, retry_at=shared.retry_at, bytes_per_ms=shared.bytes_per_ms)
            loaded.updateProperties().set(MAINTENANCE_PROPERTY, render_record(work)).commit()
        except Exception as error:
            self._tell_once(f"what was done on {table} cannot be kept: {read_cause(error)[1]}")
        else:
            self._is_kept = self._is_kept or is_own

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._emit(Noted(f"maintenance: {text}", self._clock(), self.upkeep.model))


def has_changed_nothing(options: Procedure, counts: Mapping[str, int]) -> bool:
    """Whether a procedure that was due by a threshold has left what made it due: called again, it would do the same.

    Its commits had small files, and no partition has enough of them; its `where` has left the delete files out; or as
    many manifests are needed.
    """
    match options:
        case RewriteDataFiles():
            return not counts.get("rewritten_bytes_count")
        case RewriteManifests():
            return counts.get("added_manifests_count", 0) >= counts.get("rewritten_manifests_count", 0)
        case RewritePositionDeleteFiles() | ExpireSnapshots():
            return not any(counts.values())
        case RemoveOrphanFiles():
            return False
        case _:
            assert_never(options)


def _foreign_deletes(options: RewriteDataFiles, facts: TableMetadata) -> dict[str, str]:
    """How a rewrite takes in each data file that equality deletes apply to, of which other engines have written some.

    The new files are newer than these, so that they apply to nothing and go: pyiceberg reads no table that has any.
    """
    if facts.head is None or not facts.head.count("total-equality-deletes"):
        return {}
    bound = {"delete-file-threshold": "1"}
    if options.remove_dangling_deletes is None:
        bound["remove-dangling-deletes"] = "true"
    if options.use_starting_sequence_number is None:
        bound["use-starting-sequence-number"] = "false"
    return bound


def note_rewrite(
    options: RewriteDataFiles, bound: Mapping[str, str], counts: Mapping[str, int], facts: TableMetadata
) -> MaintenanceRecord:
    """What is to be known of a rewrite that was bounded so, and has counted this, of a table that was so before."""
    limit = bound.get(MAX_FILES, options.max_files_to_rewrite)
    is_cut = limit is not None and counts.get("rewritten_data_files_count", 0) >= int(limit)
    if is_cut or counts.get("failed_data_files_count"):
        return replace(facts.record, since_whole=WHOLE_EVERY)  # nobody knows how large the files are that it has left
    is_all = options.where in ("", RECENT)
    work = replace(facts.record, rewritten=facts.sequence) if is_all else facts.record
    if MIN_FILES not in bound and options.rewrite_all is not True:
        return replace(work, since_whole=work.since_whole + 1)
    return replace(work, rewritten_whole=facts.sequence if is_all else work.rewritten_whole, since_whole=1)


def _read_facts(session: SparkSession, table: TableName) -> TableMetadata:
    """The facts of all snapshots: megabytes of JSON, where there are thousands."""
    return parse_metadata(read_json(load_table(session, table)))


def _read_work(table: JavaTable) -> MaintenanceRecord:
    """What the table's property says of earlier maintenance."""
    return parse_record(str(table.properties().getOrDefault(MAINTENANCE_PROPERTY, "")))


def _has_delete_files(table: JavaTable) -> bool:
    head = next(read_history(table), None)
    return head is not None and bool(totals_of(head.summary).delete_files)


def _counts(rows: Iterable[Row]) -> Mapping[str, int]:
    """What a procedure says of itself, in its one row."""
    row = next(iter(rows), None)
    return {key: int(value) for key, value in row.asDict().items() if value is not None} if row is not None else {}


def _count_manifests(table: JavaTable) -> int:
    snapshot = table.currentSnapshot()
    return int(snapshot.allManifests(table.io()).size()) if snapshot is not None else 0


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
