"""A view that is kept by key equals its SELECT, whatever changes in the tables that it
reads."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from lakesql.views.plan_view import plan_view
from tests.views.keeper import (
    INPUTS,
    Change,
    Database,
    Rows,
    refresh_by_key,
    same,
    some_change,
)

ORD, CUS, PAY = "lake.shop.orders", "lake.shop.customers", "lake.shop.pays"
SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "projection": (f"SELECT id, amount + 1 AS a FROM {ORD}", ("id",)),
    "filter": (
        f"SELECT id, cust FROM {ORD} WHERE amount > 1 AND region <> 'b'",
        ("id",),
    ),
    "group": (
        f"SELECT region, count(*) AS n, sum(amount) AS s, max(id) AS m FROM {ORD} GROUP BY region",
        (),
    ),
    "renamed columns": (
        f"SELECT id, count(DISTINCT cust) AS n FROM {ORD} AS o(cust, id, x, y) GROUP BY id",
        (),
    ),
    "columns renamed by WITH": (
        f"WITH o(cust, id, x, y) AS (SELECT * FROM {ORD}) SELECT id, count(DISTINCT cust) AS n FROM o GROUP BY id",
        (),
    ),
    "group by an expression": (
        f"SELECT amount % 2 AS odd, count(*) AS n FROM {ORD} GROUP BY amount % 2",
        (),
    ),
    "group by its alias": (
        f"SELECT amount % 2 AS odd, count(*) AS n FROM {ORD} GROUP BY odd",
        (),
    ),
    "group by place": (
        f"SELECT region, cust, count(DISTINCT amount) AS n FROM {ORD} GROUP BY 1, 2",
        (),
    ),
    "group by all": (
        f"SELECT region, sum(amount) + 1 AS s FROM {ORD} GROUP BY ALL",
        (),
    ),
    "having": (
        f"SELECT region, count(*) AS n FROM {ORD} GROUP BY region HAVING count(*) > 1 ORDER BY region",
        (),
    ),
    "filtered aggregates": (
        f"SELECT cust, sum(amount) FILTER (WHERE id > 1) AS s FROM {ORD} GROUP BY cust",
        (),
    ),
    "distinct": (f"SELECT DISTINCT region, cust FROM {ORD} WHERE amount > 0", ()),
    "inner join": (
        f"SELECT o.id, c.name FROM {ORD} o JOIN {CUS} c ON o.cust = c.id",
        ("id",),
    ),
    "join by key of the other": (
        f"SELECT c.name, o.id FROM {ORD} o JOIN {CUS} c ON o.cust = c.id",
        ("name",),
    ),
    "comma": (
        f"SELECT o.id AS i, c.name FROM {ORD} o, {CUS} c WHERE o.cust = c.id",
        ("i",),
    ),
    "join of three": (
        f"SELECT o.region, sum(p.paid) AS s FROM {ORD} o JOIN {CUS} c ON o.cust = c.id JOIN {PAY} p ON p.cust = c.id"
        " GROUP BY o.region",
        (),
    ),
    "left join": (
        f"SELECT o.id, c.name, c.region AS r FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id",
        ("id",),
    ),
    "left join by the other side": (
        f"SELECT c.name AS n, o.id FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id AND c.region = 'a'",
        ("n",),
    ),
    "left join that finds none": (
        f"SELECT o.id FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id WHERE c.id IS NULL",
        ("id",),
    ),
    "left joins in a row": (
        f"SELECT c.name AS n, count(p.paid) AS k FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id"
        f" LEFT JOIN {PAY} p ON p.cust = c.id GROUP BY c.name",
        (),
    ),
    "left then inner": (
        f"SELECT c.name AS n, sum(p.paid) AS k FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id"
        f" JOIN {PAY} p ON p.cust = coalesce(c.id, 1) GROUP BY c.name",
        (),
    ),
    "right join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {ORD} o RIGHT JOIN {CUS} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {ORD} o FULL JOIN {CUS} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full then left": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {ORD} o FULL OUTER JOIN {CUS} c ON o.cust = c.id"
        f" LEFT JOIN {PAY} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "left then right": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id"
        f" RIGHT JOIN {PAY} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "using": (
        f"SELECT id, name, amount FROM {ORD} LEFT JOIN {CUS} USING (id)",
        ("id",),
    ),
    "full join using": (
        f"SELECT id, max(amount) AS m, min(name) AS n FROM {ORD} FULL JOIN {CUS} USING (id) GROUP BY id",
        (),
    ),
    "natural join": (
        f"SELECT region, id, name FROM {ORD} NATURAL JOIN {CUS}",
        ("region",),
    ),
    "joins in brackets": (
        f"SELECT c.name AS n, o.id FROM {CUS} c LEFT JOIN ({ORD} o JOIN {PAY} p ON o.cust = p.cust) ON c.id = o.id",
        ("n",),
    ),
    "semi join": (
        f"SELECT o.id FROM {ORD} o LEFT SEMI JOIN {CUS} c ON o.cust = c.id AND c.region = 'a'",
        ("id",),
    ),
    "anti join": (
        f"SELECT o.id, o.region FROM {ORD} o LEFT ANTI JOIN {CUS} c ON o.cust = c.id",
        ("id",),
    ),
    "anti then left": (
        f"SELECT o.region AS r, p.paid AS q FROM {ORD} o LEFT ANTI JOIN {CUS} c ON o.cust = c.id"
        f" LEFT JOIN {PAY} p ON p.cust = o.id",
        ("r",),
    ),
    "same table twice": (
        f"SELECT a.id, b.amount FROM {ORD} a JOIN {ORD} b ON a.cust = b.id",
        ("id",),
    ),
    "same table twice, left": (
        f"SELECT b.region AS r, count(*) AS n FROM {ORD} a LEFT JOIN {ORD} b ON a.cust = b.id GROUP BY b.region",
        (),
    ),
    "exists": (
        f"SELECT id, amount FROM {ORD} o WHERE EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust)",
        ("id",),
    ),
    "not exists": (
        f"SELECT o.region, count(*) AS n FROM {ORD} o WHERE NOT EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust)"
        " AND o.amount BETWEEN 1 AND 3 GROUP BY o.region",
        (),
    ),
    "exists beside or": (
        f"SELECT id FROM {ORD} o WHERE amount > 3 OR EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust)",
        ("id",),
    ),
    "exists without qualifiers": (
        f"SELECT id, region FROM {ORD} WHERE NOT EXISTS (SELECT 1 FROM {PAY} WHERE paid = amount)",
        ("id",),
    ),
    "scalar without qualifiers": (
        f"SELECT id FROM {ORD} WHERE amount < (SELECT sum(paid) FROM {PAY} WHERE paid = amount)",
        ("id",),
    ),
    "a scalar that is a key": (
        f"SELECT id, (SELECT count(*) FROM {PAY} p WHERE p.cust = o.cust) AS n FROM {ORD} o",
        ("id", "n"),
    ),
    "a scalar in FROM": (
        f"SELECT t.n, count(DISTINCT t.id) AS k FROM (SELECT id, (SELECT count(*) FROM {PAY} p WHERE p.cust = o.cust)"
        f" AS n FROM {ORD} o) AS t JOIN {CUS} c ON c.id = t.n GROUP BY t.n",
        (),
    ),
    "two exists": (
        f"SELECT id FROM {ORD} o WHERE EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust)"
        f" AND NOT EXISTS (SELECT 1 FROM {PAY} p WHERE p.cust = o.cust AND p.paid > o.amount)",
        ("id",),
    ),
    "in": (
        f"SELECT id FROM {ORD} WHERE cust IN (SELECT id FROM {CUS} WHERE region = 'a')",
        ("id",),
    ),
    "not in": (
        f"SELECT id FROM {ORD} WHERE cust NOT IN (SELECT id FROM {CUS})",
        ("id",),
    ),
    "not in, one condition of many": (
        f"SELECT id FROM {ORD} WHERE amount > 0 AND cust + 0 NOT IN (SELECT id FROM {CUS} WHERE id > 0)",
        ("id",),
    ),
    "in of an output": (
        f"SELECT id, cust IN (SELECT id FROM {CUS}) AS known FROM {ORD}",
        ("id",),
    ),
    "in of groups": (
        f"SELECT id, region FROM {ORD} WHERE cust IN (SELECT cust FROM {PAY} GROUP BY cust HAVING sum(paid) > 2)",
        ("id",),
    ),
    "in of an in": (
        f"SELECT id FROM {ORD} WHERE cust IN (SELECT c.id FROM {CUS} c WHERE c.id NOT IN (SELECT cust FROM {PAY}))",
        ("id",),
    ),
    "scalar of the row": (
        f"SELECT o.id, (SELECT max(c.name) FROM {CUS} c WHERE c.id = o.cust) AS n FROM {ORD} o",
        ("id",),
    ),
    "compared with a scalar of the row": (
        f"SELECT o.id FROM {ORD} o WHERE o.amount > (SELECT avg(i.amount) FROM {ORD} i WHERE i.region = o.region)",
        ("id",),
    ),
    "union all": (
        f"SELECT id, region FROM {ORD} UNION ALL SELECT cust, 'p' FROM {PAY}",
        ("id",),
    ),
    "union all of one": (
        f"SELECT id, region FROM {ORD} UNION ALL SELECT id, region FROM {ORD} WHERE cust = 1",
        ("id",),
    ),
    "union all of groups": (
        f"SELECT region AS r, count(*) AS n FROM {ORD} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {CUS} GROUP BY region",
        ("r",),
    ),
    "union all by what is no group": (
        f"SELECT region AS r, count(*) AS n FROM {ORD} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {CUS} GROUP BY region",
        ("r", "n"),
    ),
    "union": (f"SELECT id, region FROM {ORD} UNION SELECT id, region FROM {CUS}", ()),
    "except": (f"SELECT id, region FROM {ORD} EXCEPT SELECT id, region FROM {CUS}", ()),
    "intersect": (
        f"SELECT id, region FROM {ORD} INTERSECT SELECT id, region FROM {CUS}",
        (),
    ),
    "group of a union": (
        f"SELECT r, count(*) AS n FROM (SELECT region AS r FROM {ORD} UNION ALL SELECT region FROM {CUS}) GROUP BY r",
        (),
    ),
    "cte": (
        f"WITH big AS (SELECT * FROM {ORD} WHERE amount > 1), named (i, label) AS (SELECT id, name FROM {CUS})"
        " SELECT label, count(*) AS n FROM big JOIN named ON big.cust = named.i GROUP BY label",
        (),
    ),
    "cte that is passed on": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {ORD} GROUP BY region) SELECT * FROM sums WHERE s > 2",
        (),
    ),
    "cte in a derived table": (
        f"SELECT d.r, count(*) AS n FROM (WITH a AS (SELECT region AS r, cust FROM {ORD}) SELECT a.* FROM a"
        f" JOIN {CUS} c ON a.cust = c.id) d GROUP BY d.r",
        (),
    ),
    "cte of groups that is passed on": (
        f"WITH a AS (SELECT region, cust FROM {ORD} WHERE id > 0), sums AS (SELECT a.region, sum(c.id) AS s FROM a"
        f" LEFT JOIN {CUS} c ON a.cust = c.id GROUP BY a.region) SELECT * FROM sums",
        (),
    ),
    "lateral view": (
        f"SELECT id, v FROM {ORD} LATERAL VIEW explode(array(cust, amount)) t AS v WHERE v > 1",
        ("id",),
    ),
    "capitals": (
        f"select O.ID, upper(O.region) as U from {ORD.upper()} as O where o.Amount > 1",
        ("Id",),
    ),
    "cte twice": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {ORD} GROUP BY region)"
        " SELECT a.region AS one, b.region AS two FROM sums a JOIN sums b ON a.s = b.s",
        ("one", "two"),
    ),
    "cte, renamed and joined left": (
        f"WITH sums (r, s) AS (SELECT region, sum(amount) FROM {ORD} GROUP BY region)"
        " SELECT c.id, t.s FROM lake.shop.customers c LEFT JOIN sums t ON c.region = t.r",
        ("id",),
    ),
    "group of groups": (
        f"SELECT n, count(*) AS custs FROM (SELECT c.id, count(o.id) AS n FROM {CUS} c LEFT JOIN {ORD} o"
        " ON c.id = o.cust GROUP BY c.id) t GROUP BY n",
        (),
    ),
    "join of groups": (
        f"SELECT o.id, t.n FROM {ORD} o JOIN (SELECT cust, count(*) AS n FROM {PAY} GROUP BY cust) t ON t.cust = o.cust"
        " AND t.n > 1",
        ("id",),
    ),
    "newest of each": (
        f"SELECT id, region, amount FROM (SELECT *,"
        " row_number() OVER (PARTITION BY region ORDER BY amount DESC, id, cust)"
        f" AS rank FROM {ORD}) WHERE rank <= 2",
        ("region", "id"),
    ),
    "window": (
        f"SELECT id, region, sum(amount) OVER (PARTITION BY region) AS s FROM {ORD}",
        ("id",),
    ),
    "two windows": (
        f"SELECT id, region, cust, count(*) OVER (PARTITION BY region) AS s, count(*) OVER w AS t FROM {ORD}"
        " WINDOW w AS (PARTITION BY cust, region)",
        ("id",),
    ),
    "window over groups": (
        f"SELECT region, cust, sum(sum(amount)) OVER (PARTITION BY region) AS s FROM {ORD} GROUP BY region, cust",
        (),
    ),
    "distinct after a window": (
        f"SELECT DISTINCT region, max(amount) OVER (PARTITION BY region) AS m FROM {ORD}",
        ("region",),
    ),
    "qualified by the table's name": (
        f"SELECT lake.shop.orders.id AS i, shop.customers.name AS n FROM {ORD} JOIN {CUS} ON {ORD}.cust = {CUS}.id",
        ("i",),
    ),
    "values": (
        f"SELECT v.label, count(o.id) AS n FROM VALUES (1, 'one'), (2, 'two') AS v(i, label) LEFT JOIN {ORD} o"
        " ON o.cust = v.i GROUP BY v.label",
        (),
    ),
    "comments": (
        f"SELECT -- the first\n region, /* all */ count(*) AS n -- many\nFROM {ORD} -- here\nWHERE amount > 0 -- some\n"
        "GROUP BY region -- so",
        (),
    ),
}
"""SELECTs that are kept by key, each with the keys that a configuration gives."""

ROUNDS = 8
"""How often each SELECT is kept through a change."""


def wrong_rounds(
    name: str, change_of: Callable[[str], str], times: int
) -> Iterator[int]:
    """The rounds in which a view is not what its SELECT is. `change_of` says what
    becomes of a statement."""
    sql, keys = SHAPES[name]
    plan = plan_view(sql, INPUTS, keys)
    assert plan.way != "full" and not plan.problems, plan
    database = Database()
    reads = [
        number
        for number, one in enumerate(INPUTS)
        if ".".join(one.table) in sql.lower()
    ]
    for seed in range(times):
        change = some_change(random.Random(f"{name} {seed}"), reads)
        database.show(change, reads)
        done = refresh_by_key(database, plan, change_of(plan.touched(change.changed)))
        if not same(done.kept, done.right):
            yield seed


@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_key_is_its_select(name: str) -> None:
    assert list(wrong_rounds(name, lambda text: text, ROUNDS)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_key_is_its_select_through_many_changes(name: str) -> None:
    assert list(wrong_rounds(name, lambda text: text, 100)) == []


def without_rows(table: str) -> Callable[[str], str]:
    """A change of a statement that takes the rows from some of its tables."""
    return lambda text: re.sub(
        rf"{table}_(\d)", rf"(SELECT * FROM {table}_\1 WHERE false)", text
    )


MUTANTS: dict[str, tuple[Callable[[str], str], str]] = {
    "no old images": (without_rows("_lakesql_gone"), "group"),
    "no new images": (without_rows("_lakesql_come"), "filter"),
    "the others as they are": (
        lambda text: text.replace("_lakesql_old_", "_lakesql_new_"),
        "join of three",
    ),
    "the others as they were": (
        lambda text: re.sub(r"_lakesql_new_(\d)", r"oracle_old_\1", text),
        "inner join",
    ),
    "unmatched rows": (
        lambda text: text.replace("SEMI JOIN _lakesql_gone", "ANTI JOIN _lakesql_gone"),
        "full join",
    ),
    "a NULL before IN": (
        lambda text: re.sub(r"\w+ IS NULL AND EXISTS", "false AND EXISTS", text),
        "not in",
    ),
}
"""What a statement may forget, each with a SELECT that then goes wrong."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_rounds_see_what_is_left_out(mutant: str) -> None:
    change_of, name = MUTANTS[mutant]
    assert next(wrong_rounds(name, change_of, 100), None) is not None


def test_only_what_a_change_reaches_is_computed_anew() -> None:
    orders = [(number, number % 3, number, "abc"[number % 3]) for number in range(9)]
    changed = [*orders[:-1], (8, 2, 100, "c")]
    rest: tuple[Rows, ...] = ([(1, "b", "b"), (2, "c", "c")], [(1, 5, 1), (2, 6, 1)])
    change = Change((orders, *rest), (changed, *rest), frozenset({0}))
    for name, units in (
        ("group", 1),
        ("inner join", 1),
        ("left join", 1),
        ("join of three", 1),
        ("window", 1),
    ):
        sql, keys = SHAPES[name]
        plan = plan_view(sql, INPUTS, keys)
        database = Database()
        database.show(change, [0, 1, 2])
        done = refresh_by_key(database, plan, plan.touched(change.changed))
        assert (same(done.kept, done.right), done.touched) == (True, units), name
        assert done.units > units, name
