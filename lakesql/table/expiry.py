"""Which snapshots of a table an expiry removes: by their age, their number, and what
readers still need. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.project.procedures import HOUR_MS, LEAST_EXPIRY_MS, ExpireSnapshots
from lakesql.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Needed:
    """The snapshots that readers still need: those from `since_ms` on; None if they
    need none.

    `waiting` are readers, and rebuilds of readers, in words, of which it is unknown how
    far they have read the table.
    """

    since_ms: int | None = None
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expiry:
    """An expiry to be called, for snapshots older than `before_ms`, with these
    options."""

    options: ExpireSnapshots
    before_ms: int


@dataclass(frozen=True, slots=True)
class NoExpiry:
    """No snapshot expires now. `why` is the reason in words; '' if so few would expire
    that a call does not pay."""

    why: str = ""


def plan_expiry(
    task: MaintenanceTask,
    options: ExpireSnapshots,
    metadata: TableMetadata,
    needed: Needed,
    now_ms: int,
    *,
    is_asked_for: bool,
    sql_name: str,
) -> Expiry | NoExpiry:
    """What a due expiry removes from a table.

    `is_asked_for`: somebody has asked for it. `sql_name` is the table's name in SQL.
    """
    before_ms = expires_before_ms(metadata, options, now_ms)
    options = replace(options, retain_last=snapshots_kept(metadata, options))
    if needed.waiting:
        names = " or ".join(needed.waiting)
        return NoExpiry(
            f"no snapshot of {task.table} expires, as nothing says what {names} has read of it"
        )
    if needed.since_ms is not None and needed.since_ms < before_ms:
        before_ms = needed.since_ms
        if not _pays(task, options, metadata, before_ms, now_ms, is_asked_for):
            return NoExpiry()
    if goes_further(metadata, options, before_ms, now_ms):
        hours = math.ceil(options.older_than.length_ms / HOUR_MS)
        change = f"ALTER TABLE {sql_name} REPLACE BRANCH main WITH SNAPSHOT RETENTION {hours} HOURS"
        return NoExpiry(
            f"no snapshot of {task.table} expires: the branch main says by itself how long they are kept, which is "
            f"less than is needed. To have it say as much as lakesql does: {change}"
        )
    return Expiry(options, before_ms)


def _pays(
    task: MaintenanceTask,
    options: ExpireSnapshots,
    metadata: TableMetadata,
    before_ms: int,
    now_ms: int,
    is_asked_for: bool,
) -> bool:
    """Whether a call is worth its cost although readers need some of the old snapshots:
    enough would expire, or it is time for it."""
    old = count_older(metadata, options, before_ms)
    if old >= options.snapshots:
        return True
    interval_ms = options.trigger.length_ms if options.trigger else HOUR_MS
    is_time = now_ms - metadata.record.done.get(task.procedure, 0) >= interval_ms
    return old > 0 and (is_time or is_asked_for)


def count_old(metadata: TableMetadata, options: ExpireSnapshots, now_ms: int) -> int:
    """How many snapshots an expiry would remove now."""
    return count_older(metadata, options, expires_before_ms(metadata, options, now_ms))


def count_older(
    metadata: TableMetadata, options: ExpireSnapshots, before_ms: int
) -> int:
    """How many snapshots older than `before_ms` an expiry would remove."""
    newest = metadata.history[: snapshots_kept(metadata, options)]
    kept = {each.id for each in newest} | set(metadata.refs.values())
    return sum(
        each.at_ms < before_ms and each.id not in kept
        for each in metadata.snapshots.values()
    )


def snapshots_kept(metadata: TableMetadata, options: ExpireSnapshots) -> int:
    """How many snapshots are kept whatever their age: the larger one of the option and
    the table's property."""
    return max(options.retain_last, metadata.retention.snapshots or 0)


def expires_before_ms(
    metadata: TableMetadata, options: ExpireSnapshots, now_ms: int
) -> int:
    """The time before which snapshots expire, by their age or because there are too
    many.

    The longest of the ages in the option, the table's property and its branch main
    counts; an age that the table sets is respected even if there are too many
    snapshots.
    """
    said_ms = max(metadata.retention.age_ms or 0, metadata.retention.main_age_ms or 0)
    by_age = now_ms - max(options.older_than.length_ms, said_ms)
    if said_ms >= options.older_than.length_ms:
        return by_age
    if options.most is None or len(metadata.history) <= options.most:
        return by_age
    by_count = metadata.history[options.most - 1].at_ms
    return max(by_age, min(by_count, now_ms - LEAST_EXPIRY_MS))


def goes_further(
    metadata: TableMetadata, options: ExpireSnapshots, before_ms: int, now_ms: int
) -> bool:
    """Whether Iceberg would expire more snapshots than it is asked to, because the
    branch main has a shorter retention of its own."""
    age_ms = metadata.retention.main_age_ms
    if age_ms is None or now_ms - age_ms <= before_ms:
        return False
    return count_older(metadata, options, now_ms - age_ms) > count_older(
        metadata, options, before_ms
    )
