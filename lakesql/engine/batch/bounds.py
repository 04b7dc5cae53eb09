"""Which range of keys a MERGE looks at: the keys of its batch as literals, so that it
reads only the files that can hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.batch import KeyRange
from lakesql.compile.quote import EpochDay, Instant, Literal, identifier
from lakesql.engine.ledger.snapshots import JavaTable, measure, rewrites_files
from lakesql.engine.spark.gateway import java_class
from lakesql.ledger.entry import Snapshot
from lakesql.names import LEDGER_MODEL

FEW = 1000
"""Up to how many keys are listed in a condition: with a list, Spark drops all other
rows before the join, where a range over random keys would keep them all. More literals
than this cost more to plan than they save."""

LISTED = 200
"""A longer list of keys does not exclude files: Iceberg compares the values of a list
with the bounds of a file only if there are no more than these
(`InclusiveMetricsEvaluator`)."""

MATCHED = 2 * FEW
"""With at most this many matching rows of the table, and as few in the batch,
processing them takes next to no time: planning and starting each stage take longer."""

BULK = 10_000
"""Reading the keys of fewer rows than this costs next to nothing."""

MANIFESTS = 50
"""How many of a table's manifests are read at most, one after another, to find that no
MERGE is needed; a MERGE would read several in parallel."""

JOINED_ROWS = 300_000
JOINED_BYTES = 32 * 2**20
"""Up to how many rows of a table, and bytes of its files, one task joins them in the
time that planning more tasks takes."""

EVALUATED_ROWS = 20_000
"""Up to how many rows of a table interpreted expressions take less time than generating
code for them. Generated code cannot be reused, as the keys of a batch are literals in
it."""

ROWS_PER_KEY = 20
"""How many of a table's rows the MERGE reads in the time that it takes to read one key
of the batch before it."""


def bounds_pay(history: Iterable[Snapshot], model: str) -> bool:
    """Whether reading a batch's keys first, to bound its MERGE, costs less than a MERGE
    that reads the whole table.

    `history` goes from the table's head backwards. The batch is assumed to have as many
    rows as the model's last one wrote; the first batch is assumed to be small. If the
    last one rewrote data files, bounds always pay: such a MERGE reads its batch twice,
    and reading its keys caches the batch.
    """
    head = None
    for snapshot in history:
        head = head or snapshot
        if snapshot.summary.get(LEDGER_MODEL) == model:
            return (
                snapshot.rewrote
                or snapshot.added < BULK
                or head.total > ROWS_PER_KEY * snapshot.added
            )
    return True


def match_few(ranges: tuple[KeyRange, ...], keys: tuple[str, ...]) -> bool:
    """Whether at most `MATCHED` of a table's rows, which are unique by `keys`, can be
    within the bounds."""
    sizes = {bound.column: _size(bound) for bound in ranges}
    return math.prod(sizes.get(key, math.inf) for key in keys) <= MATCHED


def joins_few(
    table: JavaTable,
    ranges: tuple[KeyRange, ...],
    keys: tuple[str, ...],
    *,
    is_small: bool,
) -> bool:
    """Whether a MERGE joins few rows: few rows of the table, which are unique by
    `keys`, can match, or the table is small and so is the batch (`is_small`). False for
    copy-on-write, which joins all rows of the files that it rewrites."""
    if rewrites_files(table):
        return False
    if match_few(ranges, keys):
        return True
    if not is_small:
        return False
    count, size = measure(table)
    return count <= JOINED_ROWS and size <= JOINED_BYTES


def has_few(table: JavaTable) -> bool:
    """Whether all of a table can be read in less time than generating code for it
    takes."""
    count, _ = measure(table)
    return count <= EVALUATED_ROWS


def bounds_of_write(
    table: JavaTable, ranges: tuple[KeyRange, ...]
) -> tuple[KeyRange, ...]:
    """The bounds for a statement that changes rows. Empty for copy-on-write if they
    exclude too few files: all rows of the rewritten files are joined, and would have to
    be compared with the bounds."""
    return () if rewrites_files(table) and not spare_files(table, ranges) else ranges


def may_match(table: JavaTable, ranges: tuple[KeyRange, ...]) -> bool:
    """Whether a data file of the table, as it was loaded, may have a row within the
    bounds, by the statistics of the file.

    Deleted rows of a file count as existing. Files are looked at, the newest first,
    until one may have such a row, in at most `MANIFESTS` manifests; a table with more
    of them may match.
    """
    if table.currentSnapshot() is None:
        return False
    if not _can_be_looked_at(table, ranges):
        return True
    with closing(_find_files(table, ranges)) as found:
        return bool(found.iterator().hasNext())


def spare_files(table: JavaTable, ranges: tuple[KeyRange, ...]) -> bool:
    """Whether at least half of the table's data files have no row within the bounds, by
    their statistics."""
    if not _can_be_looked_at(table, ranges):
        return True
    with closing(_find_files(table, ranges)) as found:
        within = java_class(
            "org.apache.iceberg.relocated.com.google.common.collect.Iterables"
        ).size(found)
    return bool(
        2 * within
        <= int(table.currentSnapshot().summary().getOrDefault("total-data-files", "0"))
    )


def _can_be_looked_at(table: JavaTable, ranges: tuple[KeyRange, ...]) -> bool:
    head = table.currentSnapshot()
    return (
        bool(ranges)
        and head is not None
        and head.dataManifests(table.io()).size() <= MANIFESTS
    )


def _find_files(table: JavaTable, ranges: tuple[KeyRange, ...]) -> Any:
    """The data files that may have a row within the bounds, as an iterable that the
    caller closes."""
    expressions, find = (
        java_class(f"org.apache.iceberg.{name}")
        for name in ("expressions.Expressions", "FindFiles")
    )
    within = expressions.alwaysTrue()
    for bound in ranges:
        if bound.has_null:
            continue
        ends = {"greaterThanOrEqual": _low(bound), "lessThanOrEqual": _high(bound)}
        for compare, value in ((name, _as_iceberg(end)) for name, end in ends.items()):
            if value is not None:
                within = getattr(expressions, "and")(
                    within, getattr(expressions, compare)(bound.column, value)
                )
    head = table.currentSnapshot().snapshotId()
    return (
        getattr(find, "in")(table)
        .inSnapshot(head)
        .caseInsensitive()
        .withRecordsMatching(within)
        .collect()
    )


def _as_iceberg(end: Literal) -> int | str | None:
    """A literal as a value that Iceberg accepts for its type; None if Iceberg might
    read it as another value."""
    match end:
        case Instant(epoch_us):
            # py4j would pass a small number as Java's int, which is no timestamp
            return epoch_us if abs(epoch_us) >= 2**31 else None
        case EpochDay(epoch_days):
            return epoch_days
        case int() | str():
            return end
        case _:
            return None


def _low(bound: KeyRange) -> Literal:
    return bound.values[0] if bound.low is None else bound.low


def _high(bound: KeyRange) -> Literal:
    return bound.values[-1] if bound.high is None else bound.high


def _size(bound: KeyRange) -> float:
    """How many keys the bound of a column can hold."""
    match (bound.values, bound.low, bound.high):
        case ((), None, None):
            known = 0.0
        case ((), low, high):
            known = _steps_between(low, high) + 1
        case (values, _, _):
            known = len(values)
    return known + bound.has_null


def read_keys(
    newest: DataFrame,
    keys: tuple[str, ...],
    margins_ms: Mapping[str, int] | None = None,
) -> tuple[KeyRange, ...] | None:
    """The bounds of the batch's keys, which hold for every key; None if the batch has
    no row.

    A row outside of the bounds would be inserted a second time instead of updated, so a
    key whose type has no literal is left unbounded. The bound of a time in `margins_ms`
    is wider by that on both sides.
    """
    forms = {key: form for key in keys if (form := _form(_type_of(newest, key)))}
    values = [
        form.collected(F.col(identifier(key))).alias(f"k{i}")
        for i, (key, form) in enumerate(forms.items())
    ]
    narrow = newest.select(*values)
    # For a small batch, this is the only job. The limit stops neither the shuffle by
    # key early, nor the counting before it.
    few = narrow.limit(FEW + 1).collect()
    if not few:
        return None
    if len(few) <= FEW:
        ranges = [
            _listed_range(key, form, [row[i] for row in few])
            for i, (key, form) in enumerate(forms.items())
        ]
    else:
        extremes = [
            pick(name) for name in narrow.columns for pick in (F.min, F.max, _has_null)
        ]
        found = narrow.agg(*extremes).collect()[0] if extremes else ()
        ends = zip(forms.items(), found[0::3], found[1::3], found[2::3], strict=True)
        ranges = [_wide_range(key, form, *each) for (key, form), *each in ends]
    ranges = [
        _widened(bound, (margins_ms or {}).get(bound.column, 0)) for bound in ranges
    ]
    return tuple(bound for bound in ranges if not _is_damaged(bound))


def _has_null(name: str) -> Column:
    return F.coalesce(F.bool_or(F.col(name).isNull()), F.lit(False))


def _wide_range(key: str, form: _Form, low: Any, high: Any, has_null: bool) -> KeyRange:
    """The bound of a column whose keys are too many to be listed."""
    if low is None:
        return KeyRange(key, has_null=True)
    return KeyRange(
        key, low=form.literal(low), high=form.literal(high), has_null=has_null
    )


def _listed_range(key: str, form: _Form, found: Sequence[Any]) -> KeyRange:
    """The bound of a column, given its values in all rows."""
    known = sorted({form.literal(value) for value in found if value is not None})
    if not known:
        return KeyRange(key, has_null=True)
    return replace(_key_range(key, known), has_null=None in found)


def _key_range(key: str, known: list[Any]) -> KeyRange:
    """The bound of a column with these sorted keys: only its ends if at least every
    other possible key between them is there."""
    low, high = known[0], known[-1]
    if _steps_between(low, high) < 2 * len(known):
        return KeyRange(key, low=low, high=high)
    if len(known) > LISTED:
        return KeyRange(key, tuple(known), low, high)
    return KeyRange(key, tuple(known))


def _steps_between(low: Any, high: Any) -> float:
    """How many steps it is at most from one key to the other."""
    match low, high:
        case int(), int():
            return high - low
        case EpochDay(first), EpochDay(last):
            return last - first
    return math.inf


def _widened(bound: KeyRange, margin_ms: int) -> KeyRange:
    if not margin_ms or not (bound.values or bound.low is not None):
        return bound
    match (_low(bound), _high(bound)):
        case Instant(low), Instant(high):
            return replace(
                bound,
                values=(),
                low=Instant(low - margin_ms * 1000),
                high=Instant(high + margin_ms * 1000),
            )
        case EpochDay(low), EpochDay(high):
            days = math.ceil(margin_ms / _DAY_MS)
            return replace(
                bound, values=(), low=EpochDay(low - days), high=EpochDay(high + days)
            )
        case _:
            raise AssertionError("only times have margins")


_DAY_MS = 86_400_000


def _is_damaged(bound: KeyRange) -> bool:
    """Whether a text may have lost bytes on its way from Spark, whose strings can have
    bytes that are not UTF-8."""
    return any(
        isinstance(value, str) and "\ufffd" in value
        for value in (*bound.values, bound.low, bound.high)
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """How the values of a type are collected from Spark without loss, and turned into
    literals."""

    collected: Callable[[Column], Column]
    literal: Callable[[Any], Any]


def _form(kind: T.DataType) -> _Form | None:
    """The form of a type; None for types that Spark, Iceberg's file statistics and
    literals order differently.

    A timestamp is collected as a number: as a datetime it would be in the time zone of
    this process. Texts with a collation can be equal though they are written
    differently.
    """
    match kind:
        case T.StringType() if not kind.isUTF8BinaryCollation():
            return None
        case (
            T.ByteType()
            | T.ShortType()
            | T.IntegerType()
            | T.LongType()
            | T.DecimalType()
            | T.StringType()
        ):
            return _Form(lambda column: column, lambda value: value)
        case T.TimestampType():
            return _Form(F.unix_micros, Instant)
        case T.DateType():
            return _Form(F.unix_date, EpochDay)
        case _:
            return None


def _type_of(frame: DataFrame, column: str) -> T.DataType:
    return next(
        field.dataType
        for field in frame.schema.fields
        if field.name.lower() == column.lower()
    )
