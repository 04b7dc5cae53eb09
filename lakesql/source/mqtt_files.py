"""The log of an MQTT topic filter's messages: files in a folder, named by the numbers
of their messages."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from lakesql.source.log import LogExpiredError


class MessageFile(NamedTuple):
    """A file of the log: the number of its first message, and the number after its
    last."""

    first: int
    end: int
    path: Path


class KeptMessage(NamedTuple):
    """A message in a file of the log; its payload is in base64, its time in
    microseconds since the epoch."""

    topic: str
    payload: str
    received_us: int
    headers: list[list[str]]


def log_files(folder: Path) -> list[MessageFile]:
    """The files of a log, in the order of their messages."""
    found = []
    for path in folder.glob("*.jsonl"):
        first, _, end = path.stem.partition("-")
        found.append(MessageFile(int(first), int(end), path))
    return sorted(found)


def last_files(files: Sequence[MessageFile]) -> Sequence[MessageFile]:
    """The newest files without a gap between them: somebody may have removed a file in
    the middle."""
    for at in range(len(files) - 1, 0, -1):
        if files[at - 1].end != files[at].first:
            return files[at:]
    return files


def log_end(folder: Path) -> int:
    """The number of the next message of a log."""
    files = log_files(folder)
    if files:
        return files[-1].end
    noted = folder / "end"
    return int(noted.read_text()) if noted.is_file() else 0


def read_lines(file: MessageFile) -> list[KeptMessage]:
    """The messages of a file. Raises `LogExpiredError` if it was removed."""
    try:
        with file.path.open("rb") as lines:
            return [KeptMessage(*json.loads(line)) for line in lines]
    except FileNotFoundError:
        raise LogExpiredError(
            f"file {file.path} of the log has just been removed."
        ) from None


def append_file(folder: Path, lines: Sequence[KeptMessage]) -> None:
    """Append messages to a log as a new file. They are on disk when it returns."""
    first = log_end(folder)
    path = folder / f"{first:020d}-{first + len(lines):020d}.jsonl"
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    _sync(folder)


def remove_old(folder: Path, before_ms: int) -> None:
    """Remove the oldest files, as far as they were written before `before_ms`. The
    number of the next message is preserved."""
    old = [
        *takewhile(
            lambda file: file.path.stat().st_mtime * 1000 < before_ms, log_files(folder)
        )
    ]
    if not old:
        return
    beside = folder / "end.new"
    beside.write_text(str(log_end(folder)))
    beside.rename(folder / "end")
    _sync(folder)
    for file in old:
        file.path.unlink()


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
