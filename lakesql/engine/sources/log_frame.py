"""How the records of a log become raw records: as Arrow, and as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.sources.log_reader import TopicPage
from lakesql.engine.spark.few_rows import changed_settings
from lakesql.source.log import LogRecord

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
"""The columns of raw records."""


def as_frame(session: SparkSession, pages: Sequence[TopicPage]) -> DataFrame:
    """The records of pages as raw records."""
    # With the threshold 0 the rows are parsed by the JVM's tasks. Otherwise the
    # optimizer would parse a small table, record by record.
    with changed_settings(
        session, {"spark.sql.execution.arrow.localRelationThreshold": "0"}
    ):
        return session.createDataFrame(as_arrow(pages), RAW)


def as_arrow(pages: Sequence[TopicPage]) -> pa.Table:
    """The records of pages as an Arrow table with the columns of raw records."""
    records = [record for each in pages for record in each.page.records]
    topics = [
        record.topic or each.topic for each in pages for record in each.page.records
    ]
    columns = zip(*records, strict=True) if records else [()] * len(LogRecord._fields)
    found = dict(zip(LogRecord._fields, columns, strict=True))
    arrays = {
        "key": pa.array(found["key"], pa.binary()),
        "value": pa.array(found["value"], pa.binary()),
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(found["partition"], pa.int32()),
        "offset": pa.array(found["offset"], pa.int64()),
        "timestamp": pa.array(found["timestamp_us"], pa.timestamp("us", "UTC")),
        "headers": _header_array(found["headers"]),
    }
    return pa.table(arrays)


def _header_array(headers: Sequence[Sequence[tuple[str, bytes]]]) -> pa.Array:
    """The headers of records as an array of lists. It is built from its parts, as
    building it from a dict per record takes twice as long."""
    ends = accumulate(map(len, headers), initial=0)
    every = [header for each in headers for header in each]
    keys = pa.array([key for key, _ in every], pa.string())
    values = pa.array([value for _, value in every], pa.binary())
    entries = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), entries)
