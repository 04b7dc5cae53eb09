"""Rows that are made once, and read as often as somebody needs them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.spark.internals import hold_rows, in_session
from lakesql.engine.spark.session import PLANNED_ONCE, changed_settings

FEW_ROWS = 10_000
"""So many rows are held by the driver, and made by a statement that is planned once: what takes time is to plan it, and
to start each job."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that are made, in the session that has made them, and how many they are."""

    rows: DataFrame
    count: int

    @property
    def are_few(self) -> bool:
        """Whether Spark joins them as they are to each task's rows."""
        return self.count <= FEW_ROWS

    def of(self, session: SparkSession) -> DataFrame:
        """The rows, for a session."""
        return in_session(self.rows, session)


def keep_few(rows: DataFrame) -> KeptRows:
    """Make the rows, which are few, in one job."""
    with changed_settings(rows.sparkSession, PLANNED_ONCE):
        held = hold_rows(rows)
        if held is not None:
            return KeptRows(*held)
        return _keep(rows)


def keep_rows(rows: DataFrame, *, is_planned_once: bool = False) -> KeptRows:
    """Make the rows, of which nobody knows how many there are. `is_planned_once`: they are few in all likelihood, and
    made of few."""
    if is_planned_once:
        made = keep_few(rows.limit(FEW_ROWS + 1))
        if made.are_few:
            return made
    kept = _keep(rows)
    held = hold_rows(kept.rows) if kept.are_few else None
    return kept if held is None else KeptRows(*held)


def _keep(rows: DataFrame) -> KeptRows:
    kept = rows.localCheckpoint()
    return KeptRows(kept, kept.count())
