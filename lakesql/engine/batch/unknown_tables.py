"""Values of a route that a batch has, and of which nobody knows a table: they are kept
before the batch is published.

The records stay in the topic, which a table that is made of them reads from its start.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from lakesql.engine.batch.counters import BatchCounts
from lakesql.engine.batch.rows import BatchRows
from lakesql.engine.batch.sink import Sink
from lakesql.names import UNKNOWN_TABLE
from lakesql.stream.route_values import MOST_VALUES


def keep_unknown(sink: Sink, rows: BatchRows, counts: BatchCounts) -> None:
    """Tell the run which values the batch has that no table stands for, of as many as
    may be known."""
    member = sink.model.member
    if counts.unknown_table is None or member is None:
        return
    for records in rows.records:
        if UNKNOWN_TABLE in records.columns:
            unknown = (
                records.where(F.col(UNKNOWN_TABLE).isNotNull())
                .select(UNKNOWN_TABLE)
                .distinct()
            )
            found = unknown.limit(MOST_VALUES + 1).collect()
            sink.found(member.feed, sorted(row[0] for row in found))
