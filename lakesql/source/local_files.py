"""The local files that Spark reads for a pattern, and those that it skips, found
without Java."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from lakesql.source.pattern import (
    expand_braces,
    is_pattern,
    is_read,
    listing_of,
    part_regex,
    split_path,
    unescape_glob,
)


def local_files(glob: str) -> Iterator[Path]:
    """The files that Spark reads for a pattern, sorted by name."""
    return (file for file, is_hidden in _local_matches(glob) if not is_hidden)


def local_hidden(glob: str) -> list[str]:
    """The paths of the files that a pattern means and that Spark skips because of a
    name."""
    return [str(file) for file, is_hidden in _local_matches(glob) if is_hidden]


def possible_files(glob: str) -> Iterator[Path]:
    """All local files that Spark lists for a pattern, and perhaps more.

    For callers that must not miss one. Raises `ValueError` if the pattern, or a link,
    might mean something else to Hadoop, and `OSError` if a folder cannot be read.
    """
    listing = listing_of(glob)
    for pattern in expand_braces(listing.path):
        parts = split_path(pattern)
        if parts[0] or any(re.search(r"(?<!\\)[?\[{}]", part) for part in parts):
            raise ValueError(f"{glob} is left to Hadoop")
        for place in _matches(Path("/"), parts):
            if place.is_dir():
                yield from _files_within(place)
            elif is_read(place.name):
                yield place


def is_read_within(folder: str, file: str) -> bool:
    """Whether Spark reads a file, judged by its name and those of the folders between
    `folder` and the file."""
    return all(map(is_read, file.removeprefix(folder).strip("/").split("/")))


def _local_matches(glob: str) -> Iterator[tuple[Path, bool]]:
    listing = listing_of(glob)
    places = {
        place
        for pattern in expand_braces(listing.path)
        for place in _matches(Path("/"), split_path(pattern))
    }
    for place in sorted(places):
        if not place.is_dir():
            if listing.means(str(place)):
                yield place, not is_read(place.name)
            continue
        files = sorted(
            Path(folder, name) for folder, _, names in os.walk(place) for name in names
        )
        for file in files:
            if listing.means(str(file)):
                yield file, not is_read_within(str(place), str(file))


def _matches(folder: Path, parts: list[str]) -> Iterator[Path]:
    """The paths below a folder that match the parts of a pattern without braces,
    including hidden ones."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if not part:
        yield from _matches(folder, rest)
        return
    if not is_pattern(part):
        named = folder / unescape_glob(part)
        if os.path.lexists(named):
            yield from _matches(named, rest)
        return
    if not folder.is_dir():
        return
    fits = re.compile(part_regex(part)).fullmatch
    for found in folder.iterdir():
        if fits(found.name):
            yield from _matches(found, rest)


def _files_within(folder: Path) -> Iterator[Path]:
    for place in folder.iterdir():
        if not is_read(place.name):
            continue
        if place.is_symlink():
            raise ValueError(f"{place} is a link")
        if place.is_dir():
            yield from _files_within(place)
        else:
            yield place
