"""A source of its own, the half with Spark: a data source in Python, as Spark's own are
read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import SparkSource, check_origin
from lakesql.engine.sources.spark_sources import SPARK_SOURCES
from lakesql.source.stream_state import SeenFile, SourceState
from tests.new_source.kept import Kept, ask

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)


class SparkKept(SparkSource):
    """Kept lists."""

    kind: ClassVar[str] = Kept.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        check_origin(binding)
        session.dataSource.register(data_source())
        # A source in Python does not end a run by itself where it has read what was
        # there as the run began: without this, a run that finds a batch of the last one
        # unfinished does that one and no other.
        session.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", True)
        topics = ",".join(_source(binding).stream_state(binding.stream).topics)
        reader = session.readStream.format(Kept.kind).option(
            "address", _source(binding).address
        )
        return reader.option("topics", topics).load()

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        check_origin(binding)
        source = _source(binding)
        state = source.stream_state(binding.stream)
        rows = [
            row
            for topic, ends in state.ends.items()
            for row in read_rows(
                source.address, topic, state.beginnings[topic][0], ends[0]
            )
        ]
        return session.createDataFrame(rows, RAW)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        return _source(binding).stream_state(binding.stream)

    def topic_ids(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> Mapping[str, str]:
        return _source(binding).stream_state(binding.stream).topics

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        begins = {
            topic: partitions[0] for topic, partitions in state.beginnings.items()
        }
        held = sum(ends[0] - begins[topic] for topic, ends in state.ends.items())
        return [
            f"{topic}: 0 to {first - 1}" for topic, first in begins.items() if first
        ], count(held, "record")


def _source(binding: StreamBinding) -> Kept:
    assert isinstance(binding.source, Kept)
    return binding.source


def read_rows(address: str, topic: str, first: int, end: int) -> list[tuple[Any, ...]]:
    from datetime import UTC, datetime

    return [
        (
            None,
            value.encode(),
            topic,
            0,
            first + number,
            datetime(2026, 3, 1, tzinfo=UTC),
            [],
        )
        for number, value in enumerate(ask(address, f"records/{topic}/{first}/{end}"))
    ]


def data_source() -> type[DataSource]:
    """Spark's half of the source. Its tasks get the class as it is: they cannot import
    it."""
    schema = RAW

    class Part(InputPartition):
        def __init__(self, topic: str, first: int, end: int) -> None:
            super().__init__((topic, first, end))

    class Reader(DataSourceStreamReader):
        def __init__(self, address: str, topics: list[str]) -> None:
            self.address = address
            self.topics = topics

        def _ask(self, path: str) -> Any:
            import json
            from urllib.request import urlopen

            with urlopen(f"http://{self.address}/{path}", timeout=10) as answer:
                return json.load(answer)

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
            there = self._ask("topics")
            return {topic: {"0": there[topic]["first"]} for topic in self.topics}

        def latestOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
            there = self._ask("topics")
            return {topic: {"0": there[topic]["end"]} for topic in self.topics}

        def partitions(
            self, start: dict[str, Any], end: dict[str, Any]
        ) -> list[InputPartition]:
            begins = {topic: start.get(topic, {"0": 0})["0"] for topic in end}
            return [
                Part(topic, begins[topic], end[topic]["0"])
                for topic in end
                if begins[topic] < end[topic]["0"]
            ]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            from datetime import UTC, datetime

            topic, first, end = partition.value
            for number, value in enumerate(self._ask(f"records/{topic}/{first}/{end}")):
                at = datetime(2026, 3, 1, tzinfo=UTC)
                yield (None, value.encode(), topic, 0, first + number, at, [])

    class KeptDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "kept"

        def schema(self) -> str:
            return schema

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
            return Reader(self.options["address"], self.options["topics"].split(","))

    return KeptDataSource


def register() -> None:
    """What a line of `spark_sources.py` does."""
    assert isinstance(SPARK_SOURCES, dict)
    SPARK_SOURCES[Kept.kind] = SparkKept()
