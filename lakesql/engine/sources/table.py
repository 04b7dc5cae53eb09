"""How another model's table is read, snapshot by snapshot, with Iceberg's own
stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.quote import table_name, text
from lakesql.counts import count
from lakesql.engine.ledger.snapshots import (
    find_abandoned,
    former_models,
    has_hidden_snapshots,
    load_table,
    read_history,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_source import Reader, SparkSource, as_rows
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_REBUILD
from lakesql.source.stream_state import SeenFile, SourceState
from lakesql.source.table import TableSource, find_rebuilt


class SparkTable(SparkSource):
    """A table of the project."""

    kind: ClassVar[str] = TableSource.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The rows as they are added to the table, beginning with all that it has, or
        with those since its rebuild."""
        since_ms = _source(binding).since_ms
        reader: Reader = session.readStream
        if since_ms is not None:
            reader = reader.option("stream-from-timestamp", since_ms)
        return _load(reader, binding)

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The present rows of the table."""
        return _load(session.read, binding)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the table: its snapshots, and whether the first ones are
        gone."""
        name = _table(binding)
        found = load_table(session, name)
        history = tuple(read_history(found))
        rebuilt, is_cut = find_rebuilt(history)
        is_cut = is_cut or (not rebuilt and has_hidden_snapshots(found))
        at_ms = int(found.snapshot(rebuilt[0]).timestampMillis()) if rebuilt else None
        nothing = (
            f"there is no row in {name} yet" if found.currentSnapshot() is None else ""
        )
        known = frozenset(each.id for each in history)
        return SourceState(
            binding.stream.name,
            self.kind,
            rebuilt=rebuilt,
            rebuilt_ms=at_ms,
            is_cut=is_cut,
            nothing=nothing,
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
        """The snapshots that have expired, unless the table was rebuilt since; and a
        text with the number of its rows."""
        name = _table(binding)
        history = list(read_history(load_table(session, name)))
        whole = (
            not history
            or history[-1].parent is None
            or any(LEDGER_REBUILD in s.summary for s in history)
        )
        gone = (
            [] if whole else [f"{name}: snapshots before {history[-1].id} have expired"]
        )
        return gone, count(history[0].total if history else 0, "row")


def _source(binding: StreamBinding) -> TableSource:
    assert isinstance(binding.source, TableSource)
    return binding.source


def _table(binding: StreamBinding) -> TableName:
    assert binding.table is not None
    return binding.table


def _load(reader: Reader, binding: StreamBinding) -> DataFrame:
    name = _table(binding)
    rows = reader.format("iceberg").load(table_name(name))
    return as_rows(rows, rows.columns, text(str(name)))
