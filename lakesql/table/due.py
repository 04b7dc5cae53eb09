"""Which maintenance is due on a table, and why: asked by a run, `status`, a run with
nothing new, and a forecast."""

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
"""How many times a threshold is passed where the files themselves are what keeps a
model behind its source."""

MOST_DELETED = 0.8
"""The share of deleted rows that is urgent, where the threshold times `URGENT` would be
more."""

AT_ONCE = 0.0
"""No threshold and no time counts: somebody has asked for it."""

OVERDUE = math.nextafter(1.0, 2.0)
"""A threshold is passed, and not only reached: with as much as makes it due, a
procedure may just be beginning."""


class Task(Protocol):
    """A procedure that may be due on a table; where it `is_by_time`, no threshold
    counts, but its trigger alone."""

    @property
    def procedure(self) -> str:
        """Its name."""

    @property
    def options(self) -> Procedure:
        """How it is run, and when it is due."""

    @property
    def is_by_time(self) -> bool:
        """Whether its trigger alone counts."""


class Amounts(Protocol):
    """What a table has of what maintenance removes: as its metadata says, or as a
    forecast works it out."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no snapshot yet."""

    @property
    def is_shared(self) -> bool:
        """Whether other tables may have its files too, so that none may be deleted."""

    @property
    def version(self) -> int:
        """Iceberg's format version."""

    @property
    def uncompacted(self) -> Uncompacted:
        """What has come since its data files were rewritten last."""

    @property
    def delete_files(self) -> float:
        """How many delete files it has."""

    @property
    def manifests(self) -> float:
        """How many manifests its current snapshot has."""

    def since_ms(self, procedure: str) -> float:
        """When a procedure was done last; where it never was, since when the table is
        there."""

    def is_changed_since(self, procedure: str) -> bool:
        """Whether a commit has come since a procedure was done last."""

    def count_old(self, options: ExpireSnapshots, now_ms: float) -> int:
        """How many snapshots an expiry would remove."""


@dataclass(frozen=True, slots=True)
class KnownAmounts:
    """What a table has by its metadata; `manifests` are those of its current
    snapshot."""

    metadata: TableMetadata
    uncompacted: Uncompacted
    manifests: float

    @property
    def is_empty(self) -> bool:
        """Whether the table has no snapshot yet."""
        return self.metadata.head is None

    @property
    def is_shared(self) -> bool:
        """Whether other tables may have its files too."""
        return self.metadata.is_shared

    @property
    def version(self) -> int:
        """Iceberg's format version."""
        return self.metadata.version

    @property
    def delete_files(self) -> float:
        """How many delete files the table has."""
        return self.metadata.head.delete_files if self.metadata.head is not None else 0

    def since_ms(self, procedure: str) -> float:
        """When a procedure was done last, or since when the table is there."""
        return self.metadata.record.done.get(procedure, self.metadata.start_ms)

    def is_changed_since(self, procedure: str) -> bool:
        """Whether a commit has come since a procedure was done last."""
        head = self.metadata.head
        return head is not None and head.at_ms > self.metadata.record.done.get(
            procedure, 0
        )

    def count_old(self, options: ExpireSnapshots, now_ms: float) -> int:
        """How many snapshots an expiry would remove."""
        return count_old(self.metadata, options, round(now_ms))


T = TypeVar("T", bound=Task)


def find_due(
    tasks: Iterable[T], amounts: Amounts, now_ms: float, factor: float
) -> list[tuple[T, str]]:
    """Those of a table's tasks that are due, in their order, and why. Thresholds count
    `factor` times."""
    due: list[tuple[T, str]] = []
    for task in tasks:
        why = why_due(task, amounts, now_ms, factor)
        if not why and due:
            why = _why_following(task, due, amounts)
        if why:
            due.append((task, why))
    return due


def why_due(task: Task, amounts: Amounts, now_ms: float, factor: float) -> str:
    """Why a task is due on a table, for people; '' where it is not. Thresholds count
    `factor` times.

    By time nothing is due that would find nothing to do, or while the model is behind
    its source.
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
    """Why a rewrite of data files is due by its thresholds, which count `factor` times;
    '' where it is not."""
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
    """Whether a task belongs to the one before it: the deletes of files that were
    rewritten apply to nothing any more, and count as deleted rows until they are
    removed."""
    return isinstance(task.options, RewritePositionDeleteFiles) and isinstance(
        before.options, RewriteDataFiles
    )


def time_left_ms(
    spent: Iterable[tuple[float, float]], ratio: float, since_ms: float, now_ms: float
) -> float:
    """How long maintenance may still take: a share of the last hour, or of the time
    since `since_ms`."""
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
    """Whether a task's trigger says that it is due, or somebody has asked for it."""
    if factor == AT_ONCE:
        return True
    trigger = task.options.trigger
    if trigger is None or factor >= URGENT:
        return False
    return now_ms - amounts.since_ms(task.procedure) >= trigger.length_ms


def _has_work(options: Procedure, amounts: Amounts, now_ms: float) -> bool:
    """Whether a procedure would find something to do at its time."""
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
    """Why delete files are to be rewritten right after data files that had some; ''
    where they are not."""
    has_delete_files = amounts.delete_files > 0 and amounts.version < DELETION_VECTORS
    if task.is_by_time or not has_delete_files:
        return ""
    is_after_rewrite = any(follows(task, before) for before, _ in due)
    return "it follows a rewrite of data files" if is_after_rewrite else ""
