"""How statements over few rows are planned, and how rows are computed once to be read
several times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.spark.internals import hold_rows, in_session

NOT_ADAPTIVE = {"spark.sql.adaptive.enabled": "false"}
"""The settings for a statement that is planned before its first job, and not again
after each stage."""

PLANNED_ONCE = {**NOT_ADAPTIVE, "spark.sql.shuffle.partitions": "1"}
"""The settings for a statement that is planned once, not again after each stage, and
shuffles all rows to one task."""

FEW_RECORDS = 1_000
"""Up to this many records, processing takes next to no time: planning, generating code
and starting each job take longer."""

_EVALUATION = "spark.sql.codegen.factoryMode"


def settings_of_few(session: SparkSession) -> dict[str, str]:
    """The settings for a statement over few rows: it is planned once, and its
    expressions are interpreted.

    Spark generates code for expressions, compiles it and runs it cold, again in each
    task if it is too long for one method: for a thousand rows that takes longer than
    everything else. If the target sets the evaluation mode itself, it is kept.
    """
    if str(session.conf.get(_EVALUATION)) != "FALLBACK":
        return dict(PLANNED_ONCE)
    return {**PLANNED_ONCE, _EVALUATION: "NO_CODEGEN"}


@contextmanager
def changed_settings(
    session: SparkSession, settings: Mapping[str, str]
) -> Iterator[None]:
    """While the context is open, the session has these settings; afterwards it has the
    former ones again."""
    conf = session.conf
    before = {key: conf.get(key, None) for key in settings}
    for key, value in settings.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, former in before.items():
            if former is None:
                conf.unset(key)
            else:
                conf.set(key, former)


FEW_ROWS = 10_000
"""Up to how many rows are held by the driver, where Spark reads them without a job."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Computed rows, in the session that has computed them, and their number."""

    rows: DataFrame
    count: int

    @property
    def are_few(self) -> bool:
        """Whether the driver holds them."""
        return self.count <= FEW_ROWS

    def of(self, session: SparkSession) -> DataFrame:
        """The rows as a frame of another session."""
        return in_session(self.rows, session)


def keep_rows(
    rows: DataFrame, most: float = math.inf, *, is_planned_once: bool = False
) -> KeptRows:
    """The rows, computed, and their number. `most` is an upper bound of it.
    `is_planned_once`: little is read to compute them, so planning and starting jobs
    take most of the time."""
    with changed_settings(rows.sparkSession, PLANNED_ONCE if is_planned_once else {}):
        if most <= FEW_ROWS:
            return _hold(rows) or _keep(rows)
        if is_planned_once:  # they come in one task: a limit costs nothing
            held = _hold(rows.limit(FEW_ROWS + 1))
            if held is not None and held.are_few:
                return held
        kept = _keep(rows)
    return (_hold(kept.rows) if kept.are_few else None) or kept


def make_rows(rows: DataFrame, *, are_few: bool) -> DataFrame:
    """The rows, computed now, exactly once. Observations on them are made in this one
    pass, which Spark treats as a separate statement; few rows are then held by the
    driver.

    The `select` is needed: in a plan that is an SQL text alone, Spark does not find the
    observations in the views that it names, and reading them would wait forever.
    """
    made = rows.select("*").localCheckpoint()
    held = _hold(made) if are_few else None
    return made if held is None else held.rows


def _hold(rows: DataFrame) -> KeptRows | None:
    held = hold_rows(rows)
    return None if held is None else KeptRows(*held)


def _keep(rows: DataFrame) -> KeptRows:
    kept = rows.localCheckpoint()
    with changed_settings(rows.sparkSession, NOT_ADAPTIVE):
        return KeptRows(kept, kept.count())
