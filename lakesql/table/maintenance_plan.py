"""Which maintenance of a table is called now, which waits, and why: for a run and for
`lakesql status`. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.names import MAINTAINED_PROPERTY
from lakesql.project.procedures import HOUR_MS
from lakesql.table.due import KnownAmounts, find_due, follows, time_left_ms
from lakesql.table.maintenance_record import MaintenanceRecord


@dataclass(frozen=True, slots=True)
class Call:
    """A task that is to be called, and the reason why it is due."""

    task: MaintenanceTask
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A task that is due (`why`) but waits: for what, in words, and until when at the
    latest; None if unknown.

    `is_of_time`: no time is left for it now.
    """

    task: MaintenanceTask
    why: str
    waits_for: str
    until_ms: int | None = None
    is_of_time: bool = False


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """How much time maintenance may take, by the record with the model's own table,
    which covers all of the model's tables.

    `is_unlimited`: somebody has asked for maintenance, however long it takes, and tasks
    that have failed are called again at once.
    """

    record: MaintenanceRecord
    max_time_ratio: float
    is_unlimited: bool = False

    def time_left_ms(self, since_ms: float, now_ms: float) -> float:
        """How long maintenance may still run: a share of the last hour, or of the time
        since `since_ms`, minus what was spent."""
        if self.is_unlimited:
            return math.inf
        return time_left_ms(self.record.spent, self.max_time_ratio, since_ms, now_ms)

    def time_back_ms(self, since_ms: float, now_ms: float) -> int:
        """The time from which on maintenance has time again, because what it spent is
        an hour ago or the table is old enough."""
        spent = sorted(each for each in self.record.spent if now_ms - each[0] < HOUR_MS)
        used_ms = sum(took_ms for _, took_ms in spent)
        from_ms = now_ms
        for at_ms, took_ms in spent:
            is_old_enough_ms = max(from_ms, since_ms + used_ms / self.max_time_ratio)
            if (
                used_ms < self.max_time_ratio * HOUR_MS
                and is_old_enough_ms < at_ms + HOUR_MS
            ):
                return math.floor(is_old_enough_ms) + 1
            used_ms -= took_ms
            from_ms = max(from_ms, at_ms + HOUR_MS)
        return math.floor(max(from_ms, since_ms)) + 1

    def may(self, task: MaintenanceTask, now_ms: int) -> bool:
        """Whether a task may be called: it has not recently failed or found nothing to
        do."""
        return self.is_unlimited or self.record.may(task.name, now_ms)


def plan_maintenance(
    tasks: Iterable[MaintenanceTask],
    amounts: KnownAmounts,
    budget: TimeBudget,
    now_ms: int,
    factor: float,
) -> list[Call | Wait]:
    """The tasks of a table that are due, in their order, each as a call or a wait.
    Thresholds are multiplied by `factor`."""
    known = [*tasks]
    may = [task for task in known if budget.may(task, now_ms)]
    resting = [task for task in known if not budget.may(task, now_ms)]
    due = [Call(task, why) for task, why in find_due(may, amounts, now_ms, factor)]
    waits: list[Call | Wait] = [
        Wait(task, why, _tried_again(task), budget.record.retry_at[task.name])
        for task, why in find_due(resting, amounts, now_ms, factor)
    ]
    metadata = amounts.metadata
    if metadata.is_left:
        what = f"somebody else maintains the table, as its property {MAINTAINED_PROPERTY} says"
        return [Wait(each.task, each.why, what) for each in (*due, *waits)]
    if budget.time_left_ms(metadata.start_ms, now_ms) <= 0:
        return [
            *(wait_for_time(call, budget, metadata.start_ms, now_ms) for call in due),
            *waits,
        ]
    return [*due, *waits]


def next_step(
    calls: Sequence[Call],
    before: Call | None,
    budget: TimeBudget,
    since_ms: int,
    now_ms: int,
) -> Call | Wait | None:
    """What follows the call `before`: the first of the remaining `calls`, or its wait;
    None if none remains.

    The remaining time is checked before each call, except the first one and one that
    belongs to the call before it.
    """
    if not calls:
        return None
    call = calls[0]
    is_part_of_last = before is not None and follows(call.task, before.task)
    if is_part_of_last or before is None or budget.time_left_ms(since_ms, now_ms) > 0:
        return call
    return wait_for_time(call, budget, since_ms, now_ms)


def wait_for_time(call: Call, budget: TimeBudget, since_ms: int, now_ms: int) -> Wait:
    """The wait of a call for which maintenance has no time left."""
    what = f"maintenance has taken its share of the time (max_time_ratio {budget.max_time_ratio:g})"
    return Wait(
        call.task,
        call.why,
        what,
        budget.time_back_ms(since_ms, now_ms),
        is_of_time=True,
    )


def _tried_again(task: MaintenanceTask) -> str:
    return f"{task.name} has failed, or has found nothing to do, a short time ago"
