"""What the compiled text of a model depends on, as one digest; and what is kept of a
compiled model from one command to the next, by that and beside its text."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lakesql.compile.checks import checks_of
from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.errors import Place
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.graph.parse_cache import digest_macros
from lakesql.project.cache import CacheFile, decoder, digest, encode
from lakesql.stream.stream import Column


class CompiledKeys:
    """The cache keys of a project's models.

    A key covers everything that the compiled text depends on: the model's file, its
    options and descriptions, the macros, vars and fields of the target that it reads,
    the tables that it joins, and the contracts of its streams.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._keys: dict[str, str] = {}
        self._contracts: dict[str, str] = {}

    def key(self, name: str) -> str:
        """The cache key of a model."""
        if name in self._keys:
            return self._keys[name]
        manifest, model = self._manifest, self._manifest.models[name]
        facts = model.facts
        read_values = [
            [var, manifest.vars[var]]
            for var in sorted(facts.vars)
            if var in manifest.vars
        ]
        target = manifest.target
        parts = [
            *(
                model.path,
                model.fqn,
                str(model.table),
                model.options,
                encode(model.trigger),
                encode(model.calls),
            ),
            digest_macros(facts.macros, manifest.macros),
            [target.name, target.namespace, target.catalog.name]
            if "target" in facts.reads
            else [],
            {found.name: self._joined(found.name) for found in facts.refs},
            {found.name: self._contract(found.name) for found in facts.streams},
            target.spark.adds_functions,
            [
                model.properties.description,
                [[it.name, it.description] for it in model.properties.columns],
            ],
            [
                [it.name, it.condition, it.on_fail, it.column]
                for it in checks_of(model.properties)
            ],
            encode(model.properties.watermark),
        ]
        # `read_values` is not sorted: a template sees the entries of a mapping in their
        # order.
        self._keys[name] = digest(
            model.source, json.dumps(read_values), _text_of(parts)
        )
        return self._keys[name]

    def _joined(self, name: str) -> str:
        """The part of a model's key for a table that it joins."""
        table = self._manifest.deferred.get(name)
        seed = self._manifest.seeds.get(name)
        if table is not None:
            return str(table)
        return (
            self.key(name)
            if seed is None
            else digest(str(seed.table), _text_of(encode(seed.columns)))
        )

    def _contract(self, stream: str) -> str:
        """The part of a model's key for a stream that it reads."""
        read = reads_model(self._manifest, stream)
        if read is not None:
            return self.key(read.name)
        if stream not in self._contracts:
            declared = self._manifest.streams[stream]
            self._contracts[stream] = digest(
                _text_of(encode(replace(declared, place=Place(""))))
            )
        return self._contracts[stream]


def _text_of(value: object) -> str:
    return json.dumps(value, sort_keys=True)


_ENTRY = "keys"


class KnownKey(NamedTuple):
    """The cache key of a model's compiled text, and the path of its file below the
    folder of compiled files."""

    key: str
    compiled_path: str


class KnownKeys:
    """The cache keys kept in the file `cache` for a `version` of the project; none if
    the version is ''."""

    def __init__(self, cache: Path, version: str) -> None:
        self._cache = CacheFile(cache) if version else None
        self._version = version
        kept = self._cache.get(_ENTRY, version) if self._cache is not None else None
        self._keys: dict[str, KnownKey] = {
            name: KnownKey(*found) for name, found in (kept or {}).items()
        }
        self._has_new = False

    def get(self, name: str) -> KnownKey | None:
        """The key of a model; None if unknown."""
        return self._keys.get(name)

    def put(self, name: str, key: KnownKey) -> None:
        """Keep the key of a model: in this process, and after `save` until the project
        changes."""
        self._keys[name] = key
        self._has_new = True

    def save(self) -> None:
        """Write the keys to the cache file, if there are new ones."""
        if self._cache is None or not self._has_new:
            return
        self._cache.put(_ENTRY, self._version, self._keys)
        self._cache.save((_ENTRY,))
        self._has_new = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling a model, beside the text: `columns` is None if only
    Spark's analyzer knows them.

    `notes` are what the author may not have intended; `lineage` is where its columns
    come from.
    """

    digest: str
    columns: tuple[Column, ...] | None
    stateful: bool
    notes: tuple[str, ...] = ()
    lineage: ModelLineage = ModelLineage()


def decode_compiled(said: Any) -> Compiled:
    """The `Compiled` of the JSON in the cache."""
    return _decode(said)  # type: ignore[no-any-return]


_decode = decoder([Compiled, Column, ModelLineage, MadeColumn, SourceColumn])
