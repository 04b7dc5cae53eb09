"""Iceberg tables through Spark's JVM, freshly loaded: their snapshots, and what else a
batch asks of them."""

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
    """All metadata of the table, as it was loaded: Iceberg's own JSON."""
    return str(
        java_class("org.apache.iceberg.TableMetadataParser").toJson(
            table.operations().current()
        )
    )


def table_exists(session: SparkSession, name: TableName) -> bool:
    """Whether the catalog has the table."""
    return bool(session.catalog.tableExists(table_name(name)))


def table_id(table: JavaTable) -> str:
    """The UUID that the table got when it was made."""
    return str(table.uuid())


def read_entry(
    table: JavaTable, model: str, checkpoint: str | None = None
) -> Entry | None:
    """The newest entry of `model` in the table's ledger; with `checkpoint`, of that
    one."""
    return newest_entry(
        read_ledger(table, (ledger_tag(model),)),
        model,
        find_snapshot(table),
        checkpoint,
    )


def read_newest_entry(table: JavaTable) -> Entry | None:
    """The newest entry in the table's ledger, of whichever model."""
    return newest_entry(
        read_ledger(table, _ledger_tags(table)), None, find_snapshot(table)
    )


def read_ledger(table: JavaTable, tags: Iterable[str]) -> Iterator[Snapshot]:
    """The snapshots that may have a ledger entry: those of `read_history`, then those
    that the table carries."""
    yield from read_history(table, tags)
    if (head := table.currentSnapshot()) is not None:
        yield from map(
            snapshot_of,
            carried_facts(carrying_properties(table), head.sequenceNumber()),
        )


def carrying_properties(table: Any) -> dict[str, str]:
    """The properties of a table, or of a `TableMetadata` of Iceberg's, that carries its
    ledger; none of others."""
    found = table.properties()
    # as one text: each key of a Java map is a question of its own
    text = str(found.toString())
    return dict(found) if may_carry(text) else {}


def _ledger_tags(table: JavaTable) -> Iterator[str]:
    """The tags of all models, the newest first: looked for when the first one is asked
    for, as few walks end early."""
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

    Where snapshots on the way have been expired, so that the walk does not reach the
    root, those with the `tags` come last: nobody expires what has a tag.
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
    """The times, in milliseconds, of the snapshots that the table still has and that do
    not lead to its head."""
    snapshots = table.snapshots()
    if len(snapshots) <= len(history):
        return {}
    times = {int(each.snapshotId()): int(each.timestampMillis()) for each in snapshots}
    return {id_: at_ms for id_, at_ms in times.items() if id_ not in history}


def has_hidden_snapshots(table: JavaTable) -> bool:
    """Whether the table, as it was loaded, has had snapshots before the one that its
    catalog shows alone."""
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
    """The id of the table's current snapshot; None where it has none."""
    snapshot = table.currentSnapshot()
    return snapshot.snapshotId() if snapshot is not None else None


def rewrites_files(table: JavaTable) -> bool:
    """Whether a MERGE writes each data file anew that has one of its rows, as it does
    unless the table says no."""
    return (
        str(table.properties().getOrDefault("write.merge.mode", "copy-on-write"))
        == "copy-on-write"
    )


def target_file_bytes(table: JavaTable) -> int:
    """The size of data files that the table asks its writers for."""
    return int(
        table.properties().getOrDefault(
            "write.target-file-size-bytes", str(TARGET_FILE_SIZE_BYTES)
        )
    )


def is_partitioned(table: JavaTable) -> bool:
    """Whether the table has partitions."""
    return bool(table.spec().isPartitioned())


def is_empty(table: JavaTable) -> bool:
    """Whether the table, as it was loaded, certainly has no row: no file of it has one,
    whatever was deleted of it."""
    snapshot = table.currentSnapshot()
    return snapshot is None or read_snapshot(snapshot).is_empty


def set_tag(manage: Any, tag: str, snapshot_id: int, *, is_there: bool) -> Any:
    """Iceberg's builder `manage` (`ManageSnapshots`), by which a tag is on a snapshot
    once it is committed: one that `is_there` is moved."""
    return (
        manage.replaceTag(tag, snapshot_id)
        if is_there
        else manage.createTag(tag, snapshot_id)
    )


def measure(table: JavaTable) -> tuple[float, float]:
    """The rows of the data files of the table, as it was loaded, deleted ones too, and
    the bytes of all its files.

    Without end where its last writer does not say it.
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
    """The settings by which a statement brings its rows to the tasks that write them.

    That is how the table says that its kind does; where rows that `is_changing` a table
    are all new (`inserts`), as a MERGE does. One that `gathers` writes its rows in one
    file, where the table would have one of each task of the join. Rows that come in one
    task (`is_together`) are written by it, and sent to no other one.
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
    """An `org.apache.iceberg.Snapshot`."""
    return snapshot_of(read_facts(snapshot))


def read_facts(snapshot: Any) -> dict[str, Any]:
    """Iceberg's own JSON of an `org.apache.iceberg.Snapshot`."""
    # As one text: each key of a Java map is a question of its own.
    return dict(
        json.loads(java_class("org.apache.iceberg.SnapshotParser").toJson(snapshot))
    )


def former_models(table: JavaTable) -> tuple[str, ...]:
    """The names that the model of a table had before, the newest last; none where it
    was never renamed."""
    return parse_formers(str(table.properties().getOrDefault(FORMER_PROPERTY, "")))


def is_former(table: JavaTable, owner: str) -> bool:
    """Whether a query is that of a name which the model of the table had before."""
    suffixes = (REPLAY_SUFFIX, DEAD_LETTER_SUFFIX, "")
    return owner in {
        former + suffix for former in former_models(table) for suffix in suffixes
    }


def parse_formers(text: str) -> tuple[str, ...]:
    """What the property of a table says of former names."""
    return tuple(filter(None, text.split(",")))
