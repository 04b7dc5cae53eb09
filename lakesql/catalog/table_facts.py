"""How the facts for `lakesql status` are read from a table by pyiceberg, without a JVM:
its metadata, its files, and its numbers of dead letters. No row is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.manifests import list_manifests, read_live_files
from lakesql.catalog.tables import load_metadata, load_table, metadata_text, reading
from lakesql.errors import Problem, RunError
from lakesql.events import TableTotals
from lakesql.ledger.entry import totals_of
from lakesql.model.table_name import TableName
from lakesql.plan.health import TableFacts
from lakesql.table.commits import (
    brings_rows,
    read_branch,
    read_commits,
    read_letters,
    summary_with_entry,
)
from lakesql.table.live_files import LiveFile, ManifestSize, MetadataSizes
from lakesql.table.metadata import TableMetadata, read_metadata

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

SAMPLE = 20
"""The number of newest batches by which the size of a snapshot in the metadata file is
measured."""

COMPRESSED_METADATA = ".gz.metadata.json"
"""The suffix of the name of a compressed metadata file."""

HISTORY_ENTRY_BYTES = 60
"""The size of a snapshot's entry in the metadata file's snapshot log."""


def read_facts(opened: OpenCatalog, name: TableName) -> TableFacts | None:
    """The facts about a table by its newest metadata; None if there is no such table.

    What is read: its metadata file, with all snapshots; the manifest list and the
    manifests of the current snapshot; and the metadata file of its dead-letter table,
    which may be unreadable (`letters_unread`). Raises `ProfileError`
    (`catalog-unreachable`) and `RunError` (`table-unreadable`).
    """
    table = load_table(opened, name)
    if table is None:
        return None
    letters, unread = _read_letters(opened, name)
    text = metadata_text(table)
    found = json.loads(text)
    metadata = read_metadata(found)
    branch = read_branch(metadata)
    is_ours, commits = read_commits(metadata)
    with reading(name, "manifests"):
        sizes, files = _read_files(table, metadata, found, len(text))
    return TableFacts(
        name=name,
        metadata=metadata,
        is_ours=is_ours,
        commits=commits,
        totals=totals_of(summary_with_entry(branch[-1], metadata))
        if branch
        else TableTotals(),
        files=files,
        sizes=sizes,
        dead_letters=letters,
        letters_unread=unread,
    )


def _read_letters(
    opened: OpenCatalog, name: TableName
) -> tuple[tuple[tuple[int, int], ...], tuple[Problem, ...]]:
    """The commits to the dead-letter table, each with its time and number of dead
    letters; and the problems if that table cannot be read."""
    try:
        letters = load_metadata(opened, name.dead_letter)
    except RunError as error:
        return (), error.problems
    return read_letters(letters) if letters is not None else (), ()


def _read_files(
    table: Table, metadata: TableMetadata, found: Mapping[str, Any], text_length: int
) -> tuple[MetadataSizes, tuple[LiveFile, ...]]:
    """The sizes of the metadata that a reader needs to find the files of the current
    snapshot, and these files.

    `found` is the parsed JSON of the metadata, `text_length` the length of its text.
    """
    batches = [
        each
        for each in found.get("snapshots") or ()
        if brings_rows(each.get("summary") or {})
    ]
    log = found.get("metadata-log") or ()
    file_bytes = len(table.io.new_input(table.metadata_location))
    # In a compressed file, a part takes less than its JSON's length.
    is_compressed = table.metadata_location.endswith(COMPRESSED_METADATA)
    compression = file_bytes / text_length if is_compressed else 1.0
    current = table.current_snapshot()
    manifests = list_manifests(table.io, current) if current is not None else ()
    list_name = current.manifest_list if current is not None else ""
    sizes = MetadataSizes(
        file_bytes=file_bytes,
        snapshot_bytes=compression
        * (_mean_bytes(batches[-SAMPLE:]) + HISTORY_ENTRY_BYTES),
        log=len(log),
        log_entry_bytes=compression * _mean_bytes(log[-SAMPLE:]),
        list_bytes=len(table.io.new_input(list_name)) if list_name else 0,
        manifests=tuple(map(_manifest, manifests)),
    )
    return sizes, read_live_files(table.io, manifests, metadata.snapshots)


def _mean_bytes(parts: Sequence[Mapping[str, Any]]) -> float:
    """The average size of these parts in the JSON of a metadata file, with the comma
    after each; 0 if there are none."""
    texts = [
        json.dumps(part, separators=(",", ":"), ensure_ascii=False) for part in parts
    ]
    return sum(len(text) + 1 for text in texts) / len(texts) if texts else 0.0


def _manifest(manifest: ManifestFile) -> ManifestSize:
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    return ManifestSize(
        manifest.manifest_length,
        sum(each or 0 for each in counts),
        bool(manifest.content),
    )
