"""Iceberg tables through Spark's JVM: their snapshots, freshly loaded, and the two commits of a staged write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.compile.quote import table_name
from lakesql.engine.ledger import Snapshot
from lakesql.errors import RunError
from lakesql.model.table import TableName

JavaTable = Any
"""An `org.apache.iceberg.Table` behind py4j."""

_PROPERTY = "spark.sql.iceberg.snapshot-property."
_WAP_ID = "spark.wap.id"
_STAGED_ID = "wap.id"


def load_table(session: SparkSession, name: TableName) -> JavaTable:
    """The table as the catalog has it now."""
    jvm = session._jvm
    assert jvm is not None
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, table_name(name))


def table_exists(session: SparkSession, name: TableName) -> bool:
    """Whether the catalog has the table."""
    return bool(session.catalog.tableExists(table_name(name)))


def read_history(table: JavaTable) -> Iterator[Snapshot]:
    """The snapshots from the head of the main branch to its root, each loaded when it is asked for."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield _snapshot(snapshot)
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None


def find_snapshot(table: JavaTable) -> Callable[[int], Snapshot | None]:
    """A function that looks a snapshot of the table up by its id."""

    def find(snapshot_id: int) -> Snapshot | None:
        found = table.snapshot(snapshot_id)
        return _snapshot(found) if found is not None else None

    return find


def staged_snapshot(table: JavaTable, wap_id: str) -> Snapshot | None:
    """The newest staged snapshot of this id: an earlier, unpublished try at the same batch may have left another."""
    snapshots = table.snapshots()  # by age, so the one that was just made is found at once
    for index in range(snapshots.size() - 1, -1, -1):
        if snapshots.get(index).summary().get(_STAGED_ID) == wap_id:
            return _snapshot(snapshots.get(index))
    return None


class HeadMovedError(Exception):
    """A staged commit cannot be published: the table has changed since, and the batch must be staged again."""


def publish(session: SparkSession, name: TableName, snapshot: Snapshot) -> Snapshot:
    """Make a staged snapshot current by a cherry-pick, atomically; returns what became the head.

    Raises `HeadMovedError` where a foreign commit came between and the staged one cannot be replayed on top of it, and
    a `RunError` (`batch-published`) where another runner has published the same batch.
    """
    table = load_table(session, name)
    try:
        table.manageSnapshots().cherrypick(snapshot.id).commit()
    except Py4JJavaError as error:
        if "DuplicateWAPCommitException" in str(error):
            raise RunError.of("batch-published", f"Another runner has written this batch of {name}.") from None
        if "not append, dynamic overwrite, or fast-forward" in str(error):
            raise HeadMovedError from None
        raise
    return _snapshot(table.currentSnapshot())


def drop_staged(table: JavaTable, snapshot: Snapshot) -> None:
    """Remove a staged snapshot and the files that are its own. Nothing else is expired, however old it is."""
    table.expireSnapshots().expireSnapshotId(snapshot.id).expireOlderThan(0).commit()


@contextmanager
def commit_properties(session: SparkSession, properties: Mapping[str, str], wap_id: str | None) -> Iterator[None]:
    """While this is open, the session's writes carry `properties` in their snapshots' summaries.

    With `wap_id` they are staged where the table has `write.wap.enabled`. The session is a batch's own clone, so no
    other query sees any of this.
    """
    settings = {f"{_PROPERTY}{key}": value for key, value in properties.items()}
    if wap_id is not None:
        settings[_WAP_ID] = wap_id
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(key)


def _snapshot(snapshot: Any) -> Snapshot:
    return Snapshot(snapshot.snapshotId(), snapshot.parentId(), dict(snapshot.summary()))
