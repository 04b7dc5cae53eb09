"""What a stateful query has read in a batch, and what its watermark has dropped: Spark's plan knows once it has run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.stream.stream import Stream

_METRIC = "lakesql_arrived_"
_DROPPED = "numRowsDroppedByWatermark"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many records of its streams a batch has read, and how many rows came too late for its watermark.

    Spark drops rows where it keeps state, which for an aggregate is behind a first aggregation in each task: events of
    one task that are late for one group count as one row.
    """

    records: int
    late: int
    execution: Any = field(default=None, repr=False)
    """What Spark has run of the batch."""


def count_arrivals(records: DataFrame, stream: Stream) -> DataFrame:
    """The records of one of the query's streams, counted."""
    return records.observe(f"{_METRIC}{stream.name}", F.count(F.lit(1)).alias("records"))


def read_arrivals(session: SparkSession, query: str) -> Arrivals:
    """What the query of this name has read in the batch that it is at, of which something has been computed."""
    java: Any = session._jsparkSession
    running = next(each for each in java.streams().active() if each.name() == query)
    execution = running.streamingQuery().lastExecution()
    observed = execution.observedMetrics()
    names = [str(name) for name in observed.keys().mkString("\n").split("\n") if name.startswith(_METRIC)]
    late = sum(int(node.metrics().apply(_DROPPED).value()) for node in dropping_nodes(execution))
    return Arrivals(sum(int(observed.apply(name).getLong(0)) for name in names), late, execution)


def dropping_nodes(execution: Any) -> Iterator[Any]:
    """The operators of the batch that drop what is too late."""
    return (node for node in find_nodes(execution.executedPlan()) if node.metrics().contains(_DROPPED))


def find_nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a plan, from the top down."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from find_nodes(children.apply(index))
