"""A column changes with no other column of the inputs than those that its lineage
names."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from lakesql.select.lineage import read_lineage
from lakesql.select.lineage_edges import (
    DIRECT,
    INDIRECT,
    ColumnOf,
    Kind,
    Made,
    columns_of,
)
from tests.views.keeper import INPUTS, Change, Database, Rows, some_rows, some_value
from tests.views.random_selects import random_view

CHANGES = 4
"""How often the values of each column of an input are changed."""

SEEN = range(150)
"""The SELECTs by which it is seen whether a kind of edge that is left out is missed."""

KNOWN = {".".join(one.table): one.columns for one in INPUTS}

EveryEdge = Callable[[Made], Made]


def wrong_columns(
    seed: int, edit: EveryEdge = lambda made: made
) -> Iterator[tuple[str, ColumnOf]]:
    """The columns of a seed's SELECT that have changed with an input that its lineage,
    as `edit` leaves it, has not."""
    view = random_view(seed)
    lineage = read_lineage(view.text, KNOWN)
    assert [*lineage.columns] == [column.name for column in view.columns], (
        seed,
        view.text,
    )
    rows = columns_of(edit(lineage.rows))
    made_of = {
        name: columns_of(edit(made)) | rows for name, made in lineage.columns.items()
    }
    database = Database()
    reads = [
        number for number, one in enumerate(INPUTS) if ".".join(one.table) in view.text
    ]
    for round_ in range(CHANGES):
        dice = random.Random(f"{seed} {round_}")
        tables = tuple(some_rows(one, dice) for one in INPUTS)
        before = columns_now(database, view.text, tables, reads)
        for number in reads:
            for at, column in enumerate(INPUTS[number].columns or ()):
                source = ".".join(INPUTS[number].table), column
                unaffected = [name for name in made_of if source not in made_of[name]]
                if not unaffected:
                    continue
                changed = [
                    (
                        *row[:at],
                        some_value(INPUTS[number].types[at], dice),
                        *row[at + 1 :],
                    )
                    for row in tables[number]
                ]
                after = columns_now(
                    database,
                    view.text,
                    (*tables[:number], changed, *tables[number + 1 :]),
                    reads,
                )
                yield from (
                    (name, source) for name in unaffected if before[name] != after[name]
                )


def columns_now(
    database: Database, text: str, tables: tuple[Rows, ...], reads: list[int]
) -> dict[str, Counter[object]]:
    """The values of each column of a SELECT, without regard to order."""
    database.show(Change(tables, tables, frozenset()), reads)
    for number in reads:
        text = text.replace(".".join(INPUTS[number].table), f"_lakesql_new_{number}")
    rows = database.rows(text)
    return {
        name: Counter(row[at] for row in rows)
        for at, name in enumerate(database.names(text))
    }


@pytest.mark.checks
def test_a_column_changes_with_what_it_is_made_of_alone(view_seeds: range) -> None:
    assert [
        (seed, *found) for seed in view_seeds for found in wrong_columns(seed)
    ] == []


@pytest.mark.checks
@pytest.mark.parametrize(
    "kind",
    [kind for kind in (*DIRECT, *INDIRECT) if kind not in ("sort", "transformation")],
)
def test_an_edge_that_is_left_out_is_seen(kind: Kind) -> None:
    """The random SELECTs have no LIMIT, and what they compute of a column alone they
    group by."""
    assert any(found for seed in SEEN for found in wrong_columns(seed, without(kind)))


def without(kind: Kind) -> EveryEdge:
    """An edit that takes away the edges of a kind."""
    return lambda made: frozenset(edge for edge in made if edge[2] != kind)


def test_edges_say_how_a_column_is_made() -> None:
    lineage = read_lineage(
        """
        WITH busy AS (SELECT cust, sum(paid) AS total FROM lake.shop.pays WHERE price > 1 GROUP BY 1)
        SELECT o.id, o.amount * 2 AS doubled, doubled + 1 AS more, busy.total,
          CASE WHEN o.region = 'a' THEN o.amount END AS local,
          row_number() OVER (PARTITION BY o.cust ORDER BY o.amount) AS place
        FROM lake.shop.orders AS o JOIN busy USING (cust)
        """,
        KNOWN,
    )
    orders, pays = "lake.shop.orders", "lake.shop.pays"
    assert lineage.columns == {
        "id": {(orders, "id", "identity")},
        "doubled": {(orders, "amount", "transformation")},
        "more": {(orders, "amount", "transformation")},
        "total": {(pays, "paid", "aggregation")},
        "local": {
            (orders, "amount", "transformation"),
            (orders, "region", "conditional"),
        },
        "place": {(orders, "cust", "window"), (orders, "amount", "window")},
    }
    assert lineage.rows == {
        (orders, "cust", "join"),
        (pays, "cust", "join"),
        (pays, "cust", "group_by"),
        (pays, "price", "filter"),
    }


STREAM = {
    "events": ("id", "address", "items", "_record", "_change"),
    "lake.shop.open": None,
}

OF_STREAMS = {
    "_record.offset": {"x": {("events", "_record.offset", "identity")}},
    "_change.before.id": {"x": {("events", "_change.before", "identity")}},
    "address.city": {"x": {("events", "address", "transformation")}},
    "transform(items, it -> it.price + id)": {
        "x": {("events", "items", "transformation"), ("events", "id", "transformation")}
    },
    "explode(items)": {"x": {("events", "items", "transformation")}},
    "(SELECT max(o.price) FROM lake.shop.open AS o WHERE o.id = events.id)": {
        "x": {
            ("lake.shop.open", "price", "aggregation"),
            ("lake.shop.open", "id", "filter"),
            ("events", "id", "filter"),
        }
    },
}


@pytest.mark.parametrize("expression", OF_STREAMS)
def test_what_an_expression_is_made_of(expression: str) -> None:
    assert (
        read_lineage(f"SELECT {expression} AS x FROM events", STREAM).columns
        == OF_STREAMS[expression]
    )


def test_stars_and_relations_whose_columns_are_not_known() -> None:
    known = read_lineage("SELECT * EXCEPT (address) FROM events", STREAM).columns
    assert [*known] == ["id", "items"]
    opened = read_lineage("SELECT *, price AS p FROM lake.shop.open", STREAM).columns
    assert opened == {
        "*": {("lake.shop.open", "*", "identity")},
        "p": {("lake.shop.open", "price", "identity")},
    }
    pivoted = "SELECT * FROM (SELECT id, address, items FROM events) PIVOT (max(items) FOR address IN ('a' AS one))"
    found = read_lineage(pivoted, STREAM)
    assert found.columns["id"] == {("events", "id", "identity")}
    assert columns_of(found.columns["*"]) == {
        ("events", "items"),
        ("events", "address"),
    }
    lateral = "SELECT e.id, made.item FROM events AS e LATERAL VIEW explode(e.items) made AS item"
    found = read_lineage(lateral, STREAM)
    assert found.columns["item"] == {("events", "items", "transformation")}
    assert found.rows == {("events", "items", "filter")}
