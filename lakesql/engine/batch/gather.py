"""In how many tasks a batch is read and written: each task of a commit writes a file of
its own."""

from __future__ import annotations

from enum import IntEnum

from pyspark.sql import DataFrame

from lakesql.engine.spark.changed_settings import FEW_RECORDS
from lakesql.model.writing import TASK_RECORDS

FEW_BYTES = 2**16
"""A file of no more bytes is taken to have few records."""

SMALL_BYTES = 2**20
"""A file of no more bytes is worth one task: of JSON it has some thousand records,
compressed some ten thousand."""


class BatchSize(IntEnum):
    """What a batch is known to be: `FEW` records, `SMALL` enough for one task, or
    neither."""

    FEW = 0
    SMALL = 1
    LARGE = 2


def gather(
    arrived: DataFrame, records: int | None, has_order: bool
) -> tuple[DataFrame, BatchSize]:
    """A batch in as many tasks as pay, and its size.

    They are one for each `TASK_RECORDS` of it, and no more than there are cores. Spark
    reads each partition of a topic in tasks of its own, of which each would write a
    file. Tasks are brought together here without a shuffle; of one task's rows, Spark
    knows that those of a key are together. `records` is None where nobody knows how
    many there are. Where a batch of files `has_order`, tasks that read parts of one
    file stay apart: those that are brought together may be any.
    """
    size = (
        _size_in_files(arrived)
        if records is None
        else _size_of(records, FEW_RECORDS, TASK_RECORDS)
    )
    if size < BatchSize.LARGE:
        return arrived.coalesce(1), size
    if has_order:
        return arrived, size
    cores = int(arrived.sparkSession.sparkContext.defaultParallelism)
    return arrived.coalesce(
        cores if records is None else min(cores, -(-records // TASK_RECORDS))
    ), size


def _size_of(amount: int, few: int, small: int) -> BatchSize:
    if amount <= few:
        return BatchSize.FEW
    return BatchSize.SMALL if amount <= small else BatchSize.LARGE


def _size_in_files(arrived: DataFrame) -> BatchSize:
    """The size of a batch that comes in one task, which reads files."""
    partitions = arrived._jdf.queryExecution().toRdd().partitions()
    if (
        len(partitions) != 1
        or str(partitions[0].getClass().getSimpleName()) != "FilePartition"
    ):
        return BatchSize.LARGE
    return _size_of(
        sum(int(file.length()) for file in partitions[0].files()),
        FEW_BYTES,
        SMALL_BYTES,
    )
