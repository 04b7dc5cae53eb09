"""Writing `target/manifest.json`, which describes every node of the project for other
tools."""

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
    """Write manifest.json, unless it exists and its content has not changed. Returns
    its path.

    A model whose SELECT was not compiled successfully has the contract null. The
    project's files are included, and `schemas`, the texts of schema files by their
    paths, so that a later version can be compared with this one. Of profiles.yml only
    names are included, as it may contain secrets.
    """
    path = manifest.outputs.target / MANIFEST
    cache = CacheFile(manifest.outputs.cache / MANIFEST)
    key = _key(manifest, compiled, schemas)
    written = cache.get(MANIFEST, key)
    if written is not None and digest(_read(path)) == written:
        return path
    # imported here: mostly nothing has changed
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
    """A digest of everything that the file is made from.

    Models, tests and macros follow from the project's texts with this target and these
    vars. Which contracts are known, and their columns, follows from these and from the
    version of the compiled files.
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
