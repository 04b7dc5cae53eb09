"""Files that a query has read and that have grown since, or were replaced: what is new
in them is not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles, modified_ms
from lakesql.engine.sources.binding import StreamBinding
from lakesql.location import local_folder
from lakesql.project.files import is_dated_by_name
from lakesql.source.local_files import local_files
from lakesql.source.pattern import listing_of
from lakesql.source.stream_state import LOOKED_AT, SeenFile, newest_seen, read_seen
from lakesql.source.unread import explain_changed

NS_PER_MS = 1_000_000


def explain_changes(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> Iterator[tuple[str, str]]:
    """The streams of which files have changed once they had been read, each with what
    is said of it.

    On this machine all of them are looked at, elsewhere those that were read last.
    """
    places = [
        (each, each.glob)
        for each in bindings
        if each.glob is not None and not each.source.is_planned
    ]
    files = CheckpointFiles(session, folder)
    numbers = (
        [int(name) for name in sorted(files.names("sources")) if name.isdecimal()]
        if places
        else []
    )
    for binding, glob in places:
        local = local_folder(glob)
        if local is not None:
            seen = {
                file.decoded: file.modified_ms
                for number in numbers
                for file in _read_all(files, number)
            }
            changed = _changed_here(
                str(local), seen, binding.source.recording is not None
            )
        else:
            newest = [
                file
                for number in numbers
                for file in newest_seen(files, number)[-LOOKED_AT:]
            ]
            changed = _changed_elsewhere(session, glob, newest)
        if said := explain_changed(sorted(changed)):
            yield binding.stream.name, said


def _read_all(files: CheckpointFiles, source: int) -> list[SeenFile]:
    lists = [name.removesuffix(".compact") for name in files.names(f"sources/{source}")]
    last = max((int(name) for name in lists if name.isdecimal()), default=None)
    is_of_files = last is not None and bool(newest_seen(files, source))
    return read_seen(files, source, 0, last) if last is not None and is_of_files else []


def _changed_here(glob: str, seen: Mapping[str, int], is_topic: bool) -> list[str]:
    return [
        str(file)
        for file in local_files(glob)
        if str(file) in seen and _has_changed(file, seen, is_topic)
    ]


def _has_changed(file: Path, seen: Mapping[str, int], is_topic: bool) -> bool:
    modified_ns = file.stat().st_mtime_ns
    if modified_ns // NS_PER_MS == seen[str(file)]:
        return False
    return not (is_topic and is_dated_by_name(file))


def _changed_elsewhere(
    session: SparkSession, glob: str, newest: Sequence[SeenFile]
) -> list[str]:
    listing = listing_of(glob)
    meant = [file for file in newest if listing.means(file.decoded)]
    return [
        file.decoded
        for file in meant
        if modified_ms(session, file) not in (None, file.modified_ms)
    ]
