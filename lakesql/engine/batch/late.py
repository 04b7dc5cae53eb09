"""The records that a watermark has dropped. Spark only counts them: those of the batch
are read again, and asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.select import Select
from lakesql.engine.batch.ahead import without_ahead
from lakesql.engine.batch.arrivals import dropping_nodes, find_nodes
from lakesql.engine.batch.dead_letter import DeadLetters, letters_at
from lakesql.engine.batch.stream_views import view_stream
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import (
    good_records,
    name_raw,
    parse_binding,
    with_position,
)
from lakesql.engine.spark.changed_settings import changed_settings
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import as_given
from lakesql.names import EVENT_TIME, LATE, POSITION

_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
"""Spark refuses to run a part of a streaming query by itself, unless it is not
asked."""


def late_letters(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    execution: Any,
) -> DeadLetters:
    """The records of the batch that `execution` has run which Spark dropped as late, as
    letters.

    The author's SELECT without its GROUP BY gives the event time of each row, or the
    window around it; a row is late where that ends at Spark's watermark for the batch
    or before (`WatermarkSupport.watermarkExpression`). A replay of the batch has the
    same records and the same watermark.
    """
    watermark_ms = max(
        int(node.eventTimeWatermarkForLateEvents().get())
        for node in dropping_nodes(execution)
    )
    all_records = records_of(session, select, bindings, execution)
    for records, binding in zip(all_records, bindings, strict=True):
        view_stream(
            without_ahead(session, good_records(records), binding, execution),
            binding.stream,
            select,
        )
    rows = session.sql(select.late_text)
    is_window = isinstance(rows.schema[EVENT_TIME].dataType, T.StructType)
    end = F.col(f"{EVENT_TIME}.end" if is_window else EVENT_TIME)
    late = rows.where(end <= F.timestamp_millis(F.lit(watermark_ms)))
    watermark = datetime.fromtimestamp(watermark_ms / 1000, UTC).isoformat(
        sep=" ", timespec="milliseconds"
    )
    what = "its window ended at" if is_window else "its event time is"
    detail = F.format_string(
        f"{what} %s, and the watermark was {watermark}", F.min(end).cast("string")
    )
    places = (
        late.groupBy(F.col(POSITION).alias("place"))
        .agg(detail.alias("detail"))
        .withColumn("reason", F.lit(LATE))
    )
    return letters_at(places, all_records, bindings)


def records_of(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    execution: Any,
) -> list[DataFrame]:
    """The records of each stream that the batch has read, parsed, with their raw fields
    and their position."""
    raws = raw_records_read(session, bindings, execution)
    return [
        with_position(parse_binding(raw, binding, select, keep_raw=True), binding)
        for binding, raw in raws
    ]


def raw_records_read(
    session: SparkSession, bindings: tuple[StreamBinding, ...], execution: Any
) -> list[tuple[StreamBinding, DataFrame]]:
    """The raw records of each stream that the batch has read."""
    return [
        (binding, _raw_records(session, execution, binding)) for binding in bindings
    ]


def _raw_records(
    session: SparkSession, execution: Any, binding: StreamBinding
) -> DataFrame:
    """The raw records of a stream that the batch has read."""
    named = _named_plans(execution.analyzed(), name_raw(binding.stream))
    raw = java_class("org.apache.spark.sql.classic.Dataset").ofRows(
        session._jsparkSession, next(named).child()
    )
    with changed_settings(session, {_CHECK: "false"}):
        return as_given(DataFrame(raw, session))


def _named_plans(plan: Any, name: str) -> Iterator[Any]:
    for node in find_nodes(plan):
        if str(node.nodeName()) == "SubqueryAlias" and str(node.alias()) == name:
            yield node
