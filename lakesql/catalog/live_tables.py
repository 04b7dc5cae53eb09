"""What a model's table is now, and what its ledger says of the model's newest batch. No row is read. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import carried_by, load_table, table_state
from lakesql.ledger.entry import Entry, Snapshot, newest_entry, walk_back
from lakesql.model.table_name import TableName
from lakesql.plan.table_state import TableState

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table as its catalog has it.

    `entry` is the model's newest batch, and `written` the newest one of whichever model; `has_rows`: it has some, of
    whomever. `left` is the model's newest batch of those that the table had once and has no longer, as somebody has
    rolled it back; None where nobody has.
    """

    state: TableState
    entry: Entry | None
    has_rows: bool
    id: str
    left: Entry | None
    written: Entry | None


def read_live_table(opened: OpenCatalog, name: TableName, model: str) -> LiveTable | None:
    """The table of a model, None if there is no table of that name. Raises what `load_table_state` raises."""
    table = load_table(opened, name)
    if table is None:
        return None
    snapshots = {snapshot.id: snapshot for snapshot in _snapshots(table)}
    head = table.metadata.current_snapshot_id
    history = [*walk_back(snapshots, head)]
    ledger = [*history, *map(_snapshot, carried_by(table))]
    entry = newest_entry(ledger, model, snapshots.get)
    kept = {snapshot.id for snapshot in history}
    once = reversed([logged.snapshot_id for logged in table.metadata.snapshot_log])
    left = newest_entry((snapshots[id_] for id_ in once if id_ in snapshots.keys() - kept), model, snapshots.get)
    has_rows = bool(history) and not history[0].is_empty
    written = newest_entry(ledger, None, snapshots.get)
    return LiveTable(table_state(name, table), entry, has_rows, str(table.metadata.table_uuid), left, written)


def _snapshots(table: Table) -> Iterator[Snapshot]:
    yield from map(_snapshot, table.metadata.snapshots)


def _snapshot(found: IcebergSnapshot) -> Snapshot:
    summary = found.summary.additional_properties if found.summary is not None else {}
    return Snapshot(found.snapshot_id, summary, found.parent_snapshot_id)
