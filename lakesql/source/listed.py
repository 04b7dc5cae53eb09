"""For sources that are files in folders: which local files exist, and which of them
have been read."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from lakesql.location import local_folder
from lakesql.source.local_files import local_hidden, possible_files
from lakesql.source.stream_state import (
    BATCHES,
    LOOKED_AT,
    Position,
    StoredFiles,
    newest_seen,
    read_seen,
)
from lakesql.source.unread import explain_hidden


def hidden_below(glob: str | None) -> str:
    """The sentence on local files that match a pattern and are skipped; '' if there are
    none."""
    place = local_folder(glob) if glob is not None else None
    return explain_hidden(local_hidden(str(place))) if place is not None else ""


def are_files_read(
    glob: str | None,
    number: int,
    position: Position,
    files: StoredFiles,
    *,
    are_taken: bool = False,
) -> bool:
    """Whether the lists of the source `number` contain all local files of a pattern,
    unchanged.

    One of the last read files must exist, as otherwise they may have been moved. If
    files `are_taken` away once they are read, none must be left.
    """
    place = local_folder(glob) if glob is not None else None
    last: Any = position.get(BATCHES) if isinstance(position, dict) else None
    if place is None or not isinstance(last, int):
        return False
    lists = [name.removesuffix(".compact") for name in files.names(f"sources/{number}")]
    if max((int(name) for name in lists if name.isdecimal()), default=None) != last:
        return False  # a list that no batch was planned for is read first
    seen = {
        _path(file.path): file.modified_ms for file in read_seen(files, number, 0, last)
    }
    there = {
        str(found): found.stat().st_mtime_ns // 1_000_000
        for found in possible_files(str(place))
    }
    if are_taken:
        return not there
    newest = newest_seen(files, number)[-LOOKED_AT:]
    return seen.items() >= there.items() and any(
        _path(file.path) in there for file in newest
    )


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path)
