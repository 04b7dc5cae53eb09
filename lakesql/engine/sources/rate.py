"""How Spark's generator of rows is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.quote import text
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import SparkSource, as_rows
from lakesql.source.rate import Rate
from lakesql.source.stream_state import Position, SeededSource, SeenFile, SourceState

RATE_SAMPLE = 1000
"""How many rows a generator has when they are read at once."""


class SparkRate(SparkSource):
    """A generator of rows."""

    kind: ClassVar[str] = Rate.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The generated rows, from now on."""
        assert isinstance(binding.source, Rate)
        rows = (
            session.readStream.format("rate")
            .option("rowsPerSecond", binding.source.rows_per_second)
            .load()
        )
        return _as_raw(rows, binding)

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """A sample of `RATE_SAMPLE` rows."""
        rows = session.range(RATE_SAMPLE).selectExpr(
            "current_timestamp() AS timestamp", "id AS value"
        )
        return _as_raw(rows, binding)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the stream, which always has rows."""
        return SourceState(binding.stream.name, self.kind)

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """An empty seed, as a generator always starts from the beginning."""
        return SeededSource()

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """Nothing that is gone, as a generator stores no rows."""
        return [], "rows"


def _as_raw(rows: DataFrame, binding: StreamBinding) -> DataFrame:
    return as_rows(
        rows,
        binding.stream.column_names,
        text("rate"),
        offset="value",
        timestamp="timestamp",
    )
