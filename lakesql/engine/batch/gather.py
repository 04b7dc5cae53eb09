"""In how many tasks a batch is read and written: each task of a commit writes a file of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakesql.model.writing import TASK_RECORDS


def gather(arrived: DataFrame, records: int | None) -> DataFrame:
    """A batch in as many tasks as pay: one for each `TASK_RECORDS` of it, and no more than there are cores.

    Spark reads each partition of a topic in tasks of its own, of which each would write a file. Tasks are brought
    together here without a shuffle. `records` is None where nobody knows how many there are.
    """
    cores = arrived.sparkSession.sparkContext.defaultParallelism
    return arrived.coalesce(cores if records is None else max(1, min(cores, -(-records // TASK_RECORDS))))
