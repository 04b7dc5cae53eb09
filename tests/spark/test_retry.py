"""What fails and may pass is tried again, from where the table stands: nothing is lost,
nothing doubled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError

from lakesql.errors import TransientError
from lakesql.events import (
    BatchCommitted,
    BatchSkipped,
    Event,
    ModelFinished,
    QueryStarted,
    Retrying,
    StepApplied,
)
from tests.spark.project import Project

REFUSED = "An error occurred.\n: java.io.UncheckedIOException: x\n\tat a.b\nCaused by: java.net.ConnectException: refused"
FAILURES: dict[str, Callable[[], Exception]] = {
    "appended": lambda: TransientError.of("commit-unknown", "No answer."),
    "kept": lambda: Py4JError(REFUSED),
    "counted": lambda: TransientError.of("commit-conflict", "Somebody else."),
}


def build(project: Project) -> None:
    project.stream(
        "s",
        {"id": "int", "at": "timestamp"},
        max_per_batch=1,
        watermark={"column": "at", "delay": "1 minute"},
    )
    project.model("appended", "SELECT id FROM {s}", mode="append")
    project.model("kept", "SELECT id, at FROM {s}", mode="upsert", keys="id")
    project.model(
        "counted",
        "SELECT id, count(*) AS times FROM {s} GROUP BY id",
        mode="upsert",
        keys="id",
    )
    for number in range(4):
        project.record("s", [{"id": number % 3, "at": f"2026-01-01T0{number}:00:00Z"}])


def test_a_failure_after_the_commit_replays_and_skips_the_batch(
    project: Project,
) -> None:
    build(project)
    failed: set[str] = set()

    def meet(event: Event) -> None:
        if (
            isinstance(event, BatchCommitted)
            and event.batch == 1
            and event.model not in failed
        ):
            failed.add(event.model)
            raise FAILURES[event.model]()

    ran = project.run(meet=meet).check()

    for model in FAILURES:
        (retrying,) = ran.of(Retrying, model)
        assert (retrying.attempt, retrying.wait_ms, len(retrying.problems)) == (
            1,
            1000,
            1,
        )
        assert [event.batch for event in ran.of(BatchSkipped, model)] == [1]
        assert [event.batch for event in ran.of(BatchCommitted, model)] == [0, 1, 2, 3]
        assert len(ran.of(QueryStarted, model)) == 2
    assert [row["id"] for row in project.rows("appended", "id")] == [0, 0, 1, 2]
    assert [row["id"] for row in project.rows("kept", "id")] == [0, 1, 2]
    assert project.rows("counted", "id") == [
        {"id": 0, "times": 2},
        {"id": 1, "times": 1},
        {"id": 2, "times": 1},
    ]


@pytest.mark.parametrize("continuous", [False, True])
def test_a_transient_failure_before_the_query_starts_is_retried(
    project: Project, continuous: bool
) -> None:
    build(project)
    project._target["trigger"] = "100 milliseconds"
    raised: list[Event] = []
    done: set[str] = set()

    def meet(event: Event) -> None:
        if isinstance(event, BatchCommitted) and event.batch == 3:
            done.add(event.model)
        if isinstance(event, StepApplied) and event.model == "kept" and not raised:
            raised.append(event)
            raise TransientError.of("commit-conflict", "Somebody else.")

    ran = project.run(
        "appended",
        "kept",
        continuous=continuous,
        meet=meet,
        until=lambda: len(done) == 2,
    ).check()
    assert len(ran.of(Retrying, "kept")) == 1
    assert [event.status for event in ran.of(ModelFinished, "kept")] == ["success"]
    assert [row["id"] for row in project.rows("kept", "id")] == [0, 1, 2]
