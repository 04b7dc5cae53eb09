"""Several tables of a catalog in a database, given new metadata in one transaction of
it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.errors import TransientError, first_line
from lakesql.model.table_name import TableName

if TYPE_CHECKING:
    from lakesql.catalog.connect import OpenCatalog


@dataclass(frozen=True, slots=True)
class MetadataMove:
    """A table whose newest metadata are in the file `location` from now on, if they
    were in `former`."""

    table: TableName
    former: str
    location: str


def move_metadata(catalog: OpenCatalog, moves: Iterable[MetadataMove]) -> bool:
    """Give all tables their new metadata, or none where one of them has others than it
    should by now; whether so.

    As Iceberg's own catalog does for one table: by its row, if that still says what was
    read. The rows are changed in the order of the names, so that two who do this wait
    for one another and not in a circle. Raises `TransientError` (`catalog-unreachable`)
    where the database does not answer, and it is not known what it has done.
    """
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import update
    from sqlalchemy.exc import DBAPIError

    opened = catalog.iceberg
    assert isinstance(opened, SqlCatalog)
    rows = [
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == opened.name,
            IcebergTables.table_namespace == move.table.namespace,
            IcebergTables.table_name == move.table.name,
            IcebergTables.metadata_location == move.former,
        )
        .values(metadata_location=move.location, previous_metadata_location=move.former)
        for move in sorted(moves, key=lambda each: str(each.table))
    ]
    try:
        with opened.engine.connect() as connection:
            for row in rows:
                if connection.execute(row).rowcount != 1:
                    connection.rollback()
                    return False
            connection.commit()
    except DBAPIError as error:
        what = f"The catalog '{catalog.profile.name}' has not answered a commit: {first_line(error)}"
        fix = "The next try looks whether it was made."
        raise TransientError.of("catalog-unreachable", what, fix=fix) from error
    return True
