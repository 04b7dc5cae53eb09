"""How many files the paths of streams mean now, as `compile` and `debug` say it. No Java."""

from __future__ import annotations

from collections.abc import Collection

from lakesql.engine.sources.globs import local_files
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.observe.text import count
from lakesql.project.catalog import local_folder
from lakesql.project.profiles import Files
from lakesql.run.bind import bind_stream
from lakesql.source.origin import FilePath
from lakesql.source.pattern import files_below


def count_files(manifest: Manifest, streams: Collection[str]) -> list[str]:
    """How many files of this machine there are now of each stream that is read from any."""
    said = []
    for name in sorted(manifest.streams.keys() & streams):
        try:
            binding = bind_stream(manifest, manifest.streams[name])
        except LakesqlError:  # said where streams are checked
            continue
        if not isinstance(binding.source, Files) or not isinstance(binding.stream.origin, FilePath):
            continue
        local = local_folder(files_below(binding.source.path, binding.stream.origin.files))
        if local is not None:
            found = sum(1 for _ in local_files(str(local)))
            said.append(f"stream {name}: {count(found, 'file')} of {binding.stream.origin.path}")
    return said
