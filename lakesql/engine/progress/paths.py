"""Which paths a checkpoint's lists of files were made for: a stream's path may change, and the lists say too much.

Spark lists all that is below the folders that a path matches, and notes all of it as read, be it meant or not. Where
the path is another one by now, what the former one did not mean has not been read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles, rename_seen
from lakesql.engine.sources.binding import StreamBinding
from lakesql.project.profiles import Files
from lakesql.source.origin import FilePath
from lakesql.source.pattern import Listing, files_below, listing_of, named_folder, without_scheme

PATHS_FILE = "paths.json"


def forget_unmeant(session: SparkSession, folder: str, bindings: Sequence[StreamBinding]) -> None:
    """Take those files out of a checkpoint's lists that were listed for a former path, and that it did not mean."""
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
            rename_seen(files, int(name), lambda path: None if is_unmeant(path, listings) else path)


def keep_paths(session: SparkSession, folder: str, bindings: Sequence[StreamBinding]) -> None:
    """Note in a checkpoint which paths its lists are made for from now on."""
    files, text = CheckpointFiles(session, folder), json.dumps(_paths(bindings))
    if _paths(bindings) and files.read(PATHS_FILE) != text:
        files.write(PATHS_FILE, text)


def _paths(bindings: Sequence[StreamBinding]) -> dict[str, str]:
    return {
        each.stream.name: each.stream.origin.path
        for each in bindings
        if isinstance(each.source, Files) and isinstance(each.stream.origin, FilePath)
    }


def _glob(binding: StreamBinding, path: str) -> str:
    assert isinstance(binding.source, Files)
    return files_below(binding.source.path, path)


def is_unmeant(uri: str, listings: Sequence[Listing]) -> bool:
    """Whether a file was listed for one of the paths, and is meant by none: it is in the lists, but was not read."""
    path = unquote(without_scheme(uri))
    is_listed = any(path.startswith(f"{named_folder(without_scheme(each.path))}/") for each in listings)
    return is_listed and not any(each.means(path) for each in listings)
