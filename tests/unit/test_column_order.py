"""Where the order of the columns that a SELECT reads counts, and where it does not."""

from __future__ import annotations

from lakesql.select.column_order import find_ordered_columns
from lakesql.select.relation import QueryColumn, StreamShape
from lakesql.select.selects_read import read_selects
from tests.cases import each_of


def goes_by(sql: str, columns: str, former: str = "a b c") -> bool:
    """Whether a SELECT over stream `s` and table `x.y.t` makes others of these columns
    than of the former ones."""
    before, after = (
        find_ordered_columns(
            read_selects(
                sql,
                {"s": StreamShape(tuple(names.split()), None)},
                {
                    ("x", "y", "t"): tuple(
                        QueryColumn(name, 0) for name in names.split()
                    )
                },
            )
        )
        for names in (former, columns)
    )
    assert len(before) == len(after)
    return any(now.differs(was) for was, now in zip(before, after, strict=True))


@each_of(
    "sql",
    [
        "SELECT to_json(struct(*)) AS x FROM s",
        "SELECT a, md5(concat_ws('|', s.*)) AS x FROM s",
        "SELECT coalesce(* EXCEPT (b)) AS x FROM s",
        "SELECT a FROM s WHERE md5(concat_ws('|', *)) <> ''",
        "SELECT a FROM (SELECT hash(*) AS a FROM x.y.t)",
        "SELECT * FROM s UNION ALL SELECT k, l, m FROM r",
        "SELECT k, l, m FROM r UNION ALL SELECT s.* FROM s",
        "SELECT * FROM x.y.t INTERSECT SELECT k, l, m FROM r",
        "SELECT k, l, m FROM r EXCEPT (SELECT * FROM x.y.t)",
        "WITH u AS (SELECT * FROM s) SELECT * FROM u UNION ALL SELECT k, l, m FROM r",
        "SELECT 1 AS o FROM (SELECT * FROM x.y.t UNION SELECT k, l, m FROM r)",
        "SELECT p FROM (SELECT * FROM x.y.t) AS u(p, q, r)",
        "WITH u(p, q, r) AS (SELECT * FROM x.y.t) SELECT p FROM u",
        "SELECT p FROM x.y.t AS u(p, q, r)",
        "SELECT * FROM x.y.t ORDER BY 1 LIMIT 5",
        "SELECT * FROM x.y.t GROUP BY ALL ORDER BY ALL LIMIT 5",
        "SELECT k FROM r WHERE (k, l, m) IN (SELECT * FROM x.y.t)",
    ],
)
def test_an_order_that_counts(sql: str) -> None:
    assert goes_by(sql, "c b a")
    assert not goes_by(sql, "a b c")


@each_of(
    "sql",
    [
        "SELECT * FROM s",
        "SELECT s.*, 1 AS n FROM s",
        "SELECT * FROM (SELECT * FROM x.y.t)",
        "SELECT a, count(*) AS n FROM s GROUP BY a",
        "SELECT DISTINCT * FROM s",
        "SELECT a FROM s UNION ALL SELECT b FROM s",
        "SELECT * FROM s UNION ALL BY NAME SELECT k AS a, l AS b, m AS c FROM r",
        "WITH u AS (SELECT c, a FROM s) SELECT * FROM u UNION ALL SELECT k, l FROM r",
        "SELECT to_json(struct(*)) AS x FROM (SELECT a, b FROM s)",
        "SELECT a FROM (SELECT * FROM s) UNION ALL SELECT k FROM r",
        "SELECT * FROM x.y.t ORDER BY a LIMIT 5",
        "SELECT a FROM x.y.t WHERE EXISTS (SELECT * FROM x.y.t)",
    ],
)
def test_an_order_that_does_not_count(sql: str) -> None:
    assert not goes_by(sql, "c b a")


def test_a_column_more_is_one_more_argument_and_moves_what_is_behind_it() -> None:
    pairs = "SELECT * FROM s UNION ALL SELECT * FROM r"
    assert goes_by("SELECT hash(*) AS x FROM s", "a b c d")
    assert not goes_by(pairs, "a b c d")
    assert goes_by(pairs, "a d b c")


def test_capitals_count_where_columns_become_names() -> None:
    assert goes_by("SELECT to_json(struct(*)) AS x FROM s", "A b c")
    assert not goes_by("SELECT * FROM s UNION ALL SELECT * FROM r", "A b c")
