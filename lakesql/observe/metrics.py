"""The metrics in Prometheus's text format: their names and values, for tables (`lakesql
status`) and for a run in progress (`--metrics-port`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Event,
    LineageLost,
    MaintenanceFailed,
    Noted,
    Progress,
    QueryPaused,
    Retrying,
    RunFinished,
    RunStarted,
    SeedFinished,
    SessionStarted,
    TableMaintained,
)
from lakesql.model.config import AvailableNow, Every, OnChange, Trigger
from lakesql.model.table_name import TableName
from lakesql.observe.tally import ModelTally, RunTally
from lakesql.observe.text import duration
from lakesql.plan.health import WORDS, Figures, worst
from lakesql.plan.table_status import Known, MissingTable, TableStatus, Unknown

LABELS = ("catalog", "namespace", "table", "model")
"""The labels of every metric of a table or a model."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type of Prometheus's text format."""

MetricFamily = GaugeMetricFamily | CounterMetricFamily | SummaryMetricFamily


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a table, a model or a run: its name, which includes the unit, and its
    meaning. Names of counters end in `_total`."""

    name: str
    doc: str
    kind: Literal["gauge", "counter", "summary"] = "gauge"


LAST_COMMIT = Metric(
    "lakesql_table_last_commit_timestamp_seconds",
    "When the table's last commit was made.",
)
LAST_EVENT = Metric(
    "lakesql_table_last_event_timestamp_seconds",
    "The newest event in the table, where the last commit's is known.",
)

TABLE_METRICS: tuple[tuple[Metric, str], ...] = (
    (
        Metric(
            "lakesql_table_latency_seconds",
            "From the last commit's newest event to the commit.",
        ),
        "latency_ms",
    ),
    (
        Metric(
            "lakesql_table_latency_p95_seconds", "Its 95th percentile over 100 commits."
        ),
        "latency_p95_ms",
    ),
    (
        Metric(
            "lakesql_table_backlog",
            "Records, or files, that the source still had at the last commit.",
        ),
        "backlog_items",
    ),
    (
        Metric(
            "lakesql_table_backlog_seconds",
            "How far the source was ahead at the last commit, if it counts none.",
        ),
        "backlog_ms",
    ),
    (
        Metric(
            "lakesql_table_commits_last_hour",
            "Commits that brought rows, in the last hour.",
        ),
        "commits_last_hour",
    ),
    (
        Metric("lakesql_table_rows_last_hour", "Rows that these have written."),
        "rows_last_hour",
    ),
    (
        Metric("lakesql_table_rows", "Rows in data files, deleted ones among them."),
        "rows",
    ),
    (
        Metric("lakesql_table_data_files", "Data files of the current snapshot."),
        "data_files",
    ),
    (Metric("lakesql_table_data_bytes", "Bytes of these data files."), "data_bytes"),
    (
        Metric("lakesql_table_file_bytes_average", "Bytes of a data file on average."),
        "file_bytes_average",
    ),
    (
        Metric(
            "lakesql_table_file_bytes_p10", "Bytes that a tenth of these do not exceed."
        ),
        "file_bytes_p10",
    ),
    (
        Metric("lakesql_table_file_bytes_p90", "Bytes that nine tenths do not exceed."),
        "file_bytes_p90",
    ),
    (
        Metric(
            "lakesql_table_small_files",
            "Data files below 75 % of the table's target size.",
        ),
        "small_files",
    ),
    (
        Metric(
            "lakesql_table_small_file_ratio", "Share of the data files that are small."
        ),
        "small_file_ratio",
    ),
    (
        Metric(
            "lakesql_table_average_small_files",
            "Small data files of a partition on average.",
        ),
        "average_small_files",
    ),
    (
        Metric("lakesql_table_delete_files", "Delete files of the current snapshot."),
        "delete_files",
    ),
    (
        Metric(
            "lakesql_table_delete_ratio",
            "Share of the rows in data files that are deleted.",
        ),
        "delete_ratio",
    ),
    (Metric("lakesql_table_snapshots", "Snapshots that the table has."), "snapshots"),
    (
        Metric(
            "lakesql_table_metadata_bytes",
            "Bytes that a reader reads to know the files.",
        ),
        "metadata_bytes",
    ),
    (
        Metric(
            "lakesql_table_compaction_lag_seconds",
            "Age of the oldest data not compacted.",
        ),
        "compaction_lag_ms",
    ),
    (
        Metric(
            "lakesql_table_uncompacted_bytes",
            "Bytes of all data that is not compacted.",
        ),
        "uncompacted_bytes",
    ),
    (
        Metric(
            "lakesql_table_dead_letters_last_hour", "Dead letters of the last hour."
        ),
        "dead_letters_last_hour",
    ),
    (
        Metric(
            "lakesql_table_late_events_last_hour",
            "Events that a watermark has dropped.",
        ),
        "late_last_hour",
    ),
)
"""The metrics of each table in `lakesql status --output prometheus`, beside
`TABLE_STATES`, each with the field of `Figures` that has its value. Milliseconds are
shown in seconds."""

STATUS_TIME = Metric(
    "lakesql_status_timestamp_seconds",
    "When the table was looked at, whatever was found.",
)
TABLE_EXISTS = Metric(
    "lakesql_table_exists",
    "1 if the catalog has the table, 0 if not; no value if it does not answer.",
)
TABLE_READABLE = Metric(
    "lakesql_table_readable",
    "1 if the table could be read, 0 if it, or its catalog, could not; no value if it does not exist.",
)
TABLE_HEALTH = Metric("lakesql_table_health", "0 well, 1 watch, 2 ill.")

TABLE_STATES = (
    STATUS_TIME,
    TABLE_EXISTS,
    TABLE_READABLE,
    TABLE_HEALTH,
    LAST_COMMIT,
    LAST_EVENT,
)
"""The metrics of a table that are no field of `Figures`."""


BATCHES = Metric("lakesql_batches_total", "Batches that were committed.", "counter")
RECORDS = Metric("lakesql_records_total", "Records that arrived in batches.", "counter")
ROWS = Metric("lakesql_rows_total", "Rows that were written.", "counter")
DEAD_LETTERS = Metric(
    "lakesql_dead_letters_total", "Dead letters that were written.", "counter"
)
LATE_EVENTS = Metric(
    "lakesql_late_events_total", "Events that a watermark has dropped.", "counter"
)
VIOLATIONS = Metric(
    "lakesql_expectation_failures_total",
    "Rows that failed an expectation, once for each that they failed.",
    "counter",
)
RETRIES = Metric(
    "lakesql_retries_total", "Retries after transient failures.", "counter"
)
CONSECUTIVE_RETRIES = Metric(
    "lakesql_model_consecutive_retries",
    "Retries since the model's last batch, and since it last waited for something new.",
)
NO_PROGRESS = Metric(
    "lakesql_model_no_progress_seconds",
    "How long the model has had something to do, its trigger was due, and it has made no progress; or it has not been "
    "heard of.",
)
BATCH_DURATION = Metric(
    "lakesql_batch_duration_seconds", "What batches took, to the commit.", "summary"
)
BACKLOG_RECORDS = Metric(
    "lakesql_backlog_records",
    "Records that are left to read, of a model that reads Kafka.",
)
BACKLOG_FILES = Metric(
    "lakesql_backlog_files", "Files that are left to read, of one that reads none."
)
BACKLOG_SECONDS = Metric(
    "lakesql_backlog_seconds",
    "How far a model is behind the newest record, that reads Kinesis or Pulsar.",
)
MODEL_RUNNING = Metric("lakesql_model_running", "1 while the model's query runs.")
MODEL_FAILED = Metric(
    "lakesql_model_failed", "1 from when the model has failed for good."
)
MODEL_HEALTH = Metric(
    "lakesql_model_health", "0 well, 1 watch, 2 ill, by what the run knows of it."
)

LINEAGE_LOST = Metric(
    "lakesql_lineage_events_lost_total",
    "Events of the run's lineage that were not delivered. It has no labels: it is of the run as a whole.",
    "counter",
)

RUN_METRICS = (
    *(
        BATCHES,
        RECORDS,
        ROWS,
        DEAD_LETTERS,
        LATE_EVENTS,
        VIOLATIONS,
        RETRIES,
        BATCH_DURATION,
    ),
    *(
        BACKLOG_RECORDS,
        BACKLOG_FILES,
        BACKLOG_SECONDS,
        MODEL_RUNNING,
        MODEL_FAILED,
        MODEL_HEALTH,
    ),
    *(CONSECUTIVE_RETRIES, NO_PROGRESS, LAST_COMMIT, LAST_EVENT, LINEAGE_LOST),
)
"""The metrics of a run with `--metrics-port`: of each of its models, and of the lineage
of the run."""


def render_table_metrics(statuses: Iterable[TableStatus], now_ms: int) -> str:
    """The metrics of tables in Prometheus's text format, as they were at `now_ms`."""
    families = _Families()
    for status in statuses:
        labels = labels_of(status.model.table, status.model.name)
        for metric, value in _table_values(status, now_ms):
            families.add(metric, labels, value)
    return families.render()


def _table_values(
    status: TableStatus, now_ms: int
) -> Iterable[tuple[Metric, float | None]]:
    yield STATUS_TIME, now_ms / 1000
    match status.state:
        case MissingTable():
            yield TABLE_EXISTS, 0
        case Unknown():
            yield TABLE_EXISTS, 1 if status.health == "unreadable" else None
            yield TABLE_READABLE, 0
        case Known(figures=figures, findings=findings):
            yield TABLE_EXISTS, 1
            yield TABLE_READABLE, 1
            yield TABLE_HEALTH, WORDS.index(worst(findings))
            yield from _figure_values(figures, now_ms)
        case _:
            assert_never(status.state)


def _figure_values(
    figures: Figures, now_ms: int
) -> Iterable[tuple[Metric, float | None]]:
    age_ms, newest_ms = (
        figures.age_ms,
        figures.freshness_ms if figures.is_by_event else None,
    )
    yield LAST_COMMIT, None if age_ms is None else (now_ms - age_ms) / 1000
    yield LAST_EVENT, None if newest_ms is None else (now_ms - newest_ms) / 1000
    for metric, field in TABLE_METRICS:
        value: float | None = getattr(figures, field)
        yield (
            metric,
            value / 1000 if value is not None and field.endswith("_ms") else value,
        )


def labels_of(table: TableName, model: str) -> tuple[str, ...]:
    """The values of `LABELS`."""
    return table.catalog, table.namespace, table.name, model


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is counted of a model's events beside its tally.

    `timed` is the number of committed batches and `duration_ms` the sum of their
    durations. `waits_since_ms` is the time since which the model has had work without
    making progress; None if it had no work at its last event. `is_idle`: no batch is
    under way, and the trigger starts the next one. `heard_ms` is the time of its last
    event.
    """

    retries: int = 0
    timed: int = 0
    duration_ms: int = 0
    waits_since_ms: int | None = None
    is_idle: bool = False
    heard_ms: int | None = None


class RunMetrics:
    """A renderer of a run's events that keeps them as metrics, and knows whether the
    run is healthy. Other threads may read it while it gets events.

    `labels` are the values of `LABELS` by model, `triggers` the models' triggers.
    """

    def __init__(
        self, labels: Mapping[str, Sequence[str]], triggers: Mapping[str, Trigger]
    ) -> None:
        self._labels = dict(labels)
        self._trigger_ms = {
            name: _interval_ms(trigger) for name, trigger in triggers.items()
        }
        # Both values are immutable and replaced by one assignment, so that readers
        # need no lock.
        self._run = RunTally()
        self._seen: Mapping[str, _Seen] = {}

    def __call__(self, event: Event, run: RunTally) -> None:
        """Count the event."""
        self._run = run
        match event:
            case RunStarted():
                self._seen = {name: _Seen() for name in event.models}
            case (
                SessionStarted()
                | Noted()
                | SeedFinished()
                | LineageLost()
                | RunFinished()
            ):
                pass
            case _:
                seen = _see(self._seen.get(event.model, _Seen()), event)
                self._seen = {
                    **self._seen,
                    event.model: replace(seen, heard_ms=event.at_ms),
                }

    def render(self, now_ms: int) -> str:
        """The metrics of the run in Prometheus's text format."""
        families, run, all_seen = _Families(), self._run, self._seen
        for name, model in run.models.items():
            labels, seen = self._labels[name], all_seen.get(name, _Seen())
            for metric, value in _run_values(model, seen):
                families.add(metric, labels, value)
            stuck_ms = max(
                _waited_ms(model, seen, self._trigger_ms[name], now_ms),
                _silent_ms(model, seen, now_ms),
            )
            families.add(NO_PROGRESS, labels, stuck_ms // 1000)
            families.add(BATCH_DURATION, labels, seen.duration_ms / 1000, seen.timed)
        if run.models:
            families.add(
                LINEAGE_LOST,
                (),
                run.lineage_lost.events if run.lineage_lost is not None else 0,
            )
        return families.render()

    def faults(self, now_ms: int, patience_ms: int) -> tuple[str, ...]:
        """The reasons why the run is unhealthy, empty if it is healthy: models that
        have failed for good, that have had work for `patience_ms` without making
        progress, or that have sent no event for as long.

        A model has work after a retry or a pause until its source reports that there is
        none, while records or files are left to read, and while it writes a batch. Each
        batch and each maintenance of its table is progress. The wait for its trigger
        does not count. A running model sends events all the time, so that silence means
        that the run or its Java process hangs.
        """
        faults = []
        for name, model in self._run.models.items():
            seen = self._seen.get(name, _Seen())
            waited_ms = _waited_ms(model, seen, self._trigger_ms[name], now_ms)
            silent_ms = _silent_ms(model, seen, now_ms)
            if model.phase == "error":
                faults.append(f"{name} has failed")
            elif waited_ms > patience_ms:
                due = " since its trigger was due" if seen.is_idle else ""
                faults.append(
                    f"{name} has made no progress for {duration(waited_ms)}{due}"
                )
            elif silent_ms > patience_ms:
                faults.append(f"{name} has not been heard of for {duration(silent_ms)}")
        return tuple(faults)


def _interval_ms(trigger: Trigger) -> int:
    match trigger:
        case AvailableNow() | OnChange():
            return 0
        case Every(interval_ms=interval_ms):
            return interval_ms
        case _:
            assert_never(trigger)


def _waited_ms(model: ModelTally, seen: _Seen, trigger_ms: int, now_ms: int) -> int:
    """How long the model has had work without making progress, the wait for its trigger
    not counted."""
    if model.finished is not None or seen.waits_since_ms is None:
        return 0
    return max(0, now_ms - seen.waits_since_ms - (trigger_ms if seen.is_idle else 0))


def _silent_ms(model: ModelTally, seen: _Seen, now_ms: int) -> int:
    """How long a running model has sent no event; 0 for one that does not run."""
    return (
        max(0, now_ms - seen.heard_ms)
        if model.phase == "running" and seen.heard_ms is not None
        else 0
    )


def _see(seen: _Seen, event: Event) -> _Seen:
    waits_since_ms = event.at_ms if seen.waits_since_ms is None else seen.waits_since_ms
    match event:
        case BatchCommitted():
            took_ms = seen.duration_ms + event.duration_ms
            return replace(
                seen,
                timed=seen.timed + 1,
                duration_ms=took_ms,
                waits_since_ms=event.at_ms,
            )
        case BatchEmpty() | BatchSkipped() | TableMaintained() | MaintenanceFailed():
            # Whether more is left to read comes with the next Progress event.
            return replace(seen, waits_since_ms=event.at_ms)
        case QueryPaused():
            return replace(seen, waits_since_ms=waits_since_ms, is_idle=False)
        case Retrying():
            return replace(
                seen,
                retries=seen.retries + 1,
                waits_since_ms=waits_since_ms,
                is_idle=False,
            )
        case Progress(is_busy=True):
            began_ms = event.at_ms if seen.is_idle else waits_since_ms
            return replace(seen, waits_since_ms=began_ms, is_idle=False)
        case Progress():
            return replace(
                seen,
                waits_since_ms=waits_since_ms if event.left else None,
                is_idle=True,
            )
        case _:
            return seen


def _run_values(
    model: ModelTally, seen: _Seen
) -> Iterable[tuple[Metric, float | None]]:
    is_running = model.phase == "running"
    yield from (
        (BATCHES, model.batches),
        (RECORDS, model.records),
        (ROWS, model.rows),
        (DEAD_LETTERS, model.rejected),
        (LATE_EVENTS, model.late),
        (VIOLATIONS, sum(rows for _, rows in model.violations)),
        (RETRIES, seen.retries),
        _backlog(model),
        (MODEL_RUNNING, int(is_running)),
        (MODEL_FAILED, int(model.phase == "error")),
        (MODEL_HEALTH, WORDS.index(model.health)),
        (CONSECUTIVE_RETRIES, model.retries if model.finished is None else 0),
        (
            LAST_COMMIT,
            None if model.committed_at_ms is None else model.committed_at_ms / 1000,
        ),
        (
            LAST_EVENT,
            None if model.known.newest_ms is None else model.known.newest_ms / 1000,
        ),
    )


def _backlog(model: ModelTally) -> tuple[Metric, float | None]:
    match model.backlog_unit:
        case "records":
            return BACKLOG_RECORDS, model.backlog
        case "files":
            return BACKLOG_FILES, model.backlog
        case "ms":
            return (
                BACKLOG_SECONDS,
                None if model.backlog is None else model.backlog / 1000,
            )
        case _:
            assert_never(model.backlog_unit)


class _Families:
    """The samples of a page of metrics, grouped by metric in the order of their first
    samples."""

    def __init__(self) -> None:
        self._families: dict[Metric, MetricFamily] = {}

    def add(
        self, metric: Metric, labels: Sequence[str], value: float | None, times: int = 0
    ) -> None:
        """Add one sample; none if the value is None. For a summary the value is a sum
        of `times` observations. A sample without `labels` is of the whole run."""
        if value is None:
            return
        if metric not in self._families:
            kinds = {
                "gauge": GaugeMetricFamily,
                "counter": CounterMetricFamily,
                "summary": SummaryMetricFamily,
            }
            names = LABELS if labels else ()
            self._families[metric] = kinds[metric.kind](
                metric.name, metric.doc, labels=names
            )
        match self._families[metric]:
            case SummaryMetricFamily() as family:
                family.add_metric(labels, times, value)
            case family:
                family.add_metric(labels, value)

    def render(self) -> str:
        """All samples in Prometheus's text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self._families.values()))
        return generate_latest(registry).decode()


class _Collected(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[MetricFamily]:
        return self._families
