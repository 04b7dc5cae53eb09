"""A real PostgreSQL with many tables of generated shapes, mirrored by a group while rows and shapes change, and while
the runner, the connector and the broker are killed: each table is the database's, or the run says which is not."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cdc.feed import JSON, Feed, feeding, wait_for
from tests.cdc.many_tables import SIGNALS, Database
from tests.cdc.mirror import GROUP, Mirror, make_mirror, problems, wait_for_batches
from tests.cdc.test_postgres import connector_to
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.servers.runner import Runner, of


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with running(Postgres(wal_level="logical")) as postgres:
        yield postgres


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """One that may be killed."""
    with running(Broker(tmp_path / "broker")) as broker:
        yield broker


def connector_of(postgres: Postgres, name: str) -> dict[str, str]:
    """The settings of a connector of all tables, whose partitions' changes are their roots'."""
    told = {"value.converter": JSON, "value.converter.schemas.enable": "true", "decimal.handling.mode": "precise"}
    connector = {**connector_to(postgres, name, told), "publication.autocreate.mode": "disabled"}
    del connector["table.include.list"]
    return connector | {
        "table.exclude.list": ".*__leaf[0-9]",
        "signal.data.collection": SIGNALS,
        "incremental.snapshot.chunk.size": "3",
    }


class Arrival:
    """Waits until all has arrived in the feed that was done until now."""

    def __init__(self, feed: Feed[Postgres], database: Database) -> None:
        self.feed, self.database, self.number = feed, database, 0

    def wait(self) -> None:
        self.number += 1
        self.database.mark(self.number)
        wait_for(self.feed, f"{self.feed.name}.public.marks", f'"id":{self.number}}}')
        time.sleep(2)  # the other topics have it too


def differences(mirror: Mirror, database: Database) -> dict[str, str]:
    """The tables that are not the database's, and how."""
    found = {}
    for table in database.tables:
        wanted, has = database.rows(table), mirror.rows(table.member, list(table.columns))
        if wanted != (has or []) or (has is None and wanted):
            lacks = [row for row in wanted if row not in (has or [])]
            more = [row for row in has or [] if row not in wanted]
            names = f"{[f'{name} {kind.sql}' for name, kind in table.columns.items()]}"
            found[table.source] = f"{names}: lacks {lacks[:3]} and has {more[:3]}" if has is not None else "is missing"
    return found


def test_each_table_is_what_the_database_says(
    postgres: Postgres, own_broker: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, count = pytestconfig.getoption("--database-seed"), pytestconfig.getoption("--database-tables")
    rounds, kills = pytestconfig.getoption("--database-rounds"), pytestconfig.getoption("--database-kills")
    chance, name = random.Random(seed), "many"
    database = Database(postgres, seed)
    database.make_tables(count)
    postgres.execute(f"CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true)")
    mirror = make_mirror(tmp_path / "project", own_broker, name, exclude=["public.debezium_signal"])
    log = (tmp_path / "log.txt").open("w")

    def say(*words: Any, sep: str = " ") -> None:
        print(f"{time.strftime('%H:%M:%S')}", *words, sep=sep, file=log, flush=True)
        print(f"{time.strftime('%H:%M:%S')}", *words, sep=sep, flush=True)

    connector = connector_of(postgres, name)
    with feeding(name, postgres, own_broker, tmp_path / "connect", "debezium-postgres", connector) as feed:
        arrival, runner = Arrival(feed, database), Runner(mirror.directory, GROUP)
        feed.connect.start()
        try:
            arrival.wait()
            say("first run")
            code, events = mirror.run()
            say("code", code, *problems(events), sep="\n  ")
            say("differences", differences(mirror, database), mirror.dead_letters())
            runner.start()
            for number in range(rounds):
                database.change(30)
                if chance.random() < 0.8:
                    say("alter", database.alter())
                database.change(10)
                if runner.process.poll() is not None:
                    say("the runner has ended", runner.process.returncode)
                    runner.start()
                written = wait_for_batches(runner, chance.randrange(1, 4))
                say("batches", written)
                database.change(10)
                time.sleep(chance.random() * 3)
                if number < kills:
                    kind = chance.choice(["runner", "runner", "connect", "broker"])
                    say("kill", kind)
                    if kind == "runner":
                        runner.kill_both()
                        runner.start()
                    elif kind == "connect":
                        feed.connect.kill()
                        feed.connect.start()
                    else:
                        own_broker.kill()
                        own_broker.start()
            database.signal(database.tables)
            database.change(10)
            time.sleep(chance.random() * 3)
            say("kill connect within a chunk")
            feed.connect.kill()
            database.change(10)
            feed.connect.start()
            say("read again", database.read_again())
            database.change(20)
            arrival.wait()
            time.sleep(10)
            arrival.wait()
            deadline = time.monotonic() + 300
            while (unequal := differences(mirror, database)) and time.monotonic() < deadline:
                time.sleep(2)
            say("kept fresh, but for", unequal, "dead letters", mirror.dead_letters())
            say("stop", runner.terminate(60))
            say("said", *sorted({e["text"] for run in runner.runs for e in of(run, "noted")})[:60], sep="\n  ")
        finally:
            runner.stop()
        for _ in range(1):
            code, events = mirror.run()
            say("code", code, *problems(events), sep="\n  ")
            (tmp_path / "statements.sql").write_text(";\n".join(database.statements))
            unequal = differences(mirror, database)
            for table, how in unequal.items():
                say("DIFFERENT", table, how)
            say("dead letters", mirror.dead_letters())
    assert not unequal and code == 0
