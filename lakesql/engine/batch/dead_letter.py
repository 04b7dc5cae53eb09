"""Dead letters: records that could not be used, each with everything that is needed to find it and read it again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.quote import identifier, table_name
from lakesql.compile.table import DEAD_LETTER_COLUMNS, create_table, dead_letter_spec
from lakesql.engine.batch.counters import count_of
from lakesql.engine.ledger.entry import Entry, summary_of
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    commit_properties,
    conflict,
    head_of,
    load_table,
    publish,
    read_entry,
    staged_snapshot,
    table_exists,
)
from lakesql.engine.progress.progress import check_same
from lakesql.engine.records.debezium import with_change_detail
from lakesql.engine.records.parse import REQUIRED_MISSING, SEQUENCE_MISSING, TOMBSTONE, UNPARSABLE, with_detail
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.model.model import Model
from lakesql.model.writing import Writing
from lakesql.names import POSITION, RAW, REJECTED, is_reserved

KEY_MISSING = "key-missing"
"""Why a row of the SELECT is a dead letter: a key is NULL."""

LATE = "late"
"""A watermark has dropped it."""

REASONS = (UNPARSABLE, REQUIRED_MISSING, TOMBSTONE, KEY_MISSING, SEQUENCE_MISSING, LATE)
"""All that `reason` may say."""

DeadLetters = list[DataFrame]
"""Frames of `stream, topic, partition, offset, timestamp, key, value, reason, detail`."""

_FOUND = ("stream", "topic", "partition", "offset", "timestamp", "key", "value", "reason", "detail")


@dataclass(frozen=True, slots=True)
class Rejection:
    """How many dead letters were written, and how many for each reason."""

    count: int
    reasons: tuple[tuple[str, int], ...]


def write_dead_letters(session: SparkSession, model: Model, letters: DeadLetters, entry: Entry) -> Rejection | None:
    """Append `letters`, of which there are some, to the model's table of dead letters, with the batch's entry.

    The entry makes it safe to write them before the batch itself becomes visible: a crash between the two replays the
    batch, and finds them here. Those that are here already are left out; None if all are. They are staged and published
    as the batch itself is.
    """
    table = model.table.dead_letter
    found, wap_id, head = union_letters(letters), entry.wap_id, None
    if not table_exists(session, table):
        # A stateful model's two queries may come here at once.
        for statement in create_table(dead_letter_spec(model.table), "IF NOT EXISTS"):
            session.sql(statement)
    else:
        there = load_table(session, table)
        newest = _newest_entry(there, entry, model)
        if newest is not None and newest.batch > entry.batch:
            return None
        if newest is not None and newest.batch == entry.batch:
            # An earlier try at the batch. It may have rejected other rows: a table that the SELECT joins has changed.
            found = _without_written(found, session.table(table_name(table)), model, entry)
            if found.isEmpty():
                return None
            head = head_of(there)
            wap_id = f"{wap_id}:{head}"

    def is_overtaken(there: JavaTable) -> bool:
        if head is None:
            newest = _newest_entry(there, entry, model)
            return newest is not None and newest.batch >= entry.batch
        if head_of(there) != head:
            raise conflict(table)
        return False

    observation = Observation()
    by_reason = {reason: count_of(F.col("reason") == reason).alias(reason) for reason in REASONS}
    complete = _complete(found, model, entry).observe(observation, *by_reason.values())
    with commit_properties(session, summary_of(entry), wap_id):
        complete.writeTo(table_name(table)).append()
    staged = staged_snapshot(load_table(session, table), wap_id)
    assert staged is not None, "the write was not staged"
    publish(session, table, staged, entry.model, is_overtaken, can_replay=True)
    counts = {reason: int(observation.get[reason]) for reason in REASONS}
    return Rejection(sum(counts.values()), tuple((reason, n) for reason, n in sorted(counts.items()) if n))


def _newest_entry(table: JavaTable, entry: Entry, model: Model) -> Entry | None:
    """The newest entry of the same checkpoint, which is to be the same where it is of the same batch."""
    newest = read_entry(table, entry.model, entry.checkpoint)
    if newest is not None and newest.batch == entry.batch:
        check_same(newest, entry, model.name)
    return newest


def _without_written(letters: DataFrame, written: DataFrame, model: Model, entry: Entry) -> DataFrame:
    """The letters that do not stand among those that were written for the batch."""
    there = written.where((F.col("model") == model.name) & (F.col("batch") == entry.batch)).select(*_FOUND)
    is_same = (letters[name].eqNullSafe(there[name]) for name in _FOUND)
    return letters.join(there, reduce(and_, is_same), "left_anti")


def union_letters(letters: DeadLetters) -> DataFrame:
    """DeadLetters of several origins as one frame."""
    return reduce(DataFrame.unionByName, (frame.select(*_FOUND) for frame in letters))


def rejected_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The rejected ones of a stream's parsed records, as letters."""
    rejected = parsed.where(F.col(REJECTED).isNotNull()).select(f"{REJECTED}.*")
    if binding.has_rows and not binding.has_json:
        required = [column.name for column in binding.stream.columns if column.required]
        rejected = rejected.withColumn("detail", F.lit(", ".join(required)))
    elif binding.has_changes:
        rejected = with_change_detail(rejected, contract_of(binding))
    else:
        rejected = with_detail(rejected, contract_of(binding))
    return rejected.withColumn("stream", F.lit(binding.stream.name)).select(*_FOUND)


def rejected_rows(
    rows: DataFrame, records: list[DataFrame], writing: Writing, bindings: tuple[StreamBinding, ...]
) -> DeadLetters:
    """The rows of the SELECT whose key or sequence is NULL, as letters.

    The record behind a row is found by the row's position among `records`, the parsed records of each stream; a record
    behind several such rows is one letter. A stateful row has no one record behind it: the row itself is the value.
    """
    missing = _with_reason(rows, writing).where(F.col("reason").isNotNull())
    if POSITION not in rows.columns:
        empty = {name: F.lit(None) for name in ("stream", "topic", "partition", "offset", "timestamp", "key")}
        return [missing.withColumns({**empty, "value": _as_json(rows)}).select(*_FOUND)]
    places = missing.select(F.col(POSITION).alias("place"), "reason", "detail").dropDuplicates(["place"])
    return letters_at(places, records, bindings)


def letters_at(places: DataFrame, records: list[DataFrame], bindings: tuple[StreamBinding, ...]) -> DeadLetters:
    """The records at these places (`place, reason, detail`) among the parsed records of each stream, as letters."""
    return [
        _raw_records(parsed, binding)
        .join(places, F.col(POSITION) == F.col("place"))
        .withColumn("stream", F.lit(binding.stream.name))
        .select(*_FOUND)
        for parsed, binding in zip(records, bindings, strict=True)
    ]


def _raw_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The position and the raw fields of each parsed record; the value of one that arrived as a row is made here."""
    raw = parsed.select(POSITION, f"{RAW}.*", _as_json(parsed).alias("row"))
    return raw.withColumn("value", F.col("row")) if binding.has_rows else raw


def _as_json(rows: DataFrame) -> Column:
    columns = (identifier(name) for name in rows.columns if not is_reserved(name))
    return F.encode(F.to_json(F.struct(*columns)), "UTF-8")


def _with_reason(rows: DataFrame, writing: Writing) -> DataFrame:
    """The rows with the first of their columns that must not be NULL and is."""
    reason, detail = F.lit(None).cast("string"), F.lit(None).cast("string")
    for column in reversed(writing.not_null):
        is_null = F.col(identifier(column)).isNull()
        condition = KEY_MISSING if column in writing.keys else SEQUENCE_MISSING
        reason = F.when(is_null, F.lit(condition)).otherwise(reason)
        detail = F.when(is_null, F.lit(column)).otherwise(detail)
    return rows.withColumns({"reason": reason, "detail": detail})


def _complete(found: DataFrame, model: Model, entry: Entry) -> DataFrame:
    values = {
        "model": F.lit(model.name),
        "batch": F.lit(entry.batch),
        "rejected_at": F.lit(datetime.now(UTC)),
    }
    complete = found.withColumns(values)
    return complete.select(
        *(F.col(column.name).cast(str(column.type)).alias(column.name) for column in DEAD_LETTER_COLUMNS)
    )
