"""In how many tasks a batch is read and written: each task of a commit writes a file of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakesql.model.writing import TASK_RECORDS

FEW_BYTES = 2**20
"""A file of no more bytes is worth one task: of JSON it has some thousand records, compressed some ten thousand."""


def gather(arrived: DataFrame, records: int | None, has_order: bool) -> tuple[DataFrame, bool]:
    """A batch in as many tasks as pay, and whether it is known to be so small that this is one.

    They are one for each `TASK_RECORDS` of it, and no more than there are cores. Spark reads each partition of a topic
    in tasks of its own, of which each would write a file. Tasks are brought together here without a shuffle; of one
    task's rows, Spark knows that those of a key are together. `records` is None where nobody knows how many there are.
    Where a batch of files `has_order`, tasks that read parts of one file stay apart: those that are brought together
    may be any.
    """
    is_small = _is_small_file(arrived) if records is None else records <= TASK_RECORDS
    if is_small:
        return arrived.coalesce(1), True
    if has_order:
        return arrived, False
    cores = int(arrived.sparkSession.sparkContext.defaultParallelism)
    return arrived.coalesce(cores if records is None else min(cores, -(-records // TASK_RECORDS))), False


def _is_small_file(arrived: DataFrame) -> bool:
    """Whether the batch comes in one task, which reads files of `FEW_BYTES` at most."""
    partitions = arrived._jdf.queryExecution().toRdd().partitions()
    if len(partitions) != 1 or str(partitions[0].getClass().getSimpleName()) != "FilePartition":
        return False
    return sum(int(file.length()) for file in partitions[0].files()) <= FEW_BYTES
