"""A bank whose accounts stand in two tables, as Debezium tells of them: no transaction
changes their total."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pyiceberg.table import StaticTable

from tests.servers.broker import Broker, Message
from tests.spark.project import Project
from tests.spark.test_groups import change
from tests.spark.test_open_feed import LONG

TABLES = ("savings", "checking")
KINDS = {"id": LONG, "balance": LONG}
ACCOUNTS = 5
DEPOSIT = 100


class Bank:
    """Writes the changes of transfers from accounts of one table to those of the other,
    and when each is over."""

    def __init__(
        self,
        broker: Broker,
        prefix: str,
        partitions: int = 1,
        seed: int = 0,
        *,
        has_one_topic: bool = False,
    ) -> None:
        self.broker, self.prefix, self.has_one_topic = broker, prefix, has_one_topic
        self.balances = {
            table: dict.fromkeys(range(ACCOUNTS), DEPOSIT) for table in TABLES
        }
        self.number = 0
        self.chance = random.Random(seed)
        for topic in sorted({self.topic_of(table) for table in TABLES}):
            broker.create_topic(topic, partitions)
        broker.create_topic(f"{prefix}.transaction", 1)

    def topic_of(self, table: str) -> str:
        """The topic that has the changes of a table."""
        return (
            f"{self.prefix}.all"
            if self.has_one_topic
            else f"{self.prefix}.public.{table}"
        )

    @property
    def total(self) -> int:
        """What all accounts have together, whatever happens."""
        return len(TABLES) * ACCOUNTS * DEPOSIT

    def open_accounts(self) -> None:
        """The rows as a snapshot of the connector reads them: they are of no
        transaction."""
        for table in TABLES:
            for account, balance in self.balances[table].items():
                self.send(table, self.event(table, "r", account, balance, None))

    def transfer(self, *, count: int = 1) -> None:
        """So many transfers, each a transaction."""
        for _ in range(count):
            self.finish(self.begin())

    def begin(self) -> tuple[str, list[tuple[str, Any]]]:
        """A transaction that has happened, and of which nothing has been sent: its
        name, and its changes."""
        self.number += 1
        name, amount = f"{self.number}", self.chance.randrange(1, 50)
        source, target = self.chance.sample(TABLES, 2)
        changes = []
        for order, (table, sign) in enumerate(((source, -1), (target, 1)), 1):
            account = self.chance.randrange(ACCOUNTS)
            self.balances[table][account] += sign * amount
            # Postgres' has where in the log the change is
            place = f"{name}:{self.number * 100 + order}"
            of_transaction = {
                "id": place,
                "total_order": order,
                "data_collection_order": 1,
            }
            event = self.event(
                table, "u", account, self.balances[table][account], of_transaction
            )
            changes.append((table, event))
        return name, changes

    def finish(self, begun: tuple[str, list[tuple[str, Any]]]) -> None:
        """Send the changes of a transaction, and that it is over."""
        name, changes = begun
        for table, event in changes:
            self.send(table, event)
        self.end(name, [table for table, _ in changes])

    def finish_rest(self, begun: tuple[str, list[tuple[str, Any]]]) -> None:
        """The same where the first change was sent before."""
        name, changes = begun
        for table, event in changes[1:]:
            self.send(table, event)
        self.end(name, [table for table, _ in changes])

    def event(
        self, table: str, op: str, account: int, balance: int, transaction: Any
    ) -> Any:
        event = change(
            f"public.{table}", op, {"id": account, "balance": balance}, KINDS
        )
        event["value"]["payload"]["transaction"] = transaction
        event["value"]["payload"]["source"] |= {
            "lsn": self.number * 100,
            "snapshot": "true" if op == "r" else "false",
        }
        return event

    def send(self, table: str, event: Any) -> None:
        message = Message(
            json.dumps(event["value"]).encode(), json.dumps(event["key"]).encode()
        )
        self.broker.produce(self.topic_of(table), [message])

    def end(self, name: str, tables: Sequence[str]) -> None:
        """Say that a transaction is over."""
        sizes = [
            {"data_collection": f"public.{table}", "event_count": size}
            for table, size in Counter(tables).items()
        ]
        payload = {
            "status": "END",
            "id": f"{name}:{self.number * 100 + 9}",
            "event_count": len(tables),
            "data_collections": sizes,
        }
        self.broker.produce(
            f"{self.prefix}.transaction", [Message(json.dumps(payload).encode())]
        )


def mirror(project: Project, prefix: str, **options: Any) -> None:
    """A group that mirrors the bank's tables, of topics of their own or of one."""
    project.stream(
        "bank",
        envelope="debezium",
        connection="broker",
        pattern=rf"{prefix}\.(public\..*|all)",
    )
    config = {
        "mode": "cdc",
        "trigger": "1 second",
        "tables": {},
        "consistent": True,
        **options,
    }
    project.model("bank", "SELECT * FROM {bank}", **config)


def balances(project: Project) -> dict[str, dict[int, int]]:
    """What the mirrors say, table by table."""
    return {
        table: {
            row["id"]: row["balance"]
            for row in project.rows_without_spark(f"public_{table}")
        }
        for table in TABLES
    }


class Reader:
    """Reads both tables at one state of the catalog, again and again; `totals` are
    those it has seen, `wrong` the ones that are none."""

    def __init__(self, project: Project, total: int) -> None:
        self.catalog = project.lake.catalog.profile.uri.removeprefix(
            "sqlite:///"
        ).partition("?")[0]
        self.namespace, self.total = project.namespace, total
        self.states: set[tuple[str, ...]] = set()
        self.wrong: list[int] = []

    def read(self) -> None:
        """The newest state, if it was not read before."""
        with closing(
            sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True, timeout=30)
        ) as database:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name IN (?, ?)"
            found = database.execute(
                query, (self.namespace, *(f"public_{table}" for table in TABLES))
            ).fetchall()
        state = tuple(sorted(place for (place,) in found))
        if len(state) < len(TABLES) or state in self.states:
            return
        self.states.add(state)
        total = sum(
            sum(
                StaticTable.from_metadata(place)
                .scan()
                .to_arrow()["balance"]
                .to_pylist()
            )
            for place in state
        )
        if total != self.total:
            self.wrong.append(total)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read for as long as this takes."""
        over = threading.Event()

        def follow() -> None:
            while not over.wait(0.02):
                self.read()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        self.read()
