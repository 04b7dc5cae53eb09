"""Writes the schemas that recorded records name: as a folder that stands for their
registry, and as the stream's pulled contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lakesql.graph.manifest import Manifest
from lakesql.project.files import write_atomically
from lakesql.registry.registered import Registered
from lakesql.registry.registry_client import fetch_schema, schema_file
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.run.samples.pull_schemas import pull_schemas
from lakesql.stream.record_ids import find_ids
from lakesql.stream.recording import RawRecord
from lakesql.stream.registry_columns import schema_path, takes_pulled
from lakesql.stream.stream import Stream


def record_schemas(
    manifest: Manifest, stream: Stream, records: Iterable[RawRecord], folder: Path
) -> list[Path]:
    """Write the schema of each id that the records name, if the registry has it, and
    the newest schema of the subject that is the stream's contract, if the project has
    no file of it yet.

    Returns the files written. Raises what asking the registry raises; then no schema of
    an id is written.
    """
    registry = manifest.target.registry_of(stream)
    named = sorted({id_ for record in records for id_ in find_ids(stream, record)})
    found = [each for id_ in named if (each := fetch_schema(registry, id_)) is not None]
    files = {path: text for each in found for path, text in _files_of(each, folder)}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    pulled = (
        schema_path(stream, manifest.settings.paths.streams)
        if takes_pulled(stream) or stream.pulled
        else ""
    )
    if pulled and not (manifest.directory / pulled).exists():
        pull_schemas(manifest, [stream.name])
        return [*files, manifest.directory / pulled]
    return [*files]


def _files_of(each: Registered, folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a schema in a folder that stands for a registry, each with its text.
    Imports go to a subfolder, as other schemas may import other texts under the same
    names."""
    kind = SCHEMA_KINDS.get(each.kind)
    if kind is None:
        return
    path = folder / schema_file(each.id, kind)
    yield path, kind.tidy(each.text)
    for name, text in each.files:
        yield path.with_suffix("") / name, kind.tidy(text)
