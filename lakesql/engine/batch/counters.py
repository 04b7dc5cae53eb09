"""What is counted of a batch's records and rows: while another statement reads them,
without a pass of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import add
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from lakesql.compile.checks import Check, is_dead
from lakesql.compile.log_positions import is_read, is_unplaced, own_place
from lakesql.compile.quote import event_time, identifier, text
from lakesql.compile.select import Select
from lakesql.engine.records.folded import any_of, fold
from lakesql.engine.records.unknown_fields import rescued_counts, split_names
from lakesql.events import RescuedFields
from lakesql.model.writing import TASK_RECORDS
from lakesql.names import (
    CHANGE,
    DELETE,
    FAILED,
    HALF,
    IGNORED,
    NEW_FIELDS,
    RAW,
    RECORD,
    REJECTED,
    RESCUED,
    SOURCE_TABLE,
    TOMBSTONE,
    UNKNOWN_TABLE,
    UNSENT,
)
from lakesql.stream.stream import Stream

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What was counted while a batch was read.

    `records` arrived; `bad` of them were rejected by parsing. Of the SELECT's rows,
    `set_aside` fail an expectation that makes dead letters; of the others, `keyless`
    have NULL in a key or in `sequence_by`, and the rest are `usable`. `violations` has
    how many rows fail each expectation, in the order of the expectations. `event_us` is
    the newest event among the good records, in microseconds since the epoch: a datetime
    would be in some time zone. `rescued` are the good records with fields that their
    contract does not have.

    Of a change feed, `truncates` are the changes that empty its table, `bad_truncates`
    those of them that were rejected, `reads` the rows read by a snapshot of the
    database, `unplaced` those of them without a position in the database's log,
    `unsent` the changes that lack values which the table has, and `moves` the records
    that belong to key changes. `reshaped` are the changes with other columns than their
    stream, and `ignored` the records that are no changes: messages, and tombstones that
    delete nothing. `tombstones` have no value, and delete the row of their key;
    `valueless` are records of a feed without a value, which may follow a delete.
    `unknown_table` is one of the routing values that no known table has.

    Of a model that is ordered by the log, `place` is the greatest log position of a
    change, as numbers with commas between, `place_us` the time of its record, and
    `first_us` that of the first change's record, in microseconds; `read_place` and
    `first_read_us` are the same for rows that a snapshot has read, if their position is
    known. `tables` has the first and the last name of the database tables that the
    changes are of, for a model that may read one only.
    """

    records: int
    bad: int
    keyless: int
    usable: int
    event_us: int | None
    truncates: int = 0
    bad_truncates: int = 0
    reads: int = 0
    unplaced: int = 0
    place: str = ""
    place_us: int | None = None
    first_us: int | None = None
    read_place: str = ""
    first_read_us: int | None = None
    tables: tuple[str, ...] = ()
    unknown_table: str | None = None
    unsent: int = 0
    moves: int = 0
    reshaped: int = 0
    ignored: int = 0
    tombstones: int = 0
    valueless: int = 0
    set_aside: int = 0
    violations: tuple[tuple[str, int], ...] = ()
    rescued: tuple[RescuedFields, ...] = ()

    @property
    def rejected(self) -> int:
        """How many records and rows become dead letters."""
        return self.bad + self.keyless + self.set_aside

    @property
    def are_of_one_task(self) -> bool:
        """Whether the rows are no more than one task takes."""
        return self.usable <= TASK_RECORDS

    @property
    def event_time(self) -> str:
        """The newest event, as ISO 8601 in UTC; '' if there is none, or it is outside
        of the years of ISO 8601."""
        try:
            return (
                ""
                if self.event_us is None
                else (_EPOCH + timedelta(microseconds=self.event_us)).isoformat()
            )
        except OverflowError:
            return ""


@dataclass(frozen=True, slots=True)
class ReplacedText:
    """How many values of the written rows had text that is not UTF-8; `in_keys` are
    those in keys and in `sequence_by`."""

    values: int = 0
    in_keys: int = 0


class BatchCounters:
    """Counts that come with the first action over the watched frames, without a pass of
    their own."""

    def __init__(self) -> None:
        self._records: list[_Watched] = []
        self._rescued: list[tuple[str, _Watched]] = []
        self._rows: list[_Watched] = []
        self._checked: list[_Watched] = []
        self._texts: list[_Watched] = []
        self._touched: list[_Watched] = []
        self._checks: tuple[Check, ...] = ()
        self.followers = 0  # tombstones that have turned out to follow a delete

    def stream(
        self, records: DataFrame, stream: Stream, select: Select, has_changes: bool
    ) -> DataFrame:
        """Parsed records, watched. `has_changes`: they are changes of a feed that rows
        are made of, and are counted as such."""
        counted = _watch(
            self._records,
            records,
            _record_counts(
                _event_time(stream, select, RAW in records.columns),
                has_changes,
                bool(select.kept),
                select.has_moves,
                IGNORED in records.columns,
                NEW_FIELDS in records.columns,
                UNKNOWN_TABLE in records.columns,
                TOMBSTONE in records.columns,
                select.orders_reads,
                SOURCE_TABLE in records.columns,
                stream.rescues,
            ),
        )
        if stream.rescues:
            self._rescued.append((stream.name, self._records[-1]))
        return counted

    def stateful_rows(self, rows: DataFrame) -> DataFrame:
        """Rows of a stateful SELECT, watched: each counts as a record of the batch."""
        return _watch(self._records, rows, _stateful_counts())

    def rows(
        self, rows: DataFrame, not_null: tuple[str, ...], checks: tuple[Check, ...] = ()
    ) -> DataFrame:
        """`rows`, watched for NULL in one of the `not_null` columns; with `checks`,
        also for rows that fail them."""
        self._checks = checks or self._checks
        return _watch(
            self._rows,
            rows,
            (*_row_counts(not_null, is_dead(checks)), *_violations(checks)),
        )

    def checked(self, rows: DataFrame, checks: tuple[Check, ...]) -> DataFrame:
        """The rows of a mirror, watched for those that fail `checks`. If called again,
        only the last rows count."""
        self._checked, self._checks = [], checks
        return _watch(self._checked, rows, _violations(checks))

    def texts(
        self, rows: DataFrame, invalid: Sequence[Column], in_keys: Sequence[Column]
    ) -> DataFrame:
        """`rows`, watched for values that have text which is not UTF-8, as the columns
        `invalid` and `in_keys` tell."""
        counted = (_sum_of(invalid).alias("values"), _sum_of(in_keys).alias("in_keys"))
        return _watch(self._texts, rows, counted)

    def touched(self, rows: DataFrame) -> DataFrame:
        """The rows of a mirror's batch, watched for those that are not deletes. If
        called again, only the last rows count."""
        self._touched = []
        return _watch(self._touched, rows, (count_of(~F.col(DELETE)).alias("kept"),))

    def count_older(self, written: int) -> int:
        """How many rows of a mirror's batch were not among the `written` ones, because
        the table has newer ones. Waits until a statement has written them."""
        return (
            max(0, sum(touched.read()["kept"] for touched in self._touched) - written)
            if self._touched
            else 0
        )

    def read(self) -> BatchCounts:
        """The counts. Waits until a statement has read all watched frames."""
        seen = [watched.read() for watched in self._records]
        rows = [watched.read() for watched in self._rows]
        checked = [*rows, *(watched.read() for watched in self._checked)]
        violations = (
            (check.name, sum(row.get(_violation(index)) or 0 for row in checked))
            for index, check in enumerate(self._checks)
        )
        times = [row["event_us"] for row in seen if row["event_us"] is not None]
        return BatchCounts(
            records=sum(row["records"] for row in seen),
            bad=sum(row["bad"] for row in seen),
            keyless=sum(row["keyless"] for row in rows),
            usable=sum(row["rows"] - row["keyless"] for row in rows),
            set_aside=sum(row["set_aside"] for row in rows),
            violations=tuple((name, number) for name, number in violations if number),
            event_us=max(times) if times else None,
            truncates=sum(row["truncates"] for row in seen),
            bad_truncates=sum(row["bad_truncates"] for row in seen),
            reads=sum(row["reads"] for row in seen),
            unplaced=sum(row["unplaced"] for row in seen),
            place=next((row["place"] for row in seen if row["place"]), ""),
            place_us=next((row["place_us"] for row in seen if row["place"]), None),
            first_us=next((row["first_us"] for row in seen if row["place"]), None),
            read_place=next(
                (row["read_place"] for row in seen if row["read_place"]), ""
            ),
            first_read_us=next(
                (row["first_read_us"] for row in seen if row["read_place"]), None
            ),
            tables=tuple(
                row[name]
                for row in seen
                for name in ("first_table", "last_table")
                if row[name]
            ),
            unknown_table=next(
                (
                    row["unknown_table"]
                    for row in seen
                    if row["unknown_table"] is not None
                ),
                None,
            ),
            unsent=sum(row["unsent"] for row in seen),
            moves=sum(row["moves"] for row in seen),
            reshaped=sum(row["reshaped"] for row in seen),
            ignored=sum(row["ignored"] for row in seen) + self.followers,
            valueless=sum(row["valueless"] for row in seen),
            tombstones=sum(row["tombstones"] for row in seen),
            rescued=tuple(
                rescued
                for stream, watched in self._rescued
                for rescued in rescued_of(stream, watched.read())
            ),
        )

    def read_replaced(self) -> ReplacedText:
        """How many values had invalid text. Waits until a statement has written the
        rows, which is after all other counts."""
        texts = [watched.read() for watched in self._texts]
        return ReplacedText(
            sum(row["values"] for row in texts), sum(row["in_keys"] for row in texts)
        )


@dataclass(frozen=True, slots=True)
class _Watched:
    """A frame, the columns that are counted of it, and the observation that brings the
    counts."""

    frame: DataFrame
    counted: tuple[Column, ...]
    observation: Observation

    def read(self) -> Mapping[str, Any]:
        try:
            return self.observation.get
        # the optimizer found the frame to be empty, and removed it from the plan
        except Py4JError:
            return self.frame.agg(*self.counted).collect()[0].asDict()


def count_of(condition: Column) -> Column:
    """The number of rows for which the condition holds. For `count_if` Spark would copy
    each row together with the condition."""
    return F.count(F.when(condition, 1))


def _sum_of(conditions: Sequence[Column]) -> Column:
    """The number of times that the conditions hold, summed over all of them."""
    return fold(add, map(count_of, conditions), F.count(F.lit(None)))


# The counted columns are the same in every batch and are cached: each part of an
# expression is a call to Java.


@cache
def _record_counts(
    event_time: str,
    is_mirror: bool,
    keeps: bool,
    has_moves: bool,
    may_ignore: bool,
    is_feed: bool,
    is_routed: bool,
    deletes: bool,
    orders_reads: bool,
    has_one_table: bool,
    rescues: bool,
) -> tuple[Column, ...]:
    is_bad = F.col(REJECTED).isNotNull()
    newest = F.max(F.when(~is_bad, F.unix_micros(F.expr(event_time))))
    none = F.count(F.lit(None))
    is_truncate = F.col(f"{CHANGE}.op") == "t"
    is_valueless = ~is_bad & ~F.col(IGNORED) & F.col(f"{RAW}.value").isNull()
    unsent = count_of(~is_bad & (F.size(UNSENT) > 0)) if keeps else none
    place = f"{CHANGE}.position"
    reads, unplaced = (
        count_of(~is_bad & F.expr(holds)) if orders_reads else none
        for holds in (is_read(place), is_unplaced(place))
    )
    return (
        F.count("*").alias("records"),
        count_of(is_bad).alias("bad"),
        newest.alias("event_us"),
        (count_of(is_truncate) if is_mirror else none).alias("truncates"),
        (count_of(is_bad & is_truncate) if is_mirror else none).alias("bad_truncates"),
        reads.alias("reads"),
        unplaced.alias("unplaced"),
        *(_place_counts(~is_bad) if orders_reads else _no_place()),
        *(_table_names(~is_bad & ~F.col(IGNORED)) if has_one_table else _no_tables()),
        unsent.alias("unsent"),
        (count_of(~is_bad & F.col(HALF).isNotNull()) if has_moves else none).alias(
            "moves"
        ),
        (count_of(F.col(NEW_FIELDS).isNotNull()) if is_feed else none).alias(
            "reshaped"
        ),
        (count_of(F.col(IGNORED)) if may_ignore else none).alias("ignored"),
        (
            F.max(UNKNOWN_TABLE) if is_routed else F.max(F.lit(None).cast("string"))
        ).alias("unknown_table"),
        (count_of(F.col(TOMBSTONE).isNotNull()) if deletes else none).alias(
            "tombstones"
        ),
        (count_of(is_valueless) if is_mirror and is_feed else none).alias("valueless"),
        *(count_rescued() if rescues else ()),
    )


def count_rescued() -> tuple[Column, ...]:
    """The counts over parsed records of a stream that keeps fields which its contract
    does not have."""
    records, names = rescued_counts(F.when(F.col(REJECTED).isNull(), F.col(RESCUED)))
    return records.alias("rescued"), names.alias("rescued_fields")


def rescued_of(stream: str, row: Mapping[str, Any]) -> Sequence[RescuedFields]:
    """The result of `count_rescued` for a stream; empty if no record has such
    fields."""
    if not row["rescued"]:
        return ()
    return (RescuedFields(stream, row["rescued"], split_names(row["rescued_fields"])),)


def count_rescued_in(
    streams: Iterable[tuple[Stream, DataFrame]],
) -> tuple[RescuedFields, ...]:
    """The counts of such fields in the parsed records of several streams, which are
    read for it if a stream keeps them."""
    rescuing = ((stream, parsed) for stream, parsed in streams if stream.rescues)
    rows = (
        (stream.name, parsed.agg(*count_rescued()).collect()[0].asDict())
        for stream, parsed in rescuing
    )
    return tuple(rescued for name, row in rows for rescued in rescued_of(name, row))


def _place_counts(is_good: Column) -> tuple[Column, ...]:
    """The greatest log position of a change, the time of its record, and that of the
    first change's record; and the greatest position and first time of rows that a
    snapshot has read."""
    place, read_us = F.col(f"{CHANGE}.position"), F.unix_micros(f"{RAW}.timestamp")
    changed = F.when(is_good & ~F.expr(is_read(f"{CHANGE}.position")), place)
    is_placed = F.expr(
        f"{is_read(f'{CHANGE}.position')} AND NOT {is_unplaced(f'{CHANGE}.position')}"
    )
    read = F.when(is_good & is_placed, F.expr(own_place(f"{CHANGE}.position")))
    return (
        F.array_join(F.max(changed), ",").alias("place"),
        F.max_by(read_us, changed).alias("place_us"),
        F.min(F.when(changed.isNotNull(), read_us)).alias("first_us"),
        F.array_join(F.max(read), ",").alias("read_place"),
        F.min(F.when(is_good & is_placed, read_us)).alias("first_read_us"),
    )


def _no_place() -> tuple[Column, ...]:
    none = F.lit(None).cast("bigint")
    texts = (F.max(none.cast("string")).alias(name) for name in ("place", "read_place"))
    times = (
        F.max(none).alias(name) for name in ("place_us", "first_us", "first_read_us")
    )
    return *texts, *times


def _table_names(is_change: Column) -> tuple[Column, ...]:
    """The first and the last name of the tables that the changes are of: the same name
    if they are of one table."""
    table = F.when(is_change, F.col(SOURCE_TABLE))
    return F.min(table).alias("first_table"), F.max(table).alias("last_table")


def _no_tables() -> tuple[Column, ...]:
    none = F.max(F.lit(None).cast("string"))
    return none.alias("first_table"), none.alias("last_table")


@cache
def _stateful_counts() -> tuple[Column, ...]:
    none = F.max(F.lit(None).cast("bigint"))
    none_of = count_of(F.lit(False))
    names = (
        "bad",
        "truncates",
        "bad_truncates",
        "reads",
        "unplaced",
        "unsent",
        "moves",
        "reshaped",
        "ignored",
        "tombstones",
        "valueless",
    )
    others = (none_of.alias(name) for name in names)
    unknown = F.max(F.lit(None).cast("string")).alias("unknown_table")
    return (
        F.count("*").alias("records"),
        none.alias("event_us"),
        *others,
        unknown,
        *_no_place(),
        *_no_tables(),
    )


@cache
def _row_counts(not_null: tuple[str, ...], dead: str) -> tuple[Column, ...]:
    is_keyless = any_of(F.col(identifier(name)).isNull() for name in not_null)
    if not dead:
        return (
            F.count("*").alias("rows"),
            count_of(is_keyless).alias("keyless"),
            F.count(F.lit(None)).alias("set_aside"),
        )
    is_dead = F.expr(dead)
    return (
        count_of(~is_dead).alias("rows"),
        count_of(is_keyless & ~is_dead).alias("keyless"),
        count_of(is_dead).alias("set_aside"),
    )


@cache
def _violations(checks: tuple[Check, ...]) -> tuple[Column, ...]:
    return tuple(
        count_of(F.expr(f"array_contains({FAILED}, {text(check.name)})")).alias(
            _violation(index)
        )
        for index, check in enumerate(checks)
    )


def _violation(index: int) -> str:
    return f"violation_{index}"


def _watch(
    watched: list[_Watched], frame: DataFrame, counted: tuple[Column, ...]
) -> DataFrame:
    watched.append(_Watched(frame, counted, Observation()))
    return frame.observe(watched[-1].observation, *counted)


def _event_time(stream: Stream, select: Select, has_raw: bool) -> str:
    """The SQL for the time of an event: the watermark's column, otherwise the record's
    own time if it is available."""
    if stream.watermark:
        return f"CAST({event_time(stream)} AS timestamp)"
    if "timestamp" in select.query.record_fields:
        return f"{RECORD}.timestamp"
    return f"{RAW}.timestamp" if has_raw else "CAST(NULL AS timestamp)"
