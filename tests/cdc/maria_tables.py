"""A database of MariaDB with many tables of generated shapes, and what happens to them, all of it by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.cdc.shapes import Kind, plain
from tests.servers.mariadb import MariaDb

SIGNALS = "shop.debezium_signal"
TEXT = "CAST({} AS CHAR)"
BYTES = "HEX({})"


def _bit(text: str) -> bytes:
    """What the feed has of bits: their number, its least byte first."""
    return int(text).to_bytes(2, "little")


KINDS = (
    Kind("tinyint", ("0", "-128", "127"), int, TEXT),
    Kind("smallint", ("0", "-32768", "32767"), int, TEXT),
    Kind("smallint unsigned", ("0", "65535"), int, TEXT),
    Kind("mediumint", ("0", "-8388608", "8388607"), int, TEXT),
    Kind("int", ("0", "-2147483648", "2147483647"), int, TEXT),
    Kind("int unsigned", ("0", "4294967295"), int, TEXT),
    Kind("bigint", ("0", "-9223372036854775808", "9223372036854775807"), int, TEXT),
    Kind("varchar(20)", ("''", "'é𝄞'", "'a''b\\\\\"c'", "'exactly twenty chars'"), str, TEXT),
    Kind("char(6)", ("''", "'ab'", "'abcdef'"), str, TEXT),
    Kind("decimal(10,2)", ("0", "-0.01", "99999999.99", "1.50"), Decimal, TEXT),
    Kind("decimal(38,10)", ("0", "1.5", "-9999999999999999999999999999.9999999999"), Decimal, TEXT),
    Kind("decimal(5,0)", ("0", "-99999"), Decimal, TEXT),
    Kind("double", ("0.5", "1e300", "-2.5"), float, TEXT),
    Kind("float", ("0.5", "-0.25", "1024"), float, TEXT),
    Kind("datetime(6)", ("'2026-01-02 03:04:05.000006'", "'1900-01-01'"), datetime.fromisoformat, TEXT),
    Kind("datetime", ("'2026-01-02 03:04:05'", "'9999-12-31 23:59:59'"), datetime.fromisoformat, TEXT),
    Kind(
        "timestamp(3) NULL",
        ("'2026-01-02 03:04:05.006'", "'1971-01-01'"),
        lambda text: datetime.fromisoformat(f"{text}+00:00"),
        TEXT,
    ),
    Kind("date", ("'2026-02-03'", "'9999-12-31'", "'1000-01-01'"), date.fromisoformat, TEXT),
    Kind("year", ("2026", "1901"), int, TEXT),
    Kind("enum('new', 'old', 'it''s fine')", ("'new'", "'old'", "'it''s fine'"), str, TEXT),
    Kind("set('a', 'b', 'c')", ("'a'", "'a,c'", "''"), str, TEXT),
    Kind("blob", ("x'00FF'", "''", "repeat(x'AB', 3000)"), bytes.fromhex, BYTES),
    Kind("varbinary(10)", ("x'00FF'", "x'20'"), bytes.fromhex, BYTES),
    Kind("text", ("repeat('long', 500)", "''", "'__debezium'", "'null'"), str, TEXT),
    Kind("boolean", ("0", "1"), int, TEXT),
    Kind("bit(12)", ("b'100000000011'", "b'1'"), _bit, "CAST({} AS UNSIGNED)"),
    Kind("json", ("'{\"a\": [1, 2.50]}'", "'null'", "'\"é\"'"), str, TEXT),
    Kind("time", ("'07:30:00'", "'-00:00:01'", "'100:00:00'"), str, TEXT),
    Kind("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",), str, TEXT),
)
WIDER = {
    "int": next(kind for kind in KINDS if kind.sql == "bigint"),
    "smallint": next(kind for kind in KINDS if kind.sql == "int"),
    "float": next(kind for kind in KINDS if kind.sql == "double"),
    "varchar(20)": Kind("varchar(200)", ("repeat('x', 200)",), str, TEXT),
    "decimal(10,2)": Kind("decimal(14,2)", ("999999999999.99", "0.5"), Decimal, TEXT),
}
KEYS = {
    "id": Kind("bigint", tuple(map(str, range(12))), int, TEXT),
    "part": Kind("varchar(10)", ("'a'", "'A'", "'b'"), str, TEXT),
    "code": Kind("varchar(10)", ("'k1'", "'k2'", "'k3'", "''", "' k1'", "'é'"), str, TEXT),
    "day": Kind("date", tuple(f"'2026-01-{day:02}'" for day in range(1, 9)), date.fromisoformat, TEXT),
    "cents": Kind("decimal(10,2)", ("0.10", "0.20", "1.00", "-5.55"), Decimal, TEXT),
    "uid": Kind("uuid", tuple(f"'a0eebc99-9c0b-4ef8-bb6d-0000000000{n:02}'" for n in range(1, 7)), str, TEXT),
}
KEY_CHOICES = (("id",), ("id",), ("code",), ("id", "part"), ("code", "day"), ("cents", "id"), ("uid",))
RENAMED = {"shop.ORDERS": "capital_orders"}
"""What the group calls a table whose name differs from another's by capitals."""
TABLE_NAMES = ("orders", "ORDERS", "line items", "select", "a-b", "größe", "a$b", "1st", "_leading", "x" * 50)
COLUMN_NAMES = (
    "plain",
    "Capital",
    "with space",
    "select",
    "größe",
    "a-b",
    "op",
    "before",
    "value",
    "1st",
    "key",
    "type",
)


def quoted(name: str) -> str:
    return f"`{name}`"


@dataclass(slots=True)
class Table:
    """A table, its columns in their order, and those of its key. `unread` are why rows of it have changed without an
    event."""

    name: str
    key: tuple[str, ...]
    columns: dict[str, Kind] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"shop.{self.name}"

    @property
    def member(self) -> str:
        return RENAMED.get(self.source) or re.sub(r"[^A-Za-z0-9_]", "_", f"shop_{self.name}")

    @property
    def others(self) -> list[str]:
        return [name for name in self.columns if name not in self.key]


class MariaDatabase:
    """Makes tables, changes their rows and their shapes, and says what they hold."""

    def __init__(self, server: MariaDb, seed: int) -> None:
        self.server, self.chance = server, random.Random(seed)
        self.tables: list[Table] = []
        self.dropped: list[Table] = []
        self.statements: list[str] = []
        self.names = iter(TABLE_NAMES)
        self.made = 0
        self.run(
            f"CREATE TABLE {SIGNALS} (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data text)",
            "CREATE TABLE marks (id int PRIMARY KEY)",
        )

    def run(self, *statements: str) -> None:
        """In one session."""
        self.statements += statements
        self.server.execute(*statements)

    # Shapes

    def make_tables(self, count: int) -> None:
        """So many tables with rows."""
        for _ in range(count):
            self.make_table()

    def make_table(self) -> Table:
        """A table with some rows, which may be in partitions."""
        chance = self.chance
        self.made += 1
        name = next(self.names, f"t{self.made}")
        taken = {table.member.lower() for table in (*self.tables, *self.dropped)}
        table = Table(name, chance.choice(KEY_CHOICES))
        if table.member.lower() in taken:
            table.name = f"{name}_{self.made}"
        table.columns = {part: KEYS[part] for part in table.key}
        for column in chance.sample(COLUMN_NAMES, chance.randrange(1, 6)):
            table.columns[column] = chance.choice(KINDS)
        declared = [self._declared(table, column) for column in table.columns]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
        parts = f" PARTITION BY KEY ({quoted(table.key[0])}) PARTITIONS 3" if chance.random() < 0.15 else ""
        self.run(f"CREATE TABLE {quoted(table.name)} ({', '.join(declared)}) COLLATE utf8mb4_nopad_bin{parts}")
        self.tables.append(table)
        self.run(*(self.insert(table) for _ in range(chance.randrange(1, 10))))
        return table

    def _declared(self, table: Table, column: str) -> str:
        kind = table.columns[column]
        text = f"{quoted(column)} {kind.sql}"
        if column not in table.key and self.chance.random() < 0.2:
            text += f" DEFAULT {kind.literals[0]}"
        return text

    # Rows

    def change(self, count: int) -> None:
        """So many transactions, each of some changes in any tables; some are taken back."""
        for _ in range(count):
            some = [self._statement(self.chance.choice(self.tables)) for _ in range(self.chance.choice([1, 1, 3, 10]))]
            self.run("BEGIN", *some, "ROLLBACK" if self.chance.random() < 0.1 else "COMMIT")

    def _statement(self, table: Table) -> str:
        return self.chance.choice([self.insert, self.insert, self.update, self.update, self.delete, self.swap])(table)

    def insert(self, table: Table) -> str:
        """A row in the place of the one that has its key, or another state of that one."""
        names, values = ", ".join(map(quoted, table.columns)), ", ".join(self._values(table))
        if self.chance.random() < 0.5:
            return f"REPLACE INTO {quoted(table.name)} ({names}) VALUES ({values})"
        updates = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in table.others)
        return f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({values}) ON DUPLICATE KEY UPDATE {updates}"

    def update(self, table: Table) -> str:
        """A column of some rows, which may be one of the key."""
        column = self.chance.choice(list(table.columns))
        ignore = "IGNORE " if column in table.key else ""  # another row may have that key
        return (
            f"UPDATE {ignore}{quoted(table.name)} SET {quoted(column)} = {self._value(table, column)} "
            f"WHERE {self._where(table)}"
        )

    def swap(self, table: Table) -> str:
        """Two rows change keys with each other."""
        if table.key != ("id",):
            return self.update(table)
        one, other = self.chance.sample(table.columns["id"].literals, 2)
        steps = ((one, "-1"), (other, one), ("-1", other))
        return "; ".join(f"UPDATE {quoted(table.name)} SET id = {new} WHERE id = {old}" for old, new in steps)

    def delete(self, table: Table) -> str:
        """Some rows."""
        return f"DELETE FROM {quoted(table.name)} WHERE {self._where(table)}"

    def _where(self, table: Table) -> str:
        return f"{quoted(table.key[0])} = {self._value(table, table.key[0])}"

    def _values(self, table: Table) -> list[str]:
        return [self._value(table, column) for column in table.columns]

    def _value(self, table: Table, column: str) -> str:
        if column not in table.key and self.chance.random() < 0.2:
            return "NULL"
        return self.chance.choice(table.columns[column].literals)

    # Shapes that change

    def alter(self) -> str:
        """Change the shape of a table, or which tables there are; what was done."""
        choices: list[Callable[[Table], str | None]] = [
            *(self._add_column, self._add_column, self._drop_column, self._widen, self._widen),
            *(self._rename_column, self._rename_table, self._drop_table, self._new_table, self._truncate),
        ]
        while True:
            # an incremental snapshot, which brings what no event says, leaves out tables with such a name
            table = self.chance.choice([each for each in self.tables if " " not in each.name])
            done = self.chance.choice(choices)(table)
            if done:
                return f"{table.source}: {done}"

    def _add_column(self, table: Table) -> str:
        name = next(name for name in (f"added {n}" for n in range(99)) if name not in table.columns)
        table.columns[name] = self.chance.choice(KINDS)
        declared = self._declared(table, name)
        if "DEFAULT" in declared:
            table.unread.append(f"{name} has a default")
        place = self.chance.choice(["", " FIRST", f" AFTER {quoted(table.key[0])}"])
        self.run(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {declared}{place}")
        return f"add {declared}{place}"

    def _drop_column(self, table: Table) -> str | None:
        if len(table.others) < 2:
            return None
        name = self.chance.choice(table.others)
        self.run(f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(name)}")
        del table.columns[name]
        return f"drop {name}"

    def _widen(self, table: Table) -> str | None:
        found = [name for name in table.others if table.columns[name].sql in WIDER]
        if not found:
            return None
        name = self.chance.choice(found)
        table.columns[name] = WIDER[table.columns[name].sql]
        self.run(f"ALTER TABLE {quoted(table.name)} MODIFY {quoted(name)} {table.columns[name].sql}")
        return f"{name} becomes {table.columns[name].sql}"

    def _rename_column(self, table: Table) -> str | None:
        if not table.others:
            return None
        name = self.chance.choice(table.others)
        new = next(new for new in (f"Renamed {n}" for n in range(99)) if new not in table.columns)
        self.run(f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {quoted(name)} TO {quoted(new)}")
        table.columns = {new if column == name else column: kind for column, kind in table.columns.items()}
        table.unread.append(f"{name} is {new}")
        return f"rename {name} to {new}"

    def _rename_table(self, table: Table) -> str:
        old, new = table.name, f"renamed_{self.made}_{len(self.statements)}"
        self.dropped.append(Table(old, table.key))
        self.run(f"RENAME TABLE {quoted(old)} TO {quoted(new)}")
        table.name = new
        table.unread.append("it was renamed")
        return f"{old} renamed"

    def _drop_table(self, table: Table) -> str | None:
        if len(self.tables) < 5:
            return None
        self.run(f"DROP TABLE {quoted(table.name)}")
        self.tables.remove(table)
        self.dropped.append(table)
        return "dropped"

    def _new_table(self, table: Table) -> str:
        return f"after it {self.make_table().source} was made"

    def _truncate(self, table: Table) -> str:
        self.run(f"TRUNCATE {quoted(table.name)}", self.insert(table))
        return "truncated"

    # What the connector is asked for

    def mark(self, number: int) -> None:
        """A row by which one sees in the feed that all before it has arrived."""
        self.run(f"INSERT INTO marks VALUES ({number})")

    def read_all_again(self) -> None:
        """Ask for an incremental snapshot of all tables."""
        self._signal([table.source for table in self.tables])

    def read_again(self) -> list[str]:
        """Have the connector read the tables whose rows have changed without an event, and the marks behind them; which
        these are."""
        asked = [table.source for table in self.tables if table.unread]
        for table in self.tables:
            table.unread.clear()
        self._signal([*asked, "shop.marks"])
        return asked

    def _signal(self, names: list[str]) -> None:
        patterns = ", ".join('"' + re.escape(name).replace("\\", "\\\\") + '"' for name in names)
        what = f'{{"type": "incremental", "data-collections": [{patterns}]}}'.replace("\\", "\\\\").replace("'", "''")
        self.run(f"INSERT INTO {SIGNALS} VALUES (uuid(), 'execute-snapshot', '{what}')")

    # What there is

    def rows(self, table: Table) -> list[list[Any]]:
        """What a table holds, as the mirror should have it."""
        shown = ", ".join(kind.select.format(quoted(name)) for name, kind in table.columns.items())
        found = self.server.rows(f"SELECT JSON_ARRAY({shown}) FROM {quoted(table.name)}")
        kinds = list(table.columns.values())
        rows = [
            [None if text is None else plain(kind.read(str(text))) for text, kind in zip(row, kinds, strict=True)]
            for row in found
        ]
        return sorted(rows, key=repr)
