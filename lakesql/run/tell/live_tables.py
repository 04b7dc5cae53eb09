"""Reads the tables of models from their catalog, and their checkpoints, several at a
time."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from lakesql.catalog.checkpoint_files import open_stored
from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.tables import load_metadata
from lakesql.errors import LakesqlError, first_line
from lakesql.model.table_name import TableName
from lakesql.plan.table_status import Unknown
from lakesql.progress.state import Checkpoint
from lakesql.progress.stored import read_checkpoint
from lakesql.project.profiles import Target
from lakesql.review.tables_now import LiveModel, Unread
from lakesql.run.tell.status import READERS
from lakesql.table.metadata import TableMetadata

LOOKS = 3
"""How many times a table and its checkpoint are read, at most, while a run is writing
them."""


def read_live(
    target: Target, tables: Mapping[str, TableName]
) -> Mapping[str, LiveModel]:
    """The table and the checkpoint of each model, by the model's name. A table or
    checkpoint that cannot be read is returned as such. Raises what opening the catalog
    raises."""
    file = target.catalog.sqlite_file
    # opening it would make it
    opened = open_catalog(target.catalog) if file is None or file.exists() else None
    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-plan") as pool:
        found = pool.map(lambda name: _find(target, opened, tables[name], name), tables)
        return dict(zip(tables, found, strict=True))


def read_tables(
    opened: OpenCatalog, tables: Mapping[str, TableName]
) -> Mapping[str, LiveModel]:
    """The tables that exist and can be read, by model. Their checkpoints are left out,
    as these are compared when the queries start."""
    found = {name: _read_table(opened, table) for name, table in tables.items()}
    return {
        name: LiveModel(table, Unread(""), "")
        for name, table in found.items()
        if isinstance(table, TableMetadata)
    }


def _find(
    target: Target, opened: OpenCatalog | None, name: TableName, model: str
) -> LiveModel:
    """The table and its checkpoint, read again until the checkpoint is the same before
    and after: then no batch was committed in between."""
    folder = target.checkpoint_of(model)
    before = _read_checkpoint(target, folder)
    table: TableMetadata | Unknown | None = None
    for _ in range(LOOKS):
        table = _read_table(opened, name)
        checkpoint = _read_checkpoint(target, folder)
        if checkpoint == before:
            return LiveModel(table, checkpoint, folder)
        before = checkpoint
    return LiveModel(table, Unread(""), folder)


def _read_table(
    opened: OpenCatalog | None, name: TableName
) -> TableMetadata | Unknown | None:
    try:
        return load_metadata(opened, name) if opened is not None else None
    except LakesqlError as error:
        return Unknown(error.problems)


def _read_checkpoint(target: Target, folder: str) -> Checkpoint | Unread | None:
    try:
        files = open_stored(target.catalog, folder)
        return (
            read_checkpoint(files)
            if files is not None
            else Unread("Spark alone reaches this file system")
        )
    except (OSError, ValueError) as error:  # such are pyarrow's own, too
        return Unread(first_line(error))
