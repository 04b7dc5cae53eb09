"""The row changes of the inputs of a run's views: read once, however many views are
made of an input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import JavaTable, table_id
from lakesql.engine.spark.internals import can_share_rows
from lakesql.engine.spark.row_changes import RowChanges, changes_between
from lakesql.model.table_name import TableName

KEPT_ROWS = 1_000_000
"""The most changed rows, in total, that are computed ahead and kept; larger changes are
read again by each use."""

KEPT_SPANS = 16
"""The most spans between two snapshots whose changes are kept: the last used ones, and
of each table only those up to one snapshot."""

_Span = tuple[str, int, int | None, int]
"""The id of a table, the id of its schema, and the two snapshots."""


@dataclass(frozen=True, slots=True)
class SharedChanges:
    """The row changes that views of a run have asked for, kept for other views that ask
    for the same. If several ask at the same time, one of them reads."""

    _kept: dict[_Span, RowChanges] = field(default_factory=dict)
    _reading: dict[_Span, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def between(
        self,
        session: SparkSession,
        name: TableName,
        table: JavaTable,
        start: int | None,
        end: int,
    ) -> Iterator[RowChanges]:
        """The row changes that `changes_between` finds, as frames of this session,
        while the context is open."""
        span = (table_id(table), int(table.schema().schemaId()), start, end)
        with ExitStack() as held:
            with self._one_at_a_time(span):
                changes = self._find(span)
                if changes is None:
                    reading = changes_between(
                        session, name, table, start, end, keeps=KEPT_ROWS
                    )
                    changes = held.enter_context(reading)
                    self._keep(span, changes)
            yield changes if changes.count is None else changes.of(session)

    @contextmanager
    def _one_at_a_time(self, span: _Span) -> Iterator[None]:
        with self._lock:
            lock = self._reading.setdefault(span, Lock())
        with lock:
            yield
        with self._lock:
            self._reading.pop(span, None)

    def _find(self, span: _Span) -> RowChanges | None:
        with self._lock:
            changes = self._kept.pop(span, None)
            if changes is not None:
                self._kept[span] = changes
            return changes

    def _keep(self, span: _Span, changes: RowChanges) -> None:
        if changes.count is None or changes.count > KEPT_ROWS or not can_share_rows():
            return
        of_table, _, _, end = span
        with self._lock:
            for older in [
                each for each in self._kept if each[0] == of_table and each[3] != end
            ]:
                del self._kept[older]
            self._kept[span] = changes
            while (
                len(self._kept) > KEPT_SPANS
                or sum(each.count or 0 for each in self._kept.values()) > KEPT_ROWS
            ):
                self._kept.pop(next(iter(self._kept)))
