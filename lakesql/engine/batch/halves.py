"""Key changes at the edges of a batch: transactions of which it has the end, and halves that it has alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.select import Select
from lakesql.engine.ledger.entry import Entry
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import good_records, parse_binding, unpack
from lakesql.engine.sources.raw import read_range, read_raw
from lakesql.names import CHANGE, HALF, MOVE, POSITION
from lakesql.project.profiles import Kafka

FIRST_LOOK = 10_000
"""How many records before a batch are looked at first, for those of the transaction that it continues."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition of a topic in which a batch begins, at offset `start`, within a transaction that changes keys.

    `pair` is the key change of which the batch begins with the second half, if it does.
    """

    topic: str
    partition: int
    start: int
    tx: str | None
    pair: str | None


def complete_moves(
    session: SparkSession, select: Select, binding: StreamBinding, records: DataFrame, entry: Entry
) -> DataFrame:
    """The changes among the parsed `records` of a batch that has halves of key changes.

    Where it begins within a transaction, what that has said before is there too, read from the topic again. A delete
    that the batch ends with, and whose insert is still to come in a topic of one partition, is left to the batch that
    has it: until then the row is there under its old key.
    """
    changes = good_records(records).localCheckpoint()
    seen = _halves(records).localCheckpoint()
    single = _single_topics(session, binding, entry)
    if single:
        inserted = seen.where(F.col("op") == "c").select("pair").distinct()
        is_held = (F.col(f"{CHANGE}.op") == "d") & F.col(f"{POSITION}.source").isin(single)
        held = changes.where(is_held & F.col(HALF).isNotNull())
        held = held.select(F.col(HALF).alias("pair")).join(inserted, "pair", "left_anti").distinct()
        changes = changes.join(held, F.col(HALF) == held["pair"], "left_anti")
    for cut in find_cuts(seen):
        if cut.start > 0:
            changes = changes.unionByName(_earlier(session, select, binding, cut, single))
    return changes


def _single_topics(session: SparkSession, binding: StreamBinding, entry: Entry) -> list[str]:
    """The topics that have one partition: by the position that the batch ends at, or by all that is recorded."""
    if isinstance(binding.source, Kafka):
        ends = json.loads(entry.offsets)[binding.stream.name]
        return [topic for topic, partitions in ends.items() if len(partitions) == 1]
    raw = read_raw(session, binding, streaming=False).groupBy("topic")
    found = raw.agg(F.count_distinct("partition").alias("partitions")).where("partitions = 1").collect()
    return [str(row["topic"]) for row in found]


def find_cuts(seen: DataFrame) -> list[Cut]:
    """The partitions in which these records begin within a transaction that changes keys, which may be its start."""
    place = ["topic", "partition"]
    first = seen.groupBy(*place).agg(
        F.min("offset").alias("start"), F.min_by(F.struct("tx", "pair"), "offset").alias("first")
    )
    is_same = (F.col("tx") == F.col("first.tx")) | (F.col("pair") == F.col("first.pair"))
    found = seen.where(F.col("pair").isNotNull()).join(first, place).where(is_same)
    rows = found.select(*place, "start", "first.tx", "first.pair").distinct().collect()
    return [Cut(*row) for row in rows]


def _halves(records: DataFrame) -> DataFrame:
    """Where each record stands, of which transaction it is, and of which key change it is a half."""
    at, change = F.col(POSITION), F.col(CHANGE)
    found = records.select(
        at["source"].alias("topic"),
        at["partition"].alias("partition"),
        at["offset"].alias("offset"),
        change["tx"].alias("tx"),
        change["op"].alias("op"),
        F.col(HALF).alias("pair"),
    )
    return found.where(F.col("tx").isNotNull() | F.col("pair").isNotNull())


def _earlier(
    session: SparkSession, select: Select, binding: StreamBinding, cut: Cut, single: Sequence[str]
) -> DataFrame:
    """What the transaction has said before the batch.

    In a topic of several partitions an earlier delete has been written, whichever batch has its insert: it is no half
    that another one is still to be found by.
    """
    is_same = _is_of(cut, F.col(f"{CHANGE}.tx"), F.col(HALF))
    before = good_records(_read_before(session, select, binding, cut)).where(is_same)
    moved = F.col(MOVE).withField("is_earlier", F.lit(True))
    if cut.topic not in single:
        before = before.withColumn(HALF, F.lit(None).cast("string"))
    return before.withColumn(MOVE, moved)


def _read_before(session: SparkSession, select: Select, binding: StreamBinding, cut: Cut) -> DataFrame:
    """The parsed records before the batch, as far back as the transaction may begin."""
    count = FIRST_LOOK
    while True:
        first = max(0, cut.start - count)
        raw = read_range(session, binding, cut.topic, cut.partition, first, cut.start)
        (parsed,) = unpack(parse_binding(raw, binding, select), select, (binding,))
        oldest = _halves(parsed).orderBy("offset").limit(1)
        if first == 0 or oldest.where(_is_of(cut, F.col("tx"), F.col("pair"))).isEmpty():
            return parsed
        count *= 10


def _is_of(cut: Cut, tx: Column, pair: Column) -> Column:
    return F.coalesce((tx == F.lit(cut.tx)) | (pair == F.lit(cut.pair)), F.lit(False))
