"""Which rows fail a data test, as Spark finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakesql.engine.spark.failure import read_cause
from lakesql.errors import RunError
from lakesql.model.data_tests import DataTest
from lakesql.plan.data_test_results import Answer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def ask_spark(session: SparkSession, test: DataTest, text: str, shown: int) -> Answer:
    """Run a test's SELECT, and return the first `shown` failing rows and the number of
    all. Raises `RunError` (`test-unanswered`) if Spark cannot run it."""
    try:
        rows = session.sql(text)
        columns = tuple(rows.columns)
        first = [tuple(row) for row in rows.limit(shown + 1).collect()]
        failures = len(first) if len(first) <= shown else rows.count()
        everything = _all_rows(rows.toArrow()) if test.options.store_failures else None
        return Answer(columns, first[:shown], failures, everything)
    except (Py4JError, PySparkException) as error:
        name, said = read_cause(error)
        what = f"Spark does not run the SELECT of the data test '{test.name}': {said}"
        raise RunError.of(
            "test-unanswered", what, why=name, place=test.place
        ) from error


def _all_rows(rows: pa.Table) -> pa.Table:
    """The rows with timestamps in the precision and time zone that Iceberg tables
    have."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.timestamp("us", "UTC" if field.type.tz else None))
        if pa.types.is_timestamp(field.type)
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
