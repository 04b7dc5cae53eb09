"""Where a model's query continues, from its checkpoint and its table's ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import assert_never

from pyspark.sql import SparkSession

from lakesql.engine.progress.begin import id_of, new_origin, seed
from lakesql.engine.progress.checkpoint import (
    CheckpointFiles,
    create_checkpoint,
    forget_start,
    save_origin,
)
from lakesql.engine.progress.inspect import read_topics
from lakesql.engine.progress.progress import QueryProgress
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.errors import ProjectError
from lakesql.progress.state import (
    Decision,
    Fresh,
    ProgressState,
    QueryIdentity,
    Resume,
    StartFrom,
)
from lakesql.progress.topics import next_positions
from lakesql.source.source import Start
from lakesql.stream.stream import Stream


def open_progress(
    session: SparkSession,
    brokers: Brokers,
    identity: QueryIdentity,
    state: ProgressState,
    decision: Decision,
    bindings: Sequence[StreamBinding],
    query_hash: str,
) -> QueryProgress:
    """The progress of a query after carrying out the decision: its checkpoint is
    continued, or one is created. The table exists already."""
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


def check_starts(
    state: ProgressState,
    decision: Decision,
    bindings: Sequence[StreamBinding],
    at_ms: int,
) -> None:
    """Raise `ProjectError` (`bad-start`) if a topic is to be read from a time that is
    after `at_ms`.

    Kafka has no offset for a partition without a record of that time or later, and its
    end would be used instead.
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
    """The bindings as they are read now: the time of `lakesql rewind --to` replaces
    `start`, and a table that was rebuilt is read from then on."""
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
    """Where a stream begins: the time of `lakesql rewind --to`, otherwise its
    `start`."""
    return (
        stream.start
        if start_ms is None
        else datetime.fromtimestamp(start_ms / 1000, UTC)
    )
