"""Which rows of a table a refresh replaces: those of the keys that changes of the
inputs reach, or those of the groups to which a difference is added."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.batch import KeyRange, bounds_text
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.select import Select
from lakesql.counts import count
from lakesql.engine.batch.bounds import joins_few, read_keys
from lakesql.engine.ledger.snapshots import JavaTable, load_table
from lakesql.engine.refresh.input_tables import keeps_columns, show_input
from lakesql.engine.refresh.shared_changes import SharedChanges
from lakesql.engine.spark.few_rows import FEW_ROWS, KeptRows, keep_rows
from lakesql.engine.spark.internals import replace_view
from lakesql.engine.spark.row_changes import ChangesUnknownError, RowChanges
from lakesql.ledger.inputs import InputSnapshot, table_of
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.names import ADJUSTED_VIEW
from lakesql.views.changed_rows import ROW
from lakesql.views.difference import DELTA, JOINED, ROWS, TARGET
from lakesql.views.plan_view import TOUCHED, ViewPlan
from lakesql.views.view_tree import COME, GONE, NEW, OLD

SMALL_ROWS = 100_000
"""An input with fewer rows than this is never refreshed in full because of the size of
a change."""

NO_OTHER_ROW = "no row is another one"
"""How a refresh that has written no row is described."""

LARGE_SHARE = 0.3
"""The share of an input's rows above which a change is so large that all rows are
recomputed."""


class InFullError(Exception):
    """All rows are to be recomputed; `why` is the reason, in words. `is_lost`: a
    snapshot needed for the comparison no longer exists."""

    def __init__(self, why: str, *, is_lost: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.is_lost = is_lost


@dataclass(frozen=True, slots=True)
class ChangedView:
    """The rows that replace former ones, and how they were found. `count` is the number
    of changed keys, or groups if `is_by_difference`; `bounds` are ranges that all of
    these keys are in. `leaves`: the rows include groups that are gone, whose count of
    rows is 0."""

    rows: DataFrame
    count: int
    is_by_difference: bool
    bounds: tuple[KeyRange, ...] = ()
    leaves: bool = False

    @property
    def are_few(self) -> bool:
        """Whether so few keys or groups have changed that they can be held by the
        driver."""
        return self.count <= FEW_ROWS

    @property
    def lasting(self) -> DataFrame:
        """The rows without those of groups that are gone."""
        return self.rows.where(f"{ROWS} > 0") if self.leaves else self.rows

    @property
    def how(self) -> str:
        """How the rows were found, in words."""
        if not self.count:
            return NO_OTHER_ROW
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
    shared: SharedChanges,
) -> Iterator[ChangedView]:
    """The rows to replace, given that the tables have advanced from the `former`
    snapshots to `inputs`. The views that the statements read exist, and what is cached
    for them is kept, until the context ends.

    Raises `InFullError` if all rows are to be recomputed.
    """
    plan = refreshes_of(select).plan
    if former.keys() != inputs.keys():
        raise InFullError("it was made of other tables")
    for name in tables:
        if former[name].table_id != inputs[name].table_id:
            raise InFullError(f"{name} is another table than before", is_lost=True)
        if not keeps_columns(tables[name], former[name]):
            raise InFullError(
                f"columns of {name} have other names than before, or are gone"
            )
    stored = {
        name.lower() for name in session.table(table_name(select.model.table)).columns
    }
    if any(column.name.lower() not in stored for column in plan.hidden):
        raise InFullError("its table does not have yet what is kept of its groups")
    changed = {
        name: number
        for number, name in enumerate(tables)
        if former[name] != inputs[name]
    }
    way = plan.way_for(changed.values())
    if way == "full":
        raise InFullError(plan.why_full(changed.values()))
    with ExitStack() as held:
        are_few = True
        for name, number in changed.items():
            spans = former[name].snapshot, inputs[name].snapshot
            changes = held.enter_context(
                _changes(session, name, tables[name], *spans, shared)
            )
            _check_size(name, tables[name], changes)
            are_few = (
                are_few and changes.count is not None and changes.count <= FEW_ROWS
            )
            for rows, view in (
                (changes.gone, f"{GONE}{number}"),
                (changes.come, f"{COME}{number}"),
            ):
                replace_view(
                    session.table(name).limit(0) if rows is None else rows, view
                )
        maker = _Maker(
            session,
            select,
            tables,
            former,
            inputs,
            tuple(changed.values()),
            are_few and plan.reads_one,
        )
        yield maker.by_difference() if way == "difference" else maker.by_key()


@dataclass(frozen=True, slots=True)
class _Maker:
    """Computes the changed rows of a view; `changed` are the numbers of the inputs that
    have changed. `reads_few`: they are computed from few rows alone."""

    session: SparkSession
    select: Select
    tables: Mapping[str, JavaTable]
    former: Mapping[str, InputSnapshot]
    inputs: Mapping[str, InputSnapshot]
    changed: tuple[int, ...]
    reads_few: bool

    @property
    def plan(self) -> ViewPlan:
        """How the view is kept up to date."""
        return refreshes_of(self.select).plan

    def by_key(self) -> ChangedView:
        """The rows of the keys that a change can reach, recomputed."""
        touched = self._make(
            self.plan.touched(self.changed), TOUCHED, is_planned_once=self.reads_few
        )
        bounds = read_keys(touched.rows, self.plan.unit)
        if bounds is None:
            return ChangedView(touched.rows, 0, is_by_difference=False)
        most = (
            touched.count
            if self.plan.unit_is_unique and self.plan.keys_follow
            else math.inf
        )
        rows = keep_rows(self._touched_rows(touched, bounds), most).rows
        return ChangedView(rows, touched.count, is_by_difference=False, bounds=bounds)

    def by_difference(self) -> ChangedView:
        """The groups that have changed, computed from the rows that were added to them
        and removed from them. Groups whose new values follow only from all of their
        rows are recomputed from these."""
        plan, stored = self.plan, self.select.model.table
        assert plan.difference is not None, "it is kept by difference"
        delta = self._make(
            plan.delta(self.changed), DELTA, is_planned_once=self.reads_few
        )
        bounds = read_keys(delta.rows, plan.unit)
        if bounds is None:
            return ChangedView(delta.rows, 0, is_by_difference=True)
        table = load_table(self.session, stored)
        has_few = joins_few(table, bounds, plan.unit, is_small=delta.are_few)
        replace_view(_within(self.session.table(table_name(stored)), bounds), TARGET)
        self._make(plan.difference.joined, JOINED, delta.count, is_planned_once=has_few)
        adjusted = self._make(
            plan.difference.adjusted,
            ADJUSTED_VIEW,
            delta.count,
            is_planned_once=delta.are_few,
        )
        made = ChangedView(
            adjusted.rows,
            adjusted.count,
            is_by_difference=True,
            bounds=bounds,
            leaves=bool(plan.unit),
        )
        if not plan.difference.recomputes:
            return made
        touched = self._make(
            plan.difference.recompute,
            TOUCHED,
            delta.count,
            is_planned_once=delta.are_few,
        )
        if not touched.count:
            return made
        again = self._touched_rows(touched, read_keys(touched.rows, plan.unit) or ())
        rows = keep_rows(adjusted.rows.unionByName(again))
        return replace(made, rows=rows.rows, count=made.count + touched.count)

    def _touched_rows(
        self, touched: KeptRows, bounds: tuple[KeyRange, ...]
    ) -> DataFrame:
        """The rows of the SELECT for the touched keys or groups. Inputs are filtered by
        `bounds` where a column of theirs is the key."""
        query = self.plan.touched_rows
        self._show_inputs(query)
        types = {
            field.name.lower(): field.dataType for field in touched.rows.schema.fields
        }
        for bound in bounds:
            for number, column in self.plan.origins.get(bound.column, ()):
                rows = self.session.table(f"{NEW}{number}")
                if (
                    rows.select(identifier(column)).schema.fields[0].dataType
                    == types[bound.column.lower()]
                ):
                    replace_view(
                        _within(rows, (replace(bound, column=column),)),
                        f"{NEW}{number}",
                    )
        return self.session.sql(query)

    def _make(
        self, query: str, view: str, most: float = math.inf, *, is_planned_once: bool
    ) -> KeptRows:
        """The rows of a query, computed once and registered as a view. `most` is an
        upper bound of their number."""
        self._show_inputs(query)
        made = keep_rows(self.session.sql(query), most, is_planned_once=is_planned_once)
        replace_view(made.rows, view)
        return made

    def _show_inputs(self, query: str) -> None:
        """Register the views of inputs, at the former and at the new snapshot, that a
        query names."""
        for number, (name, table) in enumerate(self.tables.items()):
            for view, snapshots in (
                (f"{OLD}{number}", self.former),
                (f"{NEW}{number}", self.inputs),
            ):
                if view in query:
                    show_input(
                        self.session, name, table, snapshots[name].snapshot, view
                    )


def _within(rows: DataFrame, bounds: tuple[KeyRange, ...]) -> DataFrame:
    """The rows whose keys are within the bounds."""
    return rows.alias(ROW).where(bounds_text(bounds, ROW)) if bounds else rows


@contextmanager
def _changes(
    session: SparkSession,
    name: str,
    table: JavaTable,
    before: int | None,
    after: int | None,
    shared: SharedChanges,
) -> Iterator[RowChanges]:
    if after is None:
        raise InFullError(f"{name} has no snapshot any more", is_lost=True)
    try:
        with shared.between(session, table_of(name), table, before, after) as changes:
            yield changes
    except ChangesUnknownError:
        why = f"the snapshot of {name} that it was made of is gone, or none of its past"
        raise InFullError(why, is_lost=True) from None


def _check_size(name: str, table: JavaTable, changes: RowChanges) -> None:
    """Raise `InFullError` if so many rows of a table have changed that recomputing all
    is cheaper."""
    head = table.currentSnapshot()
    total = (
        int(head.summary().getOrDefault("total-records", "0"))
        if head is not None
        else 0
    )
    if total < SMALL_ROWS or changes.rows_read <= total * LARGE_SHARE:
        return
    rows = changes.count
    if rows is None:
        rows = sum(
            frame.count() for frame in (changes.gone, changes.come) if frame is not None
        )
    if rows > total * LARGE_SHARE:
        raise InFullError(f"{rows:,} rows of {name} have changed")
