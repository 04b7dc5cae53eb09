"""Pulsar as a log: random topics whose messages come in batches, are cut by limits,
compacted and deleted once they are acknowledged, read by runners that are killed at any
place."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import _pulsar
import pulsar
import pytest

from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.source.log import Log, LogExpiredError
from lakesql.source.pulsar import Pulsar, PulsarTopic
from tests.cases import each_of
from tests.unit.log_query import LogQuery

KEYS = 8
BEGAN_MS = 1_700_000_000_000


@dataclass(slots=True)
class Sent:
    """A message, as the client has it; `place` is its ledger, entry and index."""

    place: tuple[int, int, int]
    at_ms: int
    key: int
    id: int
    payload: bytes

    @property
    def order(self) -> tuple[int, int, int]:
        return self.place

    def message_id(self) -> Any:
        return pulsar.MessageId(-1, *self.place)

    def properties(self) -> dict[str, str]:
        return {}

    def event_timestamp(self) -> int:
        return 0

    def partition_key(self) -> str:
        return str(self.key)

    def has_null_value(self) -> bool:
        return False

    def data(self) -> bytes:
        return self.payload

    def publish_timestamp(self) -> int:
        return self.at_ms


@dataclass(slots=True)
class Partition:
    """Messages in their order; up to `compacted` the topic has the newest of each key,
    beside all of them."""

    messages: list[Sent] = field(default_factory=list)
    ledger: int = 1
    entry: int = 0
    compacted: tuple[int, int, int] = (-1, -1, -1)
    cursors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def seen(self, is_compacted: bool) -> list[Sent]:
        if not is_compacted:
            return self.messages
        newest = {
            each.key: each.id for each in self.messages if each.place <= self.compacted
        }
        return [
            each
            for each in self.messages
            if each.place > self.compacted or newest[each.key] == each.id
        ]


class MemoryPulsar:
    """A topic in memory, which answers as a client of Pulsar does."""

    def __init__(self, seed: int, partitions: int) -> None:
        self.random = random.Random(seed)
        self.ids = itertools.count()
        self.now_ms = BEGAN_MS
        self.sent: list[Sent] = []
        self.size = 0
        self.open_readers = 0
        self.partitions = [Partition() for _ in range(partitions)]

    def send(self, count: int) -> None:
        """So many messages, in batches of up to four."""
        while count > 0:
            partition = self.random.choice(self.partitions)
            if self.random.random() < 0.2:
                partition.ledger, partition.entry = partition.ledger + 1, 0
            size = min(count, self.random.choice((1, 1, 2, 4)))
            for index in range(size):
                self.now_ms += 1
                number = next(self.ids)
                place = (partition.ledger, partition.entry, index if size > 1 else -1)
                payload = str(number).encode().zfill(self.size)
                found = Sent(
                    place, self.now_ms, self.random.randrange(KEYS), number, payload
                )
                partition.messages.append(found)
                self.sent.append(found)
            partition.entry += 1
            count -= size

    def add_partition(self) -> None:
        """One more, held by those who hold the others."""
        added = Partition()
        added.cursors = dict.fromkeys(self.partitions[0].cursors, (-1, -1))
        self.partitions.append(added)

    def delete_what_nobody_holds(self) -> None:
        for partition in self.partitions:
            held = min(partition.cursors.values(), default=(2**60, 0))
            partition.messages = [
                each for each in partition.messages if each.place[:2] > held
            ]

    def compact(self) -> None:
        for partition in self.partitions:
            if partition.messages:
                partition.compacted = partition.messages[-1].place

    # --- as the client has it

    def get_topic_partitions(self, name: str) -> list[str]:
        return [f"{name}-partition-{number}" for number in range(len(self.partitions))]

    def _partition(self, name: str) -> Partition:
        return self.partitions[int(name.rpartition("-")[2])]

    def subscribe(self, name: str, subscription: str, **_: Any) -> Any:
        partition = self._partition(name)
        partition.cursors.setdefault(subscription, (-1, -1))

        class Holder:
            def acknowledge_cumulative(self, id_: Any) -> None:
                partition.cursors[subscription] = (id_.ledger_id(), id_.entry_id())

        return Holder()

    def create_reader(
        self, name: str, begin: Any, *, is_read_compacted: bool, **_: Any
    ) -> MemoryReader:
        self.open_readers += 1
        return MemoryReader(self, self._partition(name), begin, is_read_compacted)

    def close(self) -> None:
        pass


class MemoryReader:
    """A reader that begins with a message, inclusive."""

    def __init__(
        self, server: MemoryPulsar, partition: Partition, begin: Any, is_compacted: bool
    ) -> None:
        self._server, self._partition, self._is_compacted = (
            server,
            partition,
            is_compacted,
        )
        self._at = 0
        found = self._seen()
        if begin is pulsar.MessageId.latest:
            self._at = max(len(found) - 1, 0)
        elif isinstance(begin, pulsar.MessageId):
            place = (begin.ledger_id(), begin.entry_id(), begin.batch_index())
            self._at = sum(each.place < place for each in found)

    def _seen(self) -> Sequence[Sent]:
        return self._partition.seen(self._is_compacted)

    def seek(self, at_ms: int) -> None:
        self._at = sum(each.at_ms < at_ms for each in self._seen())

    def has_message_available(self) -> bool:
        return self._at < len(self._seen())

    def read_next(self, timeout_ms: int) -> Sent:
        is_slow = timeout_ms < 10_000 and self._server.random.random() < 0.05
        if is_slow or not self.has_message_available():
            raise _pulsar.Timeout("nothing has come")
        self._at += 1
        return self._seen()[self._at - 1]

    def close(self) -> None:
        self._server.open_readers -= 1


class MemorySource(Pulsar):
    """The connection to it."""

    def open(self, topic: str, owner: str) -> Log:
        return PulsarTopic(SERVERS[self.url], topic, owner, self.read_compacted)


SERVERS: dict[str, MemoryPulsar] = {}


def query_of(
    server: MemoryPulsar,
    start: Any = "earliest",
    limit: int = 7,
    read_compacted: bool = False,
) -> LogQuery:
    SERVERS["p"] = server
    return LogQuery(MemorySource("p", read_compacted=read_compacted), start, limit)


def check_rows(query: LogQuery, sent: Sequence[Sent]) -> None:
    """Each message is there once."""
    assert sorted(query.rows) == [message.id for message in sent]


def test_each_message_is_there_once(log_seed: int) -> None:
    choice = random.Random(log_seed)
    server = MemoryPulsar(log_seed, choice.choice((1, 3)))
    start = choice.choice(("earliest", "latest", "time"))
    if start != "earliest":
        server.send(choice.randrange(20))
    skipped = len(server.sent)
    server.now_ms += 10
    at: Any = (
        datetime.fromtimestamp(server.now_ms / 1000, UTC) if start == "time" else start
    )
    query = query_of(server, at, choice.choice((1, 3, 20, 500)))
    query.run_once()
    for _ in range(choice.randrange(50)):
        match choice.randrange(8):
            case 0 | 1:
                server.send(choice.randrange(20))
            case 2:
                server.add_partition()
            case 3:
                query.restart()
            case 4:
                assert not query.expired()
                there = {message.id for message in server.sent[skipped:]}
                query.run_once(
                    (lambda: server.send(2)) if choice.random() < 0.3 else None
                )
                assert there <= {*query.rows}, "a run reads all that was there"
            case 5 if start == "earliest":
                server.delete_what_nobody_holds()
            case _:
                if query.plan():
                    query.write(is_read_again=choice.random() < 0.5)
    query.take_all()
    check_rows(query, server.sent[skipped:])
    assert not query.plan(), "nothing is left"
    assert server.open_readers == 0


def test_of_a_compacted_topic_no_message_comes_twice(log_seed: int) -> None:
    choice = random.Random(log_seed)
    server = MemoryPulsar(log_seed, 1)
    query = query_of(server, limit=choice.choice((3, 500)), read_compacted=True)
    for _ in range(15):
        server.send(choice.randrange(8))
        if choice.random() < 0.3:
            server.compact()
        query.run_once()
    assert len(query.rows) == len({*query.rows})
    newest = {message.key: message.id for message in server.sent}
    assert {*newest.values()} <= {*query.rows}


def test_a_batch_that_is_not_there_any_more_is_not_read_in_part() -> None:
    """What is planned is read again, or said to be gone: its end is noted as read."""
    server = MemoryPulsar(1, 1)
    query = query_of(server, limit=500)
    query.run_once()
    server.send(20)
    assert query.plan()
    end = query.planned[0] if query.planned else None
    server.partitions[0].messages = server.partitions[0].messages[:5]
    query.restart()
    with pytest.raises(TransientError):
        query.batches.pages(query.position, end)


def test_an_end_of_which_nothing_was_there_is_not_read_past() -> None:
    """A partition was empty as a run began: what comes meanwhile is the next one's, and
    the run ends."""
    server = MemoryPulsar(1, 1)
    start = datetime.fromtimestamp(BEGAN_MS / 1000, UTC)
    query = query_of(server, start, limit=2)
    query.run_once(lambda: server.send(3))
    assert query.rows == []
    query.run_once()
    check_rows(query, server.sent)


def test_pages_are_as_large_as_a_batch_may_be() -> None:
    server = MemoryPulsar(1, 1)
    server.size = 4_000_000
    server.send(12)
    topic = PulsarTopic(server, "t", "", False)
    topic.starts("earliest")
    sizes = [len(page.records) for page in topic.read("0", None, None, 10_000)]
    assert sum(sizes) == 12
    assert max(sizes) <= 5


def test_a_place_that_is_gone_is_said() -> None:
    server = MemoryPulsar(1, 1)
    query = query_of(server, limit=500)
    server.send(20)
    query.run_once()
    server.send(5)
    server.partitions[0].messages = server.partitions[0].messages[-2:]
    assert query.expired()
    topic = PulsarTopic(server, "t", "", False)
    with pytest.raises(LogExpiredError):
        topic.check("0", query.position["t"]["0"])


@each_of(
    ("error", "kind", "condition"),
    [
        ("ConsumerBusy", TransientError, "connection-unreachable"),
        ("AuthorizationError", ProfileError, "topic-forbidden"),
        ("TopicNotFound", ProfileError, "unknown-topic"),
        ("ConnectError", TransientError, "connection-unreachable"),
    ],
)
def test_what_the_client_says_is_an_error_of_who_can_mend_it(
    error: str, kind: type[LakesqlError], condition: str
) -> None:
    class Refusing:
        def get_topic_partitions(self, _: str) -> list[str]:
            raise getattr(pulsar, error)("no")

    with pytest.raises(kind) as raised:
        PulsarTopic(Refusing(), "t", "q", False).starts("earliest")
    (problem,) = raised.value.problems
    assert problem.condition == condition
    assert ("subscription_prefix" in problem.fix) == (error == "ConsumerBusy")
