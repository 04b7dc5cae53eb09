"""Dead letters: records that could not be used, each with everything that is needed to
find it and read it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.checks import Check, is_dead, names_of
from lakesql.compile.quote import identifier, table_name, text
from lakesql.compile.table import DEAD_LETTER_COLUMNS, create_table, dead_letter_spec
from lakesql.engine.batch.counters import count_of
from lakesql.engine.ledger.commit import (
    Publication,
    begin_commit,
    discard,
    publish,
    stage,
    until_published,
)
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    former_models,
    head_of,
    load_table,
    read_entry,
    table_exists,
)
from lakesql.engine.progress.progress import check_same
from lakesql.engine.records.change_values import SENT_BY
from lakesql.engine.records.changes import with_change_detail
from lakesql.engine.records.parse import with_detail
from lakesql.engine.records.routed import route_detail
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.sources.folder_columns import with_folders
from lakesql.engine.spark.internals import replace_view
from lakesql.ledger.entry import Entry
from lakesql.model.model import Model
from lakesql.model.writing import Writing
from lakesql.names import (
    FAILED,
    KEY_MISSING,
    NOT_AS_EXPECTED,
    POSITION,
    RAW,
    REASONS,
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
"""What tells a record from another. A topic that was made anew has the offsets of the
old one, and other records; a file's records have no offset, but the time of the
file."""

_FOUND = (*RECORD_COLUMNS, "reason", "detail")

LETTERS_VIEW = "_lakesql_letters"
"""The view of the letters that a statement writes, or looks for."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """How many dead letters were written, how many for each reason, and where the files
    of their table are."""

    count: int
    reasons: tuple[tuple[str, int], ...]
    location: str


def write_dead_letters(
    session: SparkSession, model: Model, letters: DeadLetters, entry: Entry
) -> Rejection | None:
    """Append `letters`, of which there are some, to the model's table of dead letters,
    with the batch's entry.

    A record is one letter, however often it is read: those that are here already are
    left out, whichever batch or checkpoint has written them; None if all are. So it is
    safe to write them before the batch itself becomes visible: a crash between the two
    replays the batch, and finds them here. They are staged and published as the batch
    itself is.
    """
    make_letter_table(session, model)
    found = _complete(union_letters(letters), model, entry).persist()
    try:
        # Another runner, or a stateful model's other query, may bring them meanwhile:
        # so they are looked for each time.
        return until_published(
            lambda: _append(session, model, found, entry), model.table.dead_letter
        )
    finally:
        found.unpersist()


def make_letter_table(session: SparkSession, model: Model) -> None:
    """Make the model's table of dead letters, or add the columns that an older version
    of lakesql has not made."""
    table = model.table.dead_letter
    if not table_exists(session, table):
        # A stateful model's two queries may come here at once.
        for statement in create_table(dead_letter_spec(model.table), "IF NOT EXISTS"):
            session.sql(statement)
        return
    stored = set(session.table(table_name(table)).columns)
    for column in DEAD_LETTER_COLUMNS:
        if column.name not in stored:
            session.sql(
                f"ALTER TABLE {table_name(table)} ADD COLUMN {identifier(column.name)} {column.type}"
            )


def _append(
    session: SparkSession, model: Model, found: DataFrame, entry: Entry
) -> Rejection | None:
    """Write those of the letters that are not there. Raises `HeadMovedError` where that
    has changed meanwhile."""
    table = model.table.dead_letter
    there = load_table(session, table)
    begun = begin_commit(there)
    newest = _newest_entry(there, entry, model)
    if newest is not None and newest.batch > entry.batch:
        return None
    if head_of(there) is not None:
        is_retry = newest is not None and newest.batch == entry.batch
        names = (model.name, *former_models(there))
        written = session.table(table_name(table)).where(F.col("model").isin(*names))
        found = _without_written(found, written, entry.batch if is_retry else None)

    observation = Observation()
    by_reason = {
        reason: count_of(F.col("reason") == reason).alias(reason) for reason in REASONS
    }
    replace_view(found.observe(observation, *by_reason.values()), LETTERS_VIEW)
    statement = f"INSERT INTO {table_name(table)} BY NAME\nSELECT * FROM {LETTERS_VIEW}"
    staged = stage(session, begun, statement)
    if not staged.snapshot.added:
        discard(staged)
        return None
    publish(Publication(staged, entry, table))
    counts = {reason: int(observation.get[reason]) for reason in REASONS}
    reasons = tuple((reason, n) for reason, n in sorted(counts.items()) if n)
    return Rejection(sum(counts.values()), reasons, str(there.location()))


def _newest_entry(table: JavaTable, entry: Entry, model: Model) -> Entry | None:
    """The newest entry of the same checkpoint, which is to be the same where it is of
    the same batch."""
    newest = read_entry(table, entry.model, entry.checkpoint)
    if newest is not None and newest.batch == entry.batch:
        check_same(newest, entry, model.name)
    return newest


def _without_written(
    letters: DataFrame, written: DataFrame, batch: int | None
) -> DataFrame:
    """The letters of records that have none among those that were written.

    What has neither an offset nor a time is no record that can be told from another
    one: a row of a stateful SELECT, of a table, or a line of a recording that is no
    record. It is looked for where the batch itself is tried again, `batch`.
    """
    at_us, offset = F.unix_micros("timestamp"), F.col("offset")
    first, last, first_us, last_us = letters.agg(
        F.min(offset), F.max(offset), F.min(at_us), F.max(at_us)
    ).collect()[0]
    # As literals, by which Iceberg leaves out the files that cannot have them.
    from_us, to_us = (F.timestamp_micros(F.lit(us)) for us in (first_us, last_us))
    near = written.where(offset.isNull() | offset.between(F.lit(first), F.lit(last)))
    near = near.where(
        F.col("timestamp").isNull() | F.col("timestamp").between(from_us, to_us)
    )
    is_placed = offset.isNotNull() | F.col("timestamp").isNotNull()
    near = near.where(
        is_placed if batch is None else is_placed | (F.col("batch") == batch)
    )
    near = near.select(
        *(F.col(name).alias(f"written_{name}") for name in RECORD_COLUMNS)
    )
    is_same = (
        letters[name].eqNullSafe(near[f"written_{name}"]) for name in RECORD_COLUMNS
    )
    return letters.join(near, reduce(and_, is_same), "left_anti")


def union_letters(letters: DeadLetters) -> DataFrame:
    """DeadLetters of several origins as one frame."""
    return reduce(DataFrame.unionByName, (frame.select(*_FOUND) for frame in letters))


def rejected_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The rejected ones of a stream's parsed records, as letters."""
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
    """The rows of the SELECT whose key or sequence is NULL, as letters, and those at
    the places `failed`.

    The record behind a row is found by the row's position among `records`, the parsed
    records of each stream; a record behind several such rows is one letter. A stateful
    row has no one record behind it: the row itself is the value.
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
    which: `place, reason, detail`."""
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
    """The changes whose rows lack values that neither the batch nor the table has, as
    letters, if there are any."""
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
    """The records at these places (`place, reason, detail`) among the parsed records of
    each stream, as letters."""
    return [
        _raw_records(parsed, binding)
        .join(places, F.col(POSITION) == F.col("place"))
        .withColumn("stream", F.lit(binding.stream.name))
        .select(*_FOUND)
        for parsed, binding in zip(records, bindings, strict=True)
    ]


def _raw_records(parsed: DataFrame, binding: StreamBinding) -> DataFrame:
    """The position and the raw fields of each parsed record; the value of one that
    arrived as a row is made here."""
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
        condition = SEQUENCE_MISSING if column in writing.sequence_by else KEY_MISSING
        reason = F.when(is_null, F.lit(condition)).otherwise(reason)
        detail = F.when(is_null, F.lit(column)).otherwise(detail)
    return rows.withColumns({"reason": reason, "detail": detail})


def _complete(found: DataFrame, model: Model, entry: Entry) -> DataFrame:
    values = {
        "model": F.lit(model.name),
        "batch": F.lit(entry.batch),
        "rejected_at": F.lit(datetime.now(UTC)),
        "replay": F.lit(None),
        "replayed_at": F.lit(None),
    }
    complete = found.withColumns(values)
    return complete.select(
        *(
            F.col(column.name).cast(str(column.type)).alias(column.name)
            for column in DEAD_LETTER_COLUMNS
        )
    )
