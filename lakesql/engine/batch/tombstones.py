"""The deleted keys of a model's table, remembered so that an older row of one does not
bring it back."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakesql.compile.batch import Remember
from lakesql.engine.batch.memory import Forgetting
from lakesql.engine.ledger import snapshots
from lakesql.model.table_name import TableName


class Tombstones:
    """Writes the tombstones of one model's batches, and once a day removes those whose
    time is over."""

    def __init__(self) -> None:
        self._forgetting = Forgetting()

    def remember(self, session: SparkSession, table: TableName, step: Remember) -> int:
        """Insert those of a batch, and say how many they are. Done twice, they are
        there twice and say the same."""
        session.sql(step.text)
        inserted = next(
            snapshots.read_history(snapshots.load_table(session, table.tombstones)),
            None,
        )
        self._forgetting.once_a_day(session, table.tombstones, step.forget)
        return inserted.added if inserted else 0
