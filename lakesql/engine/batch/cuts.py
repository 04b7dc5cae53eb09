"""Changes of keys that batches of a mirror have cut, remembered until the other part of their transactions is read."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakesql.compile.batch import RememberMoves
from lakesql.compile.key_range import KeyRange
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.select import Select
from lakesql.compile.statements import memory_spec
from lakesql.engine.batch.memory import Forgetting
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.ledger import snapshots
from lakesql.engine.spark.internals import replace_view
from lakesql.names import MOVED_VIEW


class Moves:
    """What one model's batches remember of changes of keys.

    `is_open`: the next batch may go on with a transaction of which there is something, also where it changes no key.
    """

    def __init__(self) -> None:
        self.is_open: bool | None = None
        self._is_there: bool | None = None
        self._is_made = False
        self._forgetting = Forgetting()

    def recall(self, session: SparkSession, select: Select, has_moves: bool) -> bool:
        """Make the view `_lakesql_moved` of what is remembered, if a batch that `has_moves`, or not, may need it."""
        if self.is_open is None:  # what the batches before this process have left
            self.is_open = self._exists(session, select)
        if not (has_moves or self.is_open):
            return False
        wanted = {column.name: column.type for column in memory_spec(select, "moves").columns}
        if self._exists(session, select):
            rows = session.table(table_name(select.model.table.moves))
            stored = set(rows.columns)
        else:
            rows, stored = session.range(0).toDF("none"), set[str]()
        landed = (
            f"CAST({identifier(it) if it in stored else 'NULL'} AS {wanted[it]}) AS {identifier(it)}" for it in wanted
        )
        replace_view(rows.selectExpr(*landed), MOVED_VIEW)
        return True

    def remember(
        self, session: SparkSession, select: Select, table: TableSync, step: RememberMoves, bounds: tuple[KeyRange, ...]
    ) -> None:
        """Insert those of a batch. Done twice, they are there twice and say the same."""
        if not self._is_made:
            table.make_moves()
            self._is_made = self._is_there = True
        session.sql(step.statement.text(bounds))
        self._forgetting.once_a_day(session, select.model.table.moves, step.forget)

    def _exists(self, session: SparkSession, select: Select) -> bool:
        if self._is_there is None:
            self._is_there = snapshots.table_exists(session, select.model.table.moves)
        return self._is_there
