"""A file of what was worked out before, each entry under a key of everything that it
depends on.

A cache is never needed and never wrong: one that cannot be read, that somebody has
changed, or that another lakesql has written, is empty; an entry whose key is not the
asked one is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lakesql import __version__
from lakesql.project.files import write_atomically


class CacheFile:
    """The entries of one file in JSON, by name. What is put in lands in the file with
    `save`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = _writer()
        self.version = ""
        """Another one for any other entries that were loaded or saved."""
        self._entries = self._load()
        self._changed = False

    def get(self, name: str, key: str) -> Any | None:
        """The entry of `name` if it was put in under `key`."""
        entry = self._entries.get(name)
        return entry[1] if entry is not None and entry[0] == key else None

    def put(self, name: str, key: str, value: Any) -> None:
        """Keep `value`, anything that JSON has, in the place of the entry that `name`
        had."""
        self._entries[name] = [key, value]
        self._changed = True

    def save(self, names: Collection[str]) -> None:
        """Write the entries of `names`, and forget the others. A folder that takes no
        file loses the cache only."""
        gone = self._entries.keys() - set(names)
        if not self._changed and not gone:
            return
        for name in gone:
            del self._entries[name]
        entries = json.dumps(self._entries, separators=(",", ":"))
        self.version = _head(self._writer, entries)
        with contextlib.suppress(OSError):
            write_atomically(self._path, f"{self.version}\n{entries}")

    def _load(self) -> dict[str, list[Any]]:
        try:
            head, _, entries = self._path.read_bytes().decode().partition("\n")
        except (OSError, UnicodeDecodeError):
            return {}
        if head != _head(self._writer, entries):
            return {}
        self.version = head
        found: dict[str, list[Any]] = json.loads(entries)
        return found


def _head(writer: str, entries: str) -> str:
    return f"{writer} {digest(entries)}"


def digest(*parts: str) -> str:
    """A short name for `parts`, another one for any other parts."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(encoded))
        hashed.update(encoded)
    return hashed.hexdigest()


@cache
def _writer() -> str:
    """Which lakesql this is: its version, that of Python, and when its files and those
    of its parsers were changed.

    Asked once, as what was loaded is what runs until the process ends.
    """
    package = str(Path(__file__).parent.parent)
    python = f"{sys.implementation.name}-{sys.hexversion:x}"
    newest = max(_changed_at(package))
    parsers = (
        spec.origin
        for name in ("jinja2", "sqlglot")
        if (spec := find_spec(name)) is not None
    )
    changed = [str(Path(origin).stat().st_mtime_ns) for origin in parsers if origin]
    return " ".join([__version__, python, str(newest), *changed])


def _changed_at(folder: str) -> Iterator[int]:
    """When each Python file below a folder was last changed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns
            elif entry.is_dir(follow_symlinks=False):
                yield from _changed_at(entry.path)
