"""What a table's metadata says of how it is: its commits, its ledger, its files. No row is read. No JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.manifests import list_manifests, read_live_files
from lakesql.catalog.tables import carried_by, load_table, reading
from lakesql.errors import Problem, RunError
from lakesql.events import TableTotals
from lakesql.ledger.entry import SOURCE_SNAPSHOT, rows_carried, rows_written, totals_of, whole
from lakesql.model.table_name import TableName
from lakesql.model.upkeep import is_left, unknown_in
from lakesql.names import (
    LEDGER_BACKLOG,
    LEDGER_EVENT_TIME,
    LEDGER_LATE,
    LEDGER_MODEL,
    LEDGER_OLDER,
    REPLAY_SUFFIX,
    TAG_PREFIX,
)
from lakesql.plan.health import Commit, Deletes, LiveFile, Manifest, MetadataFacts, Replaced, TableFacts, event_ms
from lakesql.table.metadata import TARGET_FILE_SIZE_BYTES

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot

Summary = Mapping[str, str]

KINDS = ("position", "equality")
"""The kinds of deletes, as summaries name them."""

SAMPLE = 20
"""Of so many batches, the newest, it is measured what a snapshot takes in the metadata file."""

COMPRESSED_METADATA = ".gz.metadata.json"
"""How the name of a compressed metadata file ends."""

HISTORY_ENTRY_BYTES = 60
"""What the metadata file has of a snapshot besides: when it became current."""


def read_facts(opened: OpenCatalog, name: TableName) -> TableFacts | None:
    """The table as its newest metadata says, None if there is no table of that name.

    Read are: its metadata file, with all snapshots that it has; the manifest list and the manifests of the current
    current snapshot; and the metadata file of its table of dead letters: one that cannot be read leaves the rest to be
    known. Raises `ProfileError` (`catalog-unreachable`) and `RunError` (`table-unreadable`).
    """
    table = load_table(opened, name)
    if table is None:
        return None
    letters, unread = _read_letters(opened, name)
    snapshots = _by_id(table)
    branch = [*_walk(table, snapshots)]
    summaries = [_summary(snapshot, snapshots) for snapshot in branch]
    is_ours = any(LEDGER_MODEL in summary for summary in summaries)
    commits = tuple(
        _commit(snapshot, summary)
        for snapshot, summary in zip(branch, summaries, strict=True)
        if (_is_batch(summary) if is_ours else _brings_rows(summary))
    )
    with reading(name, "manifests"):
        metadata, files = _read_files(table, snapshots)
    return TableFacts(
        name=name,
        is_ours=is_ours,
        commits=commits,
        snapshots=len(snapshots),
        metadata_bytes=metadata.file_bytes + metadata.list_bytes + sum(each.size_bytes for each in metadata.manifests),
        target_file_bytes=whole(table.metadata.properties, "write.target-file-size-bytes") or TARGET_FILE_SIZE_BYTES,
        totals=totals_of(summaries[-1]) if summaries else TableTotals(),
        files=files,
        dead_letters=letters,
        letters_unread=unread,
        metadata=metadata,
        is_left=is_left(table.metadata.properties),
        unknown=unknown_in(table.metadata.properties),
    )


def _read_letters(opened: OpenCatalog, name: TableName) -> tuple[tuple[tuple[int, int], ...], tuple[Problem, ...]]:
    """When dead letters came, and how many; and why nobody can tell, where their table cannot be read."""
    try:
        letters = load_table(opened, name.dead_letter)
    except RunError as error:
        return (), error.problems
    return tuple(_letters(letters)) if letters is not None else (), ()


def _by_id(table: Table) -> Mapping[int, Snapshot]:
    return {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}


def _walk(table: Table, snapshots: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """The snapshots of the main branch, the oldest first, as far as they are left.

    Where some on the way have been expired, those with the ledgers' tags come before: nobody expires what has a tag.
    So do those that the table carries, where its catalog shows none but the newest.
    """
    found: list[Snapshot] = []
    snapshot, parent = table.current_snapshot(), None
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = snapshots.get(parent) if parent is not None else None
    if parent is not None:
        tagged = {ref.snapshot_id for name, ref in table.metadata.refs.items() if name.startswith(TAG_PREFIX)}
        held = tagged & snapshots.keys() - {each.snapshot_id for each in found}
        found += sorted((snapshots[each] for each in held), key=lambda each: each.timestamp_ms, reverse=True)
    known = {each.snapshot_id for each in found}
    found += [each for each in carried_by(table) if each.snapshot_id not in known]
    return reversed(found)


def _summary(snapshot: Snapshot, snapshots: Mapping[int, Snapshot]) -> Summary:
    """What a commit says of itself, with the ledger entry of the one that it replayed on top of a foreign commit."""
    own = _plain(snapshot)
    if LEDGER_MODEL in own or SOURCE_SNAPSHOT not in own:
        return own
    source = snapshots.get(int(own[SOURCE_SNAPSHOT]))
    return {**(_plain(source) if source else {}), **own}


def _plain(snapshot: Snapshot) -> Summary:
    summary = snapshot.summary
    return {} if summary is None else {**summary.additional_properties, "operation": summary.operation.value}


def _is_batch(summary: Summary) -> bool:
    """Whether it is a batch of a model; a replay of dead letters is none, as its events are old."""
    return LEDGER_MODEL in summary and not summary[LEDGER_MODEL].endswith(REPLAY_SUFFIX)


def _brings_rows(summary: Summary) -> bool:
    return summary.get("operation") in ("append", "overwrite")


def _commit(snapshot: Snapshot, summary: Summary) -> Commit:
    return Commit(
        at_ms=snapshot.timestamp_ms,
        rows=rows_written(summary),
        files=whole(summary, "added-data-files") or 0,
        size_bytes=whole(summary, "added-files-size") or 0,
        event_ms=event_ms(summary.get(LEDGER_EVENT_TIME, "")),
        backlog=summary.get(LEDGER_BACKLOG, ""),
        late=whole(summary, LEDGER_LATE) or 0,
        older=whole(summary, LEDGER_OLDER) or 0,
        partitions=whole(summary, "changed-partition-count") or 1,
        deletes=_deletes(summary),
        replaced=_replaced(summary),
    )


def _deletes(summary: Summary) -> Deletes | None:
    added = whole(summary, "added-delete-files")
    if not added:
        return None
    rows = [sum(whole(summary, f"{way}-{kind}-deletes") or 0 for kind in KINDS) for way in ("added", "removed")]
    removed, total = (whole(summary, key) or 0 for key in ("removed-delete-files", "total-delete-files"))
    return Deletes(added, removed, total, rows[0] - rows[1])


def _replaced(summary: Summary) -> Replaced | None:
    files = whole(summary, "deleted-data-files")
    if not files:
        return None
    return Replaced(files, max(0, (whole(summary, "deleted-records") or 0) - rows_carried(summary)))


def _read_files(table: Table, snapshots: Mapping[int, Snapshot]) -> tuple[MetadataFacts, tuple[LiveFile, ...]]:
    """What a reader reads before it knows the files of the current snapshot; and these files."""
    batches = [each for each in table.metadata.snapshots if _brings_rows(_plain(each))][-SAMPLE:]
    log = table.metadata.metadata_log
    file_bytes = len(table.io.new_input(table.metadata_location))
    compression = _compression(table, file_bytes)
    metadata = MetadataFacts(
        file_bytes=file_bytes,
        snapshot_bytes=compression * (_mean(batches) + HISTORY_ENTRY_BYTES),
        log=len(log),
        log_entry_bytes=compression * _mean(log[-SAMPLE:]),
        list_bytes=0,
        manifests=(),
        version=table.metadata.format_version,
        properties=table.metadata.properties,
    )
    current = table.current_snapshot()
    if current is None:
        return metadata, ()
    manifests = list_manifests(table.io, current)
    list_bytes = len(table.io.new_input(current.manifest_list)) if current.manifest_list else 0
    metadata = replace(metadata, list_bytes=list_bytes, manifests=tuple(map(_manifest, manifests)))
    return metadata, read_live_files(table.io, manifests, snapshots)


def _compression(table: Table, file_bytes: int) -> float:
    """What a byte of a metadata file's JSON takes in the file: less where it is compressed
    (`write.metadata.compression-codec`)."""
    if not table.metadata_location.endswith(COMPRESSED_METADATA):
        return 1.0
    return file_bytes / len(table.metadata.model_dump_json(by_alias=True, exclude_none=True))


def _mean(parts: Sequence[Snapshot | MetadataLogEntry]) -> float:
    """How many bytes the parts of a metadata file take in its JSON, on average, with the comma after each."""
    texts = [part.model_dump_json(by_alias=True, exclude_none=True) for part in parts]
    return sum(len(text) + 1 for text in texts) / len(texts) if texts else 0.0


def _manifest(manifest: ManifestFile) -> Manifest:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return Manifest(manifest.manifest_length, sum(each or 0 for each in counts), bool(manifest.content))


def _letters(table: Table) -> Iterator[tuple[int, int]]:
    """When letters came, and how many; a commit that marks some as replayed writes them anew, and is none of these."""
    snapshots = _by_id(table)
    for snapshot in _walk(table, snapshots):
        summary = _summary(snapshot, snapshots)
        if LEDGER_MODEL in summary and summary["operation"] == "append":
            yield snapshot.timestamp_ms, whole(summary, "added-records") or 0
