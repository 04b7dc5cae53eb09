"""Which views of a stream a SELECT reads: one with the stream's name, and one with the
event time of its watermark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakesql.compile.quote import event_time
from lakesql.compile.select import Select
from lakesql.engine.spark.internals import replace_view
from lakesql.names import event_column, timed_view
from lakesql.stream.stream import Stream


def view_stream(
    records: DataFrame, stream: Stream, select: Select, is_streaming: bool = False
) -> None:
    """Register the good records of a stream as its views; in a streaming query, with
    its watermark."""
    watermark = stream.watermark if is_streaming else None
    if not stream.makes_event_time:
        timed = (
            records.withWatermark(watermark.column, watermark.delay)
            if watermark
            else records
        )
        replace_view(timed, stream.name)
        return
    column = event_column(stream.name)
    timed = records.withColumn(column, F.expr(event_time(stream)))
    timed = timed.withWatermark(column, watermark.delay) if watermark else timed
    replace_view(timed.drop(column), stream.name)
    if select.query.timed is not None and stream.name in select.query.timed.streams:
        replace_view(timed, timed_view(stream.name))
