"""Which records of a batch are dead letters: those that could not be used, each with
everything that is needed to find it and read it again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakesql.compile.checks import Check, is_dead, names_of
from lakesql.compile.quote import identifier, text
from lakesql.engine.records.change_values import SENT_BY
from lakesql.engine.records.changes import with_change_detail
from lakesql.engine.records.parse import with_detail
from lakesql.engine.records.routed import route_detail
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.sources.folder_columns import with_folders
from lakesql.model.writing import Writing
from lakesql.names import (
    FAILED,
    KEY_MISSING,
    NOT_AS_EXPECTED,
    POSITION,
    RAW,
    REJECTED,
    SEQUENCE_MISSING,
    UNPARSABLE,
    UNSENT,
    is_reserved,
)

DeadLetters = list[DataFrame]
"""Frames of `stream, topic, partition, offset, timestamp, key, value, reason,
detail`."""

RECORD_COLUMNS = ("stream", "topic", "partition", "offset", "timestamp", "key", "value")
"""The columns that identify a record. A topic that was created again has the offsets of
the old one, and other records; a file's records have no offset, but the time of the
file."""

_FOUND = (*RECORD_COLUMNS, "reason", "detail")

LETTERS_VIEW = "_lakesql_letters"
"""The view of the dead letters that a statement writes, or looks for."""


def union_letters(letters: DeadLetters) -> DataFrame:
    """Dead letters of several origins as one frame."""
    return reduce(DataFrame.unionByName, (frame.select(*_FOUND) for frame in letters))


def rejected_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The dead letters for the rejected ones of a stream's parsed records."""
    rejected = parsed.where(F.col(REJECTED).isNotNull()).select(f"{REJECTED}.*")
    if binding.has_rows:
        finer = F.when(
            F.col("reason") == UNPARSABLE,
            F.lit("a timestamp has digits below a microsecond"),
        )
        rejected = rejected.withColumn(
            "detail", F.coalesce(finer, F.lit(", ".join(binding.never_null)))
        )
    elif binding.has_changes:
        rejected = with_change_detail(rejected, contract_of(binding))
    else:
        rejected = with_detail(with_folders(rejected, binding), contract_of(binding))
    if (route := binding.stream.route) is not None:
        rejected = rejected.withColumn(
            "detail", F.coalesce("detail", F.lit(route_detail(route)))
        )
    return rejected.withColumn("stream", F.lit(binding.stream.name)).select(*_FOUND)


def rejected_rows(
    rows: DataFrame,
    records: list[DataFrame],
    writing: Writing,
    bindings: tuple[StreamBinding, ...],
    failed: DataFrame | None = None,
) -> DeadLetters:
    """The dead letters for the rows of the SELECT whose key or sequence is NULL, and
    for those at the places `failed`.

    The record of a row is found by the row's position among `records`, the parsed
    records of each stream; a record with several such rows is one dead letter. A
    stateful row has no single record: the row itself is the value.
    """
    if failed is not None and not writing.not_null:
        return letters_at(failed.dropDuplicates(["place"]), records, bindings)
    missing = _with_reason(rows, writing).where(F.col("reason").isNotNull())
    if POSITION not in rows.columns:
        empty = {
            name: F.lit(None)
            for name in ("stream", "topic", "partition", "offset", "timestamp", "key")
        }
        return [missing.withColumns({**empty, "value": _as_json(rows)}).select(*_FOUND)]
    places = missing.select(F.col(POSITION).alias("place"), "reason", "detail")
    places = places if failed is None else places.unionByName(failed)
    return letters_at(places.dropDuplicates(["place"]), records, bindings)


def failed_places(checked: DataFrame, checks: Sequence[Check]) -> DataFrame:
    """Where the records are whose rows fail an expectation that makes dead letters, and
    which expectations: `place, reason, detail`."""
    names = ", ".join(map(text, names_of(checks, "dead_letter")))
    detail = F.expr(f"array_join(array_intersect({FAILED}, array({names})), ', ')")
    found = checked.where(is_dead(checks))
    return found.select(
        F.col(POSITION).alias("place"),
        F.lit(NOT_AS_EXPECTED).alias("reason"),
        detail.alias("detail"),
    )


def unknown_rows(
    rows: DataFrame, records: list[DataFrame], bindings: tuple[StreamBinding, ...]
) -> DeadLetters:
    """The dead letters for changes whose rows lack values that neither the batch nor
    the table has; empty if there are none."""
    if rows.isEmpty():
        return []
    names = F.concat_ws(", ", F.filter(UNSENT, lambda name: name != ""))
    detail = F.concat(
        names,
        F.lit(": not in the event, and the table has no row of this key. "),
        F.lit(SENT_BY),
    )
    places = rows.select(
        F.col(POSITION).alias("place"),
        F.lit(UNPARSABLE).alias("reason"),
        detail.alias("detail"),
    )
    return letters_at(places, records, bindings)


def letters_at(
    places: DataFrame, records: list[DataFrame], bindings: tuple[StreamBinding, ...]
) -> DeadLetters:
    """The dead letters for the records at these places (`place, reason, detail`) among
    the parsed records of each stream."""
    return [
        _raw_records(parsed, binding)
        .join(places, F.col(POSITION) == F.col("place"))
        .withColumn("stream", F.lit(binding.stream.name))
        .select(*_FOUND)
        for parsed, binding in zip(records, bindings, strict=True)
    ]


def _raw_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The position and the raw fields of each parsed record; a record that arrived as a
    row gets the row as JSON for its value."""
    raw = parsed.select(POSITION, f"{RAW}.*", _as_json(parsed).alias("row"))
    return raw.withColumn("value", F.col("row")) if binding.has_rows else raw


def _as_json(rows: DataFrame) -> Column:
    columns = (identifier(name) for name in rows.columns if not is_reserved(name))
    return F.encode(F.to_json(F.struct(*columns)), "UTF-8")


def _with_reason(rows: DataFrame, writing: Writing) -> DataFrame:
    """The rows with, as reason and detail, their first column that is NULL and must not
    be; NULL for rows without such a column."""
    reason, detail = F.lit(None).cast("string"), F.lit(None).cast("string")
    for column in reversed(writing.not_null):
        is_null = F.col(identifier(column)).isNull()
        condition = SEQUENCE_MISSING if column in writing.sequence_by else KEY_MISSING
        reason = F.when(is_null, F.lit(condition)).otherwise(reason)
        detail = F.when(is_null, F.lit(column)).otherwise(detail)
    return rows.withColumns({"reason": reason, "detail": detail})
