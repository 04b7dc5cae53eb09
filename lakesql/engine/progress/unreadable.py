"""Which files a query has set aside as nobody can read them, noted in its checkpoint by
the batch that has them.

They are noted before the batch is written, so that it leaves out the same files however
often it is tried.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.binding import StreamBinding

_FOLDER = "unreadable"


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file of a stream's that cannot be read: its path without a scheme, its URI,
    when it was changed, and why."""

    stream: str
    path: str
    uri: str
    modified_ms: int
    why: str


def note_unreadable(
    session: SparkSession, folder: str, batch: int, found: Sequence[UnreadableFile]
) -> None:
    """Note files of a batch beside those that are noted."""
    noted = [*read_unreadable(session, folder, batch), *found]
    CheckpointFiles(session, folder).write(
        f"{_FOLDER}/{batch}", json.dumps([asdict(each) for each in noted])
    )


def read_unreadable(
    session: SparkSession, folder: str, batch: int
) -> list[UnreadableFile]:
    """The files of a batch that are noted."""
    return _read(CheckpointFiles(session, folder), str(batch))


def unreadable_paths(files: CheckpointFiles) -> set[str]:
    """The paths of all files that are noted in a checkpoint."""
    return {
        each.path
        for name in filter(str.isdecimal, files.names(_FOLDER))
        for each in _read(files, name)
    }


def without_unreadable(
    session: SparkSession, folder: str, bindings: tuple[StreamBinding, ...]
) -> tuple[StreamBinding, ...]:
    """The streams without the files that are noted of batches to come.

    What is noted of others is removed, unless a stream takes its files away: these are
    to stay.
    """
    if not any(binding.sets_aside for binding in bindings):
        return bindings
    files = CheckpointFiles(session, folder)
    done = max(
        (int(name) for name in files.names("commits") if name.isdecimal()), default=-1
    )
    noted = list[UnreadableFile]()
    for name in filter(str.isdecimal, files.names(_FOLDER)):
        if int(name) > done:
            noted += _read(files, name)
        elif all(binding.stream.after == "leave" for binding in bindings):
            files.remove(f"{_FOLDER}/{name}")
    paths = {binding.stream.name: list[str]() for binding in bindings}
    for each in noted:
        paths[each.stream].append(each.path)
    return tuple(
        replace(binding, set_aside=tuple(paths[binding.stream.name]))
        for binding in bindings
    )


def _read(files: CheckpointFiles, name: str) -> list[UnreadableFile]:
    return [
        UnreadableFile(**each)
        for each in json.loads(files.read(f"{_FOLDER}/{name}") or "[]")
    ]
