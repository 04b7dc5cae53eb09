"""From a model's checkpoint, its table's ledger and its sources, as they are now, to
the progress that its query continues with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import assert_never

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
    create_checkpoint,
    forget_start,
    save_origin,
)
from lakesql.engine.progress.progress import QueryProgress
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.spark_sources import spark_source
from lakesql.errors import ProjectError, RunError
from lakesql.model.table_name import TableName
from lakesql.progress.position import topic_ids
from lakesql.progress.state import (
    Decision,
    Fresh,
    MovedFiles,
    Origin,
    ProgressState,
    QueryIdentity,
    Resume,
    StartFrom,
    newest_batch,
    state_of,
)
from lakesql.progress.stored import read_checkpoint
from lakesql.progress.topics import next_positions
from lakesql.source.known_files import knows_all, read_known
from lakesql.source.source import Start
from lakesql.source.stream_state import SeededSource, SeenFile, SourceState, read_seen
from lakesql.stream.stream import Stream

AHEAD_MS = 60_000
"""By how much a snapshot may be older than the one before it, for Iceberg to take
it."""


def read_state(
    session: SparkSession,
    identity: QueryIdentity,
    sources: Sequence[SourceState],
    accept_data_loss: bool = False,
    moved: MovedFiles | None = None,
) -> ProgressState:
    """What the checkpoint and the table are now."""
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
    """Raise `RunError` (`table-ahead`) where Iceberg takes no commit of the table: it
    would be older than the last."""
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
    """The streams as they are now; brokers are asked for their topics.

    Raises what `open_broker` raises, and `RunError` (`unknown-topic`).
    """
    return tuple(
        spark_source(binding.source).state_now(session, binding, brokers)
        for binding in bindings
    )


def read_topics(
    session: SparkSession, brokers: Brokers, bindings: Sequence[StreamBinding]
) -> list[Mapping[str, str]]:
    """The ids of each stream's topics, as they are now."""
    return [
        spark_source(binding.source).topic_ids(session, binding, brokers)
        for binding in bindings
    ]


def open_progress(
    session: SparkSession,
    brokers: Brokers,
    identity: QueryIdentity,
    state: ProgressState,
    decision: Decision,
    bindings: Sequence[StreamBinding],
    query_hash: str,
) -> QueryProgress:
    """Do what was decided: continue with the checkpoint, or make one. The table is
    there by now."""
    files = CheckpointFiles(session, identity.folder)
    now = new_origin(state, id_of(session, identity.table))
    checkpoint, entry = state.checkpoint, state.entry
    last, positions, planned_before = -1, {}, -1
    match decision:
        case Fresh():
            origin = now
            id_ = create_checkpoint(files, origin)
        case StartFrom() as start:
            origin, seeded = seed(
                session,
                start,
                now,
                bindings,
                files,
                checkpoint.origin if checkpoint else None,
            )
            id_ = create_checkpoint(files, origin, seeded)
        case Resume(last=last):
            assert checkpoint is not None
            id_, origin = checkpoint.id, checkpoint.origin or now
            planned_before = checkpoint.newest_planned
            if not origin.table_id or checkpoint.origin is None:
                origin = replace(origin, table_id=now.table_id)
                save_origin(files, origin)
            forget_start(files, checkpoint)
            if entry is not None and entry.checkpoint == id_:
                positions = entry.positions
        case _:
            assert_never(decision)
    look = partial(read_topics, session, brokers, tuple(bindings))
    return QueryProgress(
        session,
        identity,
        id_,
        origin,
        state.sources,
        look,
        query_hash,
        last,
        positions,
        planned_before,
    )


def seed(
    session: SparkSession,
    start: StartFrom,
    now: Origin,
    bindings: Sequence[StreamBinding],
    old: CheckpointFiles,
    old_origin: Origin | None,
) -> tuple[Origin, tuple[SeededSource, ...]]:
    """A checkpoint that continues where `start` says. `old` is the one that it
    replaces: it knows what it has seen."""
    streams = old_origin.streams if old_origin else now.streams
    seeded = tuple(_seed(session, binding, start, old, streams) for binding in bindings)
    is_started = any(found.position is not None for found in seeded)
    origin = replace(
        now,
        follows=start.follows,
        accepted=start.accepted,
        start_ms=start.start_ms,
        empty_through=0 if is_started else -1,
        is_seeded=is_started,
    )
    return origin, seeded


def check_starts(
    state: ProgressState,
    decision: Decision,
    bindings: Sequence[StreamBinding],
    at_ms: int,
) -> None:
    """Raise `ProjectError` (`bad-start`) where a topic is to be read from a time on
    that is still to come at `at_ms`.

    Of a partition without a record of that time or later Kafka has no such place, and
    its end is taken.
    """
    positions = next_positions(state, decision)
    origin = (
        state.checkpoint.origin
        if state.checkpoint and isinstance(decision, Resume)
        else None
    )
    start_ms = (
        decision.start_ms
        if isinstance(decision, StartFrom)
        else origin.start_ms
        if origin
        else None
    )
    for binding in bindings:
        stream, start = binding.stream, _start_of(binding.stream, start_ms)
        if (
            binding.source.looks_up_start
            and isinstance(start, datetime)
            and start.timestamp() * 1000 > at_ms
            and not positions.get(stream.name)
        ):
            raise ProjectError.of(
                "bad-start",
                f"Stream '{stream.name}' starts at {start.isoformat()}, which is still to come.",
                why="No topic has a record of that time yet, so it would be read from its end on: every record that "
                "arrives from now on, whatever its time.",
                fix="Give a time that has passed, or `latest` to read what arrives from now on, or run the model when "
                "that time has come.",
                place=stream.place,
            )


def restart(
    bindings: Sequence[StreamBinding], progress: QueryProgress
) -> tuple[StreamBinding, ...]:
    """The bindings as they are read now: the time of `lakesql rewind --to` stands in
    the place of `start`, and a table that was rebuilt is read from there on."""
    since = {source.name: source.rebuilt_ms for source in progress.sources}
    start_ms = progress.origin.start_ms
    return tuple(
        replace(
            binding,
            source=binding.source.rebuilt_since(since.get(binding.stream.name)),
            stream=replace(binding.stream, start=_start_of(binding.stream, start_ms)),
        )
        for binding in bindings
    )


def _start_of(stream: Stream, start_ms: int | None) -> Start:
    """Where a stream begins: the time of `lakesql rewind --to` stands in the place of
    its `start`."""
    return (
        stream.start
        if start_ms is None
        else datetime.fromtimestamp(start_ms / 1000, UTC)
    )


def id_of(session: SparkSession, table: TableName) -> str:
    """The table's UUID, empty where there is none."""
    return table_id(load_table(session, table)) if table_exists(session, table) else ""


def new_origin(state: ProgressState, table_id: str) -> Origin:
    """What a checkpoint that is made now is made for."""
    return Origin(
        model=state.owner,
        table_id=table_id,
        streams=tuple(source.name for source in state.sources),
        state=state.shape,
        follows=newest_batch(state.entry),
        topics=topic_ids(state.sources),
    )


def _seed(
    session: SparkSession,
    binding: StreamBinding,
    start: StartFrom,
    old: CheckpointFiles,
    old_streams: tuple[str, ...],
) -> SeededSource:
    name = binding.stream.name
    seen: Callable[[int], Sequence[SeenFile]] | None = None
    if binding.source.is_planned:
        seen = partial(read_known, old) if knows_all(old) else None
    elif name in old_streams:
        seen = partial(read_seen, old, old_streams.index(name), 0)

    return spark_source(binding.source).seed(
        session, binding, start.positions.get(name), start.start_ms, seen
    )
