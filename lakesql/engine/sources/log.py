"""Logs that a client in Python reads: the driver reads a batch once, and hands it to
Spark as Arrow.

So executors need no Python, and what a log counts, such as Kinesis its calls, is used
once. Where a query keeps state or reads several streams, Spark plans the batches, and
asks a data source for them.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.log_frame import RAW, as_frame
from lakesql.engine.sources.log_reader import LogReader, TopicPage, find_expired
from lakesql.engine.sources.spark_source import (
    Place,
    PlannedBatches,
    Planning,
    SparkSource,
    check_origin,
)
from lakesql.source.log import BEHIND_MS, LogSource
from lakesql.source.stream_state import Position, SeenFile, SourceState


class SparkLog(SparkSource):
    """A topic of a log, or several."""

    kind: ClassVar[str] = LogSource.reader
    ends_by_itself: ClassVar[bool] = False

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The records as they arrive, in batches that Spark plans. The driver reads
        them all the same."""
        # Only here: few runs need its modules of pyspark, which no thread may import
        # while another starts a session.
        from lakesql.engine.sources.log_data_source import LogDataSource

        check_origin(binding)
        session.dataSource.register(LogDataSource)
        # Spark writes no option of such a name into plans and logs: there may be a
        # login in it.
        packed = base64.b64encode(
            pickle.dumps((LogReader.of(binding), binding.is_bounded))
        )
        return (
            session.readStream.format(LogDataSource.name())
            .option("secret_reader", packed.decode())
            .load()
        )

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """What the driver reads at a time."""
        check_origin(binding)
        return LogBatches(session, LogReader.of(binding))

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The records that are there now, from the stream's start on."""
        check_origin(binding)
        with closing(LogReader.of(binding)) as reader:
            return as_frame(session, reader.read_all(reader.starts(), None))

    def read_before(
        self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]
    ) -> DataFrame:
        """The records of a log without numbers cannot be found again."""
        if _source(binding).numbers_records:
            return super().read_before(session, binding, places)
        return session.createDataFrame([], RAW)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """Its topics, and where they begin and end as far as that is known without
        reading."""
        check_origin(binding)
        state = replace(
            _log_source(binding).state_of(binding.stream), kind=binding.source.kind
        )
        if _source(binding).numbers_records:
            return state
        return replace(state, find_expired=partial(find_expired, LogReader.of(binding)))

    def topic_ids(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> Mapping[str, str]:
        """The ids of its topics."""
        if not _source(binding).tells_ids:
            return {}
        return {
            topic: log.id
            for topic, log in _log_source(binding).opened(binding.stream.origin)
        }

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """What came before the first record of each partition, and how much is there,
        where records are numbered."""
        if not _source(binding).numbers_records:
            opened = _log_source(binding).opened(binding.stream.origin)
            return [
                what for _, log in opened for what in log.gone()
            ], "what the log still has"
        held, names = 0, []
        for topic, begins in sorted(state.beginnings.items()):
            for partition, first in sorted(begins.items()):
                held += state.ends[topic][partition] - first
                missing = first - _source(binding).first_number
                names += [f"{topic}-{partition}: up to {first - 1}"] if missing else []
        return names, count(held, "record")


def _log_source(binding: StreamBinding) -> LogSource:
    assert isinstance(binding.source, LogSource)
    return binding.source


def _source(binding: StreamBinding) -> LogSource:
    """The source with its code loaded, which says what kind of log it is."""
    return _log_source(binding).loaded()


class LogBatches(PlannedBatches):
    """What the driver reads of a stream at a time: it is read to know where it ends,
    and kept until it is written."""

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session, self._reader = session, reader
        self._ahead: tuple[Position, Position, list[TopicPage]] | None = None

    def find_last(self, position: Position) -> Position:
        """Where the topics end as the run begins."""
        return self._reader.last(position)

    def find_end(self, position: Position, until: Position) -> Position:
        """The place behind the next records. A stream that has read nothing yet notes
        first where it begins."""
        begun = self._reader.with_new_topics(position)
        if begun is not None:
            return begun
        self._reader.release(position)
        end, pages = self._reader.read_following(position, until)
        if end is not None:
            self._ahead = (position, end, pages)
        return end

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The records that `find_end` has read, or those between the same two
        positions."""
        return as_frame(self._session, self.pages(start, end))

    def pages(self, start: Position, end: Position) -> Sequence[TopicPage]:
        """The records between two positions in pages: those that `find_end` has read,
        or read again."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (start, end):
            return ahead[2]
        return self._reader.read_between(start or {}, end)

    def report(self, position: Position) -> Mapping[str, Any]:
        """Where it stands and where its topics end, where both are numbers; else the
        time that it is behind."""
        if position is None:
            return {}
        if not self._reader.source.loaded().numbers_records:
            behind_ms = self._reader.behind_ms
            return {} if behind_ms is None else {BEHIND_MS: behind_ms}
        return {"endOffset": position, "latestOffset": self._reader.ends(position)}

    def close(self) -> None:
        """Let the clients go."""
        self._reader.close()
