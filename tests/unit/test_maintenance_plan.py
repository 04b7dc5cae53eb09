"""What of a table's maintenance is called, what waits, and until when."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakesql.ledger.entry import Snapshot
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.model.table_name import TableName
from lakesql.project.procedures import (
    HOUR_MS,
    ExpireSnapshots,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    name_of,
)
from lakesql.table.due import KnownAmounts
from lakesql.table.maintenance_plan import (
    Call,
    TimeBudget,
    Wait,
    next_step,
    plan_maintenance,
)
from lakesql.table.maintenance_record import MaintenanceRecord
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import Uncompacted

NOW = 1_800_000_000_000
TABLE = TableName("lake", "shop", "orders")
DATA, DELETES, MANIFESTS, EXPIRY = (
    MaintenanceTask("orders", "orders", name_of(options), TABLE, options)
    for options in (
        RewriteDataFiles(),
        RewritePositionDeleteFiles(),
        RewriteManifests(),
        ExpireSnapshots(),
    )
)
HEAD = Snapshot(1, {"total-delete-files": "3"}, at_ms=NOW - 9 * HOUR_MS)
METADATA = TableMetadata("", 2, {}, {1: HEAD}, (HEAD,))
AMOUNTS = KnownAmounts(METADATA, Uncompacted(small_files=40), manifests=120)
UNUSED = TimeBudget(MaintenanceRecord(), 0.1)


def plan(
    budget: TimeBudget = UNUSED, amounts: KnownAmounts = AMOUNTS
) -> list[Call | Wait]:
    return plan_maintenance(
        (DATA, DELETES, MANIFESTS, EXPIRY), amounts, budget, NOW, 1.0
    )


def spent(*times: tuple[int, int], **more: object) -> TimeBudget:
    return TimeBudget(replace(MaintenanceRecord(spent=times), **more), 0.1)  # type: ignore[arg-type]


def test_what_is_due_is_called_in_order_each_with_why() -> None:
    assert [(step.task, type(step)) for step in plan()] == [
        (DATA, Call),
        (DELETES, Call),
        (MANIFESTS, Call),
    ]
    assert [step.why for step in plan()][::2] == ["40 small files", "120 manifests"]


def test_what_has_failed_waits_and_nothing_follows_it() -> None:
    until = NOW + 30_000
    steps = plan(spent(retry_at={DATA.name: until}))
    assert [step.task for step in steps if isinstance(step, Call)] == [MANIFESTS]
    (wait,) = (step for step in steps if isinstance(step, Wait))
    assert (wait.task, wait.why, wait.until_ms, wait.is_of_time) == (
        DATA,
        "40 small files",
        until,
        False,
    )
    assert all(
        isinstance(step, Call) for step in plan(spent(retry_at={DATA.name: NOW}))
    )
    asked_for = replace(spent(retry_at={DATA.name: until}), is_unlimited=True)
    assert DATA in [step.task for step in plan(asked_for) if isinstance(step, Call)]


def test_all_waits_where_the_time_is_spent_or_somebody_else_maintains_the_table() -> (
    None
):
    late = plan(spent((NOW - 1_000, 360_000)))
    assert [step.task for step in late] == [DATA, DELETES, MANIFESTS]
    assert all(isinstance(step, Wait) and step.is_of_time for step in late)
    left = replace(METADATA, properties={"lakesql.maintenance.enabled": "false"})
    found = plan(amounts=replace(AMOUNTS, metadata=left))
    assert found and all(
        isinstance(step, Wait) and step.until_ms is None for step in found
    )


def test_time_is_looked_at_before_each_call_but_for_one_that_belongs_to_the_last() -> (
    None
):
    calls = [step for step in plan() if isinstance(step, Call)]
    over, since = spent((NOW - 1_000, 360_000)), NOW - 9 * HOUR_MS
    assert next_step(calls, None, over, since, NOW) == calls[0], "it was planned"
    assert next_step(calls[1:], calls[0], over, since, NOW) == calls[1]
    assert isinstance(next_step(calls[2:], calls[1], over, since, NOW), Wait)
    assert next_step(calls[2:], calls[1], UNUSED, since, NOW) == calls[2]
    assert next_step([], calls[2], UNUSED, since, NOW) is None


@given(
    st.lists(
        st.tuples(st.integers(0, HOUR_MS - 1), st.integers(1, 900_000)), max_size=6
    ),
    st.integers(0, 3 * HOUR_MS),
    st.sampled_from([0.05, 0.1, 1.0]),
)
def test_time_is_back_at_the_first_moment_that_has_some(
    calls: list[tuple[int, int]], age_ms: int, ratio: float
) -> None:
    budget = TimeBudget(
        MaintenanceRecord(
            spent=tuple((NOW - ago_ms, took_ms) for ago_ms, took_ms in calls)
        ),
        ratio,
    )
    since = NOW - age_ms
    if budget.time_left_ms(since, NOW) > 0:
        return
    back = budget.time_back_ms(since, NOW)
    assert budget.time_left_ms(since, back) > 0
    assert budget.time_left_ms(since, back - 2) <= 0
