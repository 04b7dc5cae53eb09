"""What happened, as values: the one list of events that the console, the JSON lines and
the metrics read.

Counts are of rows or records, durations and times in milliseconds; `at_ms` is the time
since the epoch: now, unless who makes the event says another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from lakesql.clock import now_ms
from lakesql.counts import count
from lakesql.errors import Problem

Status = Literal["success", "error", "skipped"]

Word = Literal["well", "watch", "ill"]
"""How well a table is."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins: these models, in this order, on this target.

    In a continuous run, those that are `ending` take what is there, and are not kept
    fresh. `seeds` are filled first.
    """

    target: str
    models: tuple[str, ...]
    continuous: bool
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    ending: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """Spark is up."""

    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that a person should know and need not act on: jars are fetched, a
    table is adopted."""

    text: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class StreamEmpty:
    """A stream of a model has nothing to read, and `why`: no file or topic matches, or
    there is no record.

    `others_have`: another stream of the model has something.
    """

    model: str
    stream: str
    why: str
    others_have: bool
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class FilesLeftOut:
    """Files that the path of a stream means are not read, and `why`: they are hidden,
    or have changed once they had been read."""

    model: str
    stream: str
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class FilesLate:
    """A listing of all files of a stream has found `files` that were not read when
    their turn was: they came late, or what told of them was lost. They are read now;
    `why` names some."""

    model: str
    stream: str
    files: int
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class RowsWaiting:
    """A query has ended, and its state has what is in no table yet: `groups` whose rows
    wait until the `watermark` has passed them, and records that a join of streams keeps
    for those that they may meet (`joined`)."""

    model: str
    groups: int
    joined: int
    watermark: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ColumnsAbsent:
    """Changes of a feed do not have columns that its stream has, and NULL stands there.
    `undeclared` are columns that they have and the stream does not: a column that was
    renamed is another one."""

    model: str
    stream: str
    batch: int
    changes: int
    absent: tuple[str, ...]
    undeclared: tuple[str, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)

    @property
    def text(self) -> str:
        """What is absent, in words that are the same for each batch."""
        have = (
            f"; they have {', '.join(self.undeclared)}, which it does not"
            if self.undeclared
            else ""
        )
        spelled = {name.lower(): name for name in self.undeclared}
        same = tuple(
            (name, spelled[name.lower()])
            for name in self.absent
            if name.lower() in spelled
        )
        way_on = f". {_read_by_from(same)}" if same else ""
        return f"changes lack {', '.join(self.absent)}, which the stream has, and NULL stands there{have}{way_on}"


@dataclass(frozen=True, slots=True)
class SpelledOtherwise:
    """Columns that are NULL in the first records of a run, which spell them in other
    capitals: pairs of the column and of the field's name."""

    model: str
    stream: str
    columns: tuple[tuple[str, str], ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)

    @property
    def text(self) -> str:
        """What is NULL, and how it is read."""
        columns = ", ".join(column for column, _ in self.columns)
        fields = ", ".join(field for _, field in self.columns)
        way_on = _read_by_from(self.columns)
        return f"records have {fields}, and the stream declares {columns}: NULL stands there. {way_on}"


def _read_by_from(columns: Iterable[tuple[str, str]]) -> str:
    """What to write where a column is spelled otherwise in the records."""
    return f"Write {', '.join(f'`{column}: {{…, from: {field}}}`' for column, field in columns)} in its `columns`"


@dataclass(frozen=True, slots=True)
class StepApplied:
    """A step of the plan was applied, such as a table created or a column added. `text`
    says it in one line."""

    model: str
    text: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """A model's query runs."""

    model: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryPaused:
    """A model's query has ended between two batches, as a rebuild has asked for its
    lease. It is started again once the rebuild has swapped in its rows."""

    model: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model's query has failed by something transient: `problems`. It is started
    again in `wait_ms`.

    `attempt` counts the retries since its last batch, and since it last waited for
    something new. Of these there are `attempts` at most.
    """

    model: str
    attempt: int
    attempts: int
    wait_ms: int
    problems: tuple[Problem, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What a batch takes in: a stream from one position to the next, as JSON, or a
    table from one snapshot to another.

    Empty where one is not known: before the first batch, or of a stream that was begun
    at a time. `location` is where a table's files are, '' of what is no table of the
    catalog.
    """

    name: str
    before: str
    after: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch that the table does not have begins: Spark has planned what it reads, or
    a refresh has found what it is made of.

    `checkpoint` is the id of Spark's checkpoint, '' of a refresh. `table` is written
    to, whose files are at `location`, '' where there is no table yet. `is_repeated`:
    Spark had planned it before this query began, so that an earlier try at it was
    broken off or has failed.
    """

    model: str
    batch: int
    checkpoint: str
    reads: tuple[ReadRange, ...]
    table: str
    location: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class TableTotals:
    """What a table holds, as the summary of its current snapshot says; None where it
    does not.

    `rows` are those in data files, of which delete files delete `deletes`.
    """

    data_files: int | None = None
    delete_files: int | None = None
    rows: int | None = None
    deletes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """A batch is in the table.

    `records` arrived, `rows` were written (inserted or updated), `rejected` are dead
    letters (none where an earlier try at the batch wrote them), `late` those that a
    watermark has dropped, `ignored` the messages and tombstones of a change feed.
    `remembered` are the deletes, and what else made no row, that were put into the
    tombstones. `older` are rows that were left out, as the table has newer ones of
    their keys.
    `event_time` is the newest event, ISO 8601 in UTC, or empty. `table` is what the
    table holds now, and `removed_delete_files` are those that this commit has replaced
    or removed. `small_files` are the data files of the commit, of `small_bytes`
    together, if they are small (`lakesql status`): in each of the `partitions` that it
    has written to, on average. None of a table without partitions. `violations` count
    the rows that fail an expectation, by its name. `furthest` is the event that has
    moved a watermark furthest, if there is one: its time, stream and record.
    `without_event_time` counts the records that a SELECT which groups or joins by the
    event time makes no row of, as theirs is NULL. `replaced` are the values with bytes
    that are no UTF-8, for which U+FFFD stands, `replaced_keys` those of keys.
    `refreshed` says how a table that is made of others was made right, `in full` for
    example; '' of a batch of records. `location` is where the table's files are.
    """

    model: str
    batch: int
    records: int
    rows: int
    rejected: int
    snapshot: int
    duration_ms: int
    event_time: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    late: int = 0
    ignored: int = 0
    remembered: int = 0
    older: int = 0
    table: TableTotals = TableTotals()
    removed_delete_files: int = 0
    small_files: float = 0
    small_bytes: int = 0
    partitions: int | None = None
    violations: tuple[tuple[str, int], ...] = ()
    furthest: str = ""
    without_event_time: int = 0
    replaced: int = 0
    replaced_keys: int = 0
    refreshed: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class BatchSkipped:
    """A batch was in the table already, as the ledger says: nothing was written.

    `checkpoint`, `reads`, `table` and `location` are as in `BatchStarted`; `snapshot`
    is the one that has brought it.
    """

    model: str
    batch: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    checkpoint: str = ""
    reads: tuple[ReadRange, ...] = ()
    table: str = ""
    location: str = ""
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class BatchEmpty:
    """A batch had no row to write: no commit was made. Its `rejected` records are dead
    letters all the same.

    `late` ones have been dropped by a watermark, and `ignored` are messages and
    tombstones of a change feed. `violations` count the rows that fail an expectation,
    by its name. `furthest` is the event that has moved a watermark furthest, if there
    is one. `without_event_time` counts the records that a SELECT which groups or joins
    by the event time makes no row of, as theirs is NULL. `replaced` are the values with
    bytes that are no UTF-8, `replaced_keys` those of keys. `unusable` says what is
    wrong with the first of its records where all of them are dead letters, and the
    table has no row.
    """

    model: str
    batch: int
    records: int
    rejected: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    late: int = 0
    ignored: int = 0
    violations: tuple[tuple[str, int], ...] = ()
    furthest: str = ""
    without_event_time: int = 0
    replaced: int = 0
    replaced_keys: int = 0
    unusable: str = ""


@dataclass(frozen=True, slots=True)
class RecordsRejected:
    """Records of a batch were written to the dead-letter table, whose files are at
    `location`. `reasons` counts them by condition."""

    model: str
    batch: int
    table: str
    count: int
    reasons: tuple[tuple[str, int], ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    location: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The backlog of a partition in offsets: records, and what else has an offset in
    Kafka."""

    topic: str
    partition: int
    records: int


@dataclass(frozen=True, slots=True)
class RescuedFields:
    """So many records of a stream have fields that its contract does not know; the most
    frequent `fields` are named."""

    stream: str
    records: int
    fields: tuple[str, ...]

    def __add__(self, other: RescuedFields) -> RescuedFields:
        """Both together, those of this one named first."""
        fields = tuple(dict.fromkeys((*self.fields, *other.fields)))[:NAMED_FIELDS]
        return RescuedFields(self.stream, self.records + other.records, fields)

    @property
    def text(self) -> str:
        """Such as `3 records of stream orders have fields that its contract does not
        know: x, n.q`."""
        verb = "has" if self.records == 1 else "have"
        said = f"{count(self.records, 'record')} of stream {self.stream} {verb} fields that its contract does not know"
        return f"{said}: {', '.join(self.fields)}" if self.fields else said


NAMED_FIELDS = 5
"""So many unknown fields are named."""


def add_rescued(*counts: Iterable[RescuedFields]) -> tuple[RescuedFields, ...]:
    """What each of the counts says of a stream, together."""
    by_stream: dict[str, RescuedFields] = {}
    for each in (each for several in counts for each in several):
        known = by_stream.get(each.stream)
        by_stream[each.stream] = each if known is None else known + each
    return tuple(by_stream.values())


@dataclass(frozen=True, slots=True)
class FieldsRescued:
    """Records of a batch have fields that their contract does not know: `_rescued` has
    these."""

    model: str
    batch: int
    rescued: tuple[RescuedFields, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class Progress:
    """How a running query stands: its speed, and its backlog, `left` (records of
    topics, or files; of Kinesis and Pulsar the milliseconds, `ms`, by which what was
    read is older than the newest there is).

    `lag` is the backlog of each partition of its topics, for a query that reads Kafka.
    `is_busy` while it asks its sources for the first time, and from a batch's begin
    until its table is maintained; a query that ends by itself is so until then.
    """

    model: str
    records_per_second: float
    left: int | None
    left_unit: Literal["records", "files", "ms"]
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    lag: tuple[PartitionLag, ...] = ()
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class HealthReason:
    """Why a table is not well: a figure of it, what that is, and the limit that it
    exceeds. `text` says so in words.

    Times are in milliseconds, sizes in bytes: the findings of `lakesql status --output
    json`.
    """

    figure: str
    word: Word
    value: float | None
    limit: float
    text: str


@dataclass(frozen=True, slots=True)
class HealthJudged:
    """How well the table of a running model is, by what the run knows of its commits:
    `well`, `watch` or `ill`.

    `findings` are the figures that are not well, the worst first: each with its
    `figure`, `word`, `value`, `limit` and `text`. Told where `health`, which `was`
    another before, or a finding changes, and each minute while it is not well.
    """

    model: str
    health: Word
    was: Word
    findings: tuple[HealthReason, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class TableMaintained:
    """A procedure was run on a table of a model. `counts` are what it says of itself,
    by its own names."""

    model: str
    task: str
    table: str
    counts: tuple[tuple[str, int], ...]
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class MaintenanceFailed:
    """A procedure has failed. The table is as it was, and the model goes on; it is
    tried again later."""

    model: str
    task: str
    table: str
    why: str
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ModelFinished:
    """A model is done: with `success`, with `error` (its problems say why), or
    `skipped` for what `because` says: it has not begun, or the run was ended before it
    had read all that was there.

    `warnings` are of its streams that had nothing to read. `maintained` are the
    procedures that were run on its tables. `violations` count the rows that failed an
    expectation, by its name. `replaced` are the values with bytes that are no UTF-8,
    for which U+FFFD stands, and `replaced_keys` those of them that are of keys.
    `rescued` are the records that had fields which their contract does not know.
    """

    model: str
    status: Status
    batches: int
    records: int
    rows: int
    rejected: int
    skipped_batches: int
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    problems: tuple[Problem, ...] = ()
    because: str = ""
    late: int = 0
    warnings: tuple[str, ...] = ()
    ignored: int = 0
    remembered: int = 0
    older: int = 0
    maintained: int = 0
    violations: tuple[tuple[str, int], ...] = ()
    replaced: int = 0
    replaced_keys: int = 0
    rescued: tuple[RescuedFields, ...] = ()


SeedDone = Literal["filled", "unchanged"]
"""What was done for a seed: its rows were exchanged, or its table has them already."""


@dataclass(frozen=True, slots=True)
class SeedFinished:
    """A seed is done: its table has been `filled` with its rows in one commit, or was
    `unchanged`; or with `error`, of which its problems say why.

    `because` is why it was filled, or when that was, and `written` are the rows of the
    commit. Its table has `rows` now; None where that is not known. `location` is where
    its files are.
    """

    seed: str
    status: Literal["success", "error"]
    done: SeedDone | None
    table: str
    rows: int | None
    because: str
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    problems: tuple[Problem, ...] = ()
    location: str = ""

    @property
    def written(self) -> int:
        """How many rows the commit has; none without one."""
        return (self.rows or 0) if self.done == "filled" else 0


@dataclass(frozen=True, slots=True)
class LineageLost:
    """So many more events of the run's lineage were not delivered to `target`, and
    `why` the last of them was not."""

    target: str
    events: int
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run is over. `interrupted` where somebody ended it."""

    duration_ms: int
    interrupted: bool
    at_ms: int = field(default_factory=now_ms, kw_only=True)


Event = (
    RunStarted
    | SessionStarted
    | Noted
    | StreamEmpty
    | FilesLeftOut
    | FilesLate
    | RowsWaiting
    | ColumnsAbsent
    | SpelledOtherwise
    | StepApplied
    | QueryStarted
    | QueryPaused
    | Retrying
    | BatchStarted
    | BatchCommitted
    | BatchSkipped
    | BatchEmpty
    | RecordsRejected
    | FieldsRescued
    | Progress
    | HealthJudged
    | TableMaintained
    | MaintenanceFailed
    | ModelFinished
    | SeedFinished
    | LineageLost
    | RunFinished
)

Emit = Callable[[Event], None]
"""Takes an event to whoever shows it. Called from several threads."""
