"""Decides whether a run is so short that Java's optimizing compiler would not pay off:
few records, and only new tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.location import local_folder
from lakesql.run.streams.ask_sources import read_topics
from lakesql.source.kinds import project_files
from lakesql.source.local_files import possible_files
from lakesql.source.source import Source
from lakesql.source.stream_state import SourceState
from lakesql.stream.stream import Stream

FEW_RECORDS = 300_000
"""The most records that a short run may read from topics. From some 700,000 on, Java's
optimizing compiler pays off."""

FEW_BYTES = 100_000_000
"""The most bytes, as text, of the files that a short run may read."""

TEXT_OF_PACKED = 10
"""How many bytes of text one byte of a binary or compressed file is taken to hold."""


def is_brief(manifest: Manifest, models: Collection[str]) -> bool:
    """Whether a run of these models that reads what has arrived fills only new tables,
    from so few records that Java's optimizing compiler would not pay off.

    False if that is not known: brokers are asked only by clients that need no Java. A
    model without a checkpoint is taken to have a new table. False if a model joins a
    table, as that may be large; a table read as a stream must be that of a model in the
    same run.
    """
    facts = [manifest.models[name].facts for name in models]
    read = {found.name for each in facts for found in each.streams}
    streams = [manifest.streams[name] for name in read if name in manifest.streams]
    folders = [local_folder(manifest.target.checkpoint_of(name)) for name in models]
    if (
        any(folder is None or folder.exists() for folder in folders)
        or any(each.refs for each in facts)
        or not read <= {*manifest.streams, *models}
    ):
        return False
    try:
        return _are_few_bytes(manifest, streams) and _are_few_records(manifest, streams)
    except (LakesqlError, OSError, ValueError):
        return False  # what is wrong is said by the run itself


def _are_few_bytes(manifest: Manifest, streams: Sequence[Stream]) -> bool:
    size = 0
    for stream in streams:
        source = _source_of(manifest, stream)
        glob = source.files(stream.origin) if source is not None else None
        if glob is None:
            continue
        place = local_folder(glob)
        if place is None:
            return False
        size += sum(map(_text_bytes, possible_files(str(place))))
    return size <= FEW_BYTES


def _source_of(manifest: Manifest, stream: Stream) -> Source | None:
    if not stream.connection:
        return project_files(str(manifest.directory))
    return manifest.target.connections.get(stream.connection)


def _text_bytes(file: Path) -> int:
    return file.stat().st_size * (
        1 if file.suffix in (".jsonl", ".json", ".csv", ".txt") else TEXT_OF_PACKED
    )


def _are_few_records(manifest: Manifest, streams: Sequence[Stream]) -> bool:
    """Whether the streams that are read from topics have few records. False if a number
    is unknown."""
    sources = ((stream, _source_of(manifest, stream)) for stream in streams)
    others = [
        stream
        for stream, source in sources
        if source is None or source.files(stream.origin) is None
    ]
    found, _ = read_topics(manifest.target.connections, others)
    states = [found[stream.name].source for stream in others if stream.name in found]
    return len(states) == len(others) and sum(map(_count_held, states)) <= FEW_RECORDS


def _count_held(source: SourceState) -> int:
    return sum(
        end - source.beginnings[topic][number]
        for topic, ends in source.ends.items()
        for number, end in ends.items()
    )
