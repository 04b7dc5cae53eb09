"""Counts the files that the paths of streams match now, for `compile` and `debug`.
Needs no Java."""

from __future__ import annotations

from collections.abc import Collection

from lakesql.counts import count
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.location import local_folder
from lakesql.run.streams.bind import bind_stream
from lakesql.source.local_files import local_files


def count_files(manifest: Manifest, streams: Collection[str]) -> list[str]:
    """A line for each stream that is read from local files, with the number of files
    there are now."""
    said = []
    for name in sorted(manifest.streams.keys() & streams):
        try:
            binding = bind_stream(manifest, manifest.streams[name])
        except LakesqlError:  # said where streams are checked
            continue
        origin, glob = binding.stream.origin, binding.glob
        if glob is None or not binding.source.brings == origin.brings == "files":
            continue
        local = local_folder(glob)
        if local is not None:
            found = sum(1 for _ in local_files(str(local)))
            said.append(
                f"stream {name}: {count(found, 'file')} of {', '.join(origin.given)}"
            )
    return said
