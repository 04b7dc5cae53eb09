"""Which files Spark reads for a pattern, and which it ignores, by Hadoop's own
listing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.engine.spark.gateway import java_class
from lakesql.location import local_folder
from lakesql.source.local_files import is_read_within
from lakesql.source.pattern import (
    escape_glob,
    is_read,
    listing_of,
    named_folder,
    without_scheme,
)
from lakesql.source.stream_state import SeenFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def has_files(session: SparkSession, glob: str) -> bool:
    """Whether Spark reads any file for a pattern. Files are requested one by one until
    there is one."""
    return any(
        not is_hidden for _, is_hidden in _find_matches(session, glob, at_once=False)
    )


def find_listed(session: SparkSession, glob: str) -> tuple[bool, list[str]]:
    """Whether Spark reads any file for a pattern, and the paths of the files that it
    ignores because of their names.

    Both are found by one listing.
    """
    found = list(_find_matches(session, glob))
    hidden = sorted(file.path for file, is_hidden in found if is_hidden)
    return len(hidden) < len(found), hidden


def list_files(session: SparkSession, glob: str) -> list[SeenFile]:
    """The files that Spark reads for a Hadoop pattern, in order of their URIs."""
    encode = java_class("org.apache.spark.paths.SparkPath").fromFileStatus
    # For a local file Spark writes `file:///…`, Hadoop `file:/…`.
    found = (
        file.status for file, is_hidden in _find_matches(session, glob) if not is_hidden
    )
    encoded = ((str(encode(status).urlEncoded()), status) for status in found)
    uris = (
        (re.sub("^file:/(?!/)", "file:///", uri), status) for uri, status in encoded
    )
    files = (SeenFile(uri, int(status.getModificationTime())) for uri, status in uris)
    return sorted(files, key=lambda file: file.path)


def find_unlisted(glob: str, name: str) -> str:
    """The path of a local file with this name, which Hadoop cannot list for a pattern;
    if none is found, as in other storage, a text of the name and the folder above."""
    above = named_folder(listing_of(glob).path)
    local = local_folder(above)
    found = (
        Path(folder, name)
        for folder, *names in os.walk(local or "")
        if any(name in each for each in names)
    )
    return str(next(found, f"'{name}' below {above}"))


def spark_path(session: SparkSession, path: str) -> str:
    """The path in the form in which Spark is to be given it.

    An existing folder without pattern characters in its path is unchanged: for such a
    folder Spark knows which files another query has completely written. Anything else
    becomes a pattern, even if it matches a single name: for a path that is no pattern,
    Spark requires that the folder exists.
    """
    if re.search(r"[{}\[\]*?\\]", path):
        return path
    system, place = _file_system(session, path)
    if system.exists(place) and system.getFileStatus(place).isDirectory():
        return path
    name = path.rstrip("/")
    return f"{name[:-1]}{{{escape_glob(name[-1])}}}"


@dataclass(frozen=True, slots=True)
class _Listed:
    """One of Hadoop's statuses in a Scala sequence, with its path without scheme and
    authority."""

    statuses: Any
    index: int
    path: str
    is_folder: bool

    @property
    def status(self) -> Any:
        """The status itself, which takes a call of Java."""
        return self.statuses.apply(self.index)


def _find_matches(
    session: SparkSession, glob: str, at_once: bool = True
) -> Iterator[tuple[_Listed, bool]]:
    """Each file that a pattern matches, and whether Spark ignores it."""
    listing = listing_of(glob)
    system, path = _file_system(session, listing.path)
    matches = java_class("scala.collection.immutable.ArraySeq").unsafeWrapArray(
        system.globStatus(path)
    )
    for match in _read_statuses(matches) if matches is not None else ():
        if not match.is_folder:
            if listing.means(match.path):
                yield match, not is_read(match.path.rsplit("/", 1)[-1])
            continue
        for file in _find_within(
            system.listFiles(match.status.getPath(), True), at_once
        ):
            if listing.means(file.path):
                yield file, not is_read_within(match.path, file.path)


def _find_within(files: Any, at_once: bool) -> Iterator[_Listed]:
    """The files of a Hadoop iterator; `at_once` if all of them are needed."""
    to_seq = java_class("org.apache.spark.api.python.PythonUtils").toSeq
    if at_once:
        yield from _read_statuses(
            to_seq(
                java_class("org.apache.hadoop.util.functional.RemoteIterators").toList(
                    files
                )
            )
        )
        return
    while files.hasNext():
        yield from _read_statuses(to_seq([files.next()]))


_STATUS = re.compile(r"\{path=(.*); isDirectory=(true|false); ", re.DOTALL)
"""The beginning of `FileStatus.toString`, whatever characters the path has."""


def _read_statuses(statuses: Any) -> Iterator[_Listed]:
    """Each of Hadoop's statuses, parsed from one text, as a call of Java takes as long
    as parsing a hundred."""
    texts = str(statuses.mkString("\0")).split("\0") if not statuses.isEmpty() else []
    for index, text in enumerate(texts):
        found = _STATUS.search(text)
        if found is not None:
            yield _Listed(statuses, index, without_scheme(found[1]), found[2] == "true")
            continue
        status = statuses.apply(index)  # of a file system that has a text of its own
        yield _Listed(
            statuses,
            index,
            str(status.getPath().toUri().getPath()),
            bool(status.isDirectory()),
        )


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    place = java_class("org.apache.hadoop.fs.Path")(path)
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place
