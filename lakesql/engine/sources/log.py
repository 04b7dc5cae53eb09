"""How logs with a Python client are read: the driver reads each batch once, and gives
it to Spark as Arrow.

So executors need no Python, and quotas of a log, such as the calls of Kinesis, are used
only once. If a query keeps state or reads several streams, Spark plans the batches and
asks a data source for them (`log_data_source.py`).
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
    """One or several topics of a log."""

    kind: ClassVar[str] = LogSource.reader
    ends_by_itself: ClassVar[bool] = False

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The records as they arrive, in batches that Spark plans; they too are read on
        the driver's machine."""
        # Imported only here, as few runs need its modules of pyspark, and no thread may
        # import these while another one starts a session.
        from lakesql.engine.sources.log_data_source import LogDataSource

        check_origin(binding)
        session.dataSource.register(LogDataSource)
        # The name has `secret` in it, so that Spark keeps the option, which may contain
        # credentials, out of plans and logs.
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
        """The batches that the driver reads."""
        check_origin(binding)
        return LogBatches(session, LogReader.of(binding))

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The records that exist now, from the stream's start on."""
        check_origin(binding)
        with closing(LogReader.of(binding)) as reader:
            return as_frame(session, reader.read_all(reader.starts(), None))

    def read_before(
        self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]
    ) -> DataFrame:
        """The last records before each of these places; none if the log does not number
        its records, as they cannot be found again."""
        if _source(binding).numbers_records:
            return super().read_before(session, binding, places)
        return session.createDataFrame([], RAW)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the topics: where they begin and end, if that is known without
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
        """The ids of the topics; empty if the log has none."""
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
        """What came before the first record of each partition and is gone, and a text
        about how much the log has, with the number if records are numbered."""
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
    """The source with its client code loaded, which knows what the log can do."""
    return _log_source(binding).loaded()


class LogBatches(PlannedBatches):
    """The batches that the driver reads: to find where a batch ends it is read, and the
    records are kept until the batch is written."""

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session, self._reader = session, reader
        self._ahead: tuple[Position, Position, list[TopicPage]] | None = None

    def find_last(self, position: Position) -> Position:
        """The ends of the topics as the run begins."""
        return self._reader.last(position)

    def find_end(self, position: Position, until: Position) -> Position:
        """The position after the next records; None if there is nothing to record. For
        a stream that has read nothing yet, the position where it begins is returned
        first, to be recorded."""
        begun = self._reader.with_new_topics(position)
        if begun is not None:
            return begun
        self._reader.release(position)
        end, pages = self._reader.read_following(position, until)
        if end is not None:
            self._ahead = (position, end, pages)
        return end

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records between two positions, as `find_end` has read them, or read
        again."""
        return as_frame(self._session, self.pages(start, end))

    def pages(self, start: Position, end: Position) -> Sequence[TopicPage]:
        """The records between two positions in pages, as `find_end` has read them, or
        read again."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (start, end):
            return ahead[2]
        return self._reader.read_between(start or {}, end)

    def report(self, position: Position) -> Mapping[str, Any]:
        """The position and the ends of the topics, if both are numbers; else by how
        many milliseconds the stream is behind."""
        if position is None:
            return {}
        if not self._reader.source.loaded().numbers_records:
            behind_ms = self._reader.behind_ms
            return {} if behind_ms is None else {BEHIND_MS: behind_ms}
        return {"endOffset": position, "latestOffset": self._reader.ends(position)}

    def close(self) -> None:
        """Close the clients."""
        self._reader.close()
