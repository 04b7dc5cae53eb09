"""What is read of tables in their catalog by pyiceberg, without a JVM: names, metadata
and rows, and whether the catalog answers."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from lakesql.catalog.connect import OpenCatalog, check_warehouse, open_catalog, reaching
from lakesql.catalog.table_rows import scan_rows
from lakesql.errors import RunError, did_you_mean, first_line
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_CHECKPOINT, LEDGER_MODEL, REPLAY_SUFFIX
from lakesql.project.profiles import Catalog
from lakesql.table.metadata import TableMetadata, parse_metadata
from lakesql.table.table_state import TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table


def check_catalog(catalog: Catalog) -> str:
    """A line of text on the catalog, such as `lake (sql): 2 namespaces`. Creates
    nothing.

    Raises what `open_catalog` and `check_warehouse` raise.
    """
    check_warehouse(catalog)
    file = catalog.sqlite_file
    if file is not None and not file.exists():
        return f"{catalog.name} ({catalog.type}): {file} does not exist yet; the first run creates it"
    count = len(list_namespaces(open_catalog(catalog)))
    return (
        f"{catalog.name} ({catalog.type}): {count} namespace{'' if count == 1 else 's'}"
    )


def list_namespaces(opened: OpenCatalog) -> frozenset[str]:
    """The catalog's namespaces, nested ones as `a.b`. Raises `ProfileError`
    (`catalog-unreachable`)."""
    with reaching(opened.profile):
        return frozenset(".".join(parts) for parts in opened.iceberg.list_namespaces())


def list_tables(opened: OpenCatalog, namespace: str) -> tuple[TableName, ...]:
    """The tables of a namespace, sorted by name; empty if there is no such
    namespace."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    with reaching(opened.profile):
        try:
            found = opened.iceberg.list_tables(namespace)
        except NoSuchNamespaceError:
            return ()
    return tuple(
        sorted(TableName(opened.profile.name, namespace, name) for *_, name in found)
    )


def load_table_state(opened: OpenCatalog, name: TableName) -> TableState | None:
    """The state of the table by its newest metadata; None if there is no such table.

    Raises `ProfileError` (`catalog-unreachable`), and `RunError` (`table-unreadable`)
    if the catalog knows the table and its metadata cannot be read.
    """
    metadata = load_metadata(opened, name)
    return None if metadata is None else metadata.state(name)


def load_metadata(opened: OpenCatalog, name: TableName) -> TableMetadata | None:
    """The table's newest metadata; None if there is no such table. Raises what
    `load_table_state` raises."""
    table = load_table(opened, name)
    return None if table is None else metadata_of(table)


def metadata_of(table: Table) -> TableMetadata:
    """The parsed metadata of a table, as of when it was loaded."""
    return parse_metadata(metadata_text(table))


def metadata_text(table: Table) -> str:
    """The metadata of a table as Iceberg's JSON, as of when it was loaded."""
    from pyiceberg.typedef import IcebergBaseModel

    # The base class's method, as pyiceberg's own refuses to write format version 3.
    return IcebergBaseModel.model_dump_json(table.metadata)


def newest_writer(opened: OpenCatalog, name: TableName) -> tuple[str, str] | None:
    """The model and the checkpoint of the newest ledger entry in the snapshots that the
    table still has; None if there is none.

    The entries of replays are ignored. Raises what `load_table_state` raises.
    """
    metadata = load_metadata(opened, name)
    if metadata is None:
        return None
    for snapshot in (*reversed([*metadata.snapshots.values()]), *metadata.carried):
        model = snapshot.summary.get(LEDGER_MODEL, "")
        if model and not model.endswith(REPLAY_SUFFIX):
            return model, snapshot.summary.get(LEDGER_CHECKPOINT, "")
    return None


def read_rows(
    opened: OpenCatalog, name: TableName, limit: int, snapshot: int | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The names of the columns, and at most `limit` rows, in no order, of a snapshot,
    by default the newest. Deleted rows are left out.

    Data files are opened one after another until there are enough rows, each with its
    own deletes only, so that the cost grows with `limit` and the number of manifests,
    not with the table. A column with a date outside of Python's years, 1 to 9999, is
    returned as texts. Raises `ProfileError` (`catalog-unreachable`) and `RunError`
    (`table-missing`, `table-unreadable`).
    """
    table = load_table(opened, name)
    if table is None:
        raise missing_table(opened, name)
    columns = tuple(field.name for field in table.schema().fields)
    with reading(name, "rows"):
        return columns, _first_rows(table, limit, snapshot)


def missing_table(opened: OpenCatalog, name: TableName, fix: str = "") -> RunError:
    """The error that a table does not exist. Its advice is `fix`, or by default to run
    the model of the table's name."""
    return RunError.of(
        "table-missing",
        f"There is no table {name}.",
        why=did_you_mean(
            name.name, [found.name for found in list_tables(opened, name.namespace)]
        ),
        fix=fix or f"Run the model that writes it: lakesql run --select {name.name}",
    )


@contextmanager
def reading(name: TableName, what: str) -> Iterator[None]:
    """A context in which any exception becomes a `RunError` (`table-unreadable`).
    `what` names the unreadable part of the table, such as its rows, in the message."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing_files(name, error) from error
    except Exception as error:
        what = f"The {what} of table {name} cannot be read."
        fix = "Check that its files can be read from here, and that they are complete."
        raise RunError.of(
            "table-unreadable", what, why=first_line(error), fix=fix
        ) from error


def look_in(catalog: Catalog) -> Callable[[TableName], bool]:
    """A function that returns whether a table is in a catalog. The catalog is opened at
    the first call, which raises what `open_catalog` raises.

    Nothing is created: if the file of a catalog on SQLite does not exist, no table
    does.
    """

    @cache
    def opened() -> OpenCatalog | None:
        file = catalog.sqlite_file
        return open_catalog(catalog) if file is None or file.exists() else None

    @cache
    def is_there(name: TableName) -> bool:
        found = opened()
        return found is not None and load_table(found, name) is not None

    return is_there


def load_table(opened: OpenCatalog, name: TableName) -> Table | None:
    """pyiceberg's table; None if there is no such table. Raises what `load_table_state`
    raises."""
    from pydantic import ValidationError as InvalidAnswer
    from pyiceberg.exceptions import (
        NoSuchNamespaceError,
        NoSuchTableError,
        ValidationError,
    )

    with reaching(opened.profile):
        try:
            return opened.iceberg.load_table((name.namespace, name.name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise missing_files(name, error) from error
        except _BROKEN as error:
            what = f"The catalog knows the table {name}, and its metadata file cannot be read."
            fix = "Check that it can be read from here, and that it is complete."
            raise RunError.of(
                "table-unreadable", what, why=first_line(error), fix=fix
            ) from error
        except (ValidationError, InvalidAnswer) as error:
            if fault := _metadata_fault(error):
                what = f"The catalog knows the table {name}, and pyiceberg cannot read its metadata."
                fix = "Alter the table by the engine that made it, or give the model another table."
                raise RunError.of(
                    "table-unreadable", what, why=fault, fix=fix
                ) from error
            raise


_BROKEN = (PermissionError, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error)
"""The exceptions of opening, unpacking and decoding a metadata file."""


def _first_rows(
    table: Table, limit: int, snapshot: int | None
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if limit <= 0 or table.current_snapshot() is None:
        return rows
    scan = table.scan(snapshot_id=snapshot)
    for task in scan.plan_files():
        # One task at a time, as a scan of several reads all their delete files before
        # the first row.
        left = limit - len(rows)
        for batch in scan_rows(table, scan.projection(), left).to_record_batches(
            [task]
        ):
            rows.extend(python_rows(batch))
        if len(rows) >= limit:
            break
    return rows


def python_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch as tuples of Python's values; maps are dicts."""
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values as Python's; its dates and times as texts if one of them is
    outside of Python's years."""
    try:
        if _is_of_microseconds(column.type):
            return list(_times(column))
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except OverflowError:
        return list(
            column.cast(_with_texts(column.type)).to_pylist(maps_as_pydicts="lossy")
        )


def _is_of_microseconds(kind: pa.DataType) -> bool:
    """Whether the type is a timestamp in microseconds, without a zone or in UTC, as in
    Iceberg's tables and in Spark."""
    import pyarrow as pa

    return (
        pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC")
    )


def _times(column: pa.Array | pa.ChunkedArray) -> Iterator[datetime | None]:
    """The values of a column of timestamps in microseconds. The same as pyarrow's, but
    without importing pandas, as pyarrow would.

    Raises `OverflowError` for a value outside of Python's years.
    """
    import pyarrow as pa

    start = datetime(1970, 1, 1, tzinfo=UTC if column.type.tz else None)
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for each in part.view(pa.int64()).to_pylist():
            yield None if each is None else start + timedelta(microseconds=each)


def _with_texts(kind: pa.DataType) -> pa.DataType:
    """The type with texts in place of its dates and timestamps."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct(
            [_field_with_texts(kind.field(index)) for index in range(kind.num_fields)]
        )
    if pa.types.is_list(kind):
        return pa.list_(_field_with_texts(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_field_with_texts(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(
            _field_with_texts(kind.key_field), _field_with_texts(kind.item_field)
        )
    return (
        pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind
    )


def _field_with_texts(field: pa.Field) -> pa.Field:
    return field.with_type(_with_texts(field.type))


def _metadata_fault(error: Exception) -> str:
    """The text on what pyiceberg does not understand in a table's metadata; '' if the
    catalog's answer is wrong and not the metadata."""
    from pydantic import ValidationError as InvalidAnswer
    from pyiceberg.exceptions import ValidationError

    found = error.__cause__ if isinstance(error, ValidationError) else error
    if not isinstance(found, InvalidAnswer):
        return first_line(error)
    fault = found.errors()[0]
    # A REST catalog's answer is checked as a whole: the metadata is a part of it.
    if found is error and (fault["loc"][:1] != ("metadata",) or len(fault["loc"]) == 1):
        return ""
    place = ".".join(str(part) for part in fault["loc"])
    return (
        f"{fault['msg'].removeprefix('Value error, ')}{f' ({place})' if place else ''}"
    )


def missing_files(name: TableName, error: FileNotFoundError) -> RunError:
    """The error that files of a table, which its metadata names, do not exist."""
    what = f"The catalog knows the table {name}, and files of it are missing."
    fix = "If its files were deleted by hand, drop the table from the catalog."
    return RunError.of("table-unreadable", what, why=first_line(error), fix=fix)
