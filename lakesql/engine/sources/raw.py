"""How a stream is read: whatever its source is, its raw records have one shape,
Kafka's."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import Place, PlannedBatches, Planning
from lakesql.engine.sources.spark_sources import spark_source


def read_raw(
    session: SparkSession,
    binding: StreamBinding,
    streaming: bool = True,
    brokers: Brokers | None = None,
) -> DataFrame:
    """The raw records of a stream: as they arrive, or those that exist now, for which
    `brokers` may be asked.

    Columns: `key, value` (binary), `topic, partition, offset, timestamp, headers`, and
    `_lakesql_row` if the records are typed rows.
    """
    source = spark_source(binding.source)
    return (
        source.read(session, binding)
        if streaming
        else source.read_now(session, binding, brokers)
    )


def read_before(
    session: SparkSession, binding: StreamBinding, places: Sequence[Place]
) -> DataFrame:
    """The last raw records before each of these places of a topic, if they still
    exist."""
    return spark_source(binding.source).read_before(session, binding, places)


def planned_batches(
    session: SparkSession, bindings: Sequence[StreamBinding], planning: Planning
) -> PlannedBatches | None:
    """The batches of a query's only stream, if lakesql plans them; None if Spark does,
    or if there are several streams."""
    if len(bindings) != 1:
        return None
    return spark_source(bindings[0].source).planned_batches(
        session, bindings[0], planning
    )


def taken_at_once(bindings: Sequence[StreamBinding]) -> Sequence[StreamBinding]:
    """The streams that Spark reads in one batch in a query that reads what exists
    now."""
    return [
        binding
        for binding in bindings
        if not spark_source(binding.source).ends_by_itself
    ]
