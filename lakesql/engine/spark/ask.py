"""The failing rows of a data test, as Spark finds them."""

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
    """Run a test's SELECT; the first `shown` failing rows, and how many there are.
    Raises `RunError`."""
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
    """The rows with times as tables of Iceberg have them."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.timestamp("us", "UTC" if field.type.tz else None))
        if pa.types.is_timestamp(field.type)
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
