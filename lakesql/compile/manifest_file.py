"""`target/manifest.json`: every node of the project, for other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakesql.project.cache import CacheFile, digest
from lakesql.project.files import shorten, write_atomically

if TYPE_CHECKING:
    from lakesql.compile.compiled import CompiledFiles
    from lakesql.graph.manifest import Manifest

MANIFEST = "manifest.json"


def write_manifest(
    manifest: Manifest, compiled: CompiledFiles, schemas: Mapping[str, str]
) -> Path:
    """Write the file, unless it is there and nothing that it says has changed; where it
    is.

    A model whose SELECT is not known to be right has the contract null. The project's
    files stand in it, and `schemas`, the Avro schemas by their paths, so that a later
    version can be compared with this one. What profiles.yml says is there by its names
    alone: it may hold what nobody else is to see.
    """
    path = manifest.outputs.target / MANIFEST
    cache = CacheFile(manifest.outputs.cache / MANIFEST)
    key = _key(manifest, compiled, schemas)
    written = cache.get(MANIFEST, key)
    if written is not None and digest(_read(path)) == written:
        return path
    # only here: mostly nothing has changed
    from lakesql.compile.manifest_text import render_manifest

    text = render_manifest(manifest, compiled, schemas)
    write_atomically(path, text)
    cache.put(MANIFEST, key, digest(text))
    cache.save((MANIFEST,))
    return path


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _key(
    manifest: Manifest, compiled: CompiledFiles, schemas: Mapping[str, str]
) -> str:
    """What the file is made from, as a digest.

    Models, tests and macros are as the project's texts say them on this target with
    these vars. Of which models the contract is known, and what it is, follows from them
    and from what the compiled files were made from.
    """
    folder = shorten(compiled.folder, manifest.directory)
    if manifest.version:
        return digest(
            manifest.version, folder, compiled.version, *schemas, *schemas.values()
        )
    from lakesql.compile.manifest_text import metadata_of, seed_facts, stream_facts

    said = (
        metadata_of(manifest),
        folder,
        manifest.vars,
        manifest.target.spark.adds_functions,
        {name: str(table) for name, table in manifest.deferred.items()},
        [stream_facts(stream) for stream in manifest.streams.values()],
        [seed_facts(seed) for seed in manifest.seeds.values()],
        compiled.version,
    )
    texts = (json.dumps(each, ensure_ascii=False) for each in said)
    return digest(
        *texts, *manifest.texts, *manifest.texts.values(), *schemas, *schemas.values()
    )
