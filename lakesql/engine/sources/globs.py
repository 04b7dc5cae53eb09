"""The files that Spark reads for a pattern, by Hadoop's own listing of them, and those that it passes over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
)
from lakesql.source.seen_files import SeenFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def find_files(session: SparkSession, glob: str) -> Iterator[Any]:
    """Hadoop's status of each file that Spark reads for a pattern."""
    return (status for status, is_hidden in _find_matches(session, glob) if not is_hidden)


def find_hidden(session: SparkSession, glob: str) -> list[str]:
    """The paths of those files that a pattern means, and that Spark passes over because of a name."""
    found = (str(status.getPath().toUri().getPath()) for status, is_hidden in _find_matches(session, glob) if is_hidden)
    return sorted(found)


def list_files(session: SparkSession, glob: str) -> list[SeenFile]:
    """The files that Spark reads for a pattern of Hadoop's, in order of their URIs."""
    encode = java_class("org.apache.spark.paths.SparkPath").fromFileStatus
    # Of a local file Spark writes `file:///…` and Hadoop `file:/…`.
    encoded = ((str(encode(status).urlEncoded()), status) for status in find_files(session, glob))
    uris = ((re.sub("^file:/(?!/)", "file:///", uri), status) for uri, status in encoded)
    files = (SeenFile(uri, int(status.getModificationTime())) for uri, status in uris)
    return sorted(files, key=lambda file: file.path)


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
                yield file, not is_read_within(folder, name)


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    place = java_class("org.apache.hadoop.fs.Path")(path)
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place
