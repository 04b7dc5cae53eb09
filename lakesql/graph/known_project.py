"""The cache of a project without errors: its graph and its warnings are kept, so that
an unchanged project need not be checked again.

The cache never adds to the project's files: whatever a command needs beyond what is
kept is read from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lakesql.errors import Place, Problem
from lakesql.graph.folders import LookedAt, folders_looked_at
from lakesql.graph.graph import Graph, GraphNode, graph_of
from lakesql.graph.manifest import Manifest
from lakesql.graph.named_selectors import Selectors, parse_selectors
from lakesql.project.cache import CacheFile, decoder, digest, encode
from lakesql.project.files import ProjectFiles
from lakesql.project.profiles import Target, resolve_paths
from lakesql.secrets import find_secrets

_ENTRY = "project"


@dataclass(frozen=True, slots=True)
class _Said:
    """What is kept of a manifest, besides the nodes of its graph.

    `lacks` are the names of its fields that are empty, `looked_at` the folders whose
    state on disk its checks depended on, and `disk` a digest of that state.
    """

    warnings: tuple[Problem, ...]
    lacks: frozenset[str]
    file_streams: frozenset[str]
    schema_paths: frozenset[str]
    looked_at: LookedAt
    disk: str


class KnownProject:
    """The project made of these files on a target, as far as the file `cache` has
    it."""

    def __init__(
        self,
        cache: Path,
        files: ProjectFiles,
        target: Target,
        overrides: Mapping[str, Any],
        environ: Mapping[str, str],
    ) -> None:
        self._cache = CacheFile(cache)
        self._files = files
        self._target = resolve_paths(target, files.directory)
        self._overrides = overrides
        self._version = version_of(files, self._target, overrides, environ)

    def find(self, read: Callable[[], Manifest]) -> Manifest | None:
        """The kept manifest; None if there is none, or anything has changed since.
        `read` loads the whole manifest; it is called if a field is used that is not
        kept."""
        found = self._cache.get(_ENTRY, self._version) if self._version else None
        if found is None:
            return None
        said: _Said = _decode(found["said"])
        if said.looked_at.state() != said.disk:
            return None
        named = self._files.selectors
        given = {
            "directory": self._files.directory,
            "outputs": self._files.outputs,
            "settings": self._files.settings,
            "target": self._target,
            "vars": {**self._files.settings.vars.plain(), **self._overrides},
            "texts": self._files.texts,
            "warnings": said.warnings,
            "selectors": parse_selectors(named) if named is not None else Selectors(),
            "deferred": {},
        }
        given |= {
            name: empty for name, empty in _MAY_LACK.items() if name in said.lacks
        }
        return _known(given, self._version, said, found["nodes"], read)

    def keep(self, manifest: Manifest) -> Manifest:
        """The manifest as a cached one, after writing it to the cache for the next
        command.

        A manifest is returned unchanged and not kept if its tables or columns are found
        elsewhere than in its files, or by programs that read schemas: these may differ
        the next time.
        """
        has_open = any(stream.is_open for stream in manifest.streams.values())
        depends_on_more = has_open or manifest.groups or self._files.schemas
        if depends_on_more or not self._version:
            return manifest
        streams = manifest.streams.values()
        looked_at = folders_looked_at(
            manifest.target,
            manifest.models.values(),
            streams,
            manifest.directory,
            manifest.outputs,
        )
        said = _Said(
            manifest.warnings,
            frozenset(name for name in _MAY_LACK if not getattr(manifest, name)),
            manifest.file_streams,
            manifest.schema_paths,
            looked_at,
            looked_at.state(),
        )
        nodes = [encode(node) for node in manifest.graph.nodes.values()]
        self._cache.put(_ENTRY, self._version, {"said": encode(said), "nodes": nodes})
        self._cache.save((_ENTRY,))
        given = {
            field.name: getattr(manifest, field.name) for field in fields(Manifest)
        }
        return _known(given, self._version, said, [], lambda: manifest)


_MAY_LACK: Mapping[str, Any] = {
    "written": {},
    "unit_tests": (),
    "data_tests": (),
    "seeds": {},
    "groups": {},
    "source_tables": (),
}
"""Fields of a manifest that are empty in many projects. That they are empty is kept;
their contents are not."""


class _KnownManifest(Manifest):
    """A manifest of which some fields are known. All others are read when the first of
    them is used."""

    __slots__ = ("_nodes", "_read", "_said", "_version")

    _nodes: list[Any]
    _read: Callable[[], Manifest]
    _said: _Said
    _version: str

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(name)
        if name == "graph":
            _fill(self, graph=_graph(self._nodes))
        else:
            whole = self._read()
            _fill(self, **{field: getattr(whole, field) for field in _FIELDS})
        return object.__getattribute__(self, name)

    @property
    def version(self) -> str:
        """A digest of all that the manifest is made of; '' if a field has been replaced
        since."""
        return getattr(self, "_version", "")

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models' names, from the kept graph: a kept manifest has no groups, so
        each of its models has a file."""
        if not self.version:
            return super().model_names
        models = [
            node for node in self.graph.nodes.values() if node.resource_type == "model"
        ]
        return tuple(node.name for node in sorted(models, key=lambda node: node.path))

    @property
    def file_streams(self) -> frozenset[str]:
        """The kept value, or that of `Manifest` if a field has been replaced."""
        return self._said.file_streams if self.version else super().file_streams

    @property
    def schema_paths(self) -> frozenset[str]:
        """The kept value, or that of `Manifest` if a field has been replaced."""
        return self._said.schema_paths if self.version else super().schema_paths


_FIELDS = frozenset(field.name for field in fields(Manifest))


def _known(
    given: Mapping[str, Any],
    version: str,
    said: _Said,
    nodes: list[Any],
    read: Callable[[], Manifest],
) -> _KnownManifest:
    found = object.__new__(_KnownManifest)
    _fill(found, **given, _version=version, _said=said, _nodes=nodes, _read=read)
    return found


def _fill(manifest: _KnownManifest, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(manifest, name, value)


def _graph(nodes: list[Any]) -> Graph:
    return graph_of(_decode(node) for node in nodes)


_decode = decoder((_Said, GraphNode, Place, Problem, LookedAt))


def version_of(
    files: ProjectFiles,
    target: Target,
    overrides: Mapping[str, Any],
    environ: Mapping[str, str],
) -> str:
    """A digest of everything that a manifest is made of, except what its checks read
    from the disk.

    Secrets of the environment are masked in it, as a secret could be guessed from a
    digest. It is '' (no cache) if a folder's name contains a secret, as two such
    folders could not be distinguished when masked.
    """
    secrets = find_secrets(environ)
    places = [
        place
        for connection in target.connections.values()
        for place in connection.places
    ]
    if any(
        secrets.are_in(place)
        for place in (target.checkpoints, target.catalog.warehouse, *places)
    ):
        return ""
    folders = (str(files.directory), str(files.outputs.target), str(files.outputs.logs))
    texts: list[str] = []
    kinds = (
        files.models,
        files.streams,
        files.macros,
        files.properties,
        files.tests,
        files.contracts,
        files.schemas,
    )
    for kind in kinds:
        texts.append(str(len(kind)))
        for file in kind:
            texts += (file.path, file.text)
    for seed in files.seeds:
        texts += (seed.path, seed.header, seed.digest)
    selectors = "" if files.selectors is None else files.selectors.text
    of_target = (str(target.facts), secrets.redact(repr(target)))
    return digest(
        *folders, files.settings_text, selectors, *of_target, repr(overrides), *texts
    )
