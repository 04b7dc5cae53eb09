"""Which snapshots no expiry may remove: the newest ledger entries, and those that
readers of the table still need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import (
    JavaTable,
    is_former,
    load_table,
    read_json,
    set_tag,
    table_exists,
)
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.ledger.entry import Entry, ledger_tag
from lakesql.ledger.inputs import read_inputs
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_BATCH, LEDGER_CHECKPOINT, LEDGER_INPUTS, LEDGER_OFFSETS
from lakesql.progress.state import Checkpoint, newest_batch
from lakesql.progress.stored import read_checkpoint
from lakesql.source.stream_state import Position
from lakesql.table.expiry import Needed
from lakesql.table.metadata import TableMetadata, parse_metadata

FOR_EVER_MS = 2**63 - 1
"""The maximum age of a tag that never expires, in Iceberg's notation."""

NOTHING_READ = 0
"""The time from which a reader needs snapshots if it may still read the table from its
first one."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """A model that reads the changes of a table, and the table whose ledger records its
    progress.

    `folder` is its checkpoint; empty for a model whose table is refreshed from others.
    """

    model: str
    table: TableName
    folder: str = ""


def tag_entries(table: JavaTable, metadata: TableMetadata) -> None:
    """Tag the newest ledger entry of each query that has written to the table, if its
    tag is not there.

    If the table's properties limit the age of tags, these tags are exempt.
    """
    moved = {
        ledger_tag(owner): snapshot.id
        for owner, snapshot in metadata.newest_by_owner().items()
        if metadata.refs.get(ledger_tag(owner)) != snapshot.id
        and not is_former(table, owner)
    }
    lasting = (
        [ledger_tag(owner) for owner in metadata.newest_by_owner()]
        if metadata.retention.limits_refs
        else []
    )
    if not moved and not lasting:
        return
    manage = table.manageSnapshots()
    for tag, snapshot_id in moved.items():
        manage = set_tag(manage, tag, snapshot_id, is_there=tag in metadata.refs)
    for tag in lasting:
        manage = manage.setMaxRefAgeMs(tag, FOR_EVER_MS)
    manage.commit()


def find_needed(
    session: SparkSession, metadata: TableMetadata, readers: Iterable[TableReader]
) -> Needed:
    """From which time on the snapshots of a table are needed by the streams that read
    it, and by rebuilds of their models.

    A reader may read its last batch again, from where the one before it ended. A reader
    that has not read the table yet begins with the oldest snapshot, so all are needed.
    A rebuild has a ledger of its own, in the table that it fills.
    """
    since: list[int] = []
    waiting: list[str] = []
    for reader in readers:
        if not reader.folder:
            since += _made_of(session, metadata, reader)
            continue
        checkpoint = read_checkpoint(CheckpointFiles(session, reader.folder))
        progress = {
            f"'{reader.model}'": needs(
                metadata, _read_entries(session, reader.table, reader.model), checkpoint
            )
        }
        if table_exists(session, reader.table.rebuild):
            entries = _read_entries(session, reader.table.rebuild, reader.model)
            progress[f"the rebuild of '{reader.model}'"] = needs(
                metadata, entries, None
            )
        for name, needed_ms in progress.items():
            since.append(NOTHING_READ if needed_ms is None else needed_ms)
            if needed_ms is None:
                waiting.append(name)
    return Needed(min(since, default=None), tuple(waiting))


def _made_of(
    session: SparkSession, metadata: TableMetadata, reader: TableReader
) -> list[int]:
    """From which times on the snapshots of the table are needed so that the one that
    the reader's table is made of stays: a refresh compares with it. Empty if the
    reader's table is not made of it yet, as that begins with the newest."""
    entries = _read_entries(session, reader.table, reader.model)
    inputs = read_inputs(entries[0].inputs).values() if entries else ()
    found = [
        metadata.find(each.snapshot) for each in inputs if each.table_id == metadata.id
    ]
    return [
        metadata.oldest_since(snapshot) for snapshot in found if snapshot is not None
    ]


def needs(
    metadata: TableMetadata, entries: Sequence[Entry], checkpoint: Checkpoint | None
) -> int | None:
    """From which time on a reader needs the snapshots of a table, in milliseconds since
    the epoch; None if nothing records what it has read.

    `entries` are its newest two, newest first. A reader that has streamed the table
    only recently may have written many batches of other streams before: if its newest
    entry names no snapshot of the table, it has read nothing of it. A checkpoint that
    was created after the newest entry, as by `lakesql rewind`, counts instead; so does
    one that records that all batches after that entry were empty.
    """
    if checkpoint is not None and _is_empty_since(
        checkpoint, entries[0] if entries else None
    ):
        return _oldest_stand(
            metadata, checkpoint.positions.get(checkpoint.newest_committed, ())
        )
    if not entries:
        return None
    newest = list(entries[0].positions.values())
    if checkpoint is not None and _is_made_behind(checkpoint, entries[0]):
        newest = list(checkpoint.positions.get(checkpoint.newest_committed, ()))
    stands = _oldest_stand(metadata, newest)
    if stands is None:
        return None
    before = [
        _oldest_stand(metadata, entry.positions.values()) for entry in entries[1:]
    ]
    return min(
        [stands, *(NOTHING_READ if at_ms is None else at_ms for at_ms in before)]
    )


def _is_made_behind(checkpoint: Checkpoint, entry: Entry) -> bool:
    """Whether a checkpoint was created when the entry existed already, and no batch of
    it is in the table."""
    origin = checkpoint.origin
    return (
        origin is not None
        and checkpoint.id != entry.checkpoint
        and origin.follows == newest_batch(entry)
    )


def _is_empty_since(checkpoint: Checkpoint, entry: Entry | None) -> bool:
    """Whether each batch after the one of this entry had no row, up to the last that
    Spark has completed."""
    origin = checkpoint.origin
    if origin is None or checkpoint.newest_committed < 0:
        return False
    if (
        entry is not None
        and entry.checkpoint != checkpoint.id
        and not _is_made_behind(checkpoint, entry)
    ):
        return False
    last = (
        entry.batch if entry is not None and entry.checkpoint == checkpoint.id else -1
    )
    return (
        origin.empty_after == last
        and origin.empty_through >= checkpoint.newest_committed
    )


def _oldest_stand(metadata: TableMetadata, positions: Iterable[Position]) -> int | None:
    """From which time on the snapshots of the table are needed so that the oldest one
    at which a stream stands stays; None if no stream stands at one.

    The streams' names are ignored: Spark may number a stateful query's streams in
    another order than its FROM.
    """
    ids = [
        position.get("snapshot_id")
        for position in positions
        if isinstance(position, dict)
    ]
    found = [metadata.snapshots.get(id_) for id_ in ids if isinstance(id_, int)]
    return min(
        (metadata.oldest_since(each) for each in found if each is not None),
        default=None,
    )


def _read_entries(session: SparkSession, table: TableName, owner: str) -> list[Entry]:
    """The last two entries of a query, newest first; none if its table does not
    exist."""
    if not table_exists(session, table):
        return []
    snapshots = parse_metadata(read_json(load_table(session, table))).last_entries(
        owner, 2
    )
    return [_entry_of(owner, snapshot.summary) for snapshot in snapshots]


def _entry_of(owner: str, summary: Mapping[str, str]) -> Entry:
    """The batch and the positions of an entry, without the rest."""
    return Entry(
        model=owner,
        checkpoint=summary.get(LEDGER_CHECKPOINT, ""),
        batch=int(summary[LEDGER_BATCH]),
        offsets=summary.get(LEDGER_OFFSETS, ""),
        query="",
        inputs=summary.get(LEDGER_INPUTS, ""),
    )
