"""The files that a pattern matches, in the order of their paths, beginning after a
name; only folders that may contain such files are listed.

The order is that in which object storage lists: by the bytes of the whole path in
UTF-8, so that `a-1/x` comes before `a/x`. Python compares texts in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from lakesql.location import local_folder
from lakesql.source.pattern import (
    ANY_DEPTH,
    Listing,
    expand_braces,
    is_pattern,
    is_read,
    listing_of,
    part_regex,
    split_path,
    unescape_glob,
    without_scheme,
)


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    """A file: its path below the connection's path, its size, and its modification
    time. `through` is how many files the query has read including this one."""

    name: str
    size_bytes: int = field(compare=False)
    modified_ms: int = field(compare=False)
    is_hidden: bool = field(default=False, compare=False)
    through: int = field(default=0, compare=False)

    @property
    def digest(self) -> int:
        """A 64-bit hash of its name."""
        return int.from_bytes(
            blake2b(
                self.name.encode("utf-8", "surrogateescape"), digest_size=8
            ).digest(),
            "big",
        )


class Folders(Protocol):
    """A file system that can list names."""

    def children(self, folder: str, after: str) -> list[str]:
        """The names in a folder, given by its path or URL, sorted; names of folders end
        with a slash.

        Names smaller than `after` may be left out. Empty if the folder does not exist.
        """
        ...

    def stat(self, folder: str, name: str) -> tuple[int, int]:
        """The size of a file in the folder that was listed last, and its modification
        time in milliseconds. Raises `FileNotFoundError`."""
        ...

    def look_up(self, folder: str, name: str) -> tuple[int, int]:
        """The present size and modification time of a file in any folder. Raises
        `FileNotFoundError`."""
        ...


class LocalFolders:
    """The folders of the local disk."""

    def __init__(self) -> None:
        self._last = ("", "")

    def _place(self, folder: str) -> str:
        last = self._last
        if last[0] != folder:
            last = self._last = (folder, str(local_folder(folder)))
        return last[1]

    def children(self, folder: str, after: str) -> list[str]:
        """The names in a local folder, sorted."""
        try:
            with os.scandir(self._place(folder)) as entries:
                names = [
                    f"{entry.name}/" if entry.is_dir() else entry.name
                    for entry in entries
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if name >= after)

    def stat(self, folder: str, name: str) -> tuple[int, int]:
        """The size and the modification time of a local file."""
        found = os.stat(f"{self._place(folder)}/{name}")  # noqa: PTH116  a `Path` takes longer than what it asks
        return found.st_size, found.st_mtime_ns // 1_000_000

    def look_up(self, folder: str, name: str) -> tuple[int, int]:
        """The size and the modification time of a local file."""
        return self.stat(folder, name)


class NameOrder:
    """The files that match a pattern below a connection's path, in the order of their
    names."""

    def __init__(self, base: str, glob: str) -> None:
        self.base = base.rstrip("/")
        self._listing: Listing = listing_of(glob)
        own = without_scheme(self.base)
        self._own = own
        self._patterns = [_parts_below(pattern, own) for pattern in expand_braces(glob)]
        self._matchers = [[*map(_matcher, pattern)] for pattern in self._patterns]

    @property
    def root(self) -> str:
        """The deepest folder, below the connection's path, that contains all files; ''
        for the connection's path itself."""
        named = []
        for same in zip(*(parts[:-1] for parts in self._patterns), strict=False):
            if len({*same}) > 1 or is_pattern(same[0]) or same[0] == ANY_DEPTH:
                break
            named.append(unescape_glob(same[0]))
        return "/".join(named)

    def path_of(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.base}/{name}"

    def files(
        self, folders: Folders, after: str = "", until: str | None = None
    ) -> Iterator[FoundFile]:
        """The files whose names are larger than `after` and at most `until`, sorted,
        including hidden ones."""
        return self._below(folders, self.root, after, until)

    def means(self, name: str) -> bool:
        """Whether the pattern means a file with this name."""
        return self._listing.means(f"{self._own}/{name}")

    def is_hidden(self, name: str) -> bool:
        """Whether Spark skips a matching file because of its own name, or because of a
        folder's below the one that Spark lists."""
        parts = name.split("/")
        return not any(_shows(parts, matchers) for matchers in self._matchers)

    def _below(
        self, folders: Folders, folder: str, after: str, until: str | None
    ) -> Iterator[FoundFile]:
        prefix, place = (
            (f"{folder}/", self.path_of(folder)) if folder else ("", self.base)
        )
        first = (
            after.removeprefix(prefix).partition("/")[0]
            if after.startswith(prefix)
            else ""
        )
        for child in folders.children(place, first):
            name = prefix + child
            if until is not None and name > until:
                return
            if name.endswith("/"):
                may_follow = name > after or after.startswith(name)
                if may_follow and self._may_hold(name[:-1]):
                    yield from self._below(folders, name[:-1], after, until)
            elif name > after and self.means(name):
                try:
                    size_bytes, modified_ms = folders.stat(place, child)
                except FileNotFoundError:  # it has gone meanwhile
                    continue
                yield FoundFile(name, size_bytes, modified_ms, self.is_hidden(name))

    def _may_hold(self, folder: str) -> bool:
        """Whether a folder may contain matching files at any depth."""
        parts = folder.split("/")
        return any(_begins(parts, matchers) for matchers in self._matchers)


_Matcher = re.Pattern[str] | None
"""The regular expression for a part of a path; None for `**`, which matches any number
of parts."""


def _matcher(part: str) -> _Matcher:
    return None if part == ANY_DEPTH else re.compile(part_regex(part))


def _begins(folder: list[str], pattern: list[_Matcher]) -> bool:
    """Whether the path of a folder may be the beginning of a matching path."""
    for part, wanted in zip(folder, pattern, strict=False):
        if wanted is None:
            return True
        if wanted.fullmatch(part) is None:
            return False
    return True


def _shows(parts: list[str], pattern: list[_Matcher]) -> bool:
    """Whether Spark reads a file, judged by the names below the folder that it lists
    for a pattern."""
    depth = pattern.index(None) if None in pattern else len(pattern)
    listed = min(depth, len(parts) - 1)
    return all(map(is_read, parts[listed:])) and _begins(parts[:listed], pattern)


def _parts_below(pattern: str, own: str) -> list[str]:
    """The parts of a pattern below the connection's path."""
    parts = [*filter(None, split_path(without_scheme(pattern)))]
    return parts[len([*filter(None, own.split("/"))]) :]
