"""A database of many tables of generated shapes, and what happens to them, all of it by
a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from tests.cdc.changing import ChangingDatabase, SourceTable
from tests.cdc.shapes import (
    DAY,
    KINDS,
    LARGE,
    NARROW,
    STAMP,
    UNSCALED,
    WIDENED,
    ZONED,
    Kind,
)
from tests.servers.postgres import Postgres

SIGNALS = "public.debezium_signal"
SCHEMAS = ("public", "Sales")
TABLE_NAMES = (
    *(
        "orders",
        "Orders",
        "line items",
        'quo"ted',
        "select",
        "größe",
        "a-b",
        "a$b",
        "UPPER",
        "x" * 50,
    ),
    *("order", "users", "1st", "camelCase", "trailing_", "_leading"),
)
COLUMN_NAMES = (
    *(
        "plain",
        "Capital",
        "with space",
        'quo"te',
        "select",
        "größe",
        "a-b",
        "a$b",
        "op",
        "before",
        "value",
    ),
    *(
        "1st",
        "_x",
        "semi;colon",
        "type",
        "schema",
        "payload",
        "key",
        "timestamp",
        "x" * 50,
    ),
)
KEYS = {
    "id": Kind("bigint", tuple(map(str, range(1, 16))), int),
    "Id": Kind("int", tuple(map(str, range(1, 16))), int),
    "code": Kind(
        "text", (*(f"'k{number}'" for number in range(1, 12)), "''", "'é '", "' k1'")
    ),
    "part": Kind("varchar(10)", ("'a'", "'A'", "'b'")),
    "uid": Kind(
        "uuid",
        tuple(
            f"'a0eebc99-9c0b-4ef8-bb6d-0000000000{number:02}'" for number in range(12)
        ),
    ),
    "day": Kind("date", tuple(f"'2026-01-{day:02}'" for day in range(1, 9)), DAY.read),
    "cents": Kind("numeric(10,2)", ("0.10", "0.20", "1.00", "-5.55"), NARROW.read),
    "amount": Kind(
        "numeric",
        ("1.5", "1.50", "0", "0.00", "-12345678901234567890.125", "1e10"),
        UNSCALED.read,
    ),
    "ratio": Kind(
        "double precision", ("0.1", "1e300", "-2.5", "0", "'Infinity'"), float
    ),
    "at": Kind(
        "timestamp",
        ("'2026-01-02 03:04:05.000006'", "'1969-12-31 23:59:59.9'", "'2026-01-02'"),
        STAMP.read,
    ),
    "seen": Kind(
        "timestamptz",
        ("'2026-01-02 03:04:05+05:30'", "'1999-01-01 00:00:00.1Z'"),
        ZONED.read,
    ),
    "raw": Kind(
        "bytea",
        (r"'\x'", r"'\x00ff10'", r"'\x20'"),
        lambda text: bytes.fromhex(text[2:]),
    ),
    "flag": Kind("boolean", ("true", "false"), lambda text: text == "t"),
}
"""Columns of keys: few values each, so that changes meet rows that are there."""
KEY_CHOICES = (
    *(
        ("id",),
        ("id",),
        ("Id",),
        ("code",),
        ("uid",),
        ("id", "part"),
        ("code", "day"),
        ("cents", "id"),
    ),
    *(("amount",), ("ratio", "id"), ("at",), ("seen", "flag"), ("raw", "id")),
)

NOT_IN_CHUNKS = {"amount", "ratio", "at", "seen", "raw"}
"""Columns of keys by which no table is read in chunks: of a time Debezium compares the
last one with a text, which ends all incremental snapshots that were asked for."""


def quoted(*parts: str) -> str:
    """A name with its parts quoted."""
    return sql.Identifier(*parts).as_string()


@dataclass(slots=True)
class Table(SourceTable):
    """One of PostgreSQL's. `is_parent`: another inherits from it, which `is_child`."""

    is_partitioned: bool = False
    is_parent: bool = False
    is_child: bool = False

    @property
    def full(self) -> str:
        """As SQL names it."""
        return quoted(self.schema, self.name)

    @property
    def own(self) -> str:
        """As SQL names it where the rows of tables that inherit from it are not
        meant."""
        return f"ONLY {self.full}" if self.is_parent else self.full

    @property
    def is_read_in_chunks(self) -> bool:
        return not self.is_parent and NOT_IN_CHUNKS.isdisjoint(self.key)

    @property
    def is_altered(self) -> bool:
        return self.is_read_in_chunks and not self.is_child


class Database(ChangingDatabase[Table]):
    """PostgreSQL."""

    KINDS, WIDENED = KINDS, WIDENED
    NEW_NAME, RENAME_TABLE = "renamed {}", "ALTER TABLE {} RENAME TO {}"
    SIGNALS, NEW_ID = SIGNALS, "gen_random_uuid()::text"

    def __init__(self, server: Postgres, seed: int) -> None:
        super().__init__(seed, TABLE_NAMES)
        self.server = server
        server.execute(
            'CREATE SCHEMA "Sales"',
            "CREATE TYPE mood AS ENUM ('sad', 'so-so', 'it''s fine')",
            f"CREATE TABLE {SIGNALS} (id text PRIMARY KEY, type text NOT NULL, data text)",
            "CREATE TABLE marks (id int PRIMARY KEY)",
        )

    def execute(self, *statements: str) -> None:
        """In one transaction."""
        with self.server.connect() as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def text(self, value: str) -> str:
        doubled = value.replace("'", "''")
        return f"'{doubled}'"

    def full(self, table: Table) -> str:
        return table.full

    def own(self, table: Table) -> str:
        return table.own

    # Shapes

    def make_tables(self, count: int) -> None:
        """So many tables with rows."""
        super().make_tables(count)
        for _ in range(count // 10):
            self._make_child()

    def _make_child(self) -> None:
        """A table that inherits the columns of another, with rows and a key of its
        own."""
        parent = next(
            table
            for table in self.tables
            if not (table.is_partitioned or table.is_parent or table.is_child)
        )
        parent.is_parent = True
        # one that stands as it is in the settings of the connector
        name = f"parent{len(self.tables)}"
        self.run(f"ALTER TABLE {parent.full} RENAME TO {name}")
        parent.name = name
        child = replace(
            parent,
            name=f"{parent.name} child",
            is_parent=False,
            is_child=True,
            unread=[],
            required=set(parent.required),
        )
        child.columns = {**parent.columns, "own": KINDS[0]}
        key = f"PRIMARY KEY ({', '.join(map(quoted, child.key))})"
        self.run(
            f"CREATE TABLE {child.full} (own smallint, {key}) INHERITS ({parent.full})"
        )
        self.tables.append(child)
        self.run(*(self.insert(child) for _ in range(4)))

    def make_table(self) -> Table:
        """One table of a random shape, with some rows."""
        chance = self.chance
        self.made += 1
        name = next(self.names, f"t{self.made}")
        taken = {table.member.lower() for table in (*self.tables, *self.dropped)}
        table = Table(chance.choice(SCHEMAS), name, chance.choice(KEY_CHOICES))
        if self.made == 1:
            table.key = ("id",)  # one at least can be altered
        if table.member.lower() in taken:
            table.name = f"{name} {self.made}"
        table.columns = {part: KEYS[part] for part in table.key}
        for column in chance.sample(COLUMN_NAMES, chance.randrange(1, 6)):
            table.columns[column] = chance.choice(KINDS)
        if chance.random() < 0.4:
            table.columns["large"] = LARGE
        table.is_partitioned = chance.random() < 0.15
        declared = [self.declared(table, column) for column in table.columns]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
        by = (
            f" PARTITION BY HASH ({quoted(table.key[0])})"
            if table.is_partitioned
            else ""
        )
        statements = [f"CREATE TABLE {table.full} ({', '.join(declared)}){by}"]
        leaves = (
            [quoted(table.schema, f"{table.name}__leaf{n}") for n in range(2)]
            if table.is_partitioned
            else []
        )
        statements += [
            f"CREATE TABLE {leaf} PARTITION OF {table.full} FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
            for n, leaf in enumerate(leaves)
        ]
        for each in leaves or [table.full]:
            if "large" in table.columns:
                statements.append(
                    f"ALTER TABLE {each} ALTER large SET STORAGE EXTERNAL"
                )
            if chance.random() < 0.25:
                statements.append(f"ALTER TABLE {each} REPLICA IDENTITY FULL")
        self.run(*statements)
        self.tables.append(table)
        self.run(*(self.insert(table) for _ in range(chance.randrange(0, 12))))
        return table

    def declared(self, table: Table, column: str) -> str:
        kind, chance = table.columns[column], self.chance
        text = f"{quoted(column)} {kind.sql}"
        if column not in table.key and chance.random() < 0.2:
            text += f" NOT NULL DEFAULT {kind.literals[0]}"
            table.required.add(column)
        elif column not in table.key and chance.random() < 0.2:
            text += f" DEFAULT {kind.literals[-1]}"
        return text

    # Rows

    def change(self, count: int) -> None:
        """So many transactions, of one change or of several in several tables; some are
        taken back."""
        for _ in range(count):
            chance = self.chance
            size = chance.choice([1, 1, 1, 2, 5, 20])
            statements = [
                self._statement(chance.choice(self.tables)) for _ in range(size)
            ]
            fate = chance.random()
            if fate < 0.1:
                self.server.execute("; ".join(["BEGIN", *statements, "ROLLBACK"]))
            elif fate < 0.2:
                more = self._statement(chance.choice(self.tables))
                self.run(*statements, "SAVEPOINT s", more, "ROLLBACK TO SAVEPOINT s")
            else:
                self.run(*statements)

    def _statement(self, table: Table) -> str:
        kinds = [
            self.insert,
            self.insert,
            self.insert,
            self.update,
            self.update,
            self.delete,
            self.move,
            self.swap,
        ]
        if self.chance.random() < 0.02:
            return f"TRUNCATE {table.own}"
        return self.chance.choice(kinds)(table)

    def literal(self, table: Table, column: str) -> str:
        """A value of a column, DEFAULT, or NULL where it may be."""
        if column not in table.key and self.chance.random() < 0.1:
            return "DEFAULT"
        if column not in (*table.key, *table.required) and self.chance.random() < 0.1:
            return "NULL"
        return self.chance.choice(table.columns[column].literals)

    def insert(self, table: Table) -> str:
        """A row, or another state of the one that has its key."""
        names = ", ".join(map(quoted, table.columns))
        values = ", ".join(self.literal(table, column) for column in table.columns)
        key = ", ".join(map(quoted, table.key))
        updates = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in table.others
        )
        doing = f"UPDATE SET {updates}" if updates else "NOTHING"
        return f"INSERT INTO {table.full} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {doing}"

    def update(self, table: Table) -> str:
        """Some columns of a row, or of all of some key's first column."""
        if not table.others:
            return self.delete(table)
        some = self.chance.sample(
            table.others, self.chance.randrange(1, len(table.others) + 1)
        )
        values = ", ".join(
            f"{quoted(name)} = {self.literal(table, name)}" for name in some
        )
        return f"UPDATE {table.own} SET {values} WHERE {self._where(table)}"

    def delete(self, table: Table) -> str:
        """A row."""
        return f"DELETE FROM {table.own} WHERE {self._where(table)}"

    def move(self, table: Table) -> str:
        """Another key for a row, where no row has that one."""
        column = self.chance.choice(table.key)
        value = self.chance.choice(table.columns[column].literals)
        same = " AND ".join(
            f"other.{quoted(name)} = {value if name == column else f'it.{quoted(name)}'}"
            for name in table.key
        )
        return (
            f"UPDATE {table.own} AS it SET {quoted(column)} = {value} "
            f"WHERE {self._where(table, 'it.', len(table.key))} "
            f"AND NOT EXISTS (SELECT 1 FROM {table.own} AS other WHERE {same})"
        )

    def swap(self, table: Table) -> str:
        """Two rows change keys with each other, or all rows that can have a larger
        one."""
        name = quoted(table.key[0])
        if table.key not in (("id",), ("Id",)):
            return self.move(table)
        if self.chance.random() < 0.3:
            taken = (
                f"SELECT 1 FROM {table.own} AS other WHERE other.{name} = it.{name} + 4"
            )
            return f"UPDATE {table.own} AS it SET {name} = {name} + 4 WHERE {name} < 12 AND NOT EXISTS ({taken})"
        one, other = self.chance.sample(table.columns[table.key[0]].literals, 2)
        steps = ((one, "-1"), (other, one), ("-1", other))
        return "; ".join(
            f"UPDATE {table.own} SET {name} = {new} WHERE {name} = {old}"
            for old, new in steps
        )

    def _where(self, table: Table, prefix: str = "", parts: int = 1) -> str:
        return " AND ".join(
            f"{prefix}{quoted(name)} = {self.chance.choice(table.columns[name].literals)}"
            for name in table.key[:parts]
        )

    # Shapes that change

    def retype(self, table: Table, column: str, kind: Kind) -> str:
        return f"ALTER TABLE {table.full} ALTER {quoted(column)} TYPE {kind.sql}"

    # What there is

    def fetch(self, table: Table) -> list[tuple[Any, ...]]:
        shown = (
            f"CASE WHEN {quoted(name)} IS NOT NULL THEN ({kind.select.format(quoted(name))})::text END"
            for name, kind in table.columns.items()
        )
        with self.server.connect() as connection:
            for setting in (
                "timezone = 'UTC'",
                "datestyle = 'ISO'",
                "bytea_output = 'hex'",
            ):
                connection.execute(f"SET {setting}")
            return connection.execute(
                f"SELECT {', '.join(shown)} FROM {table.own}"
            ).fetchall()
