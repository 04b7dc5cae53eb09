"""What a pass over a batch counts."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakesql.engine.batch.counters import BatchCounters


@pytest.mark.parametrize(
    ("not_null", "keyless"), [((), 0), (("id",), 1), (("id", "name"), 2)]
)
def test_rows_count_whether_or_not_a_column_must_be_there(
    spark: SparkSession, not_null: tuple[str, ...], keyless: int
) -> None:
    counters = BatchCounters()
    frame = spark.createDataFrame(
        [(1, "a"), (2, None), (None, "c")], "id int, name string"
    )
    counters.rows(frame, not_null).collect()
    counts = counters.read()
    assert (counts.keyless, counts.usable) == (keyless, 3 - keyless)
