"""A table by its newest metadata, for whoever needs it: Iceberg's JSON, from a file or
from a catalog, as one value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.ledger.carried import carried_in
from lakesql.ledger.entry import (
    SOURCE_SNAPSHOT,
    Entry,
    Snapshot,
    newest_entry,
    snapshot_of,
    walk_back,
    whole,
)
from lakesql.model.maintenance_tasks import is_left
from lakesql.model.retention import Retention, keeps_files, read_retention
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_BATCH, LEDGER_MODEL, MAINTENANCE_PROPERTY
from lakesql.table.iceberg_schema import TableSchema, read_schema
from lakesql.table.maintenance_record import MaintenanceRecord, parse_record
from lakesql.table.table_state import TableState

CREATED, KEPT = "manifests-created", "manifests-kept"
"""The keys in a commit's summary that count the manifests of its snapshot."""

MAIN = "main"
"""The branch that readers see."""

UNSORTED = 0
"""The id of the sort order of an unsorted table."""

TARGET_FILE_SIZE_BYTES = 536_870_912
"""Iceberg's default for `write.target-file-size-bytes`."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A table's metadata.

    `snapshots` are all that the table still has, by id. `history` are the ancestors of
    the head, newest first, as far as they have not expired; `refs` are the snapshot ids
    of branches and tags. `carried` are the newest snapshots with a ledger entry, kept
    in a property for catalogs that return only the head. `was_current` are the ids of
    all snapshots that were once the head, the oldest first. `record` is what
    maintenance has recorded with the table. `sequence` is the number of the newest
    commit.
    """

    id: str
    version: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, Snapshot]
    history: tuple[Snapshot, ...]
    refs: Mapping[str, int] = field(default_factory=dict)
    carried: tuple[Snapshot, ...] = ()
    was_current: tuple[int, ...] = ()
    record: MaintenanceRecord = MaintenanceRecord()
    retention: Retention = Retention()
    schema: TableSchema = TableSchema()
    is_ordered: bool = True
    sequence: int = 0

    @property
    def head(self) -> Snapshot | None:
        """The current snapshot; None if there is none yet."""
        return self.history[0] if self.history else None

    @property
    def has_rows(self) -> bool:
        """Whether the table may have rows, whoever wrote them."""
        return self.head is not None and not self.head.is_empty

    @property
    def manifests(self) -> int | None:
        """The number of manifests of the current snapshot, 0 without one; None if its
        summary does not give it."""
        if self.head is None:
            return 0
        summary = self.head.summary
        if not {CREATED, KEPT} <= summary.keys():
            return None
        return int(summary[CREATED]) + int(summary[KEPT])

    @property
    def target_bytes(self) -> int:
        """The size of data files that the table asks its writers for."""
        return (
            whole(self.properties, "write.target-file-size-bytes")
            or TARGET_FILE_SIZE_BYTES
        )

    @property
    def is_shared(self) -> bool:
        """Whether other tables may reference its files, so that none may be deleted."""
        return keeps_files(self.properties)

    @property
    def is_left(self) -> bool:
        """Whether a property of the table declares that somebody else maintains it."""
        return is_left(self.properties)

    @property
    def start_ms(self) -> int:
        """The time since which the table has been written to, as far as it is known;
        once it is recorded, expiring snapshots does not change it."""
        if self.record.since_ms is not None:
            return self.record.since_ms
        return min((each.at_ms for each in self.snapshots.values()), default=0)

    @property
    def is_start_moving(self) -> bool:
        """Whether the first snapshot has expired and its time was not recorded, so that
        each expiry changes `start_ms`."""
        has_lost_its_first = bool(self.history) and self.history[-1].parent is not None
        return has_lost_its_first and self.record.since_ms is None

    @property
    def ledger_models(self) -> frozenset[str]:
        """The models with a ledger entry in any snapshot that the table still has."""
        written = (*self.snapshots.values(), *self.carried)
        return frozenset(
            each.summary[LEDGER_MODEL]
            for each in written
            if LEDGER_MODEL in each.summary
        )

    def state(self, name: TableName) -> TableState:
        """The table's state that a plan compares with its model."""
        return TableState(
            name=name,
            columns=self.schema.columns,
            partition_by=self.schema.partition_by,
            order_by=self.schema.order_by,
            properties={**self.properties, "format-version": str(self.version)},
            ledger_models=self.ledger_models,
            is_unwritten=self.head is None,
            was_partitioned_by=self.schema.was_partitioned_by,
            lost_partitions=self.schema.lost_partitions,
        )

    def find(self, id_: int | None) -> Snapshot | None:
        """The snapshot with this id; None if the table no longer has it."""
        return None if id_ is None else self.snapshots.get(id_)

    def oldest_since(self, snapshot: Snapshot) -> int:
        """The oldest time of the snapshots from this one to the head. An expiry has to
        stop at this time for the snapshot to stay.

        The clocks of several writers differ, and Iceberg accepts a commit up to a
        minute older than its parent. An expiry walks back from the head and ends at the
        first snapshot that is too old.
        """
        ids = [each.id for each in self.history]
        if snapshot.id not in ids:
            return snapshot.at_ms
        later = self.history[: ids.index(snapshot.id) + 1]
        return min(each.at_ms for each in later)

    def ledger(self, *tags: str) -> Iterator[Snapshot]:
        """The snapshots that may have a ledger entry, from the head to the root.

        If snapshots on the way have expired, those with the `tags` follow, as tagged
        snapshots do not expire. Those that the table carries in a property come last.
        """
        yield from self.history
        if self.history and self.history[-1].parent is not None:
            for tag in tags:
                held = self.find(self.refs.get(tag))
                if held is not None:
                    yield held
        yield from self.carried

    def newest_entry(self, model: str | None) -> Entry | None:
        """The newest ledger entry of a model in the table, or of any model if None."""
        return newest_entry(self.ledger(), model, self.find)

    def entry_rolled_back(self, model: str) -> Entry | None:
        """The newest ledger entry of a model among the snapshots that were once current
        and are no longer in the history; None if the table was not rolled back."""
        kept = {snapshot.id for snapshot in self.history}
        once = [
            self.snapshots[id_]
            for id_ in reversed(self.was_current)
            if id_ in self.snapshots and id_ not in kept
        ]
        return newest_entry(once, model, self.find)

    def newest_by_owner(self) -> dict[str, Snapshot]:
        """The snapshot with the newest ledger entry of each query that has written to
        the table.

        For a commit that was replayed on top of another one, that is its source
        snapshot.
        """
        return {owner: found[0] for owner, found in self._entries().items()}

    def last_entries(self, owner: str, count: int) -> list[Snapshot]:
        """The snapshots with the newest `count` ledger entries of a query, newest
        first, the tagged ones included."""
        return self._entries().get(owner, [])[:count]

    def _entries(self) -> dict[str, list[Snapshot]]:
        entries: dict[str, list[Snapshot]] = {}
        tagged = [
            self.snapshots[id_] for id_ in self.refs.values() if id_ in self.snapshots
        ]
        for snapshot in (*self.history, *tagged):
            source = self.source_of(snapshot)
            is_entry = LEDGER_MODEL in source.summary and LEDGER_BATCH in source.summary
            if not is_entry:
                continue
            of_owner = entries.setdefault(source.summary[LEDGER_MODEL], [])
            if source not in of_owner:
                of_owner.append(source)
        return entries

    def source_of(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the ledger entry of a commit: the snapshot itself, or the
        one that it was replayed from by a cherry-pick."""
        if LEDGER_MODEL in snapshot.summary or SOURCE_SNAPSHOT not in snapshot.summary:
            return snapshot
        return self.snapshots.get(int(snapshot.summary[SOURCE_SNAPSHOT]), snapshot)


def parse_metadata(text: str) -> TableMetadata:
    """The metadata of a table from the text of its metadata file, or of a catalog's
    answer."""
    return read_metadata(json.loads(text))


def read_metadata(found: Mapping[str, Any]) -> TableMetadata:
    """The metadata of a table from Iceberg's JSON."""
    snapshots = {
        each.id: each for each in map(snapshot_of, found.get("snapshots") or ())
    }
    properties = found.get("properties") or {}
    refs = found.get("refs") or {}
    return TableMetadata(
        id=str(found.get("table-uuid", "")),
        version=found["format-version"],
        properties=properties,
        snapshots=snapshots,
        history=tuple(walk_back(snapshots, found.get("current-snapshot-id"))),
        refs={name: ref["snapshot-id"] for name, ref in refs.items()},
        carried=carried_in(found),
        was_current=tuple(
            each["snapshot-id"] for each in found.get("snapshot-log") or ()
        ),
        record=parse_record(properties.get(MAINTENANCE_PROPERTY, "")),
        retention=read_retention(
            properties, refs.get(MAIN, {}).get("max-snapshot-age-ms")
        ),
        schema=read_schema(found),
        is_ordered=found.get("default-sort-order-id") != UNSORTED,
        sequence=found.get("last-sequence-number", 0),
    )
