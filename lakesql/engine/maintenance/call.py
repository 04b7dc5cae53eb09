"""How one maintenance procedure of Iceberg's is called on one table, as planned, with
details that only Spark can provide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from pyspark.sql import Row, SparkSession

from lakesql.compile.maintenance import call_text, iceberg_options, partitions_text
from lakesql.compile.quote import table_name
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    load_table,
    read_history,
    read_json,
    table_exists,
)
from lakesql.engine.maintenance.orphans import Sweep, remove_orphans
from lakesql.engine.maintenance.partitions import read_partitions
from lakesql.engine.maintenance.planned import plan_rewrite
from lakesql.engine.maintenance.protect import TableReader, find_needed, tag_entries
from lakesql.engine.maintenance.time_limit import OvertimeError, limit_time
from lakesql.ledger.entry import totals_of
from lakesql.model.config import SortField
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.model.table_name import TableName
from lakesql.names import MAINTENANCE_PROPERTY
from lakesql.project.procedures import (
    RECENT,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)
from lakesql.table.expiry import Needed, NoExpiry, plan_expiry
from lakesql.table.maintenance_record import MaintenanceRecord, parse_record
from lakesql.table.metadata import TableMetadata, parse_metadata
from lakesql.table.rewrite_bounds import (
    MIN_BYTES,
    allow_bytes,
    bound_files,
    bound_number,
    expect_bytes,
    record_rewrite,
)


@dataclass(frozen=True, slots=True)
class ModelMaintenance:
    """How a model's tables are maintained: their tasks, the sort order of the model's
    own table, and the models that read it.

    A procedure is cancelled after `max_time_ms`. `left` has the reason if a table of
    the model has no tasks. `checkpoints` is the target's folder of checkpoints.
    """

    model: str
    table: TableName
    tasks: tuple[MaintenanceTask, ...] = ()
    order: tuple[SortField, ...] = ()
    readers: tuple[TableReader, ...] = ()
    max_time_ratio: float = 0.1
    max_time_ms: int = 600_000
    left: str = ""
    checkpoints: str = ""

    def tables(self) -> Mapping[TableName, tuple[MaintenanceTask, ...]]:
        """The tasks of each table."""
        names = dict.fromkeys(task.table for task in self.tasks)
        return {
            name: tuple(task for task in self.tasks if task.table == name)
            for name in names
        }


@dataclass(frozen=True, slots=True)
class Done:
    """The counts of a procedure; the record to store with the table, if any; and, if
    their list was asked for, the files that a removal of orphans has left."""

    counts: Mapping[str, int]
    record: MaintenanceRecord | None = None
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotCalled:
    """A procedure was not called, as there was nothing to do; `why`, if that should be
    reported."""

    why: str = ""


class RewriteOvertimeError(OvertimeError):
    """A rewrite of data files was cancelled because it took too long; `expected_bytes`
    were to be rewritten."""

    def __init__(self, expected_bytes: float) -> None:
        super().__init__()
        self.expected_bytes = expected_bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a call: the time left for maintenance, the time that one procedure
    may take, and how many bytes a rewrite processes in a millisecond. `is_asked_for`:
    an operator has asked for the call, so it may take any time."""

    time_left_ms: float
    max_time_ms: int
    bytes_per_ms: float
    is_asked_for: bool

    @property
    def most_ms(self) -> int | None:
        """After what time the procedure is cancelled; None for never."""
        return None if self.is_asked_for else self.max_time_ms


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls procedures on the tables of one model. `tell` is called with messages for
    people about a call."""

    session: SparkSession
    maintenance: ModelMaintenance
    clock: Callable[[], int]
    tell: Callable[[str], None]
    sweep: Sweep = ""

    def call(
        self,
        task: MaintenanceTask,
        metadata: TableMetadata | None,
        record: MaintenanceRecord | None,
        limits: Limits,
    ) -> Done | NotCalled:
        """Run a task. `metadata` is the table's current metadata, if known; `record` is
        the record that earlier calls have left to be stored with the table. Raises what
        Java raises, and `OvertimeError`."""
        match task.options:
            case RewriteDataFiles() as options:
                return self._rewrite(
                    task,
                    options,
                    metadata or read_metadata_of(self.session, task.table),
                    limits,
                )
            case RewritePositionDeleteFiles():
                if not _has_delete_files(load_table(self.session, task.table)):
                    return NotCalled()
                return Done(_counts(self._collect(call_text(task), limits)))
            case RewriteManifests():
                return Done(_counts(self._collect(call_text(task), limits)))
            case ExpireSnapshots() as options:
                return self._expire(
                    task,
                    options,
                    metadata or read_metadata_of(self.session, task.table),
                    limits,
                )
            case RemoveOrphanFiles() as options:
                return self._remove_orphans(task, options, record, limits)
            case _:
                assert_never(task.options)

    def _rewrite(
        self,
        task: MaintenanceTask,
        options: RewriteDataFiles,
        metadata: TableMetadata,
        limits: Limits,
    ) -> Done | NotCalled:
        """Rewrite data files that are small or have many deletes, as many as there is
        time for."""
        bound, narrowed = (
            bound_files(task, options, metadata, limits.is_asked_for),
            options,
        )
        if options.where == RECENT:
            record = metadata.record
            since = record.rewritten if MIN_BYTES in bound else record.rewritten_whole
            recent = self._recent_partitions(task.table, since)
            if recent is None:
                return NotCalled()
            narrowed = replace(options, where=recent)
        expected_bytes = 0.0
        if metadata.head is not None:
            time_ms = limits.time_left_ms
            if not limits.is_asked_for:
                time_ms = min(time_ms, limits.max_time_ms)
            allowance = allow_bytes(narrowed, metadata, time_ms, limits.bytes_per_ms)
            expected_bytes = expect_bytes(allowance, metadata, bound)
            if not allowance.is_enough:
                asked = {**iceberg_options(narrowed), **bound}
                files, size_bytes = plan_rewrite(
                    self.session, task.table, narrowed.where, asked
                )
                expected_bytes = min(allowance.allowed_bytes, size_bytes)
                bound |= bound_number(narrowed, allowance, files, size_bytes)
        is_ordered = metadata.is_ordered and not task.is_beside
        order = self.maintenance.order if is_ordered else ()
        statement = call_text(replace(task, options=narrowed), order, options=bound)
        try:
            counts = _counts(self._collect(statement, limits))
        except OvertimeError as error:
            raise RewriteOvertimeError(expected_bytes) from error
        return Done(counts, record_rewrite(options, bound, counts, metadata))

    def _recent_partitions(self, name: TableName, since: int | None) -> str | None:
        """A condition on the partitions that have files of commits after `since`; ''
        for all, None for none.

        Only files of the current snapshot count: their sequence numbers stay after the
        snapshots that added them have expired.
        """
        if since is None:
            return ""  # the first one looks at all
        found = read_partitions(
            self.session, name, load_table(self.session, name), since
        )
        if found == []:
            return None
        where = None if found is None else partitions_text(name.catalog, found)
        if where is None:
            self.tell(
                f"{name} is rewritten whole: no condition can be written for the partitions that were written to"
            )
        return where or ""

    def _expire(
        self,
        task: MaintenanceTask,
        options: ExpireSnapshots,
        metadata: TableMetadata,
        limits: Limits,
    ) -> Done | NotCalled:
        """Expire snapshots that no reader needs, after tagging the newest ledger
        entries."""
        needed = (
            Needed()
            if task.is_beside
            else find_needed(self.session, metadata, self.maintenance.readers)
        )
        planned = plan_expiry(
            task,
            options,
            metadata,
            needed,
            self.clock(),
            is_asked_for=limits.is_asked_for,
            sql_name=table_name(task.table),
        )
        if isinstance(planned, NoExpiry):
            return NotCalled(planned.why)
        tag_entries(load_table(self.session, task.table), metadata)
        statement = call_text(
            replace(task, options=planned.options), before=_time(planned.before_ms)
        )
        return Done(_counts(self._collect(statement, limits)))

    def _remove_orphans(
        self,
        task: MaintenanceTask,
        options: RemoveOrphanFiles,
        record: MaintenanceRecord | None,
        limits: Limits,
    ) -> Done | NotCalled:
        """Remove orphan files, unless the model is being rebuilt."""
        if self._is_rebuilt():
            return NotCalled()
        known = record or read_record_of(load_table(self.session, task.table))
        found = remove_orphans(
            self.session,
            task,
            _time(self.clock() - options.older_than.length_ms),
            self.maintenance.checkpoints,
            lambda statement: self._collect(statement, limits),
            self.sweep,
            known.unknown.listed,
        )
        counts = {
            "orphan_files_count": found.removed,
            "unknown_files_count": found.unknown.count,
        }
        return Done(
            counts,
            replace(known, unknown=found.unknown),
            found.left if self.sweep == "list" else (),
        )

    def _is_rebuilt(self) -> bool:
        """Whether the model is being rebuilt.

        Then files of its replacement, and of the replacement's dead letters, are among
        those of its tables, and no version of these tables has them yet.
        """
        rebuild = self.maintenance.table.rebuild
        return any(
            table_exists(self.session, name) for name in (rebuild, rebuild.dead_letter)
        )

    def _collect(self, statement: str, limits: Limits) -> list[Row]:
        with limit_time(self.session, limits.most_ms):
            return self.session.sql(statement).collect()


def has_changed_nothing(options: Procedure, counts: Mapping[str, int]) -> bool:
    """Whether a procedure that was due by a threshold has left unchanged what made it
    due: called again, it would do the same.

    For example, its commits had small files, and no partition has enough of them; its
    `where` has excluded the delete files; or as many manifests are needed as before.
    """
    match options:
        case RewriteDataFiles():
            return not counts.get("rewritten_bytes_count")
        case RewriteManifests():
            return counts.get("added_manifests_count", 0) >= counts.get(
                "rewritten_manifests_count", 0
            )
        case RewritePositionDeleteFiles() | ExpireSnapshots():
            return not any(counts.values())
        case RemoveOrphanFiles():
            return False
        case _:
            assert_never(options)


def read_metadata_of(session: SparkSession, table: TableName) -> TableMetadata:
    """The table's metadata with all snapshots: megabytes of JSON if there are
    thousands."""
    return parse_metadata(read_json(load_table(session, table)))


def read_record_of(table: JavaTable) -> MaintenanceRecord:
    """The record of earlier maintenance in the table's properties."""
    return parse_record(str(table.properties().getOrDefault(MAINTENANCE_PROPERTY, "")))


def _has_delete_files(table: JavaTable) -> bool:
    head = next(read_history(table), None)
    return head is not None and bool(totals_of(head.summary).delete_files)


def _counts(rows: Iterable[Row]) -> Mapping[str, int]:
    """The counts that a procedure returns in its one row."""
    row = next(iter(rows), None)
    if row is None:
        return {}
    return {key: int(value) for key, value in row.asDict().items() if value is not None}


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
