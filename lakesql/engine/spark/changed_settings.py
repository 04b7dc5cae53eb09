"""Settings of a session that hold for some statements, and those by which statements
over few rows are planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

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
