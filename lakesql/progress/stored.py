"""A checkpoint as its files have it, whatever they are read by. No JVM.

They are `metadata` (the id), `offsets/N` (where the sources stand after batch N, written before it), `commits/N`
(batch N is done) and `sources/I/…` (for a source of files, which files it has seen). lakesql adds `lakesql.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from lakesql.errors import RunError
from lakesql.progress.position import Position
from lakesql.progress.state import Batch, Checkpoint, Origin

ORIGIN_FILE = "lakesql.json"
LOOKED_AT = 100
"""How many of the files that were read last are looked for, to see whether they have moved."""

VOID = "-"
"""What stands in `offsets/N` for a source without a position."""


class StoredFiles(Protocol):
    """The files of one checkpoint, by their paths in it."""

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; none if it is not there."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """`StoredFiles` in a folder of this machine."""

    folder: Path

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""
        file = self.folder / name
        return file.read_text("utf-8") if file.exists() else None

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; none if it is not there."""
        folder = self.folder / name
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source has read: its URI as Spark writes it, and when it was changed."""

    path: str
    modified_ms: int

    @property
    def folder(self) -> str:
        """The name of the folder that it is in: a recorded topic's."""
        return unquote(self.path.rsplit("/", 2)[-2])

    @property
    def name(self) -> str:
        """The name of the file."""
        return unquote(self.path.rsplit("/", 1)[-1])


def read_checkpoint(files: StoredFiles) -> Checkpoint | None:
    """The checkpoint as it is; None if there is none, or only what an unfinished `create_checkpoint` has left."""
    names = files.names()
    origin_text = files.read(ORIGIN_FILE) if ORIGIN_FILE in names else None
    if "metadata" not in names and (origin_text is not None or not {"offsets", "commits"} & set(names)):
        return None
    damages: list[str] = []
    origin = _guarded(lambda: _parse_origin(origin_text), f"{ORIGIN_FILE} cannot be read", damages)
    id_ = _guarded(lambda: _parse_id(files.read("metadata")), "metadata cannot be read", damages)
    planned, committed = _numbers(files.names("offsets")), _numbers(files.names("commits"))
    positions = {}
    for number in {max(planned, default=-1), max(committed, default=-1)} & planned:
        found = _guarded(lambda n=number: read_offsets(files, n), f"offsets/{number} cannot be read", damages)  # type: ignore[misc]
        if found is not None:
            positions[number] = tuple(found)
    if planned and not committed:
        sources = range(len(positions.get(max(planned), ())))
        start = [_guarded(lambda n=n: _read_start(files, n), f"sources/{n}/0 cannot be read", damages) for n in sources]  # type: ignore[misc]
        positions[-1] = tuple(start)
    return Checkpoint(id_ or "", planned, committed, positions, origin, "; ".join(damages))


def read_offsets(files: StoredFiles, batch: int) -> list[Position]:
    """Where each source stands after `batch`, in the order of the query's sources: Spark writes it before the batch.

    The file is a version line, a line of metadata, then one line of JSON a source.
    """
    lines = (files.read(f"offsets/{batch}") or "").splitlines()[2:]
    if not lines:
        raise ValueError(f"offsets/{batch} holds no position")
    return [None if line == VOID else json.loads(line) for line in lines]


def is_watermark_behind(files: StoredFiles, batch: int) -> bool:
    """Whether `batch` has moved the watermark on, by what it has written into its files: a query that keeps state may
    make a batch without a record then, which lets go of what the watermark has passed. So too where they do not say."""
    try:
        planned = json.loads((files.read(f"offsets/{batch}") or "").splitlines()[1])
        committed = json.loads((files.read(f"commits/{batch}") or "").splitlines()[1])
        return int(planned["batchWatermarkMs"]) < int(committed["nextBatchWatermarkMs"])
    except (ValueError, LookupError, TypeError):
        return True


def read_seen(files: StoredFiles, source: int, first: int, last: int) -> list[SeenFile]:
    """The files that a source of files has read in its own batches `first` to `last`.

    Each of those is a file in `sources/<source>/`; every tenth is a `.compact` file with all before it too, and what it
    holds goes after a while. Raises `RunError` (`rewind-impossible`) where a part of the list is gone.
    """
    folder = f"sources/{source}"
    text = files.read(f"{folder}/{last}") if first == last else None
    if text is not None:
        return [file for _, file in _parse_seen(text)]
    names = files.names(folder)
    compacts = [int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")]
    newest = max((number for number in compacts if number <= last), default=-1)
    parts = [f"{newest}.compact"] if newest >= first else []
    parts += [str(number) for number in range(max(first, newest + 1), last + 1)]
    if not set(names).issuperset(parts):  # those before a later compact file are gone: it has them too
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
    """The files of the newest list of a source of files; none if it has read none, or reads something else."""
    lists = [name for name in files.names(f"sources/{source}") if name.removesuffix(".compact").isdecimal()]
    newest = max(lists, key=lambda name: int(name.removesuffix(".compact")), default=None)
    text = files.read(f"sources/{source}/{newest}") if newest else None
    return [file for _, file in _parse_seen(text)] if text and text.startswith("v1\n{") else []


def _read_start(files: StoredFiles, source: int) -> Position:
    """Where a source of Kafka was to begin: Spark notes that before the first batch. None of another source."""
    version, _, position = (files.read(f"sources/{source}/0") or "").partition("\n")
    return json.loads(position) if version == "\0v1" else None


def _parse_seen(text: str) -> Iterator[tuple[int, SeenFile]]:
    for line in text.splitlines()[1:]:
        entry = json.loads(line)
        yield int(entry["batchId"]), SeenFile(str(entry["path"]), int(entry["timestamp"]))


def _parse_id(text: str | None) -> str:
    return str(json.loads(text)["id"]) if text is not None else ""


def _parse_origin(text: str | None) -> Origin | None:
    if text is None:
        return None
    found = json.loads(text)
    follows = found.pop("follows")
    return Origin(**{**found, "streams": tuple(found["streams"]), "follows": Batch(**follows) if follows else None})


def _guarded(read: Callable[[], Any], damage: str, damages: list[str]) -> Any:
    """What `read` gives; where it finds something else than it expects, None, and `damage` is noted."""
    try:
        return read()
    except (ValueError, KeyError, TypeError):
        damages.append(damage)
        return None


def _numbers(names: Sequence[str]) -> frozenset[int]:
    return frozenset(int(name) for name in names if name.isdecimal())
