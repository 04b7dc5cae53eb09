"""Nexmark's events: persons who sell, auctions, and bids, some seconds out of order
(after Beam's generator)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Event = dict[str, Any]

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
STEP = timedelta(milliseconds=100)
"""From one event to the next."""

OUT_OF_ORDER_S = 2.0
"""So far an event may be behind those that have arrived before it: less than the
streams' watermarks wait."""

WATERMARK = {"column": "dateTime", "delay": "4 seconds"}

COLUMNS: dict[str, dict[str, Any]] = {
    "person": {
        "id": {"type": "bigint", "required": True},
        "name": "string",
        "city": "string",
        "state": "string",
        "dateTime": {"type": "timestamp", "required": True},
    },
    "auction": {
        "id": {"type": "bigint", "required": True},
        "itemName": "string",
        "initialBid": "bigint",
        "dateTime": {"type": "timestamp", "required": True},
        "expires": {"type": "timestamp", "required": True},
        "seller": "bigint",
        "category": "bigint",
    },
    "bid": {
        "auction": {"type": "bigint", "required": True},
        "bidder": {"type": "bigint", "required": True},
        "price": "bigint",
        "channel": "string",
        "url": "string",
        "dateTime": {"type": "timestamp", "required": True},
    },
}
"""The columns of each stream."""

STATES = ("OR", "ID", "CA", "WA", "AZ")
CITIES = ("Portland", "Boise", "San Francisco", "Seattle", "Phoenix")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple", "channel-17", "channel-4")


@dataclass(slots=True)
class Arrivals:
    """What arrives of each stream."""

    person: list[Event] = field(default_factory=list)
    auction: list[Event] = field(default_factory=list)
    bid: list[Event] = field(default_factory=list)

    def of(self, stream: str) -> list[Event]:
        """The events of a stream, in the order in which they arrive."""
        found: list[Event] = getattr(self, stream)
        return found


def make_events(count: int, seed: int) -> list[Arrivals]:
    """So many events, one after the other: each is the only one of its `Arrivals`."""
    chance = random.Random(seed)
    persons, auctions = 0, 0
    found = []
    for number in range(count):
        late = timedelta(seconds=round(chance.uniform(0, OUT_OF_ORDER_S), 1))
        at = START + timedelta(seconds=OUT_OF_ORDER_S) + number * STEP - late
        arrived = Arrivals()
        kind = number % 50
        if kind == 0:
            arrived.person.append(_person(persons, at, chance))
            persons += 1
        elif kind < 4:
            arrived.auction.append(
                _auction(auctions, at, chance.randrange(persons), chance)
            )
            auctions += 1
        else:
            arrived.bid.append(_bid(at, auctions, persons, chance))
        found.append(arrived)
    return found


def cut(events: Sequence[Arrivals], parts: int) -> Iterator[Arrivals]:
    """The same events in so many parts that follow each other."""
    size = -(-len(events) // parts)
    for start in range(0, len(events), size):
        part = Arrivals()
        for arrived in events[start : start + size]:
            for stream in COLUMNS:
                part.of(stream).extend(arrived.of(stream))
        yield part


def closing(number: int) -> Arrivals:
    """An event of each stream, days later: by its time all windows of the others are
    over. Its ids are negative."""
    at, one = START + timedelta(days=number), -number
    chance = random.Random(number)
    person, auction = _person(one, at, chance), _auction(one, at, one, chance)
    bid = {**_bid(at, 1, 1, chance), "auction": one, "bidder": one}
    return Arrivals([person], [auction], [bid])


def _person(number: int, at: datetime, chance: random.Random) -> Event:
    return {
        "id": number,
        "name": f"person {number}",
        "city": chance.choice(CITIES),
        "state": chance.choice(STATES),
        "dateTime": at,
    }


def _auction(number: int, at: datetime, seller: int, chance: random.Random) -> Event:
    return {
        "id": number,
        "itemName": f"item {number}",
        "initialBid": chance.randrange(1, 1_000),
        "dateTime": at,
        "expires": at + timedelta(seconds=chance.randrange(1, 20)),
        "seller": seller,
        "category": 10 + chance.randrange(5),
    }


def _bid(at: datetime, auctions: int, persons: int, chance: random.Random) -> Event:
    """A bid for one of the newest auctions."""
    channel = chance.choice(CHANNELS)
    return {
        "auction": chance.randrange(max(0, auctions - 20), auctions),
        "bidder": chance.randrange(persons),
        "price": chance.randrange(1, 2_000_000),
        "channel": channel,
        "url": f"https://www.nexmark.com/{channel.lower()}/item{chance.randrange(100)}/all?query={chance.randrange(10)}&channel_id={chance.randrange(1000)}",
        "dateTime": at,
    }
