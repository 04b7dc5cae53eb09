"""Whether the other folders that a project uses lie outside its tables' folders, in
which maintenance deletes unknown files.

The location of a table's folder is the one that the catalog chooses. For REST catalogs
it is not known, as their server chooses it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lakesql.errors import Place, Problem
from lakesql.location import local_folder
from lakesql.names import LEASE_SUFFIX, REBUILD_SUFFIX
from lakesql.project.cache import digest
from lakesql.source.kinds import project_files

if TYPE_CHECKING:
    from lakesql.model.model import Model
    from lakesql.project.files import Outputs
    from lakesql.project.profiles import Catalog, Target
    from lakesql.source.source import Source
    from lakesql.stream.stream import Stream

Parts = tuple[str, ...]
"""A folder as the list of names that lead to it. The first one is the storage's."""

LOCATIONS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""The table properties that place files of a table in other folders."""


def check_folders_apart(
    target: Target,
    models: Iterable[Model],
    streams: Iterable[Stream],
    directory: Path,
    outputs: Outputs,
) -> Iterator[Problem]:
    """Problems (`unsafe-folder`) of folders that lie in one another, on a target whose
    local paths are absolute. `directory` is the project's.

    No checkpoint and no lease may lie in a table's folder, nor a table's folder in one
    of them, as a checkpoint is moved aside as a whole. The files that streams read, and
    those that lakesql writes beside the tables, may not lie in a table's folder. There
    is one problem for each setting that must be changed.
    """
    models = tuple(models)
    uses = (
        *_checkpoints(target, models),
        *_inputs(target, streams, directory),
        *_outputs(target, outputs),
    )
    tables = _table_folders(target.catalog, models, uses)
    if not tables:
        return
    above = _folders_above(tables)
    told: set[str] = set()
    for use in uses:
        within = next((tables[each] for each in _up(use.parts) if each in tables), None)
        around = above.get(use.parts) if use.is_moved else None
        table = within or around
        if table is None or use.setting in told:
            continue
        told.add(use.setting)
        what = f"{use.what}, {use.folder}, lies in the folder of {table.name}, {table.folder}."
        if within is None:
            what = f"The folder of {table.name}, {table.folder}, lies in {use.what[0].lower()}{use.what[1:]}, {use.folder}."
        why = "Maintenance removes the files in a table's folder that are none of the table's, and a checkpoint is "
        why += "moved aside with all that lies in it."
        yield Problem(
            "unsafe-folder",
            what,
            why,
            f"Give {use.setting} a folder of its own.",
            use.place,
        )


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The folders whose state on disk `check_folders_apart` depends on: as long as
    `state` is the same, its result is the same."""

    folders: tuple[str, ...]
    namespaces: tuple[str, ...]

    def state(self) -> str:
        """A digest of where each folder really lies, symbolic links resolved, and of
        the links within the namespaces' folders."""
        lies = [_parts(folder) for folder in (*self.folders, *self.namespaces)]
        links = {
            f"{folder}/{link}": _parts(f"{folder}/{link}")
            for folder in self.namespaces
            for link in sorted(_links(local_folder(folder)))
        }
        return digest(json.dumps([lies, links]))


def folders_looked_at(
    target: Target,
    models: Iterable[Model],
    streams: Iterable[Stream],
    directory: Path,
    outputs: Outputs,
) -> LookedAt:
    """The folders for which `check_folders_apart` reads the disk, for the same
    project."""
    folders = {target.checkpoints, *(use.folder for use in _outputs(target, outputs))}
    for stream in streams:
        connection = _connection(target, stream, directory)
        folders.update(connection.places if connection is not None else ())
    namespaces: set[str] = set()
    for model in models:
        folders.update(
            filter(None, (model.config.properties.get(key, "") for key in LOCATIONS))
        )
        namespaces.add(_namespace_folder(target.catalog, model.table.namespace))
    return LookedAt(tuple(sorted(folders)), tuple(sorted(namespaces - {""})))


@dataclass(frozen=True, slots=True)
class _FolderTable:
    """A table, and one of its folders as written in the configuration."""

    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class _Use:
    """A folder or file that belongs to no table: what it is, the setting that
    determines it, and the place of that setting.

    `is_moved`: it is moved and removed as a whole.
    """

    what: str
    setting: str
    folder: str
    parts: Parts
    place: Place | None
    is_moved: bool = False


def _table_folders(
    catalog: Catalog, models: Iterable[Model], uses: Iterable[_Use]
) -> dict[Parts, _FolderTable]:
    """The folders of the tables that the models write, including the tables beside them
    and those of their rebuilds.

    If none of the `uses` lies in a namespace's folder, or is moved together with it,
    its tables cannot have a problem: only tables that are links to another folder are
    included.
    """
    found: dict[Parts, _FolderTable] = {}
    namespaces: dict[str, _NamespaceFolder] = {}
    for model in models:
        own = model.table
        for key in LOCATIONS:
            if folder := model.config.properties.get(key, ""):
                found[_parts(folder)] = _FolderTable(str(own), folder)
        if own.namespace not in namespaces:
            namespaces[own.namespace] = _namespace(
                _namespace_folder(catalog, own.namespace), uses
            )
        namespace = namespaces[own.namespace]
        folder = namespace.folder
        if own.name in namespace.links:
            found[_parts(f"{folder}/{own.name}")] = _FolderTable(
                str(own), f"{folder}/{own.name}"
            )
        if not namespace.is_used:
            continue
        for table in own.family:
            found[*namespace.parts, table.name] = _FolderTable(
                str(table), f"{folder}/{table.name}"
            )
    return found


@dataclass(frozen=True, slots=True)
class _NamespaceFolder:
    """The folder in which a catalog creates the tables of a namespace; '' if it is not
    known.

    `is_used`: something else lies in it, or it lies in something that is moved as a
    whole. `links` are the names of the symbolic links in it.
    """

    folder: str
    parts: Parts
    is_used: bool
    links: frozenset[str]


def _namespace(folder: str, uses: Iterable[_Use]) -> _NamespaceFolder:
    if not folder:
        return _NamespaceFolder(folder, (), is_used=False, links=frozenset())
    parts = _parts(folder)
    is_used = any(
        _is_within(use.parts, parts) or (use.is_moved and _is_within(parts, use.parts))
        for use in uses
    )
    return _NamespaceFolder(folder, parts, is_used, _links(local_folder(folder)))


def _is_within(inner: Parts, outer: Parts) -> bool:
    return inner[: len(outer)] == outer


def _links(folder: Path | None) -> frozenset[str]:
    """The names of the symbolic links in a local folder; none if it does not exist or
    cannot be read."""
    try:
        return (
            frozenset(entry.name for entry in os.scandir(folder) if entry.is_symlink())
            if folder
            else frozenset()
        )
    except OSError:
        return frozenset()


def _namespace_folder(catalog: Catalog, namespace: str) -> str:
    """The folder in which a catalog creates the tables of a namespace; '' if it is not
    known."""
    warehouse = catalog.warehouse.rstrip("/")
    if not warehouse or catalog.type not in ("sql", "hadoop", "hive", "glue"):
        return ""
    below = (
        namespace.replace(".", "/")
        if catalog.type in ("sql", "hadoop")
        else f"{namespace}.db"
    )
    return f"{warehouse}/{below}"


def _folders_above(tables: Mapping[Parts, _FolderTable]) -> dict[Parts, _FolderTable]:
    """For each folder that a table's folder lies in, one such table; a table's own
    folder is included."""
    found: dict[Parts, _FolderTable] = {}
    for parts, table in tables.items():
        for folder in _up(parts):
            found.setdefault(folder, table)
    return found


def _up(parts: Parts) -> Iterator[Parts]:
    """The folder itself, and all folders above it."""
    return (parts[:length] for length in range(len(parts), 0, -1))


def _checkpoints(target: Target, models: Iterable[Model]) -> Iterator[_Use]:
    base, place = _parts(target.checkpoints), target.catalog.place
    for model in models:
        for suffix in ("", LEASE_SUFFIX, REBUILD_SUFFIX):
            what = (
                f"The checkpoint of model '{model.name}'"
                if suffix != LEASE_SUFFIX
                else "The lease of a model"
            )
            folder = target.checkpoint_of(model.name) + suffix
            parts = (*base, model.name + suffix)
            yield _Use(
                what, "`checkpoints` of the target", folder, parts, place, is_moved=True
            )


def _inputs(
    target: Target, streams: Iterable[Stream], directory: Path
) -> Iterator[_Use]:
    bases: dict[str, Parts] = {}
    for stream in streams:
        connection = _connection(target, stream, directory)
        for place, path in product(
            connection.places if connection is not None else (), stream.origin.folders
        ):
            base = bases.setdefault(place, _parts(place))
            names = PurePosixPath(path).parts
            named = names[
                : next(
                    (at for at, name in enumerate(names) if _GLOB.search(name)),
                    len(names),
                )
            ]
            folder = "/".join((place.rstrip("/"), *named))
            what, setting = (
                f"What stream '{stream.name}' reads",
                f"stream '{stream.name}'",
            )
            yield _Use(what, setting, folder, (*base, *named), stream.place)


def _connection(target: Target, stream: Stream, directory: Path) -> Source | None:
    """The source of a stream; None if the target has no such connection."""
    if not stream.connection and stream.origin.brings == "files":
        return project_files(str(directory))
    return target.connections.get(stream.connection)


_GLOB = re.compile(r"[*?\[\]{}\\]")


def _outputs(target: Target, outputs: Outputs) -> Iterator[_Use]:
    place = target.catalog.place
    for what, setting, folder in (
        ("What lakesql writes", "--target-path", outputs.target),
        ("The log", "--log-path", outputs.logs),
        ("The catalog's file", "`uri` of the catalog", target.catalog.sqlite_file),
    ):
        if folder is not None:
            yield _Use(what, setting, str(folder), _parts(str(folder)), place)


def _parts(folder: str) -> Parts:
    """The names that lead to a folder. Symbolic links of a local one are resolved; in a
    URL, all schemes of S3 count as the same."""
    local = local_folder(folder)
    if local is not None:
        return tuple(PurePosixPath(os.path.realpath(local)).parts)
    scheme, _, rest = folder.partition(":")
    storage = "s3" if scheme.lower() in ("s3", "s3a", "s3n") else scheme.lower()
    return (storage, *(name for name in rest.split("/") if name))
