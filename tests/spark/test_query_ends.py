"""What is left of a query that has ended: nothing, or a runner that starts models again
for months would run full."""

from __future__ import annotations

import gc
import time

import pytest

from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.streaming_query import ModelQuery
from lakesql.engine.spark.gateway import java_class
from tests.spark.project import Project

pytestmark = pytest.mark.long


def count(kind: type) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def test_neither_java_nor_python_keeps_a_query_that_has_ended(project: Project) -> None:
    """Java calls a batch's writer by the sink, and lets go of it when it lets go of the
    query."""
    queries, sinks = count(ModelQuery), count(Sink)
    project.stream(
        "s",
        {"id": "int", "at": "timestamp"},
        watermark={"column": "at", "delay": "1 minute"},
    )
    project.model("plain", "SELECT id FROM {s}", mode="upsert", keys="id")
    project.model(
        "counted",
        "SELECT id, count(*) AS times FROM {s} GROUP BY id",
        mode="upsert",
        keys="id",
    )
    for number in range(2):
        project.record("s", [{"id": number, "at": f"2026-01-01T0{number}:00:00Z"}])
        project.run().check()

    assert count(ModelQuery) <= queries
    system, until = java_class("java.lang.System"), time.monotonic() + 30
    while count(Sink) > sinks and time.monotonic() < until:
        system.gc()
        time.sleep(0.2)
    assert count(Sink) <= sinks
