"""Transfers between two tables of a real PostgreSQL, by a real Debezium that tells of
transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cdc.feed import JSON, feeding
from tests.cdc.test_postgres import connector_to
from tests.kafka.bank import ACCOUNTS, DEPOSIT, TABLES, Reader, balances, mirror
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.spark.project import Project

SECONDS = 40
"""For how long money is moved, during which the connector is killed once."""


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with running(Postgres(wal_level="logical")) as postgres:
        for table in TABLES:
            postgres.execute(
                f"CREATE TABLE {table} (id bigint PRIMARY KEY, balance bigint NOT NULL)",
                f"INSERT INTO {table} SELECT id, {DEPOSIT} FROM generate_series(0, {ACCOUNTS - 1}) AS id",
            )
        yield postgres


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


def move_money(postgres: Postgres, over: threading.Event) -> None:
    """Transfers, each in a transaction of the database: some within a table, some of
    many rows, some taken back."""
    chance = random.Random(5)
    while not over.wait(0.05):
        moves = []
        for _ in range(chance.choice([1, 1, 1, 5])):
            amount = chance.randrange(1, 50)
            for sign in ("-", "+"):
                table, account = chance.choice(TABLES), chance.randrange(ACCOUNTS)
                moves.append(
                    f"UPDATE {table} SET balance = balance {sign} {amount} WHERE id = {account}"
                )
        end = "ROLLBACK" if chance.random() < 0.1 else "COMMIT"
        postgres.execute("; ".join(["BEGIN", *moves, end]))


def test_no_reader_sees_another_total(
    postgres: Postgres,
    broker: Broker,
    project: Project,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    name = "transfers"
    told = {
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "provide.transaction.metadata": "true",
    }
    connector = {
        **connector_to(postgres, name, told),
        "table.include.list": ",".join(f"public.{it}" for it in TABLES),
    }
    mirror(project, name)
    total = len(TABLES) * ACCOUNTS * DEPOSIT
    with feeding(
        name,
        postgres,
        broker,
        tmp_path_factory.mktemp("connect"),
        "debezium-postgres",
        connector,
    ) as feed:
        feed.connect.start()
        deadline = time.monotonic() + 120
        while (
            not all(project.has(f"public_{it}") for it in TABLES)
            or count(project) < len(TABLES) * ACCOUNTS
        ):
            assert time.monotonic() < deadline
            project.run(asks=True).check()
        over, reader = threading.Event(), Reader(project, total)
        writer = threading.Thread(target=move_money, args=(postgres, over), daemon=True)
        writer.start()
        ends, killed = time.monotonic() + SECONDS, False

        def until() -> bool:
            nonlocal killed
            if not killed and time.monotonic() > ends - SECONDS / 2:
                killed = True
                feed.connect.kill()
                feed.connect.start()
            if time.monotonic() > ends and not over.is_set():
                over.set()
                writer.join()
            return over.is_set() and (
                balances(project) == wanted(postgres) or time.monotonic() > ends + 120
            )

        with reader.reading():
            project.run(continuous=True, asks=True, until=until, hangs_after_s=400)
    assert balances(project) == wanted(postgres)
    assert reader.wrong == [] and len(reader.states) > 5


def count(project: Project) -> int:
    return sum(len(found) for found in balances(project).values())


def wanted(postgres: Postgres) -> dict[str, dict[int, int]]:
    """What the database has."""
    return {
        table: {
            int(row[0]): int(row[1])
            for row in postgres.rows(f"SELECT id, balance FROM {table}")
        }
        for table in TABLES
    }
