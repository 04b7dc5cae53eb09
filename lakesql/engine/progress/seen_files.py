"""Which files in a query's checkpoint were moved or changed since they were read, or
are recorded though they do not match their stream's path.

Spark identifies a file by its whole path, so it would read a file again that has moved.
Here a file is identified by its path relative to its connection and its modification
time. If a connection's folder has moved as a whole, the lists in Spark's checkpoint get
the new paths. If files of the same names are in other places, or have other times, only
the operator knows whether they are the same.

Spark lists everything below the folders that a path matches, and records all of it as
read, even files that do not match. If the path of a stream has changed since, files
that the former path did not match have not been read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import (
    CheckpointFiles,
    file_exists,
    modified_ms,
    rename_seen,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.globs import list_files
from lakesql.location import local_folder
from lakesql.progress.state import MovedFiles
from lakesql.project.files import is_dated_by_name
from lakesql.source.local_files import local_files
from lakesql.source.pattern import (
    files_below,
    is_unmeant,
    listing_of,
    named_folder,
    without_scheme,
)
from lakesql.source.stream_state import LOOKED_AT, SeenFile, newest_seen, read_seen
from lakesql.source.unread import explain_changed


@dataclass(frozen=True, slots=True)
class _Gone:
    """A source none of whose last read files is where its streams read now, whether it
    was removed or left behind by a copy: `known` are those files, and the files that
    exist now are given by name and by path relative to their connection.

    `is_place_left`: the streams read other folders now. If they read the same folders,
    files were removed after they were read, and new files may have their names.
    """

    source: int
    is_place_left: bool
    known: Sequence[SeenFile]
    by_name: Mapping[str, SeenFile]
    by_path: Mapping[str, SeenFile]


def follow_files(
    session: SparkSession,
    folder: str,
    bindings: Sequence[StreamBinding],
    say: Callable[[str], None],
) -> MovedFiles | None:
    """Update the checkpoint in `folder` if a connection has moved. Returns the files
    that the operator must decide about, or None."""
    asked: MovedFiles | None = None
    for gone in _find_gone(session, folder, bindings):
        same = [_find_same(file, gone.by_path) for file in gone.known]
        if all(same):
            (old, new), *_ = [
                (was.path, now.path)
                for was, now in zip(gone.known, same, strict=True)
                if now
            ]
            before, after = _unshared(old, new)
            rename_seen(
                CheckpointFiles(session, folder),
                gone.source,
                lambda path, before=before, after=after: (  # type: ignore[misc]
                    after + path.removeprefix(before)
                    if path.startswith(before)
                    else path
                ),
            )
            say(f"its files have moved from {before} to {after}, and are known there")
            continue
        named = [
            (file, gone.by_name[_name(file)])
            for file in gone.known
            if _name(file) in gone.by_name
        ]
        named = [
            (was, now)
            for was, now in named
            if gone.is_place_left or was.modified_ms == now.modified_ms
        ]
        if named:
            old_file, new_file = named[0]
            asked = MovedFiles(old_file.path, new_file.path, len(named))
    return asked


def settle_files(
    session: SparkSession,
    folder: str,
    bindings: Sequence[StreamBinding],
    are_same: bool,
) -> int:
    """Apply the operator's decision: files with the names of those that were read are
    the same, or they are others.

    The checkpoint's lists get the new paths, or lose the entries of files that are
    gone. Returns for how many sources that was done.
    """
    found = list(_find_gone(session, folder, bindings))
    for gone in found:
        there = (
            {name: file.path for name, file in gone.by_name.items()} if are_same else {}
        )
        rename_seen(
            CheckpointFiles(session, folder),
            gone.source,
            lambda path, there=there: there.get(_last(path)),  # type: ignore[misc]
        )
    return len(found)


def _find_gone(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> Iterator[_Gone]:
    """The sources whose last read files are not where the streams read now. Spark may
    number a stateful query's sources in another order than its FROM, so files of any
    stream count."""
    places = [
        (place, binding.glob)
        for binding in bindings
        for place in binding.source.places
        if binding.glob is not None
    ]
    files = CheckpointFiles(session, folder)
    for name in sorted(files.names("sources")) if places else ():
        known = newest_seen(files, int(name))[-LOOKED_AT:] if name.isdecimal() else []
        folders = tuple(f"{named_folder(without_scheme(glob))}/" for _, glob in places)
        in_place = [file for file in known if f"{file.decoded}/".startswith(folders)]
        if not known or any(file_exists(session, file) for file in in_place):
            continue
        there = [
            (base, file) for base, glob in places for file in list_files(session, glob)
        ]
        yield _Gone(
            int(name),
            not in_place,
            known,
            {_name(file): file for _, file in there},
            {
                file.decoded.removeprefix(f"{without_scheme(base).rstrip('/')}/"): file
                for base, file in there
            },
        )


def _find_same(file: SeenFile, there: Mapping[str, SeenFile]) -> SeenFile | None:
    """The file that has the same path relative to its connection, wherever that was,
    and the same modification time; None if there is none."""
    parts = file.decoded.split("/")
    paths = ("/".join(parts[first:]) for first in range(1, len(parts)))
    found = (there[path] for path in paths if path in there)
    return next((now for now in found if now.modified_ms == file.modified_ms), None)


def _unshared(old: str, new: str) -> tuple[str, str]:
    """The two paths without the trailing folders and name that they have in common."""
    before, after = old.split("/"), new.split("/")
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    return "/".join([*before, ""]), "/".join([*after, ""])


def _name(file: SeenFile) -> str:
    return _last(file.path)


def _last(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


NS_PER_MS = 1_000_000


def explain_changes(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> Iterator[tuple[str, str]]:
    """The streams whose files have changed after they were read, each with an
    explanation.

    On this machine all files are checked, elsewhere only those that were read last.
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


PATHS_FILE = "paths.json"


def forget_unmeant(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> None:
    """Remove those files from a checkpoint's lists that were listed for a former path
    but did not match it."""
    files = CheckpointFiles(session, folder)
    former = json.loads(files.read(PATHS_FILE) or "{}")
    if all(former.get(name, path) == path for name, path in _paths(bindings).items()):
        return
    listings = [
        listing_of(_glob(each, former[each.stream.name]))
        for each in bindings
        if each.stream.name in former and each.stream.name in _paths([each])
    ]
    for name in files.names("sources"):
        if name.isdecimal():
            rename_seen(
                files,
                int(name),
                lambda path: None if is_unmeant(path, listings) else path,
            )


def keep_paths(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> None:
    """Record in a checkpoint the paths that its lists are made for from now on."""
    files, text = CheckpointFiles(session, folder), json.dumps(_paths(bindings))
    if _paths(bindings) and files.read(PATHS_FILE) != text:
        files.write(PATHS_FILE, text)


def _paths(bindings: Sequence[StreamBinding]) -> dict[str, str]:
    """The paths of the streams that read files, by stream name."""
    in_files = (
        each.stream
        for each in bindings
        if each.source.brings == each.stream.origin.brings == "files"
    )
    return {stream.name: path for stream in in_files for path in stream.origin.given}


def _glob(binding: StreamBinding, path: str) -> str:
    (base,) = binding.source.places
    return files_below(base, path)
