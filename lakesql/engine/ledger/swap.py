"""How a rebuild ends: the contents of the table that was filled become those of the
live table, in one commit.

The table that is filled beside the live one (its replacement) gets, before its first
write, the schema, with its field ids, and the partition spec that the live table will
have after the swap. So its files fit the live table as they are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakesql.compile.quote import table_name
from lakesql.compile.table import TableSpec, format_version
from lakesql.engine.ledger.commit import HeadMovedError
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    carrying_properties,
    head_of,
    load_table,
    read_facts,
    set_tag,
    table_exists,
)
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.ledger.carried import carry
from lakesql.ledger.entry import ledger_tag
from lakesql.model.config import PartitionField, SortField
from lakesql.model.retention import keeps_files
from lakesql.model.table_name import TableName
from lakesql.names import DEAD_LETTER_SUFFIX

_API = "org.apache.iceberg."
_TIMES = {"years": "year", "months": "month", "days": "day", "hours": "hour"}


def drop_table(session: SparkSession, name: TableName) -> None:
    """Drop a table, if it exists, with its files; if its data files belong to another
    table, only its metadata.

    Other files in its folder may belong to a table of another catalog, and stay.
    """
    if not table_exists(session, name):
        return
    table: Any = load_table(session, name)
    if not keeps_files(dict(table.properties())):
        session.sql(f"DROP TABLE {table_name(name)} PURGE")
        return
    io, files = table.io(), _metadata_files(table)
    session.sql(f"DROP TABLE {table_name(name)}")
    for file in files:
        io.deleteFile(file)


def _metadata_files(table: Any) -> list[str]:
    """All metadata files that a table refers to: its versions, statistics, and the
    manifest lists and manifests of its snapshots."""
    reach = java_class(f"{_API}ReachableFileUtil")
    files = {
        *map(str, reach.metadataFileLocations(table, True)),
        *map(str, reach.manifestListLocations(table)),
    }
    files |= {*map(str, reach.statisticsFilesLocations(table))}
    for snapshot in table.snapshots():
        files |= {
            str(manifest.path()) for manifest in snapshot.allManifests(table.io())
        }
    return sorted(files)


def fit(live: JavaTable, replacement: JavaTable, spec: TableSpec) -> None:
    """Give `replacement`, which has no row yet, the schema, partitions and order that
    `live` will have after `swap`.

    `spec` is the table that the model asks for. `live` is not changed; nothing happens
    if this was done before.
    """
    # this transaction is never committed
    future = _evolve(live.newTransaction(), live, replacement, spec).table()
    schema = future.schema()
    last = max(schema.highestFieldId(), live.operations().current().lastColumnId())
    operations = replacement.operations()
    base = operations.current()
    made = (
        java_class(f"{_API}TableMetadata")
        .buildFrom(base)
        .setCurrentSchema(schema, last)
    )
    made = made.setDefaultPartitionSpec(future.spec()).setDefaultSortOrder(
        future.sortOrder()
    )
    operations.commit(base, made.build())


def swap(
    live: JavaTable,
    replacement: JavaTable,
    spec: TableSpec,
    summary: Mapping[str, str],
    owner: str,
    head: int | None,
) -> None:
    """Make the rows of `replacement` those of `live`, with its schema and partitions,
    in one commit.

    `live` keeps its UUID, history and tags. `summary` is added to the new head, which
    gets the tag of `owner`'s ledger. The commit has a snapshot that removes all rows
    and, after it, one that appends, so that models which stream the table can continue
    after the removal.

    Raises `HeadMovedError` if the head of `live` is not `head` any more, and `RunError`
    (`rebuild-outdated`) if the columns of `live` have been altered since `fit`.
    """
    if head_of(live) != head:
        raise HeadMovedError
    with _foreign_commits():
        transaction = _evolve(live.newTransaction(), live, replacement, spec)
        future = transaction.table()
        if not future.schema().sameSchema(replacement.schema()) or not _fits(
            future.spec(), replacement.spec()
        ):
            model = owner.removesuffix(DEAD_LETTER_SUFFIX)
            raise RunError.of(
                "rebuild-outdated",
                f"The columns or partitions of {live.name()} were altered while it was rebuilt.",
                fix=f"Begin again: lakesql rebuild {model} --abandon, then lakesql rebuild {model}",
            )
        everything = java_class(f"{_API}expressions.Expressions").alwaysTrue()
        if head is not None:
            removal = (
                transaction.newOverwrite()
                .overwriteByRowFilter(everything)
                .validateFromSnapshot(head)
            )
            removal = removal.conflictDetectionFilter(
                everything
            ).validateNoConflictingData()
            removal.validateNoConflictingDeletes().commit()
            # streams of the table can begin after the removal, by its time
            time.sleep(0.002)
        files, deletes = _files(replacement)
        last = transaction.newAppend()
        for file in files:
            last = last.appendFile(
                _move(file, java_class(f"{_API}DataFiles").builder(future.spec()))
            )
        if deletes:
            last.commit()
            last = transaction.newRowDelta()
            for file in deletes:
                last = last.addDeletes(
                    _move_delete(file, java_class(f"{_API}FileMetadata"), future.spec())
                )
        for key, value in summary.items():
            last = last.set(key, value)
        last.commit()
        made = transaction.table().currentSnapshot()
        tag, is_there = ledger_tag(owner), live.refs().containsKey(ledger_tag(owner))
        set_tag(
            transaction.manageSnapshots(), tag, made.snapshotId(), is_there=is_there
        ).commit()
        for key, value in carry(carrying_properties(live), read_facts(made)).items():
            transaction.updateProperties().set(key, value).commit()
        transaction.commitTransaction()


@contextmanager
def _foreign_commits() -> Iterator[None]:
    """Raise `HeadMovedError` instead of Iceberg's exceptions for a commit that came in
    between."""
    try:
        yield
    except Py4JJavaError as error:
        if any(
            word in str(error)
            for word in ("ValidationException", "CommitFailedException")
        ):
            raise HeadMovedError from None
        raise


def lost_partitions(live: JavaTable, spec: TableSpec) -> list[str]:
    """The columns by which `live` is or was partitioned, and that `spec` lacks or has
    with another type, sorted.

    Iceberg 1.12 fails in each MERGE into a table that has lost one: its `_partition`
    column leaves the field out, and the writer looks for it.
    """
    old, new = (
        _types(live.schema()),
        {column.name: column.type for column in spec.columns},
    )
    sources = {
        _root(live.schema().findColumnName(field.sourceId()))
        for known in live.specs().values()
        for field in known.fields()
        if str(field.transform().toString()) != "void"
    }
    return sorted(
        name for name in sources if name is not None and new.get(name) != old[name]
    )


def _evolve(
    transaction: Any, live: JavaTable, replacement: JavaTable, spec: TableSpec
) -> Any:
    """The transaction, in which `live` has the columns of `replacement`, and the
    partitions and order of `spec`."""
    version = str(format_version(spec.properties))
    transaction.updateProperties().set("format-version", version).commit()
    transaction.replaceSortOrder().commit()  # none: it may name a column that goes
    had, wanted = (
        _partitions(live),
        {_partition(field): field for field in spec.partition_by},
    )
    columns = _kept(live.schema(), replacement.schema())
    left = {key for key in had.keys() & wanted.keys() if _root(key[0]) in columns}
    update = transaction.updateSpec()
    for key in had.keys() - left:
        update = update.removeField(had[key])
    update.commit()
    _evolve_columns(transaction.updateSchema(), live.schema(), replacement.schema())
    update = transaction.updateSpec()
    for key, field in wanted.items():
        if key not in left:
            update = update.addField(field.name or field.column, _term(field))
    update.commit()
    order = transaction.replaceSortOrder()
    for sort in spec.order_by:
        order = (order.desc if sort.descending else order.asc)(
            _column(sort.column), _nulls(sort)
        )
    order.commit()
    return transaction


def _evolve_columns(update: Any, before: Any, wanted: Any) -> None:
    """Keep columns with the same name and type, with their ids; drop the others, and
    add the new ones."""
    old, new, kept = _types(before), _types(wanted), _kept(before, wanted)
    if list(before.identifierFieldIds()):
        update = update.setIdentifierFields(java_class("java.util.ArrayList")())
    for name in old.keys() - kept:
        update = update.deleteColumn(name)
    for field in wanted.columns():
        name = field.name()
        if name not in kept:
            update = update.addColumn(name, field.type(), field.doc())
            continue
        if before.findField(name).isRequired():
            update = update.makeColumnOptional(name)
        if before.findField(name).doc() != field.doc():
            update = update.updateColumnDoc(name, field.doc())
    if list(old) != list(new):
        update = update.moveFirst(next(iter(new)))
        for first, second in pairwise(new):
            update = update.moveAfter(second, first)
    update.commit()


def _kept(before: Any, wanted: Any) -> set[str]:
    old = _types(before)
    return {name for name, kind in _types(wanted).items() if old.get(name) == kind}


def _types(schema: Any) -> dict[str, str]:
    """The columns, in their order, with their types as Spark writes them."""
    spark = json.loads(
        java_class(f"{_API}spark.SparkSchemaUtil").convert(schema).json()
    )
    return {
        field.name: field.dataType.simpleString()
        for field in StructType.fromJson(spark).fields
    }


def _partitions(table: JavaTable) -> dict[tuple[str, str], str]:
    """The names of the fields of the table's partition spec, by column and
    transform."""
    schema = table.schema()
    fields = (
        (schema.findColumnName(f.sourceId()), str(f.transform().toString()), f.name())
        for f in table.spec().fields()
    )
    return {(column, transform): name for column, transform, name in fields}


def _root(path: str | None) -> str | None:
    """The top-level column that the field at this path is in; None if there is no such
    field any more."""
    return path.split(".")[0] if path is not None else None


def _partition(field: PartitionField) -> tuple[str, str]:
    transform = _TIMES.get(field.transform, field.transform)
    return (
        field.column,
        transform if field.width is None else f"{transform}[{field.width}]",
    )


def _term(field: PartitionField) -> Any:
    make = java_class(f"{_API}expressions.Expressions")
    if field.transform == "identity":
        return _column(field.column)
    transform = getattr(make, _TIMES.get(field.transform, field.transform))
    return (
        transform(field.column)
        if field.width is None
        else transform(field.column, field.width)
    )


def _column(name: str) -> Any:
    return java_class(f"{_API}expressions.Expressions").ref(name)


def _nulls(sort: SortField) -> Any:
    order = java_class(f"{_API}NullOrder")
    return order.NULLS_FIRST if sort.nulls_first else order.NULLS_LAST


def _fits(one: Any, other: Any) -> bool:
    """Whether files written with one partition spec have the same partition values in
    the other."""
    return _shape(one) == _shape(other)


def _shape(spec: Any) -> list[tuple[int, str]]:
    return [
        (field.sourceId(), str(field.transform().toString())) for field in spec.fields()
    ]


def _files(table: JavaTable) -> tuple[list[Any], list[Any]]:
    """The table's data files, and the delete files that apply to them."""
    files, deletes = [], {}
    tasks = table.newScan().includeColumnStats().planFiles()
    try:
        for task in _each(tasks.iterator()):
            files.append(task.file())
            for file in task.deletes():
                deletes[file.location(), file.contentOffset()] = file
    finally:
        tasks.close()
    return files, list(deletes.values())


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _move(file: Any, made: Any) -> Any:
    """The file as one of a table with the spec that the builder `made` is for. (The
    builder's `copy` needs specs with the same id.)"""
    metrics = java_class(f"{_API}Metrics")(
        file.recordCount(),
        file.columnSizes(),
        file.valueCounts(),
        file.nullValueCounts(),
        file.nanValueCounts(),
        file.lowerBounds(),
        file.upperBounds(),
    )
    made = (
        made.withPath(file.location())
        .withFormat(file.format())
        .withFileSizeInBytes(file.fileSizeInBytes())
    )
    made = (
        made.withPartition(file.partition())
        .withMetrics(metrics)
        .withSplitOffsets(file.splitOffsets())
    )
    if file.keyMetadata() is not None:
        made = made.withEncryptionKeyMetadata(file.keyMetadata())
    return made.build()


def _move_delete(file: Any, metadata: Any, spec: Any) -> Any:
    made = metadata.deleteFileBuilder(spec).ofPositionDeletes()
    if file.referencedDataFile() is not None:
        made = made.withReferencedDataFile(file.referencedDataFile())
    if file.contentOffset() is not None:  # a deletion vector
        made = made.withContentOffset(file.contentOffset()).withContentSizeInBytes(
            file.contentSizeInBytes()
        )
    return _move(file, made)
