"""A table as its newest metadata says, for whoever asks: Iceberg's JSON, whichever door
it came by, as one value."""

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
"""Where the summary of a commit counts the manifests of its snapshot."""

MAIN = "main"
"""The branch that readers see."""

UNSORTED = 0
"""The id of the sort order that is none."""

TARGET_FILE_SIZE_BYTES = 536_870_912
"""Iceberg's own target, of a table that says none (`write.target-file-size-bytes`)."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A table's metadata.

    `snapshots` are all that the table still has, by id. `history` goes from the head to
    the root, as far as it is there; `refs` are the ids that branches and tags stand
    for. `carried` are the newest snapshots with a ledger entry, where the catalog shows
    none but the head. `was_current` are the ids of the snapshots that were the head
    once, the oldest first. `record` is what maintenance has kept with the table.
    `sequence` is the number of the newest commit.
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
        """The current snapshot; None where there is none yet."""
        return self.history[0] if self.history else None

    @property
    def has_rows(self) -> bool:
        """Whether the table may have rows, whoever wrote them."""
        return self.head is not None and not self.head.is_empty

    @property
    def manifests(self) -> int | None:
        """How many manifests the current snapshot has, 0 without one; None where its
        summary does not say it."""
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
        """Whether other tables may have its files too, so that none may be deleted."""
        return keeps_files(self.properties)

    @property
    def is_left(self) -> bool:
        """Whether its property says that somebody else maintains it."""
        return is_left(self.properties)

    @property
    def start_ms(self) -> int:
        """Since when the table has been written to, as far as it is known: no expiry
        moves it once it is recorded."""
        if self.record.since_ms is not None:
            return self.record.since_ms
        return min((each.at_ms for each in self.snapshots.values()), default=0)

    @property
    def is_start_moving(self) -> bool:
        """Whether the first snapshot has expired, and nobody has recorded when it was
        made."""
        has_lost_its_first = bool(self.history) and self.history[-1].parent is not None
        return has_lost_its_first and self.record.since_ms is None

    @property
    def ledger_models(self) -> frozenset[str]:
        """The models that have a ledger entry in any snapshot which the table still
        has."""
        written = (*self.snapshots.values(), *self.carried)
        return frozenset(
            each.summary[LEDGER_MODEL]
            for each in written
            if LEDGER_MODEL in each.summary
        )

    def state(self, name: TableName) -> TableState:
        """The table as a plan compares it with its model."""
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
        """The snapshot of an id; None where the table does not have it any more."""
        return None if id_ is None else self.snapshots.get(id_)

    def oldest_since(self, snapshot: Snapshot) -> int:
        """The oldest time of the snapshots from one to the head, which an expiry must
        not go beyond for it to stay.

        The clocks of several writers differ, and Iceberg takes a commit whose time is
        up to a minute before that of the one before it. Its expiry walks back from the
        head, and ends at the first snapshot that is too old.
        """
        ids = [each.id for each in self.history]
        if snapshot.id not in ids:
            return snapshot.at_ms
        later = self.history[: ids.index(snapshot.id) + 1]
        return min(each.at_ms for each in later)

    def ledger(self, *tags: str) -> Iterator[Snapshot]:
        """The snapshots that may have a ledger entry, from the head to the root.

        Where some on the way have expired, so that the walk does not reach the root,
        those with the `tags` follow: nobody expires what has a tag. Those that the
        table carries come last.
        """
        yield from self.history
        if self.history and self.history[-1].parent is not None:
            for tag in tags:
                held = self.find(self.refs.get(tag))
                if held is not None:
                    yield held
        yield from self.carried

    def newest_entry(self, model: str | None) -> Entry | None:
        """The newest batch of a model in the table, or of whichever one (None)."""
        return newest_entry(self.ledger(), model, self.find)

    def entry_rolled_back(self, model: str) -> Entry | None:
        """The newest batch of a model of those that the table had once and has no
        longer; None where nobody has rolled it back."""
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

        A commit that was replayed on top of a foreign one has the entry in its source.
        """
        return {owner: found[0] for owner, found in self._entries().items()}

    def last_entries(self, owner: str, count: int) -> list[Snapshot]:
        """The snapshots with the newest ledger entries of a query, newest first; its
        tag's, where others are gone."""
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
        """The snapshot that has the ledger entry of a commit: the one that it was
        replayed from, where there is one."""
        if LEDGER_MODEL in snapshot.summary or SOURCE_SNAPSHOT not in snapshot.summary:
            return snapshot
        return self.snapshots.get(int(snapshot.summary[SOURCE_SNAPSHOT]), snapshot)


def parse_metadata(text: str) -> TableMetadata:
    """The value of a table's metadata file, or of what a catalog answers, as a text."""
    return read_metadata(json.loads(text))


def read_metadata(found: Mapping[str, Any]) -> TableMetadata:
    """The value of a table's metadata in Iceberg's JSON."""
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
