"""How topics that several models of a group read are read once: each range of offsets
is read by one of them, and its records are assigned to tables.

Each model still has its own batches, ledger and checkpoint: from a range it takes the
records that may be of its table, and if there are none, its batch ends without a
statement. Which models share a range is never written down. A runner that continues
with a batch that was planned earlier reads its records for itself, or for the models at
the same position.
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
"""How many records a shared range has at most: they are kept in the memory of
executors, or on their disks."""

MOST_KEPT = 8
"""How many ranges are kept for models that have not read them yet. Models that are
further behind read the records themselves."""


@dataclass(slots=True)
class _SharedRead:
    """The records of a range of offsets; once they are read, `rows` has them with the
    column `_lakesql_table`. `present` are the tables of the records, with None among
    them if some may be of any table, and `tables` those that were looked for. `waiting`
    are the models that have not taken their records, and `readers` is how many batches
    read them now. Once it `is_over`, no other batch begins to read it."""

    end: Position
    waiting: set[str]
    tables: frozenset[str] = frozenset()
    rows: DataFrame | None = None
    present: frozenset[str | None] = frozenset()
    readers: int = 0
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class SharedTopics:
    """The ranges of the topics that models of one run read in parallel.

    `find_tables` returns these models, each with the table whose records it reads.
    """

    def __init__(self, find_tables: Callable[[], Mapping[str, str]]) -> None:
        self._find_tables = find_tables
        self._lock = threading.Lock()
        self._stretches: dict[str, _SharedRead] = {}

    def are_several(self) -> bool:
        """Whether there is more than one model, so that anything can be shared."""
        return len(self._find_tables()) > 1

    def clear(self) -> None:
        """Keep no range: a model starts again, and its topics may have been created
        again since."""
        with self._lock:
            for key in [*self._stretches]:
                self._end(key)

    def find_end(self, position: Position) -> Position:
        """Where the range ends that begins at a position; None if there is none."""
        with self._lock:
            found = self._stretches.get(_key(position))
            return None if found is None else found.end

    def meet(self, position: Position, ends: Offsets) -> Offsets:
        """Where a model reads to at most if no range begins at its position: the end of
        the last range, so that it continues with the others, or `ends` if it is not
        behind that."""
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
        """Where the range ends that begins at `position`: as another model has planned
        meanwhile, otherwise at `end`."""
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
        """The records between two positions that may be of a model's table, while
        `held` is open; None if there are none.

        If the range is not shared, all records, as `read` returns them.
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
        """Read a range, and find which tables its records are of. Its maximum number of
        records is known unless it begins at the start of the topic; few records are
        held by the driver."""
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
        """The range between two positions, with one more reader; None if there is
        none."""
        with self._lock:
            stretch = self._stretches.get(_key(start))
            if stretch is None or stretch.end != end:
                return None
            stretch.readers += 1
            return stretch

    def _take(self, model: str, start: Position, stretch: _SharedRead) -> None:
        """Record that the model has its records: once all models have theirs, the range
        is no longer kept."""
        with self._lock:
            stretch.waiting.discard(model)
            if not stretch.waiting and self._stretches.get(_key(start)) is stretch:
                self._end(_key(start))

    def _leave(self, stretch: _SharedRead) -> None:
        """Record that a batch has finished reading a range."""
        with self._lock:
            stretch.readers -= 1
            _let_go(stretch)

    def _end(self, key: str) -> None:
        """Stop keeping a range: no further batch reads it."""
        stretch = self._stretches.pop(key)
        stretch.is_over = True
        _let_go(stretch)


@dataclass(frozen=True, slots=True)
class TopicShare:
    """What one model needs to share the reading of topics. `session` is the model's
    own."""

    topics: SharedTopics
    model: str
    binding: StreamBinding
    session: SparkSession


def _keep(rows: DataFrame) -> list[Row]:
    """Read and cache rows; returns the distinct tables of the rows. Nothing stays
    cached if reading fails."""
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return rows.select(TABLE).distinct().collect()
    except Exception:
        rows.unpersist()
        raise


def _let_go(stretch: _SharedRead) -> None:
    """Free the rows of a range that nobody reads any more."""
    if stretch.is_over and not stretch.readers and stretch.rows is not None:
        stretch.rows.unpersist()


def _key(position: Position) -> str:
    return json.dumps(position, sort_keys=True)


def _places(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, number) for topic, each in offsets.items() for number in each}
