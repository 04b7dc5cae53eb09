"""How a new checkpoint begins: what it is created for, and where its streams start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import (
    load_table,
    table_exists,
    table_id,
)
from lakesql.engine.progress.checkpoint import (
    CheckpointFiles,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.spark_sources import spark_source
from lakesql.model.table_name import TableName
from lakesql.progress.position import topic_ids
from lakesql.progress.state import (
    Origin,
    ProgressState,
    StartFrom,
    newest_batch,
)
from lakesql.source.known_files import knows_all, read_known
from lakesql.source.stream_state import SeededSource, SeenFile, read_seen


def seed(
    session: SparkSession,
    start: StartFrom,
    now: Origin,
    bindings: Sequence[StreamBinding],
    old: CheckpointFiles,
    old_origin: Origin | None,
) -> tuple[Origin, tuple[SeededSource, ...]]:
    """The origin and the positions of a checkpoint that continues where `start` says.
    `old` is the checkpoint that it replaces, which lists the files that were read."""
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


def id_of(session: SparkSession, table: TableName) -> str:
    """The table's UUID, empty if it does not exist."""
    return table_id(load_table(session, table)) if table_exists(session, table) else ""


def new_origin(state: ProgressState, table_id: str) -> Origin:
    """What a checkpoint that is created now is for."""
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
