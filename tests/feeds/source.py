"""The rows of each seed in a table of a database: what random transactions do to them,
and what its log says of it.

A group of seeds shares one table of the database, in which a row's first key column is
its seed. So the feeds of many seeds are one feed, and only what hits the whole table,
the truncates, is common to the seeds of a group.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Any, Literal, NamedTuple

from tests.spark.project import Fields

GROUP = 1000
"""How many seeds share a table."""

SPAN = 10**9
"""The time that the log covers: a place in it is its time."""

APART = 16
"""How far two transactions lie apart at least: each of their changes has a place of its
own."""

LARGE = APART * GROUP
"""How many places a transaction has in which all seeds of a group change keys: the
first change of each, the second one of each, and so on."""

UNAVAILABLE = "__debezium_unavailable_value"

Op = Literal["c", "u", "r", "d", "t", "m"]
"""What Debezium says of a change: created, updated, read by a snapshot, deleted;
truncated; a message."""

Key = tuple[int, str]
KEYS: tuple[Key, ...] = tuple((a, b) for a in (0, 1, -7) for b in ("p", "", "ü'"))


class Values(NamedTuple):
    """The columns of a row that are not its key."""

    v: int | None
    big: str | None

    @property
    def passes(self) -> bool:
        """Whether the models' WHERE lets the row pass."""
        return self.v is not None and self.v >= 0


@dataclass(frozen=True, slots=True)
class Change:
    """What the log says of one row, or of the whole table: when, and as which event of
    its transaction.

    `is_unsent`: the update has not touched the large value. `other`: the row's key is
    changed, and this is its other one. `transaction` is the time at which that begins.

    A row that a snapshot has read has the place of that in the log, `place`, where it
    is not its time, or none where it is `unplaced`. A change that a snapshot has seen
    has arrived at the time `until` at which its row is read.
    """

    time: int
    order: int
    op: Op
    seed: int = -1
    key: Key | None = None
    before: Values | None = None
    after: Values | None = None
    is_unsent: bool = False
    other: Key | None = None
    transaction: int = 0
    place: int = 0
    unplaced: bool = False
    until: int = SPAN

    @property
    def is_read(self) -> bool:
        """Whether a snapshot has read the row."""
        return self.op == "r"

    @property
    def is_entering(self) -> bool:
        """Whether it is the second half of a change of a key, which has the place of
        the first one."""
        return self.op == "c" and self.other is not None


class Source:
    """The rows of one seed, and the changes that have led to them.

    At the times `large` all seeds change keys in one transaction; `swaps`: rows may
    give theirs to each other then.
    """

    def __init__(
        self,
        seed: int,
        truncates: tuple[int, ...],
        large: tuple[int, ...] = (),
        swaps: bool = False,
    ) -> None:
        self.seed = seed
        self.swaps = swaps and tells_rows(seed)
        self.chance = random.Random(f"changes of {seed}")
        self.rows: dict[Key, Values] = {}
        self.changes: list[Change] = []
        self.truncates = truncates
        self._time = self._order = self.transaction = 0
        self._step = 1
        emptied = iter([*truncates, SPAN])
        until = next(emptied)
        times = random_times(self.chance, self.chance.randrange(8, 60))
        times = [
            time
            for time in times
            if not any(0 <= time - start < LARGE for start in large)
        ]
        for time in sorted([*times, *large]):
            while time > until:
                self.rows.clear()
                until = next(emptied)
            self._time, self._order, self.transaction, self._step = time, 0, time, 1
            if time in large:
                self._time, self._step = time + seed % GROUP, GROUP
                change_keys(self)
                continue
            self.chance.choices(tuple(OPERATIONS), tuple(OPERATIONS.values()))[0](self)
        if until < SPAN:
            self.rows.clear()

    def put(self, key: Key, values: Values, is_unsent: bool = False) -> None:
        before = self.rows.get(key)
        self.rows[key] = values
        self.log("c" if before is None else "u", key, before, values, is_unsent)

    def remove(self, key: Key) -> None:
        self.log("d", key, self.rows.pop(key), None)

    def rename(self, keys: dict[Key, Key]) -> None:
        """Give rows other keys, one after the other; each is two changes at one
        place."""
        renamed = {old: self.rows.pop(old) for old in keys}
        for old in self.chance.sample(list(keys), len(keys)):
            new, values = keys[old], renamed[old]
            self.rows[new] = values
            self.log("d", old, values, None, other=new)
            self._time -= self._step
            self.log("c", new, None, values, other=old)

    def log(
        self,
        op: Op,
        key: Key | None,
        before: Values | None,
        after: Values | None,
        unsent: bool = False,
        other: Key | None = None,
    ) -> None:
        self._order += 1
        self._add(
            Change(
                self._time,
                self._order,
                op,
                self.seed,
                key,
                before,
                after,
                unsent,
                other,
                self.transaction,
            )
        )

    def read_all(self, place: int = 0, unplaced: bool = False) -> None:
        """Read all rows, when all that was changed until then has arrived."""
        self.changes = [
            replace_fields(change, until=self.transaction)
            if change.key in self.rows and change.until == SPAN
            else change
            for change in self.changes
        ]
        for key, values in self.rows.items():
            self._order += 1
            read = Change(
                self._time,
                self._order,
                "r",
                self.seed,
                key,
                after=values,
                transaction=self.transaction,
            )
            self._add(replace_fields(read, place=place, unplaced=unplaced))

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self._time += self._step

    def values(self) -> Values:
        """Some values for a row; one of four does not pass the WHERE."""
        v = self.chance.choice([None, -1, *range(6)])
        return Values(v, self.chance.choice([None, "", *(f"text {self._time}",) * 4]))


def tells_rows(seed: int) -> bool:
    """Whether the events of a seed have the whole row before a change, as those of a
    table must whose rows may swap their keys."""
    return seed % 3 == 2


def random_times(chance: random.Random, count: int) -> list[int]:
    """Times in the log, in bursts: some batches get none of them, and some get many."""
    bursts = [chance.randrange(SPAN) for _ in range(chance.randrange(1, 8))]
    found = set[int]()
    while len(found) < count:
        width = chance.choice([SPAN // 10_000, SPAN // 100, SPAN // 4])
        time = (
            (chance.choice(bursts) + chance.randrange(-width, width)) // APART * APART
        )
        if 0 < time < SPAN - APART:
            found.add(time)
    return sorted(found)


# --- what a transaction does


def put(source: Source) -> None:
    source.put(source.chance.choice(KEYS), source.values())


def update(source: Source) -> None:
    """Of some columns: the large value is not among them, so that Postgres does not
    send it, unless it sends all of the row before a change."""
    passing = [
        key for key, values in source.rows.items() if values.passes and values.big
    ]
    if passing:
        key = source.chance.choice(passing)
        source.put(
            key,
            source.rows[key]._replace(v=source.values().v),
            is_unsent=not source.swaps,
        )


def touch(source: Source) -> None:
    """An update that changes nothing."""
    if source.rows:
        key = source.chance.choice(list(source.rows))
        source.put(key, source.rows[key])


def delete(source: Source) -> None:
    if source.rows:
        source.remove(source.chance.choice(list(source.rows)))


def replace(source: Source) -> None:
    """Deleted and inserted in one transaction."""
    if source.rows:
        key = source.chance.choice(list(source.rows))
        source.remove(key)
        source.put(key, source.values())


def move(source: Source) -> None:
    """The primary key is changed: Debezium deletes the old one, and creates the new
    one."""
    free = [key for key in KEYS if key not in source.rows]
    if source.rows and free:
        source.rename(
            {source.chance.choice(list(source.rows)): source.chance.choice(free)}
        )


def change_keys(source: Source) -> None:
    """Rows swap their keys, or one gets a free one, between changes that leave the keys
    alone."""
    update(source)
    there = list(source.rows)
    if source.swaps and len(there) > 1:
        among = source.chance.sample(
            there, source.chance.randrange(2, min(4, len(there)) + 1)
        )
        source.rename(dict(zip(among, [*among[1:], among[0]], strict=True)))
    else:
        move(source)
    touch(source)


def snapshot(source: Source) -> None:
    """The rows are read again."""
    source.read_all()


def snapshot_beside_a_transaction(source: Source) -> None:
    """The rows are read again while a transaction is open: its changes, which are sent
    after them, are before the snapshot in the log."""
    source.read_all(place=source.transaction + APART - 2)
    for key in source.chance.sample(KEYS, 3):
        if key in source.rows and source.chance.random() < 0.3:
            source.remove(key)
        else:
            source.put(key, source.values())


def incremental_snapshot(source: Source) -> None:
    """The rows are read beside the log, and have no place in it. A truncate is placed
    by the log: what was read before it may be gone."""
    if not source.truncates:
        source.read_all(unplaced=True)


def message(source: Source) -> None:
    source.log("m", None, None, None)


OPERATIONS: dict[Callable[[Source], None], int] = {
    put: 16,
    update: 8,
    touch: 1,
    delete: 6,
    replace: 2,
    move: 4,
    snapshot: 1,
    snapshot_beside_a_transaction: 2,
    incremental_snapshot: 2,
    message: 1,
}
"""What a transaction may do, and how often it does."""


# --- what a connector writes of it


@dataclass(frozen=True, slots=True)
class Log:
    """How the log of a database numbers its places, and how many partitions the topic
    has."""

    database: Literal["postgres", "mysql"]
    has_orders: bool
    partitions: int

    def position(self, change: Change) -> list[int]:
        """The place of a change, as it is compared with others."""
        if change.unplaced:
            return []
        if self.database == "mysql":
            return [*self._file(change), change.order - change.is_entering]
        return (
            [change.time, change.order]
            if self.has_orders and not change.is_read
            else [change.place or change.time]
        )

    def partition(self, change: Change) -> int:
        """Where a change is sent to: all of a key to one partition, and a truncate
        anywhere."""
        if change.key is None:
            return change.time % self.partitions
        return (change.key[0] + len(change.key[1]) + change.seed) % self.partitions

    def event(self, change: Change, sends_all: bool) -> Fields:
        """The record of a change; what it has of the row before depends on the seed."""
        key = (
            {"seed": change.seed, "a": change.key[0], "b": change.key[1]}
            if change.key
            else None
        )
        before, after = (
            {**key, **values._asdict()} if key and values else None
            for values in (change.before, change.after)
        )
        if change.is_unsent and after and not sends_all:
            after["big"] = UNAVAILABLE
        if not tells_rows(change.seed):
            is_key_sent = change.seed % 3 == 1 and change.op == "d"
            before = {**key, "v": None, "big": None} if key and is_key_sent else None
        value = {
            "op": change.op,
            "before": before,
            "after": after,
            "ts_ms": 1,
            **self.place(change),
        }
        if change.other is None:
            return Fields(key=key, value=value)
        header = "__debezium.oldkey" if change.is_entering else "__debezium.newkey"
        other = {"seed": change.seed, "a": change.other[0], "b": change.other[1]}
        return Fields(key=key, value=value, headers=[[header, json.dumps(other)]])

    def place(self, change: Change) -> dict[str, Any]:
        """What an event says of its place."""
        if change.unplaced:
            source: dict[str, Any] = (
                {"file": "", "pos": 0, "row": 0}
                if self.database == "mysql"
                else {"lsn": None}
            )
        elif self.database == "mysql":
            file, place = self._file(change)
            source = {
                "file": f"binlog.{file}",
                "pos": place,
                "row": change.order - change.is_entering,
            }
        else:
            source = {
                "lsn": change.place or change.time,
                "txId": str(change.transaction),
            }
        orders = {"id": f"tx{change.transaction}", "total_order": change.order}
        return {
            "source": {**source, "snapshot": self._snapshot(change)},
            "transaction": orders if self.has_orders and not change.is_read else None,
        }

    def _snapshot(self, change: Change) -> str:
        """Which snapshot has read the row of a change."""
        if change.unplaced:
            return "incremental"
        return "true" if change.is_read else "false"

    def _file(self, change: Change) -> tuple[int, int]:
        """The files 5 to 14: the tenth comes after the ninth."""
        time = change.place or change.time
        return time * 10 // SPAN + 5, time % (SPAN // 10)


def tombstone(change: Change) -> Fields:
    """What follows a delete, for the broker's sake."""
    assert change.key is not None
    return Fields(
        key={"seed": change.seed, "a": change.key[0], "b": change.key[1]}, value=None
    )


BROKEN_CHANGES: dict[str, str] = {
    "text": "unparsable",
    "unknown op": "unparsable",
    "no row": "unparsable",
    "misfit": "unparsable",
    "no key": "required-missing",
    "no place": "sequence-missing",
}
"""What may be wrong with a change event, and the reason of its dead letter."""


def broken_event(log: Log, change: Change, fault: str) -> Fields:
    """The event of an update that never was, with this fault: a model that took it
    would have a row with v = 999."""
    fields = log.event(
        Change(
            change.time,
            change.order,
            "u",
            change.seed,
            change.key,
            None,
            Values(999, "bad"),
        ),
        True,
    )
    value = fields["value"]
    match fault:
        case "text":
            return Fields(key=fields["key"], value='{"op": "u", "after"')
        case "unknown op":
            value["op"] = "x"
        case "no row":
            value["after"] = None
        case "misfit":
            value["after"]["v"] = "many"
        case "no key":
            value["after"]["a"] = None
        case "no place":
            value["source"] = {}
            value["transaction"] = None
    return fields


# --- rows that somebody sends by themselves


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a stream that is no change feed: its key, what orders it, and whether it
    deletes its key."""

    time: int
    seed: int
    key: Key
    at: int
    n: int
    v: int | None
    gone: bool

    def row(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "a": self.key[0],
            "b": self.key[1],
            "at": self.at,
            "n": self.n,
            "v": self.v,
            "gone": self.gone,
        }


def entries(seed: int) -> Iterator[Entry]:
    """The rows of one seed, some of which are equal in all that orders them."""
    chance, at = random.Random(f"entries of {seed}"), 0
    for time in random_times(chance, chance.randrange(5, 50)):
        at += chance.choice([0, 0, 1, 1, 3])
        v = chance.choice([None, *range(4)])
        yield Entry(
            time,
            seed,
            chance.choice(KEYS[:4]),
            at,
            chance.randrange(2),
            v,
            chance.random() < 0.3,
        )


BROKEN_ENTRIES: dict[str, str] = {
    "text": "unparsable",
    "misfit": "unparsable",
    "no key": "key-missing",
    "no time": "sequence-missing",
}


def broken_row(entry: Entry, fault: str) -> Any:
    """A row that never was, with this fault."""
    row = {**entry.row(), "v": 999}
    match fault:
        case "text":
            return '{"seed": 1, "a"'
        case "misfit":
            return {**row, "v": "many"}
        case "no key":
            return {**row, "a": None}
        case _:
            return {**row, "at": None}
