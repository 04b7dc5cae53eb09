"""The refreshes of mode `materialized_view`: what is refused in a SELECT, and the steps
of an incremental refresh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import Bounded, MakeView, Step, Write
from lakesql.compile.quote import (
    column_of,
    identifier,
    identifiers,
    table_name,
    whole_name,
)
from lakesql.compile.select import Select
from lakesql.errors import Problem, RunError
from lakesql.modes.batches.refreshed_batches import (
    RefreshedBatches,
    find_key_problems,
    inputs_of,
    plan_of,
)
from lakesql.modes.materialized_view import MaterializedView
from lakesql.names import ADJUSTED_VIEW, ANEW_ROWS_VIEW, ANEW_VIEW, LEAVES
from lakesql.views.difference import DELTA, JOINED, ROWS
from lakesql.views.plan_view import TOUCHED, ViewPlan

_ANEW = """\
SELECT {columns}, false AS {leaves}
FROM {rows}
UNION ALL
SELECT {touched}, true AS {leaves}
FROM {units}"""

_MERGE = """\
MERGE INTO {table} AS target
USING {anew} AS source
ON {same} AND source.{leaves}
  AND {bounds}
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND NOT source.{leaves} THEN
  INSERT ({columns})
  VALUES ({values})"""

_CHANGED = """\
SELECT *
FROM {adjusted}
UNION ALL
SELECT *
FROM {rows}"""

_ADJUST = """\
MERGE INTO {table} AS target
USING {changed} AS source
ON {same}
  AND {bounds}
{leave}WHEN MATCHED THEN UPDATE SET
  {sets}
WHEN NOT MATCHED{there} THEN
  INSERT ({columns})
  VALUES ({values})"""


@dataclass(frozen=True, slots=True)
class ViewRefreshes(RefreshedBatches):
    """Refreshes that keep the table equal to the SELECT: only rows that a change of the
    inputs can affect are computed anew, if these can be determined."""

    select: Select
    config: MaterializedView

    @property
    def plan(self) -> ViewPlan:
        """The plan by which the table is refreshed."""
        return plan_of(
            self.select.query.sql,
            inputs_of(self.select),
            self.config.keys,
            self.config.refresh,
        )

    def refuse_full(self, why: str) -> RunError | None:
        """The error that a refresh must compute all rows, if the model has
        `refresh='incremental'`; else None. `why` is the reason."""
        if self.config.refresh != "incremental":
            return None
        model = self.select.model
        return RunError.of(
            "input-expired",
            f"View '{model.name}' cannot be kept by what has changed: {why}.",
            fix=f"Make all of its rows anew: lakesql rebuild {model.name}",
            place=model.place,
        )

    def check(self) -> Iterator[Problem]:
        """The problems of the SELECT and its keys, and, with `refresh='incremental'`,
        that the affected rows cannot be determined."""
        yield from RefreshedBatches.check(self)
        select, plan = self.select, self.plan
        yield from find_key_problems(select, plan)
        obstacle = plan.in_full[min(plan.in_full)] if plan.in_full else None
        if (
            self.config.refresh == "incremental"
            and (plan.way == "full" or obstacle)
            and not plan.problems
        ):
            what = f"Model '{select.model.name}' says refresh='incremental', and what a change reaches cannot be told."
            fix = "Leave `refresh` out: all rows are made anew where something has changed."
            why, offset = (
                (obstacle.reason, obstacle.offset)
                if obstacle
                else (plan.reason, plan.offset)
            )
            yield Problem(
                "not-incremental", what, f"{why}.", fix, select.rendered.place(offset)
            )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of the refreshes that the plan allows: by difference, by key, and
        last the one that computes all rows."""
        plan = self.plan
        if plan.problems or plan.way == "full":
            return RefreshedBatches.steps(self, columns)
        named = columns or self.select.columns or plan.unit
        named = (*named, *(column.name for column in plan.hidden))
        inputs = range(len(self.select.query.tables))
        steps: tuple[Step, ...] = ()
        if plan.difference is not None:
            when = "a refresh by difference"
            steps = (
                MakeView(
                    f"{when}: what is added to each group, and taken from it",
                    DELTA,
                    plan.delta(inputs),
                ),
                MakeView(
                    f"{when}: these groups, each with its row of the table",
                    JOINED,
                    plan.difference.joined,
                ),
                MakeView(
                    f"{when}: the groups that only their rows can say",
                    TOUCHED,
                    plan.difference.recompute,
                ),
                MakeView(
                    f"{when}: the other groups, as they are now",
                    ADJUSTED_VIEW,
                    plan.difference.adjusted,
                ),
                MakeView(
                    f"{when}: those groups, from their rows",
                    ANEW_ROWS_VIEW,
                    plan.touched_rows,
                ),
                *self.adjust_steps(named),
            )
        if plan.way == "key" or plan.by_key:
            steps += (
                MakeView(
                    "a refresh by key: the keys that a change can reach",
                    TOUCHED,
                    plan.touched(inputs),
                ),
                MakeView(
                    "a refresh by key: their rows, as they are now",
                    ANEW_ROWS_VIEW,
                    plan.touched_rows,
                ),
                *self.merge_steps(named),
            )
        return *steps, *RefreshedBatches.steps(self, columns)

    def adjust_steps(self, columns: tuple[str, ...]) -> tuple[MakeView, Write]:
        """The view of the changed groups, and the MERGE that replaces the stored groups
        by them: the last steps of a refresh by difference."""
        unit = self.plan.unit
        of_unit = {name.lower() for name in unit}
        merge = _ADJUST.format(
            table=table_name(self.select.model.table),
            changed=ANEW_VIEW,
            same=_same(unit) or "true",
            leave=f"WHEN MATCHED AND source.{ROWS} = 0 THEN DELETE\n" if unit else "",
            sets=",\n  ".join(
                f"{identifier(name)} = {column_of('source', name)}"
                for name in columns
                if name.lower() not in of_unit
            ),
            there=f" AND source.{ROWS} > 0" if unit else "",
            columns=identifiers(columns),
            values=", ".join(column_of("source", name) for name in columns),
            bounds=_CUT,
        )
        changed = _CHANGED.format(adjusted=ADJUSTED_VIEW, rows=ANEW_ROWS_VIEW)
        return (
            MakeView(
                "a refresh by difference: all groups that have changed",
                ANEW_VIEW,
                changed,
            ),
            Write("a refresh by difference: the commit", _bounded(merge)),
        )

    def merge_steps(self, columns: tuple[str, ...]) -> tuple[MakeView, Write]:
        """The view of the affected keys and their current rows, and the MERGE that
        replaces the stored rows: the last steps of a refresh by key."""
        unit = {name.lower() for name in self.plan.unit}
        anew = _ANEW.format(
            columns=identifiers(columns),
            touched=", ".join(
                identifier(name) if name.lower() in unit else "NULL" for name in columns
            ),
            leaves=LEAVES,
            rows=ANEW_ROWS_VIEW,
            units=TOUCHED,
        )
        merge = _MERGE.format(
            table=table_name(self.select.model.table),
            anew=ANEW_VIEW,
            same=_same(self.plan.unit),
            leaves=LEAVES,
            columns=identifiers(columns),
            values=", ".join(column_of("source", name) for name in columns),
            bounds=_CUT,
        )
        return (
            MakeView(
                "a refresh by key: these rows, and the keys whose former rows leave",
                ANEW_VIEW,
                anew,
            ),
            Write("a refresh by key: the commit", _bounded(merge)),
        )

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The columns that identify a row: the keys or the grouping columns."""
        return self.plan.keys

    def kept_by(self) -> str:
        """The text on how a refresh keeps the table equal to its SELECT."""
        plan = self.plan
        if plan.way == "full":
            why = f", as {plan.reason}" if plan.reason else ""
            return f"all rows are made anew, and exchanged in one commit{why}"
        names = [*map(whole_name, self.select.query.tables)]
        listed = identifiers(plan.unit)
        if plan.way == "key":
            said = f"by key ({listed}): the rows of keys that a change reaches are made anew"
        else:
            of = f" ({listed})" if plan.unit else ""
            said = f"by difference{of}: what has changed is added to its group, or taken from it"
            hidden = identifiers(column.name for column in plan.hidden)
            said += f"; the table has {hidden} for it, which no * of a model takes in"
        for what, numbers in (
            ("those are made anew by key", plan.by_key),
            ("all rows are made anew", plan.in_full),
        ):
            if numbers:
                some = " or ".join(names[number] for number in numbers)
                said += f"; where {some} has changed, {what}, as {numbers[min(numbers)].reason}"
        return said


_CUT = "\0"
"""The mark in a statement at which the bounds of the keys are inserted."""


def _bounded(merge: str) -> Bounded:
    """A MERGE as two parts, between which the bounds of the target's keys are
    inserted."""
    before, _, after = merge.partition(_CUT)
    return Bounded((before, after), ("target",))


def _same(unit: tuple[str, ...]) -> str:
    """The condition that a row of the table has the same `unit` (key or group) as a
    row of the source."""
    return " AND ".join(
        f"{column_of('target', it)} <=> {column_of('source', it)}" for it in unit
    )
