"""Positions in Kafka's topics for batches that lakesql plans itself, and the records
between two of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import epoch_ms
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Broker, Brokers
from lakesql.engine.sources.kafka import cluster_of, read_between
from lakesql.errors import RunError
from lakesql.source.cluster import Offsets, Topic, numbered
from lakesql.source.stream_state import Position, position_of

GROUP_PREFIX = "spark-kafka-relation"
"""The prefix of the consumer groups of Spark's batches, if the connection configures
none."""


class TopicPlaces:
    """The topics of one stream."""

    def __init__(
        self,
        session: SparkSession,
        brokers: Brokers,
        binding: StreamBinding,
        model: str,
    ) -> None:
        self._session, self._brokers, self._connection = (
            session,
            brokers,
            cluster_of(binding),
        )
        self._stream, self._model = binding.stream, model
        self._group_id = f"{self._connection.group_id_prefix or GROUP_PREFIX}-{uuid4()}"

    def begins_early(self) -> bool:
        """Whether the stream begins with the first existing record."""
        return self._stream.start == "earliest"

    def find_start(self) -> Position:
        """The position at which a stream begins that does not `begins_early`: the end
        of its topics, or its start time."""
        start = self._stream.start
        if not isinstance(start, datetime):
            return position_of(self.find_ends())
        return position_of(self._broker.offsets_since(self._topics(), epoch_ms(start)))

    def read(self, start: Position, end: Position) -> DataFrame:
        """The raw records between two positions. Raises `RunError` (`data-lost`) if
        some are gone."""
        ends = numbered(end)
        if start is None and not self.begins_early():  # it only notes where it begins
            return read_between(self._session, self._connection, ends, ends)
        return read_between(
            self._session,
            self._connection,
            self.starts(numbered(start), ends),
            ends,
            must_have_all=True,
            group_id=self._group_id,
        )

    def find_ends(self) -> Offsets:
        """The present ends of the topics."""
        return self._broker.end_offsets(self._topics())

    def starts(self, start: Offsets, end: Offsets) -> Offsets:
        """The offset to read from in each partition of `end`; for a new partition its
        first record. Raises `RunError` (`data-lost`) if records before `end` are
        gone."""
        new = [
            topic
            for topic, ends in end.items()
            if start.get(topic, {}).keys() != ends.keys()
        ]
        if not new:
            return start
        firsts = self._broker.beginning_offsets(self._broker.topics(new).values())
        begins = {
            topic: {**firsts.get(topic, {}), **start.get(topic, {})} for topic in end
        }
        for topic, ends in end.items():
            gone = [number for number, at in ends.items() if begins[topic][number] > at]
            if gone:
                what = f"Records of topic {topic}, partition {gone[0]}, that no batch has taken are gone."
                fix = f"Continue without them: lakesql run --select {self._model} --accept-data-loss"
                raise RunError.of("data-lost", what, fix=fix)
        return {
            topic: {number: begins[topic][number] for number in ends}
            for topic, ends in end.items()
        }

    @property
    def _broker(self) -> Broker:
        return self._brokers.of(self._session._jvm, self._connection)

    def _topics(self) -> Collection[Topic]:
        return self._broker.find_topics(
            self._stream.origin, self._stream.place
        ).values()
