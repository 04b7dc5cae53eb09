"""What batches of a model remember for those after them: deleted keys, so that an older
row of one does not bring it back; and changes of keys that a batch of a mirror has cut,
until the other part of their transactions is read."""

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
    """Writes the tombstones of one model's batches, and once a day removes those whose
    time is over."""

    def __init__(self) -> None:
        self._forgetting = Forgetting()

    def remember(self, session: SparkSession, select: Select, step: Remember) -> int:
        """Insert those of a batch, and say how many they are. Done twice, they are
        there twice and say the same."""
        session.sql(step.text)
        table = snapshots.load_table(session, select.model.table.tombstones)
        inserted = next(snapshots.read_history(table), None)
        self._forgetting.once_a_day(session, select, "tombstones", step.forget)
        return inserted.added if inserted else 0


class Forgetting:
    """When the rows of one memory whose time is over were removed last, as far as this
    process knows."""

    def __init__(self) -> None:
        self._done_on: date | None = None

    def once_a_day(
        self, session: SparkSession, select: Select, kind: Memory, forget: str
    ) -> None:
        """Remove them by this statement, if that was not done today; after its first
        commit nothing is old."""
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
    """What changes of keys are to a batch: nothing, or what tells its rows apart.
    `is_cut`: it may have a part of a transaction only, and the view `_lakesql_cut` has
    what later batches need."""

    moves: KeyChanges | None = None
    is_cut: bool = False

    @property
    def are_told_apart(self) -> bool:
        """Whether the view of the changes was made anew."""
        return self.moves is not None

    def move_values(self, session: SparkSession, newest: DataFrame) -> DataFrame:
        """The newest changes, whose view is made anew, with the values that stand under
        former keys."""
        moved_on = self.moves.moved_on() if self.moves else None
        if moved_on is None:
            return newest
        while not newest.where(F.col(PAIR).isNotNull()).isEmpty():
            newest = make_stand_in(session, moved_on)
        return newest


def make_stand_in(session: SparkSession, view: MakeView) -> DataFrame:
    """Make the rows of a view, once, which are read in the place of those of another
    one from now on."""
    rows = session.sql(view.query).localCheckpoint()
    replace_view(rows, view.name)
    replace_view(rows, view.stands_for)
    return rows


class Moves:
    """What one model's batches remember of changes of keys.

    `is_open`: the next batch may go on with a transaction of which there is something,
    also where it changes no key.
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
        """Make the view of the `changes` of a batch without those of rows that have
        lost a key again.

        It stays as it is where the batch changes no key (`has_moves`) and goes on with
        no transaction that does.
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
        """Make the view `_lakesql_moved` of what is remembered, if a batch that
        `has_moves`, or not, may need it."""
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
        """Insert those of a batch. Done twice, they are there twice and say the
        same."""
        if not self._is_made:
            table.make_moves()
            self._is_made = self._is_there = True
        session.sql(step.statement.text(bounds))
        self._forgetting.once_a_day(session, select, "moves", step.forget)

    def _exists(self, session: SparkSession, select: Select) -> bool:
        if self._is_there is None:
            self._is_there = snapshots.table_exists(session, select.model.table.moves)
        return self._is_there
