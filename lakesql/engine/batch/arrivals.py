"""What a stateful query has read in a batch, and what its watermark has dropped:
Spark's plan knows once it has run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.names import RAW
from lakesql.stream.stream import Stream

_METRIC = "lakesql_arrived_"
_EVENTS = "lakesql_events_"
_DROPPED = "numRowsDroppedByWatermark"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many records of its streams a batch has read, and how many rows came too late
    for its watermark.

    Spark drops rows where it keeps state, which for an aggregate is behind a first
    aggregation in each task: events of one task that are late for one group count as
    one row.
    """

    records: int
    late: int
    execution: Any = field(default=None, repr=False)
    """What Spark has run of the batch."""
    ahead: int = 0
    """How many records were left out, as they lie too far ahead of the clock."""
    furthest: str = ""
    """The event that would move a watermark furthest, its time first; '' where there is
    none, or no watermark."""


def count_arrivals(records: DataFrame, stream: Stream) -> DataFrame:
    """The records of one of the query's streams, counted."""
    return records.observe(
        f"{_METRIC}{stream.name}", F.count(F.lit(1)).alias("records")
    )


def watch_events(
    records: DataFrame, stream: Stream, event_ms: Column, is_ahead: Column
) -> DataFrame:
    """The records of a stream with a watermark, of which those are counted that are
    ahead of time, and the one is noted that moves the watermark furthest."""
    moving = F.when(~is_ahead, event_ms)
    partition, offset = F.col(f"{RAW}.partition"), F.col(f"{RAW}.offset")
    place = F.concat_ws(
        " ", F.col(f"{RAW}.topic"), F.when(offset.isNotNull(), partition), offset
    )
    return records.observe(
        f"{_EVENTS}{stream.name}",
        F.count(F.when(is_ahead, 1)).alias("ahead"),
        F.max(moving).alias("newest"),
        F.max_by(place, moving).alias("place"),
    )


def read_arrivals(session: SparkSession, query: str) -> Arrivals:
    """What the query of this name has read in the batch that it is at, of which
    something has been computed."""
    execution = last_execution(session, query)
    observed = execution.observedMetrics()
    names = str(observed.keys().mkString("\n")).split("\n")
    late = sum(
        int(node.metrics().apply(_DROPPED).value())
        for node in dropping_nodes(execution)
    )
    records = sum(
        int(observed.apply(name).getLong(0))
        for name in names
        if name.startswith(_METRIC)
    )
    events = {
        name.removeprefix(_EVENTS): observed.apply(name)
        for name in names
        if name.startswith(_EVENTS)
    }
    moving = (
        _furthest(stream, row) for stream, row in events.items() if not row.isNullAt(1)
    )
    ahead = sum(int(row.getLong(0)) for row in events.values())
    return Arrivals(records, late, execution, ahead, max(moving, default=""))


def last_execution(session: SparkSession, query: str) -> Any:
    """What Spark runs of the batch that the query of this name is at."""
    java: Any = session._jsparkSession
    running = next(each for each in java.streams().active() if each.name() == query)
    return running.streamingQuery().lastExecution()


def _furthest(stream: str, row: Any) -> str:
    """Such as `2026-03-01T10:00:00.000+00:00, stream orders, record orders 0 17`: topic
    or file, partition, offset."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(row.getLong(1)))
    return f"{at.isoformat(timespec='milliseconds')}, stream {stream}, record {row.getString(2)}"


def dropping_nodes(execution: Any) -> Iterator[Any]:
    """The operators of the batch that drop what is too late."""
    return (
        node
        for node in find_nodes(execution.executedPlan())
        if node.metrics().contains(_DROPPED)
    )


def find_nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a plan, from the top down."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from find_nodes(children.apply(index))
