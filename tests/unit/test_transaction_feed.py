"""Rounds over a feed in memory: whatever comes late, twice or never, no batch has a
part of a transaction."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from lakesql.engine.sources.transactions import FoundChanges
from lakesql.engine.together import transaction_feed
from lakesql.engine.together.rounds import Standing
from lakesql.engine.together.transaction_feed import (
    PATIENCE_MS,
    GroupTopics,
    TransactionFeed,
    read_state,
)
from lakesql.errors import RunError
from lakesql.progress.transaction_cut import Sizes, Stretch
from lakesql.source.cluster import Offsets
from lakesql.source.stream_state import Position
from tests.cases import each_of

TABLES = ("a", "b")
Change = tuple[str, str, int]
"""The transaction, the table, and the number among the changes of the table in it; ''
is no transaction."""


@dataclass
class Log:
    """Topics of one partition each, named as the tables are, and what is told of
    transactions."""

    topics: dict[str, list[Change]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    told: list[tuple[str, Sizes]] = field(default_factory=list)
    begins: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    has_transactions: bool = True
    reads: int = 0

    def write(
        self, name: str, *tables: str, part: slice = slice(None), is_over: bool = True
    ) -> None:
        """The changes of a transaction, or a part of them, and that it is over."""
        numbers: Counter[str] = Counter()
        changes = []
        for table in tables:
            numbers[table] += 1
            changes.append((table, (name, table, numbers[table])))
        for table, change in changes[part]:
            self.topics[table].append(change)
        if is_over:
            self.told.append((name, dict(Counter(tables))))

    def has_topic(self, topic: str) -> bool:
        return self.has_transactions if topic == "tx" else topic in self.topics

    def ends(
        self, topics: Collection[str]
    ) -> tuple[dict[str, dict[int, int]], Mapping[str, str]]:
        held = {**self.topics, "tx": self.told}
        return {it: {0: len(held[it])} for it in topics}, {
            it: self.ids.get(it, it) for it in topics
        }

    def beginnings(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: self.begins.get(topic, 0)} for topic in topics}

    def find_changes(self, start: Offsets, end: Offsets) -> FoundChanges:
        self.reads += 1
        stretches: list[Stretch] = []
        strays: dict[tuple[str, int], int] = {}
        last: dict[tuple[str, int], int] = {}
        for topic in start:
            read = list(enumerate(self.topics[topic]))[start[topic][0] : end[topic][0]]
            for name in dict.fromkeys(change[0] for _, change in read):
                own = [(at, change) for at, change in read if change[0] == name]
                if name:
                    counts = Counter(
                        table for _, table, _ in {change for _, change in own}
                    )
                    reached = {
                        table: max(it[2] for _, it in own if it[1] == table)
                        for table in counts
                    }
                    stretches.append(
                        Stretch(
                            topic, 0, name, own[0][0], own[-1][0], dict(counts), reached
                        )
                    )
                else:
                    strays[topic, 0] = len(own)
                    last[topic, 0] = own[-1][0]
        return FoundChanges(stretches, strays, last)

    def find_sizes(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> dict[str, Sizes]:
        return dict(self.told[start[0] : end[0]])


class Files:
    """A checkpoint's files, which outlive a process."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text


@dataclass
class Group:
    """The models of the two tables, and how far each has come."""

    log: Log
    files: Files = field(default_factory=Files)
    limit: int | None = 100
    names: tuple[str, ...] = TABLES
    accepts_loss: bool = False
    now: int = 0
    said: list[str] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A process that begins."""
        self.feed = TransactionFeed(
            self.log,  # type: ignore[arg-type]
            self.files,  # type: ignore[arg-type]
            lambda: GroupTopics(
                {it: (it,) for it in self.names}, "tx", self.limit, self.name_of
            ),
            self.said.append,
            is_bounded=False,
            accepts_loss=self.accepts_loss,
            clock=lambda: self.now,
        )

    def name_of(self, table: str) -> str:
        return table if table in self.names else ""

    def plan(self) -> Mapping[str, Position]:
        return self.feed.plan(
            {name: Standing(self.positions.get(name)) for name in self.names}
        )

    def round(self) -> bool:
        """One round; whether there was one."""
        ends = self.plan()
        self.positions |= ends
        return bool(ends)

    def rounds(self) -> list[dict[str, int]]:
        """All that there are, and how far the tables were after each."""
        found = []
        while self.round():
            found.append(self.places())
        return found

    def places(self) -> dict[str, int]:
        return {
            name: (self.positions.get(name) or {name: {"0": 0}})[name]["0"]
            for name in self.names
        }

    def taken(self) -> Counter[str]:
        """How many changes of each transaction the tables have."""
        return Counter(
            change[0]
            for name, at in self.places().items()
            for change in {*self.log.topics[name][:at]}
        )

    def is_whole(self) -> bool:
        sizes = {
            name: sum(size.get(it, 0) for it in self.names)
            for name, size in self.log.told
        }
        return all(
            not name or count == sizes.get(name, -1)
            for name, count in self.taken().items()
        )


@pytest.fixture
def group() -> Group:
    return Group(Log())


def test_transactions_are_taken_whole_and_what_is_open_waits(group: Group) -> None:
    group.log.write("t1", "a", "b")
    group.log.write("t2", "a", "b", part=slice(1), is_over=False)
    group.log.write("t3", "b")
    assert group.rounds() == [{"a": 1, "b": 2}]
    assert "t2 is not over" in group.said[-1]
    group.log.topics["b"].append(("t2", "b", 1))
    assert not group.round()
    group.log.told.append(("t2", {"a": 1, "b": 1}))
    assert group.rounds() == [{"a": 2, "b": 3}]


@each_of("seed", range(60))
def test_no_table_is_ever_in_the_middle_of_a_transaction(seed: int) -> None:
    """Random feeds that arrive in pieces, connectors that repeat what they have sent,
    processes that die in a round."""
    chance = random.Random(seed)
    group = Group(Log(), limit=chance.choice([2, 5, 100, None]))
    late: list[tuple[str, Change]] = []
    sent: list[tuple[str, list[str]]] = []
    for number in range(chance.randrange(5, 25)):
        tables = chance.choices(TABLES, k=chance.randrange(1, 5))
        name = f"t{number}"
        group.log.write(name, *tables)
        sent.append((name, tables))
        if chance.random() < 0.3:  # the last change of a topic is still on its way
            topic = chance.choice(TABLES)
            if (
                group.log.topics[topic]
                and len(group.log.topics[topic]) > group.places()[topic]
            ):
                late.append((topic, group.log.topics[topic].pop()))
        # the connector starts again, in the middle of a transaction
        if chance.random() < 0.2 and not late:
            name, tables = chance.choice(sent[-3:])
            group.log.write(
                name, *tables, part=slice(chance.randrange(len(tables)), None)
            )
        if chance.random() < 0.4:
            ends = group.plan()
            died = chance.random() < 0.4
            done = [name for name in ends if not died or chance.random() < 0.5]
            group.positions |= {name: ends[name] for name in done}
            if died:
                group.start()
                group.rounds()
            assert group.is_whole()
        if late and chance.random() < 0.6:
            for topic, change in late:
                group.log.topics[topic].append(change)
            late = []
    for topic, change in late:
        group.log.topics[topic].append(change)
    group.rounds()
    assert group.is_whole()
    assert group.places() == {name: len(group.log.topics[name]) for name in TABLES}


def test_a_transaction_larger_than_a_batch_is_taken(group: Group) -> None:
    group.limit = 3
    group.log.write("t1", *["a"] * 50, "b")
    group.log.write("t2", "b")
    assert group.rounds() == [{"a": 50, "b": 2}]


def test_a_backlog_beyond_what_is_remembered_is_taken(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SIZES_KEPT": 20, "SIZES_READ": 7, "DONE_KEPT": 5}.items():
        monkeypatch.setattr(transaction_feed, name, value)
    group.limit = 10
    for number in range(200):
        group.log.write(f"t{number}", "a", "b")
    group.rounds()
    assert group.places() == {"a": 200, "b": 200} and group.is_whole()


def test_what_never_comes_is_an_error_in_time_and_is_let_go_on_demand(
    group: Group,
) -> None:
    group.log.write("t1", "a", "b", part=slice(1))  # its change of b is gone
    group.log.write("t2", "a", "b")
    assert group.rounds() == []
    assert "0 of 1 changes of b" in group.said[-1]
    group.start()
    group.now += PATIENCE_MS + 1
    with pytest.raises(RunError) as caught:
        group.plan()
    assert caught.value.problems[0].condition == "transaction-incomplete"
    group.accepts_loss = True
    group.start()
    assert group.rounds() == [{"a": 2, "b": 1}]
    assert "taken as they are" in " ".join(group.said)


def test_what_is_only_late_is_not_let_go(group: Group) -> None:
    group.accepts_loss = True
    group.start()
    group.log.write("t1", "a", "b", part=slice(1))
    assert group.rounds() == []
    group.log.topics["b"].append(("t1", "b", 1))
    assert group.rounds() == [{"a": 1, "b": 1}]


def test_tables_apart_are_brought_to_one_place(group: Group) -> None:
    for number in range(5):
        group.log.write(f"t{number}", "a", "b")
    group.positions = {"a": {"a": {"0": 3}}, "b": {"b": {"0": 1}}}
    group.rounds()
    assert group.places() == {"a": 5, "b": 5} and "different places" in group.said[0]
    group.log.write("t9", "a", "b", part=slice(1))
    assert not group.round()


def test_a_table_that_was_rebuilt_is_brought_to_the_others_in_batches(
    group: Group,
) -> None:
    for number in range(50):
        group.log.write(f"t{number}", "a", "b")
    group.rounds()
    group.limit = 20
    group.positions["b"] = {"b": {"0": 0}}
    assert [found["b"] for found in group.rounds()] == [20, 40, 50]


def test_a_topic_that_was_made_anew_is_read_from_its_start(group: Group) -> None:
    for number in range(10):
        group.log.write(f"t{number}", "a", "b")
    group.rounds()
    group.log.topics["a"] = [("t10", "a", 1)]
    group.log.topics["b"].append(("t10", "b", 1))
    group.log.told.append(("t10", {"a": 1, "b": 1}))
    group.log.ids["a"] = "another"
    group.positions["a"] = {"a": {"0": 0}}
    group.rounds()
    assert group.places() == {"a": 1, "b": 11}


def test_tables_that_are_left_out_block_nothing_in_a_shared_topic() -> None:
    group = Group(Log())
    group.names = ("a",)
    group.log.write("t1", "a", "b")
    # a change of another table in the same topic
    group.log.topics["a"].append(("t2", "b", 1))
    group.log.told.append(("t2", {"b": 1}))
    group.log.write("t3", "a")
    assert group.rounds() == [{"a": 3}]


def test_a_table_that_is_left_out_later_is_not_waited_for(group: Group) -> None:
    group.log.write("t1", "a", "b", part=slice(1))
    assert group.rounds() == []
    group.names = ("a",)
    assert group.rounds() == [{"a": 1}]


def test_a_feed_that_does_not_tell_is_refused(group: Group) -> None:
    group.log.has_transactions = False
    group.log.topics["a"].append(("", "a", 1))
    with pytest.raises(RunError, match="say of no transaction"):
        group.plan()


def test_a_topic_of_transactions_that_is_not_there_is_named(group: Group) -> None:
    group.log.has_transactions = False
    group.log.topics["a"].append(("t1", "a", 1))
    with pytest.raises(RunError, match="tx"):
        group.plan()


def test_a_feed_that_stops_to_tell_is_refused(group: Group) -> None:
    group.log.topics["a"].append(("", "a", 1))
    group.log.write("t1", "a", "b")
    assert group.rounds() == [{"a": 2, "b": 1}]
    group.log.write("t2", "a", "b")
    group.log.topics["a"].append(("", "a", 1))
    with pytest.raises(RunError, match="say of no transaction"):
        group.plan()


def test_nothing_is_read_again_while_nothing_comes(group: Group) -> None:
    group.log.write("t1", "a", "b", part=slice(1))
    assert not group.round()
    reads = group.log.reads
    for _ in range(5):
        assert not group.round()
    assert group.log.reads == reads


def test_a_runner_without_its_lease_writes_nothing_down(group: Group) -> None:
    def lose() -> None:
        raise RunError.of("lease-lost", "It has passed on.")

    group.feed._check = lose
    group.log.write("t1", "a", "b")
    with pytest.raises(RunError):
        group.plan()
    assert read_state(group.files).ends == {}  # type: ignore[arg-type]
