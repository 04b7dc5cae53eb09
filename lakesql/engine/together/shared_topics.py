"""Topics that several models of a group read: each stretch of them is read once, and its records told apart by table.

A model has its own batches, ledger and checkpoint all the same: it takes of a stretch what may be of its table, and
where that is nothing its batch is over without a statement. Which stretch is whose is never written down. A runner that
continues with a batch that was planned before reads its records for itself, or for those that stand there too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.told_tables import with_tables
from lakesql.engine.spark.changed_settings import FEW_RECORDS, changed_settings, settings_of_few
from lakesql.engine.spark.internals import in_session
from lakesql.engine.spark.kept_rows import keep_rows
from lakesql.names import TABLE
from lakesql.source.cluster import Offsets, lag_of, numbered
from lakesql.source.stream_state import Position

LONGEST = 1_000_000
"""How many records a stretch has at most: those that are kept stand in the runner's memory, or on its disk."""

MOST_KEPT = 8
"""How many stretches are kept for models that have not taken theirs. What is behind them these read for themselves."""


@dataclass(slots=True)
class _SharedRead:
    """The records between two places, of which `rows` have `_lakesql_table`, once they are read. `present` are the
    tables that they are of, None among them where some may be of any, and `tables` those that were looked for.
    `waiting` are the models that have not taken theirs."""

    end: Position
    waiting: set[str]
    tables: frozenset[str] = frozenset()
    rows: DataFrame | None = None
    present: frozenset[str | None] = frozenset()
    lock: threading.Lock = field(default_factory=threading.Lock)


class SharedTopics:
    """The stretches of the topics of models that stand in one run, and that go through them side by side.

    `find_tables` says which models these are now, each with the table whose records it takes.
    """

    def __init__(self, find_tables: Callable[[], Mapping[str, str]]) -> None:
        self._find_tables = find_tables
        self._lock = threading.Lock()
        self._stretches: dict[str, _SharedRead] = {}

    def clear(self) -> None:
        """Keep nothing: a model begins anew, whose topics may have been made again since."""
        with self._lock:
            self._stretches.clear()

    def find_end(self, position: Position) -> Position:
        """Where the stretch ends that begins at a position; None where none does."""
        with self._lock:
            found = self._stretches.get(_key(position))
            return None if found is None else found.end

    def meet(self, position: Position, ends: Offsets) -> Offsets:
        """Where a model that stands where no stretch begins is to read to at most: to where the last one ends, so that
        it goes on with the others, or to `ends` where it does not stand behind that."""
        with self._lock:
            last = next(reversed(self._stretches.values()), None)
        if last is None or position is None:
            return ends
        begins, there = numbered(position), numbered(last.end)
        if _places(begins) != _places(there) or _places(there) != _places(ends):
            return ends
        is_behind = all(at <= there[topic][number] for topic, each in begins.items() for number, at in each.items())
        return there if is_behind and begins != there else ends

    def plan(self, position: Position, end: Position) -> Position:
        """Where the stretch ends that begins there: as another model has said meanwhile, or at `end`."""
        with self._lock:
            models = set(self._find_tables())
            found = self._stretches.setdefault(_key(position), _SharedRead(end, models))
            while len(self._stretches) > MOST_KEPT:
                self._stretches.pop(next(iter(self._stretches)))
            return found.end

    def read(
        self,
        model: str,
        binding: StreamBinding,
        session: SparkSession,
        start: Position,
        end: Position,
        read: Callable[[], DataFrame],
    ) -> DataFrame | None:
        """The records between two places that may be of the model's table; None where there are none.

        They are all of `read` where the stretch is not shared.
        """
        with self._lock:
            stretch = self._stretches.get(_key(start))
        table = self._find_tables().get(model)
        if stretch is None or stretch.end != end or table is None:
            return read()
        with stretch.lock:
            if stretch.rows is None:
                self._tell_apart(stretch, binding, session, start, read)
        self._take(model, start, stretch)
        if table not in stretch.tables or stretch.rows is None:
            return read()
        if stretch.present.isdisjoint((table, None)):
            return None
        told = F.col(TABLE)
        return in_session(stretch.rows, session).where(told.isNull() | (told == table)).drop(TABLE)

    def _tell_apart(
        self,
        stretch: _SharedRead,
        binding: StreamBinding,
        session: SparkSession,
        start: Position,
        read: Callable[[], DataFrame],
    ) -> None:
        """Read a stretch. Of one that does not begin with the first records that are there it is known how many it has
        at most, and few are held by the driver."""
        size = sum(sum(each.values()) for each in lag_of(numbered(start), numbered(stretch.end)).values())
        are_few = start is not None and size <= FEW_RECORDS
        tables = frozenset(self._find_tables().values())
        told = with_tables(read(), binding, sorted(tables))
        if are_few:
            with changed_settings(session, settings_of_few(session)):
                rows = keep_rows(told.coalesce(1), size).rows
            found = rows.select(TABLE)
        else:
            rows = told.localCheckpoint()
            found = rows.select(TABLE).distinct()
        stretch.present = frozenset(row[0] for row in found.collect())
        stretch.tables, stretch.rows = tables, rows

    def _take(self, model: str, start: Position, stretch: _SharedRead) -> None:
        """The model has its part: once all have theirs, nobody keeps the stretch."""
        with self._lock:
            stretch.waiting.discard(model)
            if not stretch.waiting and self._stretches.get(_key(start)) is stretch:
                del self._stretches[_key(start)]


@dataclass(frozen=True, slots=True)
class TopicShare:
    """One model's part in what is read of topics for several. `session` is the model's own."""

    topics: SharedTopics
    model: str
    binding: StreamBinding
    session: SparkSession

    def read(self, start: Position, end: Position, read: Callable[[], DataFrame]) -> DataFrame | None:
        """As `SharedTopics.read`."""
        return self.topics.read(self.model, self.binding, self.session, start, end, read)


def _key(position: Position) -> str:
    return json.dumps(position, sort_keys=True)


def _places(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, number) for topic, each in offsets.items() for number in each}
