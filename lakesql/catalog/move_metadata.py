"""The commit of several tables of a `sql` catalog in one transaction of its
database."""

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
    """A change of a table's metadata file to `location`, if it still is `former`."""

    table: TableName
    former: str
    location: str


def move_metadata(catalog: OpenCatalog, moves: Iterable[MetadataMove]) -> bool:
    """Give all tables their new metadata and return True, or, if one of them has
    another metadata file than `former` by now, change none and return False.

    As in Iceberg's own catalog, a table's row is updated if it still has the former
    file. Rows are updated in the order of the tables' names, so that two processes do
    not deadlock. Raises `TransientError` (`catalog-unreachable`) if the database does
    not answer, so that it is not known whether it has committed.
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
