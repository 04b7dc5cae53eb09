"""A database of many tables of generated shapes, and what happens to them, all of it by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql

from tests.cdc.shapes import DAY, KINDS, LARGE, NARROW, STAMP, UNSCALED, WIDENED, ZONED, Kind, plain
from tests.servers.postgres import Postgres

SIGNALS = "public.debezium_signal"
SCHEMAS = ("public", "Sales")
RENAMED = {f"{schema}.Orders": f"{schema}_capital_orders" for schema in SCHEMAS}
"""What the group calls tables whose names differ from another's by capitals."""
TABLE_NAMES = (
    *("orders", "Orders", "line items", 'quo"ted', "select", "größe", "a-b", "a$b", "UPPER", "x" * 50),
    *("order", "users", "1st", "camelCase", "trailing_", "_leading"),
)
COLUMN_NAMES = (
    *("plain", "Capital", "with space", 'quo"te', "select", "größe", "a-b", "a$b", "op", "before", "value"),
    *("1st", "_x", "semi;colon", "type", "schema", "payload", "key", "timestamp", "x" * 50),
)
KEYS = {
    "id": Kind("bigint", tuple(map(str, range(1, 16))), int),
    "Id": Kind("int", tuple(map(str, range(1, 16))), int),
    "code": Kind("text", (*(f"'k{number}'" for number in range(1, 12)), "''", "'é '", "' k1'")),
    "part": Kind("varchar(10)", ("'a'", "'A'", "'b'")),
    "uid": Kind("uuid", tuple(f"'a0eebc99-9c0b-4ef8-bb6d-0000000000{number:02}'" for number in range(12))),
    "day": Kind("date", tuple(f"'2026-01-{day:02}'" for day in range(1, 9)), DAY.read),
    "cents": Kind("numeric(10,2)", ("0.10", "0.20", "1.00", "-5.55"), NARROW.read),
    "amount": Kind("numeric", ("1.5", "1.50", "0", "0.00", "-12345678901234567890.125", "1e10"), UNSCALED.read),
    "ratio": Kind("double precision", ("0.1", "1e300", "-2.5", "0", "'Infinity'"), float),
    "at": Kind("timestamp", ("'2026-01-02 03:04:05.000006'", "'1969-12-31 23:59:59.9'", "'2026-01-02'"), STAMP.read),
    "seen": Kind("timestamptz", ("'2026-01-02 03:04:05+05:30'", "'1999-01-01 00:00:00.1Z'"), ZONED.read),
    "raw": Kind("bytea", (r"'\x'", r"'\x00ff10'", r"'\x20'"), lambda text: bytes.fromhex(text[2:])),
    "flag": Kind("boolean", ("true", "false"), lambda text: text == "t"),
}
"""Columns of keys: few values each, so that changes meet rows that are there."""
KEY_CHOICES = (
    *(("id",), ("id",), ("Id",), ("code",), ("uid",), ("id", "part"), ("code", "day"), ("cents", "id")),
    *(("amount",), ("ratio", "id"), ("at",), ("seen", "flag"), ("raw", "id")),
)

NOT_IN_CHUNKS = {"amount", "ratio", "at", "seen", "raw"}
"""Columns of keys by which no table is read in chunks: of a time Debezium compares the last one with a text, which ends
all incremental snapshots that were asked for."""


def quoted(*parts: str) -> str:
    """A name with its parts quoted."""
    return sql.Identifier(*parts).as_string()


@dataclass(slots=True)
class Table:
    """One table, its columns in their order, and those of its key. `leaves` are its partitions, whose topics have its
    changes where these are not published as the root's. `unread` are why rows of it have changed without an event.
    `required` are columns that may not be NULL. `is_parent`: another inherits from it, which `is_child`."""

    schema: str
    name: str
    key: tuple[str, ...]
    columns: dict[str, Kind] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    is_partitioned: bool = False
    is_parent: bool = False
    is_child: bool = False

    @property
    def full(self) -> str:
        """As SQL names it."""
        return quoted(self.schema, self.name)

    @property
    def own(self) -> str:
        """As SQL names it where the rows of tables that inherit from it are not meant."""
        return f"ONLY {self.full}" if self.is_parent else self.full

    @property
    def source(self) -> str:
        """As the feed names it."""
        return f"{self.schema}.{self.name}"

    @property
    def member(self) -> str:
        """What the group calls it, unless something else has this name."""
        return RENAMED.get(self.source) or re.sub(r"[^A-Za-z0-9_]", "_", f"{self.schema}_{self.name}")

    @property
    def is_read_in_chunks(self) -> bool:
        """Whether an incremental snapshot can bring what no event says, and reads no rows of other tables."""
        return not self.is_parent and NOT_IN_CHUNKS.isdisjoint(self.key)

    @property
    def others(self) -> list[str]:
        """The columns that are not of the key."""
        return [name for name in self.columns if name not in self.key]


class Database:
    """Makes tables, changes their rows and their shapes, and says what they hold."""

    def __init__(self, server: Postgres, seed: int) -> None:
        self.server, self.chance = server, random.Random(seed)
        self.tables: list[Table] = []
        self.dropped: list[Table] = []
        self.statements: list[str] = []
        """All that was done, for who looks for a reason."""
        self.names = iter(TABLE_NAMES)
        self.made = 0
        server.execute(
            'CREATE SCHEMA "Sales"',
            "CREATE TYPE mood AS ENUM ('sad', 'so-so', 'it''s fine')",
            f"CREATE TABLE {SIGNALS} (id text PRIMARY KEY, type text NOT NULL, data text)",
            "CREATE TABLE marks (id int PRIMARY KEY)",
        )

    def run(self, *statements: str) -> None:
        """In one transaction."""
        self.statements += statements
        with self.server.connect() as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement)

    # Shapes

    def make_tables(self, count: int) -> None:
        """So many tables with rows."""
        for _ in range(count):
            self.make_table()
        for _ in range(count // 10):
            self._make_child()

    def _make_child(self) -> None:
        """A table that inherits the columns of another, with rows and a key of its own."""
        parent = next(table for table in self.tables if not (table.is_partitioned or table.is_parent or table.is_child))
        parent.is_parent = True
        name = f"parent{len(self.tables)}"  # one that stands as it is in the settings of the connector
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
        self.run(f"CREATE TABLE {child.full} (own smallint, {key}) INHERITS ({parent.full})")
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
        declared = [self._declared(table, column) for column in table.columns]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
        by = f" PARTITION BY HASH ({quoted(table.key[0])})" if table.is_partitioned else ""
        statements = [f"CREATE TABLE {table.full} ({', '.join(declared)}){by}"]
        leaves = [quoted(table.schema, f"{table.name}__leaf{n}") for n in range(2)] if table.is_partitioned else []
        statements += [
            f"CREATE TABLE {leaf} PARTITION OF {table.full} FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
            for n, leaf in enumerate(leaves)
        ]
        for each in leaves or [table.full]:
            if "large" in table.columns:
                statements.append(f"ALTER TABLE {each} ALTER large SET STORAGE EXTERNAL")
            if chance.random() < 0.25:
                statements.append(f"ALTER TABLE {each} REPLICA IDENTITY FULL")
        self.run(*statements)
        self.tables.append(table)
        self.run(*(self.insert(table) for _ in range(chance.randrange(0, 12))))
        return table

    def _declared(self, table: Table, column: str) -> str:
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
        """So many transactions, of one change or of several in several tables; some are taken back."""
        for _ in range(count):
            chance = self.chance
            size = chance.choice([1, 1, 1, 2, 5, 20])
            statements = [self._statement(chance.choice(self.tables)) for _ in range(size)]
            fate = chance.random()
            if fate < 0.1:
                self.server.execute("; ".join(["BEGIN", *statements, "ROLLBACK"]))
            elif fate < 0.2:
                more = self._statement(chance.choice(self.tables))
                self.run(*statements, "SAVEPOINT s", more, "ROLLBACK TO SAVEPOINT s")
            else:
                self.run(*statements)

    def _statement(self, table: Table) -> str:
        kinds = [self.insert, self.insert, self.insert, self.update, self.update, self.delete, self.move, self.swap]
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
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in table.others)
        doing = f"UPDATE SET {updates}" if updates else "NOTHING"
        return f"INSERT INTO {table.full} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {doing}"

    def update(self, table: Table) -> str:
        """Some columns of a row, or of all of some key's first column."""
        if not table.others:
            return self.delete(table)
        some = self.chance.sample(table.others, self.chance.randrange(1, len(table.others) + 1))
        values = ", ".join(f"{quoted(name)} = {self.literal(table, name)}" for name in some)
        return f"UPDATE {table.own} SET {values} WHERE {self._where(table)}"

    def delete(self, table: Table) -> str:
        """A row."""
        return f"DELETE FROM {table.own} WHERE {self._where(table)}"

    def move(self, table: Table) -> str:
        """Another key for a row, where no row has that one."""
        column = self.chance.choice(table.key)
        value = self.chance.choice(table.columns[column].literals)
        same = " AND ".join(
            f"other.{quoted(name)} = {value if name == column else f'it.{quoted(name)}'}" for name in table.key
        )
        return (
            f"UPDATE {table.own} AS it SET {quoted(column)} = {value} "
            f"WHERE {self._where(table, 'it.', len(table.key))} "
            f"AND NOT EXISTS (SELECT 1 FROM {table.own} AS other WHERE {same})"
        )

    def swap(self, table: Table) -> str:
        """Two rows change keys with each other, or all rows that can have a larger one."""
        name = quoted(table.key[0])
        if table.key not in (("id",), ("Id",)):
            return self.move(table)
        if self.chance.random() < 0.3:
            taken = f"SELECT 1 FROM {table.own} AS other WHERE other.{name} = it.{name} + 4"
            return f"UPDATE {table.own} AS it SET {name} = {name} + 4 WHERE {name} < 12 AND NOT EXISTS ({taken})"
        one, other = self.chance.sample(table.columns[table.key[0]].literals, 2)
        steps = ((one, "-1"), (other, one), ("-1", other))
        return "; ".join(f"UPDATE {table.own} SET {name} = {new} WHERE {name} = {old}" for old, new in steps)

    def _where(self, table: Table, prefix: str = "", parts: int = 1) -> str:
        return " AND ".join(
            f"{prefix}{quoted(name)} = {self.chance.choice(table.columns[name].literals)}" for name in table.key[:parts]
        )

    # Shapes that change

    def alter(self) -> str:
        """Change the shape of a table, or which tables there are; what was done."""
        choices: list[Callable[[Table], str | None]] = [
            *(self._add_column, self._add_column, self._drop_column, self._widen, self._widen),
            *(self._rename_column, self._rename_table, self._drop_table, self._new_table, self._truncate),
        ]
        while True:
            fit = [each for each in self.tables if each.is_read_in_chunks and not each.is_child]
            table = self.chance.choice(fit)
            done = self.chance.choice(choices)(table)
            if done:
                return f"{table.source}: {done}"

    def _add_column(self, table: Table) -> str:
        name = next(name for name in (f"added {n}" for n in range(99)) if name not in table.columns)
        table.columns[name] = self.chance.choice(KINDS)
        declared = self._declared(table, name)
        if "DEFAULT" in declared:
            table.unread.append(f"{name} has a default")
        self.run(f"ALTER TABLE {table.full} ADD COLUMN {declared}")
        return f"add {declared}"

    def _drop_column(self, table: Table) -> str | None:
        if len(table.others) < 2:
            return None
        name = self.chance.choice(table.others)
        table.required.discard(name)
        self.run(f"ALTER TABLE {table.full} DROP COLUMN {quoted(name)}")
        del table.columns[name]
        return f"drop {name}"

    def _widen(self, table: Table) -> str | None:
        found = [name for name in table.others if table.columns[name].sql in WIDENED]
        if not found:
            return None
        name = self.chance.choice(found)
        kind = self.chance.choice(WIDENED[table.columns[name].sql])
        self.run(f"ALTER TABLE {table.full} ALTER {quoted(name)} TYPE {kind.sql}")
        table.columns[name] = kind
        return f"{name} becomes {kind.sql}"

    def _rename_column(self, table: Table) -> str | None:
        if not table.others:
            return None
        name = self.chance.choice(table.others)
        new = next(new for new in (f"Renamed {n}" for n in range(99)) if new not in (*table.columns, *table.required))
        self.run(f"ALTER TABLE {table.full} RENAME {quoted(name)} TO {quoted(new)}")
        table.columns = {new if column == name else column: kind for column, kind in table.columns.items()}
        if name in table.required:
            table.required.add(new)
        table.unread.append(f"{name} is {new}")
        return f"rename {name} to {new}"

    def _rename_table(self, table: Table) -> str:
        old, new = table.full, f"renamed {self.made}_{len(self.statements)}"
        self.dropped.append(Table(table.schema, table.name, table.key))
        self.run(f"ALTER TABLE {old} RENAME TO {quoted(new)}")
        table.name = new
        table.unread.append("it was renamed")
        return f"renamed to {new}"

    def _drop_table(self, table: Table) -> str | None:
        if len([each for each in self.tables if each.is_read_in_chunks]) < 5:
            return None
        self.run(f"DROP TABLE {table.full}")
        self.tables.remove(table)
        self.dropped.append(table)
        return "dropped"

    def _new_table(self, table: Table) -> str:
        return f"after it {self.make_table().source} was made"

    def _truncate(self, table: Table) -> str:
        self.run(f"TRUNCATE {table.own}", self.insert(table))
        return "truncated"

    # What the connector is asked for

    def mark(self, number: int) -> None:
        """A row by which one sees in the feed that all before it has arrived."""
        self.run(f"INSERT INTO marks VALUES ({number})")

    def read_again(self) -> list[str]:
        """Have the connector read the tables whose rows have changed without an event, and the marks behind them; which
        these are."""
        asked = [table for table in self.tables if table.unread]
        for table in asked:
            table.unread.clear()
        self.signal([*asked, Table("public", "marks", ("id",))])
        return [table.source for table in asked]

    def read_all_again(self) -> None:
        """Ask for an incremental snapshot of all tables of which it can be one."""
        self.signal([table for table in self.tables if table.is_read_in_chunks])

    def signal(self, tables: list[Table]) -> None:
        """Ask for an incremental snapshot of tables."""
        if tables:
            names = ", ".join(f'"{_as_signalled(table)}"' for table in tables)
            what = f'{{"type": "incremental", "data-collections": [{names}]}}'.replace("'", "''")
            self.run(f"INSERT INTO {SIGNALS} VALUES (gen_random_uuid()::text, 'execute-snapshot', '{what}')")

    # What there is

    def rows(self, table: Table) -> list[list[Any]]:
        """What a table holds, as the mirror should have it, in the order of its text."""
        shown = (
            f"CASE WHEN {quoted(name)} IS NOT NULL THEN ({kind.select.format(quoted(name))})::text END"
            for name, kind in table.columns.items()
        )
        with self.server.connect() as connection:
            for setting in ("timezone = 'UTC'", "datestyle = 'ISO'", "bytea_output = 'hex'"):
                connection.execute(f"SET {setting}")
            found = connection.execute(f"SELECT {', '.join(shown)} FROM {table.own}").fetchall()
        kinds = list(table.columns.values())
        rows = [
            [None if text is None else plain(kind.read(text)) for text, kind in zip(row, kinds, strict=True)]
            for row in found
        ]
        return sorted(rows, key=repr)


def _as_signalled(table: Table) -> str:
    """A table as an incremental snapshot is asked for it: a pattern."""
    return re.escape(table.source).replace("\\", "\\\\").replace('"', '\\"')
