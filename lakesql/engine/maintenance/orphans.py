"""How orphans are removed: files written by lakesql's runs are deleted, other files
below a table's location are counted and left.

To delete the others too, an operator lists them first, and then confirms that list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession

from lakesql.compile.maintenance import call_text
from lakesql.engine.ledger.snapshots import JavaTable, load_table
from lakesql.engine.maintenance.folder import (
    FolderError,
    check_folder,
    check_links,
    check_neighbours,
)
from lakesql.engine.maintenance.own_files import OwnFiles
from lakesql.engine.maintenance.places import plain_path
from lakesql.engine.progress.writer import read_writer
from lakesql.model.maintenance_tasks import MaintenanceTask, UnknownFiles
from lakesql.project.procedures import RemoveOrphanFiles

Sweep = Literal["", "list", "delete"]
"""What an operator asks to do with the files that lakesql's runs have not written."""

SIZES_READ = 1_000
"""For how many unknown files at most the sizes are read, one by one."""

_VIEW_COLUMNS = "file_path string, last_modified timestamp"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundOrphans:
    """How many orphans were removed, and which files are left."""

    removed: int
    unknown: UnknownFiles
    left: tuple[str, ...]


def remove_orphans(
    session: SparkSession,
    task: MaintenanceTask,
    before: datetime,
    checkpoints: str,
    collect: Callable[[str], list[Row]],
    sweep: Sweep = "",
    listed: str = "",
) -> FoundOrphans:
    """Remove the table's own files that were written before a time and that no version
    of the table refers to.

    `collect` runs a statement. With `sweep` `list` nothing is removed; with `delete`
    all files are, if `listed` is the digest of the current list of unknown files.
    Raises `FolderError` if another table has files in the folder, or if the unknown
    files are not those of the list.
    """
    assert isinstance(task.options, RemoveOrphanFiles)
    table = load_table(session, task.table)
    check_neighbours(session, task.table, table)
    check_folder(table)
    check_links(table)
    dry = replace(task, options=replace(task.options, dry_run=True))
    candidates = sorted(str(row[0]) for row in collect(call_text(dry, before=before)))
    own = OwnFiles(table, read_writer(session, checkpoints))
    mine = [file for file in candidates if own.owns(file)]
    left = sorted(set(candidates) - set(mine))
    if sweep == "delete":
        _check_listed(left, listed, task)
        mine, left = candidates, []
    removed = 0
    if mine and sweep != "list":
        removed = _remove(session, task, before, str(table.location()), mine, collect)
    digest = _digest(left) if sweep == "list" else ""
    return FoundOrphans(removed, _describe(table, left, digest), tuple(left))


def _check_listed(left: Sequence[str], listed: str, task: MaintenanceTask) -> None:
    if left and _digest(left) != listed:
        raise FolderError(
            f"the files that nobody of ours has written, {len(left):,} now, are not those that were listed last: look "
            f"at them with `lakesql maintain {task.model} --unknown-files list`, and ask again then"
        )


def _remove(
    session: SparkSession,
    task: MaintenanceTask,
    before: datetime,
    location: str,
    files: Iterable[str],
    collect: Callable[[str], list[Row]],
) -> int:
    """Call Iceberg for exactly these files. Their paths begin with the location as the
    table writes it: Iceberg ignores others."""
    view = f"lakesql_own_files_{uuid4().hex}"
    spelled = [(_spell(file, location), _LONG_AGO) for file in files]
    session.createDataFrame(spelled, _VIEW_COLUMNS).createOrReplaceTempView(view)
    try:
        return len(collect(call_text(task, before=before, file_list_view=view)))
    finally:
        session.catalog.dropTempView(view)


def _spell(file: str, location: str) -> str:
    """A file's path with the location's scheme: `file:/x` and `file:///x` are the same
    place."""
    inside = plain_path(file).removeprefix(plain_path(location)).lstrip("/")
    return f"{location.rstrip('/')}/{inside}"


def _describe(table: JavaTable, left: Sequence[str], digest: str) -> UnknownFiles:
    size = 0
    for file in left[:SIZES_READ]:
        try:
            size += int(table.io().newInputFile(file).getLength())
        except Py4JJavaError:  # somebody has removed it meanwhile
            continue
    return UnknownFiles(len(left), size, left[0] if left else "", digest)


def _digest(files: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]
