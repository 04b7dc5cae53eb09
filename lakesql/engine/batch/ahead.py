"""The records whose event time lies too far ahead of the clock: they would move a
watermark, and close all windows.

The clock is the batch's: Spark writes the time at which it planned a batch into the
query's checkpoint, so a batch that is tried again, by whichever run, judges each record
as before. Only the query that has the watermark judges. It leaves such records out, and
its writer reads the batch's records again to make dead letters of them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.quote import event_time
from lakesql.engine.batch.arrivals import watch_events
from lakesql.engine.batch.dead_letter import DeadLetters, letters_at
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import good_records
from lakesql.names import AHEAD, POSITION
from lakesql.stream.stream import Stream


def leave_out_ahead(records: DataFrame, binding: StreamBinding) -> DataFrame:
    """A streaming query's good records, with their raw fields, of a stream with a
    watermark: those that may move it."""
    watermark = binding.stream.watermark
    assert watermark is not None
    event, clock = _event_ms(binding.stream), F.unix_millis(F.current_timestamp())
    is_ahead = event > clock + F.lit(watermark.max_ahead_ms)
    watched = watch_events(
        records, binding.stream, event, F.coalesce(is_ahead, F.lit(False))
    )
    return watched.where(~F.coalesce(is_ahead, F.lit(False)))


def ahead_letters(
    session: SparkSession,
    records: list[DataFrame],
    bindings: tuple[StreamBinding, ...],
    execution: Any,
) -> DeadLetters:
    """The records of the batch that `execution` has run which were left out, as
    letters.

    `records` are the parsed records of each stream, with their raw fields and their
    position.
    """
    letters: DeadLetters = []
    for parsed, binding in zip(records, bindings, strict=True):
        watermark = binding.stream.watermark
        if watermark is None:
            continue
        event = F.expr(event_time(binding.stream)).cast("timestamp").cast("string")
        of, by = (
            f"its {watermark.column} is ",
            f", more than {watermark.max_ahead} ahead",
        )
        detail = F.concat(F.lit(of), event, F.lit(by))
        found = good_records(parsed).where(
            _is_ahead(session, binding.stream, execution)
        )
        places = found.select(
            F.col(POSITION).alias("place"),
            F.lit(AHEAD).alias("reason"),
            detail.alias("detail"),
        )
        letters += letters_at(places, [parsed], (binding,))
    return letters


def without_ahead(
    session: SparkSession, good: DataFrame, binding: StreamBinding, execution: Any
) -> DataFrame:
    """The good records of a stream in the batch that `execution` has run, less those
    that it has left out."""
    if binding.stream.watermark is None:
        return good
    return good.where(
        ~F.coalesce(_is_ahead(session, binding.stream, execution), F.lit(False))
    )


def _event_ms(stream: Stream) -> Column:
    return F.unix_millis(F.expr(event_time(stream)).cast("timestamp"))


def _is_ahead(session: SparkSession, stream: Stream, execution: Any) -> Column:
    assert stream.watermark is not None
    return _event_ms(stream) > _clock_ms(session, execution) + F.lit(
        stream.watermark.max_ahead_ms
    )


def _clock_ms(session: SparkSession, execution: Any) -> Column:
    """The time that `current_timestamp()` had in the batch: a unit test may have
    stopped it."""
    clock = F.current_timestamp()
    read = (
        session.range(1)
        .select(clock)
        ._jdf.queryExecution()
        .analyzed()
        .expressions()
        .head()
    )
    if str(read.child().nodeName()) == "Literal":
        return F.unix_millis(clock)
    return F.lit(int(execution.offsetSeqMetadata().batchTimestampMs()))
