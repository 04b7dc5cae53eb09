"""Which maintenance is due on a table, and why: for a run, `status`, a run with nothing
new, and a forecast."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, assert_never

from lakesql.project.procedures import (
    DELETION_VECTORS,
    HOUR_MS,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)
from lakesql.table.expiry import count_old
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import Uncompacted

URGENT = 8.0
"""The factor of a threshold from which the files themselves keep a model behind its
source."""

MOST_DELETED = 0.8
"""The share of deleted rows that is always urgent, as the threshold times `URGENT` may
be more than all rows."""

AT_ONCE = 0.0
"""The factor with which everything is due, because somebody has asked for it."""

OVERDUE = math.nextafter(1.0, 2.0)
"""The factor with which a threshold must be exceeded, not just reached: when it is
reached, a procedure may just be beginning."""


class Task(Protocol):
    """A procedure that may be due on a table."""

    @property
    def procedure(self) -> str:
        """The name of the procedure."""

    @property
    def options(self) -> Procedure:
        """The procedure's options, with its thresholds and its trigger."""

    @property
    def is_by_time(self) -> bool:
        """Whether only its trigger counts, and no threshold."""


class Amounts(Protocol):
    """How much of a table maintenance could remove, from its metadata or from a
    forecast."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no snapshot yet."""

    @property
    def is_shared(self) -> bool:
        """Whether other tables may reference its files, so that none may be deleted."""

    @property
    def version(self) -> int:
        """Iceberg's format version."""

    @property
    def uncompacted(self) -> Uncompacted:
        """The small files and deletes added since its data files were last
        rewritten."""

    @property
    def delete_files(self) -> float:
        """The number of its delete files."""

    @property
    def manifests(self) -> float:
        """The number of manifests of its current snapshot."""

    def since_ms(self, procedure: str) -> float:
        """The time at which a procedure last ran; if it never ran, the time since which
        the table exists."""

    def is_changed_since(self, procedure: str) -> bool:
        """Whether there was a commit since a procedure last ran."""

    def count_old(self, options: ExpireSnapshots, now_ms: float) -> int:
        """The number of snapshots that an expiry would remove."""


@dataclass(frozen=True, slots=True)
class KnownAmounts:
    """The `Amounts` of an existing table, from its metadata; `manifests` are those of
    its current snapshot."""

    metadata: TableMetadata
    uncompacted: Uncompacted
    manifests: float

    @property
    def is_empty(self) -> bool:
        """Whether the table has no snapshot yet."""
        return self.metadata.head is None

    @property
    def is_shared(self) -> bool:
        """Whether other tables may reference its files."""
        return self.metadata.is_shared

    @property
    def version(self) -> int:
        """Iceberg's format version."""
        return self.metadata.version

    @property
    def delete_files(self) -> float:
        """The number of the table's delete files."""
        return self.metadata.head.delete_files if self.metadata.head is not None else 0

    def since_ms(self, procedure: str) -> float:
        """The time at which a procedure last ran, or since which the table exists."""
        return self.metadata.record.done.get(procedure, self.metadata.start_ms)

    def is_changed_since(self, procedure: str) -> bool:
        """Whether there was a commit since a procedure last ran."""
        head = self.metadata.head
        return head is not None and head.at_ms > self.metadata.record.done.get(
            procedure, 0
        )

    def count_old(self, options: ExpireSnapshots, now_ms: float) -> int:
        """The number of snapshots that an expiry would remove."""
        return count_old(self.metadata, options, round(now_ms))


T = TypeVar("T", bound=Task)


def find_due(
    tasks: Iterable[T], amounts: Amounts, now_ms: float, factor: float
) -> list[tuple[T, str]]:
    """The tasks of a table that are due, in their order, each with the reason in words.
    Thresholds are multiplied by `factor`."""
    due: list[tuple[T, str]] = []
    for task in tasks:
        why = why_due(task, amounts, now_ms, factor)
        if not why and due:
            why = _why_following(task, due, amounts)
        if why:
            due.append((task, why))
    return due


def why_due(task: Task, amounts: Amounts, now_ms: float, factor: float) -> str:
    """The reason why a task is due on a table, in words; '' if it is not. Thresholds
    are multiplied by `factor`.

    By its trigger a task is due only if it would find something to do, and not while
    the model is behind its source.
    """
    if amounts.is_empty:
        return ""
    why = "" if task.is_by_time else _why_by_threshold(task, amounts, now_ms, factor)
    if why:
        return why
    if _is_time(task, amounts, now_ms, factor) and _has_work(
        task.options, amounts, now_ms
    ):
        return "its time"
    return ""


def why_rewrite_due(
    options: RewriteDataFiles, uncompacted: Uncompacted, version: int, factor: float
) -> str:
    """The reason why a rewrite of data files is due by its thresholds, multiplied by
    `factor`; '' if it is not."""
    most_deleted = max(options.delete_ratio, MOST_DELETED)
    if uncompacted.small_files >= options.small_files * factor:
        return f"{uncompacted.small_files:,.0f} small files"
    if uncompacted.deleted_ratio >= min(options.delete_ratio * factor, most_deleted):
        return f"{uncompacted.deleted_ratio * 100:.0f}% of the rows deleted"
    has_delete_files = version < DELETION_VECTORS
    if has_delete_files and uncompacted.delete_files >= options.delete_files * factor:
        return f"{uncompacted.delete_files:,.0f} delete files"
    return ""


def follows(task: Task, before: Task) -> bool:
    """Whether a task belongs to the one before it: after a rewrite of data files, the
    old files' delete files apply to nothing, and count as deleted rows until they are
    removed."""
    return isinstance(task.options, RewritePositionDeleteFiles) and isinstance(
        before.options, RewriteDataFiles
    )


def time_left_ms(
    spent: Iterable[tuple[float, float]], ratio: float, since_ms: float, now_ms: float
) -> float:
    """How long maintenance may still run: the share `ratio` of the last hour, or of the
    time since `since_ms` if that is shorter, minus what was spent in it."""
    used = sum(took_ms for at_ms, took_ms in spent if now_ms - at_ms < HOUR_MS)
    return ratio * min(HOUR_MS, max(0, now_ms - since_ms)) - used


def _why_by_threshold(
    task: Task, amounts: Amounts, now_ms: float, factor: float
) -> str:
    match task.options:
        case RewriteDataFiles() as options:
            return why_rewrite_due(
                options, amounts.uncompacted, amounts.version, factor
            )
        case RewritePositionDeleteFiles() as options:
            if amounts.version >= DELETION_VECTORS:
                return ""
            uncompacted = amounts.uncompacted
            if uncompacted.new_delete_files >= options.delete_files * factor:
                return f"{uncompacted.new_delete_files:,.0f} delete files"
            is_waiting = uncompacted.has_left_deletes and amounts.delete_files > 0
            if is_waiting and factor < URGENT:
                return "a rewrite of data files has left delete files"
            return ""
        case RewriteManifests() as options:
            is_changed = amounts.is_changed_since(task.procedure) or factor == AT_ONCE
            if is_changed and amounts.manifests >= max(2, options.manifests * factor):
                return f"{amounts.manifests:,.0f} manifests"
            return ""
        case ExpireSnapshots() as options:
            old = 0 if amounts.is_shared else amounts.count_old(options, now_ms)
            if old and old >= options.snapshots * factor:
                return f"{old:,} old snapshots"
            return ""
        case RemoveOrphanFiles():
            return ""
        case _:
            assert_never(task.options)


def _is_time(task: Task, amounts: Amounts, now_ms: float, factor: float) -> bool:
    """Whether a task is due by its trigger, or because somebody has asked for it."""
    if factor == AT_ONCE:
        return True
    trigger = task.options.trigger
    if trigger is None or factor >= URGENT:
        return False
    return now_ms - amounts.since_ms(task.procedure) >= trigger.length_ms


def _has_work(options: Procedure, amounts: Amounts, now_ms: float) -> bool:
    """Whether a procedure would find something to do if it ran now."""
    match options:
        case RewriteDataFiles():
            uncompacted = amounts.uncompacted
            return (
                options.rewrite_all is True
                or uncompacted.small_files > 1
                or uncompacted.delete_files > 0
            )
        case RewritePositionDeleteFiles():
            return amounts.version < DELETION_VECTORS and amounts.delete_files > 1
        case RewriteManifests():
            return amounts.manifests > 1
        case ExpireSnapshots():
            return not amounts.is_shared and amounts.count_old(options, now_ms) > 0
        case RemoveOrphanFiles():
            return not amounts.is_shared
        case _:
            assert_never(options)


def _why_following(task: T, due: Sequence[tuple[T, str]], amounts: Amounts) -> str:
    """The reason to rewrite delete files right after a due rewrite of data files that
    had some; '' if there is none."""
    has_delete_files = amounts.delete_files > 0 and amounts.version < DELETION_VECTORS
    if task.is_by_time or not has_delete_files:
        return ""
    is_after_rewrite = any(follows(task, before) for before, _ in due)
    return "it follows a rewrite of data files" if is_after_rewrite else ""
