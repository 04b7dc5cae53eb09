"""A real MariaDB, a real Debezium, a real broker: after whatever happens there, the
table is what a SELECT says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cdc.feed import JSON, Feed, feeding, run_until
from tests.servers.broker import Broker
from tests.servers.mariadb import PASSWORD, USER, MariaDb, has_mariadb
from tests.servers.process import LOOPBACK, running
from tests.spark.project import Project, Row

pytestmark = pytest.mark.skipif(
    not has_mariadb(), reason="apt-get install mariadb-server"
)

ITEMS = """
CREATE TABLE items (
  id bigint, part varchar(20), price decimal(12,2), big bigint unsigned, at datetime(6), ms datetime(3),
  seen timestamp(6) NULL, day date, clock time(6), born year, state enum('new', 'old'), tags set('a', 'b', 'c'),
  doc json, flags bit(10), ok tinyint(1), yes bit(1), data blob, score double, PRIMARY KEY (id, part)
)
"""

COLUMNS: dict[str, Any] = {
    "id": {"type": "bigint", "required": True},
    "part": {"type": "string", "required": True},
    "price": "decimal(12,2)",
    "big": "decimal(20,0)",
    "at": {"type": "timestamp_ntz", "unit": "microseconds"},
    "ms": {"type": "timestamp_ntz", "unit": "milliseconds"},
    "seen": "timestamp",
    "day": "date",
    "clock": {"type": "string", "unit": "microseconds"},
    "born": "int",
    "state": "string",
    "tags": "string",
    "doc": "string",
    "flags": "binary",
    "ok": "boolean",
    "yes": "boolean",
    "data": "binary",
    "score": "double",
}

_SECONDS = "'%Y-%m-%d %H:%i:%s.%f'"
SAID = f"""
SELECT JSON_ARRAY(
  id, part, CAST(price AS CHAR), CAST(big AS CHAR), DATE_FORMAT(at, {_SECONDS}), DATE_FORMAT(ms, {_SECONDS}),
  DATE_FORMAT(seen, {_SECONDS}), NULLIF(CAST(day AS CHAR), '0000-00-00'),
  TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(clock AS CHAR))), IF(born = 0, 1900, born + 0), state, tags,
  CAST(doc AS CHAR), flags + 0, ok + 0, yes + 0, HEX(data), score)
FROM items ORDER BY id, CAST(part AS BINARY)
"""
"""A day that is none arrives as NULL, and the year 0 as 1900: the connector sends them
so."""


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with running(MariaDb()) as mariadb:
        yield mariadb


@pytest.fixture
def feed(mariadb: MariaDb, broker: Broker, tmp_path: Path) -> Iterator[Feed[MariaDb]]:
    """Of the table `items`, to the topic `maria.shop.items`."""
    connector = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(mariadb.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": "5400",
        "database.include.list": "shop",
        "table.include.list": "shop.items",
        "schema.history.internal.kafka.bootstrap.servers": broker.servers,
        "schema.history.internal.kafka.topic": "maria.history",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "value.converter.decimal.format": "NUMERIC",
    }
    with feeding(
        "maria", mariadb, broker, tmp_path, "debezium-mariadb", connector
    ) as feed:
        yield feed


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


def shown(row: Row) -> list[Any]:
    """A row of the table as `SAID` has it."""

    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    def moment(value: Any) -> str | None:
        return None if value is None else value.isoformat(" ", "microseconds")[:26]

    def number(value: Any) -> int | None:
        return None if value is None else int(value)

    flags, data = row["flags"], row["data"]
    return [
        *(row["id"], row["part"], text(row["price"]), text(row["big"])),
        *(moment(row[name]) for name in ("at", "ms", "seen")),
        *(
            text(row["day"]),
            row["clock"],
            row["born"],
            row["state"],
            row["tags"],
            row["doc"],
        ),
        None if flags is None else int.from_bytes(flags, "little"),
        *(
            number(row["ok"]),
            number(row["yes"]),
            None if data is None else data.hex().upper(),
            row["score"],
        ),
    ]


def test_the_mirror_is_what_mariadb_says(feed: Feed[MariaDb], project: Project) -> None:
    database = feed.database
    database.execute(
        ITEMS,
        "INSERT INTO items (id, part, price) SELECT seq, 'p', seq FROM seq_1_to_20",
    )
    feed.broker.create_topic("maria.shop.items")
    feed.connect.start()
    key = ["id", "part"]
    project.stream(
        "s",
        COLUMNS,
        connection="broker",
        topic="maria.shop.items",
        envelope="debezium",
        key=key,
    )
    select = f"SELECT {', '.join(COLUMNS)}, _change.position AS position FROM {{s}}"
    project.model("m", select, mode="cdc", keys=key, sequence_by="_change.position")
    run_until(project, "m", lambda rows: len(rows) == 20)

    def check() -> list[Row]:
        """After a mark that is written last, the table is the SELECT."""
        (mark,) = database.rows(
            "SELECT JSON_ARRAY(coalesce(max(id), 0) + 1000) FROM items"
        )[0]
        database.execute(f"INSERT INTO items (id, part) VALUES ({mark}, 'mark')")
        rows = run_until(
            project,
            "m",
            lambda rows: any(
                (row["id"], row["part"]) == (mark, "mark") for row in rows
            ),
        )
        found = sorted(map(shown, rows), key=lambda row: (row[0], row[1].encode()))
        assert found == database.rows(SAID)
        assert not project.has("m__dead_letter") or project.rows("m__dead_letter") == []
        return rows

    database.execute(
        "UPDATE items SET price = -0.01, big = 18446744073709551615, at = '1900-01-01 00:00:00.000001' WHERE id = 1",
        "UPDATE items SET at = '9999-12-31 23:59:59.999999', ms = '1969-12-31 23:59:59.999' WHERE id = 2",
        "UPDATE items SET seen = '2038-01-19 03:14:07.5', day = '1000-01-01', clock = '07:30:00.5' WHERE id = 3",
        "UPDATE items SET day = '0000-00-00', clock = '-838:59:59.000001', born = 1901 WHERE id = 4",
        "UPDATE items SET clock = '00:00:00', born = 0, state = 'old', tags = 'a,c' WHERE id = 5",
        "UPDATE items SET tags = '', flags = b'1000000011', ok = 1, yes = b'1', day = '9999-12-31' WHERE id = 6",
        'UPDATE items SET doc = \'{"a": [1, 2.50], "b": "\\\\u00e9"}\', data = x\'00FF\', ok = 0, yes = 0 WHERE id = 7',
        "UPDATE items SET score = 1e300, big = 0, data = '', price = 9999999999.99 WHERE id = 8",
        "UPDATE items SET part = 'q' WHERE id = 9",
        "UPDATE items SET id = 100 + id WHERE id IN (10, 11)",
        "BEGIN",
        "UPDATE items SET id = 0 WHERE id = 12",
        "UPDATE items SET id = 12 WHERE id = 13",
        "UPDATE items SET id = 13 WHERE id = 0",
        "COMMIT",
        "DELETE FROM items WHERE id = 14",
        "DELETE FROM items WHERE id = 15",
        "INSERT INTO items (id, part, price) VALUES (15, 'p', 1.10)",
        "BEGIN",
        "INSERT INTO items (id, part, state) SELECT 1000 + seq, 'many', 'new' FROM seq_1_to_2000",
        "UPDATE items SET state = 'old', price = id WHERE part = 'many'",
        "DELETE FROM items WHERE part = 'many' AND id % 2 = 0",
        "COMMIT",
    )
    check()
    # past file 9, whose name is not the smaller one to who compares texts without zeros
    for number in range(10):
        database.execute(
            f"UPDATE items SET price = {number} WHERE id IN (1, 2)", "FLUSH BINARY LOGS"
        )
    database.execute(
        "UPDATE items SET price = 77 WHERE id = 1", "DELETE FROM items WHERE id = 2"
    )
    rows = check()
    assert (
        max(row["position"][0] for row in rows)
        > 9
        > min(row["position"][0] for row in rows)
    )

    database.execute(
        "UPDATE items SET score = 1 WHERE id <= 1100",
        "DELETE FROM items WHERE id = 3",
        "INSERT INTO items (id, part, score) VALUES (3, 'p', 2)",
        "UPDATE items SET score = 3 WHERE id <= 10",
    )
    project.run("m").check()
    feed.connect.kill()
    database.execute(
        "UPDATE items SET score = 4 WHERE id BETWEEN 5 AND 1050",
        "FLUSH BINARY LOGS",
        "DELETE FROM items WHERE id = 4",
    )
    feed.connect.start()
    check()
    database.execute(
        "TRUNCATE items",
        "INSERT INTO items (id, part, price) VALUES (1, 'after', 99.99)",
    )
    assert {row["part"] for row in check()} == {"after", "mark"}
