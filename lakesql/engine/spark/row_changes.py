"""Which rows a table has lost and gained between two of its snapshots, read from the
files that changed alone.

Iceberg's own changelog scan refuses delete files. Here the data files of both snapshots
are compared, and the deletes that apply to each: rows of removed and added files are
read, and of files that stayed the rows that are deleted in only one of the snapshots.
Rows that a compaction has moved, or that were rewritten unchanged, are both lost and
gained, and cancel out. So the writer's engine, the table's format and how it merges
make no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from lakesql.compile.quote import table_name
from lakesql.engine.spark.few_rows import FEW_ROWS, keep_rows
from lakesql.engine.spark.gateway import items_of, java_class
from lakesql.engine.spark.internals import (
    can_read_tasks,
    in_session,
    plan_files,
    rows_of_tasks,
)
from lakesql.engine.spark.old_columns import select_as_now
from lakesql.model.table_name import TableName

_SIGN = "_lakesql_sign"
"""The column with 1 for a row that was gained, -1 for one that was lost."""

_WAS_FILE, _WAS_AT = "_lakesql_was_file", "_lakesql_was_at"
"""The columns with the file and the position of a row that was deleted."""

BROADCAST_ROWS = 1_000_000
"""Up to how many deleted rows their positions are broadcast to all tasks: some 100
MB."""

FILES_PER_ROW = 2
"""Looking a row up by its position alone, and then comparing this many file names,
takes no longer than hashing the name of its file."""


class ChangesUnknownError(Exception):
    """The changes since a snapshot cannot be found."""

    def __init__(self, snapshot: int) -> None:
        super().__init__(snapshot)
        self.snapshot = snapshot


class SnapshotExpiredError(ChangesUnknownError):
    """The table does not have the snapshot: it has expired, or the table was created
    again."""


class NoAncestorError(ChangesUnknownError):
    """The later snapshot does not descend from the earlier one: the table was rolled
    back, or replaced."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The rows that a table's newer snapshot lacks (`gone`) and those that it has
    gained (`come`); None if there are none. An updated row is in both.

    `rows_read` is how many rows the files have that are read for it, according to
    metadata: there are no more changes than that. `count` is the number of changes;
    None if they are not computed yet, but by each use of the frames.
    """

    gone: DataFrame | None = None
    come: DataFrame | None = None
    rows_read: int = 0
    count: int | None = 0

    def of(self, session: SparkSession) -> RowChanges:
        """These changes, which are computed already, as frames of another session."""
        gone, come = (
            None if rows is None else in_session(rows, session)
            for rows in (self.gone, self.come)
        )
        return replace(self, gone=gone, come=come)


@contextmanager
def changes_between(
    session: SparkSession,
    name: TableName,
    table: Any,
    start: int | None,
    end: int,
    columns: Sequence[str] | None = None,
    keeps: int = 0,
) -> Iterator[RowChanges]:
    """The changes of an `org.apache.iceberg.Table` from snapshot `start` to its
    descendant `end`; with `start` None, all rows of `end`.

    Rows have the table's newest columns, whichever snapshot they are of; with
    `columns`, only these, and rows that are equal in them cancel out. Equality is that
    of EXCEPT ALL: NaN equals NaN, and 0.0 equals -0.0. The frames can be read while the
    context is open. Changes that are computed at once (their `count` is not None) can
    be read later too: those that had to be compared with each other, and those that are
    no more than `keeps` according to metadata.

    Raises SnapshotExpiredError and NoAncestorError.
    """
    with ExitStack() as held:
        yield _find_changes(
            _Scans(session, name, table, columns, held), start, end, keeps
        )


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A data file of a snapshot: the task that reads it, and the deletes that apply to
    it, each by its location and offset."""

    task: Any
    deletes: frozenset[tuple[str, int | None]]

    @property
    def rows(self) -> int:
        """How many rows it has, including deleted ones."""
        return int(self.task.file().recordCount())

    @property
    def deleted(self) -> int:
        """How many rows its delete files list, for this file and others."""
        return (
            sum(int(each.recordCount()) for each in items_of(self.task.deletes()))
            if self.deletes
            else 0
        )


@dataclass(frozen=True, slots=True)
class _Touched:
    """A data file that is in two snapshots, with different deletes in each."""

    before: _DataFile
    after: _DataFile

    @property
    def brings_back(self) -> bool:
        """Whether deleted rows may be back: a delete file of the earlier snapshot no
        longer applies. Its deletes may be in another file instead, as whenever a
        deletion vector was replaced."""
        return not self.before.deletes <= self.after.deletes

    @property
    def changes(self) -> int:
        """About how many rows it has lost, from the numbers of deletes in both
        snapshots."""
        return abs(self.after.deleted - self.before.deleted)


@dataclass(slots=True)
class _FilesChanged:
    """How the files of one snapshot differ from those of another, or the sum of such
    differences over several spans."""

    gone: list[_DataFile] = field(default_factory=list)
    come: list[_DataFile] = field(default_factory=list)
    touched: list[_Touched] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows are read to compare them."""
        return sum(
            each.rows
            for each in (
                *self.gone,
                *self.come,
                *(touched.after for touched in self.touched),
            )
        )

    @property
    def changes(self) -> int:
        """About how many rows have changed, or were moved, according to metadata."""
        return sum(each.rows for each in (*self.gone, *self.come)) + sum(
            each.changes for each in self.touched
        )


@dataclass(frozen=True, slots=True)
class _Scans:
    """Reads rows of a table, and keeps what is read until the context of the changes
    ends."""

    session: SparkSession
    name: TableName
    table: Any
    columns: Sequence[str] | None
    held: ExitStack

    def tasks_of(self, files: Iterable[_DataFile]) -> DataFrame:
        """The rows of files as one of their snapshots has them; metadata columns can be
        selected."""
        tasks = [each.task for each in files]
        return self.held.enter_context(rows_of_tasks(self.session, self.table, tasks))

    def columns_of(self, rows: DataFrame) -> list[Column]:
        """The columns that are compared."""
        return [*map(_column, self.columns or rows.columns)]

    def places_deleted(self, files: Sequence[_DataFile]) -> DataFrame:
        """The file and the position of each deleted row of these files."""
        rows = self.tasks_of(files)
        return rows.where("_deleted").select(
            F.col("_file").alias(_WAS_FILE), F.col("_pos").alias(_WAS_AT)
        )

    def rows_at(self, snapshot: int) -> DataFrame:
        """All rows of a snapshot, by Spark's public interface."""
        rows = self.session.sql(
            f"SELECT * FROM {table_name(self.name)} VERSION AS OF {snapshot}"
        )
        rows = select_as_now(rows, self.table, snapshot)
        return rows.select(*self.columns_of(rows))


def _find_changes(scans: _Scans, start: int | None, end: int, keeps: int) -> RowChanges:
    if scans.table.snapshot(end) is None:
        raise SnapshotExpiredError(end)
    if start is None:
        return _all_rows(scans, end, keeps)
    if start == end:
        return RowChanges()
    changed = _files_changed(scans.table, _spans(scans.table, start, end))
    if not can_read_tasks() and changed.rows:
        signed = [_signed(scans.rows_at(start), -1), _signed(scans.rows_at(end), 1)]
        rows = _total_rows(scans.table, start) + _total_rows(scans.table, end)
        return _cancelled(signed, rows, are_few=rows <= FEW_ROWS)
    signed = [
        *_signed_files(scans, changed.gone, -1),
        *_signed_files(scans, changed.come, 1),
        *_signed_touched(scans, changed.touched),
    ]
    if not signed:
        return RowChanges()
    changes = changed.changes
    if not changed.gone and not changed.touched:
        come, count = _made(_union(signed).drop(_SIGN), changes, keeps)
        return RowChanges(come=come, rows_read=changed.rows, count=count)
    brings_back = any(each.brings_back for each in changed.touched)
    if not changed.come and not brings_back:
        gone, count = _made(_union(signed).drop(_SIGN), changes, keeps)
        return RowChanges(gone=gone, rows_read=changed.rows, count=count)
    return _cancelled(signed, changed.rows, are_few=changes <= FEW_ROWS)


def _all_rows(scans: _Scans, end: int, keeps: int) -> RowChanges:
    files = [*_files_at(scans.table, end).values()]
    if not files:
        return RowChanges()
    rows = scans.tasks_of(files) if can_read_tasks() else scans.rows_at(end)
    rows = rows.select(*scans.columns_of(rows))
    total = sum(each.rows for each in files)
    come, count = _made(rows, total, keeps)
    return RowChanges(come=come, rows_read=total, count=count)


def _made(rows: DataFrame, changes: int, keeps: int) -> tuple[DataFrame, int | None]:
    """The rows, which are at most `changes` many, computed, and their number; if they
    are more than `keeps`, the rows as they are, and None."""
    if changes > keeps:
        return rows, None
    kept = keep_rows(rows, changes, is_planned_once=changes <= FEW_ROWS)
    return kept.rows, kept.count


def _spans(table: Any, start: int, end: int) -> list[tuple[int, int]]:
    """The spans between snapshots in which rows changed on the way from `start` to
    `end`, the earliest first.

    Compactions between them change no rows and are left out. If snapshots on the way
    have expired, it is one span from `start` to `end`.
    """
    first = table.snapshot(start)
    if first is None:
        raise SnapshotExpiredError(start)
    path = []
    at = table.snapshot(end)
    while (id_ := int(at.snapshotId())) != start:
        path.append((id_, str(at.operation())))
        parent = at.parentId()
        before = table.snapshot(parent) if parent is not None else None
        if before is None:
            if parent is None or first.sequenceNumber() >= at.sequenceNumber():
                raise NoAncestorError(start)
            return [(start, end)]
        at = before
    spans = []
    since = until = start
    for id_, operation in reversed(path):
        if operation == "replace":
            spans.append((since, until))
            since = id_
        until = id_
    spans.append((since, until))
    return [span for span in spans if span[0] != span[1]]


def _files_changed(table: Any, spans: Sequence[tuple[int, int]]) -> _FilesChanged:
    """How the files differ: span by span, or those of the last snapshot from those of
    the first, whichever has fewer rows."""
    ends = {end for span in spans for end in span}
    files = {end: _files_at(table, end) for end in ends}
    stepwise = _FilesChanged()
    for since, until in spans:
        _compare(files[since], files[until], stepwise)
    if len(spans) < 2:
        return stepwise
    at_once = _FilesChanged()
    _compare(files[spans[0][0]], files[spans[-1][1]], at_once)
    return min(stepwise, at_once, key=lambda changed: changed.rows)


def _compare(
    before: Mapping[str, _DataFile], after: Mapping[str, _DataFile], into: _FilesChanged
) -> None:
    for path, old in before.items():
        new = after.get(path)
        if new is None:
            into.gone.append(old)
        elif new.deletes != old.deletes:
            into.touched.append(_Touched(old, new))
    into.come += [new for path, new in after.items() if path not in before]


def _files_at(table: Any, snapshot: int) -> dict[str, _DataFile]:
    """The data files of a snapshot by their paths."""
    files = {}
    planned = (
        plan_files(table, snapshot)
        if can_read_tasks()
        else table.newScan().useSnapshot(snapshot).planFiles()
    )
    lists = java_class("org.apache.iceberg.relocated.com.google.common.collect.Lists")
    with closing(planned):
        tasks = items_of(lists.newArrayList(planned))
    for task in tasks:
        deletes = frozenset(
            (str(each.location()), each.contentOffset())
            for each in items_of(task.deletes())
        )
        files[str(task.file().location())] = _DataFile(task, deletes)
    return files


def _total_rows(table: Any, snapshot: int) -> int:
    return sum(each.rows for each in _files_at(table, snapshot).values())


def _signed_files(
    scans: _Scans, files: Sequence[_DataFile], sign: int
) -> Iterator[DataFrame]:
    if files:
        rows = scans.tasks_of(files)
        yield rows.select(*scans.columns_of(rows), F.lit(sign).alias(_SIGN))


def _signed_touched(scans: _Scans, touched: Sequence[_Touched]) -> Iterator[DataFrame]:
    """The rows that were deleted, or are back, in files that both snapshots have."""
    untouched_before = [each for each in touched if not each.before.deletes]
    if untouched_before:
        rows = scans.tasks_of([each.after for each in untouched_before])
        yield rows.where("_deleted").select(
            *scans.columns_of(rows), F.lit(-1).alias(_SIGN)
        )
    for brings_back in (False, True):
        files = [
            each
            for each in touched
            if each.before.deletes and each.brings_back is brings_back
        ]
        if not files:
            continue
        rows = scans.tasks_of([each.after for each in files])
        columns = scans.columns_of(rows)
        if not brings_back:
            rows = rows.where("_deleted")
        rows = _with_places(
            rows.select(*columns, "_file", "_pos", "_deleted"), scans, files
        )
        was_deleted = F.col(_WAS_AT).isNotNull()
        sign = F.when(was_deleted, 1).otherwise(-1).alias(_SIGN)
        yield rows.where(F.col("_deleted") != was_deleted).select(*columns, sign)


def _with_places(
    rows: DataFrame, scans: _Scans, files: Sequence[_Touched]
) -> DataFrame:
    """The rows of files, joined with the positions of the rows that were deleted
    before.

    Hashing the name of a file costs more than anything else that is done per row. So if
    few rows were deleted, a row is looked up by its position first, and then the file
    names are compared, in a form that Spark does not take for a join key.
    """
    places = scans.places_deleted([each.before for each in files])
    deleted = sum(each.before.deleted for each in files)
    file, was_file = F.col("_file"), F.col(_WAS_FILE)
    is_same = file == was_file
    if deleted <= BROADCAST_ROWS:
        places = F.broadcast(places)
        if deleted * len(files) <= FILES_PER_ROW * sum(
            each.after.rows for each in files
        ):
            is_same = F.startswith(file, was_file) & (
                F.length(file) <= F.length(was_file)
            )
    return rows.join(places, (F.col("_pos") == F.col(_WAS_AT)) & is_same, "left")


def _cancelled(
    signed: Sequence[DataFrame], rows_read: int, *, are_few: bool
) -> RowChanges:
    """The changes without rows that are lost as often as they are gained; computed now.
    `are_few`: there are few according to metadata."""
    rows = _union(signed)
    columns = [each.name for each in rows.schema.fields if each.name != _SIGN]
    keys: list[Column] = []
    others: list[Column] = []
    for each in rows.schema.fields:
        if each.name == _SIGN:
            continue
        if not _is_grouped(each.dataType):
            keys.append(
                _comparable(_column(each.name), each.dataType).alias(
                    f"_lakesql_key_{len(keys)}"
                )
            )
            others.append(F.first(_column(each.name)).alias(each.name))
        else:
            keys.append(_column(each.name))
    times = (
        rows.groupBy(*keys)
        .agg(F.sum(_SIGN).alias(_SIGN), *others)
        .where(F.col(_SIGN) != 0)
    )
    often = F.abs(F.col(_SIGN)).cast("int")
    each_time = F.explode(F.array_repeat(F.signum(F.col(_SIGN)).cast("int"), often))
    net = times.select(*map(_column, columns), each_time.alias(_SIGN))
    kept = keep_rows(net, FEW_ROWS if are_few else math.inf, is_planned_once=are_few)
    gone, come = (kept.rows.where(F.col(_SIGN) == sign).drop(_SIGN) for sign in (-1, 1))
    return RowChanges(gone, come, rows_read, kept.count)


def _is_grouped(kind: DataType) -> bool:
    """Whether Spark groups correctly by a type. It also groups by maps, but treats NULL
    among their values as 0, or fails."""
    match kind:
        case VariantType() | MapType():
            return False
        case ArrayType():
            return _is_grouped(kind.elementType)
        case StructType():
            return all(_is_grouped(each.dataType) for each in kind.fields)
    return True


def _comparable(value: Column, kind: DataType) -> Column:
    """A value that is equal exactly if the given one is, of a type that Spark groups
    by.

    A variant becomes its text and its type, a map its entries in the order of their
    keys.
    """
    match kind:
        case VariantType():
            text, said = F.to_json(value), F.schema_of_variant(value)
            return F.when(value.isNotNull(), F.struct(text, said))
        case ArrayType(elementType=inner):
            return F.transform(value, lambda each: _comparable(each, inner))
        case MapType(valueType=inner):
            entries = F.transform(
                F.map_entries(value),
                lambda each: F.struct(each["key"], _comparable(each["value"], inner)),
            )
            return F.array_sort(entries)
        case StructType(fields=inner_fields):
            inside = [
                _comparable(value.getField(each.name), each.dataType).alias(each.name)
                for each in inner_fields
            ]
            return F.when(value.isNotNull(), F.struct(*inside))
    return value


def _signed(rows: DataFrame, sign: int) -> DataFrame:
    return rows.withColumn(_SIGN, F.lit(sign))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _column(name: str) -> Column:
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")
