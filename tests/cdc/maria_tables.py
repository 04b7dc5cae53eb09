"""A database of MariaDB with many tables of generated shapes, and what happens to them,
all of it by a seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.cdc.changing import ChangingDatabase, SourceTable
from tests.cdc.shapes import Kind
from tests.servers.mariadb import MariaDb

SIGNALS = "shop.debezium_signal"
TEXT = "CAST({} AS CHAR)"
BYTES = "HEX({})"


def _bit(text: str) -> bytes:
    """What the feed has of bits: their number, its least byte first."""
    return int(text).to_bytes(2, "little")


# A value may be a column's DEFAULT: Debezium reads no DDL in which that is a call.
KINDS = (
    Kind("tinyint", ("0", "-128", "127"), int, TEXT),
    Kind("smallint", ("0", "-32768", "32767"), int, TEXT),
    Kind("smallint unsigned", ("0", "65535"), int, TEXT),
    Kind("mediumint", ("0", "-8388608", "8388607"), int, TEXT),
    Kind("int", ("0", "-2147483648", "2147483647"), int, TEXT),
    Kind("int unsigned", ("0", "4294967295"), int, TEXT),
    Kind("bigint", ("0", "-9223372036854775808", "9223372036854775807"), int, TEXT),
    Kind(
        "varchar(20)",
        ("''", "'é𝄞'", "'a''b\\\\\"c'", "'exactly twenty chars'"),
        str,
        TEXT,
    ),
    Kind("char(6)", ("''", "'ab'", "'abcdef'"), str, TEXT),
    Kind("decimal(10,2)", ("0", "-0.01", "99999999.99", "1.50"), Decimal, TEXT),
    Kind(
        "decimal(38,10)",
        ("0", "1.5", "-9999999999999999999999999999.9999999999"),
        Decimal,
        TEXT,
    ),
    Kind("decimal(5,0)", ("0", "-99999"), Decimal, TEXT),
    Kind("double", ("0.5", "1e300", "-2.5"), float, TEXT),
    Kind("float", ("0.5", "-0.25", "1024"), float, TEXT),
    Kind(
        "datetime(6)",
        ("'2026-01-02 03:04:05.000006'", "'1900-01-01'"),
        datetime.fromisoformat,
        TEXT,
    ),
    Kind(
        "datetime",
        ("'2026-01-02 03:04:05'", "'9999-12-31 23:59:59'"),
        datetime.fromisoformat,
        TEXT,
    ),
    Kind(
        "timestamp(3) NULL",
        ("'2026-01-02 03:04:05.006'", "'1971-01-01'"),
        lambda text: datetime.fromisoformat(f"{text}+00:00"),
        TEXT,
    ),
    Kind(
        "date",
        ("'2026-02-03'", "'9999-12-31'", "'1000-01-01'"),
        date.fromisoformat,
        TEXT,
    ),
    Kind("year", ("2026", "1901"), int, TEXT),
    Kind(
        "enum('new', 'old', 'it''s fine')",
        ("'new'", "'old'", "'it''s fine'"),
        str,
        TEXT,
    ),
    Kind("set('a', 'b', 'c')", ("'a'", "'a,c'", "''"), str, TEXT),
    Kind("blob", ("x'00FF'", "''", f"x'{'AB' * 3000}'"), bytes.fromhex, BYTES),
    Kind("varbinary(10)", ("x'00FF'", "x'20'"), bytes.fromhex, BYTES),
    Kind("text", (f"'{'long' * 500}'", "''", "'__debezium'", "'null'"), str, TEXT),
    Kind("boolean", ("0", "1"), int, TEXT),
    Kind("bit(12)", ("b'100000000011'", "b'1'"), _bit, "CAST({} AS UNSIGNED)"),
    Kind("json", ("'{\"a\": [1, 2.50]}'", "'null'", "'\"é\"'"), str, TEXT),
    Kind("time", ("'07:30:00'", "'-00:00:01'", "'100:00:00'"), str, TEXT),
    Kind("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",), str, TEXT),
)
WIDENED = {
    "int": (next(kind for kind in KINDS if kind.sql == "bigint"),),
    "smallint": (next(kind for kind in KINDS if kind.sql == "int"),),
    "float": (next(kind for kind in KINDS if kind.sql == "double"),),
    "varchar(20)": (Kind("varchar(200)", (f"'{'x' * 200}'",), str, TEXT),),
    "decimal(10,2)": (
        Kind("decimal(14,2)", ("999999999999.99", "0.5"), Decimal, TEXT),
    ),
}
KEYS = {
    "id": Kind("bigint", tuple(map(str, range(12))), int, TEXT),
    "part": Kind("varchar(10)", ("'a'", "'A'", "'b'"), str, TEXT),
    "code": Kind(
        "varchar(10)", ("'k1'", "'k2'", "'k3'", "''", "' k1'", "'é'"), str, TEXT
    ),
    "day": Kind(
        "date",
        tuple(f"'2026-01-{day:02}'" for day in range(1, 9)),
        date.fromisoformat,
        TEXT,
    ),
    "cents": Kind("decimal(10,2)", ("0.10", "0.20", "1.00", "-5.55"), Decimal, TEXT),
    "uid": Kind(
        "uuid",
        tuple(f"'a0eebc99-9c0b-4ef8-bb6d-0000000000{n:02}'" for n in range(1, 7)),
        str,
        TEXT,
    ),
}
KEY_CHOICES = (
    ("id",),
    ("id",),
    ("code",),
    ("id", "part"),
    ("code", "day"),
    ("cents", "id"),
    ("uid",),
)
TABLE_NAMES = (
    "orders",
    "ORDERS",
    "line items",
    "select",
    "a-b",
    "größe",
    "a$b",
    "1st",
    "_leading",
    "x" * 50,
)
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
class Table(SourceTable):
    """One of MariaDB's."""

    @property
    def is_altered(self) -> bool:
        """An incremental snapshot, which brings what no event says, leaves out tables
        with a blank in their name."""
        return " " not in self.name


class MariaDatabase(ChangingDatabase[Table]):
    """MariaDB."""

    KINDS, WIDENED = KINDS, WIDENED
    NEW_NAME, RENAME_TABLE = "renamed_{}", "RENAME TABLE {} TO {}"
    SIGNALS, NEW_ID = SIGNALS, "uuid()"

    def __init__(self, server: MariaDb, seed: int) -> None:
        super().__init__(seed, TABLE_NAMES)
        self.server = server
        self.run(
            f"CREATE TABLE {SIGNALS} (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data text)",
            "CREATE TABLE marks (id int PRIMARY KEY)",
        )

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def text(self, value: str) -> str:
        doubled = value.replace("\\", "\\\\").replace("'", "''")
        return f"'{doubled}'"

    def full(self, table: Table) -> str:
        return quoted(table.name)

    # Shapes

    def make_table(self) -> Table:
        """A table with some rows, which may be in partitions."""
        chance = self.chance
        self.made += 1
        name = next(self.names, f"t{self.made}")
        taken = {table.member.lower() for table in (*self.tables, *self.dropped)}
        table = Table("shop", name, chance.choice(KEY_CHOICES))
        if table.member.lower() in taken:
            table.name = f"{name}_{self.made}"
        table.columns = {part: KEYS[part] for part in table.key}
        for column in chance.sample(COLUMN_NAMES, chance.randrange(1, 6)):
            table.columns[column] = chance.choice(KINDS)
        declared = [self.declared(table, column) for column in table.columns]
        declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
        parts = (
            f" PARTITION BY KEY ({quoted(table.key[0])}) PARTITIONS 3"
            if chance.random() < 0.15
            else ""
        )
        self.run(
            f"CREATE TABLE {quoted(table.name)} ({', '.join(declared)}) COLLATE utf8mb4_nopad_bin{parts}"
        )
        self.tables.append(table)
        self.run(*(self.insert(table) for _ in range(chance.randrange(1, 10))))
        return table

    def declared(self, table: Table, column: str) -> str:
        kind = table.columns[column]
        text = f"{quoted(column)} {kind.sql}"
        if column not in table.key and self.chance.random() < 0.2:
            text += f" DEFAULT {kind.literals[0]}"
        return text

    # Rows

    def change(self, count: int) -> None:
        """So many transactions, each of some changes in any tables; some are taken
        back."""
        for _ in range(count):
            some = [
                self._statement(self.chance.choice(self.tables))
                for _ in range(self.chance.choice([1, 1, 3, 10]))
            ]
            self.run(
                "BEGIN", *some, "ROLLBACK" if self.chance.random() < 0.1 else "COMMIT"
            )

    def _statement(self, table: Table) -> str:
        return self.chance.choice(
            [self.insert, self.insert, self.update, self.update, self.delete, self.swap]
        )(table)

    def insert(self, table: Table) -> str:
        """A row in the place of the one that has its key, or another state of that
        one."""
        names, values = (
            ", ".join(map(quoted, table.columns)),
            ", ".join(self._values(table)),
        )
        if self.chance.random() < 0.5:
            return f"REPLACE INTO {quoted(table.name)} ({names}) VALUES ({values})"
        updates = ", ".join(
            f"{quoted(name)} = VALUES({quoted(name)})" for name in table.others
        )
        return f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({values}) ON DUPLICATE KEY UPDATE {updates}"

    def update(self, table: Table) -> str:
        """A column of some rows, which may be one of the key."""
        column = self.chance.choice(list(table.columns))
        # another row may have that key
        ignore = "IGNORE " if column in table.key else ""
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
        return "; ".join(
            f"UPDATE {quoted(table.name)} SET id = {new} WHERE id = {old}"
            for old, new in steps
        )

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

    def place(self, table: Table) -> str:
        return self.chance.choice(["", " FIRST", f" AFTER {quoted(table.key[0])}"])

    def retype(self, table: Table, column: str, kind: Kind) -> str:
        return f"ALTER TABLE {quoted(table.name)} MODIFY {quoted(column)} {kind.sql}"

    # What there is

    def fetch(self, table: Table) -> list[list[Any]]:
        shown = ", ".join(
            kind.select.format(quoted(name)) for name, kind in table.columns.items()
        )
        return self.server.rows(f"SELECT JSON_ARRAY({shown}) FROM {quoted(table.name)}")
