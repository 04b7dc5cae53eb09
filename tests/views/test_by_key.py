"""A view that is kept by key equals its SELECT, whatever changes in the tables that it reads."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from lakesql.views.plan_view import plan_view
from tests.views.keeper import INPUTS, Database, refresh_by_key, same, some_change

O, C, P = "lake.shop.orders", "lake.shop.customers", "lake.shop.pays"
SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "projection": (f"SELECT id, amount + 1 AS a FROM {O}", ("id",)),
    "filter": (f"SELECT id, cust FROM {O} WHERE amount > 1 AND region <> 'b'", ("id",)),
    "group": (f"SELECT region, count(*) AS n, sum(amount) AS s, max(id) AS m FROM {O} GROUP BY region", ()),
    "group by an expression": (f"SELECT amount % 2 AS odd, count(*) AS n FROM {O} GROUP BY amount % 2", ()),
    "group by its alias": (f"SELECT amount % 2 AS odd, count(*) AS n FROM {O} GROUP BY odd", ()),
    "group by place": (f"SELECT region, cust, count(DISTINCT amount) AS n FROM {O} GROUP BY 1, 2", ()),
    "group by all": (f"SELECT region, sum(amount) + 1 AS s FROM {O} GROUP BY ALL", ()),
    "having": (f"SELECT region, count(*) AS n FROM {O} GROUP BY region HAVING count(*) > 1 ORDER BY region", ()),
    "filtered aggregates": (f"SELECT cust, sum(amount) FILTER (WHERE id > 1) AS s FROM {O} GROUP BY cust", ()),
    "distinct": (f"SELECT DISTINCT region, cust FROM {O} WHERE amount > 0", ()),
    "inner join": (f"SELECT o.id, c.name FROM {O} o JOIN {C} c ON o.cust = c.id", ("id",)),
    "join by key of the other": (f"SELECT c.name, o.id FROM {O} o JOIN {C} c ON o.cust = c.id", ("name",)),
    "comma": (f"SELECT o.id AS i, c.name FROM {O} o, {C} c WHERE o.cust = c.id", ("i",)),
    "join of three": (
        f"SELECT o.region, sum(p.paid) AS s FROM {O} o JOIN {C} c ON o.cust = c.id JOIN {P} p ON p.cust = c.id"
        " GROUP BY o.region",
        (),
    ),
    "left join": (f"SELECT o.id, c.name, c.region AS r FROM {O} o LEFT JOIN {C} c ON o.cust = c.id", ("id",)),
    "left join by the other side": (
        f"SELECT c.name AS n, o.id FROM {O} o LEFT JOIN {C} c ON o.cust = c.id AND c.region = 'a'",
        ("n",),
    ),
    "left join that finds none": (
        f"SELECT o.id FROM {O} o LEFT JOIN {C} c ON o.cust = c.id WHERE c.id IS NULL",
        ("id",),
    ),
    "left joins in a row": (
        f"SELECT c.name AS n, count(p.paid) AS k FROM {O} o LEFT JOIN {C} c ON o.cust = c.id"
        f" LEFT JOIN {P} p ON p.cust = c.id GROUP BY c.name",
        (),
    ),
    "left then inner": (
        f"SELECT c.name AS n, sum(p.paid) AS k FROM {O} o LEFT JOIN {C} c ON o.cust = c.id"
        f" JOIN {P} p ON p.cust = coalesce(c.id, 1) GROUP BY c.name",
        (),
    ),
    "right join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {O} o RIGHT JOIN {C} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full join": (
        f"SELECT c.name AS n, o.region AS r, count(*) AS k FROM {O} o FULL JOIN {C} c ON o.cust = c.id"
        " GROUP BY c.name, o.region",
        (),
    ),
    "full then left": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {O} o FULL OUTER JOIN {C} c ON o.cust = c.id"
        f" LEFT JOIN {P} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "left then right": (
        f"SELECT o.region AS r, p.paid AS q, count(*) AS k FROM {O} o LEFT JOIN {C} c ON o.cust = c.id"
        f" RIGHT JOIN {P} p ON p.cust = c.id GROUP BY 1, 2",
        (),
    ),
    "using": (f"SELECT id, name, amount FROM {O} LEFT JOIN {C} USING (id)", ("id",)),
    "full join using": (f"SELECT id, max(amount) AS m, min(name) AS n FROM {O} FULL JOIN {C} USING (id) GROUP BY id", ()),
    "natural join": (f"SELECT region, id, name FROM {O} NATURAL JOIN {C}", ("region",)),
    "joins in brackets": (
        f"SELECT c.name AS n, o.id FROM {C} c LEFT JOIN ({O} o JOIN {P} p ON o.cust = p.cust) ON c.id = o.id",
        ("n",),
    ),
    "semi join": (f"SELECT o.id FROM {O} o LEFT SEMI JOIN {C} c ON o.cust = c.id AND c.region = 'a'", ("id",)),
    "anti join": (f"SELECT o.id, o.region FROM {O} o LEFT ANTI JOIN {C} c ON o.cust = c.id", ("id",)),
    "anti then left": (
        f"SELECT o.region AS r, p.paid AS q FROM {O} o LEFT ANTI JOIN {C} c ON o.cust = c.id"
        f" LEFT JOIN {P} p ON p.cust = o.id",
        ("r",),
    ),
    "same table twice": (f"SELECT a.id, b.amount FROM {O} a JOIN {O} b ON a.cust = b.id", ("id",)),
    "same table twice, left": (
        f"SELECT b.region AS r, count(*) AS n FROM {O} a LEFT JOIN {O} b ON a.cust = b.id GROUP BY b.region",
        (),
    ),
    "exists": (f"SELECT id, amount FROM {O} o WHERE EXISTS (SELECT 1 FROM {C} c WHERE c.id = o.cust)", ("id",)),
    "not exists": (
        f"SELECT o.region, count(*) AS n FROM {O} o WHERE NOT EXISTS (SELECT 1 FROM {C} c WHERE c.id = o.cust)"
        " AND o.amount BETWEEN 1 AND 3 GROUP BY o.region",
        (),
    ),
    "exists beside or": (
        f"SELECT id FROM {O} o WHERE amount > 3 OR EXISTS (SELECT 1 FROM {C} c WHERE c.id = o.cust)",
        ("id",),
    ),
    "two exists": (
        f"SELECT id FROM {O} o WHERE EXISTS (SELECT 1 FROM {C} c WHERE c.id = o.cust)"
        f" AND NOT EXISTS (SELECT 1 FROM {P} p WHERE p.cust = o.cust AND p.paid > o.amount)",
        ("id",),
    ),
    "in": (f"SELECT id FROM {O} WHERE cust IN (SELECT id FROM {C} WHERE region = 'a')", ("id",)),
    "not in": (f"SELECT id FROM {O} WHERE cust NOT IN (SELECT id FROM {C})", ("id",)),
    "not in, one condition of many": (
        f"SELECT id FROM {O} WHERE amount > 0 AND cust + 0 NOT IN (SELECT id FROM {C} WHERE id > 0)",
        ("id",),
    ),
    "in of an output": (f"SELECT id, cust IN (SELECT id FROM {C}) AS known FROM {O}", ("id",)),
    "in of groups": (
        f"SELECT id, region FROM {O} WHERE cust IN (SELECT cust FROM {P} GROUP BY cust HAVING sum(paid) > 2)",
        ("id",),
    ),
    "in of an in": (
        f"SELECT id FROM {O} WHERE cust IN (SELECT c.id FROM {C} c WHERE c.id NOT IN (SELECT cust FROM {P}))",
        ("id",),
    ),
    "scalar of the row": (
        f"SELECT o.id, (SELECT max(c.name) FROM {C} c WHERE c.id = o.cust) AS n FROM {O} o",
        ("id",),
    ),
    "compared with a scalar of the row": (
        f"SELECT o.id FROM {O} o WHERE o.amount > (SELECT avg(i.amount) FROM {O} i WHERE i.region = o.region)",
        ("id",),
    ),
    "union all": (f"SELECT id, region FROM {O} UNION ALL SELECT cust, 'p' FROM {P}", ("id",)),
    "union all of one": (f"SELECT id, region FROM {O} UNION ALL SELECT id, region FROM {O} WHERE cust = 1", ("id",)),
    "union all of groups": (
        f"SELECT region AS r, count(*) AS n FROM {O} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {C} GROUP BY region",
        ("r",),
    ),
    "union all by what is no group": (
        f"SELECT region AS r, count(*) AS n FROM {O} GROUP BY region"
        f" UNION ALL SELECT region, count(*) FROM {C} GROUP BY region",
        ("r", "n"),
    ),
    "union": (f"SELECT id, region FROM {O} UNION SELECT id, region FROM {C}", ()),
    "except": (f"SELECT id, region FROM {O} EXCEPT SELECT id, region FROM {C}", ()),
    "intersect": (f"SELECT id, region FROM {O} INTERSECT SELECT id, region FROM {C}", ()),
    "group of a union": (
        f"SELECT r, count(*) AS n FROM (SELECT region AS r FROM {O} UNION ALL SELECT region FROM {C}) GROUP BY r",
        (),
    ),
    "cte": (
        f"WITH big AS (SELECT * FROM {O} WHERE amount > 1), named (i, label) AS (SELECT id, name FROM {C})"
        " SELECT label, count(*) AS n FROM big JOIN named ON big.cust = named.i GROUP BY label",
        (),
    ),
    "cte that is passed on": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {O} GROUP BY region) SELECT * FROM sums WHERE s > 2",
        (),
    ),
    "cte twice": (
        f"WITH sums AS (SELECT region, sum(amount) AS s FROM {O} GROUP BY region)"
        " SELECT a.region AS one, b.region AS two FROM sums a JOIN sums b ON a.s = b.s",
        ("one", "two"),
    ),
    "cte, renamed and joined left": (
        f"WITH sums (r, s) AS (SELECT region, sum(amount) FROM {O} GROUP BY region)"
        " SELECT c.id, t.s FROM lake.shop.customers c LEFT JOIN sums t ON c.region = t.r",
        ("id",),
    ),
    "group of groups": (
        f"SELECT n, count(*) AS custs FROM (SELECT c.id, count(o.id) AS n FROM {C} c LEFT JOIN {O} o"
        " ON c.id = o.cust GROUP BY c.id) t GROUP BY n",
        (),
    ),
    "join of groups": (
        f"SELECT o.id, t.n FROM {O} o JOIN (SELECT cust, count(*) AS n FROM {P} GROUP BY cust) t ON t.cust = o.cust"
        " AND t.n > 1",
        ("id",),
    ),
    "newest of each": (
        f"SELECT id, region, amount FROM (SELECT *, row_number() OVER (PARTITION BY region ORDER BY amount DESC, id, cust)"
        f" AS rank FROM {O}) WHERE rank <= 2",
        ("region", "id"),
    ),
    "window": (
        f"SELECT id, region, sum(amount) OVER (PARTITION BY region) AS s FROM {O}",
        ("id",),
    ),
    "two windows": (
        f"SELECT id, region, cust, count(*) OVER (PARTITION BY region) AS s, count(*) OVER w AS t FROM {O}"
        " WINDOW w AS (PARTITION BY cust, region)",
        ("id",),
    ),
    "window over groups": (
        f"SELECT region, cust, sum(sum(amount)) OVER (PARTITION BY region) AS s FROM {O} GROUP BY region, cust",
        (),
    ),
    "distinct after a window": (
        f"SELECT DISTINCT region, max(amount) OVER (PARTITION BY region) AS m FROM {O}",
        ("region",),
    ),
    "qualified by the table's name": (
        f"SELECT lake.shop.orders.id AS i, shop.customers.name AS n FROM {O} JOIN {C} ON {O}.cust = {C}.id",
        ("i",),
    ),
    "values": (
        f"SELECT v.label, count(o.id) AS n FROM VALUES (1, 'one'), (2, 'two') AS v(i, label) LEFT JOIN {O} o"
        " ON o.cust = v.i GROUP BY v.label",
        (),
    ),
    "comments": (
        f"SELECT -- the first\n region, /* all */ count(*) AS n -- many\nFROM {O} -- here\nWHERE amount > 0 -- some\n"
        "GROUP BY region -- so",
        (),
    ),
}
"""SELECTs that are kept by key, each with the keys that a configuration gives."""

ROUNDS = 15


def rounds(name: str, touched: Callable[[str], str], times: int = ROUNDS) -> tuple[list[int], int, int]:
    """The rounds in which a view was not what its SELECT is; how many units were computed, and how many there were."""
    sql, keys = SHAPES[name]
    plan = plan_view(sql, INPUTS, keys)
    assert (plan.way, plan.problems) == ("key", ()), plan
    database = Database()
    reads = [number for number, one in enumerate(INPUTS) if ".".join(one.table) in sql]
    wrong, computed, all_units = [], 0, 0
    for seed in range(times):
        change = some_change(random.Random(f"{name} {seed}"), reads)
        database.show(change, reads)
        done = refresh_by_key(database, plan, touched(plan.touched(change.changed)))
        computed, all_units = computed + done.touched, all_units + done.units
        if not same(done.kept, done.right):
            wrong.append(seed)
    return wrong, computed, all_units


@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_key_is_its_select(name: str) -> None:
    wrong, computed, units = rounds(name, lambda text: text)
    assert wrong == []
    assert computed, "changes reach something"


MUTANTS: dict[str, Callable[[str], str]] = {
    "no old images": lambda text: re.sub(r"_lakesql_gone_(\d)", r"(SELECT * FROM _lakesql_gone_\1 WHERE false)", text),
    "no new images": lambda text: re.sub(r"_lakesql_come_(\d)", r"(SELECT * FROM _lakesql_come_\1 WHERE false)", text),
    "the others as they are": lambda text: text.replace("_lakesql_old_", "_lakesql_new_"),
    "the others as they were": lambda text: re.sub(r"_lakesql_new_([01])", r"oracle_old_\1", text),
    "unmatched rows forgotten": lambda text: text.replace("WHERE false", "WHERE 1 = 0 AND true"),
}


@pytest.mark.parametrize("mutant", list(MUTANTS)[:4])
def test_the_rounds_see_what_is_left_out(mutant: str) -> None:
    """Each kind of row that `touched` looks at is needed by some shape."""
    caught = [name for name in SHAPES if rounds(name, MUTANTS[mutant], 12)[0]]
    assert len(caught) > 3, caught
