"""The files that Spark reads for a pattern, by Hadoop's own listing of them, and those
that it passes over."""

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
    """Whether Spark reads a file for a pattern. Files are asked for one by one, until
    there is one."""
    return any(
        not is_hidden for _, is_hidden in _find_matches(session, glob, at_once=False)
    )


def find_listed(session: SparkSession, glob: str) -> tuple[bool, list[str]]:
    """Whether Spark reads a file for a pattern, and the paths of those that it passes
    over because of a name.

    Storage lists its files once for both.
    """
    found = list(_find_matches(session, glob))
    hidden = sorted(file.path for file, is_hidden in found if is_hidden)
    return len(hidden) < len(found), hidden


def list_files(session: SparkSession, glob: str) -> list[SeenFile]:
    """The files that Spark reads for a pattern of Hadoop's, in order of their URIs."""
    encode = java_class("org.apache.spark.paths.SparkPath").fromFileStatus
    # Of a local file Spark writes `file:///…` and Hadoop `file:/…`.
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
    """The path of a file of this name, which Hadoop cannot list for a pattern;
    elsewhere than here, the folder too."""
    above = named_folder(listing_of(glob).path)
    local = local_folder(above)
    found = (
        Path(folder, name)
        for folder, *names in os.walk(local or "")
        if any(name in each for each in names)
    )
    return str(next(found, f"'{name}' below {above}"))


def spark_path(session: SparkSession, path: str) -> str:
    """A path as Spark is to be given it.

    A folder that is there, and whose name has no character of patterns, as it is: of
    such a one Spark knows which files another query has written whole. Whatever else is
    a pattern, be it of one name: of a path that is none, Spark wants a folder, and now.
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
    """One of Hadoop's statuses in a sequence of Scala's, and its path without a scheme
    and an authority."""

    statuses: Any
    index: int
    path: str
    is_folder: bool

    @property
    def status(self) -> Any:
        """The status itself, for which Java is asked."""
        return self.statuses.apply(self.index)


def _find_matches(
    session: SparkSession, glob: str, at_once: bool = True
) -> Iterator[tuple[_Listed, bool]]:
    """Each file that a pattern means, and whether Spark passes over it."""
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
    """The files of an iterator of Hadoop's; `at_once`: all are wanted."""
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
"""What `FileStatus.toString` begins with, whatever the names of folders and files
have."""


def _read_statuses(statuses: Any) -> Iterator[_Listed]:
    """Each of Hadoop's statuses, read from their texts: a question to Java takes as
    long as a hundred of them."""
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
