"""Which tables a refresh reads, each at the snapshot that it has when the refresh
begins, and what has changed in them since the former one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

from lakesql.compile.quote import whole_name
from lakesql.compile.select import Select
from lakesql.engine.ledger.snapshots import JavaTable, table_id
from lakesql.engine.spark.failure import read_cause
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import replace_view
from lakesql.engine.spark.old_columns import select_as_now
from lakesql.errors import RunError
from lakesql.ledger.inputs import InputSnapshot
from lakesql.views.view_tree import NEW


def load_inputs(session: SparkSession, select: Select) -> dict[str, JavaTable]:
    """The tables of the SELECT as the catalog has them now, by their qualified names,
    in the order of the text.

    Raises `RunError`: `table-missing`, and `input-not-iceberg` for a table without
    snapshots.
    """
    return {
        name: _load(session, select, name)
        for name in map(whole_name, select.query.tables)
    }


def _load(session: SparkSession, select: Select, name: str) -> JavaTable:
    try:
        return java_class("org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            session._jsparkSession, name
        )
    except (Py4JJavaError, PySparkException) as error:
        kind, _ = read_cause(error)
        if kind in _ABSENT:
            raise missing_input(select, name) from None
        # Iceberg's error for a table that is not an Iceberg table
        if isinstance(error, IllegalArgumentException):
            what = (
                f"{name}, which model '{select.model.name}' reads, is no Iceberg table."
            )
            why = "A refresh reads each table at one snapshot, and the ledger says which: other tables have none."
            fix = "Read it by a stream into a table of its own, or give the model an Iceberg table."
            raise RunError.of(
                "input-not-iceberg", what, why=why, fix=fix, place=select.model.place
            ) from None
        raise


def missing_input(select: Select, name: str) -> RunError:
    """The error for an input table that does not exist."""
    what = f"Table {name}, which model '{select.model.name}' reads, is not there."
    fix = f"Run the model that writes it first, or with this one: lakesql run --select +{select.model.name}"
    return RunError.of("table-missing", what, fix=fix, place=select.model.place)


_ABSENT = frozenset(
    {
        "TABLE_OR_VIEW_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
        "NoSuchTableException",
        "NoSuchNamespaceException",
    }
)
"""The conditions and classes that Spark and Iceberg raise for a table that does not
exist."""


def show_input(
    session: SparkSession, name: str, table: JavaTable, snapshot: int | None, view: str
) -> None:
    """Register a view of all rows of a table at a snapshot, with the table's current
    columns; without rows if `snapshot` is None."""
    rows = session.table(name).limit(0)
    if snapshot is not None:
        rows = select_as_now(
            session.sql(f"SELECT * FROM {name} VERSION AS OF {snapshot}"),
            table,
            snapshot,
        )
    replace_view(rows, view)


def show_inputs(
    session: SparkSession,
    tables: Mapping[str, JavaTable],
    inputs: Mapping[str, InputSnapshot],
) -> None:
    """Register the views of all rows of the tables at these snapshots, `_lakesql_new_0`
    and so on, in their order."""
    for number, (name, table) in enumerate(tables.items()):
        show_input(session, name, table, inputs[name].snapshot, f"{NEW}{number}")


def pin(table: JavaTable) -> InputSnapshot:
    """The table's newest snapshot, with its id and its newest schema."""
    head, schema = table.currentSnapshot(), int(table.schema().schemaId())
    if head is None:
        return InputSnapshot(table_id(table), None, schema=schema)
    return InputSnapshot(
        table_id(table), head.snapshotId(), head.timestampMillis(), schema
    )


def changed_at_ms(table: JavaTable) -> int:
    """When rows of a table last changed, in milliseconds since the epoch; compactions
    do not count. 0 for a table without a snapshot."""
    times = [snapshot.timestampMillis() for snapshot in _since_rows_changed(table)]
    return int(times[-1]) if times else 0


def has_same_rows(table: JavaTable, former: InputSnapshot) -> bool:
    """Whether a table has the same rows and columns as at a former snapshot: since then
    there were only compactions, if anything."""
    if table_id(table) != former.table_id or has_other_columns(table, former):
        return False
    if former.snapshot is None:
        return table.currentSnapshot() is None
    return any(
        snapshot.snapshotId() == former.snapshot
        for snapshot in _since_rows_changed(table)
    )


def has_other_columns(table: JavaTable, former: InputSnapshot) -> bool:
    """Whether columns were added, dropped, renamed or widened since a former refresh.
    Descriptions do not count."""
    if _has_schema(table, former):
        return False
    now, before = table.schema(), table.schemas().get(former.schema)
    return (
        before is None
        or not _names(now).equals(_names(before))
        or _types(now) != _types(before)
    )


def keeps_columns(table: JavaTable, former: InputSnapshot) -> bool:
    """Whether each name that a column or field had at a former refresh still refers to
    the same one; there may be new ones."""
    if _has_schema(table, former):
        return True
    before = table.schemas().get(former.schema)
    return before is not None and bool(
        _names(table.schema()).entrySet().containsAll(_names(before).entrySet())
    )


def _has_schema(table: JavaTable, former: InputSnapshot) -> bool:
    return former.schema is None or former.schema == table.schema().schemaId()


def _names(schema: Any) -> Any:
    """The names of a schema's columns and fields, each with its field id."""
    return java_class("org.apache.iceberg.types.TypeUtil").indexByName(
        schema.asStruct()
    )


def _types(schema: Any) -> str:
    return str(
        java_class("org.apache.iceberg.spark.SparkSchemaUtil")
        .convert(schema)
        .catalogString()
    )


def _since_rows_changed(table: JavaTable) -> Iterator[Any]:
    """The snapshots that have the same rows as the table has now, newest first:
    those of compactions, and the one that they began with, as far as they have not
    expired."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield snapshot
        if snapshot.operation() != "replace" or snapshot.parentId() is None:
            return
        snapshot = table.snapshot(snapshot.parentId())
