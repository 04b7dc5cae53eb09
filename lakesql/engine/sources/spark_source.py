"""What is asked of a stream's source with Spark, whatever kind it is, and the one shape
of the raw records that each of them brings: Kafka's."""

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
"""So many offsets are looked at for the record before another one: between them may be
marks of transactions."""

Place = tuple[str, int, int]
"""A topic, a partition and an offset."""


@dataclass(frozen=True, slots=True)
class Planning:
    """For whom batches are planned: a model, whose query has a checkpoint with these
    `files`, and who is told of it.

    `open_shared` opens a folder beside the checkpoints, in which several models write.
    """

    model: str
    files: KeptFiles
    emit: Emit
    open_shared: Callable[[str], SharedFiles]


class BatchPutOffError(Exception):
    """A batch is not to be written now, and not to be left out: it is taken again.
    Nothing of it is visible."""


class PlannedBatches(Protocol):
    """The batches of a source that Spark does not stream: they are planned here, and
    written as others are."""

    def find_last(self, position: Position) -> Position:
        """The position behind all that is there now for a query that stands at one;
        None where nothing is."""
        ...

    def find_end(self, position: Position, until: Position) -> Position:
        """Where the batch ends that begins at a position, not behind `until`; None
        where there is nothing for one."""
        ...

    def takes_again(self, position: Position, end: Position) -> bool:
        """Whether a batch is to be written that was planned before."""
        return True

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame | None:
        """The raw records between two positions, the same whenever they are asked for;
        None where none of them is for this query. They are read until `held` is
        closed."""
        ...

    def finish(self) -> None:
        """Told once a batch is written, and the checkpoint says so."""
        return

    def is_idle(self) -> bool:
        """Whether `find_end` and `takes_again` wait for something, so that `interrupt`
        is to end them."""
        return False

    def interrupt(self) -> None:
        """Let them wait no longer."""
        return

    def report(self, position: Position) -> Mapping[str, Any]:
        """What Spark would say of the source that stands so, as `endOffset` and
        `latestOffset`; nothing where that is not known."""
        return {}

    def close(self) -> None:
        """Let go of what was opened. No batch follows."""
        return


class SparkSource(Protocol):
    """How a kind of source is read with Spark. `lakesql/source/source.py` has what is
    asked of it without."""

    kind: ClassVar[str]
    """The word for it."""

    ends_by_itself: ClassVar[bool] = True
    """Whether Spark ends a query that takes what is there. Otherwise it takes one batch
    for all, whatever its size."""

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The raw records of a stream as they arrive, in the columns that `read_raw`
        says."""
        ...

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """The batches of a stream that Spark does not stream, or not as well; None
        where it does."""
        return None

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The raw records that are there now. `brokers` are the connections to
        clusters, where any is needed."""
        ...

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The stream as it is now. Raises what asking raises where something is not
        there."""
        ...

    def read_before(
        self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]
    ) -> DataFrame:
        """The last raw records before these places, as far as they are there."""
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
        """The ids of the stream's topics, as they are now; none where it has no
        topics."""
        return {}

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """What a new checkpoint says of a stream that is to continue at a position, or
        at a time without one.

        `seen` gives the files that the checkpoint which it replaces has read up to one
        of the source's own batches; None where that one has not read the stream.
        """
        return SeededSource(position or None)

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """What of the stream is gone that was there once, and how much is there, in
        words: what a rebuild would read.

        `seen` gives the files that the live table's query has read, as far as its
        checkpoint says.
        """
        ...


_WANTED: Mapping[Brings, str] = {"records": "topic", "files": "path"}
"""What a stream says of where its records are, by what its source brings."""


def check_origin(binding: StreamBinding) -> None:
    """Raise `ProjectError` (`stream-origin`) where a stream does not say where its
    records are in its source."""
    stream, brings = binding.stream, binding.source.brings
    if stream.origin.brings != brings:
        raise ProjectError.of(
            "stream-origin",
            f"Stream '{stream.name}' is read through connection '{stream.connection}' of type {binding.source.kind}, "
            f"which needs a {_WANTED[brings]}.",
            place=stream.place,
        )


Reader = DataStreamReader | DataFrameReader
"""Spark's two readers, which take the same options."""


def as_rows(
    rows: DataFrame,
    columns: Sequence[str],
    topic: str,
    timestamp: str = "NULL",
    offset: str = "NULL",
) -> DataFrame:
    """Rows of a structured source in the shape of raw records: the row itself stands in
    one struct."""
    row = f"struct({identifiers(columns)}) AS {ROW}"
    return rows.selectExpr(*raw_columns(topic, timestamp, offset), row)


def raw_columns(
    topic: str, timestamp: str, offset: str = "NULL", value: str = "NULL"
) -> tuple[str, ...]:
    """The columns of raw records that have no key, no partition and no headers.
    Everything is SQL."""
    return (
        "CAST(NULL AS binary) AS key",
        f"CAST({value} AS binary) AS value",
        f"CAST({topic} AS string) AS topic",
        "0 AS partition",
        f"CAST({offset} AS bigint) AS offset",
        f"CAST({timestamp} AS timestamp) AS timestamp",
        "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers",
    )
