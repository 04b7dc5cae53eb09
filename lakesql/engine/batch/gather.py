"""In how many tasks a batch is read and written: each task of a commit writes a file of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakesql.model.writing import TASK_RECORDS


def gather(arrived: DataFrame, records: int | None) -> tuple[DataFrame, int]:
    """A batch in as many tasks as pay, and how many these are.

    They are one for each `TASK_RECORDS` of it, and no more than there are cores, or than it comes in.

    Spark reads each partition of a topic in tasks of its own, of which each would write a file. Tasks are brought
    together here without a shuffle; of one task's rows, Spark knows that those of a key are together. `records` is None
    where nobody knows how many there are.
    """
    tasks = int(arrived.sparkSession.sparkContext.defaultParallelism)
    if records is not None:
        tasks = min(tasks, -(-records // TASK_RECORDS))
    elif tasks > 1:
        tasks = min(tasks, int(arrived._jdf.queryExecution().toRdd().getNumPartitions()))
    tasks = max(1, tasks)
    return arrived.coalesce(tasks), tasks
