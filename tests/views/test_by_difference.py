"""A view that is kept by difference equals its SELECT, with the columns that only lakesql needs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from lakesql.views.plan_view import plan_view
from tests.views.keeper import INPUTS, Database, refresh_by_difference, same, some_change

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
    "in brackets": (
        f"SELECT c.region AS r, sum(p.paid) AS s FROM {CUS} c JOIN ({ORD} o JOIN {PAY} p ON o.cust = p.cust)"
        " ON c.id = o.id GROUP BY c.region"
    ),
}
"""SELECTs that are kept by difference whatever changes."""

ROUNDS = 10


def wrong_rounds(name: str, change_of: Callable[[str], str], times: int) -> Iterator[int]:
    """The rounds in which a view is not what its SELECT is. `change_of` says what becomes of a statement."""
    sql = SHAPES[name]
    plan = plan_view(sql, INPUTS)
    assert (plan.way, plan.by_key, plan.in_full, plan.problems) == ("difference", {}, {}, ()), plan
    database = Database()
    reads = [number for number, one in enumerate(INPUTS) if ".".join(one.table) in sql]
    for seed in range(times):
        change = some_change(random.Random(f"{name} {seed}"), reads)
        database.show(change, reads)
        done = refresh_by_difference(database, plan, change_of(plan.delta(change.changed)))
        if not same(done.kept, done.right):
            yield seed


@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_difference_is_its_select(name: str) -> None:
    assert list(wrong_rounds(name, lambda text: text, ROUNDS)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_view_kept_by_difference_is_its_select_through_many_changes(name: str) -> None:
    assert list(wrong_rounds(name, lambda text: text, 100)) == []


MUTANTS: dict[str, tuple[Callable[[str], str], str]] = {
    "what leaves comes": (lambda text: text.replace("-1 AS _lakesql_sign", "1 AS _lakesql_sign"), "counts"),
    "no old images": (
        lambda text: re.sub(r"_lakesql_gone_(\d)", r"(SELECT * FROM _lakesql_gone_\1 LIMIT 0)", text),
        "sums",
    ),
    "the others as they are": (lambda text: text.replace("_lakesql_old_", "_lakesql_new_"), "join"),
    "the others as they were": (lambda text: re.sub(r"_lakesql_new_([01])", r"oracle_old_\1", text), "join"),
    "the same table as it is": (lambda text: text.replace("_lakesql_old_", "_lakesql_new_"), "same table twice"),
}
"""What a statement may do wrong, each with a SELECT that then is."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_rounds_see_what_is_wrong(mutant: str) -> None:
    change_of, name = MUTANTS[mutant]
    assert next(wrong_rounds(name, change_of, 100), None) is not None
