"""What is kept by key, what in full and why, and which keys a view has."""

from __future__ import annotations

import pytest

from lakesql.errors import ProjectError
from lakesql.views.plan_view import LONGEST, TOO_LONG, plan_view
from lakesql.views.view_tree import ViewInput
from tests.views.keeper import INPUTS as TABLES

ORD, CUS, PAY = "lake.shop.orders", "lake.shop.customers", "lake.shop.pays"
VIS = "lake.shop.visits"
INPUTS = (
    *TABLES,
    ViewInput(("lake", "shop", "visits"), ("region", "at"), ("string", "timestamp")),
)

IN_FULL = {
    f"SELECT id FROM {ORD} ORDER BY amount ^LIMIT 10": "LIMIT",
    f"SELECT id FROM (SELECT id FROM {ORD} ^LIMIT 10)": "LIMIT",
    f"SELECT id, ^now() AS t FROM {ORD}": "time",
    f"SELECT id FROM {ORD} WHERE amount > 0 AND region < ^current_date": "time",
    f"SELECT id, ^`now`() AS t FROM {ORD}": "time",
    f"SELECT region, at FROM {VIS} WHERE at >= DATE^'today'": "time",
    f"SELECT region, at FROM {VIS} WHERE at < timestamp_ltz ^'Now UTC'": "time",
    f"SELECT id, ^rand() AS r FROM {ORD}": "another value",
    f"SELECT id, ^reflect('java.util.UUID', 'randomUUID') AS r FROM {ORD}": "another value",
    f"SELECT id, ^first(amount) AS r FROM {ORD} GROUP BY id": "order",
    f"SELECT id, ^collect_list(amount) AS r FROM {ORD} GROUP BY id": "order",
    f"^SELECT count(DISTINCT amount) AS n FROM {ORD}": "one row",
    f"^SELECT id, row_number() OVER (ORDER BY amount) AS n FROM {ORD}": "window",
    f"^SELECT id, row_number() OVER (PARTITION BY region ORDER BY amount) AS n FROM {ORD}": "window",
    f"SELECT id FROM {ORD} WHERE amount > (^SELECT avg(amount) FROM {ORD})": "same for every row",
    f"SELECT o.id FROM {ORD} o JOIN (^SELECT max(amount) AS m FROM {ORD}) t ON o.amount = t.m": "GROUP BY",
    f"SELECT id FROM ^{ORD} TABLESAMPLE (5 PERCENT)": "TABLESAMPLE",
    f"WITH RECURSIVE ^r AS (SELECT id FROM {ORD} UNION ALL SELECT id + 1 FROM r) SELECT id FROM r": "recurs",
}
"""SELECTs whose every change asks for all of it, each with a word of the reason; ^
stands where that is."""


def test_a_select_of_which_it_takes_too_long_a_statement_to_find_the_changes_is_made_in_full() -> (
    None
):
    text = f"SELECT a.id, a.cust FROM {ORD} a JOIN {CUS} b ON a.cust = b.id"
    ways = []
    for level in range(8):
        plan = plan_view(
            f"SELECT cust, count(DISTINCT id) AS n FROM ({text}) GROUP BY cust", INPUTS
        )
        ways.append(plan.way_for({0, 1}))
        text = f"SELECT a{level}.id, x{level}.cust FROM {ORD} a{level} JOIN ({text}) x{level} ON x{level}.id = a{level}.id"
        text += f" JOIN {CUS} c{level} ON c{level}.id = x{level}.cust"
        text = f"SELECT id, max(cust) AS cust FROM ({text}) GROUP BY id"
    assert (
        ways[0] == "key"
        and ways[-1] == "full"
        and plan.way == "key"
        and plan.why_full({0, 1}) == TOO_LONG
    )
    assert len(plan.touched({0, 1})) > LONGEST


@pytest.mark.parametrize("marked", IN_FULL)
def test_what_is_kept_in_full_says_why_and_where(marked: str) -> None:
    keys = ("id",) if "id" in marked else ("at",) if VIS in marked else ()
    plan = plan_view(marked.replace("^", ""), INPUTS, keys)
    assert plan.way == "full" and IN_FULL[marked] in plan.reason
    assert plan.offset == marked.index("^")
    assert plan.is_timed == (IN_FULL[marked] == "time")


def test_some_inputs_alone_may_ask_for_all() -> None:
    sql = f"SELECT id, cust FROM {ORD} WHERE amount > (SELECT max(paid) FROM {PAY})"
    plan = plan_view(sql, INPUTS, ("id",))
    assert plan.way == "key"
    assert [plan.way_for({number}) for number in (0, 2)] == ["key", "full"]
    assert plan.in_full[2].offset == plan.offset == sql.index("SELECT max")


def test_a_change_may_be_taken_by_key_though_others_are_taken_by_difference() -> None:
    sql = f"SELECT c.region, count(o.id) AS n FROM {ORD} o RIGHT JOIN {CUS} c ON o.cust = c.id GROUP BY c.region"
    plan = plan_view(sql, INPUTS)
    assert plan.way == "difference"
    assert [plan.way_for(changed) for changed in ({0}, {1}, {0, 1})] == [
        "key",
        "difference",
        "key",
    ]
    assert plan.by_key[0].offset == sql.index(CUS)


BY_KEY = {
    f"SELECT region, count(DISTINCT id) AS n FROM {ORD} GROUP BY region": "DISTINCT",
    f"SELECT region, stddev(id) AS n FROM {ORD} GROUP BY region": "stddev",
    f"SELECT region, sum(CAST(id AS double)) AS n FROM {ORD} GROUP BY region": "not known to be a whole number",
    f"SELECT region, sum(CAST(id AS decimal(38, 10))) AS n FROM {ORD} GROUP BY region": "digits",
    f"SELECT region, avg(CAST(id AS decimal(20, 2))) AS n FROM {ORD} GROUP BY region": "16 digits",
    f"SELECT region, count(*) AS n FROM {ORD} GROUP BY region HAVING count(*) > 1": "HAVING",
    f"SELECT region, amount, count(*) + amount AS n FROM {ORD} GROUP BY region, amount": "beside an aggregate",
    f"SELECT region, cust, count(*) AS n FROM {ORD} GROUP BY ROLLUP (region, cust)": "a row alone does not say",
    f"SELECT region, session_window(at, '3 seconds') AS w, count(*) AS n FROM {VIS}"
    " GROUP BY region, session_window(at, '3 seconds')": "a row alone does not say",
    f"SELECT window.start AS s, count(*) AS n FROM {VIS} GROUP BY window(at, '3 seconds')": "GROUP BY gives it",
    f"SELECT window(at, '3 seconds') AS w, window.end AS s, count(*) AS n FROM {VIS} GROUP BY 1": "GROUP BY gives it",
}
"""Aggregates that are kept by key, each with a word of the reason."""


@pytest.mark.parametrize("sql", BY_KEY)
def test_what_is_kept_by_key_says_why(sql: str) -> None:
    plan = plan_view(sql, INPUTS, ("region", "cust") if "ROLLUP" in sql else ())
    assert (plan.way, plan.problems) == ("key", ())
    assert BY_KEY[sql] in plan.reason


def test_a_session_is_computed_with_those_around_it() -> None:
    """A new row may put two sessions together, whose own rows have not changed."""
    sql = f"SELECT region, session_window(at, '3 seconds') AS w FROM {VIS} GROUP BY region, 2"
    assert (plan_view(sql, INPUTS).keys, plan_view(sql, INPUTS).unit) == (
        ("region", "w"),
        ("region",),
    )
    sql = f"SELECT region, session_window.start AS w FROM {VIS} GROUP BY region, session_window(at, '3 seconds')"
    assert (plan_view(sql, INPUTS).keys, plan_view(sql, INPUTS).unit) == (
        ("region", "w"),
        ("region",),
    )
    sql = f"SELECT session_window(at, '3 seconds') AS w, count(*) AS n FROM {VIS} GROUP BY 1"
    assert plan_view(sql, INPUTS).way == "full"


def test_a_window_is_told_by_its_start() -> None:
    sql = f"SELECT region, window.start AS s, count(*) AS n FROM {VIS} GROUP BY region, window(at, '3 seconds')"
    assert plan_view(sql, INPUTS).unit == plan_view(sql, INPUTS).keys == ("region", "s")


def test_columns_that_only_lakesql_needs() -> None:
    plan = plan_view(
        f"SELECT region, sum(amount) AS s, count(*) AS n FROM {ORD} GROUP BY region",
        INPUTS,
    )
    assert [column.name for column in plan.hidden] == ["_lakesql_rows", "_lakesql_n2"]


def test_an_aggregate_that_is_sorted_does_not_depend_on_the_order() -> None:
    sorted_list = f"SELECT region, sort_array(collect_list(amount)) AS l FROM {ORD} GROUP BY region"
    assert plan_view(sorted_list, INPUTS).way == "key"


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        (f"SELECT region AS r, count(*) AS n FROM {ORD} GROUP BY region", ("r",)),
        (
            f"SELECT region AS r, upper(region) AS u, count(*) AS n FROM {ORD} GROUP BY 1, 2",
            ("r", "u"),
        ),
        (f"SELECT DISTINCT region, cust FROM {ORD}", ("region", "cust")),
        (f"SELECT DISTINCT * FROM {CUS}", ("id", "name", "region")),
        (f"SELECT id FROM {ORD} UNION SELECT id FROM {CUS}", ("id",)),
        (
            f"WITH a AS (SELECT region, sum(amount) AS s FROM {ORD} GROUP BY region) SELECT s, region AS r FROM a",
            ("r",),
        ),
        (
            f"WITH a AS (SELECT region, sum(amount) AS s FROM {ORD} GROUP BY region) SELECT * FROM a",
            ("region",),
        ),
    ],
)
def test_keys_follow(sql: str, keys: tuple[str, ...]) -> None:
    plan = plan_view(sql, INPUTS)
    assert (plan.keys, plan.keys_follow, plan.problems) == (keys, True, ())


@pytest.mark.parametrize(
    ("sql", "keys", "follow"),
    [
        (f"SELECT id, region FROM {ORD}", ("id",), False),
        (f"SELECT DISTINCT region, cust FROM {ORD}", ("region",), False),
        (f"SELECT DISTINCT region, cust FROM {ORD}", ("CUST", "region"), True),
        (
            f"SELECT region, cust, count(*) AS n FROM {ORD} GROUP BY ROLLUP (region, cust)",
            ("region", "cust"),
            False,
        ),
        (
            f"SELECT region, n FROM (SELECT region, count(*) AS n FROM {ORD} GROUP BY region)",
            ("region", "n"),
            True,
        ),
        (
            f"SELECT region, n FROM (SELECT region, count(*) AS n FROM {ORD} GROUP BY region)",
            ("n",),
            False,
        ),
    ],
)
def test_whether_given_keys_tell_rows_apart_may_be_known(
    sql: str, keys: tuple[str, ...], follow: bool
) -> None:
    plan = plan_view(sql, INPUTS, keys)
    assert (plan.keys_follow, plan.problems) == (follow, ())


@pytest.mark.parametrize(
    ("sql", "reads_one"),
    [
        (f"SELECT region, count(*) AS n FROM {ORD} GROUP BY region", True),
        (f"WITH a AS (SELECT id FROM {ORD}) SELECT id FROM a", True),
        (
            f"WITH a AS (SELECT id FROM {ORD}) SELECT x.id FROM a x JOIN a y ON x.id = y.id",
            False,
        ),
        (f"SELECT id FROM {ORD} WHERE NOT EXISTS (SELECT 1 FROM {CUS})", False),
        (f"SELECT id FROM {ORD} UNION ALL SELECT id FROM {ORD}", False),
    ],
)
def test_a_view_may_read_one_table_once(sql: str, reads_one: bool) -> None:
    assert (
        plan_view(sql, INPUTS, ("id",) if "count" not in sql else ()).reads_one
        is reads_one
    )


@pytest.mark.parametrize(
    ("sql", "keys", "problem"),
    [
        (f"SELECT id FROM {ORD}", (), "keys-needed"),
        (f"SELECT id FROM {ORD} UNION ALL SELECT id FROM {CUS}", (), "keys-needed"),
        (f"SELECT sum(amount) AS s FROM {ORD} GROUP BY region", (), "keys-needed"),
        (
            f"SELECT upper(region) AS region, count(*) AS n FROM {ORD} GROUP BY region",
            (),
            "keys-needed",
        ),
        (f"SELECT id FROM {ORD}", ("ids",), "not-an-output"),
        (f"SELECT id FROM {ORD}", ("id", "ID"), "key-twice"),
        (f"SELECT id, amount AS id FROM {ORD}", ("id",), "key-twice"),
        (
            f"SELECT region, count(*) AS n FROM {ORD} GROUP BY region",
            ("n",),
            "not-the-group",
        ),
        (f"SELECT uuid() AS u, id FROM {ORD}", ("u",), "random-key"),
    ],
)
def test_keys_that_are_none(sql: str, keys: tuple[str, ...], problem: str) -> None:
    plan = plan_view(sql, INPUTS, keys)
    assert {one.kind for one in plan.problems} == {problem}


def test_full_is_taken_where_it_is_asked_for() -> None:
    plan = plan_view(
        f"SELECT region, count(*) AS n FROM {ORD} GROUP BY region", INPUTS, (), "full"
    )
    assert (plan.way, plan.reason) == ("full", "")
    assert (
        plan.query
        == "SELECT region, count(*) AS n FROM _lakesql_new_0 AS orders GROUP BY region"
    )


def test_a_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ProjectError):
        plan_view("SELECT FROM WHERE", INPUTS)
