"""Topics that several models of a group read: each stretch of them is read once, and
its records told apart by table.

A model has its own batches, ledger and checkpoint all the same: it takes of a stretch
what may be of its table, and where that is nothing its batch is over without a
statement. Which stretch is whose is never written down. A runner that continues with a
batch that was planned before reads its records for itself, or for those that stand
there too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.told_tables import with_tables
from lakesql.engine.spark.few_rows import (
    FEW_RECORDS,
    changed_settings,
    keep_rows,
    settings_of_few,
)
from lakesql.engine.spark.internals import in_session
from lakesql.names import TABLE
from lakesql.source.cluster import Offsets, lag_of, numbered, total_of
from lakesql.source.stream_state import Position

LONGEST = 1_000_000
"""How many records a stretch has at most: those that are kept stand in the memory of
executors, or on their disks."""

MOST_KEPT = 8
"""How many stretches are kept for models that have not taken theirs. What is behind
them these read for themselves."""


@dataclass(slots=True)
class _SharedRead:
    """The records between two places, of which `rows` have `_lakesql_table`, once they
    are read. `present` are the tables that they are of, None among them where some may
    be of any, and `tables` those that were looked for. `waiting` are the models that
    have not taken theirs, and `readers` is how many batches read them just now. Once it
    `is_over`, no other does."""

    end: Position
    waiting: set[str]
    tables: frozenset[str] = frozenset()
    rows: DataFrame | None = None
    present: frozenset[str | None] = frozenset()
    readers: int = 0
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class SharedTopics:
    """The stretches of the topics of models that stand in one run, and that go through
    them side by side.

    `find_tables` says which models these are now, each with the table whose records it
    takes.
    """

    def __init__(self, find_tables: Callable[[], Mapping[str, str]]) -> None:
        self._find_tables = find_tables
        self._lock = threading.Lock()
        self._stretches: dict[str, _SharedRead] = {}

    def are_several(self) -> bool:
        """Whether there is a second model, with which anything could be shared."""
        return len(self._find_tables()) > 1

    def clear(self) -> None:
        """Keep nothing: a model begins anew, whose topics may have been made again
        since."""
        with self._lock:
            for key in [*self._stretches]:
                self._end(key)

    def find_end(self, position: Position) -> Position:
        """Where the stretch ends that begins at a position; None where none does."""
        with self._lock:
            found = self._stretches.get(_key(position))
            return None if found is None else found.end

    def meet(self, position: Position, ends: Offsets) -> Offsets:
        """Where a model that stands where no stretch begins is to read to at most: to
        where the last one ends, so that it goes on with the others, or to `ends` where
        it does not stand behind that."""
        with self._lock:
            last = next(reversed(self._stretches.values()), None)
        if last is None or position is None:
            return ends
        begins, there = numbered(position), numbered(last.end)
        if _places(begins) != _places(there) or _places(there) != _places(ends):
            return ends
        is_behind = all(
            at <= there[topic][number]
            for topic, each in begins.items()
            for number, at in each.items()
        )
        return there if is_behind and begins != there else ends

    def plan(self, position: Position, end: Position) -> Position:
        """Where the stretch ends that begins there: as another model has said
        meanwhile, or at `end`."""
        with self._lock:
            found = self._stretches.setdefault(
                _key(position), _SharedRead(end, {*self._find_tables()})
            )
            while len(self._stretches) > MOST_KEPT:
                self._end(next(iter(self._stretches)))
            return found.end

    def read(
        self,
        share: TopicShare,
        start: Position,
        end: Position,
        held: ExitStack,
        read: Callable[[], DataFrame],
    ) -> DataFrame | None:
        """The records between two places that may be of a model's table, for as long as
        `held` is open; None where there are none.

        They are all of `read` where the stretch is not shared.
        """
        table, stretch = self._find_tables().get(share.model), self._begin(start, end)
        if stretch is None:
            return read()
        held.callback(self._leave, stretch)
        with stretch.lock:
            if stretch.rows is None:
                self._tell_apart(stretch, share, start, read)
        self._take(share.model, start, stretch)
        if table is None or table not in stretch.tables or stretch.rows is None:
            return read()
        if stretch.present.isdisjoint((table, None)):
            return None
        told = F.col(TABLE)
        return (
            in_session(stretch.rows, share.session)
            .where(told.isNull() | (told == table))
            .drop(TABLE)
        )

    def _tell_apart(
        self,
        stretch: _SharedRead,
        share: TopicShare,
        start: Position,
        read: Callable[[], DataFrame],
    ) -> None:
        """Read a stretch. Of one that does not begin with the first records that are
        there it is known how many it has at most, and few are held by the driver."""
        size = total_of(lag_of(numbered(start), numbered(stretch.end)))
        tables = frozenset(self._find_tables().values())
        rows = with_tables(read(), share.binding, sorted(tables))
        if start is not None and size <= FEW_RECORDS:
            with changed_settings(share.session, settings_of_few(share.session)):
                rows = keep_rows(rows.coalesce(1), size).rows
            found = rows.select(TABLE).collect()
        else:
            found = _keep(rows)
        stretch.present = frozenset(row[0] for row in found)
        stretch.tables, stretch.rows = tables, rows

    def _begin(self, start: Position, end: Position) -> _SharedRead | None:
        """The stretch between two places, with one reader more; None where there is
        none."""
        with self._lock:
            stretch = self._stretches.get(_key(start))
            if stretch is None or stretch.end != end:
                return None
            stretch.readers += 1
            return stretch

    def _take(self, model: str, start: Position, stretch: _SharedRead) -> None:
        """The model has its part: once all have theirs, nobody keeps the stretch."""
        with self._lock:
            stretch.waiting.discard(model)
            if not stretch.waiting and self._stretches.get(_key(start)) is stretch:
                self._end(_key(start))

    def _leave(self, stretch: _SharedRead) -> None:
        """A batch has read what it had of a stretch."""
        with self._lock:
            stretch.readers -= 1
            _let_go(stretch)

    def _end(self, key: str) -> None:
        """No batch begins to read this stretch any more."""
        stretch = self._stretches.pop(key)
        stretch.is_over = True
        _let_go(stretch)


@dataclass(frozen=True, slots=True)
class TopicShare:
    """One model's part in what is read of topics for several. `session` is the model's
    own."""

    topics: SharedTopics
    model: str
    binding: StreamBinding
    session: SparkSession


def _keep(rows: DataFrame) -> list[Row]:
    """Read rows and keep them: the tables that they are of. None are kept where reading
    fails."""
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return rows.select(TABLE).distinct().collect()
    except Exception:
        rows.unpersist()
        raise


def _let_go(stretch: _SharedRead) -> None:
    """Free what nobody reads any more."""
    if stretch.is_over and not stretch.readers and stretch.rows is not None:
        stretch.rows.unpersist()


def _key(position: Position) -> str:
    return json.dumps(position, sort_keys=True)


def _places(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, number) for topic, each in offsets.items() for number in each}
