"""A refresh by what has changed: by key, or by the difference that a change of the inputs makes to groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.quote import table_name
from lakesql.compile.select import Select
from lakesql.counts import count
from lakesql.engine.ledger.snapshots import JavaTable
from lakesql.engine.refresh.input_tables import show_input, show_inputs
from lakesql.engine.spark.internals import replace_view
from lakesql.engine.spark.row_changes import ChangesUnknownError, RowChanges, changes_between
from lakesql.ledger.inputs import InputSnapshot, table_of
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.names import ADJUSTED_VIEW
from lakesql.views.difference import DELTA, ROWS, TARGET
from lakesql.views.plan_view import TOUCHED
from lakesql.views.view_tree import COME, GONE, OLD

SMALL_ROWS = 100_000
"""Of tables with fewer rows no change is too large to be computed by key."""

LARGE_SHARE = 0.3
"""The share of an input's rows from which on a change is so large that all rows are computed at once."""


class InFullError(Exception):
    """All rows are to be made anew: `why`, in words. `is_lost`: a snapshot that is compared is not to be had."""

    def __init__(self, why: str, *, is_lost: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.is_lost = is_lost


@dataclass(frozen=True, slots=True)
class ChangedView:
    """The rows of a view that are to be put in the place of former ones, and how they were found: the keys or groups
    that this is about are counted. `leaves`: groups that have gone are among the rows, with 0 rows of their own."""

    rows: DataFrame
    count: int
    is_by_difference: bool
    leaves: bool = False

    @property
    def lasting(self) -> DataFrame:
        """The rows without those of groups that have gone."""
        return self.rows.where(f"{ROWS} > 0") if self.leaves else self.rows

    @property
    def how(self) -> str:
        """The way, in words."""
        if not self.count:
            return "no row is another one"
        if self.is_by_difference:
            return f"by difference, {count(self.count, 'group')}"
        return f"by key, {count(self.count, 'key')}"


@contextmanager
def open_changed_rows(
    session: SparkSession,
    select: Select,
    tables: Mapping[str, JavaTable],
    former: Mapping[str, InputSnapshot],
    inputs: Mapping[str, InputSnapshot],
) -> Iterator[ChangedView]:
    """The rows to be made anew where the tables have come from the `former` snapshots to these, with the views that the
    statements read. What is held for them is let go at the end.

    Raises `InFullError` where all rows are to be.
    """
    plan = refreshes_of(select).plan
    if former.keys() != inputs.keys():
        raise InFullError("it was made of other tables")
    for name in tables:
        if former[name].table_id != inputs[name].table_id:
            raise InFullError(f"{name} is another table than before", is_lost=True)
    stored = {name.lower() for name in session.table(table_name(select.model.table)).columns}
    if any(column.name.lower() not in stored for column in plan.hidden):
        raise InFullError("its table does not have yet what is kept of its groups")
    changed = {name: number for number, name in enumerate(tables) if former[name] != inputs[name]}
    way = plan.way_for(changed.values())
    if way == "full":
        obstacle = next((plan.in_full[number] for number in changed.values() if number in plan.in_full), None)
        raise InFullError(obstacle.reason if obstacle else plan.reason)
    with ExitStack() as held:
        for name, number in changed.items():
            spans = former[name].snapshot, inputs[name].snapshot
            changes = held.enter_context(_changes(session, name, tables[name], *spans))
            _check_size(name, tables[name], changes)
            none = session.table(name).limit(0)
            replace_view(none if changes.gone is None else changes.gone, f"{GONE}{number}")
            replace_view(none if changes.come is None else changes.come, f"{COME}{number}")
            show_input(session, name, tables[name], former[name].snapshot, f"{OLD}{number}")
        show_inputs(session, tables, inputs)
        numbers = [*changed.values()]
        yield _by_difference(session, select, numbers) if way == "difference" else _by_key(session, select, numbers)


def _by_key(session: SparkSession, select: Select, changed: Sequence[int]) -> ChangedView:
    plan = refreshes_of(select).plan
    touched = _make(session, plan.touched(changed), TOUCHED)
    return ChangedView(session.sql(plan.touched_rows).localCheckpoint(), touched.count(), False)


def _by_difference(session: SparkSession, select: Select, changed: Sequence[int]) -> ChangedView:
    """The groups that have changed, from what was added to them and taken from them; of those of which only their rows
    say what they are now, the rows."""
    plan = refreshes_of(select).plan
    assert plan.difference is not None, "it is kept by difference"
    _make(session, plan.delta(changed), DELTA)
    replace_view(session.table(table_name(select.model.table)), TARGET)
    adjusted = _make(session, plan.difference.adjusted, ADJUSTED_VIEW)
    groups = adjusted.count()
    leaves = bool(plan.unit)
    if not plan.difference.recomputes:
        return ChangedView(adjusted, groups, True, leaves)
    touched = _make(session, plan.difference.recompute, TOUCHED)
    again = touched.count()
    if not again:
        return ChangedView(adjusted, groups, True, leaves)
    rows = adjusted.unionByName(session.sql(plan.touched_rows)).localCheckpoint()
    return ChangedView(rows, groups + again, True, leaves)


def _make(session: SparkSession, query: str, view: str) -> DataFrame:
    """The rows of a query, made once, under the name of a view."""
    rows = session.sql(query).localCheckpoint()
    replace_view(rows, view)
    return rows


@contextmanager
def _changes(
    session: SparkSession, name: str, table: JavaTable, before: int | None, after: int | None
) -> Iterator[RowChanges]:
    if after is None:
        raise InFullError(f"{name} has no snapshot any more", is_lost=True)
    try:
        with changes_between(session, table_of(name), table, before, after) as changes:
            yield changes
    except ChangesUnknownError:
        why = f"the snapshot of {name} that it was made of is gone, or none of its past"
        raise InFullError(why, is_lost=True) from None


def _check_size(name: str, table: JavaTable, changes: RowChanges) -> None:
    """Raise where so many rows of a table have changed that it is cheaper to compute all."""
    head = table.currentSnapshot()
    total = int(head.summary().getOrDefault("total-records", "0")) if head is not None else 0
    if total < SMALL_ROWS or changes.rows_read <= total * LARGE_SHARE:
        return
    rows = sum(frame.count() for frame in (changes.gone, changes.come) if frame is not None)
    if rows > total * LARGE_SHARE:
        raise InFullError(f"{rows:,} rows of {name} have changed")
