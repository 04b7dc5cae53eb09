"""A view that is kept by difference equals its SELECT, with the columns that only
lakesql needs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from lakesql.views.plan_view import plan_view
from tests.views.keeper import (
    INPUTS,
    Database,
    refresh_by_difference,
    same,
    some_change,
)

ORD, CUS, PAY = "lake.shop.orders", "lake.shop.customers", "lake.shop.pays"
SHAPES = {
    "counts": f"SELECT region, count(*) AS n, count(amount) AS k FROM {ORD} GROUP BY region",
    "sums": f"SELECT region, sum(amount) AS s, sum(id * 2 + 1) AS t FROM {ORD} GROUP BY region",
    "averages": f"SELECT region, avg(amount) AS a, mean(id) AS b FROM {ORD} GROUP BY region",
    "decimals": f"SELECT cust, sum(price) AS s, avg(price) AS a, sum(price * paid) AS p FROM {PAY} GROUP BY cust",
    "smallest and largest": f"SELECT region, min(amount) AS a, max(id) AS b, max(cust) AS c FROM {ORD} GROUP BY region",
    "of texts": f"SELECT cust, min(region) AS a, max(region) AS b FROM {ORD} GROUP BY cust",
    "truths": (
        f"SELECT region, bool_or(amount > 2) AS a, bool_and(amount > 0) AS b, bool_or(id = 1) AS c,"
        f" count_if(id > 1 AND id IS NOT NULL) AS d"
        f" FROM {ORD} GROUP BY region"
    ),
    "filters": (
        f"SELECT region, count(*) FILTER (WHERE id > 1) AS a, sum(amount) FILTER (WHERE id > 1) AS b,"
        f" max(amount) FILTER (WHERE id > 1) AS c, bool_and(id > 2) FILTER (WHERE amount > 1) AS d"
        f" FROM {ORD} GROUP BY region"
    ),
    "computed of aggregates": (
        f"SELECT region, 100.0 * sum(amount) / count(amount) AS a, coalesce(max(id), -1) + count(*) AS b,"
        f" round(avg(amount), 1) AS c, sum(amount) AS d FROM {ORD} GROUP BY region"
    ),
    "cases": f"SELECT region, sum(CASE WHEN id > 1 THEN amount ELSE 0 END) AS s FROM {ORD} GROUP BY region",
    "where": f"SELECT cust % 2 AS c, count(*) AS n FROM {ORD} WHERE amount > 1 OR region = 'a' GROUP BY cust % 2",
    "label": f"SELECT 'x' AS label, region, upper(region) AS u, count(*) AS n FROM {ORD} GROUP BY region",
    "two keys": f"SELECT region, cust, sum(amount) AS s FROM {ORD} GROUP BY 1, 2 ORDER BY s",
    "one row": f"SELECT count(*) AS n, sum(amount) AS s, max(id) AS m, avg(amount) AS a FROM {ORD}",
    "one row of a join": f"SELECT sum(o.amount * p.price) AS s FROM {ORD} o JOIN {PAY} p ON o.cust = p.cust",
    "join": (
        f"SELECT c.region, sum(o.amount) AS s, count(*) AS n, min(c.name) AS m FROM {ORD} o"
        f" JOIN {CUS} c ON o.cust = c.id GROUP BY c.region"
    ),
    "join of three": (
        f"SELECT o.region AS r, sum(p.paid) AS s, max(p.price) AS m FROM {ORD} o JOIN {CUS} c ON o.cust = c.id"
        f" JOIN {PAY} p ON p.cust = c.id WHERE c.region <> 'b' GROUP BY o.region"
    ),
    "comma": f"SELECT c.name AS n, count(*) AS k FROM {ORD} o, {CUS} c WHERE o.cust = c.id GROUP BY c.name",
    "same table twice": (
        f"SELECT a.region AS r, sum(b.amount) AS s, min(b.id) AS m FROM {ORD} a JOIN {ORD} b ON a.cust = b.id"
        " GROUP BY a.region"
    ),
    "derived": (
        f"WITH big AS (SELECT cust, amount + 1 AS more FROM {ORD} WHERE amount > 0)"
        f" SELECT c.region AS r, sum(b.more) AS s FROM big b JOIN (SELECT id AS i, region FROM {CUS}) c ON b.cust = c.i"
        " GROUP BY c.region"
    ),
    "of a union": (
        f"SELECT r, count(*) AS n, sum(v) AS s FROM (SELECT region AS r, amount AS v FROM {ORD}"
        f" UNION ALL SELECT region, id FROM {CUS}) GROUP BY r"
    ),
    "passed on": (
        f"WITH sums AS (SELECT region, avg(amount) AS a, max(id) AS m FROM {ORD} GROUP BY region) SELECT * FROM sums"
    ),
    "lateral view": f"SELECT v, count(*) AS n FROM {ORD} LATERAL VIEW explode(array(cust, amount)) t AS v GROUP BY v",
    "using": f"SELECT region, sum(amount) AS s, count(*) AS n FROM {ORD} JOIN {CUS} USING (region) GROUP BY region",
    "left join": (
        f"SELECT o.region AS r, count(c.id) AS n, max(c.name) AS m, sum(o.amount) AS s FROM {ORD} o"
        f" LEFT JOIN {CUS} c ON o.cust = c.id AND c.region <> 'b' GROUP BY o.region"
    ),
    "left joins in a row": (
        f"SELECT c.name AS n, count(p.paid) AS k, sum(p.price) AS s FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id"
        f" LEFT JOIN {PAY} p ON p.cust = c.id GROUP BY c.name"
    ),
    "left join of the same table": (
        f"SELECT b.region AS r, count(*) AS n, min(a.id) AS m FROM {ORD} a LEFT JOIN {ORD} b ON a.cust = b.id"
        " GROUP BY b.region"
    ),
    "left then inner": (
        f"SELECT c.name AS n, sum(p.paid) AS k FROM {ORD} o LEFT JOIN {CUS} c ON o.cust = c.id"
        f" JOIN {PAY} p ON p.cust = coalesce(c.id, 1) GROUP BY c.name"
    ),
    "left join using": f"SELECT name, count(amount) AS n FROM {CUS} LEFT JOIN {ORD} USING (id) GROUP BY name",
    "left join of a query": (
        f"SELECT o.region AS r, count(t.i) AS n, sum(t.q) AS s FROM {ORD} o LEFT JOIN (SELECT c.id AS i, p.paid AS q"
        f" FROM {CUS} c JOIN {PAY} p ON p.cust = c.id) t ON t.i = o.cust GROUP BY o.region"
    ),
    "semi join": (
        f"SELECT o.region, count(*) AS n FROM {ORD} o LEFT SEMI JOIN {CUS} c ON o.cust = c.id AND c.region = 'a'"
        " GROUP BY o.region"
    ),
    "anti join": (
        f"SELECT o.region, sum(o.amount) AS n FROM {ORD} o LEFT ANTI JOIN {CUS} c ON o.cust = c.id GROUP BY o.region"
    ),
    "anti then left": (
        f"SELECT o.region AS r, sum(p.paid) AS q FROM {ORD} o LEFT ANTI JOIN {CUS} c ON o.cust = c.id"
        f" LEFT JOIN {PAY} p ON p.cust = o.id GROUP BY o.region"
    ),
    "exists": (
        f"SELECT region, count(*) AS n FROM {ORD} o WHERE EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust)"
        " GROUP BY region"
    ),
    "not exists, with or": (
        f"SELECT region, sum(amount) AS n FROM {ORD} o WHERE amount > 2"
        f" OR NOT EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust AND c.region < o.region) GROUP BY region"
    ),
    "exists of the same table": (
        f"SELECT region, min(amount) AS n FROM {ORD} o WHERE EXISTS (SELECT 1 FROM {ORD} i WHERE i.cust = o.cust"
        f" AND i.id <> o.id) AND NOT EXISTS (SELECT 1 FROM {ORD} i WHERE i.cust = o.cust AND i.amount > o.amount)"
        " GROUP BY region"
    ),
    "in": (
        f"SELECT region, count(*) AS n FROM {ORD} WHERE cust IN (SELECT cust FROM {PAY} WHERE paid > 1) GROUP BY region"
    ),
    "not in": f"SELECT region, count(*) AS n FROM {ORD} WHERE cust NOT IN (SELECT id FROM {CUS}) GROUP BY region",
    "not in, of groups": (
        f"SELECT region, sum(id) AS n FROM {ORD} WHERE NOT cust IN (SELECT cust FROM {PAY} GROUP BY cust"
        " HAVING sum(paid) > 2) AND amount > 0 GROUP BY region"
    ),
    "compared with a query": (
        f"SELECT region, count(*) AS n, sum(amount) AS s FROM {ORD} o WHERE amount >= (SELECT max(i.amount)"
        f" FROM {ORD} i WHERE i.cust = o.cust) GROUP BY region"
    ),
    "one row, compared with a query": (
        f"SELECT sum(o.amount) AS s, max(o.id) AS m FROM {ORD} o JOIN {CUS} c ON o.cust = c.id"
        f" WHERE o.amount < (SELECT 1 + avg(i.amount) FROM {ORD} i WHERE i.cust = c.id)"
    ),
    "an output of a query": (
        f"SELECT n, count(*) AS k FROM (SELECT o.id, (SELECT max(c.name) FROM {CUS} c WHERE c.id = o.cust) AS n"
        f" FROM {ORD} o) t GROUP BY n"
    ),
    "of groups": (
        f"SELECT n, count(*) AS custs, sum(n) AS s FROM (SELECT c.id, count(o.id) AS n FROM {CUS} c LEFT JOIN {ORD} o"
        " ON c.id = o.cust GROUP BY c.id) t GROUP BY n"
    ),
    "of sums": (
        f"SELECT s, max(m) AS m, sum(p) AS p FROM (SELECT cust, sum(paid) AS s, min(paid) AS m, sum(price) AS p"
        f" FROM {PAY} GROUP BY cust) GROUP BY s"
    ),
    "a distinct count": (
        f"SELECT region, count(*) AS n, sum(cust) AS s FROM (SELECT DISTINCT region, cust FROM {ORD}) GROUP BY region"
    ),
    "of the largest of each": (
        f"SELECT cust, sum(amount) AS s FROM (SELECT region, cust, amount, rank() OVER (PARTITION BY region"
        f" ORDER BY amount DESC) AS place FROM {ORD}) WHERE place = 1 GROUP BY cust"
    ),
    "of what both have": (
        f"SELECT region, count(*) AS n FROM (SELECT id, region FROM {ORD} INTERSECT SELECT id, region FROM {CUS})"
        " GROUP BY region"
    ),
    "join of groups": (
        f"SELECT o.region, sum(t.n) AS n FROM {ORD} o JOIN (SELECT cust, count(*) AS n FROM {PAY} GROUP BY cust) t"
        " ON t.cust = o.cust GROUP BY o.region"
    ),
    "left join of groups": (
        f"WITH t AS (SELECT cust, sum(paid) AS n FROM {PAY} GROUP BY cust HAVING count(*) > 1)"
        f" SELECT o.region, count(t.n) AS k, sum(t.n) AS n FROM {ORD} o LEFT JOIN t ON t.cust = o.cust"
        f" WHERE EXISTS (SELECT 1 FROM {CUS} c WHERE c.id = o.cust) GROUP BY o.region"
    ),
    "in brackets": (
        f"SELECT c.region AS r, sum(p.paid) AS s FROM {CUS} c JOIN ({ORD} o JOIN {PAY} p ON o.cust = p.cust)"
        " ON c.id = o.id GROUP BY c.region"
    ),
}
"""SELECTs that are kept by difference whatever changes."""

ROUNDS = 10


def wrong_rounds(
    name: str, change_of: Callable[[str], str], times: int
) -> Iterator[int]:
    """The rounds in which a view is not what its SELECT is. `change_of` says what
    becomes of a statement."""
    sql = SHAPES[name]
    plan = plan_view(sql, INPUTS)
    assert (plan.way, plan.by_key, plan.in_full, plan.problems) == (
        "difference",
        {},
        {},
        (),
    ), plan
    database = Database()
    reads = [number for number, one in enumerate(INPUTS) if ".".join(one.table) in sql]
    for seed in range(times):
        change = some_change(random.Random(f"{name} {seed}"), reads)
        database.show(change, reads)
        done = refresh_by_difference(
            database, plan, change_of(plan.delta(change.changed))
        )
        if not same(done.kept, done.right):
            yield seed


@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_difference_is_its_select(name: str) -> None:
    assert list(wrong_rounds(name, lambda text: text, ROUNDS)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_difference_is_its_select_through_many_changes(
    name: str,
) -> None:
    assert list(wrong_rounds(name, lambda text: text, 100)) == []


def without(table: str) -> Callable[[str], str]:
    """A change of a statement that takes the rows from some of its tables."""
    return lambda text: re.sub(
        rf"{table}(\d)", rf"(SELECT * FROM {table}\1 LIMIT 0)", text
    )


MUTANTS: dict[str, tuple[Callable[[str], str], str]] = {
    "what leaves comes": (
        lambda text: text.replace("-1 AS _lakesql_sign", "1 AS _lakesql_sign"),
        "counts",
    ),
    "no old images": (without("_lakesql_gone_"), "sums"),
    "the others as they are": (
        lambda text: text.replace("_lakesql_old_", "_lakesql_new_"),
        "join",
    ),
    "the others as they were": (
        lambda text: re.sub(r"_lakesql_new_([01])", r"oracle_old_\1", text),
        "join",
    ),
    "no rows that meet others": (without("_lakesql_come_"), "left join"),
    "what a query said": (
        lambda text: text.replace("_lakesql_old_1", "_lakesql_new_1"),
        "exists",
    ),
    "groups as they were": (
        lambda text: re.sub(r"_lakesql_old_0", "_lakesql_new_0", text),
        "of groups",
    ),
    "the same table as it is": (
        lambda text: text.replace("_lakesql_old_", "_lakesql_new_"),
        "same table twice",
    ),
}
"""What a statement may do wrong, each with a SELECT that then is."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_rounds_see_what_is_wrong(mutant: str) -> None:
    change_of, name = MUTANTS[mutant]
    assert next(wrong_rounds(name, change_of, 100), None) is not None
