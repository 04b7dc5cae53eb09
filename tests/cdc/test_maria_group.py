"""A real MariaDB with tables of generated shapes, mirrored by a group while rows and
shapes change, and while the runner, the connector and the broker are killed: each table
is what the database says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cdc.changing import RENAMED
from tests.cdc.feed import JSON, feeding
from tests.cdc.maria_tables import SIGNALS, MariaDatabase
from tests.cdc.mirror import GROUP, make_mirror
from tests.cdc.scene import Scene
from tests.servers.broker import Broker
from tests.servers.mariadb import PASSWORD, USER, MariaDb, has_mariadb
from tests.servers.process import LOOPBACK, running
from tests.servers.runner import Runner

pytestmark = pytest.mark.skipif(
    not has_mariadb(), reason="apt-get install mariadb-server"
)

NAME = "maria_tables"


@pytest.fixture
def mariadb() -> Iterator[MariaDb]:
    with running(MariaDb()) as mariadb:
        yield mariadb


def connector_of(mariadb: MariaDb, broker: Broker) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(mariadb.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": "5401",
        "database.include.list": "shop",
        "schema.history.internal.kafka.bootstrap.servers": broker.servers,
        "schema.history.internal.kafka.topic": f"{NAME}.history",
        "signal.data.collection": SIGNALS,
        "incremental.snapshot.chunk.size": "3",
        "decimal.handling.mode": "precise",
        "key.converter": JSON,
        "key.converter.schemas.enable": "true",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "value.converter.replace.null.with.default": "false",
    }


def test_each_table_of_mariadb_is_what_it_says(
    mariadb: MariaDb, own_broker: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    option = pytestconfig.getoption
    chance, database = (
        random.Random(option("--database-seed")),
        MariaDatabase(mariadb, option("--database-seed")),
    )
    database.make_tables(option("--database-tables"))
    rename = {
        table.source: table.member
        for table in database.tables
        if table.source in RENAMED
    }
    mirror = make_mirror(
        tmp_path / "project", own_broker, NAME, exclude=[SIGNALS], rename=rename
    )
    runner, connector = (
        Runner(mirror.directory, GROUP),
        connector_of(mariadb, own_broker),
    )
    with feeding(
        NAME, mariadb, own_broker, tmp_path / "connect", "debezium-mariadb", connector
    ) as feed:
        scene = Scene(
            database, feed, mirror, runner, f"{NAME}.shop.marks", tmp_path / "told.txt"
        )
        scene.play(chance, option("--database-rounds"), option("--database-kills"))
