"""Numbers of columns in GROUP BY, ORDER BY and SORT BY: those that no column has are
refused with their place, as Spark refuses them."""

from __future__ import annotations

import pytest

from lakesql.errors import Place, Problem, ProjectError
from lakesql.select.query import read_query
from lakesql.select.relation import StreamShape, typed_columns
from lakesql.views.plan_view import plan_view
from lakesql.views.view_tree import ViewInput
from tests.cases import each_of

T = "lake.ns.t"
TABLE = ("lake", "ns", "t")
STREAMS = {"s": StreamShape(("day", "k"), None, ("date", "int"))}


def problems_of(sql: str) -> list[Problem]:
    known = {TABLE: typed_columns([("day", "date"), ("k", "int"), ("v", "int")])}
    try:
        read_query(
            sql,
            STREAMS,
            lambda offset: Place("m.sql", 1, offset + 1),
            known,
            reads="tables",
        )
    except ProjectError as error:
        return error.problems
    return []


@each_of(
    ("marked", "range_"),
    [
        (f"SELECT day, count(*) AS n FROM {T} GROUP BY ^3", "1 to 2"),
        (f"SELECT day, count(*) AS n FROM {T} GROUP BY ^0", "1 to 2"),
        (f"SELECT day, count(*) AS n FROM {T} GROUP BY 1, ^7", "1 to 2"),
        (f"SELECT day, count(*) FROM {T} GROUP BY day, ^4", "1 to 2"),
        (f"SELECT day, k FROM {T} GROUP BY ROLLUP(1, ^9), 2", "1 to 2"),
        (f"SELECT day, k FROM {T} GROUP BY GROUPING SETS ((1), (1, ^3)), 2", "1 to 2"),
        ("SELECT *, 1 AS one FROM s GROUP BY ALL ORDER BY ^4", "1 to 3"),
        (f"SELECT day FROM {T} ORDER BY ^2 DESC NULLS LAST LIMIT 3", "one column"),
        (f"SELECT day FROM {T} SORT BY (^2)", "one column"),
        (f"SELECT day, k FROM {T} ORDER BY ^-1", "1 to 2"),
        (f"SELECT * FROM {T} ORDER BY ^0", "1"),
        (f"SELECT day, sum(v) OVER (ORDER BY 5) AS n FROM {T} ORDER BY ^5", "1 to 2"),
        (f"SELECT day FROM {T} UNION ALL SELECT day FROM {T} ORDER BY ^2", "one"),
        (f"(SELECT day FROM {T} INTERSECT SELECT day FROM {T}) ORDER BY ^2", "one"),
        (f"(SELECT day, k FROM {T}) ORDER BY ^3", "1 to 2"),
        (f"SELECT a FROM (SELECT day AS a FROM {T} ORDER BY ^2 LIMIT 1)", "one"),
        (f"WITH a AS (SELECT day FROM {T} GROUP BY 1, ^2) SELECT day FROM a", "one"),
    ],
)
def test_a_number_that_no_column_has_is_refused(marked: str, range_: str) -> None:
    found = [
        problem
        for problem in problems_of(marked.replace("^", ""))
        if problem.condition not in ("order-over-stream", "unnamed-column")
    ]
    assert [problem.condition for problem in found] == ["unknown-column"]
    assert found[0].place == Place("m.sql", 1, marked.index("^") + 1)
    assert range_ in found[0].what


@each_of(
    "sql",
    [
        f"SELECT day, k, count(*) AS n FROM {T} GROUP BY 1, 2 ORDER BY 3, 1",
        f"SELECT day, k FROM {T} GROUP BY CUBE(1, 2)",
        f"SELECT day, k FROM {T} GROUP BY GROUPING SETS ((1), (1, 2), ())",
        # the table may have columns that only the catalog knows
        f"SELECT * FROM {T} ORDER BY 9",
        # no numbers of columns: values, and what is no INT
        f"SELECT day FROM {T} GROUP BY day, 1 + 7, 3000000000, 5L ORDER BY '9', 9.5",
        f"SELECT day, sum(v) OVER (PARTITION BY 8 ORDER BY 9) AS n FROM {T}",
        f"SELECT day FROM {T} DISTRIBUTE BY 5",
        f"SELECT day FROM {T} LIMIT 5",
        # a map makes two columns
        f"SELECT a FROM (SELECT explode(from_json('', v)) FROM {T} ORDER BY 2) AS t(a, b)",
    ],
)
def test_other_numbers_are_taken(sql: str) -> None:
    assert problems_of(sql) == []


@pytest.mark.parametrize("term", ["0", "3", "-1", "1, 3", "ROLLUP(1, 5)", "99"])
@pytest.mark.parametrize("columns", [("day", "k", "v"), None])
def test_a_view_has_no_keys_by_a_number_that_no_column_has(
    term: str, columns: tuple[str, ...] | None
) -> None:
    sql = f"SELECT day, count(*) AS n FROM {T} GROUP BY {term}"
    plan = plan_view(sql, [ViewInput(TABLE, columns)])
    assert (plan.keys, plan.unit) == ((), ())
    assert [problem.kind for problem in plan.problems] == ["keys-needed"]
