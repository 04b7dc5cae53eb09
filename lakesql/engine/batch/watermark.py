"""Which records of a batch the watermark of a stateful query refuses, as too late or
too far ahead of the clock, how many were read, and what waits at the end.

Spark only counts the rows that it drops as late, so the records of the batch are read
again to find them. A record that is too far ahead would advance the watermark and close
all windows, so it is left out. The clock is the batch's: Spark writes the time at which
it planned a batch into the query's checkpoint, so a batch that is tried again, by any
run, treats each record as before. Only the query that has the watermark decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import event_time
from lakesql.compile.select import Select
from lakesql.engine.batch.dead_letter import DeadLetters, letters_at
from lakesql.engine.batch.stream_views import view_stream
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import (
    good_records,
    name_raw,
    parse_binding,
    with_position,
)
from lakesql.engine.spark.few_rows import changed_settings
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import as_given
from lakesql.events import RowsWaiting
from lakesql.names import AHEAD, EVENT_TIME, LATE, POSITION, RAW
from lakesql.stream.stream import Stream

_METRIC = "lakesql_arrived_"
_EVENTS = "lakesql_events_"
_DROPPED = "numRowsDroppedByWatermark"

TEXTS_IN_UTC = {"spark.sql.session.timeZone": "UTC"}
"""The setting by which Spark plans the text of a time in UTC, whatever the time zone of
the target's session: that of a watermark beside it is in UTC too."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many records of its streams a batch has read, and how many rows came too late
    for its watermark.

    Spark drops rows where it keeps state, which for an aggregate is after a partial
    aggregation in each task: late events of one task and one group count as one row.
    """

    records: int
    late: int
    execution: Any = field(default=None, repr=False)
    """Spark's execution of the batch."""
    ahead: int = 0
    """How many records were left out because they are too far ahead of the clock."""
    furthest: str = ""
    """The event that would advance a watermark furthest, its time first; '' if there is
    none, or no watermark."""
    without_event_time: int = 0
    """How many records of streams with a watermark have NULL as event time."""


def count_arrivals(records: DataFrame, stream: Stream) -> DataFrame:
    """The records of one of the query's streams, counted while they are read."""
    return records.observe(
        f"{_METRIC}{stream.name}", F.count(F.lit(1)).alias("records")
    )


def watch_events(
    records: DataFrame, stream: Stream, event_ms: Column, is_ahead: Column
) -> DataFrame:
    """The records of a stream with a watermark. While they are read, those ahead of
    time or without event time are counted, and the one that advances the watermark
    furthest is noted."""
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
        F.count(F.when(event_ms.isNull(), 1)).alias("without_event_time"),
    )


def read_arrivals(session: SparkSession, query: str) -> Arrivals:
    """What the query of this name has read in its current batch, of which something has
    been computed."""
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
    without_event_time = sum(int(row.getLong(3)) for row in events.values())
    furthest = max(moving, default="")
    return Arrivals(records, late, execution, ahead, furthest, without_event_time)


def last_execution(session: SparkSession, query: str) -> Any:
    """Spark's execution of the current batch of the query of this name."""
    java: Any = session._jsparkSession
    running = next(each for each in java.streams().active() if each.name() == query)
    return running.streamingQuery().lastExecution()


def _furthest(stream: str, row: Any) -> str:
    """A description such as `2026-03-01T10:00:00.000+00:00, stream orders, record
    orders 0 17`: topic or file, partition, offset."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(row.getLong(1)))
    return f"{at.isoformat(timespec='milliseconds')}, stream {stream}, record {row.getString(2)}"


def dropping_nodes(execution: Any) -> Iterator[Any]:
    """The operators of the batch's plan that drop late rows."""
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


_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
"""The setting that makes Spark refuse to run a part of a streaming query by itself."""


def watermark_letters(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    arrivals: Arrivals,
) -> DeadLetters:
    """The dead letters for the records of a batch that its watermark refuses: the late
    ones, and those too far ahead."""
    letters: DeadLetters = []
    if arrivals.late and select.late_text:
        letters += late_letters(session, select, bindings, arrivals.execution)
    if arrivals.ahead:
        records = records_of(session, select, bindings, arrivals.execution)
        letters += ahead_letters(session, records, bindings, arrivals.execution)
    return letters


def late_letters(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    execution: Any,
) -> DeadLetters:
    """The dead letters for the records of the batch run by `execution` that Spark
    dropped as late.

    The author's SELECT without its GROUP BY gives the event time of each row, or the
    window around it; a row is late if that ends at or before Spark's watermark for the
    batch (`WatermarkSupport.watermarkExpression`). A replay of the batch has the same
    records and the same watermark.
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
        f"{what} %s+00:00, and the watermark was {watermark}",
        F.min(end).cast("string"),
    )
    with changed_settings(session, TEXTS_IN_UTC):
        places = late.groupBy(F.col(POSITION).alias("place")).agg(
            detail.alias("detail")
        )
    places = places.withColumn("reason", F.lit(LATE))
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
    """The raw records of each stream that the batch has read, with the stream's
    binding."""
    return [
        (binding, _raw_records(session, execution, binding)) for binding in bindings
    ]


def _raw_records(
    session: SparkSession, execution: Any, binding: StreamBinding
) -> DataFrame:
    """The raw records of one stream that the batch has read."""
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


def leave_out_ahead(records: DataFrame, binding: StreamBinding) -> DataFrame:
    """The good records of a stream with a watermark, without those too far ahead of the
    clock; for a streaming query, with raw fields."""
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
    """The dead letters for the records of the batch run by `execution` that were left
    out as too far ahead.

    `records` are the parsed records of each stream, with their raw fields and their
    position.
    """
    letters: DeadLetters = []
    for parsed, binding in zip(records, bindings, strict=True):
        watermark = binding.stream.watermark
        if watermark is None:
            continue
        event = F.expr(event_time(binding.stream)).cast("timestamp")
        found = good_records(parsed).where(
            _is_ahead(session, binding.stream, execution)
        )
        found = found.select(F.col(POSITION).alias("place"), event.alias(EVENT_TIME))
        detail = F.concat(
            F.lit(f"its {watermark.column} is "),
            F.col(EVENT_TIME).cast("string"),
            F.lit(f"+00:00, more than {watermark.max_ahead} ahead"),
        )
        with changed_settings(session, TEXTS_IN_UTC):
            places = found.select(
                "place", F.lit(AHEAD).alias("reason"), detail.alias("detail")
            )
        letters += letters_at(places, [parsed], (binding,))
    return letters


def without_ahead(
    session: SparkSession, good: DataFrame, binding: StreamBinding, execution: Any
) -> DataFrame:
    """The good records of a stream in the batch run by `execution`, without those too
    far ahead."""
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
    """The value of `current_timestamp()` in the batch; in a unit test the clock may be
    stopped."""
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


_JOINS = "symmetricHashJoin"


def find_waiting(select: Select, report: Mapping[str, Any]) -> RowsWaiting | None:
    """What waits in the state after the batch with this progress report of Spark's;
    None if nothing does.

    In mode `upsert` the row of a group is in the table already, so nothing waits. A
    DISTINCT is a group of all its columns. A join of streams keeps records for later
    matches; Spark does not report which of them have matched.
    """
    if select.writing.output_mode != "append" or not select.query.stateful:
        return None
    operators: Sequence[Mapping[str, Any]] = report.get("stateOperators") or ()
    joined = sum(
        int(it["numRowsTotal"]) for it in operators if it["operatorName"] == _JOINS
    )
    groups = sum(
        int(it["numRowsTotal"]) for it in operators if it["operatorName"] != _JOINS
    )
    if not (groups or joined):
        return None
    watermark = str((report.get("eventTime") or {}).get("watermark", ""))
    return RowsWaiting(select.model.name, groups, joined, watermark)
