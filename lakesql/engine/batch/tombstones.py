"""The deleted keys of a model's table, remembered so that an older row of one does not bring it back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import SparkSession

from lakesql.compile.batch import forget_statement
from lakesql.compile.quote import Instant
from lakesql.model.table_name import TableName
from lakesql.project.duration import Duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tombstones:
    """Writes the tombstones of one model, and once a day removes those of days that are past their time."""

    def __init__(self, table: TableName, retention: Duration) -> None:
        self._table = table
        self._retention = timedelta(milliseconds=retention.length_ms)
        self._forgot_on: date | None = None

    def remember(self, session: SparkSession, statement: str) -> None:
        """Run the statement that inserts those of a batch. Done twice, they are there twice and say the same."""
        session.sql(statement)
        now = datetime.now(UTC)
        if now.date() != self._forgot_on:
            self._forgot_on = now.date()
            day = (now - self._retention).replace(hour=0, minute=0, second=0, microsecond=0)
            session.sql(forget_statement(self._table, Instant((day - _EPOCH) // timedelta(microseconds=1))))
