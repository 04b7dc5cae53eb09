"""Logs that a client in Python reads: the driver reads a batch once, and hands it to Spark as Arrow.

So executors need no Python, and what a log counts, such as Kinesis its calls, is used once. Where a query keeps state
or reads several streams, Spark plans the batches, and asks a data source for them.
"""

from __future__ import annotations

import base64
import pickle
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import Place, PlannedBatches, Planning, SparkSource, check_origin
from lakesql.engine.spark.session import changed_settings
from lakesql.errors import TransientError
from lakesql.source.log import Log, LogExpiredError, LogPage, LogPlaces, LogRecord, LogSource, find_left
from lakesql.source.seen_files import SeededSource, SeenFile
from lakesql.source.stream_state import Expired, Position, SourceState

BATCH_RECORDS = 100_000
"""How many records a batch has at most where its stream sets no `max_per_batch`: the driver holds them."""

BATCH_BYTES = 256 * 1024 * 1024
"""How large their values may be, about: a partition is read no further once its share of it is there."""

READERS = 8
"""How many partitions are read at once."""

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
"""The shape of raw records."""

LogPosition = Mapping[str, LogPlaces]
"""Places by topic and partition."""


class TopicPage(NamedTuple):
    """Some records of a partition of a topic."""

    topic: str
    partition: str
    page: LogPage


class SparkLog(SparkSource):
    """A topic of a log, or several."""

    kind: ClassVar[str] = LogSource.reader
    ends_by_itself: ClassVar[bool] = False

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The records as they arrive, in batches that Spark plans. The driver reads them all the same."""
        # Only here: few runs need its modules of pyspark, which no thread may import while another starts a session.
        from lakesql.engine.sources.log_data_source import LogDataSource

        check_origin(binding)
        session.dataSource.register(LogDataSource)
        packed = base64.b64encode(pickle.dumps((LogReader.of(binding), binding.is_bounded)))
        return session.readStream.format(LogDataSource.name()).option("reader", packed.decode()).load()

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """What the driver reads at a time."""
        check_origin(binding)
        return LogBatches(session, LogReader.of(binding))

    def read_now(self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None) -> DataFrame:
        """The records that are there now, from the stream's start on."""
        check_origin(binding)
        with closing(LogReader.of(binding)) as reader:
            return as_frame(session, reader.read_all(reader.starts(), None))

    def read_before(self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]) -> DataFrame:
        """The records of a log without numbers cannot be found again."""
        if _source(binding).numbers_records:
            return super().read_before(session, binding, places)
        return session.createDataFrame([], RAW)

    def state_now(self, session: SparkSession, binding: StreamBinding, brokers: Brokers) -> SourceState:
        """Its topics, and where they begin and end as far as that is known without reading."""
        check_origin(binding)
        state = replace(_log_source(binding).state_of(binding.stream), kind=binding.source.kind)
        if _source(binding).numbers_records:
            return state
        return replace(state, find_expired=partial(find_expired, LogReader.of(binding)))

    def topic_ids(self, session: SparkSession, binding: StreamBinding, brokers: Brokers) -> Mapping[str, str]:
        """The ids of its topics."""
        if not _source(binding).tells_ids:
            return {}
        found = {}
        for topic in binding.stream.origin.find_topics(tuple):
            with closing(_log_source(binding).open(topic, "")) as log:
                found[topic] = log.id
        return found

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The places themselves."""
        return SeededSource(position or None)

    def holdings(
        self, session: SparkSession, binding: StreamBinding, state: SourceState, seen: Callable[[], Sequence[SeenFile]]
    ) -> tuple[list[str], str]:
        """What came before the first record of each partition, and how much is there, where records are numbered."""
        if not _source(binding).numbers_records:
            return self._gone(binding), "what the log still has"
        held = gone = 0
        names = []
        for topic, begins in sorted(state.beginnings.items()):
            for partition, first in sorted(begins.items()):
                held += state.ends[topic][partition] - first
                missing = first - _source(binding).first_number
                gone += missing
                names += [f"{topic}-{partition}: up to {first - 1}"] if missing else []
        return names, count(held, "record")

    def _gone(self, binding: StreamBinding) -> list[str]:
        found: list[str] = []
        for topic in binding.stream.origin.find_topics(tuple):
            with closing(_log_source(binding).open(topic, "")) as log:
                found += log.gone()
        return found


def _log_source(binding: StreamBinding) -> LogSource:
    assert isinstance(binding.source, LogSource)
    return binding.source


def _source(binding: StreamBinding) -> LogSource:
    """The source with its code loaded, which says what kind of log it is."""
    return _log_source(binding).loaded()


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

    @classmethod
    def of(cls, binding: StreamBinding) -> LogReader:
        """The reader of a stream."""
        stream, source = binding.stream, binding.source
        assert isinstance(source, LogSource)
        topics = tuple(stream.origin.find_topics(tuple))
        return cls(source, stream.name, topics, stream.start, stream.max_per_batch or BATCH_RECORDS, binding.query)

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
        return {topic: dict(self.log(topic).starts(self.start)) for topic in self.topics}

    def partitions(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """The partitions to read behind a position; those of a topic that it does not know begin where they do."""
        found: dict[str, LogPlaces] = {}
        for topic in self.topics:
            places = (position or {}).get(topic)
            log = self.log(topic)
            found[topic] = dict(log.partitions(places) if places is not None else log.starts(self.start))
        return found

    def ends(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """Where the topics end now."""
        return {topic: dict(self.log(topic).ends(places)) for topic, places in self.partitions(position).items()}

    def last(self, position: LogPosition | None) -> dict[str, LogPlaces]:
        """Where the topics end, with all that was sent until now, as a reader at a position needs it."""
        for topic in self.topics:
            self.log(topic).settle()
        return self.ends(position)

    def release(self, position: LogPosition) -> None:
        """Let go of what lies before a position."""
        for topic in self.topics:
            if topic in position:
                self.log(topic).release(position[topic])

    def with_new_topics(self, position: LogPosition | None) -> dict[str, LogPlaces] | None:
        """The position with the places where those topics begin that it does not know; None where it knows all.

        It is noted before anything of them is read: at another time, `latest` means another place.
        """
        known = position or {}
        if known.keys() >= {*self.topics}:
            return None
        return {topic: known.get(topic) or dict(self.log(topic).starts(self.start)) for topic in self.topics}

    def read_following(
        self, position: LogPosition, until: LogPosition | None
    ) -> tuple[dict[str, dict[str, Any]] | None, list[TopicPage]]:
        """The next records behind a position, and where they end; None where there is nothing to note.

        Where partitions have ended, those that begin behind them are read too. There may be an end without records.
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
        """The records between two positions. A topic that the first one does not know begins where the other one is."""
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

    def read_all(self, position: LogPosition, until: LogPosition | None, limit: int | None = None) -> list[TopicPage]:
        """The pages of all partitions behind a position, those of one in their order.

        A partition of which `until` has no place, or None, is not read: it was not there yet, or had nothing.
        """
        wanted = [
            (topic, partition, place)
            for topic, places in position.items()
            for partition, place in places.items()
            if until is None or until.get(topic, {}).get(partition) not in (None, place)
        ]
        if not wanted:
            return []
        budget = _Budget.of(limit, len(wanted))
        if limit is not None:
            random.shuffle(wanted)  # those that are left out, as the others have filled the batch, are others each time

        for topic in self.topics:
            self.log(topic)  # opened here: the threads share it

        def read(one: tuple[str, str, Any]) -> list[TopicPage]:
            topic, partition, place = one
            end = None if until is None else until[topic][partition]
            pages = self._pages(topic, partition, place, end, budget)
            return [TopicPage(topic, partition, page) for page in pages]

        with ThreadPoolExecutor(min(READERS, len(wanted)), "log") as readers:
            return [page for pages in readers.map(read, wanted) for page in pages]

    def _pages(self, topic: str, partition: str, place: Any, until: Any, budget: _Budget) -> Iterator[LogPage]:
        if budget.is_spent():
            return
        count = size = 0
        try:
            for page in self.log(topic).read(partition, place, until, budget.share):
                yield page
                page_size = sum(len(record.value or b"") for record in page.records)
                budget.spend(len(page.records), page_size)
                count, size = count + len(page.records), size + page_size
                if count >= budget.share or size >= budget.share_bytes:
                    return
        except LogExpiredError as error:
            what = f"Of partition {partition} of {topic}, which stream '{self.stream}' reads, {error}"
            raise TransientError.of("data-lost", what, fix="The next try says what to do.") from None


UNLIMITED = 2**62


@dataclass(slots=True)
class _Budget:
    """What a batch may have still. A partition has at most its `share` of it, and none is begun once it is spent."""

    left: int
    left_bytes: int
    share: int
    share_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, limit: int | None, partitions: int) -> _Budget:
        """That of so many partitions. Without a limit all is read, whatever its size."""
        if limit is None:
            return cls(UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED)
        return cls(limit, BATCH_BYTES, -(-limit // partitions), BATCH_BYTES // partitions)

    def spend(self, records: int, size: int) -> None:
        """Count what was read."""
        with self._lock:
            self.left -= records
            self.left_bytes -= size

    def is_spent(self) -> bool:
        """Whether the batch is full."""
        with self._lock:
            return self.left <= 0 or self.left_bytes <= 0


def find_expired(reader: LogReader, position: LogPosition) -> Mapping[tuple[str, str], Expired]:
    """Behind which places of a position something is gone, and why. Those that are to be read next are looked at: a
    partition may have come since."""
    found = dict(find_left(reader.topics, position))
    with closing(reader):
        for topic in reader.topics:
            log = reader.log(topic)
            for partition, place in log.partitions(position[topic]).items() if topic in position else ():
                try:
                    log.check(partition, place)
                except LogExpiredError as error:
                    found[topic, partition] = Expired(str(error), error.follows)
    return found


class LogBatches(PlannedBatches):
    """What the driver reads of a stream at a time: it is read to know where it ends, and kept until it is written."""

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session, self._reader = session, reader
        self._ahead: tuple[Position, Position, list[TopicPage]] | None = None

    def find_last(self, position: Position) -> Position:
        """Where the topics end as the run begins."""
        return self._reader.last(position)

    def find_end(self, position: Position, until: Position) -> Position:
        """The place behind the next records. A stream that has read nothing yet notes first where it begins."""
        begun = self._reader.with_new_topics(position)
        if begun is not None:
            return begun
        self._reader.release(position)
        end, pages = self._reader.read_following(position, until)
        if end is not None:
            self._ahead = (position, end, pages)
        return end

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The records that `find_end` has read, or those between the same two positions."""
        return as_frame(self._session, self.pages(start, end))

    def pages(self, start: Position, end: Position) -> Sequence[TopicPage]:
        """The same, in pages."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (start, end):
            return ahead[2]
        return self._reader.read_between(start or {}, end)

    def report(self, position: Position) -> Mapping[str, Any]:
        """Where it stands and where its topics end, where both are numbers."""
        if position is None or not self._reader.source.loaded().numbers_records:
            return {}
        return {"endOffset": position, "latestOffset": self._reader.ends(position)}

    def close(self) -> None:
        """Let the clients go."""
        self._reader.close()


def _names(position: LogPosition) -> Iterator[tuple[str, str]]:
    return ((topic, partition) for topic, places in position.items() for partition in places)


def as_frame(session: SparkSession, pages: Sequence[TopicPage]) -> DataFrame:
    """The records of pages as raw records."""
    # In memory of the JVM, and parsed by its tasks: a small one would be computed by the optimizer, record by record.
    with changed_settings(session, {"spark.sql.execution.arrow.localRelationThreshold": "0"}):
        return session.createDataFrame(as_arrow(pages), RAW)


def as_arrow(pages: Sequence[TopicPage]) -> pa.Table:
    """The records of pages as an Arrow table of the shape of raw records."""
    records = [record for each in pages for record in each.page.records]
    topics = [record.topic or each.topic for each in pages for record in each.page.records]
    columns = zip(*records, strict=True) if records else [()] * len(LogRecord._fields)
    found = dict(zip(LogRecord._fields, columns, strict=True))
    arrays = {
        "key": pa.array(found["key"], pa.binary()),
        "value": pa.array(found["value"], pa.binary()),
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(found["partition"], pa.int32()),
        "offset": pa.array(found["offset"], pa.int64()),
        "timestamp": pa.array(found["timestamp_us"], pa.timestamp("us", "UTC")),
        "headers": _header_array(found["headers"]),
    }
    return pa.table(arrays)


def _header_array(headers: Sequence[Sequence[tuple[str, bytes]]]) -> pa.Array:
    """The headers of records as an array of lists, built by its parts: of a dict for each it takes twice as long."""
    ends = accumulate(map(len, headers), initial=0)
    every = [header for each in headers for header in each]
    keys = pa.array([key for key, _ in every], pa.string())
    values = pa.array([value for _, value in every], pa.binary())
    entries = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), entries)
