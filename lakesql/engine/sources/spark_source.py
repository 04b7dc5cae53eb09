"""What a kind of source does with Spark (`SparkSource`), and the shape of the raw
records that every source delivers: Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakesql.compile.quote import identifiers
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.errors import ProjectError
from lakesql.events import Emit
from lakesql.names import ROW
from lakesql.source.known_files import KeptFiles
from lakesql.source.origin import Brings
from lakesql.source.queue_log import SharedFiles
from lakesql.source.stream_state import Position, SeededSource, SeenFile, SourceState

EARLIER_OFFSETS = 20
"""How many offsets are read to find the record before another one, as there may be
transaction markers between them."""

Place = tuple[str, int, int]
"""A topic, a partition and an offset."""


@dataclass(frozen=True, slots=True)
class Planning:
    """The model for which batches are planned. `files` are those of its query's
    checkpoint, `emit` reports events about it.

    `open_shared` opens a folder beside the checkpoints in which several models write.
    """

    model: str
    files: KeptFiles
    emit: Emit
    open_shared: Callable[[str], SharedFiles]


class BatchPutOffError(Exception):
    """The batch cannot be written now; it must be tried again, and not be skipped.
    Nothing of it is visible."""


class PlannedBatches(Protocol):
    """The batches of a source that Spark does not stream: they are planned here, and
    written like others."""

    def find_last(self, position: Position) -> Position:
        """The position after everything that exists now, for a query at this position;
        None if nothing does."""
        ...

    def find_end(self, position: Position, until: Position) -> Position:
        """The end of the batch that begins at a position, at most `until`; None if
        there is nothing for a batch."""
        ...

    def takes_again(self, position: Position, end: Position) -> bool:
        """Whether a batch that was planned before is to be written now."""
        return True

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame | None:
        """The raw records between two positions, the same at every call; None if none
        of them is for this query. They may be read until `held` is closed."""
        ...

    def finish(self) -> None:
        """Called after a batch is written and recorded in the checkpoint."""
        return

    def is_idle(self) -> bool:
        """Whether `find_end` or `takes_again` is waiting, which `interrupt` can end."""
        return False

    def interrupt(self) -> None:
        """End the waiting."""
        return

    def report(self, position: Position) -> Mapping[str, Any]:
        """The `endOffset` and `latestOffset` that Spark would report of the source at
        this position; empty if they are unknown."""
        return {}

    def close(self) -> None:
        """Close what was opened. No batch follows."""
        return


class SparkSource(Protocol):
    """How a kind of source is read with Spark. What is asked of it without Spark is in
    `lakesql/source/source.py`."""

    kind: ClassVar[str]
    """The name of the kind."""

    ends_by_itself: ClassVar[bool] = True
    """Whether Spark ends a query that reads what exists now. Otherwise it reads
    everything in one batch, whatever its size."""

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The raw records of a stream as they arrive, with the columns of
        `read_raw`."""
        ...

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """The batches of a stream that lakesql plans itself; None if Spark streams
        it."""
        return None

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The raw records that exist now. `brokers` are the connections to clusters, if
        any is needed."""
        ...

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The present state of the stream. Raises an error if something that it names
        does not exist."""
        ...

    def read_before(
        self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]
    ) -> DataFrame:
        """The last raw records before each of these places, if they still exist."""
        raw = self.read_now(session, binding, None)
        is_near = F.lit(False)
        for topic, partition, offset in places:
            of_partition = (F.col("topic") == topic) & (F.col("partition") == partition)
            is_near |= of_partition & F.col("offset").between(
                offset - EARLIER_OFFSETS, offset - 1
            )
        return raw.where(is_near)

    def topic_ids(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> Mapping[str, str]:
        """The present ids of the stream's topics; empty if it has no topics."""
        return {}

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The content of a new checkpoint for a stream that is to continue at a
        position, or without one at a time.

        `seen` returns the files that the replaced checkpoint has read, up to one of the
        source's own batches; None if that checkpoint did not read the stream.
        """
        return SeededSource(position or None)

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """What a rebuild would read: texts about what the stream once had and no longer
        has, and a text about how much it has now.

        `seen` returns the files that the live table's query has read, as far as its
        checkpoint has them.
        """
        ...


_WANTED: Mapping[Brings, str] = {"records": "topic", "files": "path"}
"""The option of a stream that gives the place of its records, by what its source
brings."""


def check_origin(binding: StreamBinding) -> None:
    """Raise `ProjectError` (`stream-origin`) if a stream lacks the option that its
    source needs to find the records."""
    stream, brings = binding.stream, binding.source.brings
    if stream.origin.brings != brings:
        raise ProjectError.of(
            "stream-origin",
            f"Stream '{stream.name}' is read through connection '{stream.connection}' of type {binding.source.kind}, "
            f"which needs a {_WANTED[brings]}.",
            place=stream.place,
        )


Reader = DataStreamReader | DataFrameReader
"""Spark's two readers, which have the same options."""


def as_rows(
    rows: DataFrame,
    columns: Sequence[str],
    topic: str,
    timestamp: str = "NULL",
    offset: str = "NULL",
) -> DataFrame:
    """Rows of a structured source in the shape of raw records, with the row itself as
    one struct."""
    row = f"struct({identifiers(columns)}) AS {ROW}"
    return rows.selectExpr(*raw_columns(topic, timestamp, offset), row)


def raw_columns(
    topic: str, timestamp: str, offset: str = "NULL", value: str = "NULL"
) -> tuple[str, ...]:
    """The columns of raw records that have no key, no partition and no headers. All
    arguments are SQL."""
    return (
        "CAST(NULL AS binary) AS key",
        f"CAST({value} AS binary) AS value",
        f"CAST({topic} AS string) AS topic",
        "0 AS partition",
        f"CAST({offset} AS bigint) AS offset",
        f"CAST({timestamp} AS timestamp) AS timestamp",
        "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers",
    )
