"""What a change does to a day of a model's table, by the same forecast as in its
compiled file."""

from __future__ import annotations

from lakesql.compile.growth import BATCH_MS, Assumed, assume, falls_behind, grow_assumed
from lakesql.graph.manifest import most_records
from lakesql.model.config import Trigger
from lakesql.review.causes import ModelVersions
from lakesql.review.verdicts import DayChange, DayCounts, ForecastDay
from lakesql.table.simulation import TableCounts, TableGrowth


def find_day_change(change: ModelVersions) -> DayChange | None:
    """The forecasts of a new table's day for both versions; None if they are the
    same."""
    models = change.before.model, change.model
    assumed = [assume(model) for model in models]
    limits = [
        most_records(version.manifest, change.model.name)
        for version in (change.old, change.new)
    ]
    is_alike = type(models[0].trigger) is type(models[1].trigger)
    if is_alike and assumed[0] == assumed[1] and limits[0] == limits[1]:
        return None  # nothing is worked out where nothing can differ
    before, after = (
        _day(model.trigger, known, limit)
        for model, known, limit in zip(models, assumed, limits, strict=True)
    )
    return DayChange(before, after) if before != after else None


def _day(trigger: Trigger, assumed: Assumed, limit: int | None) -> ForecastDay:
    unkept, kept = grow_assumed(assumed)
    return ForecastDay(
        freshness_ms=round(assumed.writes.interval_ms + BATCH_MS),
        is_behind=falls_behind(trigger, assumed.writes.rows, limit),
        unmaintained=_counts(unkept, unkept.end),
        maintained=_counts(kept, kept.most) if kept is not None else None,
    )


def _counts(growth: TableGrowth, counts: TableCounts) -> DayCounts:
    return DayCounts(
        growth.commits,
        counts.data_files,
        counts.delete_files,
        counts.snapshots,
        counts.metadata_bytes,
    )
