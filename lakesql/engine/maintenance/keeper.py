"""When the tables of a model are maintained: between two of its batches, and at the end
of a run that ends by itself.

`table/maintenance_plan.py` decides which procedures are called and which wait;
`call.py` calls them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import SparkSession

from lakesql.clock import now_ms
from lakesql.engine.ledger.snapshots import JavaTable, load_table, table_exists
from lakesql.engine.maintenance.call import (
    Caller,
    Done,
    Limits,
    ModelMaintenance,
    NotCalled,
    RewriteOvertimeError,
    has_changed_nothing,
    read_metadata_of,
    read_record_of,
)
from lakesql.engine.maintenance.orphans import Sweep
from lakesql.engine.maintenance.time_limit import OvertimeError
from lakesql.engine.spark.arrow import ALLOCATOR_CLEANER
from lakesql.engine.spark.failure import read_cause
from lakesql.events import Emit, MaintenanceFailed, Noted, TableMaintained
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.model.retention import GC_ENABLED
from lakesql.model.table_name import TableName
from lakesql.names import MAINTAINED_PROPERTY, MAINTENANCE_PROPERTY
from lakesql.project.procedures import (
    AT_END,
    BYTES_PER_MS,
    HOUR_MS,
    RETRY_AFTER_MS,
    RewriteDataFiles,
)
from lakesql.table.due import AT_ONCE, URGENT, KnownAmounts, why_due
from lakesql.table.maintenance_plan import (
    Call,
    TimeBudget,
    Wait,
    next_step,
    plan_maintenance,
)
from lakesql.table.maintenance_record import MaintenanceRecord, render_record
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import Uncompacted, count_commit, measure_uncompacted

MaintenanceStep = Literal["maintain", "maintained"]
"""The steps that `reached` is called with: before each procedure, and after it."""

LOOKS_AGAIN_MS = 60_000
"""How long a table's metadata is not read again, unless its commits show that something
is due."""

MEASURED_BYTES = 32 * 1024**2
"""From how many bytes on the time of a rewrite is used to estimate the next one:
planning alone takes a second."""

TRIES = 3
"""How often a procedure is called if commits of others conflict with it."""

CONFLICTS = (
    "CommitFailedException",
    "ValidationException",
    "CommitStateUnknownException",
)


@dataclass(slots=True)
class _SeenTable:
    """A table as it was last read: `start` is what was uncompacted then, and
    `uncompacted` what is now, with the batches since."""

    metadata: TableMetadata
    start: Uncompacted
    uncompacted: Uncompacted
    seen_ms: int

    def amounts(self, manifests: float = 0) -> KnownAmounts:
        """What is known of the amounts that make maintenance due."""
        return KnownAmounts(self.metadata, self.uncompacted, manifests)


class Keeper:
    """Runs the maintenance tasks that are due, in the thread of the model's batches: no
    batch is written meanwhile.

    `reached` is called before and after each procedure, and raises if this runner must
    not continue; any other failure here fails no batch.
    """

    def __init__(
        self,
        maintenance: ModelMaintenance,
        emit: Emit,
        reached: Callable[[MaintenanceStep], None] = lambda step: None,
        clock: Callable[[], int] = now_ms,
        sweep: Sweep = "",
    ) -> None:
        self.maintenance = maintenance
        self._sweep = sweep
        self._emit = emit
        self._reached = reached
        self._clock = clock
        self._seen: dict[TableName, _SeenTable] = {}
        self._absent: dict[TableName, int] = {}
        self._shared: MaintenanceRecord | None = None
        self._is_shared_written = True
        self._unwritten: dict[TableName, MaintenanceRecord] = {}
        self._told: set[str] = set()
        self._at_once = False
        self.failed = set[str]()
        """The tasks that have failed, and the tables whose state could not be read."""

    def after_batch(
        self, session: SparkSession, head: Mapping[str, str], is_behind: bool
    ) -> None:
        """Run what is due after a batch; `head` is the summary of its snapshot.

        `is_behind`: the source has more to read already, so only what is overdue is
        run.
        """
        seen = self._seen.get(self.maintenance.table)
        if seen is not None:
            seen.uncompacted = count_commit(
                seen.start, seen.uncompacted, seen.metadata, head
            )
        for table, tasks in self.maintenance.tables().items():
            self._maintain(session, table, tasks, URGENT if is_behind else 1.0)
        self._write_shared(session)

    def at_end(
        self,
        session: SparkSession,
        is_ending: Callable[[], bool] = lambda: False,
        at_once: bool = False,
    ) -> None:
        """Run what is due at the end of a run; with `at_once` all tasks, however long
        they take."""
        self._at_once = at_once
        self._seen.clear()
        self._absent.clear()
        if self.maintenance.left:
            self._tell_once(self.maintenance.left)
        for table, tasks in self.maintenance.tables().items():
            if not is_ending():
                with ALLOCATOR_CLEANER.reading():  # of which a batch is a block already
                    self._maintain(
                        session, table, tasks, AT_ONCE if at_once else AT_END
                    )
        self._write_shared(session)

    def _maintain(
        self,
        session: SparkSession,
        table: TableName,
        tasks: tuple[MaintenanceTask, ...],
        factor: float,
    ) -> None:
        try:
            seen = self._look(session, table, tasks, factor)
            steps = (
                [] if seen is None else self._plan(session, table, tasks, seen, factor)
            )
        # a catalog that is briefly unreachable must not fail a batch that is already
        # written
        except Exception as error:
            self.failed.add(str(table))
            self._tell_once(
                f"the state of {table} cannot be read: {read_cause(error)[1]}"
            )
            return
        if seen is None:
            return
        calls = [step for step in steps if isinstance(step, Call)]
        waits = [step for step in steps if isinstance(step, Wait)]
        done, late = self._run_calls(session, calls, seen.metadata)
        if factor == AT_END:
            self._tell_waits([*late, *waits])
        if done:
            self._seen.pop(table, None)
        is_start_unknown = seen.metadata.is_start_moving and not seen.metadata.is_left
        if done or is_start_unknown:
            self._write_record(session, table, done, seen.metadata.start_ms)

    def _look(
        self,
        session: SparkSession,
        table: TableName,
        tasks: tuple[MaintenanceTask, ...],
        factor: float,
    ) -> _SeenTable | None:
        """The table with its current metadata; None if it does not exist, or nothing
        can be due.

        The metadata are read a minute after the last time, or earlier if the commits
        since show that a rewrite is due and there is time for one.
        """
        seen, now = self._seen.get(table), self._clock()
        is_fresh = seen is not None and now - seen.seen_ms < LOOKS_AGAIN_MS
        if (
            seen is not None
            and is_fresh
            and not self._is_rewrite_due(seen, tasks, factor)
        ):
            return None
        if now - self._absent.get(table, 0) < LOOKS_AGAIN_MS:
            return None
        if (
            seen is None
            and table != self.maintenance.table
            and not table_exists(session, table)
        ):
            self._absent[table] = now
            return None
        metadata = read_metadata_of(session, table)
        uncompacted = measure_uncompacted(metadata)
        found = self._seen[table] = _SeenTable(metadata, uncompacted, uncompacted, now)
        if self._shared is None:
            own = self.maintenance.table
            self._shared = (
                metadata.record
                if table == own
                else read_record_of(load_table(session, own))
            )
        return found

    def _is_rewrite_due(
        self, seen: _SeenTable, tasks: Sequence[MaintenanceTask], factor: float
    ) -> bool:
        """Whether the commits since a table was last read show that a rewrite is due,
        and there is time for it."""
        budget, now = self._budget(), self._clock()
        if budget.time_left_ms(seen.metadata.start_ms, now) <= 0:
            return False
        amounts = seen.amounts()
        return any(
            why_due(task, amounts, now, factor)
            for task in tasks
            if isinstance(task.options, RewriteDataFiles)
            if budget.may(task, now)
        )

    def _plan(
        self,
        session: SparkSession,
        table: TableName,
        tasks: Sequence[MaintenanceTask],
        seen: _SeenTable,
        factor: float,
    ) -> list[Call | Wait]:
        """What is due on a table: tasks to call, and tasks that wait."""
        metadata, now, budget = seen.metadata, self._clock(), self._budget()
        if metadata.is_left:
            self._tell_once(
                f"{table} is left alone: by its property {MAINTAINED_PROPERTY} somebody else maintains it"
            )
            return []
        if metadata.is_shared:
            self._tell_once(
                f"no file of {table} is deleted, as its property {GC_ENABLED} says"
            )
        if factor != AT_END and budget.time_left_ms(metadata.start_ms, now) <= 0:
            return []  # who waits is told at the end alone
        manifests = metadata.manifests
        if manifests is None:
            manifests = _count_manifests(load_table(session, table))
        return plan_maintenance(tasks, seen.amounts(manifests), budget, now, factor)

    def _run_calls(
        self, session: SparkSession, calls: Sequence[Call], metadata: TableMetadata
    ) -> tuple[dict[str, int], list[Wait]]:
        """Call the tasks one after the other while there is time. Returns when each was
        done, in milliseconds since the epoch, and what has to wait."""
        done: dict[str, int] = {}
        known: TableMetadata | None = metadata  # as it is before the first procedure
        before: Call | None = None
        left = [*calls]
        while (
            step := next_step(
                left, before, self._budget(), metadata.start_ms, self._clock()
            )
        ) is not None:
            if isinstance(step, Wait):
                return done, [
                    replace(step, task=call.task, why=call.why) for call in left
                ]
            left.pop(0)
            self._reached("maintain")
            if self._call(session, step.task, known, metadata.start_ms):
                done[step.task.procedure] = self._clock()
            before, known = step, None
            self._reached("maintained")
        return done, []

    def _tell_waits(self, waits: Sequence[Wait]) -> None:
        """Report at the end of a run which due tasks wait for the next run because
        there is no time left."""
        of_time = [wait for wait in waits if wait.is_of_time]
        if not of_time:
            return
        names = ", ".join(wait.task.name for wait in of_time)
        self._tell_once(
            f"{names} is due, and waits for the next run: {of_time[0].waits_for}. "
            f"At once: lakesql maintain {self.maintenance.model} --now"
        )

    def _budget(self) -> TimeBudget:
        return TimeBudget(self._record, self.maintenance.max_time_ratio, self._at_once)

    @property
    def _record(self) -> MaintenanceRecord:
        """The record that all tables of the model share, including this run's
        changes."""
        return self._shared or MaintenanceRecord()

    def _remember(self, **changes: Any) -> None:
        self._shared = replace(self._record, **changes)

    def _wait_before_retry(self, task: MaintenanceTask, wait_ms: int) -> None:
        """Do not call a task again before `wait_ms` have passed."""
        now = self._clock()
        waiting = {
            name: until_ms
            for name, until_ms in self._record.retry_at.items()
            if until_ms > now
        }
        self._remember(retry_at={**waiting, task.name: now + wait_ms})

    @property
    def _bytes_per_ms(self) -> float:
        """How many bytes a rewrite processes in a millisecond."""
        return self._record.bytes_per_ms or BYTES_PER_MS

    def _call(
        self,
        session: SparkSession,
        task: MaintenanceTask,
        metadata: TableMetadata | None,
        start_ms: int,
    ) -> bool:
        """Run one task and report its result; returns whether it is done. `metadata`
        are the table's, if known."""
        started = time.monotonic()
        problem = ""
        result: Done | NotCalled = NotCalled()
        caller = Caller(
            session, self.maintenance, self._clock, self._tell_once, self._sweep
        )
        for _ in range(TRIES):
            try:
                limits = self._limits(start_ms)
                problem, result = (
                    "",
                    caller.call(
                        task, metadata, self._unwritten.get(task.table), limits
                    ),
                )
                break
            except OvertimeError as error:
                problem = f"it took longer than {self.maintenance.max_time_ms / 1000:g} seconds, and was cancelled"
                if isinstance(error, RewriteOvertimeError):
                    self._expect_slower(error.expected_bytes)
                break
            # whatever a procedure raises must not end the stream
            except Exception as error:
                name, what = read_cause(error)
                problem, metadata = what or name, None
                if not any(each in str(error) for each in CONFLICTS):
                    break
        took_ms = round((time.monotonic() - started) * 1000)
        at_ms = self._clock()
        self._note_time(at_ms, took_ms)
        if problem:
            self._is_shared_written = False
            self._wait_before_retry(
                task,
                RETRY_AFTER_MS
                if took_ms >= self.maintenance.max_time_ms
                else LOOKS_AGAIN_MS,
            )
            self.failed.add(task.name)
            self._emit(
                MaintenanceFailed(
                    self.maintenance.model,
                    task.name,
                    str(task.table),
                    problem,
                    took_ms,
                    at_ms=at_ms,
                )
            )
            return False
        if isinstance(result, NotCalled):
            if result.why:
                self._tell_once(result.why)
            self._wait_before_retry(task, LOOKS_AGAIN_MS)
            return False
        self._is_shared_written = False
        self._note_done(task, result, took_ms)
        self._emit(
            TableMaintained(
                self.maintenance.model,
                task.name,
                str(task.table),
                tuple(result.counts.items()),
                took_ms,
                at_ms=at_ms,
            )
        )
        return True

    def _limits(self, start_ms: int) -> Limits:
        return Limits(
            time_left_ms=self._budget().time_left_ms(start_ms, self._clock()),
            max_time_ms=self.maintenance.max_time_ms,
            bytes_per_ms=self._bytes_per_ms,
            is_asked_for=self._at_once,
        )

    def _note_time(self, at_ms: int, took_ms: int) -> None:
        """Remember how long a call took; calls of more than an hour ago are
        forgotten."""
        recent = (each for each in self._record.spent if at_ms - each[0] < HOUR_MS)
        self._remember(spent=(*recent, (at_ms, took_ms)))

    def _note_done(self, task: MaintenanceTask, done: Done, took_ms: int) -> None:
        """Remember the result of a call: what is to be recorded with the table, how
        fast a rewrite was, and whether it changed nothing."""
        for file in done.left:
            self._emit(
                Noted(
                    f"unknown file: {file}", self.maintenance.model, at_ms=self._clock()
                )
            )
        if done.record is not None:
            self._unwritten[task.table] = done.record
        if has_changed_nothing(task.options, done.counts):
            self._wait_before_retry(task, RETRY_AFTER_MS)
        if isinstance(task.options, RewriteDataFiles):
            rewritten = done.counts.get("rewritten_bytes_count", 0)
            bytes_per_ms = rewritten / max(1, took_ms)
            is_measured = rewritten >= MEASURED_BYTES
            # measured over few bytes, it is certainly too low
            if is_measured or bytes_per_ms > self._bytes_per_ms:
                self._remember(bytes_per_ms=max(1, round(bytes_per_ms)))

    def _expect_slower(self, expected_bytes: float) -> None:
        """Remember that a rewrite of `expected_bytes` takes longer than allowed, so
        that the next one takes at most half as many."""
        bytes_per_ms = (
            min(self._bytes_per_ms, expected_bytes / self.maintenance.max_time_ms) / 2
        )
        self._remember(bytes_per_ms=max(1, round(bytes_per_ms)))

    def _write_shared(self, session: SparkSession) -> None:
        """Record with the model's own table what procedures took that have failed, or
        that ran on its other tables."""
        if not self._is_shared_written:
            self._write_record(session, self.maintenance.table, {})

    def _write_record(
        self,
        session: SparkSession,
        table: TableName,
        done: Mapping[str, int],
        start_ms: int | None = None,
    ) -> None:
        """Record with the table which tasks were done when, and since when it exists,
        for later runs.

        The record of the model's own table also has what all of its tables share.
        """
        is_own = table == self.maintenance.table
        try:
            loaded = load_table(session, table)
            known = read_record_of(loaded)
            shared = self._record if is_own else MaintenanceRecord()
            record = replace(
                self._unwritten.pop(table, known),
                done={**known.done, **done},
                since_ms=start_ms if known.since_ms is None else known.since_ms,
                spent=shared.spent,
                retry_at=shared.retry_at,
                bytes_per_ms=shared.bytes_per_ms,
            )
            loaded.updateProperties().set(
                MAINTENANCE_PROPERTY, render_record(record)
            ).commit()
        except Exception as error:
            self._tell_once(
                f"what was done on {table} cannot be kept: {read_cause(error)[1]}"
            )
        else:
            self._is_shared_written = self._is_shared_written or is_own

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._emit(
                Noted(
                    f"maintenance: {text}", self.maintenance.model, at_ms=self._clock()
                )
            )


def _count_manifests(table: JavaTable) -> int:
    snapshot = table.currentSnapshot()
    return int(snapshot.allManifests(table.io()).size()) if snapshot is not None else 0
