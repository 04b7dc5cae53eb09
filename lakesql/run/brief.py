"""Whether a run is over before code that is compiled well would pay: few records, and no tables but new ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lakesql.engine.sources.globs import possible_files
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.progress.position import Source
from lakesql.project.catalog import local_folder
from lakesql.project.profiles import Connection, Files, Kafka, Recorded, checkpoint_of
from lakesql.run.topics import read_topics
from lakesql.source.pattern import files_below
from lakesql.stream.stream import Stream

FEW_RECORDS = 300_000
"""How many records of topics a brief run may have to read. At some 700,000 Java's better compiler has paid."""

FEW_BYTES = 100_000_000
"""How large the files may be that it reads, as text."""

TEXT_OF_PACKED = 10
"""How many bytes of text a byte of a file may stand for that is no text, or compressed."""


def is_brief(manifest: Manifest, models: Collection[str]) -> bool:
    """Whether a run of these models that takes what is there fills new tables from few records.

    False where that is not known: a broker is asked only by a client that needs no Java. A model has a new table if it
    has no checkpoint yet. What it joins may be large, so it joins nothing but streams, and models that run with it.
    """
    facts = [manifest.models[name].facts for name in models]
    read = {found.name for each in facts for found in each.streams}
    streams = [manifest.streams[name] for name in read if name in manifest.streams]
    folders = [local_folder(checkpoint_of(manifest.target, name)) for name in models]
    if (
        any(folder is None or folder.exists() for folder in folders)
        or any(each.refs for each in facts)
        or not read <= {*manifest.streams, *models}
    ):
        return False
    try:
        return _are_few_bytes(manifest, streams) and _are_few_records(manifest.target.connections, streams)
    except (LakesqlError, OSError, ValueError):
        return False  # what is wrong is said by the run itself


def _are_few_bytes(manifest: Manifest, streams: Sequence[Stream]) -> bool:
    size = 0
    for stream in streams:
        here = Files(str(manifest.directory))
        match manifest.target.connections.get(stream.connection) if stream.connection else here:
            case Recorded(path=path) | Files(path=path) if (folder := local_folder(path)) is not None:
                size += sum(map(_text_bytes, possible_files(files_below(str(folder), stream.origin.files))))
            case Kafka():
                pass
            case _:
                return False
    return size <= FEW_BYTES


def _text_bytes(file: Path) -> int:
    return file.stat().st_size * (1 if file.suffix in (".jsonl", ".json", ".csv", ".txt") else TEXT_OF_PACKED)


def _are_few_records(connections: Mapping[str, Connection], streams: Sequence[Stream]) -> bool:
    topics = [stream for stream in streams if isinstance(connections.get(stream.connection), Kafka)]
    found, _ = read_topics(connections, topics)
    sources = [found[stream.name].source for stream in topics if stream.name in found]
    return len(sources) == len(topics) and sum(map(_count_held, sources)) <= FEW_RECORDS


def _count_held(source: Source) -> int:
    return sum(
        end - source.beginnings[topic][number] for topic, ends in source.ends.items() for number, end in ends.items()
    )
