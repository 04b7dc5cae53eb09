"""Whether files that a stream moves or deletes after reading are read by others too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lakesql.errors import Problem
from lakesql.model.model import Model
from lakesql.project.profiles import Target
from lakesql.source.kinds import project_files
from lakesql.source.pattern import may_share
from lakesql.stream.stream import Stream


def check_shared_files(
    target: Target,
    models: Iterable[Model],
    streams: Mapping[str, Stream],
    directory: Path,
) -> Iterator[Problem]:
    """Problems (`files-shared`) of files that one model moves or deletes, and that
    another model reads, or the same model by another stream.

    The files of a stream depend on its connection on this target; the project is in
    `directory`. Two patterns that may match the same file count as sharing it.
    """
    readers: dict[str, list[str]] = {}
    for model in models:
        for reference in model.facts.streams:
            readers.setdefault(reference.name, []).append(model.name)
    if all(stream.after == "leave" for stream in streams.values()):
        return
    globs = {
        name: _glob(target, streams[name], directory)
        for name in readers
        if name in streams
    }
    for name, glob in globs.items():
        stream = streams[name]
        if stream.after == "leave" or glob is None:
            continue
        sharing = [
            other
            for other, its in globs.items()
            if its is not None and (other == name or may_share(glob, its))
        ]
        every = [
            (model, other)
            for other in sharing
            for model in dict.fromkeys(readers[other])
        ]
        others = [each for each in every if each != (readers[name][0], name)]
        if others:
            does = "moves" if stream.after == "archive" else "deletes"
            said = ", ".join(
                f"model '{model}' (stream '{other}')" for model, other in others
            )
            yield Problem(
                "files-shared",
                f"Stream '{name}' {does} its files once model '{readers[name][0]}' has their records, and they are "
                f"read by {said} too.",
                "Each would miss files that are gone before it has read them.",
                "Let one model read them, in mode `append`, and the others stream its table; or write `after: leave`.",
                stream.place,
            )


def _glob(target: Target, stream: Stream, directory: Path) -> str | None:
    """The pattern of a stream's files on this target; None if the stream reads no
    files."""
    if stream.origin.brings != "files":
        return None
    if not stream.connection:
        return project_files(str(directory)).files(stream.origin)
    connection = target.connections.get(stream.connection)
    return connection.files(stream.origin) if connection is not None else None
