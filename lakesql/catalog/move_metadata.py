"""Several tables of a catalog in a database, given new metadata in one transaction of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.model.table_name import TableName

if TYPE_CHECKING:
    from lakesql.catalog.connect import OpenCatalog


@dataclass(frozen=True, slots=True)
class MetadataMove:
    """A table whose newest metadata are in the file `location` from now on, if they were in `former`."""

    table: TableName
    former: str
    location: str


def move_metadata(catalog: OpenCatalog, moves: Iterable[MetadataMove]) -> bool:
    """Give all tables their new metadata, or none where one of them has others than it should by now; whether so.

    As Iceberg's own catalog does for one table: by its row, if that still says what was read. The rows are changed in
    the order of the names, so that two who do this wait for one another and not in a circle.
    """
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import update

    opened = catalog.iceberg
    assert isinstance(opened, SqlCatalog)
    with opened.engine.connect() as connection:
        for move in sorted(moves, key=lambda each: str(each.table)):
            row = update(IcebergTables).where(
                IcebergTables.catalog_name == opened.name,
                IcebergTables.table_namespace == move.table.namespace,
                IcebergTables.table_name == move.table.name,
                IcebergTables.metadata_location == move.former,
            )
            row = row.values(metadata_location=move.location, previous_metadata_location=move.former)
            if connection.execute(row).rowcount != 1:
                connection.rollback()
                return False
        connection.commit()
    return True
