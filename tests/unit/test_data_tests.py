from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DecimalType, TimestamptzType

from lakesql.catalog.connect import open_catalog
from lakesql.cli.main import run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.cli.selection import select_tests
from lakesql.errors import Problem, ProfileError, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.model.data_tests import Threshold, read_tests
from lakesql.plan.data_test_results import TestResult
from lakesql.project.yaml import parse_yaml
from lakesql.run.build import plan_build
from lakesql.run.test.run_data_tests import TestRun, run_data_tests
from lakesql.select.query import parse_query
from lakesql.select.sqltext import findings_by_offset, read_text
from lakesql.unit.data_test_query import check_can_fail
from tests.cases import each_of
from tests.share import a_few

Row = dict[str, Any]

COLUMNS = "{id: bigint, customer_id: bigint, amount: 'decimal(10,2)', status: string, at: timestamp}"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer_id", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("status", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
NOW = datetime(2026, 3, 1, 12)
ORDERS = "SELECT id, customer_id, amount, status, at FROM {{ stream('orders') }}"


class Shop:
    """A project with two models, whose tables are written by pyiceberg alone."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.write("pyproject.toml", '[tool.lakesql]\nname = "p"\n')
        uri, warehouse = (
            f"sqlite:///{directory}/catalog.db",
            str(directory / "warehouse"),
        )
        catalog = {"name": "lake", "type": "sql", "uri": uri, "warehouse": warehouse}
        target = {
            "catalog": catalog,
            "namespace": "shop",
            "connections": {"broker": {"type": "recorded", "path": "r"}},
        }
        self.write(
            "profiles.yml",
            json.dumps({"p": {"target": "dev", "outputs": {"dev": target}}}),
        )
        self.write(
            "streams/s.yml",
            f"streams: [{{name: orders, connection: broker, topic: o, columns: {COLUMNS}}}]\n",
        )
        self.write("models/orders.sql", f"{{{{ config(mode='append') }}}}\n{ORDERS}\n")
        self.write(
            "models/customers.sql",
            f"{{{{ config(mode='upsert', keys='id') }}}}\n{ORDERS}\n",
        )
        self.iceberg = SqlCatalog("lake", uri=uri, warehouse=warehouse)
        self.iceberg.create_namespace("shop")

    def write(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tests(self, of_orders: str = "", of_columns: str = "") -> None:
        """The tests of orders and of its columns, in YAML's flow style."""
        self.write(
            "models/m.yml",
            f"models: [{{name: orders, tests: [{of_orders}], columns: [{of_columns}]}}]\n",
        )

    def append(
        self, table: str, rows: Sequence[Row], schema: pa.Schema = SCHEMA
    ) -> None:
        found = self.iceberg.create_table_if_not_exists(("shop", table), schema=schema)
        found.append(
            pa.Table.from_pylist(
                [{**dict.fromkeys(schema.names), **row} for row in rows], schema
            )
        )

    def rows_of(self, table: str) -> list[Row]:
        return self.iceberg.load_table(("shop", table)).scan().to_arrow().to_pylist()

    def manifest(self) -> Manifest:
        return load_project(Options(project_dir=self.directory))

    def run(self, *, full: bool = False, now: datetime = NOW) -> dict[str, TestResult]:
        """The results of all tests by their names, where Spark is not to be had."""

        def no_spark() -> Any:
            raise ProfileError.of("java-missing", "There is none.")

        manifest = self.manifest()
        catalog = open_catalog(manifest.target.catalog)
        run = TestRun(manifest, catalog, no_spark, full=full, clock=lambda: now)
        return {
            result.test.name: result
            for result in run_data_tests(run, manifest.data_tests)
        }

    def command(self, *words: str) -> int:
        return run_command([*words, "--project-dir", str(self.directory)])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def read(of: dict[str, TestResult], name: str) -> list[tuple[str, int, int | None]]:
    return [(each.model, each.rows, each.snapshots) for each in of[name].reads]


# --- what files say


@each_of(
    ("text", "condition", "place"),
    [
        ("[not_nul]", "unknown-test", "1:2"),
        ("[3]", "wrong-type", "1:2"),
        ("not_null", "wrong-type", "1:1"),
        ("[{not_null: {}, unique: {}}]", "wrong-type", "1:2"),
        ("[dbt_utils.expression_is_true]", "unknown-test", "1:2"),
        ("[accepted_values]", "missing-option", "1:2"),
        ("[{accepted_values: {values: []}}]", "wrong-value", "1:29"),
        ("[{accepted_values: {values: [[a]]}}]", "wrong-type", "1:30"),
        (
            "[{accepted_values: {values: [a, '{{ var(\"x\") }}']}}]",
            "wrong-value",
            "1:33",
        ),
        ("[{accepted_values: {value: [a]}}]", "unknown-option", "1:21"),
        ("[{relationships: {to: ref(customers), field: id}}]", "wrong-value", "1:23"),
        ("[{row_count: {}}]", "missing-option", "1:3"),
        ("[{row_count: {min: -1}}]", "wrong-value", "1:20"),
        ("[{freshness: {column: at, within: soon}}]", "bad-interval", "1:35"),
        ("[{expression: }]", "missing-option", "1:3"),
        ("[{unique: {severity: fatal}}]", "wrong-value", "1:22"),
        ("[{unique: {config: {warn_if: many}}}]", "wrong-value", "1:30"),
        ("[{unique: {where: 3}}]", "wrong-type", "1:19"),
        ("[{unique: {limit: 0}}]", "wrong-value", "1:19"),
        ("[{unique: {limit: 1, error_if: '>1'}}]", "wrong-value", "1:32"),
        (
            "[{unique: {limit: 9, error_if: '>=10', warn_if: '>1'}}]",
            "wrong-value",
            "1:32",
        ),
        (
            "[{unique: {limit: 9, severity: warn, warn_if: '= 10'}}]",
            "wrong-value",
            "1:47",
        ),
        ("[{unique: {config: {limit: 9, warn_if: '== 10'}}}]", "wrong-value", "1:40"),
        ("[{unique: {name: a b}}]", "bad-name", "1:18"),
    ],
)
def test_each_mistake_in_an_entry_has_a_condition_and_a_place(
    text: str, condition: str, place: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        read_tests(parse_yaml("p.yml", text))
    assert (condition, f"p.yml:{place}") in [
        (it.condition, str(it.place)) for it in caught.value.problems
    ]


def test_options_stand_beside_the_word_below_it_or_in_config() -> None:
    for text in (
        "{unique: {severity: warn, where: a > 1, error_if: '>10'}}",
        "{unique: {}, severity: warn, where: a > 1, error_if: '> 10'}",
        "{unique: {config: {severity: warn, where: a > 1, error_if: '>10'}}}",
    ):
        (entry,) = read_tests(parse_yaml("p.yml", f"[{text}]"))
        assert entry.given.where is not None
        assert (entry.options.severity, entry.given.where.value) == ("warn", "a > 1")
        assert entry.options.error_if == Threshold(">", 10)


@pytest.mark.parametrize(
    "options",
    [
        "error_if: between 3 and 1",
        "error_if: between 1",
        "limit: 3, error_if: between 1 and 3",
    ],
)
def test_a_range_of_failing_rows_that_cannot_be_told_is_refused(options: str) -> None:
    with pytest.raises(ProjectError) as caught:
        read_tests(parse_yaml("p.yml", f"[{{unique: {{{options}}}}}]"))
    assert [problem.condition for problem in caught.value.problems] == ["wrong-value"]


@pytest.mark.parametrize(
    ("orders", "columns", "condition", "at"),
    a_few(
        [
            ("unique", "", "wrong-value", "unique"),
            (
                "{row_count: {min: 1}}, {row_count: {max: 1}}",
                "",
                "duplicate-name",
                "row_count: {max",
            ),
            ("{freshness: {within: 1 hour}}", "", "missing-option", "freshness"),
            ("expression: nothing > 1", "", "bad-expression", "nothing > 1"),
            ("expression: count(*) > 1", "", "bad-expression", "count(*)"),
            ("", "{name: nothing, tests: [unique]}", "unknown-column", "unique"),
            (
                "",
                "{name: id, tests: [{unique: {where: nothing > 1}}]}",
                "bad-expression",
                "nothing > 1",
            ),
            (
                "",
                "{name: id, tests: [accepted_values: {values: [1, a]}]}",
                "wrong-value",
                "a]",
            ),
            (
                "",
                "{name: status, tests: [accepted_values: {values: [1]}]}",
                "wrong-value",
                "1]",
            ),
            (
                "",
                "{name: at, tests: [accepted_values: {values: ['2026-13-01']}]}",
                "wrong-value",
                "'2026",
            ),
            (
                "",
                "{name: amount, tests: [accepted_values: {values: [1.005]}]}",
                "wrong-value",
                "1.005",
            ),
            (
                "",
                "{name: id, tests: [relationships: {to: nobody, field: id}]}",
                "unknown-ref",
                "relationships",
            ),
            (
                "",
                "{name: id, tests: [relationships: {to: orders, field: nope}]}",
                "unknown-column",
                "relationships",
            ),
            (
                "",
                "{name: id, tests: [relationships: {to: orders, field: at}]}",
                "wrong-value",
                "relationships",
            ),
            (
                "",
                "{name: id, tests: [relationships: {to: orders, field: ID}]}",
                "wrong-value",
                "relationships",
            ),
            ("{row_count: {min: 0}}", "", "missing-option", "row_count"),
            ("{row_count: {min: 2, max: 1}}", "", "wrong-value", "row_count"),
            ("{row_count: {min: 1, error_if: '< 0'}}", "", "wrong-value", "'< 0'"),
            (
                "",
                "{name: status, tests: [freshness: {within: 1 hour}]}",
                "wrong-value",
                "freshness",
            ),
            (
                "",
                "{name: id, tests: [row_count: {min: 1}]}",
                "wrong-value",
                "row_count",
            ),
            (
                "",
                "{name: id, tests: [not_null: {where: id > 0}]}",
                "bad-expression",
                "id > 0",
            ),
            (
                "",
                "{name: status, tests: [accepted_values: {values: [paid, open], where: status = 'open'}]}",
                "bad-expression",
                "status = 'open'",
            ),
            (
                "",
                "{name: id, tests: [unique: {where: id IS NULL}]}",
                "bad-expression",
                "id IS NULL",
            ),
            (
                "expression: {expression: id > 0, where: id > 1}",
                "",
                "bad-expression",
                "id > 1",
            ),
        ],
        6,
    ),
)
def test_tests_that_do_not_fit_their_model_are_refused(
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    orders: str,
    columns: str,
    condition: str,
    at: str,
) -> None:
    shop.tests(orders, columns)
    assert shop.command("parse", "--log-format", "json") == 2
    problems = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = (shop.directory / "models/m.yml").read_text().splitlines()
    found = [
        (
            it["condition"],
            it["place"]["path"],
            line[it["place"]["column"] - 1 :][: len(at)],
        )
        for it in problems
    ]
    assert found == [(condition, "models/m.yml", at)]
    assert all(problem["what"] for problem in problems)


@pytest.mark.parametrize(
    ("text", "condition", "line"),
    a_few(
        [
            ("SELECT 1 AS one", "no-ref", 1),
            ("SELECT *\nFROM {{ ref('order') }}", "unknown-ref", 2),
            ("SELECT *\nFROM {{ stream('orders') }}", "test-template", 2),
            ("SELECT * FROM {{ this }}, {{ ref('orders') }}", "test-template", 1),
            (
                "{{ config(mode='append') }}\nSELECT * FROM {{ ref('orders') }}",
                "unknown-option",
                1,
            ),
            ("SELECT * FROM {{ ref('orders') }}, lake.shop.other", "unknown-table", 1),
            ("DROP TABLE {{ ref('orders') }}", "not-a-select", 1),
            ("SELECT * FROM {{ ref('orders') }};\nDROP TABLE x", "many-statements", 1),
            ("SELECT *\nFROM {{ ref('orders') }} WHERE (id", "sql-syntax", 2),
        ],
        3,
    ),
)
def test_files_that_are_no_tests_are_refused(
    shop: Shop, capsys: pytest.CaptureFixture[str], text: str, condition: str, line: int
) -> None:
    shop.write("tests/deep/wrong.sql", text)
    assert shop.command("parse", "--log-format", "json") == 2
    problems = [json.loads(said) for said in capsys.readouterr().err.splitlines()]
    assert (condition, "tests/deep/wrong.sql", line) in [
        (it["condition"], it["place"]["path"], it["place"]["line"]) for it in problems
    ]


def test_a_file_and_an_entry_of_one_name_are_refused(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.tests("{expression: {expression: id > 0, name: positive}}")
    shop.write("tests/Positive.sql", "SELECT * FROM {{ ref('orders') }} WHERE id <= 0")
    assert shop.command("parse") == 2
    assert "error[duplicate-name] tests/Positive.sql:1:1" in capsys.readouterr().err


# --- what is answered


def test_failures_are_those_that_plain_python_finds(shop: Shop) -> None:
    random.seed(7)
    words = ["placed", "paid", "gone", "Paid", "", None]

    def made(number: int) -> Row:
        return {
            "id": random.choice([None, *range(number // 2)]),
            "customer_id": random.choice([None, *range(20)]),
            "amount": random.choice(
                [None, Decimal("-1.50"), Decimal("0.00"), Decimal("12.34")]
            ),
            "status": random.choice(words),
            "at": datetime(2026, 2, 28, tzinfo=UTC) + timedelta(minutes=number),
        }

    orders, customers = (
        [made(number) for number in range(1, 300)],
        [{"id": number} for number in range(0, 20, 2)],
    )
    for start in range(0, 299, 100):
        shop.append("orders", orders[start : start + 100])
    shop.append("customers", customers)
    shop.iceberg.load_table(("shop", "orders")).delete("customer_id = 7")
    orders = [row for row in orders if row["customer_id"] != 7]
    shop.tests(
        "{expression: amount >= 0}, {row_count: {min: 300}}, {freshness: {column: at, within: 8 hours}}",
        "{name: id, tests: [not_null, unique, {unique: {name: u, where: status = 'paid'}}]},"
        "{name: status, tests: [{accepted_values: {values: [placed, paid]}}]},"
        "{name: amount, tests: [{accepted_values: {values: [0, 12.34]}}]},"
        "{name: customer_id, tests: [{relationships: {to: ref('customers'), field: id, where: amount > 1}}]}",
    )
    shop.write(
        "tests/paid.sql",
        "SELECT o.id FROM {{ ref('orders') }} o WHERE status LIKE 'p%' AND amount IS NULL",
    )
    found = shop.run()
    assert {result.engine for result in found.values()} == {"duckdb"}, [
        (it.test.name, it.why_spark) for it in found.values()
    ]
    ids = Counter(row["id"] for row in orders if row["id"] is not None)
    paid = Counter(
        row["id"] for row in orders if row["id"] is not None and row["status"] == "paid"
    )
    assert {name: result.failures for name, result in found.items()} == {
        "expression_orders": sum(
            row["amount"] is not None and row["amount"] < 0 for row in orders
        ),
        "row_count_orders": 1,
        "freshness_orders": int(
            max(row["at"] for row in orders)
            < NOW.replace(tzinfo=UTC) - timedelta(hours=8)
        ),
        "not_null_orders_id": sum(row["id"] is None for row in orders),
        "unique_orders_id": sum(times > 1 for times in ids.values()),
        "u": sum(times > 1 for times in paid.values()),
        "accepted_values_orders_status": sum(
            row["status"] not in ("placed", "paid", None) for row in orders
        ),
        "accepted_values_orders_amount": sum(
            row["amount"] == Decimal("-1.50") for row in orders
        ),
        "relationships_orders_customer_id_customers": sum(
            (row["customer_id"] or 0) % 2 == 1
            and row["amount"] is not None
            and row["amount"] > 1
            for row in orders
        ),
        "paid": sum(
            (row["status"] or "").startswith("p") and row["amount"] is None
            for row in orders
        ),
    }
    assert found["not_null_orders_id"].reads[0].rows == len(orders)
    assert found["freshness_orders"].status == "fail"
    assert shop.run(now=NOW - timedelta(days=1))["freshness_orders"].status == "pass"


@each_of(
    ("select", "offset"),
    [
        ("SELECT id FROM orders WHERE status = NULL", "status = NULL"),
        ("SELECT id FROM orders WHERE amount > 1 AND status <> NULL", "amount"),
        ("SELECT id FROM orders WHERE status NOT IN ('a', NULL)", "status NOT"),
        ("SELECT id FROM orders GROUP BY id HAVING max(status) = NULL", "max"),
        (
            "WITH bad AS (SELECT id FROM orders WHERE id <> NULL) SELECT id FROM bad",
            "id <>",
        ),
        ("SELECT id FROM orders WHERE id > 1 AND id < 1", "id > 1"),
        ("SELECT o.id FROM orders o JOIN orders p ON o.id = NULL", "id = NULL"),
        ("SELECT o.id FROM orders o LEFT JOIN orders p ON p.id <> p.id", "id <> p.id"),
        ("SELECT id FROM orders LIMIT 0", "0"),
        (
            "SELECT id FROM orders EXCEPT SELECT id FROM  orders",
            "id FROM  orders",
        ),
        ("SELECT id FROM orders WHERE \"status\" = 'x'", '"status"'),
        ("SELECT id FROM orders WHERE id > 1 AND NOT (\"status\" = 'x')", '"status"'),
    ],
)
def test_a_select_that_finds_no_row_whatever_the_tables_have_is_refused(
    select: str, offset: str
) -> None:
    caught = refused_select(select)
    found = [(it.condition, it.place.column if it.place else 0) for it in caught]
    assert found == [("bad-expression", select.index(offset) + 1)]


@each_of(
    "select",
    [
        'SELECT id FROM orders WHERE 1 = 1 AND status = "x" AND status IN ("x", "y")',
        "SELECT id FROM orders WHERE status <> 'x' OR status IS NULL",
        "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id + 1)",
        "SELECT status FROM orders GROUP BY status HAVING count(*) > 1",
        "SELECT id FROM orders WHERE true",
        "SELECT o.id FROM orders o JOIN orders p ON true",
        "SELECT id FROM orders EXCEPT SELECT customer_id FROM orders",
        "SELECT id FROM orders LIMIT 1",
    ],
)
def test_a_select_that_may_find_a_row_is_not(select: str) -> None:
    assert refused_select(select) == []


def refused_select(select: str) -> list[Problem]:
    """What is wrong with the WHERE and HAVING of a test's SELECT."""
    findings = findings_by_offset()
    read = read_text(select, findings)
    check_can_fail(parse_query(read, select, findings), select, findings)
    return findings.problems


def test_a_time_of_the_future_makes_no_table_fresh(shop: Shop) -> None:
    shop.append(
        "orders",
        [
            {"id": 1, "at": NOW - timedelta(days=2)},
            {"id": 2, "at": NOW + timedelta(days=400)},
        ],
    )
    shop.tests(
        "{freshness: {column: at, within: 1 hour}}, {freshness: {name: days, column: at, within: 3 days}}"
    )
    found = shop.run()
    assert {name: (it.status, it.rows) for name, it in found.items()} == {
        "freshness_orders": ("fail", ((NOW - timedelta(days=2),),)),
        "days": ("pass", ()),
    }
    assert shop.run(now=NOW - timedelta(days=3))["days"].status == "fail"


def test_what_duckdb_does_not_know_is_asked_of_spark_and_never_passes_without(
    shop: Shop,
) -> None:
    shop.append("orders", [{"id": 1, "status": "a"}])
    shop.tests("{expression: \"status RLIKE 'a'\"}")
    shop.write(
        "tests/grouped.sql",
        "SELECT id FROM {{ ref('orders') }} GROUP BY id HAVING count(*) > 1",
    )
    shop.write("tests/first.sql", "SELECT first(id) AS id FROM {{ ref('orders') }}")
    found = shop.run()
    assert {name: (it.status, it.engine) for name, it in found.items()} == {
        "expression_orders": ("error", ""),
        "first": ("error", ""),
        "grouped": ("pass", "duckdb"),
    }
    unanswered = [it for it in found.values() if it.status == "error"]
    assert all(
        it.why_spark and it.problems[0].condition == "java-missing" for it in unanswered
    )


def test_a_function_of_texts_is_asked_of_spark_only_where_values_need_it(
    shop: Shop,
) -> None:
    shop.append("orders", [{"id": 1, "status": "plain"}])
    shop.tests("{expression: lower(status) = status}")
    assert shop.run()["expression_orders"].status == "pass"
    shop.append("orders", [{"id": 2, "status": "Straße"}])
    assert "beyond ASCII" in shop.run()["expression_orders"].why_spark


def test_a_table_that_is_not_there_and_one_that_lacks_a_column_fail_their_tests_alone(
    shop: Shop,
) -> None:
    shop.tests("", "{name: id, tests: [not_null]}, {name: status, tests: [not_null]}")
    missing = shop.run()["not_null_orders_id"]
    assert (missing.status, missing.problems[0].condition) == ("error", "table-missing")
    shop.iceberg.create_table(
        ("shop", "orders"), schema=pa.schema([("id", pa.int64())])
    )
    found = shop.run()
    assert found["not_null_orders_id"].status == "pass"
    assert (
        found["not_null_orders_status"].status,
        found["not_null_orders_status"].problems[0].condition,
    ) == (
        "error",
        "unknown-column",
    )


def test_columns_that_duckdb_does_not_hold_are_read_only_where_a_test_names_them(
    shop: Shop,
) -> None:
    kinds = {
        "tags": pa.list_(pa.string()),
        "device": pa.struct([("os", pa.string())]),
        "id": pa.int64(),
    }
    table = shop.iceberg.create_table(("shop", "orders"), schema=pa.schema(kinds))
    table.append(
        pa.table(
            {"tags": [["a"]], "device": [{"os": "b"}], "id": [None]}, pa.schema(kinds)
        )
    )
    shop.write(
        "models/orders.sql",
        "{{ config(mode='append') }}\nSELECT * FROM {{ stream('orders') }}\n",
    )
    shop.write(
        "streams/s.yml",
        "streams: [{name: orders, connection: broker, topic: o, columns: {tags: array<string>, "
        "device: struct<os:string>, id: bigint}}]\n",
    )
    shop.write(
        "models/customers.sql",
        "{{ config(mode='append') }}\nSELECT id FROM {{ stream('orders') }}\n",
    )
    shop.tests(
        "{row_count: {min: 2}}",
        "{name: id, tests: [not_null]}, {name: tags, tests: [not_null]}",
    )
    found = shop.run()
    assert {name: (it.engine, it.failures, it.rows) for name, it in found.items()} == {
        "row_count_orders": ("duckdb", 1, ((1,),)),
        "not_null_orders_id": ("duckdb", 1, ((None,),)),
        "not_null_orders_tags": ("", 0, ()),
    }
    assert "array<string>" in found["not_null_orders_tags"].why_spark


# --- what is read


def test_rows_that_have_passed_are_not_read_again_where_the_table_only_grows(
    shop: Shop,
) -> None:
    good = [{"id": number, "status": "a"} for number in range(10)]
    shop.append("orders", good)
    shop.tests("{expression: id >= 0}", "{name: id, tests: [not_null, unique]}")
    found = shop.run()
    assert read(found, "not_null_orders_id") == [("orders", 10, None)]
    assert read(shop.run(), "not_null_orders_id") == [("orders", 0, 0)]
    shop.append("orders", [{"id": 10}])
    shop.append("orders", [{"id": 11}, {"id": 3}])
    found = shop.run()
    assert (
        read(found, "expression_orders")
        == read(found, "not_null_orders_id")
        == [("orders", 3, 2)]
    )
    assert (read(found, "unique_orders_id"), found["unique_orders_id"].failures) == (
        [("orders", 13, None)],
        1,
    )
    assert read(shop.run(full=True), "not_null_orders_id") == [("orders", 13, None)]

    shop.append("orders", [{"id": None}])
    for _ in range(2):  # until it passes
        found = shop.run()
        assert (
            found["not_null_orders_id"].status,
            read(found, "not_null_orders_id"),
        ) == ("fail", [("orders", 1, 1)])
    shop.iceberg.load_table(("shop", "orders")).delete("id IS NULL")
    found = shop.run()
    assert (found["not_null_orders_id"].status, read(found, "not_null_orders_id")) == (
        "pass",
        [("orders", 13, None)],
    )

    shop.tests("{expression: id >= 1}", "{name: id, tests: [not_null]}")
    found = shop.run()
    assert (read(found, "expression_orders"), found["expression_orders"].failures) == (
        [("orders", 13, None)],
        1,
    )
    assert read(found, "not_null_orders_id") == [("orders", 0, 0)]

    shop.iceberg.drop_table(("shop", "orders"))
    shop.append("orders", good)
    assert read(shop.run(), "not_null_orders_id") == [("orders", 10, None)]


def test_all_rows_are_read_where_a_column_is_another_one_of_the_same_name(
    shop: Shop,
) -> None:
    shop.append(
        "customers", [{"id": 1, "amount": Decimal(1), "at": NOW.replace(tzinfo=UTC)}]
    )
    tests = (
        "tests: [{expression: amount > 0}], columns: [{name: at, tests: [not_null]}]"
    )
    shop.write("models/m.yml", f"models: [{{name: customers, {tests}}}]")
    assert {it.status for it in shop.run().values()} == {"pass"}
    table = shop.iceberg.load_table(("shop", "customers"))
    with table.update_schema() as change:
        change.rename_column("at", "created_at")
    with table.update_schema() as change:
        change.add_column("at", TimestamptzType()).update_column(
            "amount", DecimalType(12, 2)
        )
    shop.write(
        "streams/s.yml",
        (shop.directory / "streams/s.yml").read_text().replace("(10,2)", "(12,2)"),
    )
    for amounts_read in (("customers", 1, None), ("customers", 0, 0)):
        found = shop.run()
        assert read(found, "not_null_customers_at") == [("customers", 1, None)]
        assert found["not_null_customers_at"].status == "fail"
        assert read(found, "expression_customers") == [amounts_read]


def test_all_rows_are_read_where_the_snapshot_has_expired_or_the_clock_counts(
    shop: Shop,
) -> None:
    at = NOW.replace(tzinfo=UTC)
    shop.append("orders", [{"id": 1, "at": at}])
    shop.tests(
        "{expression: at > current_timestamp() - INTERVAL 1 HOUR}",
        "{name: id, tests: [not_null]}",
    )
    assert {it.status for it in shop.run().values()} == {"pass"}
    late = shop.run(now=NOW + timedelta(hours=2))
    assert (late["expression_orders"].status, read(late, "expression_orders")) == (
        "fail",
        [("orders", 1, None)],
    )
    first = shop.iceberg.load_table(("shop", "orders")).metadata.current_snapshot_id
    assert first is not None
    shop.append("orders", [{"id": 2, "at": at}])
    shop.iceberg.load_table(("shop", "orders")).maintenance.expire_snapshots().by_id(
        first
    ).commit()
    assert read(shop.run(), "not_null_orders_id") == [("orders", 2, None)]


# --- what comes of it


@pytest.mark.checks
def test_severity_and_thresholds_say_what_failures_are(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.append("orders", [{"id": None}] * 3)
    for options, status, code in (
        ("severity: warn", "warn", 0),
        ("error_if: '>3'", "warn", 0),
        ("error_if: '>=3'", "fail", 1),
        ("error_if: BETWEEN 1 AND 3", "fail", 1),
        ("error_if: between 4 and 9, warn_if: between 0 and 2", "pass", 0),
        ("error_if: '>3', warn_if: '>3'", "pass", 0),
        ("limit: 2, error_if: '>=2'", "fail", 1),
        ("limit: 2, severity: warn, error_if: '>2'", "warn", 0),
        ("limit: 2, error_if: '!=0', warn_if: '<3'", "fail", 1),
        ("enabled: false", None, 0),
    ):
        shop.tests("", f"{{name: id, tests: [not_null: {{{options}}}]}}")
        for _ in range(2):
            assert shop.command("test", "--output", "json") == code
            said = json.loads(capsys.readouterr().out)["data_tests"]
            assert [it["status"] for it in said] == ([status] if status else []), (
                options
            )


def test_a_test_that_looked_at_no_row_is_counted_apart(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.append("orders", [{"id": 1, "amount": Decimal("1.00"), "status": "paid"}])
    shop.tests(
        "{expression: {name: all, expression: amount > 0, where: status = 'paid'}}, "
        "{expression: {name: none, expression: amount > 0, where: status = 'pad'}}, "
        "{row_count: {name: counted, min: 1, where: status = 'pad'}}"
    )
    assert {name: result.status for name, result in shop.run().items()} == {
        "all": "pass",
        "none": "no_rows",
        "counted": "fail",
    }
    shop.append("orders", [{"id": 2, "amount": Decimal("-1.00"), "status": "pad"}])
    assert shop.run()["none"].status == "fail"
    shop.tests(
        "{expression: {name: none, expression: amount > 0, where: status = 'no'}}"
    )
    assert shop.command("test", "--data") == 0
    said = capsys.readouterr().out
    assert "Data tests: 0 passed, 1 looked at no row, 0 failed." in said
    assert "status = 'no'" in said


@pytest.mark.checks
def test_the_command_shows_failing_rows_and_writes_results(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.append(
        "orders",
        [
            {"id": number, "status": "odd" if number % 2 else "even"}
            for number in range(20)
        ],
    )
    shop.tests(
        "",
        "{name: status, tests: [accepted_values: {values: [even], store_failures: true}]}",
    )
    shop.write("tests/none.sql", "SELECT * FROM {{ ref('orders') }} WHERE id < 0")
    assert shop.command("test") == 1
    out = capsys.readouterr().out
    assert (
        "FAIL   orders: accepted_values_orders_status  (10 failing rows; read 20 rows;"
        in out
    )
    assert "target/compiled/tests/accepted_values_orders_status.sql\n" in out
    assert "and 5 rows more" in out and "Data tests: 1 passed, 1 failed.\n" in out
    compiled = (
        shop.directory / "target/compiled/tests/accepted_values_orders_status.sql"
    ).read_text()
    assert "status NOT IN ('even')" in compiled
    results = json.loads((shop.directory / "target/test_results.json").read_text())[
        "results"
    ]
    assert {it["name"]: (it["status"], it["failures"]) for it in results} == {
        "accepted_values_orders_status": ("fail", 10),
        "none": ("pass", 0),
    }
    stored = shop.rows_of("accepted_values_orders_status__failures")
    assert sorted(row["id"] for row in stored) == list(range(1, 20, 2))
    shop.iceberg.load_table(("shop", "orders")).delete("status = 'odd' AND id > 3")
    assert shop.command("test") == 1
    assert sorted(
        row["id"] for row in shop.rows_of("accepted_values_orders_status__failures")
    ) == [1, 3]


@pytest.mark.checks
def test_the_table_of_failing_rows_follows_their_types(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.append("orders", [{"id": 1, "amount": Decimal("1.50"), "status": "a"}])
    tables = []
    for column in ("amount", "status", "status"):
        head = "{{ config(store_failures=true) }}\nSELECT id,"
        shop.write(
            "tests/x.sql", f"{head} {column} AS value FROM {{{{ ref('orders') }}}}"
        )
        shop.command("test", "--output", "json")
        (said,) = json.loads(capsys.readouterr().out)["data_tests"]
        assert (said["status"], said["problems"]) == ("fail", []), column
        (row,) = shop.rows_of("orders")
        assert shop.rows_of("x__failures") == [{"id": 1, "value": row[column]}]
        tables.append(
            shop.iceberg.load_table(("shop", "x__failures")).metadata.table_uuid
        )
    assert tables[0] != tables[1] == tables[2]


def test_failing_rows_that_cannot_be_stored_name_their_test(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.append("orders", [{"id": 1}])
    location = Path(
        shop.iceberg.load_table(("shop", "orders")).location().removeprefix("file://")
    )
    # where the table would have its files
    location.with_name("not_null_orders_status__failures").touch()
    shop.tests("", "{name: status, tests: [not_null: {store_failures: true}]}")
    assert shop.command("test", "--output", "json") == 1
    (said,) = json.loads(capsys.readouterr().out)["data_tests"]
    assert [(it["condition"], it["place"]["line"]) for it in said["problems"]] == [
        ("failures-not-stored", 1)
    ]


def test_a_build_reads_its_selection_once(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.tests("", "{name: id, tests: [unique, not_null]}")
    shop.append("orders", [{"id": 1}])
    assert shop.command("build", "--select", "test_name:unique", "nowhere") == 0
    said = capsys.readouterr()
    assert said.err == "'nowhere' matches nothing.\n"
    assert said.out == "Data tests: 1 passed, 0 failed.\n"
    assert shop.command("build", "--select", "nowhere") == 0
    assert capsys.readouterr().err.count("nothing") == 2


def test_tests_are_selected_by_what_became_of_them(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.tests(
        "",
        "{name: id, tests: [unique, not_null]}, {name: amount, tests: [not_null: {severity: warn}]}",
    )
    shop.append("orders", [{"id": 1, "customer_id": 7}, {"id": 1}])

    def run_again(command: str, *words: str) -> list[str]:
        shop.command(command, "--select", *words)
        results = json.loads((shop.directory / "target/test_results.json").read_text())[
            "results"
        ]
        return sorted(f"{result['name']}: {result['status']}" for result in results)

    assert shop.command("build", "--select", "result:fail") == 2
    assert "results-missing" in capsys.readouterr().err
    every = [
        "not_null_orders_amount: warn",
        "not_null_orders_id: pass",
        "unique_orders_id: fail",
    ]
    assert run_again("test", "orders") == every
    (shop.directory / "target").rename(shop.directory / "before")
    before = ("--state", str(shop.directory / "before"))
    assert run_again("build", "result:fail", *before) == ["unique_orders_id: fail"]
    assert run_again("test", "result:warn", "result:pass", *before) == every[:2]
    assert run_again("test", "orders", "--exclude", "result:warn", *before) == every[1:]
    capsys.readouterr()
    # no model has run yet, and tests are not run
    assert shop.command("run", "--select", "result:fail", *before) == 2
    assert "results-missing" in capsys.readouterr().err
    (shop.directory / "before/test_results.json").write_text('{"results": []}')
    assert shop.command("test", "--select", "result:fail", *before) == 2
    assert "results-unreadable" in capsys.readouterr().err


def test_a_test_is_selected_with_each_of_its_models_and_by_itself(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.tests(
        "{expression: {expression: id > 0, tags: [nightly]}}",
        "{name: id, tests: [unique, relationships: {to: ref('customers'), field: id}]}",
    )
    shop.write(
        "tests/ours/both.sql",
        "SELECT c.id FROM {{ ref('customers') }} c JOIN {{ ref('orders') }} o USING (id)",
    )

    def selected(select: str, exclude: str = "") -> set[str]:
        chosen = select_tests(
            shop.manifest(), [select], [exclude] if exclude else [], Options()
        )[1]
        return {test.name for test in chosen}

    relation = "relationships_orders_id_customers"
    every = {"expression_orders", "unique_orders_id", relation, "both"}
    assert selected("orders") == every
    assert selected("customers") == {relation, "both"}
    assert selected("orders", "customers") == {"expression_orders", "unique_orders_id"}
    assert selected("orders", "both") == every - {"both"}
    assert selected("test_name:unique") == {"unique_orders_id"}
    assert (
        selected("test_type:singular")
        == selected("path:tests/ours")
        == selected("both")
        == {"both"}
    )
    assert selected("tag:nightly") == selected("customers+", "customers") | {
        "expression_orders"
    }
    assert shop.command("ls", "--resource-type", "test") == 0
    assert set(capsys.readouterr().out.split()) == {
        *(f"test:p.{name}" for name in every - {"both"}),
        "test:p.ours.both",
    }
    assert shop.command("ls") == 0
    assert "test:" not in capsys.readouterr().out
    assert shop.command("parse") == 0
    nodes = json.loads((shop.directory / "target/manifest.json").read_text())["nodes"]
    assert nodes[f"test.{relation}"]["depends_on"] == [
        "model.orders",
        "model.customers",
    ]


# --- the order of a build


def order_of(shop: Shop, units: Sequence[Any] = ()) -> Callable[[], Any]:
    manifest = shop.manifest()
    return lambda: plan_build(
        manifest, tuple(manifest.models), manifest.data_tests, units, "duckdb"
    )


def test_a_build_waits_for_tests_of_several_models(shop: Shop) -> None:
    shop.write(
        "models/report.sql",
        "{{ config(mode='append') }}\nSELECT id FROM {{ stream('orders') }} AS s\n",
    )
    shop.write(
        "models/report.sql",
        "{{ config(mode='append') }}\nSELECT s.id FROM {{ stream('orders') }} AS s JOIN {{ ref('customers') }} AS c"
        " ON c.id = s.id\n",
    )
    shop.tests(
        "",
        "{name: id, tests: [unique, relationships: {to: ref('customers'), field: id}]}",
    )
    build = order_of(shop)()
    # `stream('orders')` is the declared stream, so nothing but the test is between
    # orders and customers.
    assert [test.name for test in build.owned["orders"]] == [
        "unique_orders_id",
        "relationships_orders_id_customers",
    ]
    assert build.order.after == {"orders": frozenset({"customers"})}
    assert build.order.waits_for["report"] == {"orders"}
    assert (
        not build.order.waits_for["orders"] and not build.order.waits_for["customers"]
    )
    alone = plan_build(
        shop.manifest(),
        ("customers", "report"),
        shop.manifest().data_tests,
        (),
        "duckdb",
    )
    assert [test.name for test in alone.owned["customers"]] == [
        "relationships_orders_id_customers"
    ]
    assert alone.loose == (shop.manifest().data_tests[0],)


def test_a_test_between_a_model_and_its_reader_belongs_to_the_reader(
    shop: Shop,
) -> None:
    shop.write(
        "models/report.sql",
        "{{ config(mode='append') }}\nSELECT s.id FROM {{ stream('orders') }} AS s JOIN {{ ref('customers') }} AS c"
        " ON c.id = s.id\n",
    )
    shop.write(
        "tests/t.sql",
        "SELECT r.id FROM {{ ref('report') }} r LEFT JOIN {{ ref('customers') }} c ON r.id = c.id",
    )
    build = order_of(shop)()
    assert [test.name for test in build.owned["report"]] == ["t"]
    assert not build.order.after.get("report") and not any(
        build.order.waits_for.values()
    )
