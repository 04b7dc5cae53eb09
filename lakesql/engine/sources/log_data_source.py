"""Logs as a Python data source of Spark, for a SELECT that keeps state or reads several
streams."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from lakesql.engine.sources.log_frame import RAW
from lakesql.engine.sources.log_reader import LogPosition, LogReader, TopicPage


class LogDataSource(DataSource):
    """A stream of a log whose batches Spark plans: a Python process beside the driver
    reads each batch once."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "lakesql_log"

    def schema(self) -> str:
        """The columns of raw records."""
        return RAW

    def simpleStreamReader(self, schema: T.StructType) -> SimpleDataSourceStreamReader:  # noqa: N802  Spark's name
        """The reader of the stream that is pickled in the option `secret_reader`."""
        reader, is_bounded = pickle.loads(
            base64.b64decode(self.options["secret_reader"])
        )
        return _LogStreamReader(reader, is_bounded)


class _LogStreamReader(SimpleDataSourceStreamReader):
    """The batches of a stream as Spark requests them."""

    def __init__(self, reader: LogReader, is_bounded: bool) -> None:
        self._reader = reader
        self._is_bounded = is_bounded
        self._until: LogPosition | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """The position where the stream begins. Spark records it with a first batch,
        which has no records."""
        return self._reader.starts()

    def read(
        self, start: dict[str, Any]
    ) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """The next records after a position, and the position after them."""
        begun = self._reader.with_new_topics(start)
        if begun is not None:
            return iter(()), begun
        if self._is_bounded and self._until is None:
            self._until = self._reader.last(start)
        end, pages = self._reader.read_following(start, self._until)
        return iter(_rows(pages)), start if end is None else end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[tuple[Any, ...]]:
        """The records between two positions."""
        return iter(_rows(self._reader.read_between(start, end)))

    def commit(self, end: dict[str, Any]) -> None:
        """Allow the log to drop what lies before a position, as it is in the table."""
        self._reader.release(end)


def _rows(pages: Sequence[TopicPage]) -> list[tuple[Any, ...]]:
    """The records of pages as rows with the columns of raw records."""
    return [
        (
            record.key,
            record.value,
            record.topic or topic,
            record.partition,
            record.offset,
            datetime.fromtimestamp(record.timestamp_us / 1_000_000, UTC),
            [*record.headers],
        )
        for topic, _, page in pages
        for record in page.records
    ]
