"""What a batch reads of an Iceberg table through Spark's JVM: its snapshots and ledger
entries, properties and sizes, as freshly loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from lakesql.compile.quote import table_name
from lakesql.engine.spark.gateway import java_class
from lakesql.ledger.carried import carried_facts, may_carry, shows_newest_alone
from lakesql.ledger.entry import (
    Entry,
    Snapshot,
    ledger_tag,
    newest_entry,
    snapshot_of,
)
from lakesql.model.table_name import TableName
from lakesql.names import DEAD_LETTER_SUFFIX, FORMER_PROPERTY, REPLAY_SUFFIX, TAG_PREFIX
from lakesql.table.metadata import TARGET_FILE_SIZE_BYTES

JavaTable = Any
"""An `org.apache.iceberg.Table` behind py4j."""


def load_table(session: SparkSession, name: TableName) -> JavaTable:
    """The table as the catalog has it now."""
    spark_util = java_class("org.apache.iceberg.spark.Spark3Util")
    return spark_util.loadIcebergTable(session._jsparkSession, table_name(name))


def read_json(table: JavaTable) -> str:
    """All metadata of the table, as it was loaded, in Iceberg's JSON."""
    return str(
        java_class("org.apache.iceberg.TableMetadataParser").toJson(
            table.operations().current()
        )
    )


def table_exists(session: SparkSession, name: TableName) -> bool:
    """Whether the catalog has the table."""
    return bool(session.catalog.tableExists(table_name(name)))


def table_id(table: JavaTable) -> str:
    """The UUID that the table got when it was created."""
    return str(table.uuid())


def read_entry(
    table: JavaTable, model: str, checkpoint: str | None = None
) -> Entry | None:
    """The newest entry of `model` in the table's ledger; with `checkpoint`, the newest
    of that checkpoint. None if there is none."""
    return newest_entry(
        read_ledger(table, (ledger_tag(model),)),
        model,
        find_snapshot(table),
        checkpoint,
    )


def read_newest_entry(table: JavaTable) -> Entry | None:
    """The newest entry in the table's ledger, of any model; None if there is none."""
    return newest_entry(
        read_ledger(table, _ledger_tags(table)), None, find_snapshot(table)
    )


def read_ledger(table: JavaTable, tags: Iterable[str]) -> Iterator[Snapshot]:
    """The snapshots that may have a ledger entry: those of `read_history`, then those
    recorded in the table's properties."""
    yield from read_history(table, tags)
    if (head := table.currentSnapshot()) is not None:
        yield from map(
            snapshot_of,
            carried_facts(carrying_properties(table), head.sequenceNumber()),
        )


def carrying_properties(table: Any) -> dict[str, str]:
    """The properties of a table, or of an Iceberg `TableMetadata`, if its ledger is
    recorded in them; otherwise empty."""
    found = table.properties()
    # as one text: reading each key of a Java map would be a call of its own
    text = str(found.toString())
    return dict(found) if may_carry(text) else {}


def _ledger_tags(table: JavaTable) -> Iterator[str]:
    """The tags of all models, the newest first. They are read when the first one is
    needed, which is rare."""
    refs = {
        str(name): table.refs().get(name).snapshotId() for name in table.refs().keySet()
    }
    tags = [name for name in refs if name.startswith(TAG_PREFIX)]
    yield from sorted(
        tags,
        key=lambda name: int(table.snapshot(refs[name]).sequenceNumber()),
        reverse=True,
    )


def read_history(table: JavaTable, tags: Iterable[str] = ()) -> Iterator[Snapshot]:
    """The snapshots from the head of the main branch to its root, each loaded when it
    is asked for.

    If snapshots on the way have expired, so that the walk does not reach the root,
    those with the `tags` come last: tagged snapshots do not expire.
    """
    snapshot = table.currentSnapshot()
    parent = None
    while snapshot is not None:
        yield read_snapshot(snapshot)
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None
    for tag in tags if parent is not None else ():
        if (held := table.refs().get(tag)) is not None:
            yield read_snapshot(table.snapshot(held.snapshotId()))


def find_abandoned(table: JavaTable, history: Collection[int]) -> dict[int, int]:
    """The snapshots that the table still has and that are no ancestors of its head,
    with their times in milliseconds."""
    snapshots = table.snapshots()
    if len(snapshots) <= len(history):
        return {}
    times = {int(each.snapshotId()): int(each.timestampMillis()) for each in snapshots}
    return {id_: at_ms for id_, at_ms in times.items() if id_ not in history}


def has_hidden_snapshots(table: JavaTable) -> bool:
    """Whether the table, as it was loaded, had snapshots before the only one that its
    catalog shows."""
    head = table.currentSnapshot()
    return (
        head is not None
        and head.sequenceNumber() > 1
        and shows_newest_alone(carrying_properties(table))
    )


def find_snapshot(table: JavaTable) -> Callable[[int], Snapshot | None]:
    """A function that looks a snapshot of the table up by its id."""

    def find(snapshot_id: int) -> Snapshot | None:
        found = table.snapshot(snapshot_id)
        return read_snapshot(found) if found is not None else None

    return find


def head_of(table: JavaTable) -> int | None:
    """The id of the table's current snapshot; None if it has none."""
    snapshot = table.currentSnapshot()
    return snapshot.snapshotId() if snapshot is not None else None


def rewrites_files(table: JavaTable) -> bool:
    """Whether a MERGE rewrites each data file that has one of its rows (copy-on-write),
    as it does unless a property of the table says otherwise."""
    return (
        str(table.properties().getOrDefault("write.merge.mode", "copy-on-write"))
        == "copy-on-write"
    )


def target_file_bytes(table: JavaTable) -> int:
    """The size of data files that the table's properties ask writers for."""
    return int(
        table.properties().getOrDefault(
            "write.target-file-size-bytes", str(TARGET_FILE_SIZE_BYTES)
        )
    )


def is_partitioned(table: JavaTable) -> bool:
    """Whether the table is partitioned."""
    return bool(table.spec().isPartitioned())


def is_empty(table: JavaTable) -> bool:
    """Whether the table, as it was loaded, certainly has no row: its files have none,
    not even deleted ones."""
    snapshot = table.currentSnapshot()
    return snapshot is None or read_snapshot(snapshot).is_empty


def set_tag(manage: Any, tag: str, snapshot_id: int, *, is_there: bool) -> Any:
    """Iceberg's builder `manage` (`ManageSnapshots`) with a change that sets a tag on a
    snapshot once it is committed; a tag that `is_there` is moved."""
    return (
        manage.replaceTag(tag, snapshot_id)
        if is_there
        else manage.createTag(tag, snapshot_id)
    )


def measure(table: JavaTable) -> tuple[float, float]:
    """The number of rows in the data files of the table, as it was loaded, including
    deleted ones, and the bytes of all its files.

    Infinite if the table's last writer has not recorded it.
    """
    if (snapshot := table.currentSnapshot()) is None:
        return 0, 0
    rows, size = (
        snapshot.summary().getOrDefault(f"total-{each}", "inf")
        for each in ("records", "files-size")
    )
    return float(rows), float(size)


def distribution(
    table: JavaTable, is_changing: bool, inserts: bool, gathers: bool, is_together: bool
) -> dict[str, str]:
    """The settings by which a statement distributes its rows to the tasks that write
    them.

    By default that is what the table's properties say for the kind of statement; if
    rows that are changing a table (`is_changing`) are all new (`inserts`), what they
    say for a MERGE. With `gathers`, the rows are written to one file, where the table
    would get one from each task of the join. With `is_together`, rows that come in one
    task are written by it, without a shuffle.
    """
    properties = table.properties()
    merging = properties.get("write.merge.distribution-mode")
    own = (
        merging
        if is_changing and not inserts
        else properties.get("write.distribution-mode")
    )
    wanted = own
    if is_together:
        wanted = "none"
    elif inserts:
        wanted = merging
    elif gathers and own == "none" and not rewrites_files(table):
        wanted = "hash"
    return (
        {"spark.sql.iceberg.distribution-mode": wanted}
        if wanted and wanted != own
        else {}
    )


def read_snapshot(snapshot: Any) -> Snapshot:
    """An `org.apache.iceberg.Snapshot` as a value."""
    return snapshot_of(read_facts(snapshot))


def read_facts(snapshot: Any) -> dict[str, Any]:
    """Iceberg's JSON of an `org.apache.iceberg.Snapshot`."""
    # As one text: reading each key of a Java map would be a call of its own.
    return dict(
        json.loads(java_class("org.apache.iceberg.SnapshotParser").toJson(snapshot))
    )


def former_models(table: JavaTable) -> tuple[str, ...]:
    """The former names of a table's model, the newest last; none if it was never
    renamed."""
    return parse_formers(str(table.properties().getOrDefault(FORMER_PROPERTY, "")))


def is_former(table: JavaTable, owner: str) -> bool:
    """Whether a query has a name that comes from a former name of the table's model."""
    suffixes = (REPLAY_SUFFIX, DEAD_LETTER_SUFFIX, "")
    return owner in {
        former + suffix for former in former_models(table) for suffix in suffixes
    }


def parse_formers(text: str) -> tuple[str, ...]:
    """The former names that a table's property lists."""
    return tuple(filter(None, text.split(",")))
