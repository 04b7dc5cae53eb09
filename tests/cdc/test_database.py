"""A real PostgreSQL with many tables of generated shapes, mirrored by a group while rows and shapes change, and while
the runner, the connector and the broker are killed: each table is the database's, or the run says which is not."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cdc.feed import JSON, Feed, feeding, wait_for, wait_for_changes
from tests.cdc.many_tables import SIGNALS, Database
from tests.cdc.mirror import GROUP, Mirror, make_mirror, problems, wait_for_batches
from tests.cdc.test_postgres import connector_to
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.servers.runner import Runner

CONVERTER = {"": JSON, ".schemas.enable": "true"}
ARRIVES_WITHIN_S = 600
"""The larger ones of these databases take their time."""


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
    told = {f"{part}.converter{setting}": value for part in ("key", "value") for setting, value in CONVERTER.items()}
    told["decimal.handling.mode"] = "precise"
    connector = {**connector_to(postgres, name, told), "publication.autocreate.mode": "disabled"}
    del connector["table.include.list"]
    return connector | {
        "table.exclude.list": ".*__leaf[0-9]",
        "signal.data.collection": SIGNALS,
        "incremental.snapshot.chunk.size": "3",
    }


@dataclass(frozen=True, slots=True)
class Scene:
    """A database and its feed, the mirror and its continuous run, and a file that says what was done."""

    database: Database
    feed: Feed[Postgres]
    mirror: Mirror
    runner: Runner
    told: Path

    def say(self, *words: object) -> None:
        """Write down what happens: a failure is of use only with that."""
        with self.told.open("a") as file:
            print(time.strftime("%H:%M:%S"), *words, file=file)

    def arrive(self, mark: int) -> None:
        """Wait until all is in the feed that was done until now."""
        self.database.mark(mark)
        wait_for(self.feed, f"{self.feed.name}.public.marks", f'"id":{mark}}}', ARRIVES_WITHIN_S)
        time.sleep(2)  # the other topics have it too

    def change(self, chance: random.Random) -> None:
        """Change rows and a shape, wait until some of it is mirrored, and change more."""
        self.database.change(30)
        if chance.random() < 0.8:
            self.say("alter", self.database.alter())
        self.database.change(10)
        if self.runner.process.poll() is not None:  # it found no broker as it started
            self.runner.start()
        self.say("batches", wait_for_batches(self.runner, chance.randrange(1, 4)))
        self.database.change(10)

    def kill(self, chance: random.Random) -> None:
        """End one of the programs as a crash does, and start it again."""
        kind = chance.choice(["runner", "runner", "connect", "broker"])
        self.say("kill", kind)
        if kind == "runner":
            self.runner.kill_both()
            self.runner.start()
        elif kind == "connect":
            self.feed.connect.kill()
            self.feed.connect.start()
        else:
            self.feed.broker.kill()
            self.feed.broker.start()

    def read_again(self, chance: random.Random) -> None:
        """Ask for an incremental snapshot of all tables, between whose chunks rows change and the connector is killed,
        and for one of those whose rows have changed without an event."""
        self.database.signal(self.database.tables)
        self.database.change(10)
        time.sleep(chance.random() * 3)
        self.feed.connect.kill()
        self.database.change(10)
        self.feed.connect.start()
        self.say("read again", self.database.read_again())
        self.database.change(20)

    def check(self) -> None:
        """A run of what is there ends with each table as it is in the database, and with nothing to say."""
        code, events = self.mirror.run()
        members = {f"{table.member}__dead_letter" for table in self.database.tables}
        letters = {name: reasons for name, reasons in self.mirror.dead_letters().items() if name in members}
        unequal = self.differences()
        self.say("code", code, "different", unequal, "dead letters", letters)
        (self.told.parent / "statements.sql").write_text(";\n".join(self.database.statements))
        assert (code, unequal, letters) == (0, {}, {}), problems(events)

    def differences(self) -> dict[str, str]:
        """The tables that are not the database's, and how."""
        found = {}
        for table in self.database.tables:
            wanted, has = self.database.rows(table), self.mirror.rows(table.member, list(table.columns))
            if wanted == has or not (wanted or has):
                continue
            lacks = [row for row in wanted if row not in (has or ())]
            more = [row for row in has or () if row not in wanted]
            columns = [f"{name} {kind.sql}" for name, kind in table.columns.items()]
            found[table.source] = f"{columns}: lacks {lacks[:3]}, has {'no such table' if has is None else more[:3]}"
        return found


def test_each_table_is_what_the_database_says(
    postgres: Postgres, own_broker: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    option, name = pytestconfig.getoption, "many"
    chance, database = random.Random(option("--database-seed")), Database(postgres, option("--database-seed"))
    database.make_tables(option("--database-tables"))
    postgres.execute(f"CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true)")
    mirror = make_mirror(tmp_path / "project", own_broker, name, exclude=["public.debezium_signal"])
    runner, connector = Runner(mirror.directory, GROUP), connector_of(postgres, name)
    with feeding(name, postgres, own_broker, tmp_path / "connect", "debezium-postgres", connector) as feed:
        scene = Scene(database, feed, mirror, runner, tmp_path / "told.txt")
        feed.connect.start()
        wait_for_changes(feed, f"{name}.public.marks", database.mark)
        scene.arrive(1)
        scene.check()
        runner.start()
        try:
            for number in range(option("--database-rounds")):
                scene.change(chance)
                if number < option("--database-kills"):
                    time.sleep(chance.random() * 3)
                    scene.kill(chance)
            scene.arrive(2)
            scene.read_again(chance)
            wait_for(feed, f"{name}.public.marks", '"snapshot":"incremental"', ARRIVES_WITHIN_S)  # which were read last
            scene.arrive(3)
            runner.terminate(120)
        finally:
            runner.stop()
        scene.check()
