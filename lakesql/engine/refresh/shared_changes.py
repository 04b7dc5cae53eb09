"""What has changed in the inputs of a run's views: read once, however many of them are
made of one."""

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
"""So many changes are made before they are used, and kept, in all; more are read
wherever they are used."""

KEPT_SPANS = 16
"""The changes between so many pairs of snapshots are kept: those that were asked for
last, and of a table those up to one snapshot."""

_Span = tuple[str, int, int | None, int]
"""A table, its columns, and the two snapshots."""


@dataclass(frozen=True, slots=True)
class SharedChanges:
    """The changes that views have asked for, for others that ask for them too; of
    several at a time, one reads them."""

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
        """What `changes_between` says, for this session, while the context is open."""
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
