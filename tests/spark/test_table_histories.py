"""Histories of tables against plain Python: the versions of the rows of a SELECT over
tables that change."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation

from lakesql.events import BatchCommitted, Noted, StepApplied
from tests.spark.project import Project, Row
from tests.spark.random_inputs import rewrite_all
from tests.spark.test_maintenance import ALL_TIME

pytestmark = [pytest.mark.spark, pytest.mark.long]

ORDERS = {
    "id": "int",
    "customer": "int",
    "amount": "decimal(10,2)",
    "seq": "int",
    "gone": "boolean",
}
CUSTOMERS = {"id": "int", "country": "string", "seq": "int", "gone": "boolean"}
ADDED = ["valid_from", "valid_to", "is_current"]


@dataclass(frozen=True)
class Case:
    """A SELECT, its keys, what it makes of the rows of both tables, and the columns
    that are tracked, if not all."""

    select: str
    keys: list[str]
    rows: Callable[[list[Row], list[Row]], Iterable[Row]]
    tracked: tuple[str, ...] = ()


def with_country(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    countries = {it["id"]: it["country"] for it in customers}
    return [
        {
            "id": it["id"],
            "amount": it["amount"],
            "country": countries.get(it["customer"]),
        }
        for it in orders
    ]


def per_customer(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    for customer in {it["customer"] for it in orders}:
        amounts = [it["amount"] for it in orders if it["customer"] == customer]
        known = [amount for amount in amounts if amount is not None]
        yield {
            "customer": customer,
            "n": len(amounts),
            "amount": sum(known) if known else None,
        }


def nested(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    for it in orders:
        ratio = (
            None
            if it["amount"] is None
            else math.nan
            if it["amount"] > 8
            else float(it["amount"])
        )
        yield {
            "id": it["id"],
            "both": {"a": it["amount"], "c": [it["customer"]]},
            "ratio": ratio,
        }


CASES = {
    "dear": Case(
        "SELECT id, customer, amount FROM {orders!r} WHERE amount > 5",
        ["id"],
        lambda orders, _: [
            {name: it[name] for name in ("id", "customer", "amount")}
            for it in orders
            if it["amount"] is not None and it["amount"] > 5
        ],
    ),
    "joined": Case(
        "SELECT o.id, o.amount, c.country FROM {orders!r} o LEFT JOIN {customers!r} c ON c.id = o.customer",
        ["id"],
        with_country,
    ),
    "grouped": Case(
        "SELECT customer, count(*) AS n, sum(amount) AS amount FROM {orders!r} GROUP BY customer",
        ["customer"],
        per_customer,
    ),
    "moving": Case(
        "SELECT customer, id, amount FROM {orders!r}",
        ["customer", "id"],
        lambda orders, _: [
            {name: it[name] for name in ("customer", "id", "amount")} for it in orders
        ],
    ),
    "tracked": Case(
        "SELECT * FROM {customers!r}",
        ["id"],
        lambda _, customers: customers,
        ("country",),
    ),
    "nested": Case(
        "SELECT id, named_struct('a', amount, 'c', array(customer)) AS both, "
        "CASE WHEN amount > 8 THEN double('NaN') ELSE CAST(amount AS double) END AS ratio FROM {orders!r}",
        ["id"],
        nested,
    ),
    "keys_alone": Case(
        "SELECT DISTINCT country FROM {customers!r}",
        ["country"],
        lambda _, customers: [
            {"country": country} for country in {it["country"] for it in customers}
        ],
    ),
}


class Oracle:
    """The versions of one case, by what its tables held when it was refreshed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.versions: list[Row] = []

    def refresh(self, orders: list[Row], customers: list[Row], at: datetime) -> None:
        keys, tracked = self.case.keys, self.case.tracked
        now = {
            repr([row[key] for key in keys]): row
            for row in self.case.rows(orders, customers)
        }
        current = {
            repr([it[key] for key in keys]): it
            for it in self.versions
            if it["is_current"]
        }
        for key, version in current.items():
            names = tracked or [name for name in version if name not in ADDED]
            if key not in now or any(
                repr(now[key][name]) != repr(version[name]) for name in names
            ):
                version |= {"valid_to": at, "is_current": False}
            else:
                now.pop(key)
        self.versions += [
            row | {"valid_from": at, "valid_to": None, "is_current": True}
            for row in now.values()
        ]

    def rows(self) -> list[str]:
        return shown(self.versions)


def shown(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.fixture
def shop(project: Project) -> Project:
    """Two tables that are kept by what arrives, none of which has a row yet."""
    project.stream("order_states", ORDERS)
    project.stream("customer_states", CUSTOMERS)
    keyed = {
        "mode": "upsert",
        "keys": "id",
        "sequence_by": "seq",
        "delete_when": "gone",
        "maintenance": ALL_TIME,
    }
    project.model(
        "orders", "SELECT id, customer, amount, seq, gone FROM {order_states}", **keyed
    )
    project.model(
        "customers", "SELECT id, country, seq, gone FROM {customer_states}", **keyed
    )
    return project


class Changes:
    """Random records of the two streams."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seq = 0

    def record(self, project: Project, counts: Iterable[int] = (0, 1, 4)) -> None:
        """Records of some of the streams, perhaps of none."""
        pick, choices = self.random, list(counts)
        for topic in ("order_states", "customer_states"):
            records = []
            for _ in range(pick.choice(choices)):
                self.seq += 1
                row: Row = {"seq": self.seq, "gone": pick.random() < 0.25}
                if topic == "order_states":
                    row |= {
                        "id": pick.randrange(8),
                        "customer": pick.choice([None, 1, 2, 3]),
                    }
                    row |= {"amount": pick.choice([None, "1.50", "7.25", "9.00"])}
                else:
                    row |= {
                        "id": pick.randrange(1, 5),
                        "country": pick.choice([None, "NL", "BE"]),
                    }
                records.append(row)
            if records:
                project.record(topic, records)


def newest_change(project: Project, *tables: str) -> datetime:
    """When rows of one of the tables were changed last: a rewrite of its files changes
    none."""
    times = [
        snapshot.timestamp_ms
        for table in tables
        for snapshot in project.iceberg(table).metadata.snapshots
        if snapshot.summary is not None
        and snapshot.summary.operation != Operation.REPLACE
    ]
    return datetime.fromtimestamp(max(times) / 1000, UTC)


def add_histories(project: Project) -> None:
    for name, case in CASES.items():
        tracked = {"track_columns": list(case.tracked)} if case.tracked else {}
        project.model(
            name,
            case.select,
            mode="scd2",
            keys=case.keys,
            maintenance=ALL_TIME,
            **tracked,
        )


def tables_of(case: Case) -> list[str]:
    return [name for name in ("orders", "customers") if f"{{{name}!r}}" in case.select]


@pytest.mark.parametrize("seed", range(3))
def test_a_history_has_the_versions_that_plain_python_has(
    shop: Project, seed: int
) -> None:
    changes, session, random_ = Changes(seed), shop.lake.session, random.Random(seed)
    add_histories(shop)
    oracles = {name: Oracle(case) for name, case in CASES.items()}
    changes.record(shop, [6])
    for round_ in range(7):
        if round_ == 2:  # somebody else deletes and updates, too
            session.sql(f"DELETE FROM {shop.table('orders')} WHERE id = 3")
            session.sql(
                f"UPDATE {shop.table('customers')} SET country = 'PT' WHERE country IS NULL"
            )
        if round_ == 4:
            rewrite_all(shop, "orders")
        if round_ in (3, 5):
            broken, step = (
                random_.choice(list(CASES)),
                random_.choice(["look-up", "stage", "publish", "finish"]),
            )

            def stop(
                model: str, reached: str, broken: str = broken, step: str = step
            ) -> None:
                if (model, reached) == (broken, step):
                    raise KeyboardInterrupt(step)

            shop.run(reached=stop)
        ran = shop.run().check()
        orders, customers = (
            shop.rows_without_spark("orders"),
            shop.rows_without_spark("customers"),
        )
        for name, oracle in oracles.items():
            oracle.refresh(
                orders, customers, newest_change(shop, *tables_of(oracle.case))
            )
            assert shown(shop.rows(name)) == oracle.rows(), f"{name}, round {round_}"
            assert len(ran.of(BatchCommitted, name)) <= 1
        assert not [
            it for it in shop.run().check().of(BatchCommitted) if it.model in CASES
        ]
        assert {it.model for it in shop.run_without_java(*CASES)} == CASES.keys()
        changes.record(shop)


def order(key: int, seq: int, amount: str = "7.25", **more: Any) -> Row:
    return {
        "id": key,
        "customer": 1,
        "amount": amount,
        "seq": seq,
        "gone": False,
        **more,
    }


def add_past(
    project: Project, select: str = "SELECT id, amount FROM {orders!r}", **config: Any
) -> None:
    project.model("past", select, **{"mode": "scd2", "keys": "id", **config})


def amounts(project: Project) -> list[tuple[Any, ...]]:
    """Each version: its key and amount, and whether it is current."""
    rows = sorted(project.rows("past"), key=lambda row: (row["id"], row["valid_from"]))
    return [(row["id"], str(row["amount"]), row["is_current"]) for row in rows]


def check_times(project: Project) -> None:
    """Each version of a key ends where the next one begins, or before, and one is
    current at most."""
    versions = sorted(
        project.rows("past"), key=lambda row: (row["id"], row["valid_from"])
    )
    for version in versions:
        assert version["is_current"] == (version["valid_to"] is None)
        assert version["is_current"] or version["valid_from"] < version["valid_to"]
    for earlier, later in pairwise(versions):
        assert (
            earlier["id"] != later["id"] or earlier["valid_to"] <= later["valid_from"]
        )


def test_a_refresh_that_is_killed_at_any_step_is_begun_anew_at_the_same_time(
    shop: Project,
) -> None:
    shop.record("order_states", [order(1, 1)])
    add_past(shop)
    expected: list[tuple[datetime, datetime | None]] = []
    for seq, step in enumerate(("look-up", "stage", "publish", "finish"), 2):

        def stop(model: str, reached: str, step: str = step) -> None:
            if (model, reached) == ("past", step):
                raise KeyboardInterrupt(step)

        shop.run("orders", "past", reached=stop)
        shop.run("orders", "past").check()
        at = newest_change(shop, "orders")
        expected = [
            *((begin, at if end is None else end) for begin, end in expected),
            (at, None),
        ]
        found = sorted(shop.rows("past"), key=lambda row: row["valid_from"])
        assert [(row["valid_from"], row["valid_to"]) for row in found] == expected
        shop.record("order_states", [order(1, seq, f"{seq}.00")])


def test_a_history_that_fails_leaves_no_table_and_no_version(shop: Project) -> None:
    add_past(shop, "SELECT id, 1 / (amount - 2) AS amount FROM {orders!r}")
    shop.record("order_states", [order(1, 1, "2.00")])
    assert not shop.run().succeeded
    assert not shop.has("past")
    shop.record("order_states", [order(1, 2, "3.00")])
    shop.run().check()
    before = amounts(shop)
    shop.record("order_states", [order(1, 3, "2.00"), order(2, 3)])
    assert not shop.run().succeeded
    assert amounts(shop) == before


def test_keys_that_do_not_tell_rows_apart_are_refused(shop: Project) -> None:
    add_past(shop, "SELECT customer AS id, amount FROM {orders!r}")
    shop.record("order_states", [order(1, 1), order(2, 1), order(3, 1, customer=None)])
    assert shop.run().conditions("past") == ["view-keys-twice"]
    assert not shop.has("past")
    shop.record("order_states", [order(2, 2, gone=True)])
    shop.run().check()
    # equal to the version that is there, and twice
    shop.record("order_states", [order(4, 3, customer=None)])
    assert shop.run().conditions("past") == ["view-keys-twice"]
    assert len(shop.rows("past")) == 2


def test_a_rebuild_keeps_the_versions_and_says_so(shop: Project) -> None:
    add_past(shop)
    shop.record("order_states", [order(1, 1, "1.00")])
    shop.rebuild("orders", "past").check()  # there is no table yet: it is run as ever
    shop.record("order_states", [order(1, 2, "2.00")])
    shop.run().check()
    before = shop.rows("past")
    ran = shop.rebuild("past").check()
    assert shop.rows("past") == before
    assert not ran.of(BatchCommitted)
    assert any("keeps its versions" in it.text for it in ran.of(Noted, "past"))
    shop.record("order_states", [order(1, 3, "3.00"), order(2, 3, "4.00")])
    shop.run("orders").check()
    shop.rebuild("orders", "past").check()
    expected = [
        (1, "1.00", False),
        (1, "2.00", False),
        (1, "3.00", True),
        (2, "4.00", True),
    ]
    assert amounts(shop) == expected
    shop.rebuild("orders").check()  # what it reads is exchanged by the same rows
    shop.run("past").check()
    assert amounts(shop) == expected


def test_another_select_begins_versions_of_the_rows_that_differ(shop: Project) -> None:
    add_past(shop)
    shop.record("order_states", [order(1, 1, "1.00"), order(2, 1, "9.00")])
    shop.run().check()
    add_past(
        shop,
        "SELECT id, CASE WHEN id = 1 THEN amount + 1 ELSE amount END AS amount FROM {orders!r}",
    )
    ran = shop.run("past").check()
    assert [it.refreshed for it in ran.of(BatchCommitted, "past")] == [
        "1 version begun, 1 ended"
    ]
    assert amounts(shop) == [(1, "1.00", False), (1, "2.00", True), (2, "9.00", True)]
    check_times(shop)
    # one more column, which all rows differ in
    add_past(shop, "SELECT id, amount, customer FROM {orders!r}")
    ran = shop.run("past").check()
    assert any("add 1 column" in it.text for it in ran.of(StepApplied, "past"))
    assert [
        (row["amount"], row["customer"])
        for row in shop.rows("past")
        if row["is_current"]
    ] == [
        (Decimal("1.00"), 1),
        (Decimal("9.00"), 1),
    ]
    # one goes: nothing differs, and nothing is lost
    add_past(shop, "SELECT id, customer FROM {orders!r}")
    before = shop.rows("past")
    shop.run("past").check()
    assert shop.rows("past") == before
    shop.record("order_states", [order(1, 2, customer=2)])
    shop.run().check()
    newest = max(shop.rows("past"), key=lambda row: row["valid_from"])
    assert (newest["id"], newest["customer"], newest["amount"]) == (1, 2, None)
    add_past(shop, "SELECT id, customer FROM {orders!r}", valid_from="since")
    shop.record("order_states", [order(1, 3, customer=3)])
    shop.run("orders").check()
    assert shop.run("past").conditions("past") == ["schema-change"]
    add_past(shop, "SELECT id, CAST(customer AS string) AS customer FROM {orders!r}")
    assert shop.run("past").conditions("past") == ["type-change"]
    check_times(shop)


@pytest.mark.parametrize("policy", ["ignore", "fail", "sync_all_columns"])
def test_columns_come_and_go_as_the_model_says(shop: Project, policy: str) -> None:
    add_past(shop, on_schema_change=policy)
    shop.record("order_states", [order(1, 1, "1.00")])
    shop.run().check()
    add_past(
        shop,
        "SELECT id, customer, CAST(amount + 1 AS decimal(10,2)) AS amount FROM {orders!r}",
        on_schema_change=policy,
    )
    if policy == "fail":
        assert shop.run("past").conditions("past") == ["schema-change"]
        return
    shop.run("past").check()
    assert amounts(shop) == [(1, "1.00", False), (1, "2.00", True)]
    assert ("customer" in shop.rows("past")[0]) == (policy == "sync_all_columns")
    add_past(shop, "SELECT id, customer FROM {orders!r}", on_schema_change=policy)
    shop.run("past").check()
    assert ("amount" in shop.rows("past")[0]) == (policy == "ignore")
    check_times(shop)


def test_versions_that_another_mode_or_other_keys_would_lose_are_refused(
    shop: Project,
) -> None:
    add_past(shop)
    shop.record("order_states", [order(1, 1, "1.00")])
    shop.run().check()
    before, select = shop.rows("past"), "SELECT id, amount FROM {orders!r}"
    for condition, options in (
        ("mode-changed", {"mode": "materialized_view", "keys": "id"}),
        ("keys-changed", {"mode": "scd2", "keys": ["id", "amount"]}),
    ):
        shop.model("past", select, **options)
        assert shop.run("past").conditions("past") == [condition]
        assert shop.rebuild("past").conditions("past") == [condition]
    shop.model("past", select, mode="table")
    assert shop.run("past").conditions("past") == ["mode-changed"]
    shop.model(
        "past",
        "SELECT id, amount, seq FROM {order_states}",
        mode="scd2",
        keys="id",
        sequence_by="seq",
    )
    assert shop.run("past").conditions("past") == ["mode-changed"]
    assert shop.rows("past") == before
    add_past(shop, keys="ID")
    shop.run("past").check()
    shop.model("past", select, mode="table", table="now")
    shop.run("past").check()
    add_past(shop, table="now")
    assert shop.run("past").conditions("past") == ["mode-changed"]
    assert shop.rows("past") == before


def test_versions_begin_after_those_that_are_there_when_an_input_is_rolled_back(
    shop: Project,
) -> None:
    add_past(shop)
    for seq in (1, 2):
        shop.record("order_states", [order(1, seq, f"{seq}.00")])
        shop.run().check()
    catalog, namespace, table = shop.table("orders").split(".")
    first = shop.sql(
        f"SELECT snapshot_id FROM {shop.table('orders')}.snapshots ORDER BY committed_at LIMIT 1"
    )
    (snapshot,) = (row["snapshot_id"] for row in first)
    shop.sql(
        f"CALL {catalog}.system.rollback_to_snapshot('{namespace}.{table}', {snapshot})"
    )
    began = datetime.now(UTC)
    shop.run("past").check()
    assert amounts(shop) == [(1, "1.00", False), (1, "2.00", False), (1, "1.00", True)]
    assert max(row["valid_from"] for row in shop.rows("past")) >= began.replace(
        microsecond=0
    )
    check_times(shop)


def test_versions_that_somebody_else_has_written_are_continued(shop: Project) -> None:
    session, past = shop.lake.session, shop.table("past")
    shop.record(
        "order_states", [order(1, 1, "1.00"), order(2, 1, "2.00"), order(3, 1, "3.00")]
    )
    shop.run("orders").check()
    session.sql(
        f"CREATE TABLE {past} USING iceberg AS SELECT id, CAST(amount AS decimal(10,2)) AS amount, "
        "TIMESTAMP '2100-01-01 00:00:00.0005' AS valid_from, CAST(NULL AS timestamp) AS valid_to, true AS is_current "
        "FROM VALUES (1, 1.00), (2, 9.00) AS made(id, amount)"
    )
    add_past(shop)
    ran = shop.run("past").check()
    assert any("take over" in it.text for it in ran.of(Noted, "past"))
    assert amounts(shop) == [
        (1, "1.00", True),
        (2, "9.00", False),
        (2, "2.00", True),
        (3, "3.00", True),
    ]
    check_times(shop)
    session.sql(f"UPDATE {past} SET amount = 8 WHERE id = 1")
    session.sql(f"DELETE FROM {past} WHERE id = 3")
    assert not shop.run_without_java("past")
    ran = shop.run("past").check()
    assert any(
        "somebody else may have changed" in it.text for it in ran.of(Noted, "past")
    )
    assert [it for it in amounts(shop) if it[2]] == [
        (1, "1.00", True),
        (2, "2.00", True),
        (3, "3.00", True),
    ]
    check_times(shop)
    assert shop.run_without_java("past")


def test_what_another_model_has_written_is_not_continued(shop: Project) -> None:
    shop.record("order_states", [order(1, 1)])
    shop.run("orders").check()
    add_past(
        shop, table="orders", select="SELECT id, country AS amount FROM {customers!r}"
    )
    (shop.directory / "models" / "orders.sql").unlink()
    shop.run("customers")
    assert shop.run("past").conditions("past") == ["table-of-another"]


def test_what_is_expected_of_its_rows_stops_a_history(shop: Project) -> None:
    add_past(shop)
    expect = [
        {"that": "amount > 1", "on_fail": "stop"},
        {"that": "id < 2", "on_fail": "warn"},
    ]
    shop.write(
        "models/past.yml", json.dumps({"models": [{"name": "past", "expect": expect}]})
    )
    shop.record("order_states", [order(1, 1, "2.00"), order(2, 1, "2.00")])
    (first,) = shop.run().check().of(BatchCommitted, "past")
    assert first.violations == (("id < 2", 1),)
    shop.record("order_states", [order(1, 2, "1.00")])
    assert shop.run().conditions("past") == ["expectation-failed"]
    assert amounts(shop) == [(1, "2.00", True), (2, "2.00", True)]


def test_a_select_that_asks_for_the_time_is_compared_by_each_run(shop: Project) -> None:
    add_past(
        shop,
        "SELECT id, amount, current_timestamp() AS seen FROM {orders!r}",
        track_columns=["amount"],
    )
    shop.record("order_states", [order(1, 1, "1.00")])
    shop.run().check()
    assert not shop.run_without_java("past")
    # what is not tracked is another one
    assert not shop.run("past").check().of(BatchCommitted)
    add_past(
        shop,
        "SELECT id, date_trunc('second', current_timestamp()) AS amount FROM {orders!r}",
        table="other",
    )
    shop.run("past").check()
    (one,) = shop.rows("other")
    assert one["valid_from"] >= one["amount"]


def test_a_map_that_a_star_brings_is_refused(shop: Project) -> None:
    shop.lake.session.sql(
        f"CREATE TABLE {shop.table('maps')} USING iceberg AS SELECT 1 AS id, map('a', 1) AS amount"
    )
    star = f"SELECT * FROM {shop.table('maps')}"
    add_past(shop, star)
    assert shop.run("past").conditions("past") == ["key-type"]
    add_past(shop, star, track_columns=["amuont"])
    assert shop.run("past").conditions("past") == ["unknown-column"]
    add_past(shop, star, keys="nothing", track_columns=["amount"])
    assert shop.run("past").conditions("past") == ["key-not-selected"]
    add_past(shop, f"SELECT *, true AS is_current FROM {shop.table('maps')}")
    assert shop.run("past").conditions("past") == ["duplicate-column"]
    assert not shop.has("past")
    add_past(
        shop,
        f"SELECT id, map_entries(amount) AS amount FROM {shop.table('maps')}",
        partition_by=["is_current"],
    )
    shop.run("past").check()
    session = shop.lake.session
    session.sql(f"INSERT INTO {shop.table('maps')} VALUES (2, map('b', 2))")
    session.sql(f"UPDATE {shop.table('maps')} SET amount = map('a', 2) WHERE id = 1")
    shop.run("past").check()
    assert [
        (row["id"], row["is_current"])
        for row in sorted(shop.rows("past"), key=lambda row: row["valid_from"])
    ] == [
        (1, False),
        (1, True),
        (2, True),
    ]


def test_a_star_brings_the_columns_of_a_view_and_not_those_that_lakesql_needs(
    shop: Project,
) -> None:
    sums = (
        "SELECT customer AS id, sum(amount) AS amount FROM {orders!r} GROUP BY customer"
    )
    shop.model("sums", sums, mode="materialized_view")
    add_past(shop, "SELECT * FROM {sums!r}")
    for seq, amount in enumerate(("1.00", "2.00"), 1):
        shop.record("order_states", [order(1, seq, amount)])
        shop.run().check()
    assert amounts(shop) == [(1, "1.00", False), (1, "2.00", True)]
    assert [*shop.rows("past")[0]] == ["id", "amount", *ADDED]
    shop.model(
        "again", "SELECT * FROM {past!r}", mode="scd2", keys=["id", "valid_from"]
    )
    assert {*shop.run("again").conditions("again")} == {"duplicate-column"}
    names = {name: f"{name}_again" for name in ADDED}
    shop.model(
        "again",
        "SELECT * FROM {past!r}",
        mode="scd2",
        keys=["id", "valid_from"],
        **names,
    )
    shop.run("again").check()
    assert {row["is_current_again"] for row in shop.rows("again")} == {True}


def test_its_changes_are_logged_and_joined_by_other_models(shop: Project) -> None:
    add_past(shop)
    shop.model(
        "log",
        "SELECT _change.op AS op, id, amount, is_current FROM {past}",
        mode="append",
    )
    shop.model(
        "current",
        "SELECT id, amount FROM {past!r} WHERE is_current",
        mode="materialized_view",
        keys="id",
    )
    for seq in (1, 2):
        shop.record("order_states", [order(1, seq, f"{seq}.00")])
        shop.run().check()
    assert sorted(
        (row["op"], str(row["amount"]), row["is_current"]) for row in shop.rows("log")
    ) == [
        ("c", "1.00", True),
        ("c", "2.00", True),
        ("u", "1.00", False),
    ]
    assert [(row["id"], str(row["amount"])) for row in shop.rows("current")] == [
        (1, "2.00")
    ]


def test_a_continuous_run_follows_its_inputs(shop: Project) -> None:
    add_past(shop)
    keyed = {
        "mode": "upsert",
        "keys": "id",
        "sequence_by": "seq",
        "delete_when": "gone",
        "maintenance": ALL_TIME,
    }
    shop.model("orders", "SELECT * FROM {order_states}", trigger="1 second", **keyed)
    shop.record("order_states", [order(1, 1, "1.00")])
    found: list[str] = []

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted) and event.model == "past":
            found.append(event.refreshed)
            if event.rows == 1 and len(shop.rows("past")) == 1:
                shop.record("order_states", [order(1, 2, "2.00")])

    shop.run(
        continuous=True, meet=meet, until=lambda: "1 version begun, 1 ended" in found
    ).check()
    assert amounts(shop) == [(1, "1.00", False), (1, "2.00", True)]
