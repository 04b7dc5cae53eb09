"""Where a table keeps its files, and which other tables of its catalog keep theirs in
the same folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import JavaTable
from lakesql.model.table_name import TableName

_DATA = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_METADATA = "write.metadata.path"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of a table, and those of its data files and metadata files, which may
    be elsewhere."""

    location: str
    data: frozenset[str]
    metadata: frozenset[str]

    def all(self) -> frozenset[str]:
        """All of these folders."""
        return frozenset({self.location, *self.data, *self.metadata})


def read_places(table: JavaTable) -> Places:
    """The places of a table: the defaults, and those that its properties set."""
    properties, location = table.properties(), plain_path(str(table.location()))
    data = {plain_path(str(properties[key])) for key in _DATA if key in properties}
    metadata = (
        {plain_path(str(properties[_METADATA]))} if _METADATA in properties else set()
    )
    return Places(
        location,
        frozenset({f"{location}/data", *data}),
        frozenset({f"{location}/metadata", *metadata}),
    )


def plain_path(location: str) -> str:
    """A location in a form that can be compared: a local one without a scheme, S3 with
    `s3://`, none with a slash at its end."""
    local = re.sub(r"\Afile:/+", "/", location)
    return re.sub(r"\As3[an]://", "s3://", local).rstrip("/")


def local_path(plain: str) -> str | None:
    """The path on this machine; None where it is elsewhere."""
    return plain if plain.startswith("/") else None


def find_neighbours(
    session: SparkSession, name: TableName, table: JavaTable
) -> Iterator[tuple[str, str]]:
    """The other tables of the catalog whose folder is the same, contains this table's
    or is in it, and which folder that is.

    Each table of the catalog is loaded for it. A table that cannot be loaded is
    skipped: only own files are removed anyway.
    """
    folder = _real(read_places(table).location)
    source = (
        session._jsparkSession.sessionState().catalogManager().catalog(name.catalog)
    )
    for identifier in _tables(source):
        other = ".".join([*identifier.namespace(), str(identifier.name())])
        if other.casefold() == f"{name.namespace}.{name.name}".casefold():
            continue
        try:
            places = read_places(source.loadTable(identifier).table())
        except Py4JError:
            continue
        shared = [
            place for place in sorted(places.all()) if _overlap(folder, _real(place))
        ]
        if shared:
            yield other, shared[0]


def _tables(source: Any) -> Iterator[Any]:
    waiting = [*source.listNamespaces()]
    while waiting:
        namespace = waiting.pop()
        yield from source.listTables(namespace)
        waiting += source.listNamespaces(namespace)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _real(plain: str) -> str:
    """The path with symbolic links resolved, if it is on this machine."""
    local = local_path(plain)
    return plain if local is None else os.path.realpath(local)
