"""What a model's batches remember for later ones: deleted keys, so that an older row
does not bring one back; and key changes of a mirror's transactions that end in a later
batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.batch import KeyRange, MakeView, Remember, RememberMoves
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.select import Select
from lakesql.compile.statements import memory_spec
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.ledger import snapshots
from lakesql.engine.records.key_changes import with_moves
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.spark.internals import replace_view
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.modes.batches.moves import KeyChanges
from lakesql.names import CHANGES_VIEW, CUT_VIEW, MOVED_VIEW, PAIR, RAW, Memory


class Tombstones:
    """Writes the tombstones of one model's batches, and once a day removes the expired
    ones."""

    def __init__(self) -> None:
        self._forgetting = Forgetting()

    def remember(self, session: SparkSession, select: Select, step: Remember) -> int:
        """Insert the tombstones of a batch, and return how many they are. Inserting
        them twice is harmless."""
        session.sql(step.text)
        table = snapshots.load_table(session, select.model.table.tombstones)
        inserted = next(snapshots.read_history(table), None)
        self._forgetting.once_a_day(session, select, "tombstones", step.forget)
        return inserted.added if inserted else 0


class Forgetting:
    """Remembers on which day expired rows of one memory were last removed by this
    process."""

    def __init__(self) -> None:
        self._done_on: date | None = None

    def once_a_day(
        self, session: SparkSession, select: Select, kind: Memory, forget: str
    ) -> None:
        """Run the statement that removes expired rows, if this was not done today. A
        table with a single commit has none."""
        today = datetime.now(UTC).date()
        if today == self._done_on:
            return
        table = snapshots.load_table(session, select.model.table.memory(kind))
        newest = next(snapshots.read_history(table), None)
        if newest is not None and newest.parent is not None:
            session.sql(forget)
            self._done_on = today


@dataclass(frozen=True, slots=True)
class KeysOfBatch:
    """How key changes affect a batch: `moves` is None if they do not. `is_cut`: it may
    have only part of a transaction, and the view `_lakesql_cut` has what later batches
    need."""

    moves: KeyChanges | None = None
    is_cut: bool = False

    @property
    def are_told_apart(self) -> bool:
        """Whether the view of the changes was replaced by one without rows that had a
        key only within a transaction."""
        return self.moves is not None

    def move_values(self, session: SparkSession, newest: DataFrame) -> DataFrame:
        """The newest changes, with the values that must be read under former keys
        filled in; their view is replaced."""
        moved_on = self.moves.moved_on() if self.moves else None
        if moved_on is None:
            return newest
        while not newest.where(F.col(PAIR).isNotNull()).isEmpty():
            newest = make_stand_in(session, moved_on)
        return newest


def make_stand_in(session: SparkSession, view: MakeView) -> DataFrame:
    """The rows of a view, computed once; later statements read them instead of the view
    that it stands for."""
    rows = session.sql(view.query).localCheckpoint()
    replace_view(rows, view.name)
    replace_view(rows, view.stands_for)
    return rows


class Moves:
    """What one model's batches remember of key changes.

    `is_open`: the next batch may continue a transaction of which something is
    remembered, even if it changes no key itself.
    """

    def __init__(self) -> None:
        self.is_open: bool | None = None
        self._is_there: bool | None = None
        self._is_made = False
        self._forgetting = Forgetting()

    def begin(
        self,
        session: SparkSession,
        views: FeedViews,
        binding: StreamBinding,
        changes: DataFrame,
        has_moves: bool,
    ) -> KeysOfBatch:
        """Replace the view of the batch's `changes` by one without those of rows that
        got a key and lost it again within one transaction.

        It stays as it is if the batch has no key change (`has_moves`) and continues no
        transaction that has one.
        """
        moves = views.key_changes
        if moves is None or not self._recall(session, views.select, has_moves):
            return KeysOfBatch()
        moved = with_moves(changes, contract_of(binding)).drop(RAW)
        replace_view(moved.localCheckpoint(), CHANGES_VIEW)
        cut = session.sql(moves.cut().query).localCheckpoint()
        replace_view(cut, CUT_VIEW)
        self.is_open = is_cut = not cut.isEmpty()
        make_stand_in(session, moves.told_apart())
        return KeysOfBatch(moves, is_cut)

    def _recall(self, session: SparkSession, select: Select, has_moves: bool) -> bool:
        """Make the view `_lakesql_moved` of what is remembered. Returns whether this
        batch, which may have key changes (`has_moves`), needs it."""
        if self.is_open is None:  # what the batches before this process have left
            self.is_open = self._exists(session, select)
        if not (has_moves or self.is_open):
            return False
        wanted = {
            column.name: column.type for column in memory_spec(select, "moves").columns
        }
        if self._exists(session, select):
            rows = session.table(table_name(select.model.table.moves))
            stored = set(rows.columns)
        else:
            rows, stored = session.range(0).toDF("none"), set[str]()
        landed = (
            f"CAST({identifier(it) if it in stored else 'NULL'} AS {wanted[it]}) AS {identifier(it)}"
            for it in wanted
        )
        replace_view(rows.selectExpr(*landed), MOVED_VIEW)
        return True

    def remember(
        self,
        session: SparkSession,
        select: Select,
        table: TableSync,
        step: RememberMoves,
        bounds: tuple[KeyRange, ...],
    ) -> None:
        """Insert the key changes of a batch. Inserting them twice is harmless."""
        if not self._is_made:
            table.make_moves()
            self._is_made = self._is_there = True
        session.sql(step.statement.text(bounds))
        self._forgetting.once_a_day(session, select, "moves", step.forget)

    def _exists(self, session: SparkSession, select: Select) -> bool:
        if self._is_there is None:
            self._is_there = snapshots.table_exists(session, select.model.table.moves)
        return self._is_there
