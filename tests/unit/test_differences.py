"""What is a difference of two SELECTs, and what is their spelling."""

from __future__ import annotations

import time

import pytest

from lakesql.select.differences import (
    find_differences,
    first_change,
    is_same_expression,
)
from tests.cases import each_of


def found(old: str, new: str) -> list[tuple[str, str, str]]:
    """Each difference with the word of the newer text at which it stands."""
    return [
        (it.kind, it.name, new[it.offset :].split(" ")[0])
        for it in find_differences(old, new)
    ]


@each_of(
    ("old", "new"),
    [
        ("SELECT a, b FROM s", "select  a ,/* x */ `b`\nFROM S -- y"),
        (
            "SELECT a AS x FROM s WHERE a <> 1 AND b = 2",
            "SELECT a x FROM s WHERE ((a != 1) AND (b == 2))",
        ),
        ("SELECT a, b + 1 AS c FROM s", "SELECT b + 1 AS c, a FROM s"),
        (
            "SELECT a, b FROM s ORDER BY a, b + 1 LIMIT 5",
            "SELECT b, a FROM s ORDER BY a, b + 1 LIMIT 5",
        ),
        ("SELECT a, b, c FROM s GROUP BY ALL", "SELECT c, b, a FROM s GROUP BY ALL"),
        (
            "SELECT a, b FROM s ORDER BY 1 LIMIT 5",
            "SELECT a, b, c FROM s ORDER BY 1 LIMIT 5",
        ),
        (
            "SELECT struct(Lower(A) as x, CASE WHEN a THEN b END) AS c FROM s",
            "SELECT STRUCT(lower(a) AS x, case when A then B end) AS C FROM s",
        ),
    ],
)
def test_spelling_is_no_difference(old: str, new: str) -> None:
    assert found(old, new) == []


@each_of(
    ("old", "new", "expected"),
    [
        (
            "SELECT a, 'x' AS b FROM s",
            "SELECT a, 'X' AS b FROM s",
            [("column", "b", "'X'")],
        ),
        (
            "SELECT a, 'x' 'y' AS b FROM s",
            "SELECT a, 'x''y' AS b FROM s",
            [("column", "b", "'x''y'")],
        ),
        (
            "SELECT a, 'x\"y' AS b FROM s",
            "SELECT a, 'x''y' AS b FROM s",
            [("column", "b", "'x''y'")],
        ),
        (
            "SELECT to_json(struct(a AS n, b.c)) AS x FROM s",
            "SELECT to_json(struct(a AS N, b.c)) AS x FROM s",
            [("column", "x", "N,")],
        ),
        (
            "SELECT to_json(struct(a, upper(b) AS d)) AS x FROM s",
            "SELECT to_json(struct(A, upper(B) AS d)) AS x FROM s",
            [("column", "x", "A,")],
        ),
        (
            "SELECT nvl(a, 1) AS b FROM s",
            "SELECT coalesce(a, 1) AS b FROM s",
            [("column", "b", "coalesce(a,")],
        ),
        (
            "SELECT a - (b - c) AS d FROM s",
            "SELECT (a - b) - c AS d FROM s",
            [("column", "d", "b)")],
        ),
        (
            "SELECT a FROM s WHERE a > 1",
            "SELECT a FROM s WHERE a > 2",
            [("filter", "WHERE", "2")],
        ),
        ("SELECT a FROM s WHERE a > 1", "SELECT a FROM s", [("filter", "WHERE", "s")]),
        (
            "SELECT a FROM s JOIN t ON a = b",
            "SELECT a FROM s JOIN t ON a = c",
            [("source", "FROM", "c")],
        ),
        (
            "SELECT a FROM s",
            "SELECT DISTINCT a FROM s",
            [("rest", "DISTINCT", "DISTINCT")],
        ),
        (
            "SELECT a FROM s",
            "SELECT /*+ BROADCAST(s) */ a FROM s",
            [("rest", "a hint", "SELECT")],
        ),
        (
            "SELECT a + 1 AS b, b * 2 AS c FROM s",
            "SELECT b * 2 AS c, a + 1 AS b FROM s",
            [("rest", "the order of the columns", "b")],
        ),
        (
            "SELECT a, b, count(*) AS n FROM s GROUP BY 1",
            "SELECT b, a, count(*) AS n FROM s GROUP BY 1",
            [("rest", "the order of the columns", "b,")],
        ),
        (
            "SELECT a, b, count(*) AS n FROM s GROUP BY ROLLUP ((1), 2)",
            "SELECT b, a, count(*) AS n FROM s GROUP BY ROLLUP ((1), 2)",
            [("rest", "the order of the columns", "b,")],
        ),
        (
            "SELECT a, b FROM s ORDER BY 1 DESC LIMIT 5",
            "SELECT b, a FROM s ORDER BY 1 DESC LIMIT 5",
            [("rest", "the order of the columns", "b,")],
        ),
        (
            "SELECT a, b FROM s ORDER BY ALL LIMIT 5",
            "SELECT b, a FROM s ORDER BY ALL LIMIT 5",
            [("rest", "the order of the columns", "b,")],
        ),
        (
            "SELECT a, b FROM s SORT BY (2) LIMIT 5",
            "SELECT a, c, b FROM s SORT BY (2) LIMIT 5",
            [("rest", "the order of the columns", ",")],
        ),
        (
            "SELECT a + 1 AS b, B * 2 AS c FROM s",
            "SELECT B * 2 AS c, a + 1 AS b, d FROM s",
            [("rest", "the order of the columns", "B")],
        ),
        (
            "SELECT a FROM s UNION ALL SELECT b FROM t",
            "SELECT a FROM s UNION ALL SELECT c FROM t",
            [("rest", "the query", "c")],
        ),
    ],
)
def test_a_difference_is_named_with_its_place(
    old: str, new: str, expected: list[tuple[str, str, str]]
) -> None:
    assert found(old, new) == expected


@each_of(
    ("old", "new"),
    [
        ("a || b + c", "(a || b) + c"),
        ("n | 4 & 1", "n | (4 & 1)"),
        ("a & b ^ c | d", "(((a & b) ^ c) | d)"),
        ("a = b = c", "(a = b) = c"),
        ("a + b IS NULL", "((a + b) IS NULL)"),
        ("a AND b OR c", "(a AND b) OR (c)"),
        ("NOT a = b", "NOT (a = b)"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("b AND a BETWEEN 1 AND 2", "b AND (a BETWEEN 1 AND 2)"),
        ("a IS NOT NULL AND b", "(a IS NOT NULL) AND b"),
        ("a << 1 < b", "(a << 1) < b"),
        ("transform(xs, x -> x + 1)", "transform(xs, x -> (x + 1))"),
        ("CASE WHEN a THEN b END + 1", "(CASE WHEN (a) THEN b END) + 1"),
        ("sum(a) OVER (PARTITION BY b) + 1", "(sum(a) OVER (PARTITION BY (b))) + 1"),
        ("-a * b", "(-a) * b"),
        ("'a'", '"a"'),
        ("current_date()", "CURRENT_DATE()"),
    ],
)
def test_brackets_and_quotes_that_spark_reads_the_same_are_spelling(
    old: str, new: str
) -> None:
    assert found(f"SELECT {old} AS x FROM s", f"SELECT {new} AS x FROM s") == []


@each_of(
    ("old", "new"),
    [
        ("n | 4 & 1", "(n | 4) & 1"),
        ("a || n + 1", "a || (n + 1)"),
        ("a = b = c", "a = (b = c)"),
        ("a = b IS NULL", "a = (b IS NULL)"),
        ("NOT a = b", "(NOT a) = b"),
        ("a & b >> 1", "(a & b) >> 1"),
        ("-a * b", "-(a * b)"),
        ("-2147483648", "-(2147483648)"),
        ("a - b - c", "a - (b - c)"),
        ("'b'", "b"),
        ("'b'", "`b`"),
        ('"a"', "`a`"),
        ("'01'", "01"),
        ("'null'", "null"),
        ("'true'", "true"),
        ("r'a'", "'a'"),
        (r"'a\\b'", r"'a\b'"),
        ("X'1F'", "'1F'"),
        ("`null`", "null"),
        ("`current_date`", "current_date"),
        ("`user`", "user"),
        ("m.userId", "m.userid"),
        ("s.m.userId", "s.m.userid"),
        ("v:Order.Id", "v:order.id"),
        ("to_json(struct(a AS B))", "to_json(struct(a AS b))"),
        ("arrays_zip(A)", "arrays_zip(a)"),
        ("to_json((a, B))", "to_json((a, b))"),
        ("to_json(array((a AS B, c)))", "to_json(array((a AS b, c)))"),
        ("transform(xs, x -> (x.n, y.B))", "transform(xs, x -> (x.n, y.b))"),
        ("CAST(a AS STRUCT<Foo: INT>)", "CAST(a AS STRUCT<foo: INT>)"),
        ("transform(xs, x -> x.Key)", "transform(xs, x -> x.key)"),
    ],
)
def test_quotes_brackets_and_capitals_that_count(old: str, new: str) -> None:
    assert [
        kind
        for kind, _, _ in found(
            f"SELECT {old} AS x FROM s", f"SELECT {new} AS x FROM s"
        )
    ] == ["column"]
    assert found(f"SELECT a FROM s WHERE f({old})", f"SELECT a FROM s WHERE f({new})")
    assert not is_same_expression(f"f({old}) = 1", f"f({new}) = 1")


def test_capitals_of_columns_are_spelling() -> None:
    assert (
        found(
            "SELECT o.Id AS x, `Key` AS y FROM s o",
            "SELECT O.id AS X, `key` AS Y FROM S O",
        )
        == []
    )
    assert (
        found(
            "SELECT f(A, (B) + 1) AS x FROM s WHERE A IN (B, c)",
            "SELECT f(a, b + 1) AS x FROM s WHERE a IN (b, c)",
        )
        == []
    )
    queries = [
        f"SELECT x FROM s WHERE x = 1 OR (SELECT max({a}), {a} FROM t) IS NULL"
        for a in ("A", "a")
    ]
    assert found(*queries) == []
    assert (
        found(
            "SELECT _change.before.Id AS x FROM s",
            "SELECT _change.BEFORE.id AS x FROM s",
        )
        == []
    )


def test_capitals_of_columns_that_become_names_in_json_are_not() -> None:
    texts = [
        f"SELECT to_json(struct(*)) AS x FROM (SELECT a AS {name} FROM s)"
        for name in ("B", "b")
    ]
    assert found(*texts) != []


def test_columns_that_one_of_the_two_lacks_are_not_told() -> None:
    assert found("SELECT a FROM s", "SELECT a, b FROM s") == []
    assert first_change("SELECT a FROM s", "SELECT a, b FROM s") == len("SELECT a")


def test_conditions() -> None:
    assert is_same_expression("status = 'x'", "(STATUS == 'x')")
    assert not is_same_expression("status = 'x'", "status = 'X'")
    assert not is_same_expression("", "a = 1")


@pytest.mark.checks
def test_a_very_long_select_is_compared_in_seconds() -> None:
    columns = [f"coalesce(c{number}, 0) + 1 AS d{number}" for number in range(3_000)]
    old = f"SELECT {', '.join(columns)} FROM s"
    new = f"SELECT {', '.join(['1 AS e', *reversed(columns)])} FROM s WHERE c1 = 1"
    started = time.process_time()
    assert ("filter", "WHERE") in [
        (it.kind, it.name) for it in find_differences(old, new)
    ]
    assert time.process_time() - started < 5
