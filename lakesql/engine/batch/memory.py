"""Tables in which batches remember something for those after them: once a day, what is
old is forgotten."""

from __future__ import annotations

from datetime import UTC, date, datetime

from pyspark.sql import SparkSession

from lakesql.engine.ledger import snapshots
from lakesql.model.table_name import TableName


class Forgetting:
    """When the rows of one memory whose time is over were removed last, as far as this
    process knows."""

    def __init__(self) -> None:
        self._done_on: date | None = None

    def once_a_day(self, session: SparkSession, table: TableName, forget: str) -> None:
        """Remove them by this statement, if that was not done today; after its first
        commit nothing is old."""
        today = datetime.now(UTC).date()
        if today == self._done_on:
            return
        newest = next(
            snapshots.read_history(snapshots.load_table(session, table)), None
        )
        if newest is not None and newest.parent is not None:
            session.sql(forget)
            self._done_on = today
