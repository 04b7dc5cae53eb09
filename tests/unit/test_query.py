from __future__ import annotations

import pytest

from lakesql.errors import Place, Problem, ProjectError
from lakesql.names import RECORD_FIELDS
from lakesql.select.query import (
    Output,
    Query,
    carry_position,
    read_expression,
    read_query,
)
from lakesql.select.relation import StreamShape
from lakesql.select.same_state import is_same_state
from tests.cases import each_of

STREAMS = {
    "orders": StreamShape(("order_id", "customer_id", "amount", "ts"), "ts"),
    "clicks": StreamShape(("id", "url", "ts"), None),
    "raw": StreamShape(None, None),
    "où est": StreamShape(("a",), None),
}
P = "_lakesql_position"


def read(sql: str) -> Query:
    return read_query(sql, STREAMS, lambda offset: Place("models/m.sql", 1, offset + 1))


def refused(sql: str) -> list[tuple[str, int]]:
    """The conditions that `sql` ends with, each with its offset."""
    with pytest.raises(ProjectError) as caught:
        read(sql)
    found = [
        (problem.condition, problem.place.column)
        for problem in caught.value.problems
        if problem.place
    ]
    assert len(found) == len(caught.value.problems)
    return [(condition, (column or 0) - 1) for condition, column in found]


def names(query: Query) -> list[str] | None:
    return None if query.outputs is None else [output.name for output in query.outputs]


# What a SELECT gives


@each_of(
    ("sql", "expected"),
    [
        ("SELECT order_id, ts AS at FROM orders", ["order_id", "at"]),
        ("SELECT * FROM orders", ["order_id", "customer_id", "amount", "ts"]),
        (
            "SELECT o.*, 1 AS one FROM orders o",
            ["order_id", "customer_id", "amount", "ts", "one"],
        ),
        ("SELECT * EXCEPT (ts, AMOUNT) FROM orders", ["order_id", "customer_id"]),
        ("SELECT *, _record.timestamp FROM clicks", ["id", "url", "ts", "timestamp"]),
        (
            "SELECT o.*, c.name FROM orders o JOIN lake.shop.c c",
            ["order_id", "customer_id", "amount", "ts", "name"],
        ),
        (
            "SELECT * FROM orders o LEFT SEMI JOIN lake.a.b b ON b.x = o.ts",
            ["order_id", "customer_id", "amount", "ts"],
        ),
        (
            "SELECT * FROM clicks JOIN (SELECT id, 1 AS n FROM lake.a.b) USING (id)",
            ["id", "url", "ts", "n"],
        ),
        ("SELECT * FROM clicks JOIN lake.shop.c", None),
        ("SELECT * FROM raw", None),
        ("SELECT payload.* FROM raw", None),
        (
            "SELECT a.b.c, x.`y z`, (d), explode(m) AS (k, v) FROM raw",
            ["c", "y z", "d", "k", "v"],
        ),
        (
            "SELECT id, e, f FROM clicks LATERAL VIEW OUTER explode(url) t AS e, f",
            ["id", "e", "f"],
        ),
        (
            "SELECT * FROM clicks LATERAL VIEW explode(url) t AS e",
            ["id", "url", "ts", "e"],
        ),
        ("SELECT id AS x FROM clicks UNION ALL SELECT order_id FROM orders", ["x"]),
        (
            "WITH orders AS (SELECT order_id FROM orders) SELECT * FROM orders",
            ["order_id"],
        ),
        ("SELECT o._record AS r FROM orders o", ["r"]),
        (
            "SELECT x FROM (SELECT a AS x, b + 1 FROM raw) UNION ALL SELECT 'x' FROM raw",
            ["x"],
        ),
        ("SELECT `où est`.a AS `ça va`, '_' AS 日本 FROM `où est`", ["ça va", "日本"]),
        (
            "SELECT CAST(a AS int), try_cast(r.ts AS date), id::string FROM raw r",
            ["a", "ts", "id"],
        ),
        ("SELECT a FROM ORDERS JOIN (VALUES (1, 2)) AS v(a, b)", ["a"]),
        (
            "SELECT CASE WHEN x THEN 'it''s; -- {{ }} /*' END AS c /* ; */ FROM raw -- ; 'x",
            ["c"],
        ),
    ],
)
def test_the_outputs_are_those_that_spark_gives(
    sql: str, expected: list[str] | None
) -> None:
    assert names(read(sql)) == expected


@each_of(
    ("sql", "origin"),
    [
        ("SELECT order_id AS id FROM orders", ("orders", "order_id")),
        (
            "SELECT o.ORDER_ID AS id FROM orders AS o JOIN lake.shop.c",
            ("orders", "order_id"),
        ),
        (
            "SELECT id FROM (SELECT * FROM (SELECT order_id AS id FROM orders) x) y",
            ("orders", "order_id"),
        ),
        (
            "WITH a AS (SELECT id AS i FROM clicks), b AS (SELECT * FROM a) SELECT i FROM b",
            ("clicks", "id"),
        ),
        ("SELECT id FROM clicks UNION ALL (SELECT id FROM clicks)", ("clicks", "id")),
        ("SELECT id FROM clicks UNION ALL SELECT order_id FROM orders", (None, None)),
        ("SELECT x AS id FROM raw", ("raw", "x")),
        ("SELECT x.y AS id FROM raw", (None, None)),
        ("SELECT order_id + 0 AS id FROM orders", (None, None)),
        ("SELECT c.order_id FROM orders JOIN lake.shop.c c", (None, None)),
    ],
)
def test_an_output_says_which_column_of_which_stream_it_plainly_is(
    sql: str, origin: tuple[str, str]
) -> None:
    outputs = read(sql).outputs
    assert outputs is not None
    assert (outputs[0].stream, outputs[0].column) == origin


def test_a_name_that_may_be_an_earlier_alias_says_nothing() -> None:
    outputs = read("SELECT id AS x, x AS y FROM raw").outputs
    assert outputs == (Output("x", 13, "raw", "id"), Output("y", 21))


@each_of(
    ("expression", "cast"),
    [
        ("CAST(a AS DECIMAL(12, 2)) AS x", "decimal(12,2)"),
        ("try_cast(CAST(a AS int) AS char(3)) x", "char(3)"),
        ("a::timestamp_ntz AS x", "timestamp_ntz"),
        ("CAST(a AS map<string, array<int>>) AS x", "map<string,array<int>>"),
        ("CAST(a AS int) + 1 AS x", None),
        ("10L AS x", None),
        ("DATE '2020-01-01' AS x", None),
    ],
)
def test_an_output_that_is_a_cast_says_to_what(
    expression: str, cast: str | None
) -> None:
    for sql in (
        f"SELECT {expression} FROM raw",
        f"SELECT x FROM (SELECT {expression} FROM raw)",
    ):
        outputs = read(sql).outputs
        assert outputs is not None
        assert outputs[0].cast == cast


# The way of the source position


@each_of(
    ("sql", "carried"),
    [
        ("SELECT order_id FROM orders", f"SELECT {P}, order_id FROM orders"),
        ("select\n  order_id\nfrom orders", f"select {P},\n  order_id\nfrom orders"),
        (
            "SELECT /*+ COALESCE(1) */ ALL a FROM raw",
            f"SELECT /*+ COALESCE(1) */ ALL {P}, a FROM raw",
        ),
        (
            "SELECT * FROM orders o JOIN lake.shop.c c",
            "SELECT * FROM orders o JOIN lake.shop.c c",
        ),
        (
            "SELECT o.* EXCEPT (ts) FROM orders o",
            "SELECT o.* EXCEPT (ts) FROM orders o",
        ),
        (
            "SELECT c.* FROM orders o JOIN lake.a.c c",
            f"SELECT {P}, c.* FROM orders o JOIN lake.a.c c",
        ),
        ("FROM raw SELECT a", f"FROM raw SELECT {P}, a"),
        ("(SELECT a FROM raw)", f"(SELECT {P}, a FROM raw)"),
        (
            "SELECT a FROM raw UNION ALL SELECT id FROM clicks",
            f"SELECT {P}, a FROM raw UNION ALL SELECT {P}, id FROM clicks",
        ),
        (
            "SELECT 'a' AS s, * FROM clicks UNION ALL SELECT 'b' AS s, * FROM clicks",
            "SELECT 'a' AS s, * FROM clicks UNION ALL SELECT 'b' AS s, * FROM clicks",
        ),
        (
            "SELECT * FROM (SELECT id FROM clicks) UNION ALL SELECT order_id FROM orders",
            f"SELECT * FROM (SELECT {P}, id FROM clicks) UNION ALL SELECT {P}, order_id FROM orders",
        ),
        (
            "WITH t AS (SELECT a FROM raw) SELECT a, 1 b FROM t UNION ALL SELECT x.a, 2 b FROM t x",
            f"WITH t AS (SELECT {P}, a FROM raw) SELECT {P}, a, 1 b FROM t UNION ALL SELECT {P}, x.a, 2 b FROM t x",
        ),
        (
            "SELECT a, (SELECT max(x) FROM lake.a.b) AS m FROM (SELECT * FROM raw) WHERE a IN (SELECT y FROM lake.a.c)",
            f"SELECT {P}, a, (SELECT max(x) FROM lake.a.b) AS m FROM (SELECT * FROM raw)"
            " WHERE a IN (SELECT y FROM lake.a.c)",
        ),
        (
            "SELECT a, e FROM raw LATERAL VIEW explode(xs) t AS e -- SELECT",
            f"SELECT {P}, a, e FROM raw LATERAL VIEW explode(xs) t AS e",
        ),
        (
            "SELECT 'SELECT' AS `SELECT` FROM raw;",
            f"SELECT {P}, 'SELECT' AS `SELECT` FROM raw",
        ),
    ],
)
def test_the_position_is_carried_through_subqueries_to_the_outputs(
    sql: str, carried: str
) -> None:
    query = read(sql)
    assert not query.stateful
    assert carry_position(query) == carried


# State


@each_of(
    ("sql", "aggregated"),
    [
        ("SELECT count(*) AS n FROM raw", True),
        ("SELECT a FROM raw GROUP BY a", True),
        ("SELECT sum(a) FILTER (WHERE b IS DISTINCT FROM c) AS s FROM raw", True),
        ("SELECT `max`(a) AS m FROM raw", True),
        (
            "SELECT any(a LIKE 'x') AS m, some(a LIKE ANY ('x', 'y')) AS n FROM raw",
            True,
        ),
        ("SELECT kll_sketch_agg_bigint(a) AS m FROM raw", True),
        (
            "SELECT n FROM (SELECT a, count(*) AS n FROM raw GROUP BY ALL) WHERE n > 1",
            True,
        ),
        ("SELECT DISTINCT a FROM raw", False),
        ("SELECT id FROM clicks JOIN orders ON id = order_id", False),
        ("FROM clicks JOIN orders ON id = order_id SELECT id", False),
        (
            "SELECT c.id FROM clicks c JOIN lake.a.b JOIN orders o ON b.x = o.order_id ON c.id = o.order_id",
            False,
        ),
        ("SELECT id FROM clicks UNION SELECT order_id FROM orders", False),
    ],
)
def test_aggregates_distinct_joins_and_unions_are_stateful(
    sql: str, aggregated: bool
) -> None:
    query = read(sql)
    assert query.stateful
    assert query.aggregated == aggregated
    assert query.state
    assert query.carry == ()


@each_of(
    "sql",
    [
        "SELECT a FROM raw JOIN (SELECT x, count(*) AS n FROM lake.a.b GROUP BY x ORDER BY n LIMIT 3) USING (x)",
        "SELECT a FROM raw JOIN (SELECT DISTINCT x FROM lake.a.b UNION SELECT 1) USING (x)",
        "SELECT a FROM raw JOIN (SELECT row_number() OVER (ORDER BY x) AS n FROM lake.a.b) ON n = a",
        "SELECT a, (SELECT max(x) FROM lake.a.b) AS m FROM raw",
        "SELECT a FROM raw JOIN (SELECT * FROM lake.a.b PIVOT (sum(x) FOR y IN (1, 2))) ON 1 = 1",
        "SELECT aggregate(xs, 0, (acc, x) -> acc + x) AS s, 'sum(x)' AS t FROM raw",
        "SELECT a FROM raw WHERE b LIKE ANY ('a%', 'b%') OR b NOT ILIKE some('c%') OR b LIKE ALL ('d%')",
    ],
)
def test_what_only_tables_go_through_keeps_no_state(sql: str) -> None:
    query = read(sql)
    assert (query.stateful, query.aggregated, query.state) == (False, False, "")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM clicks", True),
        (
            "SELECT id, upper(url) AS url, (SELECT max(x) FROM cat.ns.t) AS most FROM clicks",
            False,
        ),
        ("WITH parts AS (SELECT id, url FROM clicks) SELECT id, url FROM parts", True),
        (
            "SELECT id, CASE WHEN url = 'a' THEN NULL ELSE url END AS url FROM (SELECT * FROM clicks) AS inner_e",
            True,
        ),
        ("SELECT * FROM clicks WHERE id > 1", False),
        ("SELECT * FROM (SELECT * FROM clicks WHERE id > 1) AS few", False),
        (
            "WITH few AS (SELECT * FROM clicks WHERE url IS NOT NULL) SELECT id FROM few",
            False,
        ),
        ("SELECT DISTINCT id FROM clicks", False),
        ("SELECT id, count(*) AS n FROM clicks GROUP BY id", False),
        ("SELECT id, explode(split(url, ',')) AS word FROM clicks", False),
        (
            "SELECT id, word FROM clicks LATERAL VIEW OUTER explode(split(url, ',')) AS word",
            False,
        ),
        (
            "SELECT clicks.id, t.x FROM clicks LEFT JOIN cat.ns.t AS t ON t.id = clicks.id",
            False,
        ),
        (
            "SELECT clicks.id FROM clicks LEFT SEMI JOIN cat.ns.t AS t ON t.id = clicks.id",
            False,
        ),
        ("SELECT id FROM clicks UNION ALL SELECT id FROM clicks", False),
        ("SELECT id FROM clicks WHERE id IN (SELECT id FROM cat.ns.t)", False),
        ("SELECT id, v FROM clicks UNPIVOT (v FOR n IN (url))", False),
        (
            "SELECT id, v FROM (SELECT * FROM clicks UNPIVOT INCLUDE NULLS (v FOR n IN (url)))",
            False,
        ),
    ],
)
def test_which_select_makes_one_row_of_each_and_no_other(
    sql: str, expected: bool
) -> None:
    assert read(sql).keeps_each is expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, url FROM clicks", False),
        (
            "SELECT id FROM clicks LEFT SEMI JOIN cat.ns.t AS t ON t.id = clicks.id",
            False,
        ),
        ("SELECT id FROM clicks LEFT JOIN cat.ns.t AS t ON t.id = clicks.id", True),
        ("SELECT id, explode(split(url, ',')) AS word FROM clicks", True),
        (
            "SELECT id, word FROM clicks LATERAL VIEW explode(split(url, ',')) AS word",
            True,
        ),
        ("SELECT id, v FROM clicks UNPIVOT (v FOR n IN (url))", True),
        (
            "WITH each AS (SELECT * FROM clicks UNPIVOT INCLUDE NULLS (v FOR n IN (url))) SELECT id, v FROM each",
            True,
        ),
        ("SELECT id FROM clicks UNION ALL SELECT id FROM clicks", True),
    ],
)
def test_which_select_may_make_several_rows_of_a_record(
    sql: str, expected: bool
) -> None:
    assert read(sql).multiplies is expected


def test_the_state_hash_follows_the_shape_and_not_the_spelling() -> None:
    base = read("SELECT a AS k, sum(b) AS s FROM raw WHERE c > 1 GROUP BY a").state
    same = [
        "select A as other,\n  Sum( b ) as t -- note\nfrom raw where c > 1 group by a",
        "SELECT round(sum(b), 2) AS s, a FROM raw WHERE c > 1 GROUP BY a",
    ]
    other = [
        "SELECT a AS k, sum(c) AS s FROM raw WHERE c > 1 GROUP BY a",
        "SELECT a AS k, sum(b) AS s FROM raw WHERE c > 1 GROUP BY a, c",
        "SELECT a AS k, sum(b) AS s, max(b) AS m FROM raw WHERE c > 1 GROUP BY a",
        "SELECT DISTINCT a AS k, sum(b) AS s FROM raw WHERE c > 1 GROUP BY a",
    ]
    assert [read(sql).state for sql in same] == [base, base]
    assert len({base, *(read(sql).state for sql in other)}) == 1 + len(other)


@each_of(
    ("sql", "one", "other"),
    [
        ("SELECT {} AS k, count(*) AS n FROM raw GROUP BY 1", "a", "b"),
        (
            "SELECT window.start AS s, {} AS k FROM orders GROUP BY window(ts, '1 hour'), k",
            "order_id % 10",
            "order_id % 20",
        ),
        (
            "SELECT window(ts, '1 hour') AS s, {} AS k FROM orders GROUP BY ALL",
            "order_id % 10",
            "order_id % 20",
        ),
        (
            "WITH c AS (SELECT window(ts, '{}') AS w FROM orders) SELECT w, count(*) AS n FROM c GROUP BY w",
            "1 hour",
            "1 day",
        ),
        (
            "WITH c AS (SELECT {} AS k FROM orders) SELECT k, count(*) AS n FROM c GROUP BY k",
            "order_id % 10",
            "order_id % 20",
        ),
        (
            "SELECT sum(v) AS s FROM (SELECT w AS v FROM (SELECT {} AS w FROM orders))",
            "order_id",
            "order_id * 2",
        ),
        (
            "SELECT o.order_id FROM orders AS o, clicks AS c WHERE {} = c.id",
            "o.order_id",
            "o.order_id + 1",
        ),
        (
            "SELECT o.k FROM (SELECT {} AS k FROM orders) AS o JOIN clicks AS c ON o.k = c.id",
            "order_id",
            "order_id + 1",
        ),
        (
            "FROM orders AS o JOIN clicks AS c ON {} = c.id SELECT c.id",
            "o.order_id",
            "o.order_id + 1",
        ),
        (
            "SELECT DISTINCT k FROM (SELECT {} AS k, ts FROM orders)",
            "order_id",
            "order_id % 10",
        ),
        (
            "SELECT {} AS k FROM orders UNION SELECT id FROM clicks",
            "order_id",
            "order_id % 10",
        ),
        ("SELECT DISTINCT k FROM (SELECT {} AS k FROM orders)", "'a''b'", "'a' 'b'"),
    ],
)
def test_the_state_hash_follows_what_a_key_is_made_of(
    sql: str, one: str, other: str
) -> None:
    assert read(sql.format(one)).state != read(sql.format(other)).state
    assert (
        read(sql.format(one)).state
        == read(sql.format(one).lower().replace(" as ", "\n AS ")).state
    )


@each_of("key", ["window", "window, order_id", "order_id, window", "window.start"])
def test_a_column_may_be_called_window(key: str) -> None:
    source = "(SELECT window(ts, '1 hour') AS window, order_id FROM orders)"
    assert read(
        f"SELECT window.end AS e, count(*) AS n FROM {source} GROUP BY {key}"
    ).aggregated
    assert not read(
        "SELECT window.start AS s, window FROM (SELECT id, struct(ts AS start) AS window FROM raw)"
    ).stateful


def test_the_state_hash_leaves_out_what_follows_the_keys() -> None:
    sql = "SELECT id FROM (SELECT id, count(*) AS n FROM clicks GROUP BY id HAVING n > {})"
    assert read(sql.format(1)).state == read(sql.format(2)).state


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, count(*) AS n FROM clicks WHERE {} GROUP BY id",
        "SELECT id, count(*) AS n FROM (SELECT id FROM clicks AS c WHERE {}) GROUP BY id",
        "WITH a AS (SELECT id, url FROM clicks) SELECT id, count(*) AS n FROM a WHERE {} GROUP BY id",
    ],
)
def test_the_state_hash_follows_the_filter_below_an_aggregate(sql: str) -> None:
    base = read(sql.format("url = 'a'")).state
    assert base == read(sql.format("( URL = 'a' ) /* as before */")).state
    assert base == read(sql.replace(" a ", " named ").format("url='a'")).state
    for other in ("url = 'A'", "url = 'a' AND id > 1", "id = 1", "url = ts", "TRUE"):
        assert (
            read(
                sql.replace(
                    "SELECT id, url FROM clicks", "SELECT *, 1 AS a FROM clicks"
                ).format(other)
            ).state
            != base
        )
    without = read("SELECT id, count(*) AS n FROM clicks GROUP BY id").state
    assert base != without and is_same_state(without.split("-")[0], without)
    assert is_same_state(base.split("-")[0], base), (
        "of former versions, which wrote no filter"
    )
    assert (
        not is_same_state(without, base)
        and not is_same_state("", base)
        and not is_same_state(base, "")
    )


def test_the_state_hash_ignores_columns_that_are_only_projected() -> None:
    sources = [
        "orders",
        "(SELECT * FROM orders)",
        "(SELECT order_id, ts FROM orders)",
        "(SELECT o.ORDER_ID, o.ts AS `ts` FROM orders AS o)",
    ]
    hashes = {
        read(f"SELECT order_id, max(ts) AS t FROM {source} GROUP BY order_id").state
        for source in sources
    }
    assert len(hashes) == 1


def test_the_state_hash_ignores_expressions_outside_keys() -> None:
    below = "SELECT order_id AS k, {} AS x FROM orders"
    sql = f"SELECT k AS j, round(n) AS n FROM (SELECT k, count(*) AS n FROM ({below}) GROUP BY k)"
    assert read(sql.format("ts")).state == read(sql.format("order_id + 1")).state
    assert (
        read(sql.replace("round(n)", "n + 1").format("ts")).state
        == read(sql.format("ts")).state
    )


@each_of(
    ("sql", "expected"),
    [
        (
            "SELECT window(ts, '5 minutes') AS w, count(*) AS n FROM orders GROUP BY window(ts, '5 minutes')",
            True,
        ),
        (
            "SELECT count(*) AS n FROM orders GROUP BY customer_id, session_window(ts, '5 minutes')",
            True,
        ),
        (
            "SELECT window(t, '1 day') AS w FROM (SELECT ts AS t FROM orders) GROUP BY 1",
            True,
        ),
        ("SELECT window(ts, '1 day') AS w FROM orders GROUP BY w", True),
        ("SELECT ts, count(*) AS n FROM orders GROUP BY ALL", True),
        ("SELECT DISTINCT order_id, ts FROM orders", True),
        (
            "SELECT date_trunc('day', ts) AS d FROM orders GROUP BY date_trunc('day', ts)",
            False,
        ),
        ("SELECT count(*) AS n FROM orders GROUP BY customer_id", False),
        ("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 day')", False),
    ],
)
def test_grouping_by_event_time_is_seen(sql: str, expected: bool) -> None:
    assert read(sql).grouped_by_event_time == expected


def test_the_streams_that_are_read_are_named() -> None:
    joined = "SELECT o.order_id FROM clicks c JOIN orders o ON c.id = o.order_id"
    assert read(joined).streams_read == ("clicks", "orders")


def test_a_table_beside_the_streams_is_noted() -> None:
    assert not read("WITH c AS (SELECT a FROM raw) SELECT a FROM c").reads_tables
    assert read("SELECT r.a FROM raw r JOIN lake.a.b t ON r.a = t.x").reads_tables
    assert read("SELECT a FROM raw WHERE a IN (SELECT x FROM lake.a.b)").reads_tables


@each_of(
    ("sql", "filters"),
    [
        ("SELECT id FROM clicks", False),
        ("SELECT id FROM clicks WHERE url = 'a'", True),
        ("SELECT id FROM (SELECT id FROM clicks WHERE url = 'a')", True),
        (
            "WITH c AS (SELECT id FROM clicks WHERE url = 'a') SELECT id FROM c UNION ALL SELECT id FROM clicks",
            True,
        ),
        ("SELECT id, count(*) AS n FROM clicks GROUP BY id", False),
        ("SELECT id, count(*) AS n FROM clicks GROUP BY id HAVING count(*) > 1", True),
        ("SELECT c.id FROM clicks c LEFT JOIN lake.a.b b ON b.x = c.id", False),
        (
            "SELECT c.id FROM clicks c LEFT JOIN (SELECT x FROM lake.a.b WHERE x > 1) b ON b.x = c.id",
            False,
        ),
        ("SELECT c.id FROM lake.a.b b RIGHT JOIN clicks c ON b.x = c.id", False),
        ("SELECT c.id FROM clicks c JOIN lake.a.b b ON b.x = c.id", True),
        ("SELECT c.id FROM clicks c, lake.a.b b", True),
        ("SELECT c.id FROM clicks c LEFT SEMI JOIN lake.a.b b ON b.x = c.id", True),
        ("SELECT c.id FROM clicks c LEFT ANTI JOIN lake.a.b b ON b.x = c.id", True),
        ("SELECT id FROM clicks LATERAL VIEW explode(url) t AS e", True),
        ("SELECT id FROM clicks LATERAL VIEW OUTER explode(url) t AS e", False),
        (
            "SELECT id, (SELECT max(x) FROM lake.a.b WHERE x > 1) AS m FROM clicks",
            False,
        ),
        ("SELECT id, v FROM clicks UNPIVOT (v FOR n IN (url))", True),
        ("SELECT id, v FROM clicks UNPIVOT INCLUDE NULLS (v FOR n IN (url))", False),
    ],
)
def test_what_may_leave_out_what_a_stream_brings_is_told(
    sql: str, filters: bool
) -> None:
    assert read(sql).filters is filters


@each_of(
    ("sql", "fields"),
    [
        ("SELECT a FROM raw", frozenset[str]()),
        ("SELECT '_record' AS a FROM raw", frozenset[str]()),
        (
            "SELECT _record.offset, r._RECORD.`key` FROM raw r",
            frozenset({"offset", "key"}),
        ),
        ("SELECT a FROM raw WHERE _record.topic = 'x'", frozenset({"topic"})),
        ("SELECT _record AS r FROM raw", frozenset(RECORD_FIELDS)),
        ("SELECT _record.* FROM raw", frozenset(RECORD_FIELDS)),
    ],
)
def test_the_used_fields_of_record_are_known(sql: str, fields: frozenset[str]) -> None:
    assert read(sql).record_fields == fields


# Refusals


@each_of(
    ("sql", "condition", "at"),
    [
        ("", "not-a-select", ""),
        ("-- nothing", "not-a-select", "--"),
        ("CALL system.x()", "not-a-select", "CALL"),
        ("SET x = 1", "not-a-select", "SET"),
        ("ADD JAR 'x'", "not-a-select", "ADD"),
        ("CREATE TABLE x AS SELECT 1", "not-a-select", "CREATE"),
        ("INSERT INTO x SELECT a FROM raw", "not-a-select", "INSERT"),
        ("VALUES (1)", "not-a-select", "VALUES"),
        ("TABLE raw", "not-a-select", "TABLE"),
        ("FROM raw", "not-a-select", "FROM"),
        ("FROM raw INSERT INTO x SELECT a", "not-a-select", "FROM"),
        (
            "WITH x AS (SELECT 1) INSERT INTO t SELECT a FROM raw",
            "not-a-select",
            "WITH",
        ),
        ("SELECT a FROM raw |> WHERE a", "not-a-select", "|>"),
        ("SELECT a FROM raw; SELECT 2", "many-statements", ";"),
        ("SELECT a FROM raw; CALL x.y()", "many-statements", ";"),
        ("SELECT a FROM raw WHERE", "sql-syntax", "WHERE"),
        ("SELECT date_trunc() AS x FROM raw", "wrong-argument-count", "date_trunc"),
        ("SELECT map(a) AS x FROM raw", "wrong-argument-count", "map"),
        ("SELECT a FROM raw WHERE (zz", "sql-syntax", "zz"),
        ("SELECT 'a FROM raw", "sql-syntax", "'"),
        ("SELECT a /* FROM raw", "sql-syntax", "/*"),
        ("SELECT a /* /* */ FROM raw", "sql-syntax", "/*"),
        ("SELECT a -- x \\\n, reflect('x') FROM raw", "sql-syntax", "\\"),
        ("SELECT a, x://y-- , reflect('x')\n FROM raw", "sql-syntax", "x:"),
        (
            "SELECT " + "(" * 300 + "a" + ")" * 300 + " AS x FROM raw",
            "sql-syntax",
            "SELECT",
        ),
        (
            "SELECT CAST(a AS "
            + "array<" * 9000
            + "int"
            + ">" * 9000
            + ") AS x FROM raw",
            "sql-syntax",
            "SELECT",
        ),
        ("SELECT " + "NOT " * 9000 + "a AS x FROM raw", "sql-syntax", "SELECT"),
        ("SELECT '${env:HOME}' AS a FROM raw", "variable-substitution", "${"),
        ("SELECT a FROM raw WHERE b = :p", "parameter-marker", ":"),
        ("SELECT a FROM raw WHERE b = ?", "parameter-marker", "?"),
        ("SELECT reflect('a', 'b') AS x FROM raw", "forbidden-function", "reflect"),
        (
            "SELECT `JAVA_METHOD` /**/ ('a') AS x FROM raw",
            "forbidden-function",
            "`JAVA",
        ),
        (
            "SELECT a FROM raw WHERE x IN (SELECT try_reflect('a') FROM lake.a.b)",
            "forbidden-function",
            "try_",
        ),
        (
            "SELECT a FROM raw JOIN read_files('/etc')",
            "forbidden-function",
            "read_files",
        ),
        ("SELECT a FROM raw JOIN my_function(1)", "forbidden-function", "my_function"),
        (
            "SELECT a FROM raw JOIN IDENTIFIER('json.`/etc`')",
            "forbidden-function",
            "IDENTIFIER",
        ),
        ("SELECT TRANSFORM (a) USING 'cat' AS b FROM raw", "script-transform", "USING"),
        (
            "SELECT TRANSFORM (a) USING r'cat' AS b FROM raw",
            "script-transform",
            "USING",
        ),
        (
            'SELECT x FROM raw JOIN (SELECT TRANSFORM(a) USING R"cat" AS (x) FROM lake.a.b)',
            "script-transform",
            "USING",
        ),
        (
            "SELECT TRANSFORM(a) ROW FORMAT DELIMITED USING r'cat' AS b FROM raw",
            "script-transform",
            "USING",
        ),
        ("SELECT a,\nFROM raw", "sql-syntax", "FROM"),
        ("SELECT FROM raw", "sql-syntax", "FROM"),
        ("SELECT concat(a, b,) AS c FROM raw", "sql-syntax", ") AS"),
        (
            "SELECT a, count(*) AS n FROM raw GROUP BY a, HAVING n > 1",
            "sql-syntax",
            "HAVING",
        ),
        ("SELECT * REPLACE (1 AS amount) FROM orders", "sql-syntax", "*"),
        ("SELECT o.* RENAME (amount AS b) FROM orders o", "sql-syntax", "o.*"),
        ("SELECT AS STRUCT a FROM raw", "sql-syntax", "SELECT"),
        ("SELECT DISTINCT ON (a) a FROM raw", "sql-syntax", "SELECT"),
        ("SELECT a FROM raw FOR UPDATE", "sql-syntax", "SELECT"),
        ("SELECT a FROM raw JOIN lake.a.b WITH (NOLOCK)", "sql-syntax", "lake"),
        ("SELECT a FROM raw ASOF JOIN lake.a.b ON 1 = 1", "sql-syntax", "lake"),
        ("SELECT a FROM raw STRAIGHT_JOIN lake.a.b ON 1 = 1", "sql-syntax", "lake"),
        ("SELECT a FROM raw, UNNEST(xs) AS x", "sql-syntax", "xs"),
        (
            "SELECT a FROM raw UNION ALL BY NAME SELECT b FROM raw",
            "sql-syntax",
            "SELECT b",
        ),
        ("SELECT a FROM raw VERSION AS OF 3", "sql-syntax", "raw"),
        ("SELECT a FROM raw JOIN parquet.`/data` p", "path-in-from", "parquet"),
        (
            "SELECT a FROM raw WHERE a IN (SELECT b FROM JSON.`s3://x`)",
            "path-in-from",
            "JSON",
        ),
        ("SELECT a FROM raw JOIN `org.apache.spark.x`.y", "path-in-from", "`org"),
        ("SELECT a FROM raw JOIN lake.shop.`/data`", "path-in-from", "lake"),
        ("SELECT a FROM orderz", "unknown-table", "orderz"),
        (
            "SELECT a FROM raw WHERE a IN (SELECT b FROM orderz)",
            "unknown-table",
            "orderz",
        ),
        ("SELECT 1 AS a", "no-stream", "SELECT"),
        ("SELECT a FROM lake.shop.x", "no-stream", "SELECT"),
        (
            "WITH x AS (SELECT a FROM raw) SELECT b FROM lake.shop.x",
            "no-stream",
            "WITH",
        ),
        (
            "SELECT a FROM raw WHERE a IN (SELECT id FROM clicks)",
            "stream-in-expression",
            "SELECT id FROM",
        ),
        (
            "SELECT (SELECT max(id) FROM clicks) AS m FROM raw",
            "stream-in-expression",
            "SELECT max",
        ),
        (
            "SELECT a FROM raw JOIN LATERAL (SELECT id FROM clicks) x",
            "stream-in-expression",
            "SELECT id FROM",
        ),
        (
            "SELECT a FROM raw UNION ALL SELECT b FROM lake.a.b",
            "union-without-stream",
            "SELECT b",
        ),
        (
            "SELECT id, url, ts FROM clicks UNION ALL SELECT * FROM clicks",
            "union-star",
            "SELECT *",
        ),
        (
            "SELECT a FROM raw INTERSECT SELECT b FROM lake.a.b",
            "set-operation",
            "SELECT b",
        ),
        ("SELECT a FROM raw MINUS SELECT id FROM clicks", "set-operation", "SELECT id"),
        (
            "SELECT row_number() OVER (ORDER BY a) AS n FROM raw",
            "window-over-stream",
            "OVER",
        ),
        (
            "SELECT sum(count(*)) OVER w AS n FROM raw GROUP BY a WINDOW w AS (ORDER BY a)",
            "window-over-stream",
            "sum",
        ),
        (
            "SELECT a FROM raw QUALIFY lag(a) OVER (ORDER BY a) = 1",
            "window-over-stream",
            "QUALIFY",
        ),
        ("SELECT a FROM raw LIMIT 3", "order-over-stream", "LIMIT"),
        (
            "SELECT a FROM raw UNION ALL SELECT id FROM clicks OFFSET 3",
            "order-over-stream",
            "OFFSET",
        ),
        ("SELECT a FROM (SELECT a FROM raw SORT BY a)", "order-over-stream", "SORT"),
        ("SELECT _record.offset FROM raw ORDER BY 1", "order-over-stream", "ORDER"),
        ("SELECT a AS _lakesql_a FROM raw", "reserved-column", "_lakesql_a"),
        ("SELECT a AS _Record FROM raw", "reserved-column", "_Record"),
        (
            "SELECT 1 AS a FROM (SELECT b _change FROM raw)",
            "reserved-column",
            "_change",
        ),
        ("SELECT _record FROM raw", "reserved-column", "_record"),
        (
            "SELECT order_id, amount AS ORDER_ID FROM orders",
            "duplicate-column",
            "ORDER_ID",
        ),
        ("SELECT *, r.* FROM raw r", "duplicate-column", "SELECT"),
        ("SELECT amount * 2 FROM orders", "unnamed-column", "amount"),
        ("SELECT xs[0] FROM raw", "unnamed-column", "xs"),
        ("SELECT CAST(s.x AS string) FROM raw", "unnamed-column", "CAST"),
        ("SELECT a AS `x.y` FROM raw", "bad-column-name", "`x.y"),
        ("SELECT a AS `x``y` FROM raw", "bad-column-name", "`x"),
        ("SELECT a FROM lake.a.b LEFT JOIN raw ON 1 = 1", "outer-join", "raw"),
        ("SELECT a FROM raw RIGHT JOIN lake.a.b ON 1 = 1", "outer-join", "lake"),
        ("SELECT a FROM raw FULL JOIN lake.a.b ON 1 = 1", "outer-join", "lake"),
        ("SELECT a FROM lake.a.b LEFT ANTI JOIN raw ON 1 = 1", "outer-join", "raw"),
        ("SELECT a FROM lake.a.b ANTI JOIN raw ON 1 = 1", "outer-join", "raw"),
        ("SELECT a FROM lake.a.b SEMI JOIN raw ON 1 = 1", "outer-join", "raw"),
        (
            "SELECT * FROM raw PIVOT (sum(x) FOR y IN (1, 2))",
            "pivot-over-stream",
            "raw",
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t) SELECT a FROM raw",
            "recursive-cte",
            "t AS",
        ),
        ("SELECT a FROM raw TABLESAMPLE (10 PERCENT)", "sample-over-stream", "raw"),
        (
            "SELECT k, count(DISTINCT a) AS n FROM raw GROUP BY k",
            "distinct-aggregate",
            "count",
        ),
        ("SELECT sum( distinct a) AS n FROM raw", "distinct-aggregate", "sum"),
        ("SELECT a FROM raw JOIN ns.tab AS t ON a = t.id", "unknown-table", "ns"),
        ("SELECT a FROM orders AS o (a, b)", "column-list", "a, b"),
        ("WITH t (n) AS (SELECT a FROM raw) SELECT n FROM t", "column-list", "n)"),
    ],
)
def test_what_a_model_must_not_hold_is_refused_at_its_place(
    sql: str, condition: str, at: str
) -> None:
    assert refused(sql) == [(condition, sql.index(at))]


@each_of(
    ("sql", "expected"),
    [
        ("SELECT * FROM l JOIN {r} USING (k)", "k a b j c d"),
        ("SELECT r.* FROM l JOIN {r} USING (k)", "k c d"),
        ("SELECT l.*, r.c FROM l JOIN {r} USING (k)", "k a b j c"),
        ("SELECT * FROM l JOIN {r} USING (k) JOIN {q} USING (j, k)", "j k a b c d e"),
        ("SELECT q.* FROM l JOIN {r} USING (k) JOIN {q} USING (j, k)", "j k e"),
        ("SELECT * FROM l NATURAL JOIN {q}", "k j a b e"),
        ("SELECT q.* FROM l NATURAL JOIN {q}", "k j e"),
        ("SELECT * EXCEPT (k) FROM l JOIN {r} USING (k)", "a b j c d"),
        ("SELECT *, 1 AS x FROM (l JOIN {r} USING (k)) JOIN lake.a.b ON true", None),
        ("SELECT * EXCEPT (b.x, l.a) FROM l", "k b j"),
    ],
)
def test_stars_over_joins_by_name_are_as_in_spark(
    sql: str, expected: str | None
) -> None:
    """Columns and their order as Spark 4.1 gave them for these SELECTs over views of
    the same columns."""
    made = {
        "r": "(SELECT 5 AS c, 2 AS k, 6 AS d FROM x.y.z) r",
        "q": "(SELECT 4 AS j, 7 AS e, 2 AS k FROM x.y.z) q",
    }
    shapes = {"l": StreamShape(("a", "k", "b", "j"), None)}
    outputs = read_query(
        sql.format(**made), shapes, lambda offset: Place("m.sql", 1, offset)
    ).outputs
    assert (outputs and " ".join(output.name for output in outputs)) == expected


@pytest.mark.parametrize("name", ["limit", "offset", "window"])
def test_a_column_may_have_the_name_of_a_clause(name: str) -> None:
    shapes = {"t": StreamShape(("a", name), None)}
    for sql in (
        f"SELECT a, {name} FROM t",
        f"SELECT {name} FROM t",
        f"SELECT coalesce(a, {name}) AS {name} FROM t",
    ):
        outputs = read_query(
            sql, shapes, lambda offset: Place("m.sql", 1, offset)
        ).outputs
        assert outputs is not None and outputs[-1].name == name


def test_every_problem_is_reported_at_once() -> None:
    sql = "SELECT amount + 1, reflect('x') AS y, order_id AS _record FROM orders WHERE amount = ? ORDER BY 1"
    assert {condition for condition, _ in refused(sql)} == {
        "unnamed-column",
        "forbidden-function",
        "reserved-column",
        "parameter-marker",
        "order-over-stream",
    }


@each_of(
    "sql",
    [
        "SELECT a FROM raw JOIN lake.a.b TABLESAMPLE (10 PERCENT) ON 1 = 1",
        "SELECT md5(a) AS f FROM raw WHERE a RLIKE '^x$' AND b <=> c AND NOT d == 1",
        "SELECT a FROM raw JOIN lake.a.b VERSION AS OF 3 ON 1 = 1",
        "SELECT a FROM raw JOIN lake.shop.orders.snapshots",
        "SELECT CAST(a AS struct<x: int, y: array<string>>) AS s, struct(1 AS x).x FROM raw",
        "SELECT a FROM raw DISTRIBUTE BY a",
        "SELECT a FROM raw WHERE EXISTS (SELECT 1 FROM lake.a.b WHERE b.x = raw.a ORDER BY 1 LIMIT 1)",
        "SELECT r'\\' AS a, 'a\\'b' AS b, \"it's\" AS c, X'1F' AS d, 'a' 'b' AS e FROM raw",
        "SELECT a FROM raw JOIN range(10) JOIN LATERAL explode(xs) AS t(e)",
        "SELECT a FROM raw JOIN LATERAL (SELECT max(x) AS m FROM lake.a.b WHERE y = a)",
        "SELECT a FROM (raw) JOIN (lake.a.b AS x JOIN lake.a.c AS y ON x.i = y.i) ON 1 = 1",
        "SELECT v FROM raw UNPIVOT (v FOR n IN (a, b))",
        "SELECT * EXCEPT (b) FROM raw UNION ALL SELECT * EXCEPT (c) FROM raw",
    ],
)
def test_other_spark_sql_is_accepted(sql: str) -> None:
    assert read(sql).streams_read == ("raw",)


# Expressions of the configuration


@each_of(
    ("text", "columns"),
    [
        ("status = 'purged'", ("status",)),
        ("Status IN ('a', ';', '--') OR amount < 0", ("Status", "amount")),
        ("exists(tags, t -> t = status)", ("tags", "status")),
        ("payload.state = 1", ("payload",)),
        ("is_deleted", ("is_deleted",)),
        ("status LIKE ANY ('purged%', 'gone%')", ("status",)),
        ("1 = 1 AND status = 'x'", ("status",)),
        ('status = "purged"', ("status",)),
        ("rand() < 0.1", ()),
    ],
)
def test_an_expression_names_the_columns_that_it_reads(
    text: str, columns: tuple[str, ...]
) -> None:
    assert (
        read_expression(
            text, ["status", "amount", "tags", "payload", "is_deleted"], use="filter"
        )
        == columns
    )
    assert read_expression(text, None, use="test") == columns


@each_of(
    "text",
    [
        "",
        "  ",
        "statuss = 1",
        "status = 1; SELECT 2",
        "status = 1;",
        "status = 1 -- placed",
        "status, amount",
        "status AS s",
        "*",
        "1",
        "status = 1) OR (1",
        "max(amount) > 1",
        "row_number() OVER (ORDER BY amount) = 1",
        "status IN (SELECT 1)",
        "reflect('a') = 1",
        "status = 1 FROM x",
        "status = 1 WHERE amount",
        "status = ?",
        "'${env:HOME}' = status",
        "status = 'a",
        "DISTINCT status",
        "status = 1 LIMIT 3",
        "explode(tags)",
        "_lakesql_delete",
        "status = :x",
        "'purged'",
        "true",
        "1 = 1",
        "NOT (1 = 2)",
        "'a' <> 'b' OR 1 = 1",
        "current_date() > '2024-01-01'",
        "\"status\" = 'purged'",
        "\"status\" <> 'purged' AND amount > 0",
        "amount > 0 OR (amount < -1 AND \"status\" = 'x')",
        "status = '{{ var(\"x\") }}'",
        "status = {{ var('x') }}",
        "{% if true %}status = 1{% endif %}",
        "status = 'a' {# placed #}",
    ],
)
def test_anything_but_one_scalar_expression_is_refused(text: str) -> None:
    problem = read_expression(text, ["status", "amount", "tags"], use="value")
    assert isinstance(problem, Problem)
    assert problem.condition == "bad-expression"


@pytest.mark.parametrize("call", ["format_string('%s', {})", "printf('%s', {})"])
def test_a_format_writes_no_bytes(call: str) -> None:
    shapes = {"o": StreamShape(("id", "b"), None, ("bigint", "binary"))}

    def read(value: str) -> Query:
        sql = f"SELECT id, {call.format(value)} AS t FROM o"
        return read_query(sql, shapes, lambda offset: Place("m.sql", 1, offset + 1))

    for value in ("_record.key", "o._record.key", "b"):
        with pytest.raises(ProjectError) as raised:
            read(value)
        (problem,) = raised.value.problems
        assert problem.condition == "wrong-type"
        assert f"CAST({value} AS string)" in problem.fix
        read(f"string({value})")
