"""Which snapshots of a table an expiry removes: by their age, by their number, and by
what readers need. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.project.procedures import HOUR_MS, LEAST_EXPIRY_MS, ExpireSnapshots
from lakesql.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Needed:
    """The oldest snapshots that readers need, by time: None where they need none.

    Nothing says how far those in `waiting` have read the table: readers and their
    rebuilds, in words.
    """

    since_ms: int | None = None
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expiry:
    """An expiry that is called: of snapshots from before a time, with these options."""

    options: ExpireSnapshots
    before_ms: int


@dataclass(frozen=True, slots=True)
class NoExpiry:
    """No snapshot expires now; `why`, for people, '' where so few would that it does
    not pay."""

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
    """Which snapshots of a table an expiry removes that is due.

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
    """Whether a call is worth it where readers need some of the snapshots that are old:
    which ones, only a look at what they have read says."""
    old = count_older(metadata, options, before_ms)
    if old >= options.snapshots:
        return True
    interval_ms = options.trigger.length_ms if options.trigger else HOUR_MS
    is_time = now_ms - metadata.record.done.get(task.procedure, 0) >= interval_ms
    return old > 0 and (is_time or is_asked_for)


def count_old(metadata: TableMetadata, options: ExpireSnapshots, now_ms: int) -> int:
    """How many snapshots an expiry would remove."""
    return count_older(metadata, options, expires_before_ms(metadata, options, now_ms))


def count_older(
    metadata: TableMetadata, options: ExpireSnapshots, before_ms: int
) -> int:
    """How many snapshots from before a time an expiry would remove."""
    newest = metadata.history[: snapshots_kept(metadata, options)]
    kept = {each.id for each in newest} | set(metadata.refs.values())
    return sum(
        each.at_ms < before_ms and each.id not in kept
        for each in metadata.snapshots.values()
    )


def snapshots_kept(metadata: TableMetadata, options: ExpireSnapshots) -> int:
    """How many snapshots stay, however old they are: what keeps more counts, the option
    or the table's property."""
    return max(options.retain_last, metadata.retention.snapshots or 0)


def expires_before_ms(
    metadata: TableMetadata, options: ExpireSnapshots, now_ms: int
) -> int:
    """Before which time snapshots expire: by their age, or as they are too many.

    Of the ages that the option, the table's property and its branch main say, the
    longest one counts; one that the table says is kept, however many these are.
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
    """Whether Iceberg would expire more than it is told to: it goes by the age that the
    branch main says of itself."""
    age_ms = metadata.retention.main_age_ms
    if age_ms is None or now_ms - age_ms <= before_ms:
        return False
    return count_older(metadata, options, now_ms - age_ms) > count_older(
        metadata, options, before_ms
    )
