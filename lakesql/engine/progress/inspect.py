"""What a query's checkpoint, its table and its sources are now: what is compared before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import assert_never

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from lakesql.clock import now_ms
from lakesql.engine.ledger.rename import former_models
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    find_abandoned,
    has_hidden_snapshots,
    load_table,
    read_entry,
    read_history,
    read_newest_entry,
    table_exists,
    table_id,
)
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.binding import StreamBinding, TableSource
from lakesql.engine.sources.broker import Brokers, find_held
from lakesql.engine.sources.empty import explain_no_files, explain_no_records
from lakesql.engine.sources.globs import find_files, find_hidden, find_unlisted, local_hidden
from lakesql.engine.sources.left_out import explain_hidden
from lakesql.engine.spark.failure import unlisted_name
from lakesql.errors import RunError
from lakesql.model.table_name import TableName
from lakesql.progress.position import Source, SourceKind, find_rebuilt
from lakesql.progress.state import MovedFiles, ProgressState, QueryIdentity, state_of
from lakesql.progress.stored import read_checkpoint
from lakesql.project.catalog import local_folder
from lakesql.project.profiles import Files, Kafka, Rate, Recorded
from lakesql.source.pattern import files_below

AHEAD_MS = 60_000
"""By how much a snapshot may be older than the one before it, for Iceberg to take it."""


def read_state(
    session: SparkSession,
    identity: QueryIdentity,
    sources: Sequence[Source],
    accept_data_loss: bool = False,
    moved: MovedFiles | None = None,
) -> ProgressState:
    """What the checkpoint and the table are now."""
    table = load_table(session, identity.table) if table_exists(session, identity.table) else None
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
    """Raise `RunError` (`table-ahead`) where Iceberg takes no commit of the table: it would be older than the last."""
    snapshot = table.currentSnapshot()
    if snapshot is None or snapshot.timestampMillis() - now_ms() < AHEAD_MS:
        return
    at = datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC).isoformat(timespec="seconds")
    raise RunError.of(
        "table-ahead",
        f"The newest snapshot of table {name} is of {at}, and by this machine's clock it is "
        f"{datetime.now(UTC).isoformat(timespec='seconds')}.",
    )


def read_sources(session: SparkSession, brokers: Brokers, bindings: Sequence[StreamBinding]) -> tuple[Source, ...]:
    """The streams as they are now; brokers are asked for their topics.

    Raises what `open_broker` raises, and `RunError` (`unknown-topic`).
    """
    return tuple(_read_source(session, brokers, binding) for binding in bindings)


def _read_source(session: SparkSession, brokers: Brokers, binding: StreamBinding) -> Source:
    name = binding.stream.name
    match binding.source:
        case Kafka() as connection:
            broker = brokers.of(session._jvm, connection)
            topics = broker.find_topics(binding.stream.origin, binding.stream.place)
            ids = {topic: found.id for topic, found in topics.items()}
            beginnings, ends = broker.beginning_offsets(topics.values()), broker.log_ends(topics.values())
            nothing = explain_no_records(binding.stream.origin, beginnings, ends)
            held = find_held(ends, broker.end_offsets(topics.values()))
            return Source(name, "kafka", ids, beginnings, ends, nothing=nothing, held=held)
        case Recorded(path=path):
            return _find_files(session, name, "recorded", files_below(path, binding.stream.origin.files))
        case Files(path=path):
            return _find_files(session, name, "files", files_below(path, binding.stream.origin.files))
        case Rate():
            return Source(name, "rate")
        case TableSource(table=table):
            found = load_table(session, table)
            history = tuple(read_history(found))
            rebuilt, is_cut = find_rebuilt(history)
            is_cut = is_cut or (not rebuilt and has_hidden_snapshots(found))
            at_ms = int(found.snapshot(rebuilt[0]).timestampMillis()) if rebuilt else None
            nothing = f"there is no row in {table} yet" if found.currentSnapshot() is None else ""
            known = frozenset(each.id for each in history)
            return Source(
                name,
                "table",
                rebuilt=rebuilt,
                rebuilt_ms=at_ms,
                is_cut=is_cut,
                nothing=nothing,
                formers=former_models(found),
                history=known,
                abandoned=find_abandoned(found, known),
            )
        case _:
            assert_never(binding.source)


def _find_files(session: SparkSession, name: str, kind: SourceKind, glob: str) -> Source:
    """A stream of files: whether there are any, and which are passed over."""
    try:
        is_empty = next(find_files(session, glob), None) is None
    except IllegalArgumentException as error:
        unlisted = unlisted_name(error)
        if unlisted is None:
            raise
        what = f"Hadoop does not list {find_unlisted(glob, unlisted)}, as its name has a colon."
        raise RunError.of("file-name", what, why="Nothing of its folder can be read.") from error
    nothing = explain_no_files(glob) if is_empty else ""
    local = local_folder(glob)
    hidden = local_hidden(str(local)) if local is not None else find_hidden(session, glob)
    return Source(name, kind, nothing=nothing, left_out=explain_hidden(hidden))


def read_topics(session: SparkSession, brokers: Brokers, bindings: Sequence[StreamBinding]) -> list[dict[str, str]]:
    """The ids of each stream's topics, as they are now."""
    return [
        brokers.of(session._jvm, binding.source).find_ids(binding.stream.origin, binding.stream.place)
        if isinstance(binding.source, Kafka)
        else {}
        for binding in bindings
    ]
