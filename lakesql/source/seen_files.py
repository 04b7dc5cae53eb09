"""The lists that Spark keeps in a checkpoint of the files that a source of files has
read. No JVM.

Each batch of the source is a file in `sources/I/`, and every tenth a `.compact` file
with all before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self
from urllib.parse import unquote

from lakesql.errors import RunError
from lakesql.source.pattern import without_scheme
from lakesql.source.source import BATCHES
from lakesql.source.stream_state import Position

LOOKED_AT = 100
"""How many of the files that were read last are looked for, to see whether they have
moved."""


class StoredFiles(Protocol):
    """The files of one checkpoint, by their paths in it."""

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; none if
        it is not there."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source has read: its URI as Spark writes it, and when it was
    changed."""

    path: str
    modified_ms: int

    @property
    def decoded(self) -> str:
        """Its path, as names stand on a disk: without a scheme, and with nothing
        escaped."""
        return unquote(without_scheme(self.path))

    @property
    def folder(self) -> str:
        """The name of the folder that it is in: a recorded topic's."""
        return unquote(self.path.rsplit("/", 2)[-2])

    @property
    def name(self) -> str:
        """The name of the file."""
        return unquote(self.path.rsplit("/", 1)[-1])


@dataclass(frozen=True, slots=True)
class SeededSource:
    """What a new checkpoint says of one source: where it stands, None for its start,
    and which files it has seen, in Spark's lists or, as `listed`, in those of lakesql's
    own."""

    position: Position = None
    seen: tuple[SeenFile, ...] = ()
    listed: tuple[SeenFile, ...] | None = None

    @classmethod
    def of(cls, seen: Sequence[SeenFile]) -> Self:
        """A source that has read these files; one that has read none is at its
        start."""
        return cls({BATCHES: 0}, tuple(seen)) if seen else cls()


def read_seen(files: StoredFiles, source: int, first: int, last: int) -> list[SeenFile]:
    """The files that a source of files has read in its own batches `first` to `last`.

    Each of those is a file in `sources/<source>/`; every tenth is a `.compact` file
    with all before it too, and what it holds goes after a while. Raises `RunError`
    (`rewind-impossible`) where a part of the list is gone.
    """
    folder = f"sources/{source}"
    text = files.read(f"{folder}/{last}") if first == last else None
    if text is not None:
        return [file for _, file in _parse_seen(text)]
    names = files.names(folder)
    compacts = [
        int(name.removesuffix(".compact"))
        for name in names
        if name.endswith(".compact")
    ]
    newest = max((number for number in compacts if number <= last), default=-1)
    parts = [f"{newest}.compact"] if newest >= first else []
    parts += [str(number) for number in range(max(first, newest + 1), last + 1)]
    # those before a later compact file are gone: it has them too
    if not set(names).issuperset(parts):
        later = min((number for number in compacts if number > last), default=None)
        if later is None:
            raise RunError.of(
                "rewind-impossible",
                f"The list of the files that batches up to {last} have read is gone from {folder}/ of the checkpoint.",
                fix="Name a time, `--to TIME`, or read all again, `--to start`; in mode append drop the table first.",
            )
        parts = [f"{later}.compact"]
    found = {}
    for name in parts:
        for number, file in _parse_seen(files.read(f"{folder}/{name}") or ""):
            if first <= number <= last:
                found[file.path] = file
    return list(found.values())


def newest_seen(files: StoredFiles, source: int) -> list[SeenFile]:
    """The files of the newest list of a source of files; none if it has read none, or
    reads something else."""
    lists = [
        name
        for name in files.names(f"sources/{source}")
        if name.removesuffix(".compact").isdecimal()
    ]
    newest = max(
        lists, key=lambda name: int(name.removesuffix(".compact")), default=None
    )
    text = files.read(f"sources/{source}/{newest}") if newest else None
    return (
        [file for _, file in _parse_seen(text)]
        if text and text.startswith("v1\n{")
        else []
    )


def _parse_seen(text: str) -> Iterator[tuple[int, SeenFile]]:
    for line in text.splitlines()[1:]:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError(f"{line} is no file of a batch")
        yield (
            int(entry["batchId"]),
            SeenFile(str(entry["path"]), int(entry["timestamp"])),
        )
