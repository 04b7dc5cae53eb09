"""The table of a seed, by pyiceberg: its state by its newest metadata, and how its rows
are replaced in one commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog, reaching
from lakesql.catalog.tables import load_table, metadata_of
from lakesql.errors import LakesqlError, RunError, first_line
from lakesql.model.table_name import TableName
from lakesql.names import SEED_PROPERTY, SEED_VERSION
from lakesql.seed.seed import Seed
from lakesql.seed.seed_rows import Row
from lakesql.stream.types import parse_type, stored_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata as IcebergMetadata
    from pyiceberg.types import IcebergType

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""The table properties of a seed's table, beside the one that names its owner."""

ROWS_AT_ONCE = 20_000
"""The number of rows that are converted from Python's values to Arrow at a time."""

ATTEMPTS = 5
"""The most attempts at a fill, if others commit to the table meanwhile."""

COMPACTION = "replace"
"""The operation of a snapshot that leaves the table's rows as they are."""


@dataclass(frozen=True, slots=True)
class SeedTable:
    """The table that has a seed's name, by its newest metadata.

    `owner` is the project and seed that it belongs to, '' if lakesql did not create it
    for a seed. `version` identifies what its rows were made from, '' if somebody else
    has written rows since, or it was never filled. `rows` and `filled_at_ms` are of the
    newest fill, and `location` is where its files are.
    """

    owner: str
    version: str
    rows: int | None
    filled_at_ms: int | None
    location: str = ""


def read_seed_table(opened: OpenCatalog, name: TableName) -> SeedTable | None:
    """The state of the table, None if there is none. Raises what `load_table`
    raises."""
    table = load_table(opened, name)
    return None if table is None else _read_state(table)


def _read_state(table: Table) -> SeedTable:
    history = [*metadata_of(table).history]
    newest = next(
        (it for it in history if it.summary.get("operation") != COMPACTION), None
    )
    filled = next((it for it in history if SEED_VERSION in it.summary), None)
    is_whole = newest is not None and newest is filled
    return SeedTable(
        owner=table.properties.get(SEED_PROPERTY, ""),
        version=filled.summary[SEED_VERSION] if is_whole and filled is not None else "",
        rows=int(filled.summary.get("added-records", 0))
        if filled is not None
        else None,
        filled_at_ms=filled.at_ms if filled is not None else None,
        location=table.location(),
    )


def check_owner(name: TableName, found: SeedTable, owner: str, seed: str) -> None:
    """Raise `RunError` (`table-not-of-seed`) if the table does not belong to `owner`,
    the project's seed of this name."""
    if found.owner == owner:
        return
    whose = f"seed {found.owner} has made it" if found.owner else "no seed has made it"
    what = f"There is a table {name} already, and {whose}: seed '{seed}' does not overwrite it."
    fix = ""
    if found.owner.endswith(f".{seed}"):
        fix = (
            "Two projects have a seed of this name in one namespace: give one of them another. After the project was "
            f"renamed: ALTER TABLE {name} SET TBLPROPERTIES ('{SEED_PROPERTY}' = '{owner}')"
        )
    raise RunError.of("table-not-of-seed", what, fix=fix)


def fill_seed_table(
    opened: OpenCatalog,
    seed: Seed,
    owner: str,
    version: str,
    rows: Iterator[Row],
    *,
    is_forced: bool,
) -> SeedTable:
    """Replace the columns and rows of the seed's table in one commit, and return its
    new state. Creates the table if there is none.

    Readers see the former rows and columns until the commit, and the new ones after it;
    a fill that fails leaves only files that no table has. If another commit comes
    first, the fill begins again, and writes nothing if that one wrote the same version,
    unless it `is_forced`.

    Raises `RunError` (`table-not-of-seed`, `seed-not-filled`, `commit-conflict`), and
    what `reaching` raises.
    """
    content: list[pa.RecordBatch] = []
    for attempt in range(ATTEMPTS):
        table = load_table(opened, seed.table)
        if table is not None:
            found = _read_state(table)
            check_owner(seed.table, found, owner, seed.name)
            if attempt and found.version == version and not is_forced:
                return found
        content = content or [*_batches(seed, rows)]
        if _commit(opened, seed, table, owner, version, content):
            filled = read_seed_table(opened, seed.table)
            assert filled is not None, "it was filled just now"
            return filled
    what = f"Others were faster in committing to table {seed.table}, {ATTEMPTS} times."
    raise RunError.of(
        "commit-conflict", what, fix=f"Fill it again: lakesql seed --select {seed.name}"
    )


def drop_seed_table(opened: OpenCatalog, name: TableName) -> None:
    """Remove the table and its files."""
    from pyiceberg.catalog import MetastoreCatalog

    identifier = (name.namespace, name.name)
    with reaching(opened.profile):
        try:
            opened.iceberg.purge_table(identifier)
        # Hive's catalog has no purge of its own; that of other metastores works for it.
        except NotImplementedError:
            if not isinstance(opened.iceberg, MetastoreCatalog):
                raise
            MetastoreCatalog.purge_table(opened.iceberg, identifier)


def _commit(
    opened: OpenCatalog,
    seed: Seed,
    table: Table | None,
    owner: str,
    version: str,
    content: Sequence[pa.RecordBatch],
) -> bool:
    """Write the rows and commit them. Returns False if another commit came first, so
    that the fill must begin again."""
    from pyiceberg.exceptions import (
        CommitFailedException,
        RESTError,
        TableAlreadyExistsError,
        ValidationException,
    )

    try:
        _make_namespace(opened, seed.table.namespace)
        transaction = _begin(opened, seed, table, owner)
        _exchange(transaction, seed, table, version, content)
        try:
            transaction.commit_transaction()
        except RESTError:
            if table is not None:
                raise
            # Nessie refuses to create a table together with its first snapshot.
            _make_empty(opened, seed, owner)
            return False
    except (CommitFailedException, ValidationException, TableAlreadyExistsError):
        return False
    except LakesqlError:
        raise
    except Exception as error:
        what = f"Table {seed.table} of seed '{seed.name}' cannot be written."
        raise RunError.of("seed-not-filled", what, why=first_line(error)) from error
    return True


def _make_namespace(opened: OpenCatalog, namespace: str) -> None:
    """Create the namespace if it does not exist, which another command may do at the
    same time."""
    with reaching(opened.profile):
        try:
            opened.iceberg.create_namespace_if_not_exists(namespace)
        except Exception:
            if not opened.iceberg.namespace_exists(namespace):
                raise


def _begin(
    opened: OpenCatalog, seed: Seed, table: Table | None, owner: str
) -> Transaction:
    """A transaction that creates the table, or gives the existing one the seed's
    columns. Raises `RunError` (`seed-not-filled`) if that is partitioned or sorted."""
    properties = _own_properties(seed, owner)
    name = (seed.table.namespace, seed.table.name)
    if table is None:
        made = {**PROPERTIES, **properties}
        return opened.iceberg.create_table_transaction(
            name, _new_schema(seed), properties=made
        )
    if not table.spec().is_unpartitioned() or not table.sort_order().is_unsorted:
        what = f"Table {seed.table} of seed '{seed.name}' was partitioned or ordered, which seeds are not."
        fix = f"Undo it by ALTER TABLE, or make it anew: lakesql drop {seed.name}, lakesql seed --select {seed.name}"
        raise RunError.of("seed-not-filled", what, fix=fix)
    transaction = table.transaction()
    if {key: table.properties.get(key) for key in properties} != properties:
        transaction.set_properties(properties)
    _change_columns(transaction, seed, table.schema())
    return transaction


def _own_properties(seed: Seed, owner: str) -> dict[str, str]:
    comment = (
        {"comment": seed.properties.description} if seed.properties.description else {}
    )
    return {SEED_PROPERTY: owner, **comment}


def _make_empty(opened: OpenCatalog, seed: Seed, owner: str) -> None:
    """Create the table without rows, which the next commit adds."""
    name = (seed.table.namespace, seed.table.name)
    made = {**PROPERTIES, **_own_properties(seed, owner)}
    opened.iceberg.create_table(name, _new_schema(seed), properties=made)


def _change_columns(transaction: Transaction, seed: Seed, stored: Schema) -> None:
    """Give the table the columns of the seed, in their order. A column whose type
    differs is dropped and added anew under the same name, so that older snapshots stay
    readable."""
    wanted = [
        (field.name, field.field_type, field.doc) for field in _new_schema(seed).fields
    ]
    there = {field.name: field for field in stored.fields}
    if wanted == [(field.name, field.field_type, field.doc) for field in stored.fields]:
        return
    kept = {
        name
        for name, kind, _ in wanted
        if name in there and there[name].field_type == kind
    }
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name in there:
            if name not in kept:
                update.delete_column((name,))
        for name, kind, doc in wanted:
            if name not in kept:
                update.add_column((name,), kind, doc)
            elif there[name].doc != doc:
                update.update_column((name,), doc=doc or "")
    names = [field.name for field in transaction.table_metadata.schema().fields]
    if names == [name for name, _, _ in wanted]:
        return
    with transaction.update_schema() as update:
        for name, _, _ in reversed(wanted):
            update.move_first((name,))


def _exchange(
    transaction: Transaction,
    seed: Seed,
    table: Table | None,
    version: str,
    content: Sequence[pa.RecordBatch],
) -> None:
    """Add a snapshot to the transaction that removes all data files and adds those of
    the new rows."""
    summary = {SEED_VERSION: version}
    with transaction.update_snapshot(
        snapshot_properties=summary
    ).overwrite() as snapshot:
        if table is not None and table.current_snapshot() is not None:
            for task in table.scan().plan_files():
                snapshot.delete_data_file(task.file)
        if content:
            location = transaction.table_metadata
            for file in _write_files(
                transaction, location, snapshot.commit_uuid, content
            ):
                snapshot.append_data_file(file)


def _write_files(
    transaction: Transaction,
    metadata: IcebergMetadata,
    commit: uuid.UUID,
    content: Sequence[pa.RecordBatch],
) -> Iterator[DataFile]:
    from pyiceberg.io.pyarrow import write_file
    from pyiceberg.table import WriteTask

    task = WriteTask(
        write_uuid=commit,
        task_id=0,
        schema=metadata.schema(),
        record_batches=[*content],
    )
    return write_file(
        io=transaction._table.io, table_metadata=metadata, tasks=iter([task])
    )


def _new_schema(seed: Seed) -> Schema:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = (
        NestedField(
            number,
            column.name,
            _iceberg_type(column.type),
            required=False,
            doc=column.description or None,
        )
        for number, column in enumerate(seed.columns, 1)
    )
    return Schema(*fields)


def _iceberg_type(kind: str) -> IcebergType:
    from pyiceberg import types as T

    stored = parse_type(stored_type(kind))
    assert stored is not None, "a contract has no other types"
    plain: dict[str, IcebergType] = {
        "string": T.StringType(),
        "boolean": T.BooleanType(),
        "int": T.IntegerType(),
        "bigint": T.LongType(),
        "float": T.FloatType(),
        "double": T.DoubleType(),
        "date": T.DateType(),
        "timestamp": T.TimestamptzType(),
        "timestamp_ntz": T.TimestampType(),
    }
    if stored.name == "decimal":
        precision, scale = map(int, stored.parameters)
        return T.DecimalType(precision, scale)
    return plain[stored.name]


def _batches(seed: Seed, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """The rows as Arrow's record batches of at most `ROWS_AT_ONCE` rows."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = schema_to_pyarrow(_new_schema(seed), include_field_ids=False)
    while some := [*islice(rows, ROWS_AT_ONCE)]:
        values = zip(*some, strict=True)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(values, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
