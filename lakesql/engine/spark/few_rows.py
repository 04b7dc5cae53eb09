"""How statements over few rows are planned, and rows that are made once and read as
often as somebody needs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.spark.internals import hold_rows, in_session

NOT_ADAPTIVE = {"spark.sql.adaptive.enabled": "false"}
"""The settings of a statement that is planned before its first job, and not again after
each stage."""

PLANNED_ONCE = {**NOT_ADAPTIVE, "spark.sql.shuffle.partitions": "1"}
"""The settings of a statement that is planned once, not again after each stage, and
whose rows meet in one task."""

FEW_RECORDS = 1_000
"""So many are no work at all: what takes time is to plan it, to generate code for it
and to start each job."""

_EVALUATION = "spark.sql.codegen.factoryMode"


def settings_of_few(session: SparkSession) -> dict[str, str]:
    """The settings of a statement over few rows: it is planned once, and its
    expressions are evaluated as they stand.

    Spark generates code for expressions, compiles it and runs it cold, in each task
    anew where it is too long for one method: for a thousand rows that takes longer than
    all else. A target that sets the way itself keeps its own.
    """
    if str(session.conf.get(_EVALUATION)) != "FALLBACK":
        return dict(PLANNED_ONCE)
    return {**PLANNED_ONCE, _EVALUATION: "NO_CODEGEN"}


@contextmanager
def changed_settings(
    session: SparkSession, settings: Mapping[str, str]
) -> Iterator[None]:
    """While this is open, the session has these settings; then the former ones
    again."""
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
"""So many rows are held by the driver, where Spark looks at them without a job."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that are made, in the session that has made them, and how many they are."""

    rows: DataFrame
    count: int

    @property
    def are_few(self) -> bool:
        """Whether the driver holds them."""
        return self.count <= FEW_ROWS

    def of(self, session: SparkSession) -> DataFrame:
        """The rows, for a session."""
        return in_session(self.rows, session)


def keep_rows(
    rows: DataFrame, most: float = math.inf, *, is_planned_once: bool = False
) -> KeptRows:
    """Make the rows, of which there are so many at `most`. `is_planned_once`: few are
    read for it, and what takes time is to plan it, and to start each job."""
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
    """The rows, made now, once and for good. What is watched of them is counted in this
    one pass, which is a statement of its own to Spark: the driver takes few rows over
    from what that has kept.

    `select`: of a text as it stands, Spark does not find what is counted in the views
    that it names, and who asks for the counts waits for ever.
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
