"""What is translated to DuckDB gives what Spark gives, under ANSI rules in UTC; all
else needs Spark."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from lakesql.unit.allow_list import ALLOWED, NAMED
from lakesql.unit.duck_names import DuckTable
from lakesql.unit.duck_query import translate_query
from lakesql.unit.duck_types import GUARD, VOID, NeedsSparkError, duck_type
from lakesql.unit.fixture_values import sql_literal
from tests.cases import each_of
from tests.selects import TABLES as SHOP_TABLES
from tests.selects import answered
from tests.unit.duck import SHOP, Duck

TYPES = {
    "i": "int",
    "b": "bigint",
    "d": "double",
    "m": "decimal(12,2)",
    "s": "string",
    "t": "timestamp",
    "day": "date",
    "yes": "boolean",
    "place": "struct<city:string,zip:int>",
}
ROW = {
    "i": 7,
    "b": 5_000_000_000,
    "d": 2.5,
    "m": Decimal("12.50"),
    "s": " Ada ",
    "t": datetime(2026, 3, 5, 23, 59, 59, 500_000),
    "day": date(2026, 3, 5),
    "yes": True,
    "place": {"city": "Delft", "zip": 2611},
}
DUCKDB = duckdb.connect(config={"threads": 1})
NOW = datetime(2026, 3, 5, 12)


def evaluate(text: str, **row: object) -> tuple[object, str]:
    """The value of an expression over the row, and its type."""
    made = translate_query(
        f"SELECT {text} AS x FROM r", {("r",): DuckTable("r", TYPES)}, NOW
    )
    given = {**ROW, **row}
    columns = ", ".join(
        f'{sql_literal(given[name], kind)} AS "{name}"' for name, kind in TYPES.items()
    )
    found = DUCKDB.execute(
        f'WITH "r" AS (SELECT {columns}) SELECT x, typeof(x) FROM ({made.text})'
    ).fetchone()
    assert found is not None
    kind = made.columns["x"]
    if kind != VOID and not kind.startswith("struct"):
        assert found[1] == duck_type(kind), (
            "DuckDB has another type than it was said to have"
        )
    return found[0], kind


@each_of(
    ("text", "value", "kind"),
    [
        # numbers
        ("i + 1", 8, "int"),
        ("i + b", 5_000_000_007, "bigint"),
        ("i * 2 - 1", 13, "int"),
        ("i / 2", 3.5, "double"),
        ("b / 4", 1_250_000_000.0, "double"),
        ("i % 4", 3, "int"),
        ("-i % 4", -3, "int"),
        ("d * 2", 5.0, "double"),
        ("d + i", 9.5, "double"),
        ("abs(-i)", 7, "int"),
        ("2147483647", 2147483647, "int"),
        ("3000000000", 3_000_000_000, "bigint"),
        ("7L", 7, "bigint"),
        # decimals: the digits are those of Spark's DecimalPrecision
        ("1.50", Decimal("1.50"), "decimal(3,2)"),
        ("0.05", Decimal("0.05"), "decimal(2,2)"),
        ("m + 1", Decimal("13.50"), "decimal(13,2)"),
        ("m + i", Decimal("19.50"), "decimal(13,2)"),
        ("m + b", Decimal("5000000012.50"), "decimal(23,2)"),
        ("m * 2", Decimal("25.00"), "decimal(14,2)"),
        ("m * 1.5", Decimal("18.750"), "decimal(15,3)"),
        ("m - m", Decimal("0.00"), "decimal(13,2)"),
        ("m * m", Decimal("156.2500"), "decimal(25,4)"),
        # conditions
        ("m >= 12", True, "boolean"),
        ("m = 12.5", True, "boolean"),
        ("m > 100000000000000", False, "boolean"),
        ("i = b", False, "boolean"),
        ("i < d", False, "boolean"),
        ("s = ' Ada '", True, "boolean"),
        ("s = 'Ada'", False, "boolean"),
        ("'a' < 'B'", False, "boolean"),
        ("NULL = 1", None, "boolean"),
        ("NULL <=> NULL", True, "boolean"),
        ("i <=> NULL", False, "boolean"),
        ("i IN (1, 7)", True, "boolean"),
        ("i IN (1, NULL)", None, "boolean"),
        ("i NOT IN (1, 2)", True, "boolean"),
        ("i BETWEEN 7 AND 9", True, "boolean"),
        ("NOT yes OR NULL", None, "boolean"),
        ("yes AND NULL", None, "boolean"),
        ("yes IS TRUE", True, "boolean"),
        ("i IS NOT NULL", True, "boolean"),
        ("i > 5 = yes", True, "boolean"),
        ("yes = (i > 9)", False, "boolean"),
        ("NOT yes = (i IN (7))", False, "boolean"),
        ("(i BETWEEN 0 AND 9) = yes", True, "boolean"),
        ("s LIKE '%d_ '", True, "boolean"),
        ("s LIKE 'ada'", False, "boolean"),
        ("t > '2026-03-05'", True, "boolean"),
        ("t = '2026-03-05 23:59:59.5'", True, "boolean"),
        ("day = '2026-03-05'", True, "boolean"),
        ("t > day", True, "boolean"),
        # choices
        ("CASE WHEN i > 5 THEN 'big' END", "big", "string"),
        (
            "CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' ELSE 'other' END",
            "seven",
            "string",
        ),
        ("if(yes, i, b)", 7, "bigint"),
        ("coalesce(NULL, m, 0)", Decimal("12.50"), "decimal(12,2)"),
        ("nvl(NULL, i)", 7, "int"),
        ("nullif(i, 7)", None, "int"),
        # texts
        ("lower(s)", " ada ", "string"),
        ("upper(trim(s))", "ADA", "string"),
        ("ltrim(s)", "Ada ", "string"),
        ("rtrim(s)", " Ada", "string"),
        ("length(s)", 5, "int"),
        ("concat(s, '!')", " Ada !", "string"),
        ("concat(s, NULL)", None, None),
        ("s || i", " Ada 7", "string"),
        ("i + 1 || s", "8 Ada ", "string"),
        ("s || (i + 1) || i * 2", " Ada 814", "string"),
        ("substring(s, 2, 3)", "Ada", "string"),
        ("substr(s, 3)", "da ", "string"),
        ("replace(s, 'd', 'nn')", " Anna ", "string"),
        ("startswith(s, ' A')", True, "boolean"),
        ("endswith(s, 'a ')", True, "boolean"),
        ("contains(s, 'x')", False, "boolean"),
        # times
        ("to_date(t)", date(2026, 3, 5), "date"),
        ("CAST(t AS DATE)", date(2026, 3, 5), "date"),
        ("year(t)", 2026, "int"),
        ("month(day)", 3, "int"),
        ("day(t)", 5, "int"),
        ("date_trunc('hour', t)", datetime(2026, 3, 5, 23), "timestamp"),
        ("date_trunc('WEEK', t)", datetime(2026, 3, 2), "timestamp"),
        ("t + INTERVAL 1 DAY", datetime(2026, 3, 6, 23, 59, 59, 500_000), "timestamp"),
        (
            "t + INTERVAL '1 days'",
            datetime(2026, 3, 6, 23, 59, 59, 500_000),
            "timestamp",
        ),
        (
            "t - INTERVAL '90' MINUTE",
            datetime(2026, 3, 5, 22, 29, 59, 500_000),
            "timestamp",
        ),
        ("current_timestamp()", datetime(2026, 3, 5, 12), "timestamp"),
        ("TIMESTAMP '2026-03-05 12:00:00'", datetime(2026, 3, 5, 12), "timestamp"),
        ("DATE '2026-03-05'", date(2026, 3, 5), "date"),
        # casts
        ("CAST(i AS bigint)", 7, "bigint"),
        ("CAST(i AS string)", "7", "string"),
        ("CAST(yes AS string)", "true", "string"),
        ("CAST(m AS decimal(20,4))", Decimal("12.5000"), "decimal(20,4)"),
        ("CAST(i AS decimal(12,2))", Decimal("7.00"), "decimal(12,2)"),
        ("CAST('1.5' AS decimal(10,2))", Decimal("1.50"), "decimal(10,2)"),
        ("CAST(NULL AS string)", None, "string"),
        ("i::bigint", 7, "bigint"),
        # structs
        ("place.city", "Delft", "string"),
        ("r.place.zip + 1", 2612, "int"),
    ],
)
def test_an_expression_means_what_it_means_to_spark(
    text: str, value: object, kind: str | None
) -> None:
    if kind is None:
        with pytest.raises(NeedsSparkError):
            evaluate(text)
        return
    found, type_of = evaluate(text)
    assert (found, type_of) == (value, kind)
    assert type(found) is type(value)


@each_of(
    "text",
    [
        "b + 9223372036854775807",  # overflows: an error in both
        "i * 2147483647",
        "CAST(b AS int)",
        "i / 0",
        "i / (i - 7)",
        "i % 0",
        "i div (i - 7)",
        "CAST(s AS int)",
        "CAST(concat('+', '7') AS int)",
        "bigint('' || i || '.5')",
        "date(concat('2026-02-3', 0))",
        "CAST(m AS decimal(3,2))",
        "floor(d * 10000000000000000L)",
        "array(i)[1]",
        "array(i)[-1]",
        "element_at(array(i), 0)",
        "map(s, 1, s, 2)",
        "lower('Ä')",
        "upper(concat(s, 'ß'))",
        "trim(concat(s, 'Ä'))",
        "length('ä')",
        "'ä' LIKE '_'",
    ],
)
def test_a_value_that_the_engines_treat_differently_raises(text: str) -> None:
    with pytest.raises(duckdb.Error):
        evaluate(text)


def test_a_guard_says_what_it_has_met() -> None:
    with pytest.raises(duckdb.Error, match=GUARD):
        evaluate("lower('Ä')")


@each_of(
    "text",
    [
        "m / 2",
        "m % 2",
        "1e3",
        "-2147483648",
        "m * 0.0000000000000000000000000000001",
        "d = m",
        "d + m",
        "i = '7'",
        "s = 7",
        "s + 1",
        "i IN (1, '7')",
        "t = 'yesterday'",
        "t > '2026-3-5'",
        "t > '2026-03-05 12:00:00+01:00'",
        "t > '2026-02-30'",
        "day + 1",
        "day + INTERVAL 1 DAY",
        "t + INTERVAL 1 MONTH",
        "t - t",
        "date_trunc('decade', t)",
        "date_trunc('month', day)",
        *(
            f"date_trunc('{unit}', t)"
            for unit in ("H", "D", "M", "W", "Y", "Q", "S", "MON", "dd", "H' 'our")
        ),
        "date_trunc(hour, t)",
        'date_trunc("H", t)',
        "`date_trunc`('H', t)",
        *(
            f"t + INTERVAL {amount}"
            for amount in (
                "5 H",
                "'5' M",
                "'5 D'",
                "'5H'",
                "5 S",
                "'5hour'",
                "'5 hour' H",
            )
        ),
        "CAST('7' AS int)",
        "CAST('1.555' AS decimal(10,2))",
        "CAST(m AS int)",
        "CAST(d AS string)",
        "CAST(d AS int)",
        "CAST(t AS string)",
        "CAST(t AS bigint)",
        "CAST(i AS timestamp)",
        "CAST(i AS tinyint)",
        "try_cast(i AS bigint)",
        "substring(s, 0, 2)",
        "substring(s, -2, 2)",
        "substring(s, i)",
        "substring(i, 1)",
        "substring(s FROM b)",
        "replace(s, '', 'x')",
        "replace(s, 'x')",
        "concat(d, s)",
        "concat(t, s)",
        "s LIKE 'a!_' ESCAPE '!'",
        "s LIKE concat('a', '%')",
        "s RLIKE 'a'",
        "regexp_extract(s, 'a', 0)",
        "regexp_replace(s, 'a', 'b')",
        "split(s, ',')",
        "round(d)",
        "round(m, 1)",
        "ceil(m)",
        "hash(s)",
        "date_format(t, 'yyyy')",
        "from_json(s, 'a int')",
        "unix_timestamp()",
        "rand()",
        "uuid()",
        "place = place",
        "place.street",
        "nowhere",
        "r.nowhere",
        "if(i, 1, 2)",
        "NOT i",
        "i AND yes",
        "CASE WHEN yes THEN 1 ELSE 'x' END",
        "CASE WHEN yes THEN d ELSE m END",
        "coalesce(s, 1)",
        "'a\u0000b'",
        "yes = 'true'",
        "i & 1 | 2",
        "floor(m)",
        "ceil(d, 1)",
        "round(i)",
        "concat_ws(s, s)",
        "s NOT RLIKE 'a'",
        "sum(d)",
        "avg(d)",
        "avg(m)",
        "min(d)",
        "first(s)",
        "any_value(s)",
        "max_by(s, i)",
        "collect_list(i)",
        "max(place)",
        "count(DISTINCT d)",
        "array()",
        "array(NULL)",
        "array(1, 'x')",
        "map(d, 1)",
        "struct(NULL)",
        "lag(i, i) OVER (ORDER BY b)",
        "first_value(i) OVER (ORDER BY b)",
        "sum(i) OVER (ORDER BY d)",
        "sum(i) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "timestampdiff(MONTH, t, t)",
        "date_add(t, b)",
        "dateadd(MICROSECOND, 1, t)",
        "trunc(day, 'decade')",
        "trunc(t, 'MM')",
        "next_day(day, 'MON')",
        "last_day(t)",
        "extract(SECOND FROM t)",
        "extract(HOUR FROM day)",
        "hour(day)",
        "sequence(day, day)",
        "current_user()",
        "get_json_object(s, '$.a')",
        "split_part(s, ',', 1)",
        "initcap(s)",
        "lpad(s, 3, 'x')",
        "try_add(i, 1)",
        "try_divide(i, 1)",
        "1 / 2.5",
        "pow(d, 2)",
        "exp(d)",
        "translate(s, 'a', 'b')",
        "array_distinct(array(1))",
        "slice(array(1), 1, 1)",
        "array_join(array(s, NULL), ',', '-')",
        "aggregate(array(i), 0L, (a, x) -> a + x)",
        "zip_with(array(1), array(2), (x, y) -> x + y)",
        "(i, b) IN (SELECT 1, 2L)",
        # the parser binds operators otherwise than Spark, for which || is on the level
        # of + and all comparisons on one
        "s || i + 1",
        "s || i - 1 || s",
        "yes = i > 1",
        "yes <> i < 3",
        "yes = i BETWEEN 0 AND 9",
        "yes = i NOT BETWEEN 0 AND 9",
        "yes = i IN (7)",
        "yes = i NOT IN (7)",
        "yes = s LIKE '1%'",
        "yes = s NOT LIKE '1%'",
        "NOT yes = i > 3",
        "i BETWEEN 0 AND 9 = yes",
        "i NOT BETWEEN 0 AND 9 = yes",
        "s LIKE 'a' = yes",
        "i IN (7) = yes",
    ],
)
def test_what_is_not_known_to_mean_the_same_needs_spark(text: str) -> None:
    with pytest.raises(NeedsSparkError):
        evaluate(text)


def test_each_rule_has_expressions_over_which_spark_is_asked() -> None:
    """What is allowed is what `tests/spark/test_unit_tests.py` proves: none of it is
    without an expression there."""
    used, named = set[type[exp.Expr]](), set[str]()
    for text in (
        *(f"SELECT id, {text} AS value FROM r" for text in answered.EXPRESSIONS),
        *answered.QUERIES,
    ):
        tree = sqlglot.parse_one(text, dialect="spark")
        used |= {type(node) for node in tree.walk()}
        named |= {node.name.lower() for node in tree.find_all(exp.Anonymous)}
    assert ALLOWED.keys() - used - HELD_HERE == set()
    assert NAMED.keys() - named - {"now"} == set()


HELD_HERE = {exp.CurrentTimestamp, exp.CurrentDate}
"""The time, which a test sets."""


@pytest.mark.checks
def test_duckdb_answers_most_of_the_projects_own_selects() -> None:
    types = {"id": "int", **answered.TYPES}
    with Duck.open() as duck:
        for name, columns in SHOP_TABLES.items():
            duck.load(name, answered.arrow_table([], columns), columns)
        duck.load("r", answered.arrow_table([], types), types)
        counts = {"the project's own": 0, "over `r`": 0}
        for kind, texts in (
            ("the project's own", SHOP),
            ("over `r`", answered.QUERIES),
        ):
            for text in texts:
                try:
                    duck.rows(text)
                except NeedsSparkError as error:
                    assert str(error), "it says why"
                except duckdb.Error:
                    continue
                else:
                    counts[kind] += 1
    assert counts == {"the project's own": 147, "over `r`": len(answered.QUERIES)}
    assert len(SHOP) == 242


TABLES = {
    ("orders",): DuckTable("lakesql_stream_orders", {"id": "int", "s": "string"}),
    ("lake", "shop", "customers"): DuckTable(
        "lakesql_ref_customers", {"id": "int", "name": "string"}
    ),
}


@each_of(
    ("sql", "columns"),
    [
        ("SELECT * FROM orders", {"id": "int", "s": "string"}),
        (
            "SELECT * FROM (SELECT ID AS Id, s FROM orders) WHERE iD > 1",
            {"Id": "int", "s": "string"},
        ),
        (
            "SELECT o.*, c.name FROM orders o JOIN lake.shop.customers c ON o.id = c.id",
            None,
        ),
        (
            "WITH x AS (SELECT id + 1 AS id FROM orders) SELECT id FROM x WHERE id > 1",
            {"id": "int"},
        ),
        ("WITH orders AS (SELECT id FROM orders) SELECT * FROM orders", {"id": "int"}),
        ("SELECT a.id FROM (SELECT id FROM orders) AS a", {"id": "int"}),
        (
            "SELECT id FROM orders UNION ALL SELECT id FROM lake.shop.customers",
            {"id": "int"},
        ),
    ],
)
def test_a_query_that_both_know_runs(sql: str, columns: dict[str, str] | None) -> None:
    made = translate_query(sql, TABLES, None)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE lakesql_stream_orders (id INTEGER, s VARCHAR)")
        connection.execute(
            "CREATE TABLE lakesql_ref_customers (id INTEGER, name VARCHAR)"
        )
        connection.execute(made.text)
    assert dict(made.columns) == (
        columns or {"id": "int", "s": "string", "name": "string"}
    )


@each_of(
    "sql",
    [
        "SELECT id FROM orders LIMIT 1",
        "SELECT id FROM orders ORDER BY id LIMIT 1",
        "SELECT id FROM orders ORDER BY id + 1",
        "SELECT id FROM orders QUALIFY row_number() OVER (ORDER BY id) = 1",
        "SELECT id FROM orders UNION ALL SELECT s FROM orders",
        "SELECT id FROM orders TABLESAMPLE (10 PERCENT)",
        "SELECT id, x FROM orders LATERAL VIEW OUTER explode(array(1)) y AS x",
        "SELECT id, explode(array(1)) AS x FROM orders",
        "SELECT id FROM elsewhere",
        "SELECT id, ID FROM orders",
        "SELECT id + 1 FROM orders",
        "SELECT 'a\\n' AS a FROM orders",
        "SELECT id FROM orders o JOIN lake.shop.customers c ON o.id = c.id",
        "SELECT o.id FROM orders o JOIN orders o ON true",
        "WITH RECURSIVE x AS (SELECT id FROM orders) SELECT id FROM x",
        "SELECT id FROM orders VERSION AS OF 1",
        "SELECT * FROM orders PIVOT (max(s) FOR id IN (1, 2))",
        "SELECT count(*) AS id FROM orders HAVING id > 1",
        "SELECT id, count(*) AS n FROM orders GROUP BY id, ROLLUP (s)",
        "SELECT array(id) AS a, count(*) AS n FROM orders GROUP BY array(id)",
        "SELECT id FROM orders WHERE (id, s) IN (SELECT id, s FROM orders)",
        "SELECT id FROM orders WHERE id IN (SELECT s FROM orders)",
        "SELECT (SELECT id, s FROM orders) AS x FROM orders",
        "SELECT id AS x FROM orders WHERE x > 1",
    ],
)
def test_a_query_beyond_that_needs_spark(sql: str) -> None:
    with pytest.raises(NeedsSparkError):
        translate_query(sql, TABLES, None)
