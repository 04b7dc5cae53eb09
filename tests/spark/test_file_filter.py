"""What is refused as a condition that Iceberg cannot look for files by, against Spark's
and Iceberg's own converter."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakesql.engine.maintenance.planned import plan_rewrite
from lakesql.model.table_name import TableName
from lakesql.select.file_filter import find_no_filter
from tests.spark.project import Lake

pytestmark = pytest.mark.long

REFUSED = (
    *(
        "upper(n) = 'A'",
        "a + 1 = 2",
        "-a = 1",
        "a % 2 = 0",
        "a * b > 3",
        "length(n) > 3",
        "n || 'x' = 'bx'",
    ),
    *(
        "n RLIKE 'a'",
        "n ILIKE 'a'",
        "n LIKE '%a'",
        "n LIKE 'a_'",
        "n LIKE 'a%b'",
        "a = b",
        "a < b",
        "n IN (n, m)",
    ),
    *(
        "lower(n) IN ('a', 'b')",
        "a > 1 AND upper(n) = 'A'",
        "NOT (substring(n, 1, 1) = 'a')",
        "abs(a) = 1",
    ),
    *(
        "trim(n) = 'a'",
        "concat(n, m) = 'ab'",
        "a + b BETWEEN 1 AND 2",
        "(a - 1) <=> 2",
        "left(n, 1) = 'a'",
        "'A' = upper(n)",
    ),
)

TAKEN = (
    *(
        "n = 'a'",
        "a <=> 1",
        "a > 1 AND NOT (n = 'b')",
        "n IN ('a', 'b')",
        "n IS NULL",
        "n IS NOT NULL OR a < 3",
    ),
    *(
        "n LIKE 'a%'",
        "n LIKE 'a'",
        "startswith(n, 'a')",
        "a BETWEEN 1 AND 3",
        "s.t = 1",
        "1 < a",
        "(a) = (1)",
    ),
    *(
        "{catalog}.system.bucket(4, a) = 1",
        "{catalog}.system.days(at) = DATE '2026-03-01'",
        "at > current_timestamp()",
    ),
    *(
        "at >= TIMESTAMP '2026-01-01 00:00:00'",
        "d = DATE '2026-01-01' + INTERVAL 1 DAY",
        "n = upper('a')",
        "a = 1 + 2",
    ),
)


@pytest.fixture
def table(lake: Lake) -> TableName:
    name = TableName(lake.catalog.profile.name, "filters", "t")
    lake.session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.catalog}.{name.namespace}")
    columns = "a bigint, b bigint, n string, m string, at timestamp, d date, s struct<t: bigint>"
    lake.session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg")
    return name


def takes(lake: Lake, table: TableName, condition: str) -> bool:
    try:
        plan_rewrite(lake.session, table, condition, {})
    except (Py4JJavaError, PySparkException):
        return False
    return True


def test_what_is_refused_iceberg_refuses(lake: Lake, table: TableName) -> None:
    assert [condition for condition in REFUSED if not find_no_filter(condition)] == []
    assert [condition for condition in REFUSED if takes(lake, table, condition)] == []


def test_what_iceberg_takes_is_taken(lake: Lake, table: TableName) -> None:
    conditions = [condition.format(catalog=table.catalog) for condition in TAKEN]
    assert [condition for condition in conditions if find_no_filter(condition)] == []
    assert [
        condition for condition in conditions if not takes(lake, table, condition)
    ] == []
