"""How the changes of another model's table are read, commit by commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakesql.compile.quote import identifier, text
from lakesql.counts import count
from lakesql.engine.ledger.snapshots import (
    find_abandoned,
    former_models,
    load_table,
    read_history,
    read_json,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import (
    PlannedBatches,
    Planning,
    SparkSource,
    raw_columns,
)
from lakesql.engine.spark.row_changes import (
    ChangesUnknownError,
    SnapshotExpiredError,
    changes_between,
)
from lakesql.errors import TransientError
from lakesql.ledger.entry import walk_back
from lakesql.model.table_name import TableName
from lakesql.names import CHANGE, COMMIT_NUMBER, LEDGER_REBUILD, ROW, is_reserved
from lakesql.source.stream_state import Position, SeenFile, SourceState
from lakesql.source.table_changes import ChangesSource, changes_position, snapshot_read
from lakesql.table.metadata import parse_metadata

COMMITS = 20
"""How many commits of a table one batch reads at most. Each is read by itself, so that
no change between two of them is skipped."""

NOW, BEFORE = "_lakesql_now", "_lakesql_before"
"""The columns with the row of a key after a commit, and before it."""

_NUMBER = "_lakesql_number"
_OP = f"CASE WHEN {BEFORE} IS NULL THEN 'c' WHEN {NOW} IS NULL THEN 'd' ELSE 'u' END"


class SparkChanges(SparkSource):
    """A table of the project whose rows change."""

    kind: ClassVar[str] = ChangesSource.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """Not supported: `planned_batches` reads the changes instead."""
        raise AssertionError("Spark does not stream the changes of a table")

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """The commits of the table, some at a time."""
        return _Commits(session, binding)

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The present rows of the table, each as an insert."""
        table = load_table(session, _table(binding))
        head = table.currentSnapshot()
        at_ms = int(head.timestampMillis()) if head is not None else 0
        now = _rows_of(session, _table(binding)).select(F.struct("*").alias(NOW))
        rows = now.withColumn(BEFORE, F.lit(None).cast(now.schema[NOW].dataType))
        return as_changes(rows, _table(binding), f"timestamp_millis({at_ms})")

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the table: the snapshots that lead to its newest one."""
        name = _table(binding)
        found = load_table(session, name)
        known = frozenset(each.id for each in read_history(found))
        return SourceState(
            binding.stream.name,
            self.kind,
            nothing=f"there is no row in {name} yet"
            if found.currentSnapshot() is None
            else "",
            formers=former_models(found),
            history=known,
            abandoned=find_abandoned(found, known),
        )

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """What a rebuild cannot read: rows from before the newest commit, if the model
        needs them; and a text with the number of present rows."""
        history = [*read_history(load_table(session, _table(binding)))]
        if not history:
            return [], count(0, "row")
        commits = [
            each for each in history if each.summary.get("operation") != "replace"
        ]
        has_past = len(commits) > 1 or history[-1].parent is not None
        gone = (
            [f"what {_table(binding)} had before its newest commit"]
            if binding.needs_past and has_past
            else []
        )
        return gone, count(history[0].total, "row")


@dataclass(frozen=True, slots=True)
class _ChangingCommit:
    """A commit of the table: its snapshot, and the snapshot before it (None: all rows
    are read)."""

    snapshot: int
    before: int | None


@dataclass(frozen=True, slots=True)
class _Commits(PlannedBatches):
    """The commits of a table as batches."""

    session: SparkSession
    binding: StreamBinding

    def find_end(self, position: Position, until: Position) -> Position:
        """The snapshot of the last of the next commits that changed rows, at most
        `COMMITS`; None if there is none."""
        table = load_table(self.session, _table(self.binding))
        last = snapshot_read(until)
        commits = self._commits(
            table, snapshot_read(position), last if last is not None else _head(table)
        )
        return changes_position(commits[:COMMITS][-1].snapshot) if commits else None

    def find_last(self, position: Position) -> Position:
        """The newest snapshot; None if the table has none."""
        head = _head(load_table(self.session, _table(self.binding)))
        return None if head is None else changes_position(head)

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records of the changes of each commit from `start` to `end`."""
        table = load_table(self.session, _table(self.binding))
        commits = self._commits(table, snapshot_read(start), snapshot_read(end))
        times = _times(table, commits[-1].snapshot)
        changes = (
            self._changes(table, commit, times[commit.snapshot], number, held)
            for number, commit in enumerate(commits)
        )
        # Computed once and kept: a second join would give the rows another order, by
        # which the raw record of a row is found, and Spark recomputes persisted frames
        # when the table is written to.
        return reduce(DataFrame.unionByName, changes).localCheckpoint()

    def _commits(
        self, table: Any, start: int | None, end: int | None
    ) -> list[_ChangingCommit]:
        """The commits that changed rows between two snapshots, the earliest first.
        Raises `TransientError` if a snapshot between them is gone."""
        if end is None or start == end:
            return []
        if start is None:
            self._snapshot(table, end)
            return [_ChangingCommit(end, None)]
        found: list[_ChangingCommit] = []
        at = end
        while at != start:
            snapshot = self._snapshot(table, at)
            before = self._first_of(table, snapshot).parentId()
            if before is None:
                raise self._gone(SnapshotExpiredError(start))
            if str(snapshot.operation()) != "replace":
                found.append(_ChangingCommit(at, int(before)))
            at = int(before)
        return found[::-1]

    def _first_of(self, table: Any, snapshot: Any) -> Any:
        """The first snapshot of the commit that made this one. A rebuild commits a
        snapshot without rows and appends its rows in further ones; no reader of the
        table has seen those between."""
        if not snapshot.summary().containsKey(LEDGER_REBUILD):
            return snapshot
        first = self._snapshot(table, snapshot.parentId())
        while str(first.operation()) == "append":
            first = self._snapshot(table, first.parentId())
        return first

    def _snapshot(self, table: Any, id_: int | None) -> Any:
        found = table.snapshot(id_) if id_ is not None else None
        if found is None:
            raise self._gone(SnapshotExpiredError(id_ or -1))
        return found

    def _changes(
        self,
        table: Any,
        commit: _ChangingCommit,
        at_ms: int,
        number: int,
        held: ExitStack,
    ) -> DataFrame:
        """The raw records of a commit's changes. A removed row and an added row of the
        same key are one update."""
        name = _table(self.binding)
        try:
            empty = _rows_of(self.session, name).limit(0)
            between = changes_between(
                self.session, name, table, commit.before, commit.snapshot, empty.columns
            )
            changes = held.enter_context(between)
        except ChangesUnknownError as error:
            raise self._gone(error) from error
        gone = self._numbered(empty if changes.gone is None else changes.gone, BEFORE)
        come = self._numbered(empty if changes.come is None else changes.come, NOW)
        keys = [*map(_key, range(len(self.binding.stream.key))), _NUMBER]
        same = reduce(
            lambda one, other: one & other,
            (gone[key].eqNullSafe(come[key]) for key in keys),
        )
        rows = gone.join(come, same, "full").select(NOW, BEFORE)
        return as_changes(rows, name, f"timestamp_millis({at_ms})", str(number))

    def _numbered(self, rows: DataFrame, name: str) -> DataFrame:
        """The rows as structs with their keys, and a number that makes rows with the
        same key distinct, should there be any."""
        keys = [
            F.col(identifier(key)).alias(_key(index))
            for index, key in enumerate(self.binding.stream.key)
        ]
        found = rows.select(F.struct("*").alias(name), *keys)
        names = [*map(_key, range(len(keys)))]
        return found.withColumn(
            _NUMBER, F.row_number().over(Window.partitionBy(*names).orderBy(F.lit(0)))
        )

    def _gone(self, error: ChangesUnknownError) -> TransientError:
        return TransientError.of(
            "upstream-expired",
            f"Table '{self.binding.stream.name}' does not have snapshot {error.snapshot} any more, from which on its "
            "changes were to be read.",
            fix="The next try says what to do.",
        )


def as_changes(
    rows: DataFrame, table: TableName, at: str, number: str = "0", op: str = _OP
) -> DataFrame:
    """Raw records of changes, from rows as they are now (`NOW`) and as they were before
    (`BEFORE`); either is NULL if there is no such row.

    `at` is the time of the commit, `number` its number in the batch and `op` the
    operation, all as SQL over `rows`.
    """
    return rows.selectExpr(
        *raw_columns(text(str(table)), at),
        f"coalesce({NOW}, {BEFORE}) AS {ROW}",
        f"named_struct('op', {op}, 'ts', {at}, 'before', {BEFORE}) AS {CHANGE}",
        f"CAST({number} AS int) AS {COMMIT_NUMBER}",
    )


def _rows_of(session: SparkSession, table: TableName) -> DataFrame:
    """The rows of a table, without the internal columns of a refresh, which may change
    although the row does not."""
    rows = session.table(str(table))
    return rows.select(
        *(F.col(identifier(name)) for name in rows.columns if not is_reserved(name))
    )


def _key(index: int) -> str:
    return f"_lakesql_key_{index}"


def _times(table: Any, snapshot: int) -> dict[int, int]:
    """The times of a snapshot and its ancestors, in milliseconds, by snapshot id. They
    never decrease: a commit whose writer's clock is behind has the time of the commit
    before."""
    lineage = [*walk_back(parse_metadata(read_json(table)).snapshots, snapshot)][::-1]
    times = accumulate((each.at_ms for each in lineage), max)
    return dict(zip((each.id for each in lineage), times, strict=True))


def _head(table: Any) -> int | None:
    head = table.currentSnapshot()
    return None if head is None else int(head.snapshotId())


def _table(binding: StreamBinding) -> TableName:
    assert binding.table is not None
    return binding.table
