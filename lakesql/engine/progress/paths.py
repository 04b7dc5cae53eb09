"""Which paths a checkpoint's lists of files were made for: a stream's path may change,
and the lists say too much.

Spark lists all that is below the folders that a path matches, and notes all of it as
read, be it meant or not. Where the path is another one by now, what the former one did
not mean has not been read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles, rename_seen
from lakesql.engine.sources.binding import StreamBinding
from lakesql.source.pattern import files_below, is_unmeant, listing_of

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
