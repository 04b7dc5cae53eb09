"""What a table's newest metadata says, in Iceberg's JSON. No JVM; and for an embedded
catalog no pyiceberg, which takes longer to import than all that is asked here."""

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
"""The text of a table's metadata; None where there is no table of that name."""


def open_metadata(catalog: Catalog) -> ReadMetadata:
    """What reads the metadata of the catalog's tables.

    It raises what `open_catalog` and `load_table` raise; where an embedded catalog is
    no such thing, `sqlite3.Error`, and `OSError` where a file is not there that it
    names.
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
    """The same by a catalog that is open."""
    file = opened.profile.sqlite_file
    if file is not None:
        return _read_embedded(file, table)
    from lakesql.catalog.tables import load_table, metadata_text

    found = load_table(opened, table)
    return None if found is None else metadata_text(found)


def open_views(catalog: Catalog) -> ReadMetadata:
    """What reads the metadata of the catalog's views, as Iceberg's specification of
    views has it: of an embedded catalog's alone, None of any other.

    It raises what `open_metadata` says.
    """
    file = catalog.sqlite_file
    if file is None:
        return lambda view: None
    return lambda view: _read_embedded(file, view, "VIEW") if file.exists() else None


def _read_embedded(
    file: Path, table: TableName, kind: Literal["TABLE", "VIEW"] = "TABLE"
) -> str | None:
    """By the row of the table, or the view, in the catalog's SQLite file, which names
    the metadata's."""
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
    # as Iceberg's are named
    is_compressed = place.name.endswith((".gz.metadata.json", ".metadata.json.gz"))
    return (gzip.decompress(written) if is_compressed else written).decode("utf-8")
