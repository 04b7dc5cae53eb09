"""From a model's checkpoint and its table's ledger to the progress that its query goes on with."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import assert_never

from pyspark.sql import SparkSession

from lakesql.engine.checkpoint import (
    CheckpointFiles,
    Planted,
    SeenFile,
    create_checkpoint,
    list_files,
    read_checkpoint,
    read_seen,
    save_origin,
)
from lakesql.engine.facts import Decision, Facts, Fresh, Origin, Resume, StartFrom, newest_batch
from lakesql.engine.iceberg import load_table, read_entry, read_history, table_exists, table_id
from lakesql.engine.kafka import Brokers
from lakesql.engine.position import THROUGH, Position, Source, topic_ids
from lakesql.engine.progress import Home, Progress
from lakesql.engine.source import Reading, TableSource, escape_glob
from lakesql.model.table import TableName
from lakesql.project.profiles import Files, Kafka, Rate, Recorded
from lakesql.stream.stream import FilePath


def read_facts(session: SparkSession, home: Home, sources: Sequence[Source], accept_data_loss: bool = False) -> Facts:
    """What the checkpoint and the table are now."""
    table = load_table(session, home.table) if table_exists(session, home.table) else None
    head = next(read_history(table), None) if table is not None else None
    entry = read_entry(table, home.owner) if table is not None else None
    oldest = None
    if table is not None and entry is None and not home.has_tag:
        oldest = next(iter(deque(read_history(table), maxlen=1)), None)
    return Facts(
        model=home.model,
        owner=home.owner,
        table=str(home.table),
        table_id=table_id(table) if table is not None else "",
        folder=home.folder,
        sources=tuple(sources),
        state=home.state,
        checkpoint=read_checkpoint(CheckpointFiles(session, home.folder)),
        entry=entry,
        is_keyed=home.is_keyed,
        has_rows=head is not None and not head.is_empty,
        is_companion=home.is_companion,
        may_be_forgotten=oldest is not None and oldest.parent is not None,
        accept_data_loss=accept_data_loss,
    )


def read_sources(session: SparkSession, brokers: Brokers, readings: Sequence[Reading]) -> tuple[Source, ...]:
    """The streams as they are now; brokers are asked for their topics.

    Raises what `open_broker` raises, and `RunError` (`unknown-topic`).
    """
    return tuple(_read_source(session, brokers, reading) for reading in readings)


def _read_topics(session: SparkSession, brokers: Brokers, readings: Sequence[Reading]) -> list[dict[str, str]]:
    """The ids of each stream's topics, as they are now."""
    return [
        brokers.of(session._jvm, reading.source).find_ids(reading.stream.origin, reading.stream.place)
        if isinstance(reading.source, Kafka)
        else {}
        for reading in readings
    ]


def open_progress(
    session: SparkSession,
    brokers: Brokers,
    home: Home,
    facts: Facts,
    decision: Decision,
    readings: Sequence[Reading],
    query_hash: str,
) -> Progress:
    """Do what was decided: go on with the checkpoint, or make one. The table is there by now."""
    files = CheckpointFiles(session, home.folder)
    now = new_origin(facts, id_of(session, home.table))
    checkpoint, entry = facts.checkpoint, facts.entry
    last, positions = -1, {}
    match decision:
        case Fresh():
            origin = now
            id_ = create_checkpoint(files, origin)
        case StartFrom() as start:
            origin, planted = plant(session, start, now, readings, files, checkpoint.origin if checkpoint else None)
            id_ = create_checkpoint(files, origin, planted)
        case Resume(last=last):
            assert checkpoint is not None
            id_, origin = checkpoint.id, checkpoint.origin or now
            if not origin.table_id or checkpoint.origin is None:
                origin = replace(origin, table_id=now.table_id)
                save_origin(files, origin)
            if entry is not None and entry.checkpoint == id_:
                positions = entry.positions
        case _:
            assert_never(decision)
    look = partial(_read_topics, session, brokers, tuple(readings))
    return Progress(session, home, id_, origin, facts.sources, look, query_hash, last, positions)


def plant(
    session: SparkSession,
    start: StartFrom,
    now: Origin,
    readings: Sequence[Reading],
    old: CheckpointFiles,
    old_origin: Origin | None,
) -> tuple[Origin, tuple[Planted, ...]]:
    """A checkpoint that goes on where `start` says. `old` is the one that it replaces: it knows what it has seen."""
    streams = old_origin.streams if old_origin else now.streams
    planted = tuple(_plant(session, reading, start, old, streams) for reading in readings)
    is_started = any(found.position is not None for found in planted)
    origin = replace(
        now,
        follows=start.follows,
        accepted=start.accepted,
        start_ms=start.start_ms,
        empty_through=0 if is_started else -1,
    )
    return origin, planted


def restart(readings: Sequence[Reading], progress: Progress) -> tuple[Reading, ...]:
    """The readings as the checkpoint starts them: `lakesql rewind --to TIME` stands in the place of `start`."""
    start_ms = progress.origin.start_ms
    if start_ms is None:
        return tuple(readings)
    start = datetime.fromtimestamp(start_ms / 1000, UTC)
    return tuple(replace(reading, stream=replace(reading.stream, start=start)) for reading in readings)


def id_of(session: SparkSession, table: TableName) -> str:
    """The table's UUID, empty where there is none."""
    return table_id(load_table(session, table)) if table_exists(session, table) else ""


def new_origin(facts: Facts, table_id: str) -> Origin:
    """What a checkpoint that is made now is made for."""
    return Origin(
        model=facts.owner,
        table_id=table_id,
        streams=tuple(source.name for source in facts.sources),
        state=facts.state,
        follows=newest_batch(facts.entry),
        topics=topic_ids(facts.sources),
    )


def _read_source(session: SparkSession, brokers: Brokers, reading: Reading) -> Source:
    name = reading.stream.name
    match reading.source:
        case Kafka() as connection:
            broker = brokers.of(session._jvm, connection)
            topics = broker.find_topics(reading.stream.origin, reading.stream.place)
            ids = {topic: found.id for topic, found in topics.items()}
            return Source(
                name, "kafka", ids, broker.beginning_offsets(topics.values()), broker.log_ends(topics.values())
            )
        case Recorded():
            return Source(name, "recorded")
        case Files():
            return Source(name, "files")
        case Rate():
            return Source(name, "rate")
        case TableSource():
            return Source(name, "table")
        case _:
            assert_never(reading.source)


def _plant(
    session: SparkSession, reading: Reading, start: StartFrom, old: CheckpointFiles, old_streams: tuple[str, ...]
) -> Planted:
    name = reading.stream.name
    position = start.positions.get(name)
    match reading.source:
        case Kafka() | TableSource():
            return Planted(position or None)
        case Recorded(path=path) if position is not None and THROUGH in position:
            return _planted(_recorded_through(session, path, position))
        case Recorded() | Files() if position is not None and name in old_streams:
            return _planted(read_seen(old, old_streams.index(name), 0, position["logOffset"]))
        case Files(path=path) if start.start_ms is not None and isinstance(reading.stream.origin, FilePath):
            files = list_files(session, f"{path}/{reading.stream.origin.path}")
            return _planted([file for file in files if file.modified_ms < start.start_ms])
        case _:
            return Planted()


def _planted(seen: Sequence[SeenFile]) -> Planted:
    return Planted({"logOffset": 0}, tuple(seen)) if seen else Planted()


def _recorded_through(session: SparkSession, base: str, position: Position) -> list[SeenFile]:
    """The files of each topic up to the last one that was read: a topic is read in the order of their names."""
    return [
        file
        for topic, last in position[THROUGH].items()
        for file in list_files(session, f"{base}/{escape_glob(topic)}/*.jsonl")
        if file.name <= last
    ]
