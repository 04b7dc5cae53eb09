"""The files that Spark reads for a pattern: those that match, those in folders that match, and those it passes over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.project.catalog import local_folder
from lakesql.source.pattern import (
    escape_glob,
    expand_braces,
    is_pattern,
    is_read,
    listing_of,
    named_folder,
    part_regex,
    split_path,
    unescape_glob,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def find_files(session: SparkSession, glob: str) -> Iterator[Any]:
    """Hadoop's status of each file that Spark reads for a pattern."""
    return (status for status, is_hidden in _find_matches(session, glob) if not is_hidden)


def find_hidden(session: SparkSession, glob: str) -> list[str]:
    """The paths of those files that a pattern means, and that Spark passes over because of a name."""
    found = (str(status.getPath().toUri().getPath()) for status, is_hidden in _find_matches(session, glob) if is_hidden)
    return sorted(found)


def find_unlisted(glob: str, name: str) -> str:
    """The path of a file of this name, which Hadoop cannot list for a pattern; elsewhere than here, the folder too."""
    above = named_folder(listing_of(glob).path)
    local = local_folder(above)
    found = (Path(folder, name) for folder, *names in os.walk(local or "") if any(name in each for each in names))
    return str(next(found, f"'{name}' below {above}"))


def spark_path(session: SparkSession, path: str) -> str:
    """A path as Spark is to be given it.

    A folder that is there, and whose name has no character of patterns, as it is: of such a one Spark knows which files
    another query has written whole. Whatever else is a pattern, be it of one name: of a path that is none, Spark wants
    a folder, and now.
    """
    if re.search(r"[{}\[\]*?\\]", path):
        return path
    system, place = _file_system(session, path)
    if system.exists(place) and system.getFileStatus(place).isDirectory():
        return path
    name = path.rstrip("/")
    return f"{name[:-1]}{{{escape_glob(name[-1])}}}"


def local_files(glob: str) -> Iterator[Path]:
    """`find_files` on this machine's disk, without Java; in order of their names."""
    return (file for file, is_hidden in _local_matches(glob) if not is_hidden)


def local_hidden(glob: str) -> list[str]:
    """`find_hidden` on this machine's disk, without Java."""
    return [str(file) for file, is_hidden in _local_matches(glob) if is_hidden]


def possible_files(glob: str) -> Iterator[Path]:
    """All files of this machine's disk that Spark lists for a pattern, and perhaps some that it does not.

    `find_files` without Java where none may be missed. Raises `ValueError` where the pattern's meaning, or what a link
    leads to, is not surely the same to both, and `OSError` where a folder cannot be read.
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


def _find_matches(session: SparkSession, glob: str) -> Iterator[tuple[Any, bool]]:
    """Each file that a pattern means, and whether Spark passes over it."""
    listing = listing_of(glob)
    system, path = _file_system(session, listing.path)
    for status in system.globStatus(path) or []:
        place = status.getPath()
        folder = str(place.toUri().getPath())
        if not status.isDirectory():
            if listing.means(folder):
                yield status, not is_read(str(place.getName()))
            continue
        within = system.listFiles(place, True)
        while within.hasNext():
            file = within.next()
            name = str(file.getPath().toUri().getPath())
            if listing.means(name):
                yield file, not _is_read_within(folder, name)


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    from lakesql.engine.spark.gateway import java_class  # only here: the rest asks no Java

    place = java_class("org.apache.hadoop.fs.Path")(path)
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place


def _is_read_within(folder: str, file: str) -> bool:
    return all(map(is_read, file.removeprefix(folder).strip("/").split("/")))


def _local_matches(glob: str) -> Iterator[tuple[Path, bool]]:
    listing = listing_of(glob)
    places = {place for pattern in expand_braces(listing.path) for place in _matches(Path("/"), split_path(pattern))}
    for place in sorted(places):
        if not place.is_dir():
            if listing.means(str(place)):
                yield place, not is_read(place.name)
            continue
        files = sorted(Path(folder, name) for folder, _, names in os.walk(place) for name in names)
        for file in files:
            if listing.means(str(file)):
                yield file, not _is_read_within(str(place), str(file))


def _matches(folder: Path, parts: list[str]) -> Iterator[Path]:
    """What below a folder matches the parts of a pattern without braces, hidden names too."""
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
