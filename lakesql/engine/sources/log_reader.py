"""What a query reads of the topics of a log at a time: which places, how far, and what
is gone."""

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
"""How many records a batch has at most where its stream sets no `max_per_batch`: the
driver holds them."""

BATCH_BYTES = 256 * 1024 * 1024
"""How large their values may be, about: a partition is read no further once its share
of it is there."""

READERS = 8
"""How many partitions are read in parallel."""

LogPosition = Mapping[str, LogPlaces]
"""Places by topic and partition."""


class TopicPage(NamedTuple):
    """Some records of a partition of a topic."""

    topic: str
    partition: str
    page: LogPage


@dataclass(slots=True)
class LogReader:
    """The topics of one stream, each opened once.

    `start` is where it begins, and `limit` how many records of it are read at a time.
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
        """The log of a topic."""
        if topic not in self._logs:
            self._logs[topic] = self.source.open(topic, self.query)
        return self._logs[topic]

    def close(self) -> None:
        """Let all clients go."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def starts(self) -> dict[str, LogPlaces]:
        """Where the stream begins."""
        return {
            topic: dict(self.log(topic).starts(self.start)) for topic in self.topics
        }

    def partitions(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """The partitions to read behind a position; those of a topic that it does not
        know begin where they do."""
        found: dict[str, LogPlaces] = {}
        for topic in self.topics:
            places = (position or {}).get(topic)
            log = self.log(topic)
            found[topic] = dict(
                log.partitions(places) if places is not None else log.starts(self.start)
            )
        return found

    def ends(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """Where the topics end now."""
        return {
            topic: dict(self.log(topic).ends(places))
            for topic, places in self.partitions(position).items()
        }

    def last(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """Where the topics end, with all that was sent until now, as a reader at a
        position needs it."""
        for topic in self.topics:
            self.log(topic).settle()
        return self.ends(position)

    @property
    def behind_ms(self) -> int | None:
        """How much older than the newest record of its partition that one is up to
        which a batch has read it, at most; None where no log has said it."""
        return max(self._behind_ms.values(), default=None)

    def release(self, position: LogPosition) -> None:
        """Let go of what lies before a position."""
        for topic in self.topics:
            if topic in position:
                self.log(topic).release(position[topic])

    def with_new_topics(
        self, position: LogPosition | None
    ) -> dict[str, LogPlaces] | None:
        """The position with the places where those topics begin that it does not know;
        None where it knows all.

        It is noted before anything of them is read: at another time, `latest` means
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
        """The next records behind a position, and where they end; None where there is
        nothing to note.

        Where partitions have ended, those that begin behind them are read too. There
        may be an end without records.
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
        """The records between two positions. A topic that the first one does not know
        begins where the other one is."""
        begin = {
            topic: {partition: start[topic].get(partition) for partition in places}
            for topic, places in end.items()
            if topic in start
        }
        return self.read_all(begin, end)

    def read_next(
        self, position: LogPosition, until: LogPosition | None
    ) -> tuple[dict[str, dict[str, Any]], list[TopicPage]]:
        """The next records behind a position, and where they end."""
        reached = {topic: dict(places) for topic, places in position.items()}
        pages = self.read_all(position, until, self.limit)
        for topic, partition, page in pages:
            reached[topic][partition] = page.place
        return reached, pages

    def read_all(
        self, position: LogPosition, until: LogPosition | None, limit: int | None = None
    ) -> list[TopicPage]:
        """The pages of all partitions behind a position, those of one in their order.

        A partition of which `until` has no place, or None, is not read: it was not
        there yet, or had nothing.
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
            # those that are left out, as the others have filled the batch, are others
            # each time
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
    """What a batch may have still. A partition has at most its `share` of it, and none
    is begun once it is spent."""

    left: int
    left_bytes: int
    share: int
    share_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, limit: int | None, partitions: int) -> _BatchRoom:
        """The room of a batch of at most `limit` records from so many partitions.
        Without a limit all is read, whatever its size."""
        if limit is None:
            return cls(UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED)
        return cls(
            limit, BATCH_BYTES, -(-limit // partitions), BATCH_BYTES // partitions
        )

    def spend(self, records: int, size: int) -> None:
        """Count what was read."""
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
    """Behind which places of a position something is gone, and why. Those that are to
    be read next are looked at: a partition may have come since."""
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
