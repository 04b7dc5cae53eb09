"""A real PostgreSQL with many tables of generated shapes, mirrored by a group while
rows and shapes change, and while the runner, the connector and the broker are killed:
each table is the database's, or the run says which is not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cdc.changing import RENAMED
from tests.cdc.feed import JSON, feeding
from tests.cdc.many_tables import SIGNALS, Database
from tests.cdc.mirror import GROUP, make_mirror
from tests.cdc.scene import Scene
from tests.cdc.test_postgres import connector_to
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.servers.runner import Runner

CONVERTER = {"": JSON, ".schemas.enable": "true", ".replace.null.with.default": "false"}
NAME = "many"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with running(Postgres(wal_level="logical")) as postgres:
        yield postgres


def connector_of(postgres: Postgres, database: Database) -> dict[str, str]:
    """The settings of a connector of all tables, whose partitions' changes are their
    roots', and which reads of a table that others inherit from its own rows alone."""
    told = {
        f"{part}.converter{setting}": value
        for part in ("key", "value")
        for setting, value in CONVERTER.items()
    }
    told["decimal.handling.mode"] = "precise"
    connector = {
        **connector_to(postgres, NAME, told),
        "publication.autocreate.mode": "disabled",
    }
    del connector["table.include.list"]
    parents = [table for table in database.tables if table.is_parent]
    overrides = {
        f"snapshot.select.statement.overrides.{it.source}": f"SELECT * FROM ONLY {it.full}"
        for it in parents
    }
    if parents:
        overrides["snapshot.select.statement.overrides"] = ",".join(
            table.source for table in parents
        )
    return connector | {
        "table.exclude.list": ".*__leaf[0-9]",
        "signal.data.collection": SIGNALS,
        "incremental.snapshot.chunk.size": "3",
        **overrides,
    }


def test_each_table_is_what_the_database_says(
    postgres: Postgres, own_broker: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    option = pytestconfig.getoption
    chance, database = (
        random.Random(option("--database-seed")),
        Database(postgres, option("--database-seed")),
    )
    database.make_tables(option("--database-tables"))
    postgres.execute(
        f"CREATE PUBLICATION {NAME} FOR ALL TABLES WITH (publish_via_partition_root = true)"
    )
    rename = {
        table.source: table.member
        for table in database.tables
        if table.source in RENAMED
    }
    mirror = make_mirror(
        tmp_path / "project",
        own_broker,
        NAME,
        exclude=["public.debezium_signal"],
        rename=rename,
    )
    runner, connector = (
        Runner(mirror.directory, GROUP),
        connector_of(postgres, database),
    )
    with feeding(
        NAME, postgres, own_broker, tmp_path / "connect", "debezium-postgres", connector
    ) as feed:
        scene = Scene(
            database,
            feed,
            mirror,
            runner,
            f"{NAME}.public.marks",
            tmp_path / "told.txt",
        )
        scene.play(chance, option("--database-rounds"), option("--database-kills"))
