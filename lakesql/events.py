"""The events of a run, as values: what the console, the JSON lines, the metrics and the
lineage show.

Durations and times are in milliseconds. `at_ms` is the time of the event since the
epoch: by default, the time at which the value is made.
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
"""The health of a table."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run of these models, in this order, begins on this target.

    In a continuous run, the `ending` models read what is there and end, as they are not
    kept fresh. `seeds` are filled first.
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
    """A message that needs no action: jars are fetched, a table is taken over."""

    text: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class StreamEmpty:
    """A stream of a model has nothing to read. `why`: no file or topic matches, or
    there is no record.

    `others_have`: another stream of the model has something to read.
    """

    model: str
    stream: str
    why: str
    others_have: bool
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class FilesLeftOut:
    """Files that match the path of a stream are not read. `why`: they are hidden, or
    have changed after they were read."""

    model: str
    stream: str
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class FilesLate:
    """A listing of all files of a stream has found files that were not read in their
    turn: they came late, or their notification was lost. They are read now. `files` is
    their number; `why` names some."""

    model: str
    stream: str
    files: int
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class RowsWaiting:
    """A query has ended while its state has rows that are in no table yet: `groups` is
    the number of groups whose rows wait until the `watermark` has passed them, `joined`
    that of records that a join of streams keeps for matches to come."""

    model: str
    groups: int
    joined: int
    watermark: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ColumnsAbsent:
    """Changes of a feed lack columns that its stream has, which are NULL. `undeclared`
    are columns that the changes have and the stream does not, such as the new name of a
    renamed column."""

    model: str
    stream: str
    batch: int
    changes: int
    absent: tuple[str, ...]
    undeclared: tuple[str, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)

    @property
    def text(self) -> str:
        """A sentence on the missing columns, without anything that differs between
        batches."""
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
    """Columns are NULL because the first records of a run spell their names with other
    capitals. `columns` has each column with the name of the field."""

    model: str
    stream: str
    columns: tuple[tuple[str, str], ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)

    @property
    def text(self) -> str:
        """A sentence on the columns that are NULL, and on how to read them."""
        columns = ", ".join(column for column, _ in self.columns)
        fields = ", ".join(field for _, field in self.columns)
        way_on = _read_by_from(self.columns)
        return f"records have {fields}, and the stream declares {columns}: NULL stands there. {way_on}"


def _read_by_from(columns: Iterable[tuple[str, str]]) -> str:
    """The advice to give these columns `from`, as records spell them otherwise."""
    return f"Write {', '.join(f'`{column}: {{…, from: {field}}}`' for column, field in columns)} in its `columns`"


@dataclass(frozen=True, slots=True)
class StepApplied:
    """A step of the plan was applied: a table was created, a column added. `text`
    describes it in one line."""

    model: str
    text: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """A model's query has started."""

    model: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryPaused:
    """A model's query has ended between two batches because a rebuild asked for its
    lease. It starts again when the rebuild has swapped in its rows."""

    model: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model's query has failed with a transient error (`problems`) and is started
    again in `wait_ms`.

    `attempt` counts the retries since its last batch, or since it last waited for new
    records. `attempts` is their limit.
    """

    model: str
    attempt: int
    attempts: int
    wait_ms: int
    problems: tuple[Problem, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What a batch reads of one input: a stream from one position to another, as JSON,
    or a table from one snapshot to another.

    `before` or `after` is '' if it is not known: before the first batch, or if the
    stream was started at a time. `location` is where a table's files are, '' if the
    input is no table of the catalog.
    """

    name: str
    before: str
    after: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch that the table does not have yet begins: Spark has planned what it reads,
    or a refresh has found the changes of its inputs.

    `checkpoint` is the id of Spark's checkpoint, '' for a refresh. `table` is the table
    to write to and `location` where its files are, '' if it does not exist yet.
    `is_repeated`: Spark had planned the batch before this query began, so that an
    earlier attempt was broken off or failed.
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
    """The totals of a table in the summary of its current snapshot; None for those that
    it lacks.

    `rows` counts the rows in data files, `deletes` those of them that delete files
    delete.
    """

    data_files: int | None = None
    delete_files: int | None = None
    rows: int | None = None
    deletes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """A batch was committed to the table.

    `records` counts what arrived, `rows` the rows written (inserted or updated),
    `rejected` the dead letters (0 if an earlier attempt at the batch wrote them),
    `late` the records that a watermark dropped, `ignored` the messages and tombstones
    of a change feed. `remembered` counts the deletes, and other changes that made no
    row, that were added to the tombstones, and `older` the rows left out because the
    table has newer ones of their keys.
    `event_time` is the newest event, as ISO 8601 in UTC, or empty. `table` has the
    totals of the table after the commit, and `removed_delete_files` counts the delete
    files that it replaced or removed. If the data files of the commit are small
    (`lakesql status`), `small_files` is their average number in a partition that it
    wrote to, and `small_bytes` their size in all; else both are 0. `partitions` counts
    the partitions written to, null for a table without partitions. `violations` counts
    the rows that fail an expectation, by its name. `furthest` is the event that moved a
    watermark furthest, if there is one: its time, stream and record.
    `without_event_time` counts the records whose event time is NULL, of which a SELECT
    that groups or joins by it makes no row. `replaced` counts the values with bytes
    that are no UTF-8, which U+FFFD replaces, and `replaced_keys` those of keys.
    `refreshed` describes how a table made of others was refreshed, such as `in full`;
    '' for a batch of records. `location` is where the table's files are.
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
    """A batch was in the table already, according to the ledger: nothing was written.

    `checkpoint`, `reads`, `table` and `location` are as in `BatchStarted`; `snapshot`
    is the one that committed the batch.
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
    """A batch had no row to write, so that no commit was made. Its dead letters were
    written all the same.

    The counts are as in `BatchCommitted`. `unusable` describes what is wrong with the
    first record if all records are dead letters and the table has no row; else ''.
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
    `location`. `reasons` counts them by reason."""

    model: str
    batch: int
    table: str
    count: int
    reasons: tuple[tuple[str, int], ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)
    location: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The backlog of a partition of a topic, in offsets: records, and other entries
    with an offset, such as transaction markers."""

    topic: str
    partition: int
    records: int


@dataclass(frozen=True, slots=True)
class RescuedFields:
    """The number of records of a stream that have fields which its contract does not
    know, and the most frequent of these `fields`."""

    stream: str
    records: int
    fields: tuple[str, ...]

    def __add__(self, other: RescuedFields) -> RescuedFields:
        """The sum of both counts, with this one's fields first."""
        fields = tuple(dict.fromkeys((*self.fields, *other.fields)))[:NAMED_FIELDS]
        return RescuedFields(self.stream, self.records + other.records, fields)

    @property
    def text(self) -> str:
        """The count as a text, such as `3 records of stream orders have fields that its
        contract does not know: x, n.q`."""
        verb = "has" if self.records == 1 else "have"
        said = f"{count(self.records, 'record')} of stream {self.stream} {verb} fields that its contract does not know"
        return f"{said}: {', '.join(self.fields)}" if self.fields else said


NAMED_FIELDS = 5
"""The most unknown fields that are named."""


def add_rescued(*counts: Iterable[RescuedFields]) -> tuple[RescuedFields, ...]:
    """The counts, summed by stream."""
    by_stream: dict[str, RescuedFields] = {}
    for each in (each for several in counts for each in several):
        known = by_stream.get(each.stream)
        by_stream[each.stream] = each if known is None else known + each
    return tuple(by_stream.values())


@dataclass(frozen=True, slots=True)
class FieldsRescued:
    """Records of a batch have fields that their contract does not know, which are kept
    in the column `_rescued`."""

    model: str
    batch: int
    rescued: tuple[RescuedFields, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running query: its speed and its backlog. `left` is the backlog
    in `left_unit`: records of topics, files, or for Kinesis and Pulsar the time in
    milliseconds by which the last record read is older than the newest one.

    `lag` is the backlog of each partition, for a query that reads Kafka. `is_busy` is
    true while the query asks its sources for the first time, and from the beginning of
    a batch until its table is maintained; a query that ends by itself is busy until it
    ends.
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
    """A reason why a table is not healthy: the name of a figure, its value, and the
    limit that it exceeds. `text` is the same in words.

    Times are in milliseconds, sizes in bytes, as in the findings of `lakesql status
    --output json`.
    """

    figure: str
    word: Word
    value: float | None
    limit: float
    text: str


@dataclass(frozen=True, slots=True)
class HealthJudged:
    """The health of the table of a running model, by what the run knows of its commits:
    `well`, `watch` or `ill`.

    `findings` are the figures that are not well, the worst first: each with its
    `figure`, `word`, `value`, `limit` and `text`. `was` is the health before. Emitted
    when the health or a finding changes, and each minute while it is not `well`.
    """

    model: str
    health: Word
    was: Word
    findings: tuple[HealthReason, ...]
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class TableMaintained:
    """A maintenance procedure was run on a table of a model. `counts` is the
    procedure's result, under Iceberg's names."""

    model: str
    task: str
    table: str
    counts: tuple[tuple[str, int], ...]
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class MaintenanceFailed:
    """A maintenance procedure has failed. The table is unchanged, and the model
    continues; the procedure is tried again later."""

    model: str
    task: str
    table: str
    why: str
    duration_ms: int
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class ModelFinished:
    """A model is done, with `success`, with `error` (`problems` has the reasons), or
    `skipped` for the reason in `because`: it did not begin, or the run was ended before
    it had read all that was there.

    The counts are sums over the model's batches, as in `BatchCommitted`. `warnings` are
    about its streams that had nothing to read. `maintained` counts the maintenance
    procedures run on its tables. `rescued` counts the records that had fields which
    their contract does not know.
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
"""What was done for a seed: its table's rows were replaced, or were up to date."""


@dataclass(frozen=True, slots=True)
class SeedFinished:
    """A seed is done: with `success`, its table was `filled` with its rows in one
    commit, or was `unchanged`; with `error`, `problems` has the reasons.

    `because` is why it was filled, or when it was filled last. `rows` is the number of
    rows of its table now, null if unknown. `location` is where its files are.
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
        """The number of rows that were committed; 0 without a commit."""
        return (self.rows or 0) if self.done == "filled" else 0


@dataclass(frozen=True, slots=True)
class LineageLost:
    """Events of the run's lineage were not delivered to `target`. `events` is their
    number since the last such event, and `why` is the reason for the last one."""

    target: str
    events: int
    why: str
    at_ms: int = field(default_factory=now_ms, kw_only=True)


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run is over. `interrupted`: somebody ended it."""

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
"""A function that hands an event to the renderers. It is called from several
threads."""
