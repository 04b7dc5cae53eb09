"""Why a stream has nothing to read: a missing folder, a pattern that matches nothing, a topic without records.

A run says so and succeeds all the same: the files or the records may be still to come. Or the name is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import iglob
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakesql.engine.sources.broker import Offsets
from lakesql.project.catalog import local_folder
from lakesql.stream.stream import Origin, TopicPattern

_PATTERN = re.compile(r"[*?\[{\\]")

_HIDDEN = ("_", ".")
"""How the names of files begin that Spark passes over."""


def explain_no_files(glob: str) -> str:
    """That no file matches the pattern, and which folder is not there, where it is a local one."""
    shown = re.sub(r"{([^{},]*)}", r"\1", glob)
    pattern = _PATTERN.search(shown)
    folder = local_folder(shown[: pattern.start()].rpartition("/")[0] if pattern else shown)
    said = f"no file matches {shown}"
    if folder is None or folder.exists():
        return said
    return f"{said}: there is no {f'folder {folder}' if pattern else 'file or folder of this name'}"


def explain_no_records(origin: Origin, beginnings: Offsets, ends: Offsets) -> str:
    """That the topics hold no record, by what each partition's first offset is and the one behind its last; '' where
    they hold some."""
    if isinstance(origin, TopicPattern) and not ends:
        return f"no topic matches {origin.pattern}"
    if any(end > beginnings[topic][partition] for topic, parts in ends.items() for partition, end in parts.items()):
        return ""
    return f"there is no record in {', '.join(sorted(ends))}"


def matches_files(session: SparkSession, glob: str) -> bool:
    """Whether a pattern of Hadoop's matches files that Spark reads, or folders which have some."""
    system, path = _file_system(session, glob)
    for status in system.globStatus(path) or []:
        if not status.isDirectory():
            if _is_read(str(status.getPath().getName())):
                return True
            continue
        within = system.listFiles(status.getPath(), True)
        while within.hasNext():
            if _is_read(str(within.next().getPath().getName())):
                return True
    return False


def as_pattern(session: SparkSession, path: str) -> str:
    """A path where nothing is yet, as a pattern of the same meaning: Spark refuses the one, and waits for the other.

    Any other path as it is: of a folder, but not of a pattern, Spark takes columns that are names of folders (`day=3`).
    """
    name = path.rstrip("/")
    if _PATTERN.search(name) or not re.search(r"[\w.-]\Z", name):
        return path
    system, place = _file_system(session, path)
    return path if system.exists(place) else f"{name[:-1]}{{{name[-1]}}}"


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = session._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place


def _is_read(name: str) -> bool:
    """Whether Spark reads a file of this name that is in a folder."""
    return not name.startswith(_HIDDEN)


def local_files(glob: str) -> Iterator[Path]:
    """The files of this machine that a pattern of Hadoop's matches, or that are in folders which it matches."""
    for path in map(Path, sorted({found for each in _python_globs(glob) for found in iglob(each)})):
        if path.is_dir():
            found = (Path(folder, name) for folder, _, names in os.walk(path) for name in sorted(names))
            yield from (file for file in found if _is_read(file.name))
        elif _is_read(path.name):
            yield path


def _python_globs(glob: str) -> Iterator[str]:
    """The pattern for each choice of `{a,b}`: Python's glob knows no alternatives, and other escapes."""
    if braces := re.search(r"(?<!\\)\{([^{}]*)\}", glob):
        for each in braces[1].split(","):
            yield from _python_globs(glob[: braces.start()] + each + glob[braces.end() :])
    else:
        yield re.sub(r"\\(.)", r"[\1]", glob.replace("[^", "[!"))
