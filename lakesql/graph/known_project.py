"""What is kept of a project that was right: its graph and what was said of it, so that
it need not be checked again.

Nobody is told more than the files say: what a command asks for beside that is read from
them then, as ever.
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
    """What is kept of a manifest, beside the nodes of its graph.

    `lacks` are its fields that are empty, `looked_at` the folders of which its checks
    asked the disk, and `disk` what that said.
    """

    warnings: tuple[Problem, ...]
    lacks: frozenset[str]
    file_streams: frozenset[str]
    schema_paths: frozenset[str]
    looked_at: LookedAt
    disk: str


class KnownProject:
    """The project of these files on a target, as far as it is kept in the file
    `cache`."""

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
        """The manifest that was kept, if nothing has changed since; `read` gives all of
        it, and is asked where more than what is kept is needed."""
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
        """The manifest as one that is known; what it says is kept for the next command.

        One whose tables or columns are found elsewhere than in its files, or by
        programs that read schemas, stays as it is: another time they may be other ones.
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
"""Fields of a manifest that are empty in many projects, and are known where they
are."""


class _KnownManifest(Manifest):
    """A manifest of which some fields are known, and all others are read when one of
    them is asked for."""

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
        """What tells all that it is made of from anything else; '' where a field was
        given another value since."""
        return getattr(self, "_version", "")

    @property
    def model_names(self) -> tuple[str, ...]:
        """Those of the graph: each has a file of its own."""
        if not self.version:
            return super().model_names
        models = [
            node for node in self.graph.nodes.values() if node.resource_type == "model"
        ]
        return tuple(node.name for node in sorted(models, key=lambda node: node.path))

    @property
    def file_streams(self) -> frozenset[str]:
        """As it was kept."""
        return self._said.file_streams if self.version else super().file_streams

    @property
    def schema_paths(self) -> frozenset[str]:
        """As it was kept."""
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
    """A digest of everything that a manifest is made of, but for what its checks ask
    the disk.

    It has secrets of the environment only masked, as a digest of one could be guessed.
    '' where a folder has one in its name, by which it would be another folder.
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
