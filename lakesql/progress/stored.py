"""A checkpoint read from its files, from any storage, without a JVM.

The files are `metadata` (the id), `offsets/N` (the sources' positions after batch N,
written before the batch), `commits/N` (batch N is done) and `sources/I/…` (for a source
of files, the files that it has seen). lakesql adds `lakesql.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lakesql.progress.state import Batch, Checkpoint, Origin
from lakesql.source.stream_state import Position, StoredFiles

ORIGIN_FILE = "lakesql.json"

VOID = "-"
"""What `offsets/N` has for a source without a position."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """`StoredFiles` in a local folder."""

    folder: Path

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        file = self.folder / name
        return file.read_text("utf-8") if file.exists() else None

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; empty
        if it does not exist."""
        folder = self.folder / name
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def read_checkpoint(files: StoredFiles) -> Checkpoint | None:
    """The state of the checkpoint; None if there is none, or only the remains of an
    unfinished `create_checkpoint`."""
    names = files.names()
    origin_text = files.read(ORIGIN_FILE) if ORIGIN_FILE in names else None
    if "metadata" not in names and (
        origin_text is not None or not {"offsets", "commits"} & set(names)
    ):
        return None
    damages: list[str] = []
    origin = _guarded(
        lambda: _parse_origin(origin_text), f"{ORIGIN_FILE} cannot be read", damages
    )
    id_ = _guarded(
        lambda: _parse_id(files.read("metadata")), "metadata cannot be read", damages
    )
    planned, committed = (
        _numbers(files.names("offsets")),
        _numbers(files.names("commits")),
    )
    positions = {}
    for number in {max(planned, default=-1), max(committed, default=-1)} & planned:
        found = _guarded(
            partial(read_offsets, files, number),
            f"offsets/{number} cannot be read",
            damages,
        )
        if found is not None:
            positions[number] = tuple(found)
    if planned and not committed:
        sources = range(len(positions.get(max(planned), ())))
        start = [
            _guarded(
                partial(_read_start, files, n),
                f"sources/{n}/0 cannot be read",
                damages,
            )
            for n in sources
        ]
        positions[-1] = tuple(start)
    return Checkpoint(
        id_ or "", planned, committed, positions, origin, "; ".join(damages)
    )


def read_offsets(files: StoredFiles, batch: int) -> list[Position]:
    """The position of each source after `batch`, in the order of the query's sources;
    Spark writes them before the batch. Raises `ValueError` if there is none.

    The file has a line with the version, a line of metadata, then a line of JSON for
    each source.
    """
    lines = (files.read(f"offsets/{batch}") or "").splitlines()[2:]
    if not lines:
        raise ValueError(f"offsets/{batch} holds no position")
    return [None if line == VOID else json.loads(line) for line in lines]


def is_watermark_behind(files: StoredFiles, batch: int) -> bool:
    """Whether `batch` has moved the watermark, by the checkpoint's files. A stateful
    query may then make a batch without records, which drops the state that the
    watermark has passed. True also if the files do not tell."""
    try:
        planned = json.loads((files.read(f"offsets/{batch}") or "").splitlines()[1])
        committed = json.loads((files.read(f"commits/{batch}") or "").splitlines()[1])
        return int(planned["batchWatermarkMs"]) < int(committed["nextBatchWatermarkMs"])
    except (ValueError, LookupError, TypeError):
        return True


def _read_start(files: StoredFiles, source: int) -> Position:
    """The position at which a source of Kafka was to begin, which Spark records before
    the first batch; None for another kind of source."""
    version, _, position = (files.read(f"sources/{source}/0") or "").partition("\n")
    return json.loads(position) if version == "\0v1" else None


def _parse_id(text: str | None) -> str:
    return str(json.loads(text)["id"]) if text is not None else ""


def _parse_origin(text: str | None) -> Origin | None:
    if text is None:
        return None
    found = json.loads(text)
    follows = found.pop("follows")
    return Origin(
        **{
            **found,
            "streams": tuple(found["streams"]),
            "follows": Batch(**follows) if follows else None,
        }
    )


def _guarded(read: Callable[[], Any], damage: str, damages: list[str]) -> Any:
    """The result of `read`; if the content is unexpected, None, and `damage` is added
    to `damages`."""
    try:
        return read()
    except (ValueError, LookupError, TypeError, AttributeError):
        damages.append(damage)
        return None


def _numbers(names: Sequence[str]) -> frozenset[int]:
    return frozenset(int(name) for name in names if name.isdecimal())
