"""In how many tasks a batch is read and written: each task of a commit writes a file of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakesql.model.writing import TASK_RECORDS

FEW_BYTES = 4 * 2**20
"""A file of no more bytes is read in one task: compressed or not, it has few records."""


def gather(arrived: DataFrame, records: int | None) -> tuple[DataFrame, int]:
    """A batch in as many tasks as pay, and how many these are.

    They are one for each `TASK_RECORDS` of it, and no more than there are cores. Spark reads each partition of a topic
    in tasks of its own, of which each would write a file. Tasks are brought together here without a shuffle; of one
    task's rows, Spark knows that those of a key are together. `records` is None where nobody knows how many there are.
    """
    tasks = int(arrived.sparkSession.sparkContext.defaultParallelism)
    if records is not None:
        tasks = max(1, min(tasks, -(-records // TASK_RECORDS)))
    elif _is_small_file(arrived):
        tasks = 1
    return arrived.coalesce(tasks), tasks


def _is_small_file(arrived: DataFrame) -> bool:
    """Whether the batch comes in one task, which reads files of `FEW_BYTES` at most."""
    partitions = arrived._jdf.queryExecution().toRdd().partitions()
    if len(partitions) != 1 or str(partitions[0].getClass().getSimpleName()) != "FilePartition":
        return False
    return sum(int(file.length()) for file in partitions[0].files()) <= FEW_BYTES
