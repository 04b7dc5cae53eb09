"""Where a batch of several tables ends: all of a transaction or nothing, in generated
feeds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lakesql.progress.transaction_cut import (
    Cut,
    Stretch,
    count_changes,
    find_cut,
    find_missing,
)

TABLES = ("a", "b", "c")


@dataclass(frozen=True)
class Feed:
    """Changes by partition in the order of their offsets, each a transaction, its table
    and its number there; which transactions are over, and how far each partition can be
    read."""

    partitions: Mapping[tuple[str, int], list[tuple[str, str, int]]]
    sizes: Mapping[str, Mapping[str, int]]
    ends: Mapping[str, Mapping[int, int]]

    def stretches(self) -> list[Stretch]:
        found = []
        for (topic, partition), changes in self.partitions.items():
            read = changes[: self.ends[topic][partition]]
            for name in dict.fromkeys(change[0] for change in read):
                places = [at for at, change in enumerate(read) if change[0] == name]
                counts = Counter(
                    table for it, table, _ in dict.fromkeys(read) if it == name
                )
                found.append(
                    Stretch(topic, partition, name, places[0], places[-1], dict(counts))
                )
        return found


def make_feed(seed: int) -> Feed:
    """A log of transactions, written to a topic for each table with some partitions, as
    far as it has arrived."""
    chance = random.Random(seed)
    partitions = {
        (table, number): []
        for table in TABLES
        for number in range(chance.choice([1, 1, 2]))
    }
    numbers = {
        table: sum(topic == table for topic, _ in partitions) for table in TABLES
    }
    sizes: dict[str, dict[str, int]] = {}
    for transaction in range(chance.randrange(1, 12)):
        changed = [chance.choice(TABLES) for _ in range(chance.randrange(1, 5))]
        for order, table in enumerate(changed):
            place = (table, chance.randrange(numbers[table]))
            partitions[place].append((f"t{transaction}", table, order))
        sizes[f"t{transaction}"] = dict(Counter(changed))
    over = {name: size for name, size in sizes.items() if chance.random() < 0.9}
    ends: dict[str, dict[int, int]] = {}
    for (topic, number), changes in partitions.items():
        missing = chance.choice([0, 0, 1, 2])
        ends.setdefault(topic, {})[number] = max(0, len(changes) - missing)
    return Feed(partitions, over, ends)


def taken(feed: Feed, cut: Cut) -> Counter[str]:
    """How many changes of each transaction stand before the cut."""
    return Counter(
        change[0]
        for (topic, number), changes in feed.partitions.items()
        for change in changes[: cut.ends[topic][number]]
    )


@given(st.integers(0, 10**6))
def test_each_transaction_is_whole_or_absent_and_nothing_more_could_be_taken(
    seed: int,
) -> None:
    feed = make_feed(seed)
    cut = find_cut(feed.ends, feed.stretches(), feed.sizes, ())
    found = taken(feed, cut)
    assert found == {name: sum(feed.sizes[name].values()) for name in cut.whole}
    assert not cut.whole & cut.open
    for (topic, number), changes in feed.partitions.items():
        end = cut.ends[topic][number]
        assert end <= feed.ends[topic][number]
        if end < feed.ends[topic][number]:  # what stands there cannot be taken
            assert changes[end][0] in cut.open
    # A larger set of whole transactions, found by trying each order, does not exist.
    assert cut.whole == best_cut(feed)


def best_cut(feed: Feed) -> set[str]:
    """The largest set of transactions that is closed: all that stand before one of them
    are of it too."""
    names = {
        change[0]
        for (topic, number), all_ in feed.partitions.items()
        for change in all_[: feed.ends[topic][number]]
    }
    seen = Counter(
        change[0]
        for (topic, number), changes in feed.partitions.items()
        for change in changes[: feed.ends[topic][number]]
    )
    possible = {
        name
        for name in names
        if name in feed.sizes and seen[name] == sum(feed.sizes[name].values())
    }
    while True:
        blocked = set()
        for (topic, number), changes in feed.partitions.items():
            is_open = False
            for change in changes[: feed.ends[topic][number]]:
                is_open = is_open or change[0] not in possible
                if is_open and change[0] in possible:
                    blocked.add(change[0])
        if not blocked:
            return possible
        possible -= blocked


def test_repetitions_of_what_was_written_stand_in_nobodys_way() -> None:
    repeated = Stretch("a", 0, "t1", 3, 4, {"a": 1})
    new = Stretch("a", 0, "t2", 5, 5, {"a": 1})
    cut = find_cut({"a": {0: 6}}, [repeated, new], {"t2": {"a": 1}}, {"t1"})
    assert cut.ends == {"a": {0: 6}} and cut.whole == {"t2"}
    assert find_cut({"a": {0: 6}}, [repeated, new], {"t2": {"a": 1}}, ()).ends == {
        "a": {0: 3}
    }


def test_what_is_missing_is_named() -> None:
    stretches = [
        Stretch("a", 0, "t1", 0, 1, {"a": 2}),
        Stretch("b", 0, "t1", 0, 0, {"b": 1}),
    ]
    seen = count_changes(stretches, {"a": {0: 2}, "b": {0: 1}})["t1"]
    assert list(find_missing(seen, {"a": 2, "b": 3, "c": 1})) == [
        ("b", 1, 3),
        ("c", 0, 1),
    ]


def test_where_order_is_known_the_end_of_a_transaction_stands_for_all_of_it() -> None:
    repeated = Stretch("a", 0, "t1", 5, 5, {"a": 1}, {"a": 3})
    assert find_cut({"a": {0: 6}}, [repeated], {"t1": {"a": 3}}, ()).whole == {"t1"}
    assert (
        find_cut({"a": {0: 6, 1: 4}}, [repeated], {"t1": {"a": 3}}, ()).whole == set()
    )
