"""Iceberg tables through Spark's JVM: their snapshots, freshly loaded, and the two commits of a staged write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakesql.engine.ledger import Snapshot
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
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, str(name))


def table_exists(session: SparkSession, name: TableName) -> bool:
    """Whether the catalog has the table."""
    return bool(session.catalog.tableExists(str(name)))


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
    """The newest staged snapshot of this id. An earlier, unpublished try at the same batch may have left another."""
    staged = [_snapshot(item) for item in table.snapshots() if item.summary().get(_STAGED_ID) == wap_id]
    return staged[-1] if staged else None


def publish(session: SparkSession, name: TableName, snapshot: Snapshot) -> Snapshot:
    """Make a staged snapshot current, atomically; returns what became the head.

    Raises `Py4JJavaError` when Iceberg refuses it: a snapshot of the same id was published before, or the head has moved
    and the staged commit cannot be replayed on top (see `is_refusal`).
    """
    session.sql(f"CALL {name.catalog}.system.cherrypick_snapshot('{name.namespace}.{name.name}', {snapshot.id})")
    return _snapshot(load_table(session, name).currentSnapshot())


def is_duplicate(error: Exception) -> bool:
    """Whether a publication was refused because the batch is in the table already."""
    return "DuplicateWAPCommitException" in str(error)


def is_refusal(error: Exception) -> bool:
    """Whether a publication was refused because the head moved: the batch must be computed again."""
    return "not append, dynamic overwrite, or fast-forward" in str(error)


@contextmanager
def commit_properties(session: SparkSession, properties: Mapping[str, str], wap_id: str | None) -> Iterator[None]:
    """While this is open, the session's writes carry `properties` in their snapshots' summaries.

    With `wap_id` they are staged where the table has `write.wap.enabled`. The session is a batch's own clone, so no other
    query sees any of this.
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
