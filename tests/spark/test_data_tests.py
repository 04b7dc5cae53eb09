"""Data tests over tables that Spark writes: DuckDB counts what Spark counts, and a
build stops where a test fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesql.plan.data_test_results import TestResult
from lakesql.run.build import Build, plan_build
from lakesql.run.build_jobs import jobs_with_tests
from lakesql.run.test.run_data_tests import Engine, TestRun, run_data_tests
from lakesql.unit.outcomes import Passed
from lakesql.unit.run import run_tests
from tests.spark.project import Project, Ran
from tests.spark.test_rewind import lakesql

NOW = datetime(2026, 3, 2, tzinfo=UTC)
COLUMNS = {
    "id": "bigint",
    "customer": "int",
    "amount": "decimal(10,2)",
    "status": "string",
    "at": "timestamp",
    "day": "date",
    "ratio": "double",
    "tags": "array<string>",
}
ORDERS = "SELECT id, customer, amount, status, at, day, ratio, tags FROM {orders}"


def order(number: int, status: str | None = "paid", **others: Any) -> dict[str, Any]:
    """An order of a customer from 0 to 3."""
    row = {
        "id": number,
        "customer": number % 4,
        "amount": f"{number}.50",
        "status": status,
        "day": "2026-03-01",
    }
    return {
        **row,
        "at": f"2026-03-01T00:00:{number:02}Z",
        "ratio": 0.5,
        "tags": ["a"],
        **others,
    }


def write_models(project: Project) -> None:
    project.stream("orders", COLUMNS)
    project.stream("clients", {"id": "int"})
    project.model("clients", "SELECT id FROM {clients}", mode="upsert", keys=["id"])
    project.model("orders", ORDERS, mode="upsert", keys=["id"], sequence_by="at")
    project.model("log", ORDERS, mode="append")
    project.model(
        "report",
        "SELECT o.id, c.id AS client FROM {orders} AS o JOIN {clients!r} AS c ON c.id = o.customer",
        mode="append",
    )
    project.record("clients", [{"id": number} for number in range(3)])


def say_tests(project: Project, **models: Any) -> None:
    """The entries of `models:` by their names."""
    entries = [{"name": name, **said} for name, said in models.items()]
    project.write("models/m.yml", json.dumps({"models": entries}))


def ask(
    project: Project, engine: Engine, *, full: bool = False
) -> dict[str, TestResult]:
    run = TestRun(
        project.manifest(),
        project.lake.catalog,
        project.lake.session.newSession,
        engine,
        full,
    )
    return {it.test.name: it for it in run_data_tests(run, run.manifest.data_tests)}


def test_duckdb_and_spark_find_the_same_rows(project: Project) -> None:
    write_models(project)
    project.record(
        "orders",
        [order(number, None if number == 5 else "paid") for number in range(1, 21)],
    )
    project.run("clients", "orders", "log").check()
    # changed rows leave deletes beside the files that have the old ones
    project.record(
        "orders",
        [order(number, "gone", at="2026-03-02T00:00:00Z") for number in (2, 3, 4)],
    )
    project.run("orders", "log").check()
    assert int(project.summaries("orders")[-1].get("total-position-deletes", "0")) > 0
    column = {
        "status": [
            "not_null",
            {"accepted_values": {"values": ["paid"], "where": "id > 2"}},
        ],
        "id": ["unique"],
        "customer": [{"relationships": {"to": "ref('clients')", "field": "id"}}],
        "day": [
            {"accepted_values": {"values": ["2026-03-02"]}},
            {"freshness": {"within": "1 hour"}},
        ],
        "at": [{"freshness": {"within": "3650 days"}}],
        "ratio": [
            "unique",
            {"expression": {"expression": "ratio > 0.6", "name": "ratios"}},
        ],
        "tags": [{"expression": {"expression": "size(tags) = 1", "name": "sizes"}}],
        "amount": [{"accepted_values": {"values": [2.5, 3]}}],
    }
    columns = [{"name": name, "tests": tests} for name, tests in column.items()]
    of_log = [{"name": "id", "tests": ["unique", "not_null"]}]
    say_tests(
        project,
        orders={"columns": columns, "tests": [{"row_count": {"max": 19}}]},
        log={"columns": of_log},
    )
    project.write(
        "tests/plain.sql",
        "SELECT o.id FROM {{ ref('orders') }} o WHERE o.status = 'gone' AND o.amount > 3",
    )
    project.write(
        "tests/grouped.sql",
        "SELECT customer FROM {{ ref('orders') }} GROUP BY customer HAVING count(*) > 4",
    )
    duck, spark = ask(project, "duckdb"), ask(project, "spark")
    assert {name: it.failures for name, it in duck.items()} == {
        "row_count_orders": 1,
        "not_null_orders_status": 1,
        "accepted_values_orders_status": 2,
        "unique_orders_id": 0,
        "relationships_orders_customer_clients": 5,
        "accepted_values_orders_day": 20,
        "freshness_orders_day": 1,
        "freshness_orders_at": 0,
        "unique_orders_ratio": 1,
        "ratios": 20,
        "sizes": 0,
        "accepted_values_orders_amount": 19,
        "unique_log_id": 3,
        "not_null_log_id": 0,
        "plain": 2,
        "grouped": 4,
    }
    found = {name: (it.status, it.failures, it.columns) for name, it in duck.items()}
    assert found == {
        name: (it.status, it.failures, it.columns) for name, it in spark.items()
    }
    by_spark = {name for name, it in duck.items() if it.engine == "spark"}
    assert by_spark == {"unique_orders_ratio", "sizes", "ratios"}, {
        name: it.why_spark for name, it in duck.items()
    }
    assert all(duck[name].why_spark for name in by_spark)
    assert duck["not_null_orders_status"].reads[0].rows == 20

    # of the table that only grows, new rows alone are read, also behind a compaction
    assert ask(project, "duckdb")["not_null_log_id"].reads[0].snapshots == 0
    project.sql(
        f"CALL {project.lake.catalog.profile.name}.system.rewrite_data_files("
        f"table => '{project.namespace}.log', options => map('rewrite-all', 'true'))"
    )
    project.record("orders", [order(number) for number in (30, 31)])
    project.run("log").check()
    (new,) = ask(project, "duckdb")["not_null_log_id"].reads
    assert (new.rows, new.snapshots) == (2, 1)
    assert (
        ask(project, "duckdb", full=True)["not_null_log_id"].reads[0].rows
        == len(project.rows("log"))
        == 25
    )


def build_of(project: Project) -> tuple[Build, Ran]:
    manifest = project.manifest()
    names = tuple(manifest.models)
    build = plan_build(
        manifest,
        names,
        manifest.data_tests,
        run_tests(manifest, manifest.unit_tests),
        "duckdb",
    )
    return build, project.run(jobs_by=jobs_with_tests(build, None), order=build.order)


def test_a_build_does_not_run_what_reads_a_model_whose_tests_fail(
    project: Project,
) -> None:
    write_models(project)
    project.record("orders", [order(number) for number in range(1, 9)])
    to_clients = {"relationships": {"to": "ref('clients')", "field": "id"}}
    tested = {"columns": [{"name": "customer", "tests": [to_clients]}]}
    say_tests(
        project, orders=tested, log={"columns": [{"name": "id", "tests": ["not_null"]}]}
    )
    build, ran = build_of(project)
    assert not ran.succeeded
    # `report` reads clients, which `orders` is tested against: the test stands between
    # the two
    assert ran.conditions("orders") == ["test-failed"]
    assert {
        name: ran.finished(name).status
        for name in ("clients", "log", "orders", "report")
    } == {
        "clients": "success",
        "log": "success",
        "orders": "error",
        "report": "skipped",
    }
    assert len(project.rows("orders")) == 8 and not project.has("report")
    assert {it.test.name: it.status for it in build.all_results()} == {
        "relationships_orders_customer_clients": "fail",
        "not_null_log_id": "pass",
    }

    project.record("clients", [{"id": 3}])
    build, ran = build_of(project)
    ran.check()
    assert [it.status for it in build.all_results()] == ["pass", "pass"]
    assert len(project.rows("report")) == 8

    to_clients["severity"] = "warn"
    say_tests(project, clients={"tests": [{"row_count": {"max": 1}}]}, orders=tested)
    project.record("orders", [order(9, customer=7)])
    build, ran = build_of(project)
    assert (
        ran.conditions("clients") == ["test-failed"]
        and ran.finished("report").status == "skipped"
    )
    # it reads no clients: only its test does
    assert ran.finished("orders").status == "success"
    assert {it.test.name: it.status for it in build.all_results()} == {
        "row_count_clients": "fail",
        "relationships_orders_customer_clients": "warn",
    }

    given = [{"stream": "clients", "batches": [[{"id": 1}]]}]
    unit = {
        "name": "u",
        "model": "clients",
        "given": given,
        "expect": {"rows": [{"id": 2}]},
    }
    project.write("models/u.yml", json.dumps({"unit_tests": [unit]}))
    project.record("clients", [{"id": 4}])
    build, ran = build_of(project)
    assert (
        ran.conditions("clients") == ["test-failed"]
        and ran.finished("orders").status == "success"
    )
    assert len(project.rows("clients")) == 4  # its batch was not begun
    assert {it.test.name: it.status for it in build.all_results()} == {
        "row_count_clients": "skipped",
        "relationships_orders_customer_clients": "skipped",
    }


@pytest.mark.long
def test_a_build_answers_unit_tests_on_spark_that_duckdb_does_not(
    project: Project,
) -> None:
    project.stream("orders", {"id": "int", "customer": "int"})
    project.model(
        "sums",
        "SELECT customer, count(*) AS n FROM {orders} GROUP BY customer",
        mode="upsert",
        keys=["customer"],
    )
    project.model("log", "SELECT id FROM {orders}", mode="append")
    project.record("orders", [{"id": 1, "customer": 7}])
    given = [
        {
            "stream": "orders",
            "batches": [[{"id": 1, "customer": 1}], [{"id": 2, "customer": 1}]],
        }
    ]
    tests = [
        {
            "name": "counted",
            "model": "sums",
            "given": given,
            "expect": {"rows": [{"customer": 1, "n": 3}]},
        },
        {
            "name": "logged",
            "model": "log",
            "given": given,
            "expect": {"rows": [{"id": 1}, {"id": 2}]},
        },
    ]
    project.write("models/u.yml", json.dumps({"unit_tests": tests}))
    assert [
        it.outcome
        for it in run_tests(project.manifest(), project.manifest().unit_tests)
    ][1:] == [Passed()]
    told = lakesql(project, "build")
    assert told.returncode == 1 and "test-failed" in told.stderr, told
    assert "1 passed, 1 failed, 0 need Spark." in told.stdout
    assert not project.has("sums") and len(project.rows("log")) == 1

    tests[0]["expect"] = {"rows": [{"customer": 1, "n": 2}]}
    project.write("models/u.yml", json.dumps({"unit_tests": tests}))
    told = lakesql(project, "build")
    assert told.returncode == 0, told
    assert project.rows("sums") == [{"customer": 7, "n": 1}]
