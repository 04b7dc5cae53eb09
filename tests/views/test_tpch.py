"""TPC-H's queries as views: each is kept equal to DuckDB's own answer, by the
statements of `plan_view` on DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import pytest

from lakesql.identifiers import identifier
from lakesql.views.difference import ROWS
from lakesql.views.plan_view import ViewPlan, Way, plan_view
from tests.views.keeper import Rows, duck
from tests.views.tpch import (
    KEYS,
    TABLES,
    Change,
    differing,
    find_changes,
    inputs,
    make_matches,
    models,
    open_tpch,
    remember,
    some_changes,
)


@dataclass(frozen=True)
class Kept:
    """How a view is kept: by key or in full where some tables have changed, each with
    the reason."""

    way: Way
    reason: str = ""
    by_key: tuple[str, ...] = ()
    in_full: tuple[str, ...] = ()


LIMIT = Kept("full", "LIMIT takes rows by their place among all others")
BY_DIFFERENCE = Kept("difference")
SAME_FOR_ALL = "a query in an expression that is the same for every row"
KEPT = {
    "q1": BY_DIFFERENCE,
    "q2": LIMIT,
    "q2_rows": Kept("key", "it does not group"),
    "q3": LIMIT,
    "q3_rows": BY_DIFFERENCE,
    "q4": BY_DIFFERENCE,
    "q5": BY_DIFFERENCE,
    "q6": BY_DIFFERENCE,
    "q7": BY_DIFFERENCE,
    "q8": BY_DIFFERENCE,
    "q9": BY_DIFFERENCE,
    "q10": LIMIT,
    "q10_rows": BY_DIFFERENCE,
    "q11": Kept(
        "full",
        "a query in this place is compared with every row",
        in_full=("nation", "supplier", "partsupp"),
    ),
    "q12": BY_DIFFERENCE,
    "q13": BY_DIFFERENCE,
    "q14": BY_DIFFERENCE,
    "q15": Kept("key", SAME_FOR_ALL, in_full=("lineitem",)),
    "q16": Kept("key", "count(DISTINCT …) does not follow from its value before"),
    "q17": BY_DIFFERENCE,
    "q18": LIMIT,
    "q18_rows": BY_DIFFERENCE,
    "q19": BY_DIFFERENCE,
    "q20": Kept("key", "it does not group"),
    "q21": LIMIT,
    "q21_rows": BY_DIFFERENCE,
    "q22": Kept("difference", SAME_FOR_ALL, in_full=("customer",)),
}
"""Each query, and of those with a LIMIT all rows: these are views, and the query itself
is a `table` over them."""


def plan_of(name: str) -> ViewPlan:
    return plan_view(models()[name], inputs(), KEYS.get(name, ()))


@pytest.mark.parametrize("name", models())
def test_how_each_query_is_kept(name: str) -> None:
    plan = plan_of(name)
    assert plan.problems == ()
    names = [
        [TABLES[number] for number in sorted(numbers)]
        for numbers in (plan.by_key, plan.in_full)
    ]
    assert Kept(plan.way, plan.reason, *map(tuple, names)) == KEPT[name]


def test_at_least_fifteen_of_the_queries_are_incremental() -> None:
    assert sum(KEPT[f"q{number}"].way != "full" for number in range(1, 23)) >= 15


@pytest.mark.checks
def test_the_views_equal_the_answers_of_duckdb_after_each_round() -> None:
    keep(scale=0.005, rounds=10, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_views_equal_the_answers_of_duckdb_for_twenty_rounds(seed: int) -> None:
    keep(scale=0.01, rounds=20, seed=seed).check_that_they_changed()


@pytest.mark.checks
def test_an_answer_differs_where_old_rows_are_left_out() -> None:
    """The comparison sees it where a refresh forgets what has left the tables."""
    with pytest.raises(AssertionError, match="q"):
        keep(scale=0.002, rounds=2, seed=1, forgets="_lakesql_gone_")


def keep(scale: float, rounds: int, seed: int, forgets: str = "") -> Warehouse:
    """Keeps all views through rounds of changes, and compares them after each."""
    warehouse = Warehouse(scale, Random(seed), forgets)
    for changes in islice(some_changes(), rounds):
        warehouse.change(changes)
    return warehouse


@dataclass
class KeptView:
    """A view in a table of DuckDB: the ways in which it was kept, and what it had after
    each round."""

    name: str
    plan: ViewPlan
    ways: set[Way] = field(default_factory=set)
    states: list[Rows] = field(default_factory=list)

    @property
    def table(self) -> str:
        """Where its rows are."""
        return f"kept_{self.name}"


class Warehouse:
    """TPC-H's tables with the views of them, and what a refresh reads. `forgets`: the
    views of it that are empty."""

    def __init__(self, scale: float, dice: Random, forgets: str = "") -> None:
        self.connection = open_tpch(scale)
        self.dice = dice
        self.forgets = forgets
        make_matches(self.connection, dice)
        for number, table in enumerate(TABLES):
            self.connection.execute(
                f"CREATE VIEW _lakesql_new_{number} AS FROM {table}"
            )
        remember(self.connection, range(len(TABLES)))
        self.views = [KeptView(name, plan_of(name)) for name in models()]
        for view in self.views:
            self.make(view.table, view.plan.query)
            self.compare(view)

    def change(self, changes: Sequence[Change]) -> None:
        """One round: the tables change, and the views are kept."""
        for change in changes:
            for _ in range(2):
                change(self.connection, self.dice)
        changed = find_changes(self.connection)
        for number in changed:
            self.connection.execute(
                f"CREATE VIEW _lakesql_old_{number} AS FROM before_{number}"
            )
            if self.forgets:
                self.connection.execute(f"DELETE FROM {self.forgets}{number}")
        for view in self.views:
            self.refresh(view, changed)
            self.compare(view)
        for number in changed:
            self.connection.execute(f"DROP VIEW _lakesql_old_{number}")
        remember(self.connection, changed)

    def count(self, table: str) -> int:
        (found,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(found[0])

    def make(self, table: str, text: str) -> None:
        """Makes a table of a SELECT in Spark's SQL."""
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {duck(text)}")

    # --- a refresh

    def refresh(self, view: KeptView, changed: frozenset[int]) -> None:
        plan = view.plan
        read = [
            number
            for number in sorted(changed)
            if re.search(rf"\b{TABLES[number]}\b", models()[view.name])
        ]
        if not read:
            return
        way = plan.way_for(read)
        view.ways.add(way)
        match way:
            case "full":
                self.make(view.table, plan.query)
            case "key":
                self.make("_lakesql_touched", plan.touched(read))
                self.make("anew", plan.touched_rows)
                self.make("units", "SELECT * FROM _lakesql_touched")
                self.exchange(view)
            case "difference":
                self.refresh_by_difference(view, read)

    def refresh_by_difference(self, view: KeptView, changed: Sequence[int]) -> None:
        plan = view.plan
        assert plan.difference is not None
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW _lakesql_target AS FROM {view.table}"
        )
        self.make("_lakesql_delta", plan.delta(changed))
        self.make("_lakesql_joined", plan.difference.joined)
        self.make("_lakesql_touched", plan.difference.recompute)
        self.make("anew", plan.difference.adjusted)
        self.connection.execute(f"INSERT INTO anew {duck(plan.touched_rows)}")
        self.make(
            "units",
            f"SELECT {', '.join(map(identifier, plan.unit)) or '1 AS one'} FROM anew",
        )
        assert self.count("units") == self.count("(SELECT DISTINCT * FROM units)"), (
            f"{view.name}: a unit twice"
        )
        if plan.unit:
            self.connection.execute(f"DELETE FROM anew WHERE {ROWS} = 0")
        self.exchange(view)

    def exchange(self, view: KeptView) -> None:
        """Puts the rows of `anew` in the place of those of the units."""
        same = (
            " AND ".join(
                f"k.{identifier(name)} <=> u.{identifier(name)}"
                for name in view.plan.unit
            )
            or "true"
        )
        self.make(
            "stays",
            f"SELECT k.* FROM {view.table} AS k LEFT ANTI JOIN units AS u ON {same}",
        )
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {view.table} AS FROM stays UNION ALL FROM anew"
        )

    # --- what must hold

    def compare(self, view: KeptView) -> None:
        """The table has what its SELECT has, hidden columns too, and what DuckDB says
        itself."""
        kept = self.connection.execute(f"FROM {view.table}").fetchall()
        self.make("right_rows", view.plan.query)
        own = self.connection.execute("FROM right_rows").fetchall()
        assert differing(kept, own) == [], view.name
        hidden = len(view.plan.hidden)
        shown = [row[: len(row) - hidden] for row in kept]
        assert (
            differing(shown, self.connection.execute(models()[view.name]).fetchall())
            == []
        ), view.name
        view.states.append(shown)

    def check_that_they_changed(self) -> None:
        """Every view had rows, and other ones in time, and was kept in the way that it
        says."""
        for view in self.views:
            assert any(view.states), f"{view.name} never had a row"
            assert any(state != view.states[0] for state in view.states), (
                f"{view.name} never changed"
            )
            assert view.plan.way in view.ways, f"{view.name} was never kept as it says"
