"""How a table's newest metadata is read as Iceberg's JSON, without a JVM. For a catalog
on SQLite without pyiceberg too, as that takes longer to import than the reading."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

from lakesql.catalog.connect import BUSY_TIMEOUT_S, OpenCatalog, open_catalog
from lakesql.location import local_folder
from lakesql.model.table_name import TableName
from lakesql.project.profiles import Catalog

ReadMetadata = Callable[[TableName], str | None]
"""A function that returns the text of a table's metadata; None if there is no table of
that name."""


def open_metadata(catalog: Catalog) -> ReadMetadata:
    """A function that reads the metadata of the catalog's tables. The catalog is opened
    at the first call.

    The function raises what `open_catalog` and `load_table` raise. For a catalog on
    SQLite it raises `sqlite3.Error` if the file is no catalog, and `OSError` if a
    metadata file does not exist.
    """
    file = catalog.sqlite_file
    if file is not None:
        return lambda table: _read_embedded(file, table) if file.exists() else None
    opened: list[OpenCatalog] = []

    def read(table: TableName) -> str | None:
        if not opened:
            opened.append(open_catalog(catalog))
        return read_opened(opened[0], table)

    return read


def read_opened(opened: OpenCatalog, table: TableName) -> str | None:
    """The text of a table's metadata, by an open catalog; None if there is no such
    table. Raises what the function of `open_metadata` raises."""
    file = opened.profile.sqlite_file
    if file is not None:
        return _read_embedded(file, table)
    from lakesql.catalog.tables import load_table, metadata_text

    found = load_table(opened, table)
    return None if found is None else metadata_text(found)


def open_views(catalog: Catalog) -> ReadMetadata:
    """A function that reads the metadata of the catalog's views, as JSON of Iceberg's
    view specification. Only for catalogs on SQLite; for others it returns None.

    It raises what the function of `open_metadata` raises.
    """
    file = catalog.sqlite_file
    if file is None:
        return lambda view: None
    return lambda view: _read_embedded(file, view, "VIEW") if file.exists() else None


def _read_embedded(
    file: Path, table: TableName, kind: Literal["TABLE", "VIEW"] = "TABLE"
) -> str | None:
    """The text of the metadata file of a table or view, which the catalog's SQLite file
    names; None if it has no such table or view."""
    with closing(
        sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S
        )
    ) as opened:
        opened.row_factory = sqlite3.Row
        found = opened.execute(
            "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (table.catalog, table.namespace, table.name),
        ).fetchone()
    if found is None:
        return None
    row = dict(found)  # catalogs of before there were views say of no row what it is
    if (row.get("iceberg_type") or "TABLE") != kind:
        return None
    place = local_folder(str(row["metadata_location"]))
    if place is None:
        raise FileNotFoundError(
            f"{row['metadata_location']} is no file of this machine"
        )
    written = place.read_bytes()
    # the suffixes that Iceberg gives to compressed metadata files
    is_compressed = place.name.endswith((".gz.metadata.json", ".metadata.json.gz"))
    return (gzip.decompress(written) if is_compressed else written).decode("utf-8")
