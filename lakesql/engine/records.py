"""The records of a batch: parsed, and counted while something else reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import column_of, identifier, table_name
from lakesql.compile.select import Select
from lakesql.engine.parse import (
    CORRUPT,
    missing_reason,
    parse_records,
    raw_struct,
    record_struct,
    rejected_struct,
    row_reason,
)
from lakesql.engine.source import Reading, TableSource, contract_of, read_raw
from lakesql.names import POSITION, RAW, RECORD, REJECTED, ROW
from lakesql.project.profiles import Files
from lakesql.stream.stream import RECORD_FIELDS, Stream


@dataclass(frozen=True, slots=True)
class Counts:
    """What one pass over a batch saw.

    `records` arrived; `bad` of them were rejected as they were read. Of a keyed model's rows, `keyless` lack a key or
    what orders the rows of a key; the others are `keyed`. `event_us` is the newest event among the good records, in
    microseconds since the epoch: a datetime would come in some time zone.
    """

    records: int
    bad: int
    keyless: int
    keyed: int
    event_us: int | None

    @property
    def rejected(self) -> int:
        """How many are set aside."""
        return self.bad + self.keyless


class Watch:
    """Counts that the first action over the watched frames brings along, at no pass of their own."""

    def __init__(self) -> None:
        self._records: list[_Watched] = []
        self._rows: list[_Watched] = []

    def stream(self, records: DataFrame, stream: Stream, select: Select) -> DataFrame:
        """Parsed records, watched."""
        return _watch(self._records, records, _record_counts(_event_time(stream, select)))

    def stateful_rows(self, rows: DataFrame) -> DataFrame:
        """Rows of a stateful SELECT, watched: each is a record of the batch that arrives here."""
        return _watch(self._records, rows, _stateful_counts())

    def keyed_rows(self, rows: DataFrame, not_null: tuple[str, ...]) -> DataFrame:
        """`rows`, watched for those in which one of the columns is NULL."""
        return _watch(self._rows, rows, _row_counts(not_null))

    def read(self) -> Counts:
        """The counts. Waits until a statement has read all that is watched."""
        seen = [watched.read() for watched in self._records]
        rows = [watched.read() for watched in self._rows]
        times = [row["event_us"] for row in seen if row["event_us"] is not None]
        return Counts(
            records=sum(row["records"] for row in seen),
            bad=sum(row["bad"] for row in seen),
            keyless=sum(row["keyless"] for row in rows),
            keyed=sum(row["rows"] - row["keyless"] for row in rows),
            event_us=max(times) if times else None,
        )


@dataclass(frozen=True, slots=True)
class _Watched:
    """A frame, what is counted of it, and the observation that brings the counts."""

    frame: DataFrame
    counted: tuple[Column, ...]
    observation: Observation

    def read(self) -> Mapping[str, Any]:
        try:
            return self.observation.get
        except Py4JError:  # the optimizer saw that no row comes of the frame, and left it out of the plan
            return self.frame.agg(*self.counted).collect()[0].asDict()


def count_of(condition: Column) -> Column:
    """How many rows the condition holds for. For `count_if` Spark would make a copy of each row, with the condition."""
    return F.count(F.when(condition, 1))


# What is counted is the same in every batch, and each part of an expression is a question to Java.


@cache
def _record_counts(event_time: str) -> tuple[Column, ...]:
    is_bad = F.col(REJECTED).isNotNull()
    newest = F.max(F.when(~is_bad, F.unix_micros(F.expr(event_time))))
    return F.count("*").alias("records"), count_of(is_bad).alias("bad"), newest.alias("event_us")


@cache
def _stateful_counts() -> tuple[Column, ...]:
    none = F.max(F.lit(None).cast("bigint"))
    return F.count("*").alias("records"), count_of(F.lit(False)).alias("bad"), none.alias("event_us")


@cache
def _row_counts(not_null: tuple[str, ...]) -> tuple[Column, ...]:
    is_keyless = reduce(or_, (F.col(identifier(name)).isNull() for name in not_null))
    return F.count("*").alias("rows"), count_of(is_keyless).alias("keyless")


def _watch(watched: list[_Watched], frame: DataFrame, counted: tuple[Column, ...]) -> DataFrame:
    watched.append(_Watched(frame, counted, Observation()))
    return frame.observe(watched[-1].observation, *counted)


def read_records(
    session: SparkSession, select: Select, readings: tuple[Reading, ...], streaming: bool = True
) -> DataFrame:
    """The parsed records of a model's streams in one DataFrame: what `foreachBatch` gets, a batch at a time.

    Several streams have several sets of columns: each then stands in a struct of its own; `unpack` takes them apart.
    """
    parsed = [parse_reading(read_raw(session, reading, streaming), reading, select) for reading in readings]
    if len(parsed) == 1:
        return parsed[0]
    packed = [frame.select(F.struct("*").alias(_packed(index))) for index, frame in enumerate(parsed)]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), packed)


def unpack(batch: DataFrame, select: Select, readings: tuple[Reading, ...]) -> list[DataFrame]:
    """The records of each stream of a batch, with their position where the SELECT carries it."""
    frames = [batch]
    if len(readings) > 1:
        names = [_packed(index) for index in range(len(readings))]
        frames = [batch.where(F.col(name).isNotNull()).select(f"{name}.*") for name in names]
    if not select.positioned:
        return frames
    is_read_twice = select.model.config.properties.get("write.merge.mode") == "copy-on-write"
    return [_with_position(frame, reading, is_read_twice) for frame, reading in zip(frames, readings, strict=True)]


def parse_reading(raw: DataFrame, reading: Reading, select: Select) -> DataFrame:
    """A stream's raw records as the model needs them: the contract's columns, `_record` with the fields that the SELECT
    uses, `_lakesql_raw` if a row may yet turn out to have no key, and `_lakesql_rejected`."""
    keep = select.query.record_fields
    if reading.has_rows:
        return _check_rows(raw, reading, keep, select.positioned)
    return parse_records(raw, contract_of(reading), keep, select.positioned)


def good_records(parsed: DataFrame) -> DataFrame:
    """The records that were not rejected, without the column that says so."""
    return parsed.where(f"{REJECTED} IS NULL").drop(REJECTED)


def _packed(index: int) -> str:
    return f"_lakesql_records_{index}"


def _with_position(records: DataFrame, reading: Reading, is_read_twice: bool) -> DataFrame:
    """The records with what orders them by arrival.

    A topic's records have an offset. Lines and rows of files have none: their number in the batch stands for it, which
    rises within a task, as tasks read each file from its start. (Spark numbers the rows of batches, not of streams.)
    """
    raw = F.col(RAW)
    has_offsets = not isinstance(reading.source, Files | TableSource)
    offset = raw["offset"] if has_offsets else F.monotonically_increasing_id()
    place = (raw["topic"].alias("source"), raw["partition"].cast("bigint").alias("partition"), offset.alias("offset"))
    positioned = records.withColumn(POSITION, F.struct(*place))
    return _as_given(positioned) if is_read_twice and not has_offsets else positioned


def _as_given(frame: DataFrame) -> DataFrame:
    """The same rows, of which Spark does not know how they were made.

    A MERGE into a copy-on-write table reads its source twice, so Spark refuses a number in it that it would have to
    give again. It gives the same ones: both times the tasks read the same files.
    """
    session = frame.sparkSession
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)


def empty_records(session: SparkSession, reading: Reading, positioned: bool) -> DataFrame:
    """No records, with the columns of a stream's view: what a SELECT is analysed against before there is a batch."""
    record = ",".join(f"{name}:{kind}" for name, kind in RECORD_FIELDS.items())
    added = [f"CAST(NULL AS struct<{record}>) AS {RECORD}"]
    if positioned:
        added.append(f"CAST(NULL AS struct<source:string,partition:bigint,offset:bigint>) AS {POSITION}")
    if isinstance(reading.source, TableSource):
        return session.table(table_name(reading.source.table)).limit(0).selectExpr("*", *added)
    columns = [f"CAST(NULL AS {column.type}) AS {identifier(column.name)}" for column in reading.stream.columns]
    return session.range(0).selectExpr(*columns, *added)


def _check_rows(raw: DataFrame, reading: Reading, keep: frozenset[str], keep_raw: bool) -> DataFrame:
    """Rows that have columns already: nothing to parse, but one may not fit, and a required column may be NULL.

    Files have the contract's columns and their types by their reader, a table has its own; a generator's are cast. The
    raw value of a bad row is the row as JSON, or the text that Spark could not read.
    """
    row = F.col(ROW)
    value = F.to_json(row)
    if reading.has_json:
        value, reason = F.coalesce(row[CORRUPT], value), row_reason(contract_of(reading))
    else:
        reason = missing_reason(column.name for column in reading.stream.columns if column.required)
    # The JSON of a row is made where it is bad; of a good row that turns out to have no key, with its dead letter.
    value = F.when(reason.isNotNull(), F.encode(value, "UTF-8"))
    types = {} if isinstance(reading.source, TableSource) else {c.name: c.type for c in reading.stream.columns}
    kind = raw.schema[ROW].dataType
    assert isinstance(kind, T.StructType)
    cast = "try_cast" if reading.has_json else "cast"  # what does not fit is in a row that is rejected

    def landed(name: str) -> str:
        return f"{cast}({column_of(ROW, name)} AS {types[name]})" if name in types else column_of(ROW, name)

    return raw.withColumn("value", value).select(
        *(F.expr(f"{landed(name)} AS {identifier(name)}") for name in kind.names if name != CORRUPT),
        *([record_struct(keep)] if keep else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(reason),
    )


def _event_time(stream: Stream, select: Select) -> str:
    """The time of an event, as SQL: the watermark's column, else the record's own time where it is at hand."""
    if stream.watermark:
        return f"CAST({identifier(stream.watermark.column)} AS timestamp)"
    if "timestamp" in select.query.record_fields:
        return f"{RECORD}.timestamp"
    return f"{RAW}.timestamp" if select.positioned else "CAST(NULL AS timestamp)"
