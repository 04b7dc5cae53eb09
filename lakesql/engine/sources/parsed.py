"""How the raw records of a model's streams are packed into one DataFrame, and parsed
batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import column_of, identifier, table_name
from lakesql.compile.select import Select
from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import (
    landed,
    missing_reason,
    parse_records,
    raw_struct,
    record_struct,
    rejected_struct,
)
from lakesql.engine.records.routed import routed
from lakesql.engine.sources.binding import StreamBinding, contract_columns, contract_of
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.column_names import in_columns
from lakesql.engine.sources.csv_headers import with_prefixes
from lakesql.engine.sources.file_order import place_in_files
from lakesql.engine.sources.folder_columns import with_folders
from lakesql.engine.sources.raw import read_raw
from lakesql.engine.spark.internals import Repeated
from lakesql.names import (
    CHANGE,
    COMMIT_NUMBER,
    CORRUPT,
    IGNORED,
    NEW_FIELDS,
    POSITION,
    RAW,
    RECORD,
    RECORD_FIELDS,
    REJECTED,
    ROW,
    SOURCE_TABLE,
    TOMBSTONE,
    UNKNOWN_TABLE,
    UNPARSABLE,
)
from lakesql.source.source import Source
from lakesql.stream.stream import Stream, change_fields


def read_records(
    session: SparkSession,
    bindings: tuple[StreamBinding, ...],
    there_now: Brokers | None = None,
) -> DataFrame:
    """The raw records of a model's streams in one DataFrame, which `foreachBatch` gets
    batch by batch.

    With `there_now`, the connections to brokers, it is a batch DataFrame of the records
    that exist now.

    Records are parsed in the batch, as Spark plans a streaming query twice for each of
    its batches, once only to describe it.
    """
    return pack(
        [
            read_raw(session, binding, there_now is None, there_now)
            for binding in bindings
        ]
    )


def pack(raws: Sequence[DataFrame]) -> DataFrame:
    """The raw records of all streams in one DataFrame; if there are several streams,
    each has its records in a struct of its own."""
    packed = [pack_one(frame, index, len(raws)) for index, frame in enumerate(raws)]
    return reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True), packed
    )


def pack_one(raw: DataFrame, index: int, count: int) -> DataFrame:
    """The raw records of the stream at `index`, in the form that `pack` gives to those
    of `count` streams."""
    return raw if count == 1 else raw.select(F.struct("*").alias(_packed(index)))


def unpack(batch: DataFrame, index: int, count: int) -> DataFrame:
    """The raw records of the stream at `index` in a result of `pack` for `count`
    streams."""
    name = _packed(index)
    return (
        batch
        if count == 1
        else batch.where(F.col(name).isNotNull()).select(f"{name}.*")
    )


def raw_records(
    batch: DataFrame, bindings: Sequence[StreamBinding]
) -> list[tuple[StreamBinding, DataFrame]]:
    """The raw records of each stream of a batch."""
    return [
        (binding, unpack(batch, index, len(bindings)))
        for index, binding in enumerate(bindings)
    ]


class Parsing:
    """Parses the batches of one query, with raw records as in `read_records`.

    Batches of few records have a plan of their own, without generated code: to generate
    and compile it takes longer than to parse them, and most tables of a group never
    have a large batch.
    """

    def __init__(self, select: Select, bindings: tuple[StreamBinding, ...]) -> None:
        parse = partial(_parse_stream, select=select, bindings=bindings)
        self._streams = [
            Repeated(partial(parse, index=index)) for index in range(len(bindings))
        ]
        self._streams_of_few = [
            Repeated(partial(parse, index=index)) for index in range(len(bindings))
        ]

    def parse(self, batch: DataFrame, *, are_few: bool = False) -> list[DataFrame]:
        """The parsed records of each stream of a batch, with `_lakesql_position` if the
        SELECT carries it. `are_few`: the session has the settings for few rows."""
        streams = self._streams_of_few if are_few else self._streams
        return [stream.over(batch) for stream in streams]


def parse_streams(
    batch: DataFrame, select: Select, bindings: tuple[StreamBinding, ...]
) -> list[DataFrame]:
    """The parsed records of each stream, like `Parsing.parse`, for a single batch."""
    return [
        _parse_stream(batch, index, select, bindings) for index in range(len(bindings))
    ]


def _parse_stream(
    batch: DataFrame, index: int, select: Select, bindings: tuple[StreamBinding, ...]
) -> DataFrame:
    binding, raw = bindings[index], unpack(batch, index, len(bindings))
    records = parse_binding(raw, binding, select)
    return with_position(records, binding) if select.has_positions else records


def parse_binding(
    raw: DataFrame, binding: StreamBinding, select: Select, keep_raw: bool = False
) -> DataFrame:
    """A stream's raw records, parsed as the model needs them.

    They have the contract's columns, `_record` and `_change` with the fields that the
    SELECT uses, `_lakesql_raw` if a row may later become a dead letter (or with
    `keep_raw`), and `_lakesql_rejected`; for a change feed also `_lakesql_ignored` and
    `_lakesql_new_fields`; for a stream with a `route` `_lakesql_ignored` and
    `_lakesql_unknown_table`; and `_lakesql_tombstone` if the model accepts tombstones.
    """
    keep, keep_raw = select.query.record_fields, keep_raw or select.has_positions
    if binding.has_rows:
        return in_columns(
            _check_rows(raw, binding, keep, select.change_fields, keep_raw),
            binding.stream,
        )
    raw = with_folders(with_prefixes(raw, binding), binding)
    if binding.has_changes:
        parsed = parse_changes(
            raw, contract_of(binding), keep, select.change_fields, keep_raw
        )
    else:
        parsed = parse_records(
            raw,
            contract_of(binding),
            keep,
            keep_raw or binding.stream.route is not None,
        )
    parsed = in_columns(parsed, binding.stream)
    if binding.stream.route is None:
        return parsed
    found = routed(
        parsed,
        binding.stream.route,
        is_separated=binding.stream.record_format.is_separated,
    )
    return found if keep_raw else found.drop(RAW)


def good_records(parsed: DataFrame) -> DataFrame:
    """The records that have a row and are neither rejected nor ignored, without the
    columns for these marks."""
    used = f"{REJECTED} IS NULL"
    used += f" AND NOT {IGNORED}" if IGNORED in parsed.columns else ""
    used += f" AND {TOMBSTONE} IS NULL" if TOMBSTONE in parsed.columns else ""
    return parsed.where(used).drop(
        REJECTED, IGNORED, NEW_FIELDS, SOURCE_TABLE, UNKNOWN_TABLE, TOMBSTONE
    )


def deleted_keys(parsed: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The keys of the records without a value, each with its position; `names` maps the
    model's column names to the stream's."""
    keys = (F.col(TOMBSTONE)[column].alias(name) for name, column in names.items())
    return parsed.where(f"{TOMBSTONE} IS NOT NULL").select(*keys, POSITION)


def _packed(index: int) -> str:
    return f"_lakesql_records_{index}"


def name_raw(stream: Stream) -> str:
    """The name by which a stream's raw records are found in the plan of a query."""
    return f"{RAW}_{stream.name}"


def with_position(records: DataFrame, binding: StreamBinding) -> DataFrame:
    """The records with `_lakesql_position`, which orders them by arrival.

    A topic's records have an offset. Lines and rows of files, and records of some
    queues, have none. Their number in the batch takes its place: it rises within a
    task, as tasks read each file from its start. (Spark numbers the rows of batches,
    not of streams.) Files are in the order in which batches take them, so that it makes
    no difference which batch has which. A change feed in files counts as one partition
    of a topic, and each commit of a table as a partition after those before.
    """
    raw = F.col(RAW)
    if binding.is_feed_in_files:
        source, partition = F.lit(binding.stream.name), F.lit(0)
        offset = place_in_files(raw["topic"], binding.file_order)
    else:
        is_of_commits = binding.stream.has_table_changes
        source, partition = (
            _source(raw, binding),
            F.col(COMMIT_NUMBER) if is_of_commits else raw["partition"],
        )
        offset = _offset(raw["offset"], binding.source)
    place = (
        source.alias("source"),
        partition.cast("bigint").alias("partition"),
        offset.alias("offset"),
    )
    return records.withColumn(POSITION, F.struct(*place)).drop(COMMIT_NUMBER)


def _source(raw: Column, binding: StreamBinding) -> Column:
    """The source part of a position: the topic of the record; for a file the time of
    its last change and its path, or only the path if batches are in the order of
    names."""
    if not binding.is_in_files or binding.source.is_in_name_order:
        return raw["topic"]
    time = F.lpad(F.unix_micros(raw["timestamp"]).cast("string"), _TIME_DIGITS, "0")
    return F.concat(time, F.lit(" "), raw["topic"])


_TIME_DIGITS = 20
"""More digits than any number of microseconds has, so that times padded to it sort as
texts."""


def _offset(written: Column, source: Source) -> Column:
    """The offset of each record, or the number in its place. Plain offsets are kept
    where possible, as Spark optimizes less around numbers that it generates."""
    if not source.has_offsets:
        return F.monotonically_increasing_id()
    return (
        F.coalesce(written, F.monotonically_increasing_id())
        if source.may_lack_offsets
        else written
    )


def empty_records(
    session: SparkSession, binding: StreamBinding, select: Select
) -> DataFrame:
    """An empty DataFrame with the columns of a stream's view, against which a SELECT is
    analyzed before there is a batch."""
    record = ",".join(f"{name}:{kind}" for name, kind in RECORD_FIELDS.items())
    added = [f"CAST(NULL AS struct<{record}>) AS {RECORD}"]
    if binding.stream.has_table_changes:
        added.append(
            f"named_struct('op', '', 'ts', current_timestamp(), 'before', struct(*)) AS {CHANGE}"
        )
    elif change := ",".join(
        f"{name}:{kind}" for name, kind in change_fields(binding.stream).items()
    ):
        added.append(f"CAST(NULL AS struct<{change}>) AS {CHANGE}")
    if select.writing.is_positioned:
        added.append(
            f"CAST(NULL AS struct<source:string,partition:bigint,offset:bigint>) AS {POSITION}"
        )
    if (table := binding.table) is not None:
        return session.table(table_name(table)).limit(0).selectExpr("*", *added)
    columns = [
        f"CAST(NULL AS {column.type}) AS {identifier(column.name)}"
        for column in binding.stream.columns
    ]
    return session.range(0).selectExpr(*columns, *added)


def _check_rows(
    raw: DataFrame,
    binding: StreamBinding,
    keep: frozenset[str],
    keep_change: frozenset[str],
    keep_raw: bool,
) -> DataFrame:
    """Records that arrive as typed rows, in the contract's columns and with
    `_lakesql_rejected`: a required column may be NULL, or a value may not fit.

    Spark's reader gives files the contract's columns and types, a table has its own;
    the rows of a generator are cast. The raw value of a bad row is the row as JSON.
    """
    row = F.col(ROW)
    value, reason = F.to_json(row), missing_reason(binding.never_null)
    if binding.may_have_nanoseconds:
        is_finer = row[CORRUPT].isNotNull()
        value, reason = (
            F.coalesce(row[CORRUPT], value),
            F.when(is_finer, F.lit(UNPARSABLE)).otherwise(reason),
        )
    # The JSON is built only for bad rows. For a good row that later becomes a dead
    # letter, as its key is NULL, it is built then.
    value = F.when(reason.isNotNull(), value.cast("binary"))
    declared = binding.stream.columns if binding.table is None else ()
    types = {column.field: column.type for column in declared}
    kind = raw.schema[ROW].dataType
    assert isinstance(kind, T.StructType)

    counted = {
        column.name: column
        for column in contract_columns(binding.stream)
        if column.is_counted
    }

    fields = [name for name in change_fields(binding.stream) if name in keep_change]
    change = F.struct(*(F.col(CHANGE)[name] for name in fields)).alias(CHANGE)
    is_numbered = binding.stream.has_table_changes and keep_raw

    def landed_as(name: str) -> Column:
        if name in counted:
            return landed(counted[name])
        value = column_of(ROW, name)
        return F.expr(f"cast({value} AS {types[name]})" if name in types else value)

    return raw.withColumn("value", value).select(
        *(landed_as(name).alias(name) for name in kind.names if name != CORRUPT),
        *([record_struct(keep)] if keep else []),
        *([change] if fields else []),
        *([F.col(COMMIT_NUMBER)] if is_numbered else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(reason),
    )
