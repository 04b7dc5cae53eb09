"""What sources with files in folders share: which files exist, and which were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.globs import (
    find_listed,
    find_unlisted,
    has_files,
    list_files,
)
from lakesql.engine.sources.spark_source import Reader, SparkSource, check_origin
from lakesql.engine.spark.failure import unlisted_name
from lakesql.errors import RunError
from lakesql.location import local_folder
from lakesql.source.local_files import local_hidden
from lakesql.source.pattern import is_unmeant, listing_of, named_folder
from lakesql.source.stream_state import (
    BATCHES,
    Position,
    SeededSource,
    SeenFile,
    SourceState,
)
from lakesql.source.unread import explain_hidden, explain_no_files


class SparkFolder(SparkSource, Protocol):
    """Files below a folder, or below the URL of a bucket."""

    def records(
        self, session: SparkSession, reader: Reader, binding: StreamBinding
    ) -> DataFrame:
        """The raw records of a stream's files, with Spark's reader for files that
        arrive, or for those that exist now."""
        ...

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """The records of each file after it has appeared."""
        check_origin(binding)
        return self.records(session, session.readStream, binding)

    def read_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers | None
    ) -> DataFrame:
        """The records of the files that exist now."""
        check_origin(binding)
        return self.records(session, session.read, binding)

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the stream: whether there are files, and which are left out."""
        check_origin(binding)
        return find_state(session, binding)

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """The names of read files that no longer exist, and a text with the number of
        existing files."""
        return held_files(session, binding, seen())


def find_state(session: SparkSession, binding: StreamBinding) -> SourceState:
    """The state of a stream of files: whether there are any, and which are left out. If
    the stream moves or deletes files after reading, its folder may be empty."""
    glob, name, kind = binding.glob, binding.stream.name, binding.source.kind
    assert glob is not None
    local = local_folder(glob)
    try:
        # Hadoop would start a program for the permissions of each local file
        if local is not None:
            is_there, hidden = has_files(session, glob), local_hidden(str(local))
        else:
            is_there, hidden = find_listed(session, glob)
    except IllegalArgumentException as error:
        unlisted = unlisted_name(error)
        if unlisted is None:
            raise
        what = f"Hadoop does not list {find_unlisted(glob, unlisted)}, as its name has a colon."
        raise RunError.of(
            "file-name", what, why="Nothing of its folder can be read."
        ) from error
    is_emptied = binding.takes_away and (
        local is None or Path(named_folder(str(local))).is_dir()
    )
    nothing = "" if is_there or is_emptied else explain_no_files(glob)
    return SourceState(name, kind, nothing=nothing, left_out=explain_hidden(hidden))


def seed_seen(
    position: Position, seen: Callable[[int], Sequence[SeenFile]] | None
) -> SeededSource:
    """The files that the replaced checkpoint has read up to a position, if it has
    them."""
    if position is None or seen is None:
        return SeededSource()
    return SeededSource.of(seen(position[BATCHES]))


def held_files(
    session: SparkSession, binding: StreamBinding, seen: Sequence[SeenFile]
) -> tuple[list[str], str]:
    """The names of read files that no longer exist, and a text with the number of
    existing files."""
    assert binding.glob is not None
    there = {file.path for file in list_files(session, binding.glob)}
    missing = [file for file in seen if file.path not in there]
    listings = [listing_of(binding.glob)]
    gone = sorted(file.name for file in missing if not is_unmeant(file.path, listings))
    return gone, count(len(there), "file")
