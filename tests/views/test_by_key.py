"""A view that is kept by key equals its SELECT, whatever changes in the tables that it reads."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from lakesql.views.plan_view import plan_view
from tests.views.keeper import INPUTS, Database, refresh_by_key, same, some_change

ORDERS, CUSTOMERS, PAYS = "lake.shop.orders", "lake.shop.customers", "lake.shop.pays"
SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "projection": (f"SELECT id, amount + 1 AS a FROM {ORDERS}", ("id",)),
    "filter": (f"SELECT id, cust FROM {ORDERS} WHERE amount > 1 AND region <> 'b'", ("id",)),
    "group": (f"SELECT region, count(*) AS n, sum(amount) AS s, max(id) AS m FROM {ORDERS} GROUP BY region", ()),
    "group by an expression": (f"SELECT amount % 2 AS odd, count(*) AS n FROM {ORDERS} GROUP BY amount % 2", ()),
    "group by its alias": (f"SELECT amount % 2 AS odd, count(*) AS n FROM {ORDERS} GROUP BY odd", ()),
    "group by place": (f"SELECT region, cust, count(DISTINCT amount) AS n FROM {ORDERS} GROUP BY 1, 2", ()),
    "group by all": (f"SELECT region, sum(amount) + 1 AS s FROM {ORDERS} GROUP BY ALL", ()),
    "having": (f"SELECT region, count(*) AS n FROM {ORDERS} GROUP BY region HAVING count(*) > 1 ORDER BY region", ()),
    "filtered aggregates": (f"SELECT cust, sum(amount) FILTER (WHERE id > 1) AS s FROM {ORDERS} GROUP BY cust", ()),
    "distinct": (f"SELECT DISTINCT region, cust FROM {ORDERS} WHERE amount > 0", ()),
    "inner join": (f"SELECT o.id, c.name FROM {ORDERS} o JOIN {CUSTOMERS} c ON o.cust = c.id", ("id",)),
    "join by key of the other": (f"SELECT c.name, o.id FROM {ORDERS} o JOIN {CUSTOMERS} c ON o.cust = c.id", ("name",)),
    "comma": (f"SELECT o.id AS i, c.name FROM {ORDERS} o, {CUSTOMERS} c WHERE o.cust = c.id", ("i",)),
    "join of three": (
        f"SELECT o.region, sum(p.paid) AS s FROM {ORDERS} o JOIN {CUSTOMERS} c ON o.cust = c.id JOIN {PAYS} p ON p.cust = c.id"
        " GROUP BY o.region",
        (),
    ),
    "left join": (
        f"SELECT o.id, c.name, c.region AS r FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id",
        ("id",),
    ),
    "left join by the other side": (
        f"SELECT c.name AS n, o.id FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id AND c.region = 'a'",
        ("n",),
    ),
    "left join that finds none": (
        f"SELECT o.id FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id WHERE c.id IS NULL",
        ("id",),
    ),
    "left joins in a row": (
        f"SELECT c.name AS n, count(p.paid) AS k FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id"
        f" LEFT JOIN {PAYS} p ON p.cust = c.id GROUP BY c.name",
        (),
    ),
    "left then inner": (
        f"SELECT c.name AS n, sum(p.paid) AS k FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id"
        f" JOIN {PAYS} p ON p.cust = coalesce(c.id, 1) GROUP BY c.name",
        (),
    ),
    "right join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {ORDERS} o RIGHT JOIN {CUSTOMERS} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {ORDERS} o FULL JOIN {CUSTOMERS} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full then left": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {ORDERS} o FULL OUTER JOIN {CUSTOMERS} c ON o.cust = c.id"
        f" LEFT JOIN {PAYS} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "left then right": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {ORDERS} o LEFT JOIN {CUSTOMERS} c ON o.cust = c.id"
        f" RIGHT JOIN {PAYS} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "using": (f"SELECT id, name, amount FROM {ORDERS} LEFT JOIN {CUSTOMERS} USING (id)", ("id",)),
    "full join using": (
        f"SELECT id, max(amount) AS m, min(name) AS n FROM {ORDERS} FULL JOIN {CUSTOMERS} USING (id) GROUP BY id",
        (),
    ),
    "natural join": (f"SELECT region, id, name FROM {ORDERS} NATURAL JOIN {CUSTOMERS}", ("region",)),
    "joins in brackets": (
        f"SELECT c.name AS n, o.id FROM {CUSTOMERS} c LEFT JOIN ({ORDERS} o JOIN {PAYS} p ON o.cust = p.cust) ON c.id = o.id",
        ("n",),
    ),
    "semi join": (
        f"SELECT o.id FROM {ORDERS} o LEFT SEMI JOIN {CUSTOMERS} c ON o.cust = c.id AND c.region = 'a'",
        ("id",),
    ),
    "anti join": (f"SELECT o.id, o.region FROM {ORDERS} o LEFT ANTI JOIN {CUSTOMERS} c ON o.cust = c.id", ("id",)),
    "anti then left": (
        f"SELECT o.region AS r, p.paid AS q FROM {ORDERS} o LEFT ANTI JOIN {CUSTOMERS} c ON o.cust = c.id"
        f" LEFT JOIN {PAYS} p ON p.cust = o.id",
        ("r",),
    ),
    "same table twice": (f"SELECT a.id, b.amount FROM {ORDERS} a JOIN {ORDERS} b ON a.cust = b.id", ("id",)),
    "same table twice, left": (
        f"SELECT b.region AS r, count(*) AS n FROM {ORDERS} a LEFT JOIN {ORDERS} b ON a.cust = b.id GROUP BY b.region",
        (),
    ),
    "exists": (
        f"SELECT id, amount FROM {ORDERS} o WHERE EXISTS (SELECT 1 FROM {CUSTOMERS} c WHERE c.id = o.cust)",
        ("id",),
    ),
    "not exists": (
        f"SELECT o.region, count(*) AS n FROM {ORDERS} o WHERE NOT EXISTS (SELECT 1 FROM {CUSTOMERS} c WHERE c.id = o.cust)"
        " AND o.amount BETWEEN 1 AND 3 GROUP BY o.region",
        (),
    ),
    "exists beside or": (
        f"SELECT id FROM {ORDERS} o WHERE amount > 3 OR EXISTS (SELECT 1 FROM {CUSTOMERS} c WHERE c.id = o.cust)",
        ("id",),
    ),
    "two exists": (
        f"SELECT id FROM {ORDERS} o WHERE EXISTS (SELECT 1 FROM {CUSTOMERS} c WHERE c.id = o.cust)"
        f" AND NOT EXISTS (SELECT 1 FROM {PAYS} p WHERE p.cust = o.cust AND p.paid > o.amount)",
        ("id",),
    ),
    "in": (f"SELECT id FROM {ORDERS} WHERE cust IN (SELECT id FROM {CUSTOMERS} WHERE region = 'a')", ("id",)),
    "not in": (f"SELECT id FROM {ORDERS} WHERE cust NOT IN (SELECT id FROM {CUSTOMERS})", ("id",)),
    "not in, one condition of many": (
        f"SELECT id FROM {ORDERS} WHERE amount > 0 AND cust + 0 NOT IN (SELECT id FROM {CUSTOMERS} WHERE id > 0)",
        ("id",),
    ),
    "in of an output": (f"SELECT id, cust IN (SELECT id FROM {CUSTOMERS}) AS known FROM {ORDERS}", ("id",)),
    "in of groups": (
        f"SELECT id, region FROM {ORDERS} WHERE cust IN (SELECT cust FROM {PAYS} GROUP BY cust HAVING sum(paid) > 2)",
        ("id",),
    ),
    "in of an in": (
        f"SELECT id FROM {ORDERS} WHERE cust IN (SELECT c.id FROM {CUSTOMERS} c WHERE c.id NOT IN (SELECT cust FROM {PAYS}))",
        ("id",),
    ),
    "scalar of the row": (
        f"SELECT o.id, (SELECT max(c.name) FROM {CUSTOMERS} c WHERE c.id = o.cust) AS n FROM {ORDERS} o",
        ("id",),
    ),
    "compared with a scalar of the row": (
        f"SELECT o.id FROM {ORDERS} o WHERE o.amount > (SELECT avg(i.amount) FROM {ORDERS} i WHERE i.region = o.region)",
        ("id",),
    ),
    "union all": (f"SELECT id, region FROM {ORDERS} UNION ALL SELECT cust, 'p' FROM {PAYS}", ("id",)),
    "union all of one": (
        f"SELECT id, region FROM {ORDERS} UNION ALL SELECT id, region FROM {ORDERS} WHERE cust = 1",
        ("id",),
    ),
    "union all of groups": (
        f"SELECT region AS r, count(*) AS n FROM {ORDERS} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {CUSTOMERS} GROUP BY region",
        ("r",),
    ),
    "union all by what is no group": (
        f"SELECT region AS r, count(*) AS n FROM {ORDERS} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {CUSTOMERS} GROUP BY region",
        ("r", "n"),
    ),
    "union": (f"SELECT id, region FROM {ORDERS} UNION SELECT id, region FROM {CUSTOMERS}", ()),
    "except": (f"SELECT id, region FROM {ORDERS} EXCEPT SELECT id, region FROM {CUSTOMERS}", ()),
    "intersect": (f"SELECT id, region FROM {ORDERS} INTERSECT SELECT id, region FROM {CUSTOMERS}", ()),
    "group of a union": (
        f"SELECT r, count(*) AS n FROM (SELECT region AS r FROM {ORDERS} UNION ALL SELECT region FROM {CUSTOMERS}) GROUP BY r",
        (),
    ),
    "cte": (
        f"WITH big AS (SELECT * FROM {ORDERS} WHERE amount > 1), named (i, label) AS (SELECT id, name FROM {CUSTOMERS})"
        " SELECT label, count(*) AS n FROM big JOIN named ON big.cust = named.i GROUP BY label",
        (),
    ),
    "cte that is passed on": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {ORDERS} GROUP BY region) SELECT * FROM sums WHERE s > 2",
        (),
    ),
    "cte twice": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {ORDERS} GROUP BY region)"
        " SELECT a.region AS one, b.region AS two FROM sums a JOIN sums b ON a.s = b.s",
        ("one", "two"),
    ),
    "cte, renamed and joined left": (
        f"WITH sums (r, s) AS (SELECT region, sum(amount) FROM {ORDERS} GROUP BY region)"
        " SELECT c.id, t.s FROM lake.shop.customers c LEFT JOIN sums t ON c.region = t.r",
        ("id",),
    ),
    "group of groups": (
        f"SELECT n, count(*) AS custs FROM (SELECT c.id, count(o.id) AS n FROM {CUSTOMERS} c LEFT JOIN {ORDERS} o"
        " ON c.id = o.cust GROUP BY c.id) t GROUP BY n",
        (),
    ),
    "join of groups": (
        f"SELECT o.id, t.n FROM {ORDERS} o JOIN (SELECT cust, count(*) AS n FROM {PAYS} GROUP BY cust) t ON t.cust = o.cust"
        " AND t.n > 1",
        ("id",),
    ),
    "newest of each": (
        f"SELECT id, region, amount FROM (SELECT *,"
        " row_number() OVER (PARTITION BY region ORDER BY amount DESC, id, cust)"
        f" AS rank FROM {ORDERS}) WHERE rank <= 2",
        ("region", "id"),
    ),
    "window": (
        f"SELECT id, region, sum(amount) OVER (PARTITION BY region) AS s FROM {ORDERS}",
        ("id",),
    ),
    "two windows": (
        f"SELECT id, region, cust, count(*) OVER (PARTITION BY region) AS s, count(*) OVER w AS t FROM {ORDERS}"
        " WINDOW w AS (PARTITION BY cust, region)",
        ("id",),
    ),
    "window over groups": (
        f"SELECT region, cust, sum(sum(amount)) OVER (PARTITION BY region) AS s FROM {ORDERS} GROUP BY region, cust",
        (),
    ),
    "distinct after a window": (
        f"SELECT DISTINCT region, max(amount) OVER (PARTITION BY region) AS m FROM {ORDERS}",
        ("region",),
    ),
    "qualified by the table's name": (
        f"SELECT lake.shop.orders.id AS i, shop.customers.name AS n FROM {ORDERS} JOIN {CUSTOMERS} ON {ORDERS}.cust = {CUSTOMERS}.id",
        ("i",),
    ),
    "values": (
        f"SELECT v.label, count(o.id) AS n FROM VALUES (1, 'one'), (2, 'two') AS v(i, label) LEFT JOIN {ORDERS} o"
        " ON o.cust = v.i GROUP BY v.label",
        (),
    ),
    "comments": (
        f"SELECT -- the first\n region, /* all */ count(*) AS n -- many\nFROM {ORDERS} -- here\nWHERE amount > 0 -- some\n"
        "GROUP BY region -- so",
        (),
    ),
}
"""SELECTs that are kept by key, each with the keys that a configuration gives."""

ROUNDS = 8
"""How often each SELECT is kept through a change; hundreds of them were tried."""


def rounds(name: str, touched: Callable[[str], str], times: int = ROUNDS) -> tuple[list[int], int]:
    """The rounds in which a view was not what its SELECT is, and how many units were computed anew."""
    sql, keys = SHAPES[name]
    plan = plan_view(sql, INPUTS, keys)
    assert (plan.way, plan.problems) == ("key", ()), plan
    database = Database()
    reads = [number for number, one in enumerate(INPUTS) if ".".join(one.table) in sql]
    wrong, computed = [], 0
    for seed in range(times):
        change = some_change(random.Random(f"{name} {seed}"), reads)
        database.show(change, reads)
        done = refresh_by_key(database, plan, touched(plan.touched(change.changed)))
        computed += done.touched
        if not same(done.kept, done.right):
            wrong.append(seed)
    return wrong, computed


@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_key_is_its_select(name: str) -> None:
    wrong, computed = rounds(name, lambda text: text)
    assert wrong == []
    assert computed, "changes reach something"


def without_rows(table: str) -> Callable[[str], str]:
    """A change of a statement that takes the rows from some of its tables."""
    return lambda text: re.sub(rf"{table}_(\d)", rf"(SELECT * FROM {table}_\1 WHERE false)", text)


MUTANTS: dict[str, tuple[Callable[[str], str], str]] = {
    "no old images": (without_rows("_lakesql_gone"), "group"),
    "no new images": (without_rows("_lakesql_come"), "filter"),
    "the others as they are": (lambda text: text.replace("_lakesql_old_", "_lakesql_new_"), "join of three"),
    "the others as they were": (lambda text: re.sub(r"_lakesql_new_(\d)", r"oracle_old_\1", text), "left join"),
    "unmatched rows": (lambda text: text.replace("SEMI JOIN _lakesql_gone", "ANTI JOIN _lakesql_gone"), "full join"),
    "a NULL before IN": (lambda text: re.sub(r"\w+ IS NULL AND EXISTS", "false AND EXISTS", text), "not in"),
}
"""What a statement may forget, each with a SELECT that then goes wrong."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_rounds_see_what_is_left_out(mutant: str) -> None:
    change, name = MUTANTS[mutant]
    wrong, _ = rounds(name, change, 60)
    assert wrong
