"""Models over tables against their own SELECT, run over the tables that they read as
these are then."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakesql.engine.ledger.snapshots import load_table, read_entry
from lakesql.events import BatchCommitted, Noted, StepApplied
from lakesql.ledger.inputs import read_inputs
from lakesql.model.table_name import TableName
from tests.spark.project import Project, Row
from tests.spark.random_inputs import expire_by_hand, rewrite_all

pytestmark = [pytest.mark.spark, pytest.mark.long]

ORDERS = {
    "id": "int",
    "customer": "int",
    "amount": "decimal(10,2)",
    "seq": "int",
    "gone": "boolean",
}
CUSTOMERS = {"id": "int", "country": "string", "seq": "int", "gone": "boolean"}
CLICKS = {"customer": "int", "page": "string"}

SELECTS = {
    "rows": ("SELECT id, customer, amount FROM {orders!r} WHERE amount > 5", ["id"]),
    "per_customer": (
        "SELECT customer, count(*) AS n, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        [],
    ),
    "most": (
        "SELECT customer, max(amount) AS most, min(amount) AS least FROM {orders!r} GROUP BY customer",
        [],
    ),
    "per_country": (
        "SELECT c.country, count(*) AS n, sum(o.amount) AS amount FROM {orders!r} o "
        "JOIN {customers!r} c ON c.id = o.customer GROUP BY c.country",
        [],
    ),
    "with_country": (
        "SELECT o.id, o.amount, c.country FROM {orders!r} o LEFT JOIN {customers!r} c ON c.id = o.customer",
        ["id"],
    ),
    "idle": (
        "SELECT c.id, c.country FROM {customers!r} c "
        "WHERE NOT EXISTS (SELECT 1 FROM {orders!r} o WHERE o.customer = c.id)",
        ["id"],
    ),
    "countries": ("SELECT DISTINCT country FROM {customers!r}", []),
    "pages": (
        "SELECT customer, page, count(*) AS n FROM {clicks!r} GROUP BY customer, page",
        [],
    ),
    "ranked": (
        "SELECT id, customer, rank() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place FROM {orders!r}",
        ["customer", "id"],
    ),
    "both": (
        "SELECT id, 'order' AS kind FROM {orders!r} WHERE amount > 5 "
        "UNION ALL SELECT id, 'customer' FROM {customers!r}",
        ["id", "kind"],
    ),
}


@pytest.fixture
def shop(project: Project) -> Project:
    """Three tables that are kept by what arrives, none of which has a row yet."""
    project.stream("order_states", ORDERS)
    project.stream("customer_states", CUSTOMERS)
    project.stream("page_views", CLICKS)
    keyed = {
        "mode": "upsert",
        "keys": "id",
        "sequence_by": "seq",
        "delete_when": "gone",
    }
    project.model("orders", "SELECT * FROM {order_states}", **keyed)
    project.model("customers", "SELECT * FROM {customer_states}", **keyed)
    project.model("clicks", "SELECT * FROM {page_views}", mode="append")
    return project


class Changes:
    """Random records of the three streams."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seq = 0

    def order(self) -> Row:
        self.seq += 1
        pick = self.random
        return {
            "id": pick.randrange(12),
            "customer": pick.choice([None, 1, 2, 3, 4]),
            "amount": pick.choice([None, "1.50", "7.25", "9.00"]),
            "seq": self.seq,
            "gone": pick.random() < 0.25,
        }

    def customer(self) -> Row:
        self.seq += 1
        pick = self.random
        return {
            "id": pick.randrange(1, 6),
            "country": pick.choice([None, "NL", "BE", "AT"]),
            "seq": self.seq,
            "gone": pick.random() < 0.25,
        }

    def record(self, project: Project) -> None:
        """Records of some of the streams, perhaps of none."""
        made: dict[str, Callable[[], Row]] = {
            "order_states": self.order,
            "customer_states": self.customer,
            "page_views": lambda: {
                "customer": self.random.choice([None, 1, 2]),
                "page": "/",
            },
        }
        for topic, make in made.items():
            if count := self.random.choice([0, 1, 5]):
                project.record(topic, [make() for _ in range(count)])


def expected(project: Project, name: str) -> list[Any]:
    """The rows of a view's SELECT over the tables as they are."""
    select = SELECTS[name][0]
    for table in ("orders", "customers", "clicks"):
        select = select.replace(f"{{{table}!r}}", project.table(table))
    return sorted_values(project.lake.session.sql(select).collect())


def sorted_values(rows: list[Any]) -> list[Any]:
    return sorted((tuple(row) for row in rows), key=repr)


def rows_of(project: Project, name: str) -> list[Any]:
    """The rows of a view's table, without the columns that only lakesql needs."""
    table = project.lake.session.table(project.table(name))
    return sorted_values(
        table.select(
            *(it for it in table.columns if not it.startswith("_lakesql_"))
        ).collect()
    )


def add_views(project: Project, **more: Any) -> None:
    for name, (select, keys) in SELECTS.items():
        config = {"keys": keys} if keys else {}
        project.model(name, select, mode="materialized_view", **config, **more)


@pytest.mark.parametrize("seed", range(3))
def test_a_view_equals_its_select_after_each_run(shop: Project, seed: int) -> None:
    changes, session = Changes(seed), shop.lake.session
    changes.record(shop)
    for topic, make in (
        ("order_states", changes.order),
        ("customer_states", changes.customer),
    ):
        shop.record(topic, [make() for _ in range(8)])
    shop.record("page_views", [{"customer": 1, "page": "/"}])
    add_views(shop)
    for round_ in range(6):
        shop.run().check()
        for name in SELECTS:
            assert rows_of(shop, name) == expected(shop, name), (
                f"{name}, round {round_}"
            )
        changes.record(shop)
        if round_ == 1:  # somebody else deletes, too
            session.sql(f"DELETE FROM {shop.table('orders')} WHERE id = 3")
        if round_ == 2:
            rewrite_all(shop, "orders")
        if round_ == 3:
            session.sql(
                f"UPDATE {shop.table('customers')} SET country = 'PT' WHERE country IS NULL"
            )


def test_nothing_is_written_where_no_input_has_changed(shop: Project) -> None:
    shop.record("order_states", [Changes(1).order() | {"gone": False}])
    shop.model("total", "SELECT sum(amount) AS amount FROM {orders!r}", mode="table")
    shop.run("orders", "total").check()
    assert len(shop.run("total").check().of(BatchCommitted)) == 0
    assert [it.status for it in shop.run_without_java("total")] == ["success"]
    shop.record("order_states", [Changes(2).order() | {"gone": False, "seq": 9}])
    shop.run("orders").check()
    assert not shop.run_without_java("total")
    ran = shop.run("total").check()
    assert [it.model for it in ran.of(BatchCommitted)] == ["total"]
    assert [it.status for it in shop.run_without_java("total")] == ["success"]


def test_a_rewrite_of_an_input_is_noted_and_no_row_is_written(shop: Project) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.record("order_states", [one, one | {"id": 2}])
    sums = "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer"
    shop.model("total", "SELECT sum(amount) AS amount FROM {orders!r}", mode="table")
    shop.model("sums", sums, mode="materialized_view", keys=["customer"])
    shop.model("past", sums, mode="scd2", keys=["customer"])
    made = ["total", "sums", "past"]
    shop.run("orders", *made).check()
    files = {
        name: shop.iceberg(name).inspect.files()["file_path"].to_pylist()
        for name in made
    }
    past = shop.rows("past")
    rewrite_all(shop, "orders")
    assert not shop.run_without_java(*made)
    ran = shop.run(*made).check()
    refreshed = {it.model: (it.refreshed, it.rows) for it in ran.of(BatchCommitted)}
    assert refreshed == dict.fromkeys(made, ("no row is another one", 0))
    assert files == {
        name: shop.iceberg(name).inspect.files()["file_path"].to_pylist()
        for name in made
    }
    expire_by_hand(shop, "orders")
    assert not shop.run(*made).check().of(BatchCommitted)
    shop.record("order_states", [one | {"amount": "3.00", "seq": 2}])
    ran = shop.run("orders", *made).check()
    assert not [it.text for it in ran.of(Noted) if "anew" in it.text], (
        "what has changed is known"
    )
    assert rows_of(shop, "total") == [(Decimal("5.00"),)]
    assert rows_of(shop, "sums") == [(1, Decimal("5.00"))]
    former, newest = sorted(shop.rows("past"), key=lambda row: row["valid_from"])
    assert (former["valid_from"], newest["amount"]) == (
        past[0]["valid_from"],
        Decimal("5.00"),
    )


def test_a_changed_select_makes_the_table_anew_in_one_commit(shop: Project) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "sums",
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    shop.run("orders", "sums").check()
    shop.model(
        "sums",
        "SELECT customer AS who, count(*) AS n FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    ran = shop.run("orders", "sums").check()
    assert rows_of(shop, "sums") == [(1, 1)]
    assert len(ran.of(BatchCommitted, "sums")) == 1
    assert any("anew" in step.text for step in ran.of(StepApplied, "sums"))
    shop.model(
        "sums",
        "SELECT customer AS who, count(id) + 1 AS n FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    shop.run("orders", "sums").check()
    assert rows_of(shop, "sums") == [(1, 2)]


def test_a_view_that_fails_leaves_no_table_and_a_killed_refresh_is_begun_anew(
    shop: Project,
) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "ratio", "SELECT id, 1 / (amount - 2) AS x FROM {orders!r}", mode="table"
    )
    shop.run("orders").check()
    assert not shop.run("ratio").succeeded
    assert not shop.lake.session.catalog.tableExists(shop.table("ratio"))
    add_views(shop)
    shop.run("orders", "customers", "clicks", "per_customer")
    for step in ("look-up", "stage", "publish", "finish"):
        shop.record(
            "order_states",
            [{"id": 1, "customer": 1, "amount": "3.00", "seq": 2, "gone": False}],
        )

        def stop(model: str, reached: str, step: str = step) -> None:
            if model == "per_customer" and reached == step:
                raise KeyboardInterrupt(step)

        shop.run("orders", "per_customer", reached=stop)
        shop.run("orders", "per_customer").check()
        assert rows_of(shop, "per_customer") == expected(shop, "per_customer")


def test_the_ledger_says_of_which_snapshots_a_view_is_made(shop: Project) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "sums",
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    shop.run("orders", "sums").check()
    session = shop.lake.session
    entry = read_entry(
        load_table(session, TableName(*shop.table("sums").split("."))), "sums"
    )
    orders = load_table(session, TableName(*shop.table("orders").split(".")))
    assert entry is not None
    (read,) = read_inputs(entry.inputs).values()
    assert (read.table_id, read.snapshot) == (
        str(orders.uuid()),
        orders.currentSnapshot().snapshotId(),
    )


def test_rows_of_somebody_else_are_not_exchanged(shop: Project) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "sums",
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    shop.run("orders").check()
    shop.lake.session.sql(
        f"CREATE TABLE {shop.table('sums')} USING iceberg AS SELECT 1 AS customer, 2.0 AS amount"
    )
    assert shop.run("sums").conditions("sums") == ["table-of-another"]
    assert rows_of(shop, "sums") == [(1, Decimal("2.0"))]


def test_two_rows_of_one_key_are_refused(shop: Project) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.record("order_states", [one, one | {"id": 2}])
    select = "SELECT customer, amount FROM {orders!r}"
    shop.model("paid", select, mode="materialized_view", keys="customer")
    shop.run("orders").check()
    assert shop.run("paid").conditions("paid") == ["view-keys-twice"]
    assert not shop.lake.session.catalog.tableExists(shop.table("paid"))
    shop.model("paid", select, mode="materialized_view", keys=["customer", "amount"])
    assert shop.run("paid").conditions("paid") == ["view-keys-twice"]
    shop.model("paid", f"{select} GROUP BY ALL", mode="materialized_view")
    shop.run("paid").check()
    assert rows_of(shop, "paid") == [(1, Decimal("2.00"))]


def test_a_continuous_run_makes_views_of_views_that_have_no_table_yet(
    shop: Project,
) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "sums",
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        mode="table",
    )
    shop.model("n", "SELECT count(*) AS n FROM {sums!r}", mode="materialized_view")
    shop.run("orders").check()
    shop.run("sums", "n", continuous=True, until=lambda: shop.has("n")).check()
    assert rows_of(shop, "n") == [(1,)]
    shop.model(
        "ratio", "SELECT id, 1 / (amount - 2) AS x FROM {orders!r}", mode="table"
    )
    shop.model(
        "of_ratio", "SELECT count(*) AS n FROM {ratio!r}", mode="materialized_view"
    )
    ran = shop.run("ratio", "of_ratio", continuous=True)
    assert ran.conditions("of_ratio") == ["table-missing"], (
        "what it waits for has failed"
    )


def test_what_is_no_iceberg_table_is_refused(shop: Project, tmp_path: Path) -> None:
    session, name = shop.lake.session, f"spark_catalog.default.{shop.namespace}_ids"
    session.sql(
        f"CREATE TABLE {name} USING parquet LOCATION '{tmp_path}/ids' AS SELECT 1 AS id"
    )
    try:
        shop.model("ids", f"SELECT id FROM {name}", mode="table")
        assert shop.run("ids").conditions("ids") == ["input-not-iceberg"]
    finally:
        session.sql(f"DROP TABLE {name}")
    shop.model("ids", f"SELECT id FROM {shop.table('no_ids')}", mode="table")
    assert shop.run("ids").conditions("ids") == ["table-missing"]
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model("ids", "SELECT id FROM {orders!r}", mode="table")
    shop.run("orders", "ids").check()
    assert rows_of(shop, "ids") == [(1,)]


def test_a_view_that_must_be_incremental_says_that_a_snapshot_is_gone(
    shop: Project,
) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    session, sums = (
        shop.lake.session,
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
    )
    shop.record("order_states", [one])
    shop.model("sums", sums, mode="materialized_view", refresh="incremental")
    shop.model("chosen", sums, mode="materialized_view")
    shop.run("orders", "sums", "chosen").check()
    shop.record("order_states", [one | {"id": 2, "seq": 2}])
    shop.run("orders").check()
    catalog, namespace, table = shop.table("orders").split(".")
    older = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    session.sql(
        f"CALL {catalog}.system.expire_snapshots(table => '{namespace}.{table}', {older})"
    )
    assert shop.run("sums").conditions("sums") == ["input-expired"]
    shop.run("chosen").check()
    assert rows_of(shop, "chosen") == [(1, Decimal("4.00"))]
    shop.rebuild("sums").check()
    assert rows_of(shop, "sums") == [(1, Decimal("4.00"))]


def test_rows_that_somebody_else_has_changed_in_a_view_are_put_right(
    shop: Project,
) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.record("order_states", [one, one | {"id": 2, "customer": 2}])
    sums = "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer"
    shop.model("sums", sums, mode="materialized_view")
    shop.run("orders", "sums").check()
    shop.lake.session.sql(f"DELETE FROM {shop.table('sums')} WHERE customer = 2")
    assert not shop.run_without_java("sums")
    shop.run("sums").check()
    assert rows_of(shop, "sums") == [(1, Decimal("2.00")), (2, Decimal("2.00"))]


def test_rows_that_somebody_else_has_changed_are_put_right_though_the_snapshot_that_did_has_expired(
    shop: Project,
) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.record("order_states", [one, one | {"id": 2, "customer": 2}])
    sums = "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer"
    shop.model("sums", sums, mode="materialized_view")
    shop.run("orders", "sums").check()
    for change in ("", "DELETE FROM {} WHERE customer = 2"):
        if change:
            shop.sql(change.format(shop.table("sums")))
        rewrite_all(shop, "sums")
        expire_by_hand(shop, "sums")
        assert bool(shop.run_without_java("sums")) is not bool(change)
        shop.run("sums").check()
        assert rows_of(shop, "sums") == [(1, Decimal("2.00")), (2, Decimal("2.00"))]


def expect(project: Project, that: str) -> None:
    expected = [{"that": that, "on_fail": "stop"}]
    project.write(
        "models/sums.yml",
        json.dumps({"models": [{"name": "sums", "expect": expected}]}),
    )


def test_what_is_expected_of_a_view_is_not_expected_of_groups_that_leave(
    shop: Project,
) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.record("order_states", [one, one | {"id": 2, "customer": 2}])
    sums = "SELECT customer, count(*) AS n, sum(amount) AS amount FROM {orders!r} GROUP BY customer"
    shop.model("sums", sums, mode="materialized_view")
    expect(shop, "n > 0")
    shop.run("orders", "sums").check()
    shop.record("order_states", [one | {"seq": 2, "gone": True}])
    shop.run("orders", "sums").check()
    assert rows_of(shop, "sums") == [(2, 1, Decimal("2.00"))]
    expect(shop, "n > 1")
    shop.record("order_states", [one | {"id": 3, "customer": 3, "seq": 3}])
    assert shop.run("orders", "sums").conditions("sums") == ["expectation-failed"]
    assert rows_of(shop, "sums") == [(2, 1, Decimal("2.00"))]


def test_a_view_that_asks_for_the_time_is_made_anew_by_each_run(shop: Project) -> None:
    shop.record(
        "order_states",
        [{"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}],
    )
    shop.model(
        "aged", "SELECT id, current_timestamp() AS seen FROM {orders!r}", mode="table"
    )
    shop.run("orders", "aged").check()
    ((_, first),) = rows_of(shop, "aged")
    assert not shop.run_without_java("aged")
    shop.run("aged").check()
    ((_, second),) = rows_of(shop, "aged")
    assert second > first


def test_the_changes_of_a_view_are_logged(shop: Project) -> None:
    one = {"id": 1, "customer": 1, "amount": "2.00", "seq": 1, "gone": False}
    shop.model(
        "sums",
        "SELECT customer, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        mode="materialized_view",
    )
    fields = "_change.op AS op, customer, amount, _change.before.amount AS was"
    shop.model("log", f"SELECT {fields} FROM {{sums}}", mode="append")
    for change in (
        one,
        one | {"id": 2, "seq": 2},
        one | {"id": 3, "customer": None, "seq": 3},
    ):
        shop.record("order_states", [change])
        shop.run("orders", "sums", "log").check()
    shop.record(
        "order_states",
        [one | {"seq": 4, "gone": True}, one | {"id": 2, "seq": 5, "gone": True}],
    )
    shop.run("orders", "sums", "log").check()
    two, four = Decimal("2.00"), Decimal("4.00")
    expected = [
        ("c", 1, two, None),
        ("u", 1, four, two),
        ("c", None, two, None),
        ("d", 1, four, four),
    ]
    assert rows_of(shop, "log") == sorted_values(expected)
