"""How the changes of another model's table are read, commit by commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.counts import count
from lakesql.engine.ledger.snapshots import (
    find_abandoned,
    former_models,
    load_table,
    read_history,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import (
    PlannedBatches,
    Planning,
    SparkSource,
)
from lakesql.engine.sources.table_commits import (
    BEFORE,
    NOW,
    TableCommits,
    as_changes,
    rows_of,
    table_read,
)
from lakesql.source.stream_state import SeenFile, SourceState
from lakesql.source.table_changes import ChangesSource


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
        return TableCommits(session, binding)

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The present rows of the table, each as an insert."""
        table = load_table(session, table_read(binding))
        head = table.currentSnapshot()
        at_ms = int(head.timestampMillis()) if head is not None else 0
        now = rows_of(session, table_read(binding)).select(F.struct("*").alias(NOW))
        rows = now.withColumn(BEFORE, F.lit(None).cast(now.schema[NOW].dataType))
        return as_changes(rows, table_read(binding), f"timestamp_millis({at_ms})")

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the table: the snapshots that lead to its newest one."""
        name = table_read(binding)
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
        history = [*read_history(load_table(session, table_read(binding)))]
        if not history:
            return [], count(0, "row")
        commits = [
            each for each in history if each.summary.get("operation") != "replace"
        ]
        has_past = len(commits) > 1 or history[-1].parent is not None
        gone = (
            [f"what {table_read(binding)} had before its newest commit"]
            if binding.needs_past and has_past
            else []
        )
        return gone, count(history[0].total, "row")
