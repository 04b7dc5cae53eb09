"""Events that a watermark drops are counted, and the records of a stateful model are those that arrived."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.events import BatchCommitted, BatchEmpty
from lakesql.names import LEDGER_LATE
from tests.spark.project import Project, Ran

COLUMNS = {"id": "int", "at": {"type": "timestamp", "required": False}}
HOURS = "SELECT window(at, '1 hour').start AS hour, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')"
UPSERT: dict[str, Any] = {"mode": "upsert", "keys": ["hour"]}


def at(*hours: int) -> list[dict[str, Any]]:
    return [{"id": hour, "at": f"2026-03-01T{hour:02}:00:00Z"} for hour in hours]


@pytest.fixture
def begun(project: Project) -> Project:
    """Two models that count by the hour and have seen 15 o'clock; their watermark is a minute behind."""
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model("u", HOURS, **UPSERT)
    project.model("a", HOURS, mode="append")
    project.record("s", at(12, 15))
    project.run().check()
    return project


def figures(ran: Ran, model: str) -> tuple[int, int]:
    """Records and late ones, summed over the batches, which are those of the model's last event."""
    batches = [*ran.of(BatchCommitted, model), *ran.of(BatchEmpty, model)]
    records, late = sum(event.records for event in batches), sum(event.late for event in batches)
    finished = ran.finished(model)
    assert (finished.records, finished.late) == (records, late)
    return records, late


def test_late_events_are_counted_beside_those_in_time(begun: Project) -> None:
    begun.record("s", [*at(10, 11, 16), "no record"])
    ran = begun.run().check()
    assert figures(ran, "u") == figures(ran, "a") == (4, 2)
    assert begun.summaries("u")[-1][LEDGER_LATE] == "2"
    assert sum(row["n"] for row in begun.rows("u")) == 3


def test_a_run_whose_events_are_all_late_is_not_up_to_date(begun: Project) -> None:
    begun.record("s", at(9, 10, 11))
    ran = begun.run().check()
    assert figures(ran, "u") == figures(ran, "a") == (3, 3)
    assert figures(begun.run().check(), "u") == (0, 0)


def test_a_record_of_a_stream_that_is_joined_with_itself_is_counted_once(project: Project) -> None:
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model("j", "SELECT l.id, r.at FROM {s} l JOIN {s} r ON l.id = r.id AND l.at = r.at", mode="append")
    project.record("s", at(12, 15))
    assert figures(project.run().check(), "j") == (2, 0)
    assert len(project.rows("j")) == 2
