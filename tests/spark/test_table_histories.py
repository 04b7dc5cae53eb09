"""Histories of tables against plain Python: the versions of the rows of a SELECT over tables that change."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pyiceberg.table.snapshots import Operation

from lakesql.events import BatchCommitted
from tests.spark.project import Project, Row

pytestmark = [pytest.mark.spark, pytest.mark.long]

ORDERS = {"id": "int", "customer": "int", "amount": "decimal(10,2)", "seq": "int", "gone": "boolean"}
CUSTOMERS = {"id": "int", "country": "string", "seq": "int", "gone": "boolean"}
ADDED = ["valid_from", "valid_to", "is_current"]


@dataclass(frozen=True)
class Case:
    """A SELECT, its keys, what it makes of the rows of both tables, and the columns that are tracked, if not all."""

    select: str
    keys: list[str]
    rows: Callable[[list[Row], list[Row]], Iterable[Row]]
    tracked: tuple[str, ...] = ()


def with_country(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    countries = {it["id"]: it["country"] for it in customers}
    return [{"id": it["id"], "amount": it["amount"], "country": countries.get(it["customer"])} for it in orders]


def per_customer(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    for customer in {it["customer"] for it in orders}:
        amounts = [it["amount"] for it in orders if it["customer"] == customer]
        known = [amount for amount in amounts if amount is not None]
        yield {"customer": customer, "n": len(amounts), "amount": sum(known) if known else None}


def nested(orders: list[Row], customers: list[Row]) -> Iterable[Row]:
    for it in orders:
        ratio = None if it["amount"] is None else math.nan if it["amount"] > 8 else float(it["amount"])
        yield {"id": it["id"], "both": {"a": it["amount"], "c": [it["customer"]]}, "ratio": ratio}


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
        lambda orders, _: [{name: it[name] for name in ("customer", "id", "amount")} for it in orders],
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
        lambda _, customers: [{"country": country} for country in {it["country"] for it in customers}],
    ),
}


class Oracle:
    """The versions of one case, by what its tables held when it was refreshed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.versions: list[Row] = []

    def refresh(self, orders: list[Row], customers: list[Row], at: datetime) -> None:
        keys, tracked = self.case.keys, self.case.tracked
        now = {repr([row[key] for key in keys]): row for row in self.case.rows(orders, customers)}
        current = {repr([it[key] for key in keys]): it for it in self.versions if it["is_current"]}
        for key, version in current.items():
            names = tracked or [name for name in version if name not in ADDED]
            if key not in now or any(repr(now[key][name]) != repr(version[name]) for name in names):
                version |= {"valid_to": at, "is_current": False}
            else:
                now.pop(key)
        self.versions += [row | {"valid_from": at, "valid_to": None, "is_current": True} for row in now.values()]

    def rows(self) -> list[str]:
        return shown(self.versions)


def shown(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.fixture
def shop(project: Project) -> Project:
    """Two tables that are kept by what arrives, none of which has a row yet."""
    project.stream("order_states", ORDERS)
    project.stream("customer_states", CUSTOMERS)
    keyed = {"mode": "upsert", "keys": "id", "sequence_by": "seq", "delete_when": "gone"}
    project.model("orders", "SELECT id, customer, amount, seq, gone FROM {order_states}", **keyed)
    project.model("customers", "SELECT id, country, seq, gone FROM {customer_states}", **keyed)
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
                    row |= {"id": pick.randrange(8), "customer": pick.choice([None, 1, 2, 3])}
                    row |= {"amount": pick.choice([None, "1.50", "7.25", "9.00"])}
                else:
                    row |= {"id": pick.randrange(1, 5), "country": pick.choice([None, "NL", "BE"])}
                records.append(row)
            if records:
                project.record(topic, records)


def newest_change(project: Project, *tables: str) -> datetime:
    """When rows of one of the tables were changed last: a rewrite of its files changes none."""
    times = [
        snapshot.timestamp_ms
        for table in tables
        for snapshot in project.iceberg(table).metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.operation != Operation.REPLACE
    ]
    return datetime.fromtimestamp(max(times) / 1000, UTC)


def add_histories(project: Project) -> None:
    for name, case in CASES.items():
        tracked = {"track_columns": list(case.tracked)} if case.tracked else {}
        project.model(name, case.select, mode="scd2", keys=case.keys, **tracked)


def tables_of(case: Case) -> list[str]:
    return [name for name in ("orders", "customers") if f"{{{name}!r}}" in case.select]


@pytest.mark.parametrize("seed", range(3))
def test_a_history_has_the_versions_that_plain_python_has(shop: Project, seed: int) -> None:
    changes, session, random_ = Changes(seed), shop.lake.session, random.Random(seed)
    add_histories(shop)
    oracles = {name: Oracle(case) for name, case in CASES.items()}
    changes.record(shop, [6])
    for round_ in range(7):
        if round_ == 2:  # somebody else deletes and updates, too
            session.sql(f"DELETE FROM {shop.table('orders')} WHERE id = 3")
            session.sql(f"UPDATE {shop.table('customers')} SET country = 'PT' WHERE country IS NULL")
        if round_ == 4:
            catalog, namespace, table = shop.table("orders").split(".")
            options = "options => map('rewrite-all', 'true')"
            session.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{namespace}.{table}', {options})")
        if round_ in (3, 5):
            broken, step = random_.choice(list(CASES)), random_.choice(["look-up", "stage", "publish", "finish"])

            def stop(model: str, reached: str, broken: str = broken, step: str = step) -> None:
                if (model, reached) == (broken, step):
                    raise KeyboardInterrupt(step)

            shop.run(reached=stop)
        ran = shop.run().check()
        orders, customers = shop.rows_without_spark("orders"), shop.rows_without_spark("customers")
        for name, oracle in oracles.items():
            oracle.refresh(orders, customers, newest_change(shop, *tables_of(oracle.case)))
            assert shown(shop.rows(name)) == oracle.rows(), f"{name}, round {round_}"
            assert len(ran.of(BatchCommitted, name)) <= 1
        assert not [it for it in shop.run().check().of(BatchCommitted) if it.model in CASES]
        assert {it.model for it in shop.run_without_java(*CASES)} == CASES.keys()
        changes.record(shop)
