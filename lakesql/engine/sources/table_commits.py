"""The commits of another model's table as batches of a stream: which of them changed
rows, and the raw records of these changes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakesql.compile.quote import identifier, text
from lakesql.engine.ledger.snapshots import (
    load_table,
    read_json,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.spark_source import (
    PlannedBatches,
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
from lakesql.source.stream_state import Position
from lakesql.source.table_changes import changes_position, snapshot_read
from lakesql.table.metadata import parse_metadata

COMMITS = 20
"""How many commits of a table one batch reads at most. Each is read by itself, so that
no change between two of them is skipped."""

NOW, BEFORE = "_lakesql_now", "_lakesql_before"
"""The columns with the row of a key after a commit, and before it."""

_NUMBER = "_lakesql_number"
_OP = f"CASE WHEN {BEFORE} IS NULL THEN 'c' WHEN {NOW} IS NULL THEN 'd' ELSE 'u' END"


@dataclass(frozen=True, slots=True)
class _ChangingCommit:
    """A commit of the table: its snapshot, and the snapshot before it (None: all rows
    are read)."""

    snapshot: int
    before: int | None


@dataclass(frozen=True, slots=True)
class TableCommits(PlannedBatches):
    """The commits of a table as batches."""

    session: SparkSession
    binding: StreamBinding

    def find_end(self, position: Position, until: Position) -> Position:
        """The snapshot of the last of the next commits that changed rows; None where
        there is none."""
        table = load_table(self.session, table_read(self.binding))
        last = snapshot_read(until)
        commits = self._commits(
            table, snapshot_read(position), last if last is not None else _head(table)
        )
        return changes_position(commits[:COMMITS][-1].snapshot) if commits else None

    def find_last(self, position: Position) -> Position:
        """The newest snapshot."""
        head = _head(load_table(self.session, table_read(self.binding)))
        return None if head is None else changes_position(head)

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records of the changes of each commit from `start` to `end`."""
        table = load_table(self.session, table_read(self.binding))
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
        """The commits that changed rows on the way from one snapshot to another, the
        earliest first."""
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
        """The first snapshot of the commit that has made this one. A rebuild commits
        one without any row, behind which its rows are appended: no reader of the table
        has seen what is between."""
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
        """The raw records of what a commit has changed: a row that has left and one
        that has come of the same key are one update."""
        name = table_read(self.binding)
        try:
            empty = rows_of(self.session, name).limit(0)
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
        """The rows as structs with their keys, and a number that tells those of one key
        apart, should there be some."""
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


def rows_of(session: SparkSession, table: TableName) -> DataFrame:
    """The rows of a table, without the columns that a refresh keeps for itself: they
    change where no row does."""
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


def table_read(binding: StreamBinding) -> TableName:
    """The table that a stream reads."""
    assert binding.table is not None
    return binding.table
