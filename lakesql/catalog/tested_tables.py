"""The tables of data tests, by pyiceberg without a JVM: the rows that are tested, and
the tables to which failing rows are written."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.table_rows import keep_nulls, scan_rows
from lakesql.catalog.tables import load_table, metadata_of, reading
from lakesql.errors import LakesqlError, Place, RunError, first_line
from lakesql.model.table_name import TableName
from lakesql.table.iceberg_schema import spark_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

FILES_AT_ONCE = 8
"""The number of data files that are in memory at a time, each with its deletes."""

APPENDS = ("append", "replace")
"""The operations of snapshots that change no existing row; `replace` is compaction."""


@dataclass(frozen=True, slots=True)
class TestedTable:
    """A table at its current `snapshot`, None if it has none. `columns` has Spark's
    types by name, but `uuid` for columns of that type, which Spark reads as text. A
    view has no `table`, as only Spark can read its rows.
    """

    __test__ = False

    name: TableName
    id: str
    snapshot: int | None
    columns: dict[str, str]
    table: Table | None

    def identify(self, columns: Collection[str] | None) -> list[str]:
        """The ids, names and types of these columns, or of all if None. If they change,
        the rows of one snapshot may be read as other values."""
        if self.table is None:
            return []
        fields = (
            each
            for each in self.table.schema().fields
            if columns is None or each.name in columns
        )
        return [f"{each.field_id} {each.name} {each.field_type}" for each in fields]


def find_table(opened: OpenCatalog, name: TableName) -> TestedTable | None:
    """The table at its current snapshot; None if there is none. Raises what
    `load_table_state` raises."""
    table = load_table(opened, name)
    if table is None:
        return None
    columns = {
        field.name: "uuid" if str(field.field_type) == "uuid" else _spark_type(field)
        for field in table.schema().fields
    }
    return TestedTable(
        name,
        str(table.metadata.table_uuid),
        table.metadata.current_snapshot_id,
        columns,
        table,
    )


def view_to_test(name: TableName, columns: dict[str, str]) -> TestedTable:
    """A view, with those of its columns that are known."""
    return TestedTable(name, "", None, columns, None)


def _spark_type(field: NestedField) -> str:
    return spark_type(json.loads(field.model_dump_json(by_alias=True))["type"])


def appended_since(found: TestedTable, snapshot: int) -> int | None:
    """The number of snapshots since `snapshot` that have appended rows, if rows were
    only appended since.

    None if rows were changed, or if that is not known, as `snapshot` has expired or is
    no ancestor.
    """
    if found.table is None:
        return None
    appends = 0
    for each in metadata_of(found.table).history:
        if each.id == snapshot:
            return appends
        operation = each.summary.get("operation", "")
        if operation not in APPENDS:
            return None
        appends += operation == "append"
    return None


def read_columns_of(
    found: TestedTable, columns: Sequence[str], since: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of the snapshot, without deleted ones; with `since`, only those appended
    after that snapshot.

    `FILES_AT_ONCE` data files are read at a time. Raises `RunError`
    (`table-unreadable`).
    """
    table = found.table
    if table is None or found.snapshot is None or found.snapshot == since:
        return
    chosen = tuple(columns)
    with reading(found.name, "rows"):
        if since is None:
            scan = table.scan(selected_fields=chosen)
            schema, tasks = scan.projection(), scan.plan_files()
        else:
            appends = table.incremental_append_scan(selected_fields=chosen)
            appends = appends.from_snapshot_id_exclusive(
                since
            ).to_snapshot_id_inclusive(found.snapshot)
            schema, tasks = appends.projection(), appends.plan_files()
        arrow = scan_rows(table, schema)
        left = iter(tasks)
        while some := [*islice(left, FILES_AT_ONCE)]:
            yield from arrow.to_record_batches(some)


def store_failures(
    opened: OpenCatalog, name: TableName, rows: pa.Table, test: Place
) -> None:
    """Replace the rows of the table `name` by the failing rows of a test, which is at
    the place `test`.

    The table is created if there is none, and created anew if its columns or types
    differ. Raises `RunError` (`failures-not-stored`).
    """
    identifier = (name.namespace, name.name)
    keep_nulls()
    try:
        table = load_table(opened, name)
        if table is not None and not _has_columns_of(table, rows):
            opened.iceberg.drop_table(identifier)
            table = None
        if table is None:
            table = opened.iceberg.create_table(identifier, schema=rows.schema)
        if table.current_snapshot() is None:
            table.append(rows)
        else:
            table.overwrite(rows)
    except LakesqlError:
        raise
    except Exception as error:
        what = f"The failing rows cannot be written into table {name}."
        raise RunError.of(
            "failures-not-stored", what, why=first_line(error), place=test
        ) from error


def _has_columns_of(table: Table, rows: pa.Table) -> bool:
    """Whether the table has the columns and types that pyiceberg makes of the rows.

    Checked here, as pyiceberg would print a table of the differences.
    """
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    stored = table.schema()
    try:
        made = pyarrow_to_schema(
            rows.schema, stored.name_mapping, format_version=table.format_version
        )
    except ValueError:
        return False  # a column that the table does not have
    return made.fields == stored.fields
