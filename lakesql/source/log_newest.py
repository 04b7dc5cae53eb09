"""The newest records of a log's topics, as samples. They are read without an owner, so
that no reader's retention changes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Lock

from lakesql.clock import now_ms
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPlace,
    LogPlaces,
    LogRecord,
    LogSource,
)
from lakesql.source.origin import StreamOrigin
from lakesql.source.source import Start

LOOKS_BACK_S = (1, 10, 60, 600, 3_600, 24 * 3_600)
"""How far back records are looked for, step by step until there are enough; after the
last step, from the beginning."""

READERS = 8
"""How many partitions are read in parallel."""

PAGE_RECORDS = 10_000


def newest_of_topics(
    source: LogSource, origin: StreamOrigin, rows: int
) -> Mapping[str, Sequence[LogRecord]]:
    """About the newest `rows` records of an origin, shared among its topics, each
    topic's from the oldest."""
    found: dict[str, list[LogRecord]] = {}
    for topic in origin.find_topics(tuple):
        with closing(source.open(topic, "")) as log:
            found[topic] = newest_records(log, rows, source.loaded().numbers_records)
    left, shares = rows, dict[str, int]()
    by_size = sorted(found, key=lambda topic: len(found[topic]))
    for position, topic in enumerate(by_size):
        shares[topic] = min(len(found[topic]), -(-left // (len(by_size) - position)))
        left -= shares[topic]
    return {
        topic: records[len(records) - shares[topic] :]
        for topic, records in found.items()
    }


def newest_records(log: Log, rows: int, numbers_records: bool) -> list[LogRecord]:
    """The newest `rows` records of a topic, the oldest of them first."""
    if numbers_records:
        first = log.starts("earliest")
        ends = log.ends(first)
        begins = {
            name: max(at or 0, (ends.get(name) or 0) - rows)
            for name, at in first.items()
        }
        return _newest_behind(log, begins, rows)
    for seconds in LOOKS_BACK_S:
        at = datetime.fromtimestamp(now_ms() / 1000, UTC) - timedelta(seconds=seconds)
        found = _newest_behind(log, log.starts(at), rows)
        if len(found) >= rows:
            return found
    start: Start = "earliest"
    return _newest_behind(log, log.starts(start), rows)


@dataclass(slots=True)
class _NewestKept:
    """Keeps the newest of the records that it is given by several threads."""

    rows: int
    _kept: list[tuple[int, int, LogRecord]] = field(default_factory=list)
    _arrivals: Iterator[int] = field(default_factory=count)
    _lock: Lock = field(default_factory=Lock)

    def add(self, records: Sequence[LogRecord]) -> None:
        """Consider more records."""
        with self._lock:
            for record in records:
                one = (record.timestamp_us, next(self._arrivals), record)
                if len(self._kept) < self.rows:
                    heapq.heappush(self._kept, one)
                else:
                    heapq.heappushpop(self._kept, one)

    def records(self) -> list[LogRecord]:
        """The kept records, the oldest first."""
        return [record for _, _, record in sorted(self._kept)]


def _newest_behind(log: Log, begins: LogPlaces, rows: int) -> list[LogRecord]:
    """The newest records between the places and the present ends of the partitions,
    including those of partitions that begin after the end of another one."""
    newest = _NewestKept(rows)
    places, left = dict(begins), dict(begins)
    while left:
        ends = log.ends(left)
        wanted = {
            name: place for name, place in left.items() if ends.get(name) is not None
        }

        def read(
            name: str, ends: LogPlaces = ends, wanted: LogPlaces = wanted
        ) -> tuple[str, LogPlace]:
            return name, _read_partition(log, name, wanted[name], ends[name], newest)

        with ThreadPoolExecutor(READERS, "samples") as readers:
            places |= dict(readers.map(read, wanted))
        following = log.partitions(places)
        left = {name: place for name, place in following.items() if name not in places}
        places |= left
    return newest.records()


def _read_partition(
    log: Log, name: str, place: LogPlace, until: LogPlace, newest: _NewestKept
) -> LogPlace:
    """Read a partition from a place on, or from the place after expired records.
    Returns the place up to which it was read."""
    for _ in range(2):
        try:
            while True:
                before = place
                for page in log.read(name, place, until, PAGE_RECORDS):
                    newest.add(page.records)
                    place = page.place
                if place in (before, until):
                    return place
        except LogExpiredError as error:
            place = error.follows
    return place
