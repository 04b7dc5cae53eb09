"""Which joins of streams are accepted: Spark's own rule for the bounds of state
decides, not what a condition means."""

from __future__ import annotations

import itertools

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.select.query import read_query
from lakesql.select.relation import StreamShape
from tests.cases import each_of

STREAMS = {
    "sold": StreamShape(
        ("id", "at", "until"), "at", ("bigint", "timestamp", "timestamp")
    ),
    "bid": StreamShape(
        ("id", "at", "seen"), "at", ("bigint", "timestamp", "timestamp")
    ),
    "click": StreamShape(("id", "at"), None, ("bigint", "timestamp")),
}


def conditions(sql: str) -> list[str]:
    try:
        read_query(sql, STREAMS, lambda offset: Place("models/m.sql", 1, offset + 1))
    except ProjectError as error:
        return [problem.condition for problem in error.problems]
    return []


RIGHT = [
    "b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR",
    "b.at <= a.until AND b.at <= a.at + INTERVAL 1 DAY AND b.at >= a.at",
    "b.at >= a.at AND NOT (b.at > a.until OR b.at > a.at + INTERVAL 7 DAYS)",
    "b.at <= a.until AND b.at - a.at < INTERVAL 3 DAYS",
    "a.at = b.at",
    "a.at = b.at AND b.at <= a.until",
    "b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR AND date_trunc('hour', b.at) < a.until",
    "b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR AND (b.at < a.until OR a.until IS NULL)",
    "b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR AND b.seen < a.until",
    "b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR AND b.at > a.until",
]
WRONG = [
    "b.at BETWEEN a.at AND a.until",
    "b.at < a.until",
    "a.until + INTERVAL 1 DAY >= b.at",
    "NOT (b.at > a.until)",
    "b.at - a.until < INTERVAL 1 MINUTE",
    "a.at <= b.seen",
    "b.at <= a.until AND b.at <= a.at + INTERVAL 1 MONTH",
    "b.at <= a.until AND date_trunc('hour', b.at) <= a.at",
    "b.at <= a.until AND (b.at <= a.at + INTERVAL 1 DAY OR a.at IS NULL)",
    "b.at <= a.until AND a.at <= b.at + INTERVAL 1 DAY",
    "a.at = b.seen",
]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


@each_of(("join", "condition"), [*itertools.product(JOINS, RIGHT)])
def test_a_range_over_both_watermark_columns_is_a_bound(
    join: str, condition: str
) -> None:
    assert (
        conditions(
            f"SELECT a.id FROM sold AS a {join} bid AS b ON a.id = b.id AND {condition}"
        )
        == []
    )


@each_of(("join", "condition"), [*itertools.product(JOINS, WRONG)])
def test_a_bound_by_another_time_is_refused(join: str, condition: str) -> None:
    found = conditions(
        f"SELECT a.id FROM sold AS a {join} bid AS b ON a.id = b.id AND {condition}"
    )
    assert set(found) == {"join-range"}


@each_of(
    ("sql", "expected"),
    [
        (
            "SELECT a.id FROM sold a, bid b WHERE a.id = b.id AND b.at BETWEEN a.at AND a.until",
            ["join-range"],
        ),
        (
            "SELECT a.id FROM sold a JOIN bid b USING (id) WHERE b.at <= a.until",
            ["join-range"],
        ),
        (
            "SELECT a.id FROM sold a JOIN bid b USING (id) WHERE b.at <= a.until AND b.at <= a.at + INTERVAL 1 DAY",
            [],
        ),
        (
            "SELECT a.id FROM (SELECT id, until, at AS t FROM sold) a JOIN bid b ON b.at <= until",
            ["join-range"],
        ),
        (
            "SELECT a.id FROM (SELECT id, at + INTERVAL 1 DAY AS u, at FROM sold) a JOIN bid b ON b.at <= u",
            ["join-range"],
        ),
        (
            "SELECT id FROM (SELECT until AS id FROM sold) JOIN (SELECT at AS id FROM bid) USING (id)",
            ["join-range"],
        ),
        ("SELECT a.id FROM click a JOIN bid b ON a.id = b.id AND b.at <= a.at", []),
        (
            "SELECT a.id FROM sold a JOIN lake.shop.t b ON a.id = b.id AND b.at <= a.until",
            [],
        ),
        (
            "SELECT a.id FROM sold a JOIN lake.shop.t t ON t.id = a.id JOIN bid b ON b.at <= t.until",
            ["join-range"],
        ),
    ],
)
def test_a_bound_is_found_wherever_spark_finds_it(
    sql: str, expected: list[str]
) -> None:
    assert conditions(sql) == expected


def test_the_line_to_add_makes_the_join_right() -> None:
    sql = "SELECT a.id FROM sold AS a JOIN bid AS b ON a.id = b.id AND b.at BETWEEN a.at AND a.until"
    with pytest.raises(ProjectError) as caught:
        read_query(sql, STREAMS, lambda offset: Place("models/m.sql", 1, offset + 1))
    added = caught.value.problems[0].fix.split("`")[1]
    assert conditions(f"{sql} {added}") == []


COUNTED = "(SELECT id, count(*) AS n, window(at, '10 seconds') AS w FROM bid GROUP BY id, window(at, '10 seconds'))"


def test_a_join_with_an_aggregate_of_an_aggregate_is_refused() -> None:
    most = f"(SELECT max(n) AS most, w FROM {COUNTED} GROUP BY w)"
    assert conditions(
        f"SELECT a.id FROM {COUNTED} a JOIN {most} b ON a.w = b.w AND a.n = b.most"
    ) == ["nested-aggregate"]
    assert conditions(f"SELECT b.id FROM {most} a JOIN {COUNTED} b ON a.w = b.w") == [
        "nested-aggregate"
    ]
    items = f"(SELECT w, max(n) AS most, collect_list(struct(id, n)) AS items FROM {COUNTED} GROUP BY w)"
    assert (
        conditions(
            f"SELECT w, explode(filter(items, i -> i.n = most)) AS item FROM {items}"
        )
        == []
    )
