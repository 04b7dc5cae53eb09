"""Whether a table has its folder to itself, which is required for the removal of
orphans.

Two catalogs with the same warehouse and namespace create their tables in the same
folders, and a catalog may put one table into another one's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import JavaTable, read_json, table_id
from lakesql.engine.maintenance.own_files import read_uuid
from lakesql.engine.maintenance.places import find_neighbours, local_path, plain_path
from lakesql.engine.spark.gateway import java_class
from lakesql.model.table_name import TableName
from lakesql.names import MAINTAINED_PROPERTY

_METADATA_FILES = (".metadata.json", ".metadata.json.gz")


class FolderError(Exception):
    """A table's folder has metadata of another table, or it is unknown whether it
    has."""


def check_neighbours(session: SparkSession, name: TableName, table: JavaTable) -> None:
    """Raise `FolderError` if another table of the catalog has the same folder, or one
    that contains it or is in it."""
    for other, place in find_neighbours(session, name, table):
        raise FolderError(
            f"table {other} of the same catalog keeps files in {place}, and {name} in {table.location()}: of two "
            "tables, one in the other's folder, no orphans are removed. Give one of the two a location of its own "
            f"(`unique-table-location: true` in the catalog block does so for new tables), or set "
            f"{MAINTAINED_PROPERTY}=false on {name}"
        )


def check_links(table: JavaTable) -> None:
    """Raise `FolderError` if a table's folder on this machine has a symbolic link in
    it.

    It may lead to files of others, and Hadoop's listing of a folder with a link to a
    folder does not end.
    """
    folder = local_path(plain_path(str(table.location())))
    for base, folders, _ in os.walk(folder) if folder is not None else ():
        for name in folders:
            link = Path(base, name)
            if link.is_symlink():
                raise FolderError(
                    f"{link} is a link to {link.readlink()}, and no orphans are removed from a folder with one, as "
                    f"what lies behind it may be somebody else's. Remove the link, or set {MAINTAINED_PROPERTY}=false "
                    "on the table"
                )


def check_folder(table: JavaTable) -> None:
    """Raise `FolderError` if the table's folder has metadata of another table.

    The metadata files that the table does not refer to are read: there are few, as the
    table removes its old ones, and orphans among them stay for some days only.
    """
    own, location = table_id(table), str(table.location()).rstrip("/")
    known = _known_files(table)
    for file in _newest_first(table.io(), f"{location}/metadata/"):
        if PurePosixPath(file).name in known or not file.endswith(_METADATA_FILES):
            continue
        other = _uuid(table.io(), file)
        if other is not None and other != own:
            raise FolderError(
                f"the folder {location} has metadata of another table too, of UUID {other} (this one has {own}), whose "
                "files would be removed as orphans. If another catalog has that table, give one of the two a "
                f"`warehouse` or a `namespace` of its own, or set {MAINTAINED_PROPERTY}=false on this one; if nobody "
                f"has it, as it was dropped without its files, remove its metadata files, such as {file}"
            )


def _uuid(io: Any, file: str) -> str | None:
    try:
        return read_uuid(io, file)
    except (Py4JJavaError, ValueError):  # no metadata file, whatever its name says
        return None


def _known_files(table: JavaTable) -> frozenset[str]:
    """The names of the metadata files that the table refers to. They have a UUID in
    them, so no other file has the same name."""
    log = json.loads(read_json(table)).get("metadata-log", [])
    files = [
        str(table.operations().current().metadataFileLocation()),
        *(entry["metadata-file"] for entry in log),
    ]
    return frozenset(PurePosixPath(file).name for file in files)


def _newest_first(io: Any, folder: str) -> list[str]:
    """The files of a folder and its subfolders, newest first, as the table's FileIO
    lists them."""
    if not java_class(
        "org.apache.iceberg.io.SupportsPrefixOperations"
    )._java_lang_class.isInstance(io):
        kind = io.getClass().getName()
        raise FolderError(
            f"{kind} lists no files, so nobody can tell whether all in {folder} are the table's own"
        )
    lists = java_class("org.apache.iceberg.relocated.com.google.common.collect.Lists")
    try:
        listed = lists.newArrayList(io.listPrefix(folder))
    except Py4JJavaError as error:
        # the table keeps its metadata elsewhere
        if "FileNotFoundException" in str(error):
            return []
        raise
    jackson = "com.fasterxml.jackson"
    visible = java_class(f"{jackson}.annotation.JsonAutoDetect$Visibility").ANY
    fields = java_class(f"{jackson}.annotation.PropertyAccessor").FIELD
    mapper = java_class(f"{jackson}.databind.ObjectMapper")().setVisibility(
        fields, visible
    )
    # as one text: there may be thousands
    found = json.loads(mapper.writeValueAsString(listed))
    return [
        file["location"]
        for file in sorted(found, key=lambda file: -file["createdAtMillis"])
    ]
