"""A group over a real PostgreSQL with many tables: each table is what the database
says, whatever happens to them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cdc.feed import ARRIVES_WITHIN_S, JSON, Feed, feeding
from tests.cdc.test_postgres import connector_to, plain
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.spark.project import Project

KINDS = {
    "bigint": lambda chance: chance.randrange(-(10**12), 10**12),
    "int": lambda chance: chance.randrange(1000),
    "text": lambda chance: chance.choice(["", "é", "a'b", "x" * 50, None]),
    "boolean": lambda chance: chance.choice([True, False, None]),
    "double precision": lambda chance: chance.random(),
    "date": lambda chance: f"2026-0{chance.randrange(1, 9)}-11",
}
"""Types of columns, and what makes a value of each."""

NAMES = ("orders", '"Users"', "users", '"Line Items"', "t1", "t2", "t3", "t4")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with running(Postgres(wal_level="logical")) as postgres:
        yield postgres


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


class Source:
    """Tables of random shapes in a database, and random changes of their rows."""

    def __init__(self, database: Postgres, seed: int) -> None:
        self.chance = random.Random(seed)
        self.columns: dict[str, list[str]] = {}
        self.keys: dict[str, list[str]] = {}
        self.kinds: dict[str, dict[str, str]] = {}
        self.database = database

    def make(self, name: str) -> None:
        """A table with a key of one or two columns, and up to five others."""
        kinds = self.chance.choices([*KINDS], k=self.chance.randrange(1, 6))
        others = [f"c{number}" for number in range(len(kinds))]
        self.keys[name] = ["id", "part"] if self.chance.random() < 0.3 else ["id"]
        self.columns[name] = [*self.keys[name], *others]
        declared = [
            f"{each} {'bigint' if each == 'id' else 'text'} NOT NULL"
            for each in self.keys[name]
        ]
        declared += [
            f"{column} {kind}" for column, kind in zip(others, kinds, strict=True)
        ]
        key = ", ".join(self.keys[name])
        self.database.execute(
            f"CREATE TABLE {name} ({', '.join(declared)}, PRIMARY KEY ({key}))"
        )
        self.kinds[name] = dict(zip(others, kinds, strict=True))

    def add_column(self, name: str) -> None:
        """One column more."""
        self.database.execute(f"ALTER TABLE {name} ADD COLUMN added int")
        self.columns[name].append("added")
        self.kinds[name]["added"] = "int"

    def change(self, name: str, count: int) -> None:
        """So many inserts, updates and deletes."""
        for _ in range(count):
            id_ = self.chance.randrange(20)
            where = f"id = {id_}" + (
                " AND part = 'p'" if "part" in self.keys[name] else ""
            )
            values = {
                column: KINDS[kind](self.chance)
                for column, kind in self.kinds[name].items()
            }
            shown = {
                "id": id_,
                **({"part": "p"} if "part" in self.keys[name] else {}),
                **values,
            }
            texts = {column: literal(value) for column, value in shown.items()}
            updates = ", ".join(f"{column} = {texts[column]}" for column in values)
            if self.chance.random() < 0.25:
                self.database.execute(f"DELETE FROM {name} WHERE {where}")
            else:
                self.database.execute(
                    f"INSERT INTO {name} ({', '.join(texts)}) VALUES ({', '.join(texts.values())}) "
                    f"ON CONFLICT ({', '.join(self.keys[name])}) DO UPDATE SET {updates}"
                )

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """What the database has."""
        found = self.database.rows(
            f"SELECT {', '.join(self.columns[name])} FROM {name}"
        )
        return sorted(tuple(map(plain, row)) for row in found)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def mirrored(
    project: Project, table: str, columns: list[str]
) -> list[tuple[Any, ...]] | None:
    if not project.has(table):
        return None
    found = project.rows_without_spark(table)
    if found and not set(columns) <= set(found[0]):
        return None
    return sorted(tuple(plain(row[column]) for column in columns) for row in found)


def test_each_table_is_what_the_database_says(
    postgres: Postgres,
    broker: Broker,
    project: Project,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    name = "group_of_tables"
    source = Source(postgres, 7)
    for table in NAMES[:6]:
        source.make(table)
        source.change(table, 8)
    postgres.execute("CREATE TABLE log (line text)", "INSERT INTO log VALUES ('x')")
    schemas = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
    connector = {
        **connector_to(postgres, name, schemas),
        "publication.autocreate.mode": "all_tables",
    }
    del connector["table.include.list"]
    members = {table: member_of(table) for table in NAMES}
    project.stream(
        "db", envelope="debezium", connection="broker", pattern=rf"{name}\.public\..*"
    )
    tables = {"exclude": ["public.log"], "rename": {"public.Users": "old_users"}}
    project.model("mirror", "SELECT * FROM {db}", mode="cdc", tables=tables)
    with feeding(
        name,
        postgres,
        broker,
        tmp_path_factory.mktemp("connect"),
        "debezium-postgres",
        connector,
    ) as feed:
        feed.connect.start()
        check(project, source, members, feed)
        for table in NAMES[6:]:
            source.make(table)
        source.add_column("orders")
        for table in source.columns:
            source.change(table, 8)
        check(project, source, members, feed)
        feed.connect.kill()
        for table in source.columns:
            source.change(table, 8)
        feed.connect.start()
        check(project, source, members, feed)
    assert not project.has("public_log")


def member_of(table: str) -> str:
    """What the group calls the table."""
    return {'"Users"': "old_users"}.get(
        table, "public_" + re.sub(r"\W", "_", table.strip('"'))
    )


def check(
    project: Project, source: Source, members: dict[str, str], feed: Feed[Postgres]
) -> None:
    """Run the group, as a scheduler would, until each table is the database's."""
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while True:
        project.run(asks=True).check()
        wanted = {table: source.rows(table) for table in source.columns}
        found = {
            table: mirrored(project, members[table], source.columns[table])
            for table in source.columns
        }
        if found == wanted:
            return
        different = {
            table: (found[table], wanted[table])
            for table in wanted
            if found[table] != wanted[table]
        }
        assert time.monotonic() < deadline, different
        time.sleep(1)
