"""Which dead letters a replay reads again, which it has taken, and which are done.

A replay marks dead letters with its id (`replay`), publishes their rows with that id in
the ledger, and then marks the dead letters as done (`replayed_at`). After a crash
between these steps the id is found: in the table's ledger, if the rows are published,
or only on dead letters, if they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.quote import identifier, table_name, text
from lakesql.engine.batch.dead_letter import (
    LETTERS_VIEW,
    RECORD_COLUMNS,
    DeadLetters,
    union_letters,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.spark.internals import replace_view
from lakesql.model.table_name import TableName
from lakesql.names import FILE_UNREADABLE

_TAKE = """\
MERGE INTO {table} AS target
USING {letters} AS source
ON {match}
WHEN MATCHED AND target.replayed_at IS NULL THEN UPDATE SET replay = source.replay"""

_FINISH = """\
UPDATE {table}
SET replayed_at = current_timestamp()
WHERE replay = {replay} AND replayed_at IS NULL"""


def read_letters(
    session: SparkSession,
    table: TableName,
    bindings: Sequence[StreamBinding],
    written: str | None = None,
) -> DataFrame:
    """The dead letters of these streams that are not done, each record once; without
    those of the replay `written`.

    They are read once and kept: lines of a file are identified by their number in this
    frame.
    """
    names = [binding.stream.name for binding in bindings]
    found = _open_letters(session, table).where(F.col("stream").isin(names))
    # such a dead letter is a file, and has no record
    found = found.where(F.col("reason") != FILE_UNREADABLE)
    if written is not None:
        found = found.where(~F.col("replay").eqNullSafe(F.lit(written)))
    has_offset = F.col("offset").isNotNull()  # two lines of a file may be the same
    once = found.where(has_offset).dropDuplicates(list(RECORD_COLUMNS))
    return once.unionByName(found.where(~has_offset)).localCheckpoint()


def _open_letters(session: SparkSession, table: TableName) -> DataFrame:
    """The dead letters that are not done. A table made by an older version of lakesql
    lacks the columns about replays."""
    letters = session.table(table_name(table))
    missing = {
        name: F.lit(None).cast("string")
        for name in ("replay", "replayed_at")
        if name not in letters.columns
    }
    return letters.withColumns(missing).where(F.col("replayed_at").isNull())


def raw_letters(letters: DataFrame, binding: StreamBinding) -> DataFrame:
    """The dead letters of a stream in the shape of raw records. Their headers are not
    kept."""
    headers = (
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers")
    )
    columns = ("key", "value", "topic", "partition", "offset", "timestamp")
    return letters.where(F.col("stream") == binding.stream.name).select(
        *columns, headers
    )


def find_unfinished(session: SparkSession, table: TableName) -> str | None:
    """The id of a replay that has taken dead letters and has not marked them as done;
    None if there is none."""
    found = (
        _open_letters(session, table)
        .where("replay IS NOT NULL")
        .select("replay")
        .limit(1)
        .collect()
    )
    return str(found[0][0]) if found else None


def take_letters(
    session: SparkSession,
    table: TableName,
    letters: DataFrame,
    failing: DeadLetters,
    replay: str,
) -> None:
    """Mark, in one commit, the dead letters as taken by this replay, and those that are
    still `failing` as not taken."""
    taken = letters.select(*RECORD_COLUMNS).distinct()
    if failing:
        still = union_letters(failing).select(
            *(F.col(name).alias(f"still_{name}") for name in RECORD_COLUMNS)
        )
        still = still.distinct().withColumn("fails", F.lit(True))
        is_same: Column = reduce(
            and_,
            (taken[name].eqNullSafe(still[f"still_{name}"]) for name in RECORD_COLUMNS),
        )
        taken = taken.join(still, is_same, "left").select(taken["*"], "fails")
    else:
        taken = taken.withColumn("fails", F.lit(None).cast("boolean"))
    taken = taken.withColumn("replay", F.when(F.col("fails").isNull(), F.lit(replay)))
    # computed once, as a MERGE may read its source twice
    taken = taken.drop("fails").localCheckpoint()
    if all(
        frame.where(F.col("replay").isNotNull()).isEmpty() for frame in (letters, taken)
    ):
        return
    replace_view(taken, LETTERS_VIEW)
    match = " AND ".join(
        f"target.{identifier(name)} <=> source.{identifier(name)}"
        for name in RECORD_COLUMNS
    )
    session.sql(
        _TAKE.format(table=table_name(table), letters=LETTERS_VIEW, match=match)
    )


def finish_letters(session: SparkSession, table: TableName, replay: str) -> int:
    """Mark the dead letters that the replay has taken as done. Returns how many there
    are."""
    taken = count_taken(session, table, replay)
    if taken:
        session.sql(_FINISH.format(table=table_name(table), replay=text(replay)))
    return taken


def count_taken(session: SparkSession, table: TableName, replay: str) -> int:
    """How many dead letters the replay has taken that are not marked as done."""
    return _open_letters(session, table).where(F.col("replay") == replay).count()
