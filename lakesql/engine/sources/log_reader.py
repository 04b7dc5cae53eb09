"""How a query reads the topics of a log batch by batch: from which places, how far, and
what is gone."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import TransientError
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPage,
    LogPlaces,
    LogSource,
    find_left,
)
from lakesql.source.stream_state import Expired, Position

BATCH_RECORDS = 100_000
"""How many records a batch has at most if its stream sets no `max_per_batch`, as the
driver holds them in memory."""

BATCH_BYTES = 256 * 1024 * 1024
"""The approximate limit of the values in a batch, in bytes: a partition is not read
further once its share is reached."""

READERS = 8
"""How many partitions are read in parallel."""

LogPosition = Mapping[str, LogPlaces]
"""Places by topic and partition."""


class TopicPage(NamedTuple):
    """A page of records from one partition of a topic."""

    topic: str
    partition: str
    page: LogPage


@dataclass(slots=True)
class LogReader:
    """Reads the topics of one stream, each opened once.

    `start` is where the stream begins, and `limit` how many records a batch has at
    most.
    """

    source: LogSource
    stream: str
    topics: tuple[str, ...]
    start: Any
    limit: int
    query: str
    _logs: dict[str, Log] = field(default_factory=dict)
    _reached: tuple[Position, Position] = (None, None)
    _behind_ms: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, binding: StreamBinding) -> LogReader:
        """The reader of a stream."""
        stream, source = binding.stream, binding.source
        assert isinstance(source, LogSource)
        topics = tuple(stream.origin.find_topics(tuple))
        return cls(
            source,
            stream.name,
            topics,
            stream.start,
            stream.max_per_batch or BATCH_RECORDS,
            binding.query,
        )

    def log(self, topic: str) -> Log:
        """The log of a topic; opened at the first call."""
        if topic not in self._logs:
            self._logs[topic] = self.source.open(topic, self.query)
        return self._logs[topic]

    def close(self) -> None:
        """Close all clients."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def starts(self) -> dict[str, LogPlaces]:
        """The places at which the stream begins."""
        return {
            topic: dict(self.log(topic).starts(self.start)) for topic in self.topics
        }

    def partitions(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """The places at which reading continues after a position. A topic that the
        position lacks begins at the stream's start."""
        found: dict[str, LogPlaces] = {}
        for topic in self.topics:
            places = (position or {}).get(topic)
            log = self.log(topic)
            found[topic] = dict(
                log.partitions(places) if places is not None else log.starts(self.start)
            )
        return found

    def ends(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """The present ends of the topics."""
        return {
            topic: dict(self.log(topic).ends(places))
            for topic, places in self.partitions(position).items()
        }

    def last(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """The ends of the topics, after all that was sent until now has become
        readable, for a reader at this position."""
        for topic in self.topics:
            self.log(topic).settle()
        return self.ends(position)

    @property
    def behind_ms(self) -> int | None:
        """By how many milliseconds the last read record of a partition is older than
        the partition's newest one; the maximum over all partitions. None if no log has
        reported it."""
        return max(self._behind_ms.values(), default=None)

    def release(self, position: LogPosition) -> None:
        """Allow the logs to drop what lies before a position."""
        for topic in self.topics:
            if topic in position:
                self.log(topic).release(position[topic])

    def with_new_topics(
        self, position: LogPosition | None
    ) -> dict[str, LogPlaces] | None:
        """The position completed with the start places of topics that it lacks; None if
        it lacks none.

        It is recorded before anything of them is read, as `latest` would later mean
        another place.
        """
        known = position or {}
        if known.keys() >= {*self.topics}:
            return None
        return {
            topic: known.get(topic) or dict(self.log(topic).starts(self.start))
            for topic in self.topics
        }

    def read_following(
        self, position: LogPosition, until: LogPosition | None
    ) -> tuple[dict[str, dict[str, Any]] | None, list[TopicPage]]:
        """The position after the next records, and these records. The position is None
        if there is nothing to record.

        If partitions have ended, those that succeed them are read too. There may be a
        new position without records.
        """
        known, at = self._reached
        start = self.partitions(at if known == position else position)
        has_moved = False
        while True:
            end, pages = self.read_next(start, until)
            has_moved = has_moved or bool(pages)
            if any(each.page.records for each in pages):
                return end, pages
            following = self.partitions(end)
            if {*_names(following)} == {*_names(start)}:
                self._reached = (position, end)
                return end if has_moved else None, []
            start = following

    def read_between(self, start: LogPosition, end: LogPosition) -> list[TopicPage]:
        """The records between two positions. None are read of a topic that the first
        position lacks."""
        begin = {
            topic: {partition: start[topic].get(partition) for partition in places}
            for topic, places in end.items()
            if topic in start
        }
        return self.read_all(begin, end)

    def read_next(
        self, position: LogPosition, until: LogPosition | None
    ) -> tuple[dict[str, dict[str, Any]], list[TopicPage]]:
        """The position after the next records, at most `limit`, and these records."""
        reached = {topic: dict(places) for topic, places in position.items()}
        pages = self.read_all(position, until, self.limit)
        for topic, partition, page in pages:
            reached[topic][partition] = page.place
        return reached, pages

    def read_all(
        self, position: LogPosition, until: LogPosition | None, limit: int | None = None
    ) -> list[TopicPage]:
        """The pages of all partitions after a position, those of a partition in order.

        A partition for which `until` has no place, or None, is not read: it did not
        exist yet, or had nothing.
        """
        wanted = [
            (topic, partition, place)
            for topic, places in position.items()
            for partition, place in places.items()
            if until is None or until.get(topic, {}).get(partition) not in (None, place)
        ]
        if not wanted:
            return []
        room = _BatchRoom.of(limit, len(wanted))
        if limit is not None:
            # so that not always the same partitions are left out when the batch is full
            random.shuffle(wanted)

        for topic in self.topics:
            self.log(topic)  # opened here: the threads share it

        def read(one: tuple[str, str, Any]) -> list[TopicPage]:
            topic, partition, place = one
            end = None if until is None else until[topic][partition]
            pages = self._pages(topic, partition, place, end, room)
            return [TopicPage(topic, partition, page) for page in pages]

        with ThreadPoolExecutor(min(READERS, len(wanted)), "log") as readers:
            return [page for pages in readers.map(read, wanted) for page in pages]

    def _pages(
        self, topic: str, partition: str, place: Any, until: Any, room: _BatchRoom
    ) -> Iterator[LogPage]:
        if room.is_spent():
            return
        count = size = 0
        try:
            for page in self.log(topic).read(partition, place, until, room.share):
                yield page
                page_size = sum(len(record.value or b"") for record in page.records)
                room.spend(len(page.records), page_size)
                count, size = count + len(page.records), size + page_size
                if page.behind_ms is not None:
                    self._behind_ms[topic, partition] = page.behind_ms
                if count >= room.share or size >= room.share_bytes:
                    return
            if until is None and (topic, partition) in self._behind_ms:
                self._behind_ms[topic, partition] = 0
        except LogExpiredError as error:
            what = f"Of partition {partition} of {topic}, which stream '{self.stream}' reads, {error}"
            raise TransientError.of(
                "data-lost", what, fix="The next try says what to do."
            ) from None


UNLIMITED = 2**62


@dataclass(slots=True)
class _BatchRoom:
    """What a batch can still hold. A partition may use its `share` of it, and no
    further partition is started once it is used up."""

    left: int
    left_bytes: int
    share: int
    share_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, limit: int | None, partitions: int) -> _BatchRoom:
        """The room of a batch of at most `limit` records from this many partitions;
        without a limit it is practically infinite."""
        if limit is None:
            return cls(UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED)
        return cls(
            limit, BATCH_BYTES, -(-limit // partitions), BATCH_BYTES // partitions
        )

    def spend(self, records: int, size: int) -> None:
        """Subtract what was read."""
        with self._lock:
            self.left -= records
            self.left_bytes -= size

    def is_spent(self) -> bool:
        """Whether the batch is full."""
        with self._lock:
            return self.left <= 0 or self.left_bytes <= 0


def find_expired(
    reader: LogReader, position: LogPosition
) -> Mapping[tuple[str, str], Expired]:
    """The places of a position after which something is gone, by topic and partition,
    with the reason. The places at which reading continues are checked too, as
    partitions may have been added."""
    found = dict(find_left(reader.topics, position))
    with closing(reader):
        for topic in reader.topics:
            log = reader.log(topic)
            for partition, place in (
                log.partitions(position[topic]).items() if topic in position else ()
            ):
                try:
                    log.check(partition, place)
                except LogExpiredError as error:
                    found[topic, partition] = Expired(str(error), error.follows)
    return found


def _names(position: LogPosition) -> Iterator[tuple[str, str]]:
    return (
        (topic, partition) for topic, places in position.items() for partition in places
    )
