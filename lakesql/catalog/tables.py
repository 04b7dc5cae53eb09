"""Tables as their catalog has them, read by pyiceberg: state, rows, and whether the catalog is there. No JVM."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from lakesql.catalog.connect import OpenCatalog, check_warehouse, open_catalog, reaching
from lakesql.errors import RunError, did_you_mean, first_line
from lakesql.ledger.carried import carried_facts
from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_CHECKPOINT, LEDGER_MODEL, REPLAY_SUFFIX
from lakesql.plan.table_state import StateColumn, TableState
from lakesql.project.profiles import Catalog, sqlite_file
from lakesql.stream.types import field_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.transforms import Transform
    from pyiceberg.types import IcebergType


def check_catalog(catalog: Catalog) -> str:
    """A line on a catalog that answers, such as `lake (sql): 2 namespaces`; makes nothing.

    Raises what `open_catalog` and `check_warehouse` raise.
    """
    check_warehouse(catalog)
    file = sqlite_file(catalog)
    if file is not None and not file.exists():
        return f"{catalog.name} ({catalog.type}): {file} does not exist yet; the first run creates it"
    count = len(list_namespaces(open_catalog(catalog)))
    return f"{catalog.name} ({catalog.type}): {count} namespace{'' if count == 1 else 's'}"


def list_namespaces(opened: OpenCatalog) -> frozenset[str]:
    """The catalog's namespaces, those within others as `a.b`. Raises `ProfileError` (`catalog-unreachable`)."""
    with reaching(opened.profile):
        return frozenset(".".join(parts) for parts in opened.iceberg.list_namespaces())


def list_tables(opened: OpenCatalog, namespace: str) -> tuple[TableName, ...]:
    """The tables of a namespace in order of their names, none if there is no such namespace."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    with reaching(opened.profile):
        try:
            found = opened.iceberg.list_tables(namespace)
        except NoSuchNamespaceError:
            return ()
    return tuple(sorted(TableName(opened.profile.name, namespace, name) for *_, name in found))


def load_table_state(opened: OpenCatalog, name: TableName) -> TableState | None:
    """The table as its newest metadata says, None if there is no table of that name.

    Raises `ProfileError` (`catalog-unreachable`) and `RunError` (`table-unreadable`: the catalog knows the table, and
    its metadata cannot be read).
    """
    table = load_table(opened, name)
    return table_state(name, table) if table is not None else None


def table_state(name: TableName, table: Table) -> TableState:
    """A table as the metadata says that was loaded."""
    metadata = table.metadata
    written = (*metadata.snapshots, *carried_by(table))
    entries = (entry.summary.additional_properties for entry in written if entry.summary)
    schema = table.schema()
    known = _partition_sources(table)
    return TableState(
        name=name,
        columns=tuple(StateColumn(field.name, spark_type(field.field_type), field.required) for field in schema.fields),
        partition_by=_partition_by(table.spec(), schema),
        order_by=_order_by(table.sort_order(), schema),
        properties={**metadata.properties, "format-version": str(metadata.format_version)},
        ledger_models=frozenset(entry[LEDGER_MODEL] for entry in entries if LEDGER_MODEL in entry),
        is_unwritten=metadata.current_snapshot_id is None,
        was_partitioned_by=tuple(sorted({schema.find_column_name(each) or "" for each in known.values()} - {""})),
        lost_partitions=tuple(name for name, id_ in known.items() if schema.find_column_name(id_) is None),
    )


def carried_by(table: Table) -> tuple[Snapshot, ...]:
    """The snapshots with a ledger entry that the table carries in its properties, the newest first; without files."""
    from pyiceberg.table.snapshots import Snapshot

    head = table.current_snapshot()
    if head is None:
        return ()
    found = carried_facts(table.metadata.properties, head.sequence_number or 0)
    return tuple(Snapshot.model_validate({**facts, "manifest-list": ""}) for facts in found)


def newest_writer(opened: OpenCatalog, name: TableName) -> tuple[str, str] | None:
    """The model and the checkpoint of the newest batch in any snapshot that the table still has, None if there is none.

    A batch of dead letters alone counts for the model's query of them; a replay counts for nobody. Raises what
    `load_table_state` raises.
    """
    table = load_table(opened, name)
    if table is None:
        return None
    for snapshot in (*reversed(table.metadata.snapshots), *carried_by(table)):
        entry = snapshot.summary.additional_properties if snapshot.summary else {}
        model = entry.get(LEDGER_MODEL, "")
        if model and not model.endswith(REPLAY_SUFFIX):
            return model, entry.get(LEDGER_CHECKPOINT, "")
    return None


def read_rows(opened: OpenCatalog, name: TableName, limit: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The names of the columns, and at most `limit` rows of the newest snapshot in no order, less deleted ones.

    Data files are opened one after another until there are rows enough, each with its own deletes only, so the cost
    grows with `limit` and the number of manifests, not with the table. Raises `ProfileError` (`catalog-unreachable`)
    and `RunError` (`table-missing`, `table-unreadable`). A column with a date that Python does not have (its years are
    1 to 9999) comes as text.
    """
    table = load_table(opened, name)
    if table is None:
        raise missing_table(opened, name)
    columns = tuple(field.name for field in table.schema().fields)
    with reading(name, "rows"):
        return columns, _first_rows(table, limit)


def missing_table(opened: OpenCatalog, name: TableName) -> RunError:
    """The error of a table that is not there."""
    return RunError.of(
        "table-missing",
        f"There is no table {name}.",
        why=did_you_mean(name.name, [found.name for found in list_tables(opened, name.namespace)]),
        fix=f"Run the model that writes it: lakesql run --select {name.name}",
    )


@contextmanager
def reading(name: TableName, what: str) -> Iterator[None]:
    """Raise `RunError` (`table-unreadable`) where a table's files cannot be read: `what` of it they hold."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing_files(name, error) from error
    except Exception as error:
        what = f"The {what} of table {name} cannot be read."
        fix = "Check that its files can be read from here, and that they are complete."
        raise RunError.of("table-unreadable", what, why=first_line(error), fix=fix) from error


def spark_type(kind: IcebergType) -> str:
    """Spark's text of an Iceberg type, in the spelling of `stream.types.stored_type`.

    A type that Spark does not have keeps Iceberg's word.
    """
    from pyiceberg import types

    match kind:
        case types.DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case types.FixedType():
            return "binary"
        case types.StructType():
            fields = (f"{field_name(field.name)}:{spark_type(field.field_type)}" for field in kind.fields)
            return f"struct<{','.join(fields)}>"
        case types.ListType():
            return f"array<{spark_type(kind.element_type)}>"
        case types.MapType():
            return f"map<{spark_type(kind.key_type)},{spark_type(kind.value_type)}>"
        case _:
            return _SPARK_NAMES.get(str(kind), str(kind))


_SPARK_NAMES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "unknown": "void",
    "uuid": "string",
}


def look_in(catalog: Catalog) -> Callable[[TableName], bool]:
    """Says whether a table is in a catalog, which is opened at the first question. Raises what opening it raises.

    Asking makes no file: where that of a catalog on SQLite is not there, no table is.
    """

    @cache
    def opened() -> OpenCatalog | None:
        file = sqlite_file(catalog)
        return open_catalog(catalog) if file is None or file.exists() else None

    @cache
    def is_there(name: TableName) -> bool:
        found = opened()
        return found is not None and load_table(found, name) is not None

    return is_there


def load_table(opened: OpenCatalog, name: TableName) -> Table | None:
    """pyiceberg's own table, None if there is none. Raises what `load_table_state` raises."""
    from pydantic import ValidationError as InvalidAnswer
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ValidationError

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
            raise RunError.of("table-unreadable", what, why=first_line(error), fix=fix) from error
        except (ValidationError, InvalidAnswer) as error:
            if fault := _metadata_fault(error):
                what = f"The catalog knows the table {name}, and pyiceberg cannot read its metadata."
                fix = "Alter the table by the engine that made it, or give the model another table."
                raise RunError.of("table-unreadable", what, why=fault, fix=fix) from error
            raise


_BROKEN = (PermissionError, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error)
"""What opening a metadata file, unpacking it, or taking it for text raises."""


def _first_rows(table: Table, limit: int) -> list[tuple[Any, ...]]:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    rows: list[tuple[Any, ...]] = []
    if limit <= 0 or table.current_snapshot() is None:
        return rows
    scan = table.scan()
    for task in scan.plan_files():
        # One task at a time: a scan of all of them reads every delete file of the table before the first row.
        left = limit - len(rows)
        part = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue(), limit=left)
        for batch in part.to_record_batches([task]):
            rows.extend(python_rows(batch))
        if len(rows) >= limit:
            break
    return rows


def python_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """Its rows as Python has them; maps are dicts."""
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values as Python has them, or its dates as texts where one is beyond Python's years."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except OverflowError:
        return list(column.cast(_with_texts(column.type)).to_pylist(maps_as_pydicts="lossy"))


def _with_texts(kind: pa.DataType) -> pa.DataType:
    """The type with texts in place of its dates and timestamps."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([_field_with_texts(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_field_with_texts(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_field_with_texts(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_field_with_texts(kind.key_field), _field_with_texts(kind.item_field))
    return pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind


def _field_with_texts(field: pa.Field) -> pa.Field:
    return field.with_type(_with_texts(field.type))


def _partition_by(spec: PartitionSpec, schema: Schema) -> tuple[PartitionField, ...]:
    fields = ((_transform(field.transform), _column(schema, field.source_id)) for field in spec.fields)
    # A field that was dropped from a table of format version 1 stays as `void`.
    return tuple(PartitionField(word, column, width) for (word, width), column in fields if word != "void")


def _partition_sources(table: Table) -> dict[str, int]:
    """The fields of all partition specs that a table has had, each with the id of its column."""
    fields = (field for spec in table.specs().values() for field in spec.fields)
    return {field.name: field.source_id for field in fields if str(field.transform) != "void"}


def _order_by(order: SortOrder, schema: Schema) -> tuple[SortField, ...]:
    from pyiceberg.table.sorting import NullOrder, SortDirection

    found: list[SortField] = []
    for field in order.fields:
        word, width = _transform(field.transform)
        column = _column(schema, field.source_id)
        if word != "identity":
            column = f"{word}({'' if width is None else f'{width}, '}{column})"
        descending = field.direction == SortDirection.DESC
        found.append(SortField(column, descending, field.null_order == NullOrder.NULLS_FIRST))
    return tuple(found)


_TIME_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def _transform(transform: Transform[Any, Any]) -> tuple[str, int | None]:
    word, _, width = str(transform).removesuffix("]").partition("[")  # bucket[16], truncate[4]
    return _TIME_TRANSFORMS.get(word, word), int(width) if width else None


def _column(schema: Schema, field_id: int) -> str:
    # A column of an old partition spec may have been dropped since.
    return schema.find_column_name(field_id) or f"#{field_id}"


def _metadata_fault(error: Exception) -> str:
    """What pyiceberg does not understand of a table's metadata; '' where an answer holds none."""
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
    return f"{fault['msg'].removeprefix('Value error, ')}{f' ({place})' if place else ''}"


def missing_files(name: TableName, error: FileNotFoundError) -> RunError:
    """The error of a table whose files are not where its metadata says."""
    what = f"The catalog knows the table {name}, and files of it are missing."
    fix = "If its files were deleted by hand, drop the table from the catalog."
    return RunError.of("table-unreadable", what, why=first_line(error), fix=fix)
