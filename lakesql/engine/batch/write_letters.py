"""How dead letters are written to a model's dead-letter table: each record once,
however often its batch is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.quote import identifier, table_name
from lakesql.compile.table import DEAD_LETTER_COLUMNS, create_table, dead_letter_spec
from lakesql.engine.batch.counters import count_of
from lakesql.engine.batch.dead_letter import (
    LETTERS_VIEW,
    RECORD_COLUMNS,
    DeadLetters,
    union_letters,
)
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
from lakesql.engine.spark.internals import replace_view
from lakesql.ledger.entry import Entry
from lakesql.model.model import Model
from lakesql.names import (
    REASONS,
)


@dataclass(frozen=True, slots=True)
class Rejection:
    """How many dead letters were written, how many for each reason, and where the
    table's files are."""

    count: int
    reasons: tuple[tuple[str, int], ...]
    location: str


def write_dead_letters(
    session: SparkSession, model: Model, letters: DeadLetters, entry: Entry
) -> Rejection | None:
    """Append `letters`, of which there are some, to the model's dead-letter table, with
    the batch's entry. Returns what was written, None if all were there already.

    Each record has one dead letter, however often it is read: those in the table are
    left out, whichever batch or checkpoint has written them. So they can be written
    before the batch itself becomes visible: after a crash between the two, the batch is
    replayed, and they are found here. They are staged and published like the batch
    itself.
    """
    make_letter_table(session, model)
    found = _complete(union_letters(letters), model, entry).persist()
    try:
        # Another runner, or a stateful model's other query, may write them meanwhile,
        # so each attempt looks for them.
        return until_published(
            lambda: _append(session, model, found, entry), model.table.dead_letter
        )
    finally:
        found.unpersist()


def make_letter_table(session: SparkSession, model: Model) -> None:
    """Create the model's dead-letter table, or add the columns that a table of an older
    version of lakesql lacks."""
    table = model.table.dead_letter
    if not table_exists(session, table):
        # A stateful model's two queries may do this at the same time.
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
    """Write the dead letters that the table does not have. Raises `HeadMovedError` if
    the table has changed meanwhile."""
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
    """The newest entry of the same checkpoint; None if there is none. Raises if it is
    of the same batch but of other positions."""
    newest = read_entry(table, entry.model, entry.checkpoint)
    if newest is not None and newest.batch == entry.batch:
        check_same(newest, entry, model.name)
    return newest


def _without_written(
    letters: DataFrame, written: DataFrame, batch: int | None
) -> DataFrame:
    """The dead letters whose records have none among the `written` ones.

    What has neither an offset nor a time cannot be distinguished from other records: a
    row of a stateful SELECT or of a table, or an unreadable line of a recording. It is
    compared only with dead letters of the same `batch`, when that is tried again.
    """
    at_us, offset = F.unix_micros("timestamp"), F.col("offset")
    first, last, first_us, last_us = letters.agg(
        F.min(offset), F.max(offset), F.min(at_us), F.max(at_us)
    ).collect()[0]
    # As literals, with which Iceberg skips the files that cannot have them.
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
