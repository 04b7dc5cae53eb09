"""What the state of a query's checkpoint, table and sources is, to be compared before
the query starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakesql.clock import now_ms
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    load_table,
    read_entry,
    read_history,
    read_newest_entry,
    table_exists,
    table_id,
)
from lakesql.engine.progress.checkpoint import (
    CheckpointFiles,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_sources import spark_source
from lakesql.errors import RunError
from lakesql.model.table_name import TableName
from lakesql.progress.state import (
    MovedFiles,
    ProgressState,
    QueryIdentity,
    state_of,
)
from lakesql.progress.stored import read_checkpoint
from lakesql.source.stream_state import SourceState

AHEAD_MS = 60_000
"""By how much at most a snapshot may be older than the one before it for Iceberg to
accept it."""


def read_state(
    session: SparkSession,
    identity: QueryIdentity,
    sources: Sequence[SourceState],
    accept_data_loss: bool = False,
    moved: MovedFiles | None = None,
) -> ProgressState:
    """The current state of the checkpoint and the table."""
    table = (
        load_table(session, identity.table)
        if table_exists(session, identity.table)
        else None
    )
    head = next(read_history(table), None) if table is not None else None
    if table is not None:
        _check_clock(identity.table, table)
    written = entry = read_newest_entry(table) if table is not None else None
    if table is not None and written is not None and written.model != identity.owner:
        entry = read_entry(table, identity.owner)
    return state_of(
        identity,
        sources,
        read_checkpoint(CheckpointFiles(session, identity.folder)),
        table_id=table_id(table) if table is not None else "",
        entry=entry,
        has_rows=head is not None and not head.is_empty,
        written=written,
        accept_data_loss=accept_data_loss,
        moved=moved,
    )


def _check_clock(name: TableName, table: JavaTable) -> None:
    """Raise `RunError` (`table-ahead`) if Iceberg would reject commits to the table
    because they would be older than its last one."""
    snapshot = table.currentSnapshot()
    if snapshot is None or snapshot.timestampMillis() - now_ms() < AHEAD_MS:
        return
    at = datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC).isoformat(
        timespec="seconds"
    )
    raise RunError.of(
        "table-ahead",
        f"The newest snapshot of table {name} is of {at}, and by this machine's clock it is "
        f"{datetime.now(UTC).isoformat(timespec='seconds')}.",
    )


def read_sources(
    session: SparkSession, brokers: Brokers, bindings: Sequence[StreamBinding]
) -> tuple[SourceState, ...]:
    """The current state of the streams; brokers are asked for their topics.

    Raises what `open_broker` raises, and `RunError` (`unknown-topic`).
    """
    return tuple(
        spark_source(binding.source).state_now(session, binding, brokers)
        for binding in bindings
    )


def read_topics(
    session: SparkSession, brokers: Brokers, bindings: Sequence[StreamBinding]
) -> list[Mapping[str, str]]:
    """The current ids of each stream's topics."""
    return [
        spark_source(binding.source).topic_ids(session, binding, brokers)
        for binding in bindings
    ]
