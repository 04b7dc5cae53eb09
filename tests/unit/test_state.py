"""What of a SELECT and of the contracts that it reads decides whether the state of a
query is continued."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.select.differences import find_differences
from lakesql.select.query import read_query
from lakesql.select.relation import StreamShape
from lakesql.select.same_state import is_same_state
from tests.cases import each_of

COLUMNS = {
    "id": "int",
    "k": "string",
    "x": "int",
    "d": "decimal(8,2)",
    "f": "float",
    "at": "timestamp",
    "spare": "int",
}
HOUR = "window(at, '1 hour')"
JOIN = "FROM l JOIN r ON l.id = r.id AND l.at = r.at"


def state(sql: str, changed: Mapping[str, str | None] | None = None) -> str:
    """The state of a SELECT over streams `l` and `r`; the columns of `l` are
    `changed`."""
    left = {
        name: kind
        for name, kind in {**COLUMNS, **(changed or {})}.items()
        if kind is not None
    }
    streams = {
        name: StreamShape(tuple(columns), "at", tuple(columns.values()))
        for name, columns in (("l", left), ("r", COLUMNS))
    }
    return read_query(sql, streams, lambda offset: Place("m.sql", 1, offset + 1)).state


@each_of(
    ("sql", "changed", "is_same"),
    [
        ("SELECT k, count(*) AS n FROM l GROUP BY k", {"k": "binary"}, False),
        ("SELECT k, count(*) AS n FROM l GROUP BY 1", {"k": "binary"}, False),
        (
            "SELECT upper(k) AS u, count(*) AS n FROM l GROUP BY u",
            {"k": "binary"},
            True,
        ),
        # a column comes before an alias of its name
        (
            "SELECT string(x) AS x, count(*) AS n FROM l GROUP BY x",
            {"x": "bigint"},
            False,
        ),
        (
            "SELECT CAST(x AS string) AS X, count(*) AS n FROM l GROUP BY x",
            {"x": "bigint"},
            False,
        ),
        (
            "SELECT CAST(x AS string) AS y, count(*) AS n FROM l GROUP BY y",
            {"x": "bigint"},
            True,
        ),
        ("SELECT k, count(x) AS n FROM l GROUP BY k", {"x": "bigint"}, True),
        ("SELECT k, sum(x) AS n FROM l GROUP BY k", {"x": "bigint"}, True),
        ("SELECT k, sum(x) AS n FROM l GROUP BY k", {"x": "double"}, False),
        (
            "SELECT k, sum(CAST(x AS double)) AS n FROM l GROUP BY k",
            {"x": "bigint"},
            True,
        ),
        ("SELECT k, sum(d) AS n FROM l GROUP BY k", {"d": "decimal(12,2)"}, False),
        ("SELECT k, avg(f) AS n FROM l GROUP BY k", {"f": "double"}, True),
        ("SELECT k, min(x) AS n FROM l GROUP BY k", {"x": "bigint"}, False),
        ("SELECT k, max_by(k, x) AS n FROM l GROUP BY k", {"x": "bigint"}, False),
        ("SELECT k, collect_list(x) AS n FROM l GROUP BY k", {"x": "bigint"}, False),
        (
            "SELECT k, max(y) AS n FROM (SELECT k, x + 1 AS y FROM l) GROUP BY k",
            {"x": "bigint"},
            False,
        ),
        (
            "SELECT k, max(x) AS n FROM l GROUP BY k",
            {"spare": "bigint", "more": "int"},
            True,
        ),
        (
            f"SELECT {HOUR} AS w, max(x) AS n FROM l GROUP BY {HOUR}",
            {"x": "bigint"},
            False,
        ),
        ("SELECT DISTINCT k, x FROM l", {"x": "bigint"}, False),
        ("SELECT DISTINCT k, x FROM l", {"f": "double"}, True),
        ("SELECT DISTINCT * FROM l", {"more": "int"}, False),
        (f"SELECT l.id, l.x, r.k {JOIN}", {"x": "bigint"}, False),
        (f"SELECT l.id, r.x {JOIN}", {"x": "bigint"}, True),
        (f"SELECT l.id, r.x {JOIN} WHERE l.x > 0", {"x": "bigint"}, True),
        (f"SELECT l.id, r.x {JOIN} WHERE l.x > r.x", {"x": "bigint"}, False),
        (f"SELECT l.* {JOIN}", {"more": "int"}, False),
        (f"SELECT l.* {JOIN}", {"spare": None}, False),
        (f"SELECT r.* {JOIN}", {"more": "int"}, True),
        (f"SELECT id FROM (SELECT l.* {JOIN})", {"more": "int"}, True),
    ],
)
def test_state_goes_by_the_types_and_columns_that_are_kept(
    sql: str, changed: Mapping[str, str | None], is_same: bool
) -> None:
    assert is_same_state(state(sql), state(sql, changed)) is is_same
    assert is_same_state(state(sql, changed), state(sql)) is is_same


def test_state_of_former_versions_is_continued() -> None:
    now = state("SELECT k, sum(x) AS n FROM l GROUP BY k")
    shape, filters, *_ = now.split("-")
    assert is_same_state(shape, now) and is_same_state(f"{shape}-{filters}", now)
    assert not is_same_state(f"{filters}", now) and not is_same_state(
        f"{shape}-{shape}", now
    )
    assert (
        not is_same_state("", now)
        and not is_same_state(now, "")
        and is_same_state("", "")
    )


TWO = (
    "WITH a AS (SELECT id, x, at FROM l), b AS (SELECT id, k, at FROM r) "
    "SELECT a.x, b.k FROM a JOIN b ON a.id = b.id AND a.at = b.at"
)


def test_another_name_of_a_cte_is_no_change() -> None:
    other = (
        TWO.replace("a AS", "lefts AS")
        .replace("a.", "lefts.")
        .replace("FROM a ", "FROM lefts ")
    )
    assert not find_differences(TWO, other)
    assert state(TWO) != state(other) and is_same_state(state(TWO), state(other))
    assert is_same_state(state(TWO).split("-")[0], state(TWO))


@pytest.mark.parametrize(
    "other",
    [
        TWO.replace("FROM a JOIN b", "FROM b JOIN a"),
        TWO.replace("a AS", "c AS")
        .replace("b AS", "a AS")
        .replace("c AS", "b AS")
        .replace("a.x, b.k", "b.x, a.k"),
    ],
)
def test_ctes_that_stand_for_each_other_are_a_change(other: str) -> None:
    assert find_differences(TWO, other)
    assert not is_same_state(state(TWO), state(other))


def test_a_name_that_is_a_columns_too_is_as_it_is_written() -> None:
    sql = "WITH x AS (SELECT id, x FROM l) SELECT x, count(*) AS n FROM x GROUP BY x"
    assert find_differences(
        sql, sql.replace("WITH x", "WITH y").replace("FROM x", "FROM y")
    )


@each_of(
    "sql",
    [
        "SELECT k, sum(x + 1) AS n FROM l GROUP BY k",
        "SELECT k, count(*) AS n FROM l GROUP BY k, x % 2",
        "SELECT k, sum(y) AS n FROM (SELECT k, coalesce(x, 0) AS y FROM l) GROUP BY k",
        f"SELECT l.id, coalesce(l.x, 1) AS z {JOIN}",
        "SELECT id, struct(x AS q) AS n FROM l",
        "SELECT id, transform(array(1), i -> i + x) AS n FROM l",
    ],
)
def test_a_column_that_has_left_the_contract_is_refused_where_it_is_named(
    sql: str,
) -> None:
    state(sql)
    with pytest.raises(ProjectError) as refused:
        state(sql, {"x": None})
    assert {it.condition for it in refused.value.problems} == {"unknown-column"}
