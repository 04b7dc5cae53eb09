"""A database whose tables get other rows and other shapes by a seed: what every one of
them does alike. Which tables and rows it has, and how its SQL says so, is each one's
own."""

from __future__ import annotations

import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from tests.cdc.shapes import Kind, plain

RENAMED = {
    "public.Orders": "public_capital_orders",
    "Sales.Orders": "Sales_capital_orders",
    "shop.ORDERS": "capital_orders",
}
"""What the group calls tables whose names differ from another's by capitals."""


@dataclass(slots=True)
class SourceTable:
    """One table, its columns in their order, and those of its key. `unread` are why
    rows of it have changed without an event. `required` are columns that may not be
    NULL."""

    schema: str
    name: str
    key: tuple[str, ...]
    columns: dict[str, Kind] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    required: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        """As the feed names it."""
        return f"{self.schema}.{self.name}"

    @property
    def member(self) -> str:
        """What the group calls it, unless something else has this name."""
        return RENAMED.get(self.source) or re.sub(
            r"[^A-Za-z0-9_]", "_", f"{self.schema}_{self.name}"
        )

    @property
    def others(self) -> list[str]:
        """The columns that are not of the key."""
        return [name for name in self.columns if name not in self.key]

    @property
    def is_read_in_chunks(self) -> bool:
        """Whether an incremental snapshot can bring what no event says, and reads no
        rows of other tables."""
        return True

    @property
    def is_altered(self) -> bool:
        """Whether its shape may change."""
        return self.is_read_in_chunks


T = TypeVar("T", bound=SourceTable)


class ChangingDatabase(ABC, Generic[T]):
    """Makes tables, changes their rows and their shapes, and says what they hold.
    `statements` is all that was done, for who looks for a reason."""

    KINDS: ClassVar[Sequence[Kind]]
    WIDENED: ClassVar[Mapping[str, Sequence[Kind]]]
    """What a column's type may become, so that each of its values stays what it is."""
    NEW_NAME: ClassVar[str]
    RENAME_TABLE: ClassVar[str]
    SIGNALS: ClassVar[str]
    NEW_ID: ClassVar[str]

    def __init__(self, seed: int, names: Iterable[str]) -> None:
        self.chance = random.Random(seed)
        self.tables: list[T] = []
        self.dropped: list[T] = []
        self.statements: list[str] = []
        self.names = iter(names)
        self.made = 0

    def run(self, *statements: str) -> None:
        """In one session."""
        self.statements += statements
        self.execute(*statements)

    @abstractmethod
    def execute(self, *statements: str) -> None:
        """In one session, unsaid."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name as SQL has it."""

    @abstractmethod
    def text(self, value: str) -> str:
        """A text as SQL has it."""

    @abstractmethod
    def full(self, table: T) -> str:
        """A table as SQL names it."""

    def own(self, table: T) -> str:
        """A table as SQL names it where no rows of others are meant."""
        return self.full(table)

    # Rows

    @abstractmethod
    def change(self, count: int) -> None:
        """So many transactions."""

    @abstractmethod
    def insert(self, table: T) -> str:
        """A row, or another state of the one that has its key."""

    # Shapes

    def make_tables(self, count: int) -> None:
        """So many tables with rows."""
        for _ in range(count):
            self.make_table()

    @abstractmethod
    def make_table(self) -> T:
        """One table of a random shape, with some rows."""

    @abstractmethod
    def declared(self, table: T, column: str) -> str:
        """A column as it is declared."""

    def place(self, table: T) -> str:
        """Where a new column stands, as SQL says it."""
        return ""

    def alter(self) -> str:
        """Change the shape of a table, or which tables there are; what was done."""
        choices: list[Callable[[T], str | None]] = [
            *(
                self._add_column,
                self._add_column,
                self._drop_column,
                self._widen,
                self._widen,
            ),
            *(
                self._rename_column,
                self._rename_table,
                self._drop_table,
                self._new_table,
                self._truncate,
            ),
        ]
        while True:
            table = self.chance.choice(
                [each for each in self.tables if each.is_altered]
            )
            done = self.chance.choice(choices)(table)
            if done:
                return f"{table.source}: {done}"

    @abstractmethod
    def retype(self, table: T, column: str, kind: Kind) -> str:
        """The statement by which a column gets another type."""

    def _add_column(self, table: T) -> str:
        name = next(
            name
            for name in (f"added {n}" for n in range(99))
            if name not in table.columns
        )
        table.columns[name] = self.chance.choice(self.KINDS)
        declared = self.declared(table, name)
        if "DEFAULT" in declared:
            table.unread.append(f"{name} has a default")
        place = self.place(table)
        self.run(f"ALTER TABLE {self.full(table)} ADD COLUMN {declared}{place}")
        return f"add {declared}{place}"

    def _drop_column(self, table: T) -> str | None:
        if len(table.others) < 2:
            return None
        name = self.chance.choice(table.others)
        table.required.discard(name)
        self.run(f"ALTER TABLE {self.full(table)} DROP COLUMN {self.quoted(name)}")
        del table.columns[name]
        return f"drop {name}"

    def _widen(self, table: T) -> str | None:
        found = [
            name for name in table.others if table.columns[name].sql in self.WIDENED
        ]
        if not found:
            return None
        name = self.chance.choice(found)
        kind = self.chance.choice(self.WIDENED[table.columns[name].sql])
        self.run(self.retype(table, name, kind))
        table.columns[name] = kind
        return f"{name} becomes {kind.sql}"

    def _rename_column(self, table: T) -> str | None:
        if not table.others:
            return None
        name = self.chance.choice(table.others)
        new = next(
            new
            for new in (f"Renamed {n}" for n in range(99))
            if new not in (*table.columns, *table.required)
        )
        self.run(
            f"ALTER TABLE {self.full(table)} RENAME COLUMN {self.quoted(name)} TO {self.quoted(new)}"
        )
        table.columns = {
            new if column == name else column: kind
            for column, kind in table.columns.items()
        }
        if name in table.required:
            table.required.add(new)
        table.unread.append(f"{name} is {new}")
        return f"rename {name} to {new}"

    def _rename_table(self, table: T) -> str:
        old, new = (
            self.full(table),
            self.NEW_NAME.format(f"{self.made}_{len(self.statements)}"),
        )
        self.dropped.append(replace(table))
        self.run(self.RENAME_TABLE.format(old, self.quoted(new)))
        table.name = new
        table.unread.append("it was renamed")
        return f"renamed to {new}"

    def _drop_table(self, table: T) -> str | None:
        if len([each for each in self.tables if each.is_read_in_chunks]) < 5:
            return None
        self.run(f"DROP TABLE {self.full(table)}")
        self.tables.remove(table)
        self.dropped.append(table)
        return "dropped"

    def _new_table(self, table: T) -> str:
        return f"after it {self.make_table().source} was made"

    def _truncate(self, table: T) -> str:
        self.run(f"TRUNCATE {self.own(table)}", self.insert(table))
        return "truncated"

    # What the connector is asked for

    def mark(self, number: int) -> None:
        """A row by which one sees in the feed that all before it has arrived."""
        self.run(f"INSERT INTO marks VALUES ({number})")

    def read_all_again(self) -> None:
        """Ask for an incremental snapshot of all tables of which it can be one."""
        self._signal([table.source for table in self.tables if table.is_read_in_chunks])

    def read_again(self) -> list[str]:
        """Have the connector read the tables whose rows have changed without an event,
        and the marks behind them; which these are."""
        asked = [table for table in self.tables if table.unread]
        for table in asked:
            table.unread.clear()
        names = [table.source for table in asked]
        self._signal([*names, f"{self.SIGNALS.partition('.')[0]}.marks"])
        return names

    def _signal(self, names: list[str]) -> None:
        """Ask for an incremental snapshot of tables, each by a pattern."""
        if names:
            wanted = {
                "type": "incremental",
                "data-collections": [re.escape(name) for name in names],
            }
            what = self.text(json.dumps(wanted, ensure_ascii=False))
            self.run(
                f"INSERT INTO {self.SIGNALS} VALUES ({self.NEW_ID}, 'execute-snapshot', {what})"
            )

    # What there is

    @abstractmethod
    def fetch(self, table: T) -> Iterable[Sequence[Any]]:
        """The texts of what a table holds."""

    def rows(self, table: T) -> list[list[Any]]:
        """What a table holds, as the mirror should have it, in the order of its
        text."""
        kinds = list(table.columns.values())
        rows = [
            [
                None if text is None else plain(kind.read(str(text)))
                for text, kind in zip(row, kinds, strict=True)
            ]
            for row in self.fetch(table)
        ]
        return sorted(rows, key=repr)
