"""Files that a query has read, by the lists in its checkpoint, beside the files that
are there now: those that are elsewhere, have changed, or were never meant.

Spark, which knows a file by its whole path, would read one again that has moved. A file
is known by its path relative to its connection and the time of its last change. So if a
connection's folder has moved as a whole, Spark's lists of what it has read get the new
paths. If files of the same names are there in other places, or have other times, nobody
but the operator knows whether they are the same.

Spark lists all that is below the folders that a path matches, and notes all of it as
read, be it meant or not. Where the path of a stream is another one by now, what the
former one did not mean has not been read.
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
    """A source of which no file that was read last is where its streams read now, be it
    gone or left behind by a copy: those files, by name the ones that are there now, and
    by the path relative to their connection too.

    `is_place_left`: the streams read other folders now. Where they read the same, files
    were removed once they had been read, and the next ones may have their names.
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
    """Let the checkpoint in `folder` follow a connection that has moved; what must be
    asked of an operator, if so."""
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
    """What the operator has said: files of the names of those that were read are the
    same, or they are others.

    The checkpoint's lists get the new paths, or leave those out that are gone; how many
    sources that was done for.
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
    """Spark may order a stateful query's sources otherwise than its FROM does, so that
    any stream's files will do."""
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
    """The file that has the path of this one relative to its connection, wherever that
    was, and its time."""
    parts = file.decoded.split("/")
    paths = ("/".join(parts[first:]) for first in range(1, len(parts)))
    found = (there[path] for path in paths if path in there)
    return next((now for now in found if now.modified_ms == file.modified_ms), None)


def _unshared(old: str, new: str) -> tuple[str, str]:
    """The two paths without the folders and the name that they end with alike."""
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


PATHS_FILE = "paths.json"


def forget_unmeant(
    session: SparkSession, folder: str, bindings: Sequence[StreamBinding]
) -> None:
    """Take those files out of a checkpoint's lists that were listed for a former path,
    and that it did not mean."""
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
    """Note in a checkpoint which paths its lists are made for from now on."""
    files, text = CheckpointFiles(session, folder), json.dumps(_paths(bindings))
    if _paths(bindings) and files.read(PATHS_FILE) != text:
        files.write(PATHS_FILE, text)


def _paths(bindings: Sequence[StreamBinding]) -> dict[str, str]:
    """What the streams say of their files, by their names."""
    in_files = (
        each.stream
        for each in bindings
        if each.source.brings == each.stream.origin.brings == "files"
    )
    return {stream.name: path for stream in in_files for path in stream.origin.given}


def _glob(binding: StreamBinding, path: str) -> str:
    (base,) = binding.source.places
    return files_below(base, path)
