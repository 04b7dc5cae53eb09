"""The list of which snapshots of a group's tables belong together, for catalogs that
commit one table at a time.

The list is a table of its own, which each round of batches replaces in one commit after
all tables are committed. Readers who read each table at the snapshot in the list see
all changes of a transaction, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesql.catalog.tables import load_table
from lakesql.clock import now_ms
from lakesql.model.table_name import TableName
from lakesql.names import SNAPSHOTS_SUFFIX

if TYPE_CHECKING:
    from lakesql.catalog.connect import OpenCatalog

KEPT_FOR = timedelta(hours=1)
"""How long a replaced list is kept as a snapshot."""

_FEW_METADATA_FILES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}

Heads = Mapping[str, int]
"""The ids of snapshots by `namespace.table`."""


ATOMIC_CATALOGS = frozenset({"sql", "rest"})
"""The types of catalogs that can commit several tables atomically, and need no list."""


def list_of(catalog: str, namespace: str, group: str) -> TableName:
    """The name of the table with the list of a group."""
    return TableName(catalog, namespace, f"{group}{SNAPSHOTS_SUFFIX}")


class SnapshotList:
    """The writer of a group's list. `tables` returns the group's present tables, by
    model."""

    def __init__(
        self,
        opened: OpenCatalog,
        name: TableName,
        tables: Callable[[], Mapping[str, TableName]],
    ) -> None:
        self._opened, self._name, self._tables = opened, name, tables

    def note(self) -> None:
        """List the current snapshots of all tables, which belong together now."""
        heads = {}
        for table in self._tables().values():
            found = load_table(self._opened, table)
            head = found.metadata.current_snapshot_id if found is not None else None
            if head is not None:
                heads[f"{table.namespace}.{table.name}"] = head
        write_list(self._opened, self._name, heads)


def write_list(opened: OpenCatalog, name: TableName, heads: Heads) -> None:
    """Replace the list; its table is created if there is none."""
    import pyarrow as pa

    at = now_ms() * 1000
    columns = [
        pa.array([*heads], pa.string()),
        pa.array([*heads.values()], pa.int64()),
        pa.array([at] * len(heads), pa.timestamp("us")),
    ]
    rows = pa.table(columns, ["table_name", "snapshot_id", "listed_at"])
    table = opened.iceberg.create_table_if_not_exists(
        (name.namespace, name.name), rows.schema, properties=_FEW_METADATA_FILES
    )
    table.overwrite(rows)
    table.maintenance.expire_snapshots().older_than(
        datetime.now(UTC) - KEPT_FOR
    ).commit()


def read_list(opened: OpenCatalog, name: TableName) -> Heads:
    """The present list; empty if there is none. Raises what `load_table` raises."""
    table = load_table(opened, name)
    if table is None:
        return {}
    return {
        row["table_name"]: row["snapshot_id"]
        for row in table.scan().to_arrow().to_pylist()
    }
