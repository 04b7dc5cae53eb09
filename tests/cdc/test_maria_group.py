"""A real MariaDB with tables of generated shapes, mirrored by a group while rows and shapes change: each is equal."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cdc.feed import JSON, feeding, wait_for, wait_for_changes
from tests.cdc.mirror import Mirror, make_mirror, problems
from tests.cdc.shapes import Kind, plain
from tests.servers.broker import Broker
from tests.servers.mariadb import PASSWORD, USER, MariaDb, has_mariadb
from tests.servers.process import LOOPBACK, running

pytestmark = pytest.mark.skipif(not has_mariadb(), reason="apt-get install mariadb-server")

NAME = "maria_tables"
CHAR = "CAST({} AS CHAR)"
KINDS = (
    Kind("int", ("0", "-2147483648", "2147483647"), int, CHAR),
    Kind("bigint", ("0", "-9223372036854775808", "9223372036854775807"), int, CHAR),
    Kind("varchar(20)", ("''", "'é'", "'a''b'", "'exactly twenty chars'"), str, CHAR),
    Kind("decimal(10,2)", ("0", "-0.01", "99999999.99"), Decimal, CHAR),
    Kind("double", ("0.5", "1e300", "-2.5"), float, CHAR),
    Kind("datetime(6)", ("'2026-01-02 03:04:05.000006'", "'1900-01-01'"), datetime.fromisoformat, CHAR),
    Kind("date", ("'2026-02-03'", "'9999-12-31'"), date.fromisoformat, CHAR),
    Kind("enum('new', 'old')", ("'new'", "'old'"), str, CHAR),
    Kind("blob", ("x'00FF'", "''"), bytes.fromhex, "HEX({})"),
    Kind("text", ("repeat('long', 500)", "''"), str, CHAR),
)
WIDER = {"int": KINDS[1], "varchar(20)": Kind("varchar(200)", ("repeat('x', 200)",), str, CHAR)}
KEYS = {
    "id": Kind("bigint", tuple(map(str, range(12))), int, CHAR),
    "part": Kind("varchar(10)", ("'a'", "'b'"), str, CHAR),
    "code": Kind("varchar(10)", ("'k1'", "'k2'", "'k3'", "''"), str, CHAR),
}
NAMES = ("orders", "Orders2", "line items", "select", "a-b", "größe")


def quoted(name: str) -> str:
    return f"`{name}`"


@dataclass(slots=True)
class Table:
    """A table, its columns in their order, and those of its key."""

    name: str
    key: tuple[str, ...]
    columns: dict[str, Kind] = field(default_factory=dict)

    @property
    def member(self) -> str:
        return re.sub(r"[^A-Za-z0-9_]", "_", f"shop_{self.name}")


class Source:
    """Tables of random shapes, and random changes of their rows and of these shapes."""

    def __init__(self, database: MariaDb, seed: int) -> None:
        self.database, self.chance = database, random.Random(seed)
        self.tables: list[Table] = []
        database.execute("CREATE TABLE marks (id int PRIMARY KEY)")

    def make(self, name: str) -> None:
        """A table with some rows."""
        table = Table(name, self.chance.choice([("id",), ("id", "part"), ("code",)]))
        table.columns = {part: KEYS[part] for part in table.key}
        table.columns |= {f"c {n}": self.chance.choice(KINDS) for n in range(self.chance.randrange(1, 5))}
        declared = [f"{quoted(column)} {kind.sql}" for column, kind in table.columns.items()]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
        self.database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(declared)}) COLLATE utf8mb4_bin")
        self.tables.append(table)
        self.database.execute(*(self.insert(table) for _ in range(6)))

    def change(self, count: int) -> None:
        """So many transactions, each of some changes in any tables; some are taken back."""
        for _ in range(count):
            some = [self._statement(self.chance.choice(self.tables)) for _ in range(self.chance.choice([1, 1, 3, 10]))]
            self.database.execute("BEGIN", *some, "ROLLBACK" if self.chance.random() < 0.1 else "COMMIT")

    def _statement(self, table: Table) -> str:
        column = self.chance.choice(list(table.columns))
        kind = self.chance.choice(["insert", "insert", "update", "update", "delete"])
        if kind == "insert":
            return self.insert(table)
        where = f"{quoted(table.key[0])} = {self._value(table, table.key[0])}"
        if kind == "delete":
            return f"DELETE FROM {quoted(table.name)} WHERE {where}"
        ignore = "IGNORE " if column in table.key else ""  # another row may have that key
        return f"UPDATE {ignore}{quoted(table.name)} SET {quoted(column)} = {self._value(table, column)} WHERE {where}"

    def _value(self, table: Table, column: str) -> str:
        if column not in table.key and self.chance.random() < 0.2:
            return "NULL"
        return self.chance.choice(table.columns[column].literals)

    def insert(self, table: Table) -> str:
        """A row in the place of the one that has its key."""
        values = ", ".join(self._value(table, column) for column in table.columns)
        return f"REPLACE INTO {quoted(table.name)} ({', '.join(map(quoted, table.columns))}) VALUES ({values})"

    def alter(self, table: Table) -> None:
        """Another shape: a column more, one less, a wider one; or no rows."""
        others = [name for name in table.columns if name not in table.key]
        wider = [name for name in others if table.columns[name].sql in WIDER]
        kind = self.chance.choice(["add", "drop", "widen", "truncate"])
        name = quoted(table.name)
        if kind == "truncate":
            self.database.execute(f"TRUNCATE {name}")
        elif kind == "widen" and wider:
            table.columns[wider[0]] = WIDER[table.columns[wider[0]].sql]
            self.database.execute(f"ALTER TABLE {name} MODIFY {quoted(wider[0])} {table.columns[wider[0]].sql}")
        elif kind == "drop" and len(others) > 1:
            del table.columns[others[0]]
            self.database.execute(f"ALTER TABLE {name} DROP COLUMN {quoted(others[0])}")
        else:
            added = f"added {len(table.columns)}"
            table.columns[added] = self.chance.choice(KINDS)
            self.database.execute(f"ALTER TABLE {name} ADD COLUMN {quoted(added)} {table.columns[added].sql}")

    def rows(self, table: Table) -> list[list[Any]]:
        """What a table holds, as the mirror should have it."""
        shown = ", ".join(kind.select.format(quoted(name)) for name, kind in table.columns.items())
        found = self.database.rows(f"SELECT JSON_ARRAY({shown}) FROM {quoted(table.name)}")
        kinds = list(table.columns.values())
        rows = [
            [None if text is None else plain(kind.read(text)) for text, kind in zip(row, kinds, strict=True)]
            for row in found
        ]
        return sorted(rows, key=repr)


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
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
    }


def test_each_table_of_mariadb_is_what_it_says(
    mariadb: MariaDb, broker: Broker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    source = Source(mariadb, pytestconfig.getoption("--database-seed"))
    for name in NAMES[:4]:
        source.make(name)
    mirror = make_mirror(tmp_path / "project", broker, NAME)
    connector = connector_of(mariadb, broker)
    with feeding(NAME, mariadb, broker, tmp_path / "connect", "debezium-mariadb", connector) as feed:

        def check(mark: int) -> None:
            mariadb.execute(f"INSERT INTO marks VALUES ({mark})")
            wait_for(feed, f"{NAME}.shop.marks", f'"id":{mark}}}')
            time.sleep(2)
            code, events = mirror.run()
            assert differences(mirror, source) == {}, problems(events)
            assert (code, mirror.dead_letters()) == (0, {}), problems(events)

        feed.connect.start()
        wait_for_changes(
            feed, f"{NAME}.shop.marks", lambda number: mariadb.execute(f"INSERT INTO marks VALUES ({number})")
        )
        source.change(10)
        check(1)
        for name in NAMES[4:]:
            source.make(name)
        for table in source.tables:
            source.change(8)
            source.alter(table)
            source.change(8)
        feed.connect.kill()
        source.change(20)
        feed.connect.start()
        check(2)


def differences(mirror: Mirror, source: Source) -> dict[str, Any]:
    """The tables that are not the database's: what they should hold, and what they do."""
    found = {}
    for table in source.tables:
        wanted, has = source.rows(table), mirror.rows(table.member, list(table.columns))
        if wanted != has and (wanted or has):
            found[table.name] = (list(table.columns), wanted, has)
    return found
