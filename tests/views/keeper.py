"""Views kept on DuckDB by the statements of `plan_view`, over random tables that
change: the oracle is the SELECT."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TypeAlias

import duckdb
import sqlglot

from lakesql.views.plan_view import ViewPlan
from lakesql.views.view_tree import ViewInput

Row: TypeAlias = tuple[object, ...]
Rows: TypeAlias = list[Row]

INPUTS = (
    ViewInput(
        ("lake", "shop", "orders"),
        ("id", "cust", "amount", "region"),
        ("int", "int", "int", "string"),
    ),
    ViewInput(
        ("lake", "shop", "customers"),
        ("id", "name", "region"),
        ("int", "string", "string"),
    ),
    ViewInput(
        ("lake", "shop", "pays"),
        ("cust", "paid", "price"),
        ("int", "int", "decimal(6,2)"),
    ),
)
"""Three tables whose values are few, so that they meet, double and are NULL."""

DUCK_TYPES = {"int": "INTEGER", "string": "VARCHAR", "decimal(6,2)": "DECIMAL(6,2)"}


def some_value(kind: str, dice: random.Random) -> object:
    """A value of a type, or NULL."""
    if dice.random() < 0.15:
        return None
    if kind == "string":
        return dice.choice("abc")
    return dice.randrange(5) if kind == "int" else dice.randrange(-3, 6) / 2


def some_rows(one: ViewInput, dice: random.Random, most: int = 7) -> Rows:
    """Rows of a table: none, or some, two of them perhaps equal."""
    return [
        tuple(some_value(kind, dice) for kind in one.types)
        for _ in range(dice.randrange(most))
    ]


def changed_rows(rows: Rows, one: ViewInput, dice: random.Random) -> Rows:
    """The rows after inserts, updates and deletes, or a truncate."""
    if dice.random() < 0.1:
        return []
    kept = [row for row in rows if dice.random() > 0.25]
    for at in range(len(kept)):
        if dice.random() < 0.25:
            column = dice.randrange(len(one.types))
            kept[at] = (
                *kept[at][:column],
                some_value(one.types[column], dice),
                *kept[at][column + 1 :],
            )
    return kept + some_rows(one, dice, 3)


@cache
def duck(text: str) -> str:
    """A statement in Spark's SQL as DuckDB's."""
    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


@dataclass(frozen=True)
class Change:
    """The rows of each input before and after; those not in `changed` are the same."""

    old: tuple[Rows, ...]
    new: tuple[Rows, ...]
    changed: frozenset[int]


def some_change(dice: random.Random, reads: Sequence[int]) -> Change:
    """Random tables, of which some that are read change."""
    old = tuple(some_rows(one, dice) for one in INPUTS)
    changed = frozenset(number for number in reads if dice.random() < 0.6) or frozenset(
        {dice.choice(reads)}
    )
    new = tuple(
        changed_rows(rows, one, dice) if number in changed else rows
        for number, (rows, one) in enumerate(zip(old, INPUTS, strict=True))
    )
    return Change(old, new, changed)


class Database:
    """DuckDB with the views that a refresh reads."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.shown: set[str] = set()

    def show(self, change: Change, reads: Sequence[int]) -> None:
        """Makes the views of the inputs of a refresh: `old`, `gone` and `come` of those
        that have changed alone."""
        wanted: dict[str, tuple[ViewInput, Rows]] = {}
        for number in reads:
            one, old, new = INPUTS[number], change.old[number], change.new[number]
            wanted |= {
                f"_lakesql_new_{number}": (one, new),
                f"oracle_old_{number}": (one, old),
            }
            if number in change.changed:
                wanted[f"_lakesql_old_{number}"] = one, old
                wanted[f"_lakesql_gone_{number}"] = (
                    one,
                    list((Counter(old) - Counter(new)).elements()),
                )
                wanted[f"_lakesql_come_{number}"] = (
                    one,
                    list((Counter(new) - Counter(old)).elements()),
                )
        script = [f"DROP VIEW {name};" for name in self.shown - wanted.keys()]
        script += [
            f"CREATE OR REPLACE TEMP VIEW {name} AS {_values(*of)};"
            for name, of in wanted.items()
        ]
        self.connection.execute("".join(script))
        self.shown = set(wanted)

    def rows(self, text: str) -> Rows:
        """The rows of a SELECT in Spark's SQL."""
        return self.connection.execute(duck(text)).fetchall()

    def names(self, text: str) -> list[str]:
        """The columns of a SELECT in Spark's SQL."""
        return [
            column[0].lower()
            for column in self.connection.execute(duck(text)).description or ()
        ]

    def store(self, name: str, text: str) -> None:
        """Makes a view of the rows that a SELECT has now."""
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {duck(text)}")


def _values(one: ViewInput, rows: Rows) -> str:
    """Rows as a SELECT; one that is left out gives the columns their types."""
    assert one.columns is not None
    typed = zip(one.columns, one.types, strict=True)
    kinds = ", ".join(
        f"CAST({name} AS {DUCK_TYPES[kind]}) AS {name}" for name, kind in typed
    )
    written = [", ".join(map(_literal, row)) for row in rows]
    listed = ", ".join(
        f"({row})" for row in [*written, ", ".join(["NULL"] * len(one.types))]
    )
    names = ", ".join(one.columns)
    return f"SELECT {kinds} FROM (VALUES {listed}) AS v({names}) LIMIT {len(rows)}"


def _literal(value: object) -> str:
    return "NULL" if value is None else repr(value)


@dataclass(frozen=True)
class Refreshed:
    """The rows of a view after a refresh by key, and how many of its old units that
    took."""

    kept: Rows
    right: Rows
    touched: int
    units: int


def refresh_by_key(database: Database, plan: ViewPlan, touched: str) -> Refreshed:
    """A view's rows after one refresh by key, beside those of its SELECT."""
    over_old = plan.query.replace("_lakesql_new_", "oracle_old_")
    view, right = database.rows(over_old), database.rows(plan.query)
    database.store("_lakesql_touched", touched)
    names = database.names(plan.query)
    places = [names.index(name.lower()) for name in plan.unit]
    units = set(database.rows("SELECT * FROM _lakesql_touched"))

    def unit(row: Row) -> Row:
        return tuple(row[place] for place in places)

    kept = [row for row in view if unit(row) not in units] + database.rows(
        _over_origins(plan)
    )
    return Refreshed(
        kept, right, len(units), len({unit(row) for row in (*view, *right)})
    )


def _over_origins(plan: ViewPlan) -> str:
    """The rows that are computed anew, of those rows alone of the inputs that have a
    value of the unit."""
    text = plan.touched_rows
    for name, origins in plan.origins.items():
        for number, column in origins:
            same_value = f"r.{column} <=> _lakesql_touched.{name}"
            few = f"(SELECT r.* FROM _lakesql_new_{number} AS r LEFT SEMI JOIN _lakesql_touched ON {same_value})"
            text = text.replace(f"_lakesql_new_{number}", few, 1)
    return text


def refresh_by_difference(database: Database, plan: ViewPlan, delta: str) -> Refreshed:
    """A view's rows after one refresh by difference, the hidden columns too, beside
    those of its SELECT."""
    assert plan.difference is not None
    database.store(
        "_lakesql_target", plan.query.replace("_lakesql_new_", "oracle_old_")
    )
    database.store("_lakesql_delta", delta)
    database.store("_lakesql_joined", plan.difference.joined)
    database.store("_lakesql_touched", plan.difference.recompute)
    names = database.names(plan.query)
    places = [names.index(name.lower()) for name in plan.unit]
    rows_of_group = names.index("_lakesql_rows")
    adjusted, anew = (
        database.rows(plan.difference.adjusted),
        database.rows(plan.touched_rows),
    )
    assert database.names(plan.difference.adjusted) == names

    def unit(row: Row) -> Row:
        return tuple(row[place] for place in places)

    replaced = {unit(row) for row in (*adjusted, *anew)}
    stays = [row for row in adjusted if row[rows_of_group] or not plan.unit]
    view = database.rows("SELECT * FROM _lakesql_target")
    kept = [row for row in view if unit(row) not in replaced] + stays + anew
    return Refreshed(kept, database.rows(plan.query), len(anew), len(adjusted))


def same(one: Rows, other: Rows) -> bool:
    """Whether two tables have the same rows, each as often."""
    return Counter(map(spelled_row, one)) == Counter(map(spelled_row, other))


def spelled_row(row: Row) -> Row:
    """A row in which numbers are compared by value: DuckDB has other types for sums and
    averages than Spark."""
    return tuple(
        f"{value:.4f}" if isinstance(value, float | Decimal) else value for value in row
    )
