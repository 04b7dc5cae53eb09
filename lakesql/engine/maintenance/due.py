"""Which tasks are due, and how much time they may take. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from lakesql.engine.maintenance.figures import Level, TableFacts
from lakesql.model.upkeep import MaintenanceTask
from lakesql.project.procedures import (
    DELETION_VECTORS,
    HOUR_MS,
    LEAST_EXPIRY_MS,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)

URGENT = 8.0
"""How many times a threshold is passed where the files themselves are what keeps a model behind its source."""

MOST_DELETED = 0.8
"""The share of deleted rows that is urgent, where the threshold times `URGENT` would be more."""

AT_ONCE = 0.0
"""No threshold and no time counts: somebody has asked for it."""


def find_due(
    tasks: Iterable[MaintenanceTask], facts: TableFacts, level: Level, manifests: int, now_ms: int, factor: float
) -> list[MaintenanceTask]:
    """Those of a table's tasks that are due, in their order. Thresholds count `factor` times."""
    due: list[MaintenanceTask] = []
    for task in tasks:
        is_of_deletes = isinstance(task.options, RewritePositionDeleteFiles) and not task.is_by_time
        if (is_of_deletes and _follows(due, facts)) or why_due(
            task.procedure, task.options, facts, level, manifests, now_ms, factor, task.is_by_time
        ):
            due.append(task)
    return due


def why_due(
    procedure: str,
    options: Procedure,
    facts: TableFacts,
    level: Level,
    manifests: int,
    now_ms: int,
    factor: float,
    is_by_time: bool = False,
) -> str:
    """Why a procedure is due on a table, for people; '' where it is not. Thresholds count `factor` times.

    `is_by_time`: no threshold counts, but the trigger alone.
    """
    head = facts.head
    if head is None:
        return ""
    last_ms = facts.work.done.get(procedure, facts.start_ms)
    is_time = options.trigger is not None and now_ms - last_ms >= options.trigger.length_ms and factor < URGENT
    is_time = is_time or factor == AT_ONCE
    if is_by_time:
        return "its time" if is_time and _has_work(options, facts, level, manifests, now_ms) else ""
    match options:
        case RewriteDataFiles():
            if level.small_files >= options.small_files * factor:
                return f"{level.small_files:,.0f} small files"
            if level.deleted >= min(options.delete_ratio * factor, max(options.delete_ratio, MOST_DELETED)):
                return f"{level.deleted * 100:.0f}% of the rows deleted"
            if facts.version < DELETION_VECTORS and level.delete_files >= options.delete_files * factor:
                return f"{level.delete_files:,} delete files"
            return "its time" if is_time and _has_work(options, facts, level, manifests, now_ms) else ""
        case RewritePositionDeleteFiles():
            if facts.version >= DELETION_VECTORS:
                return ""
            if level.new_delete_files >= options.delete_files * factor:
                return f"{level.new_delete_files:,} delete files"
            if level.has_left and factor < URGENT and head.delete_files:
                return "a rewrite of data files has left delete files"
            return "its time" if is_time and _has_work(options, facts, level, manifests, now_ms) else ""
        case RewriteManifests():
            is_new = head.at_ms > facts.work.done.get(procedure, 0) or factor == AT_ONCE
            if is_new and manifests >= max(2, options.manifests * factor):
                return f"{manifests:,} manifests"
            return "its time" if is_time and _has_work(options, facts, level, manifests, now_ms) else ""
        case ExpireSnapshots() | RemoveOrphanFiles() if facts.is_shared:
            return ""
        case ExpireSnapshots():
            old = count_old(facts, options, now_ms)
            return f"{old:,} old snapshots" if old and (is_time or old >= options.snapshots * factor) else ""
        case RemoveOrphanFiles():
            return "its time" if is_time else ""
        case _:
            assert_never(options)


def follows(task: MaintenanceTask, before: MaintenanceTask) -> bool:
    """Whether a task belongs to the one before it: the deletes of files that were rewritten apply to nothing any more,
    and count as deleted rows until they are removed."""
    return isinstance(task.options, RewritePositionDeleteFiles) and isinstance(before.options, RewriteDataFiles)


def _follows(due: Iterable[MaintenanceTask], facts: TableFacts) -> bool:
    """Whether delete files are to be looked at because data files that had some are rewritten before."""
    has_deletes = facts.head is not None and facts.head.delete_files > 0
    return (
        has_deletes
        and facts.version < DELETION_VECTORS
        and any(isinstance(task.options, RewriteDataFiles) for task in due)
    )


def _has_work(options: Procedure, facts: TableFacts, level: Level, manifests: int, now_ms: int) -> bool:
    """Whether a procedure would find something to do at its time."""
    match options:
        case RewriteDataFiles():
            return options.rewrite_all is True or level.small_files > 1 or level.delete_files > 0
        case RewritePositionDeleteFiles():
            deletes = facts.head.delete_files if facts.head else 0
            return facts.version < DELETION_VECTORS and deletes > 1
        case RewriteManifests():
            return manifests > 1
        case ExpireSnapshots():
            return not facts.is_shared and count_old(facts, options, now_ms) > 0
        case RemoveOrphanFiles():
            return not facts.is_shared
        case _:
            assert_never(options)


def count_old(facts: TableFacts, options: ExpireSnapshots, now_ms: int) -> int:
    """How many snapshots an expiry would remove."""
    return count_older(facts, options, expires_before_ms(facts, options, now_ms))


def count_older(facts: TableFacts, options: ExpireSnapshots, before_ms: int) -> int:
    """How many snapshots from before a time an expiry would remove."""
    kept = {each.id for each in facts.history[: snapshots_kept(facts, options)]} | set(facts.refs.values())
    return sum(each.at_ms < before_ms and each.id not in kept for each in facts.snapshots.values())


def snapshots_kept(facts: TableFacts, options: ExpireSnapshots) -> int:
    """How many snapshots stay, however old they are: what keeps more counts, the option or the table's property."""
    return max(options.retain_last, facts.retention.snapshots or 0)


def expires_before_ms(facts: TableFacts, options: ExpireSnapshots, now_ms: int) -> int:
    """Before which time snapshots expire: by their age, or as they are too many.

    Of the ages that the option, the table's property and its branch main say, the longest one counts; one that the
    table says is kept, however many these are.
    """
    said_ms = max(facts.retention.age_ms or 0, facts.retention.main_age_ms or 0)
    by_age = now_ms - max(options.older_than.length_ms, said_ms)
    is_said = said_ms >= options.older_than.length_ms
    if is_said or options.most is None or len(facts.history) <= options.most:
        return by_age
    by_count = facts.history[options.most - 1].at_ms
    return max(by_age, min(by_count, now_ms - LEAST_EXPIRY_MS))


def goes_further(facts: TableFacts, options: ExpireSnapshots, before_ms: int, now_ms: int) -> bool:
    """Whether Iceberg would expire more than it is told to: it goes by the age that the branch main says of itself."""
    age_ms = facts.retention.main_age_ms
    if age_ms is None or now_ms - age_ms <= before_ms:
        return False
    return count_older(facts, options, now_ms - age_ms) > count_older(facts, options, before_ms)


def time_left_ms(spent: Iterable[tuple[int, int]], ratio: float, since_ms: int, now_ms: int) -> float:
    """How long maintenance may still take: a share of the last hour, or of the time since `since_ms`."""
    used = sum(took_ms for at_ms, took_ms in spent if now_ms - at_ms < HOUR_MS)
    return ratio * min(HOUR_MS, max(0, now_ms - since_ms)) - used
