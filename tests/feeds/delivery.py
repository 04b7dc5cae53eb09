"""How the records of a group's seeds arrive: in which topics, in which order, how
often, and cut into which batches."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.feeds.source import (
    APART,
    BROKEN_CHANGES,
    BROKEN_ENTRIES,
    GROUP,
    LARGE,
    SPAN,
    Change,
    Entry,
    Log,
    Source,
    broken_event,
    broken_row,
    entries,
    tombstone,
)
from tests.spark.project import Fields, Project

Topic = Literal["in_order", "shuffled", "untruncated", "plain"]
"""The changes as a connector sends them, some of them again when it was killed; the
same in any order, and more than once; the same without truncates; and the rows of a
stream that is no change feed, in any order too."""

DOUBLED = 0.05
DELAYED = 0.05
BROKEN = 0.01

LARGE_ONES = 3
"""How many transactions a feed has in which all seeds change keys."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent at a time of the topic's clock. `what` is good unless there is a
    `reason` for a dead letter.

    `again`: it was sent before.
    """

    clock: float
    seed: int
    partition: int
    fields: Fields
    what: Change | Entry
    reason: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """What was sent, where it stands in its topic."""

    sent: Sent
    batch: int
    offset: int

    @property
    def place(self) -> tuple[int, int]:
        """Which record of its topic it is."""
        return self.sent.partition, self.offset


@dataclass(frozen=True, slots=True)
class Feeds:
    """What arrives for some seeds of a group, and the rows that the source has in the
    end: of the changes in any order, and of those in order."""

    group: int
    seeds: tuple[int, ...]
    log: Log
    sources: tuple[Source, ...]
    in_order: tuple[Source, ...]
    topics: dict[Topic, list[Record]]

    def record(self, project: Project) -> None:
        """Write the topics, a file for each batch."""
        for topic, records in self.topics.items():
            batches: dict[int, list[Fields]] = {}
            for each in records:
                fields = Fields(
                    each.sent.fields, partition=each.sent.partition, offset=each.offset
                )
                batches.setdefault(each.batch, []).append(fields)
            for _, lines in sorted(batches.items()):
                project.record(topic, lines)


def make_feeds(seeds: Iterable[int], batches: int = 0) -> Feeds:
    """The feeds of seeds of one group, in so many batches, or as many as the group has.

    What a seed has does not depend on the other ones, but for the truncates, which are
    those of its group; nor do the batches.
    """
    seeds = tuple(seeds)
    (group,) = {seed // GROUP for seed in seeds}
    chance = random.Random(f"group {group}")
    log = Log(
        chance.choice(["postgres", "postgres", "mysql"]),
        chance.random() < 0.5,
        chance.choice([1, 3]),
    )
    truncates = tuple(
        sorted(
            time * APART - 1
            for time in chance.sample(range(1, SPAN // APART), chance.randrange(4))
        )
    )
    ends = sorted(chance.random() for _ in range(batches or chance.randrange(4, 9)))[
        :-1
    ]
    segments = random_segments(chance)
    large = tuple(
        time * APART
        for time in sorted(chance.sample(range(1, (SPAN - LARGE) // APART), LARGE_ONES))
    )
    sources = tuple(Source(seed, truncates) for seed in seeds)
    in_order = tuple(
        Source(seed, truncates, large, swaps=log.database == "postgres")
        for seed in seeds
    )
    changes, ordered = (
        [
            *(change for source in each for change in source.changes),
            *(Change(time, 1, "t", transaction=time) for time in truncates),
        ]
        for each in (sources, in_order)
    )
    shuffled = [sent for change in changes for sent in send_anyhow(log, change)]
    sent: dict[Topic, list[Sent]] = {
        "in_order": list(send_in_order(log, ordered, segments, large)),
        "shuffled": shuffled,
        "untruncated": [sent for sent in shuffled if sent.seed >= 0],
        "plain": [
            sent for seed in seeds for sent in send_entries(seed, log.partitions)
        ],
    }
    lengths = dict.fromkeys(sent, SPAN) | {
        "in_order": sum(end - start for start, end in segments)
    }
    within = [
        time / lengths["in_order"]
        for time in random_clocks_within(chance, large, segments)
    ]
    cuts = dict.fromkeys(sent, ends) | {
        "in_order": sorted([*within, *ends][: len(ends)])
    }
    topics = {
        topic: list(cut(each, cuts[topic], lengths[topic]))
        for topic, each in sent.items()
    }
    return Feeds(group, seeds, log, sources, in_order, topics)


def cut(sent: list[Sent], ends: list[float], length: int) -> Iterator[Record]:
    """What was sent, by its topic's clock of this length, in batches that end at these
    shares of it."""
    offsets: dict[int, int] = {}
    for each in sorted(sent, key=lambda each: each.clock):
        offset = offsets.setdefault(each.partition, 0)
        offsets[each.partition] += 1
        yield Record(each, bisect(ends, each.clock / length), offset)


# --- in order, and the last ones again


def random_segments(chance: random.Random) -> list[tuple[int, int]]:
    """The parts of the log that a connector sends one after the other: it was killed in
    between, and begins again earlier than it has stopped."""
    stops = sorted(chance.sample(range(1, SPAN), 3))
    starts = [
        max(0, stop - chance.choice([SPAN // 1000, SPAN // 50, SPAN // 5]))
        for stop in stops
    ]
    return list(zip([0, *starts], [*stops, SPAN], strict=True))


def random_clocks_within(
    chance: random.Random, large: tuple[int, ...], segments: list[tuple[int, int]]
) -> Iterator[float]:
    """A time of the topic's clock within each of the large transactions, in one of its
    deliveries."""
    clocks: dict[int, list[int]] = {time: [] for time in large}
    clock = 0
    for start, end in segments:
        for time in large:
            if start < time <= end - LARGE:
                clocks[time].append(clock + time - start)
        clock += end - start
    for found in clocks.values():
        if found:
            yield chance.choice(found) + chance.randrange(4 * GROUP) + 0.25


def send_in_order(
    log: Log,
    changes: list[Change],
    segments: list[tuple[int, int]],
    large: tuple[int, ...],
) -> Iterator[Sent]:
    """The changes of each segment. Now and then one is sent twice at once.

    In a large transaction the halves of a change of a key stand apart, so that a batch
    ends between those of many.
    """
    chances: dict[int, random.Random] = {}
    clock = read_to = 0
    for start, end in segments:
        for change in sorted(changes, key=lambda change: change.time):
            if not start < change.time <= end:
                continue
            chance = chances.setdefault(
                change.seed, random.Random(f"in order {change.seed}")
            )
            again = change.time <= read_to
            for number in range(2 if chance.random() < DOUBLED else 1):
                at = float(clock + change.time - start)
                if change.is_entering:
                    at += GROUP / 2 if change.transaction in large else 0.5
                yield from send_change(
                    log, change, at, sends_all=False, again=again or number > 0
                )
            yield from send_broken(log, change, at, chance, sequenced=False)
        clock += end - start
        read_to = max(read_to, end)


def send_change(
    log: Log, change: Change, clock: float, sends_all: bool, again: bool
) -> Iterator[Sent]:
    partition = log.partition(change)
    yield Sent(
        clock, change.seed, partition, log.event(change, sends_all), change, again=again
    )
    if change.op == "d":
        yield Sent(clock, change.seed, partition, tombstone(change), change, again=True)


def send_broken(
    log: Log, change: Change, clock: float, chance: random.Random, sequenced: bool
) -> Iterator[Sent]:
    """Now and then, a change that never was. `sequenced`: the topic is read by position
    alone."""
    if change.key and chance.random() < BROKEN:
        fault = chance.choice(
            [fault for fault in BROKEN_CHANGES if sequenced or fault != "no place"]
        )
        fields = broken_event(log, change, fault)
        yield Sent(
            clock,
            change.seed,
            log.partition(change),
            fields,
            change,
            BROKEN_CHANGES[fault],
        )


# --- in any order


def send_anyhow(log: Log, change: Change) -> Iterator[Sent]:
    """A change when it happened, or long after it, once or twice. A row that a snapshot
    has read is sent then, and what it has seen before it."""
    chance = random.Random(f"anyhow {change.seed} {change.time} {change.order}")
    clocks = [change.time] if change.is_read else random_clocks(chance, change.time)
    for number, clock in enumerate(min(clock, change.until - 0.5) for clock in clocks):
        yield from send_change(log, change, clock, sends_all=True, again=number > 0)
        yield from send_broken(log, change, clock, chance, sequenced=True)


def send_entries(seed: int, partitions: int) -> Iterator[Sent]:
    chance = random.Random(f"sent {seed}")
    for entry in entries(seed):
        partition = (entry.key[0] + len(entry.key[1]) + seed) % partitions
        for number, clock in enumerate(random_clocks(chance, entry.time)):
            yield Sent(
                clock,
                seed,
                partition,
                Fields(value=entry.row()),
                entry,
                again=number > 0,
            )
            if chance.random() < BROKEN:
                fault = chance.choice(list(BROKEN_ENTRIES))
                fields = Fields(value=broken_row(entry, fault))
                yield Sent(clock, seed, partition, fields, entry, BROKEN_ENTRIES[fault])


def random_clocks(chance: random.Random, time: int) -> Iterator[int]:
    """When something is sent that happened at this time."""
    for number in range(2 if chance.random() < DOUBLED else 1):
        far = chance.choice([SPAN // 1000, SPAN // 10, SPAN, SPAN])
        yield min(
            time
            + (chance.randrange(far) if number or chance.random() < DELAYED else 0),
            SPAN,
        )
