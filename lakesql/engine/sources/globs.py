"""The files that a pattern of Hadoop's means, as Spark reads it: those that match, and those in folders that match."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from lakesql.stream.stream import FilePath, Generated, Stream, TopicPattern, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPECIAL = re.compile(r"[*?\[{\\]")


def files_of(stream: Stream, base: str) -> str:
    """The pattern of the files that hold a stream's records, under the path of its connection."""
    match stream.origin:
        case Topics(names=names):
            return f"{base}/{{{','.join(escape_glob(name) for name in names)}}}/*.jsonl"
        case TopicPattern():
            return f"{base}/*/*.jsonl"
        case FilePath(path=path):
            return f"{base}/{path}"
        case Generated():
            raise AssertionError("a generator has no files")
        case _:
            assert_never(stream.origin)


def escape_glob(name: str) -> str:
    """The name in a pattern that matches it alone."""
    return "".join(f"\\{character}" if character in "{}[]*?,\\" else character for character in name)


def named_folder(glob: str) -> str:
    """The folder in which a pattern's files are, as far as it has a name; a path that is no pattern, as it is."""
    special = _SPECIAL.search(glob)
    return glob[: special.start()].rpartition("/")[0] if special else glob.rstrip("/")


def is_pattern(path: str) -> bool:
    """Whether it may mean more than the one path."""
    return _SPECIAL.search(path) is not None


def find_files(session: SparkSession, glob: str) -> Iterator[Any]:
    """Hadoop's status of each file that Spark reads for a pattern."""
    system, path = _file_system(session, glob)
    for status in system.globStatus(path) or []:
        place = status.getPath()
        if not status.isDirectory():
            if _is_read(str(place.getName())):
                yield status
            continue
        folder = str(place.toString())
        within = system.listFiles(place, True)
        while within.hasNext():
            file = within.next()
            if _is_read_within(str(file.getPath().toString()).removeprefix(folder).strip("/").split("/")):
                yield file


def as_pattern(session: SparkSession, path: str) -> str:
    """A path where nothing is yet, as a pattern of the same meaning: Spark refuses the one, and waits for the other.

    Any other path as it is: of a folder, but not of a pattern, Spark takes columns that are names of folders (`day=3`).
    """
    name = path.rstrip("/")
    if is_pattern(name) or not re.search(r"[\w.-]\Z", name):
        return path
    system, place = _file_system(session, path)
    return path if system.exists(place) else f"{name[:-1]}{{{name[-1]}}}"


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    from lakesql.engine.spark.gateway import java_class  # only here: the rest asks no Java

    place = java_class("org.apache.hadoop.fs.Path")(path)
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place


def _is_read(name: str) -> bool:
    """Whether Spark reads a file or a folder of this name (`HadoopFSUtils.shouldFilterOutPathName`)."""
    return not (name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_"))


def _is_read_within(path: Sequence[str]) -> bool:
    """Whether Spark reads this file of a folder: those in folders of it only where folders' names are columns."""
    return all(map(_is_read, path)) and (len(path) == 1 or any("=" in folder for folder in path[:-1]))


def local_files(glob: str) -> Iterator[Path]:
    """`find_files` on this machine's disk, without Java; in order of their names."""
    for path in map(Path, sorted({found for each in _python_globs(glob) for found in iglob(each)})):
        if path.is_dir():
            found = sorted(Path(folder, name) for folder, _, names in os.walk(path) for name in names)
            yield from (file for file in found if _is_read_within(file.relative_to(path).parts))
        elif _is_read(path.name):
            yield path


def possible_files(glob: str) -> Iterator[Path]:
    """All files of this machine's disk that Spark may read for a pattern, and perhaps some that it does not.

    `find_files` without Java where none may be missed. Raises `ValueError` where the pattern's meaning, or what a link
    leads to, is not surely the same to both, and `OSError` where a folder cannot be read.
    """
    patterns = [*_python_globs(glob)]
    if any(_SPECIAL.search(each.replace("*", "")) or "}" in each or not each.startswith("/") for each in patterns):
        raise ValueError(f"{glob} is left to Hadoop")
    for pattern in patterns:
        places = [Path("/")]
        for part in filter(None, pattern.split("/")):
            places = [found for place in places for found in _matching(place, part)]
        for place in places:
            if place.is_dir():
                yield from _files_within(place)
            elif _is_read(place.name):
                yield place


def _matching(folder: Path, part: str) -> list[Path]:
    """What of a folder has a name that fits, hidden ones too; nothing where there is no folder."""
    if "*" not in part:
        return [folder / part] if os.path.lexists(folder / part) else []
    fits = re.compile(".*".join(map(re.escape, part.split("*"))), re.DOTALL).fullmatch
    return [found for found in folder.iterdir() if fits(found.name)] if folder.is_dir() else []


def _files_within(folder: Path) -> Iterator[Path]:
    for place in folder.iterdir():
        if not _is_read(place.name):
            continue
        if place.is_symlink():
            raise ValueError(f"{place} is a link")
        if place.is_dir():
            yield from _files_within(place)
        else:
            yield place


def _python_globs(glob: str) -> Iterator[str]:
    """The pattern for each choice of `{a,b}`: Python's glob knows no alternatives, and other escapes."""
    if braces := re.search(r"(?<!\\)\{([^{}]*)\}", glob):
        for each in braces[1].split(","):
            yield from _python_globs(glob[: braces.start()] + each + glob[braces.end() :])
    else:
        yield re.sub(r"\\(.)", r"[\1]", glob.replace("[^", "[!"))
