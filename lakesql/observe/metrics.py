"""Metrics in Prometheus's words: the one list of their names, of tables at rest and of a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lakesql.model.table_name import TableName
from lakesql.plan.health import WORDS
from lakesql.plan.table_status import TableStatus

LABELS = ("catalog", "namespace", "table", "model")
"""The labels of every metric of a table or a model."""

MetricFamily = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a model: its name, with the unit in it, and what it means. Counters end in `_total`."""

    name: str
    doc: str
    kind: Literal["gauge", "counter"] = "gauge"


LAST_COMMIT = Metric("lakesql_table_last_commit_timestamp_seconds", "When the table's last commit was made.")
LAST_EVENT = Metric(
    "lakesql_table_last_event_timestamp_seconds", "The newest event in the table, where the last commit's is known."
)

TABLE_METRICS: tuple[tuple[Metric, str], ...] = (
    (Metric("lakesql_table_latency_seconds", "From the last commit's newest event to the commit."), "latency_ms"),
    (
        Metric("lakesql_table_latency_p95_seconds", "Its 95th percentile over 100 commits."),
        "latency_p95_ms",
    ),
    (Metric("lakesql_table_commits_last_hour", "Commits that brought rows, in the last hour."), "commits_last_hour"),
    (Metric("lakesql_table_rows_last_hour", "Rows that these have written."), "rows_last_hour"),
    (Metric("lakesql_table_rows", "Rows in data files, deleted ones among them."), "rows"),
    (Metric("lakesql_table_data_files", "Data files of the current snapshot."), "data_files"),
    (Metric("lakesql_table_data_bytes", "Bytes of these data files."), "data_bytes"),
    (Metric("lakesql_table_file_bytes_average", "Bytes of a data file on average."), "file_bytes_average"),
    (Metric("lakesql_table_file_bytes_p10", "Bytes that a tenth of these do not exceed."), "file_bytes_p10"),
    (
        Metric("lakesql_table_file_bytes_p90", "Bytes that nine tenths do not exceed."),
        "file_bytes_p90",
    ),
    (Metric("lakesql_table_small_files", "Data files below 75 % of the table's target size."), "small_files"),
    (Metric("lakesql_table_small_file_ratio", "Share of the data files that are small."), "small_file_ratio"),
    (Metric("lakesql_table_average_small_files", "Small data files of a partition on average."), "average_small_files"),
    (Metric("lakesql_table_delete_files", "Delete files of the current snapshot."), "delete_files"),
    (Metric("lakesql_table_delete_ratio", "Share of the rows in data files that are deleted."), "delete_ratio"),
    (Metric("lakesql_table_snapshots", "Snapshots that the table has."), "snapshots"),
    (Metric("lakesql_table_metadata_bytes", "Bytes that a reader reads to know the files."), "metadata_bytes"),
    (
        Metric("lakesql_table_compaction_lag_seconds", "Age of the oldest data not compacted."),
        "compaction_lag_ms",
    ),
    (Metric("lakesql_table_uncompacted_bytes", "Bytes of all data that is not compacted."), "uncompacted_bytes"),
    (Metric("lakesql_table_dead_letters_last_hour", "Dead letters of the last hour."), "dead_letters_last_hour"),
    (
        Metric(
            "lakesql_table_late_events_last_hour",
            "Events that a watermark has dropped.",
        ),
        "late_last_hour",
    ),
)
"""What `lakesql status --output prometheus` says of each table beside the others: the metric, and the field of
`Figures`, whose milliseconds become seconds."""

TABLE_READABLE = Metric("lakesql_table_readable", "1 if the table could be read, 0 if it, or its catalog, could not.")
TABLE_HEALTH = Metric("lakesql_table_health", "0 well, 1 watch, 2 ill.")


def render_table_metrics(statuses: Iterable[TableStatus], now_ms: int) -> str:
    """The metrics of tables in Prometheus's text format. Of a table that is not there yet there is none."""
    families = _Families()
    for status in statuses:
        labels = labels_of(status.model.table, status.model.name)
        if status.health == "missing":
            continue
        families.add(TABLE_READABLE, labels, 0 if status.figures is None else 1)
        if status.figures is None:
            continue
        figures = status.figures
        age_ms, newest_ms = figures.age_ms, figures.freshness_ms if figures.is_by_event else None
        families.add(LAST_COMMIT, labels, None if age_ms is None else (now_ms - age_ms) / 1000)
        families.add(LAST_EVENT, labels, None if newest_ms is None else (now_ms - newest_ms) / 1000)
        for metric, field in TABLE_METRICS:
            value: float | None = getattr(figures, field)
            families.add(metric, labels, value / 1000 if value is not None and field.endswith("_ms") else value)
        word = next(index for index, word in enumerate(WORDS) if word == status.health)
        families.add(TABLE_HEALTH, labels, word)
    return families.render()


def labels_of(table: TableName, model: str) -> tuple[str, ...]:
    """The values of `LABELS`."""
    return table.catalog, table.namespace, table.name, model


class _Families:
    """Metrics by name, in the order in which they came."""

    def __init__(self) -> None:
        self._families: dict[Metric, MetricFamily] = {}

    def add(self, metric: Metric, labels: Sequence[str], value: float | None) -> None:
        """One sample; none where there is no value."""
        if value is None:
            return
        if metric not in self._families:
            kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            self._families[metric] = kind(metric.name, metric.doc, labels=LABELS)
        self._families[metric].add_metric(labels, value)

    def render(self) -> str:
        """All of them in the text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self._families.values()))
        return generate_latest(registry).decode()


class _Collected(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[MetricFamily]:
        return self._families
