"""How Kafka's topics are read, with Spark's own source; what they hold is asked of the
broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import epoch_ms
from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Broker, Brokers
from lakesql.engine.sources.spark_source import (
    EARLIER_OFFSETS,
    Place,
    Reader,
    SparkSource,
    check_origin,
)
from lakesql.model.writing import TASK_RECORDS
from lakesql.source.cluster import Offsets, consumer_options, find_held
from lakesql.source.kafka import Kafka
from lakesql.source.stream_state import SeenFile, SourceState
from lakesql.source.unread import explain_no_records

POLL_TIMEOUT_MS = 15_000
"""How long a task waits for records of a broker that does not answer, in milliseconds.
A run that is being stopped waits as long for its last batch, for which Spark's default
of two minutes is too much."""


class SparkKafka(SparkSource):
    """Kafka's topics."""

    kind: ClassVar[str] = Kafka.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The records as they arrive."""
        stream = binding.stream
        reader = _of_topics(session.readStream, binding)
        # a partition without a record since that time starts at its end
        if isinstance(stream.start, datetime):
            reader = reader.option("startingTimestamp", epoch_ms(stream.start))
            reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
        else:
            reader = reader.option("startingOffsets", stream.start)
        if stream.max_per_batch:
            reader = reader.option("maxOffsetsPerTrigger", stream.max_per_batch)
        return reader.load().drop("timestampType")

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The records that exist now, from the first one or from the stream's start
        time on."""
        assert brokers is not None, "what a topic has now is asked of its broker"
        stream = binding.stream
        reader = _of_topics(session.read, binding)
        if isinstance(stream.start, datetime):  # which Spark has no word for
            broker = _broker(session, binding, brokers)
            topics = broker.find_topics(stream.origin, stream.place).values()
            starts = broker.offsets_since(topics, epoch_ms(stream.start))
            reader = reader.option("startingOffsets", json.dumps(starts))
        return reader.load().drop("timestampType")

    def read_before(
        self, session: SparkSession, binding: StreamBinding, places: Sequence[Place]
    ) -> DataFrame:
        """The records of the last offsets before each of these places, of which a
        partition has at most one."""
        ends: dict[str, dict[str, int]] = {}
        for topic, partition, offset in places:
            ends.setdefault(topic, {})[str(partition)] = offset
        starts = {
            topic: {
                partition: max(0, offset - EARLIER_OFFSETS)
                for partition, offset in offsets.items()
            }
            for topic, offsets in ends.items()
        }
        assigned = {topic: [*map(int, offsets)] for topic, offsets in ends.items()}
        reader = _reader(session.read, cluster_of(binding)).option(
            "failOnDataLoss", False
        )
        reader = reader.option("assign", json.dumps(assigned))
        reader = reader.option("startingOffsets", json.dumps(starts)).option(
            "endingOffsets", json.dumps(ends)
        )
        return reader.load().drop("timestampType")

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the topics: which offsets they hold, and which of these readers
        may not see yet."""
        stream, broker = binding.stream, _broker(session, binding, brokers)
        topics = broker.find_topics(stream.origin, stream.place)
        ids = {topic: found.id for topic, found in topics.items()}
        beginnings, ends = (
            broker.beginning_offsets(topics.values()),
            broker.log_ends(topics.values()),
        )
        nothing = explain_no_records(stream.origin, beginnings, ends)
        held = find_held(ends, broker.end_offsets(topics.values()))
        return SourceState(
            stream.name, self.kind, ids, beginnings, ends, nothing=nothing, held=held
        )

    def topic_ids(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> Mapping[str, str]:
        """The ids of the topics, as the broker has them."""
        return _broker(session, binding, brokers).find_ids(
            binding.stream.origin, binding.stream.place
        )

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """The offsets before the first one of each partition, and a text with the
        number of records from there on."""
        begins = [
            (t, p, at)
            for t, ends in sorted(state.beginnings.items())
            for p, at in sorted(ends.items())
        ]
        ends = sum(
            end for partitions in state.ends.values() for end in partitions.values()
        )
        gone = [
            f"{topic}-{partition}: 0 to {at - 1}"
            for topic, partition, at in begins
            if at > 0
        ]
        return gone, count(ends - sum(at for *_, at in begins), "record")


def read_between(
    session: SparkSession,
    connection: Kafka,
    start: Offsets,
    end: Offsets,
    *,
    must_have_all: bool = False,
    group_id: str = "",
) -> DataFrame:
    """The raw records of topics between offsets of their partitions. Records that are
    gone are left out; with `must_have_all`, reading fails instead. A caller that reads
    repeatedly with the same `group_id` keeps Kafka's clients, which are otherwise
    created anew for each batch."""
    reader = _reader(session.read, connection).option("failOnDataLoss", must_have_all)
    reader = reader.option(
        "assign",
        json.dumps({topic: [*partitions] for topic, partitions in start.items()}),
    )
    for name, offsets in (("startingOffsets", start), ("endingOffsets", end)):
        reader = reader.option(name, json.dumps(offsets))
    if group_id:
        reader = reader.option("kafka.group.id", group_id)
    return (
        reader.option("maxRecordsPerPartition", TASK_RECORDS)
        .load()
        .drop("timestampType")
    )


def cluster_of(binding: StreamBinding) -> Kafka:
    """The cluster from which a stream of topics is read."""
    assert binding.source.cluster is not None
    return binding.source.cluster


def _broker(session: SparkSession, binding: StreamBinding, brokers: Brokers) -> Broker:
    return brokers.of(session._jvm, cluster_of(binding))


def _of_topics(reader: Reader, binding: StreamBinding) -> Reader:
    """A reader of the stream's topics."""
    check_origin(binding)
    origin = binding.stream.origin
    reader = _reader(reader, cluster_of(binding)).option(
        "maxRecordsPerPartition", TASK_RECORDS
    )
    if origin.topic_regex is not None:
        return reader.option("subscribePattern", origin.topic_regex)
    return reader.option("subscribe", ",".join(origin.given))


def _reader(reader: Reader, connection: Kafka) -> Reader:
    """A reader with the options of a connection; the topics are set by the caller."""
    reader = reader.format("kafka").option("includeHeaders", True)
    reader = reader.option("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS)
    for key, value in consumer_options(connection).items():
        reader = reader.option(f"kafka.{key}", value)
    if connection.group_id_prefix:
        reader = reader.option("groupIdPrefix", connection.group_id_prefix)
    return reader
