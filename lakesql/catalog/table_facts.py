"""What a table's metadata says of how it is: its commits, its ledger, its files. No row is read. No JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.manifests import list_manifests, read_live_files
from lakesql.catalog.tables import load_table, reading
from lakesql.engine.ledger.entry import SOURCE_SNAPSHOT, totals_of, whole
from lakesql.events import TableTotals
from lakesql.model.table_name import TableName
from lakesql.names import (
    LEDGER_BACKLOG,
    LEDGER_EVENT_TIME,
    LEDGER_LATE,
    LEDGER_MODEL,
    LEDGER_PREVIOUS_EVENT_TIME,
    REPLAY_SUFFIX,
)
from lakesql.plan.health import Commit, LiveFile, TableFacts, event_ms
from lakesql.plan.thresholds import TARGET_FILE_SIZE_BYTES

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Summary = Mapping[str, str]


def read_facts(opened: OpenCatalog, name: TableName) -> TableFacts | None:
    """The table as its newest metadata says, None if there is no table of that name.

    Read are: its metadata file, with all snapshots that it has; the manifest list and the manifests of the current
    snapshot; and the metadata file of its table of dead letters. Raises `ProfileError` (`catalog-unreachable`) and
    `RunError` (`table-unreadable`).
    """
    table = load_table(opened, name)
    if table is None:
        return None
    letters = load_table(opened, name.dead_letter)
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    branch = [*_walk(table, snapshots)]
    summaries = [_summary(snapshot, snapshots) for snapshot in branch]
    is_ours = any(LEDGER_MODEL in summary for summary in summaries)
    batches = [
        (snapshot, summary)
        for snapshot, summary in zip(branch, summaries, strict=True)
        if (_is_batch(summary) if is_ours else _brings_rows(summary))
    ]
    following = [*(summary.get(LEDGER_PREVIOUS_EVENT_TIME, "") for _, summary in batches[1:]), ""][: len(batches)]
    commits = tuple(_commit(*batch, known) for batch, known in zip(batches, following, strict=True))
    with reading(name, "manifests"):
        metadata_bytes, files = _read_files(table, snapshots)
    return TableFacts(
        name=name,
        is_ours=is_ours,
        commits=commits,
        snapshots=len(snapshots),
        metadata_bytes=metadata_bytes,
        target_file_bytes=whole(table.metadata.properties, "write.target-file-size-bytes") or TARGET_FILE_SIZE_BYTES,
        totals=totals_of(summaries[-1]) if summaries else TableTotals(),
        files=files,
        dead_letters=tuple(_letters(letters)) if letters is not None else (),
    )


def _walk(table: Table, snapshots: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """The snapshots of the main branch, the oldest first, as far as they are left."""
    found: list[Snapshot] = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = snapshots.get(parent) if parent is not None else None
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


def _commit(snapshot: Snapshot, summary: Summary, known_since: str) -> Commit:
    """A batch. `known_since` is its newest event, where only the commit after it knows that."""
    return Commit(
        at_ms=snapshot.timestamp_ms,
        rows=whole(summary, "added-records") or 0,
        files=whole(summary, "added-data-files") or 0,
        size_bytes=whole(summary, "added-files-size") or 0,
        event_ms=event_ms(summary.get(LEDGER_EVENT_TIME, "") or known_since),
        backlog=summary.get(LEDGER_BACKLOG, ""),
        late=whole(summary, LEDGER_LATE) or 0,
    )


def _read_files(table: Table, snapshots: Mapping[int, Snapshot]) -> tuple[int, tuple[LiveFile, ...]]:
    """How many bytes a reader reads before it knows the files of the current snapshot; and these files."""
    metadata_bytes = len(table.io.new_input(table.metadata_location))
    current = table.current_snapshot()
    if current is None:
        return metadata_bytes, ()
    manifests = list_manifests(table.io, current)
    metadata_bytes += len(table.io.new_input(current.manifest_list)) if current.manifest_list else 0
    metadata_bytes += sum(manifest.manifest_length for manifest in manifests)
    return metadata_bytes, read_live_files(table.io, manifests, snapshots)


def _letters(table: Table) -> Iterator[tuple[int, int]]:
    """When letters came, and how many; a commit that marks some as replayed writes them anew, and is none of these."""
    for snapshot in table.metadata.snapshots:
        summary = _plain(snapshot)
        if LEDGER_MODEL in summary and summary["operation"] == "append":
            yield snapshot.timestamp_ms, whole(summary, "added-records") or 0
