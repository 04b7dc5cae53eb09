"""An event far ahead of the clock closes no windows: it is a dead letter of the models
that keep state."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakesql.events import BatchCommitted, BatchEmpty
from tests.spark.project import Project

HOURS = "SELECT window(at, '1 hour').start AS hour, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')"
UPSERT: dict[str, Any] = {"mode": "upsert", "keys": ["hour"]}


def stream(project: Project, **watermark: str) -> None:
    columns = {"id": "int", "at": {"type": "timestamp", "required": False}}
    project.stream(
        "s", columns, watermark={"column": "at", "delay": "1 minute", **watermark}
    )


def record(id_: int, at: datetime | str) -> dict[str, Any]:
    return {
        "id": id_,
        "at": at if isinstance(at, str) else at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def seen(project: Project) -> int:
    return sum(row["n"] for row in project.rows("m"))


def test_an_event_of_2099_is_a_dead_letter_and_closes_no_window(
    project: Project,
) -> None:
    stream(project)
    project.model("m", HOURS, **UPSERT)
    project.model("plain", "SELECT id, at FROM {s}", mode="append")
    far, near = "2099-01-01T00:00:00Z", "2026-03-01T10:00:00Z"
    project.record("s", [record(1, near), record(2, far), {"id": 3, "at": None}])
    first = project.run().check()
    assert project.reasons("m") == {"ahead-of-time": 1}
    (letter,) = project.rows("m__dead_letter")
    assert (letter["offset"], letter["topic"], letter["stream"]) == (1, "s", "s")
    assert json.loads(bytes(letter["value"]))["id"] == 2
    assert "2099-01-01 00:00:00" in letter["detail"]
    batches = [*first.of(BatchCommitted, "m"), *first.of(BatchEmpty, "m")]
    furthest = max(batch.furthest for batch in batches)  # type: ignore[attr-defined]
    assert furthest == "2026-03-01T10:00:00.000+00:00, stream s, record s 0 0"
    project.record("s", [record(4, "2026-03-01T10:30:00Z")])
    second = project.run().check()
    assert second.finished("m").late == 0
    assert seen(project) == 2
    # it keeps no state
    assert [row["id"] for row in project.rows("plain", "id")] == [1, 2, 3, 4]


@pytest.mark.long
def test_how_far_ahead_is_said_by_the_stream(project: Project) -> None:
    stream(project, max_ahead="1 hour")
    project.model("m", HOURS, **UPSERT)
    now = datetime.now(UTC)
    project.record(
        "s",
        [record(1, now + timedelta(minutes=30)), record(2, now + timedelta(hours=3))],
    )
    project.run().check()
    assert seen(project) == 1
    assert [letter["offset"] for letter in project.rows("m__dead_letter")] == [1]


@pytest.mark.long
def test_by_default_a_clock_of_another_zone_is_taken(project: Project) -> None:
    stream(project)
    project.model("m", HOURS, **UPSERT)
    project.record("s", [record(1, datetime.now(UTC) + timedelta(hours=14))])
    project.run().check()
    assert seen(project) == 1
    assert not project.has("m__dead_letter")


@pytest.mark.long
@pytest.mark.parametrize("planned_later_h", [0, 4])
def test_a_batch_that_is_tried_again_judges_by_the_time_at_which_it_was_planned(
    project: Project, planned_later_h: int
) -> None:
    """That time stands in the checkpoint, where it is moved here: so the record is not
    ahead any more."""
    stream(project, max_ahead="1 hour")
    project.model("m", HOURS, **UPSERT)
    now = datetime.now(UTC)
    project.record("s", [record(1, now), record(2, now + timedelta(hours=3))])

    def break_off(model: str, step: str) -> None:
        if (model, step) == ("m", "publish"):
            raise RuntimeError("killed")

    assert not project.run(reached=break_off).succeeded
    assert project.reasons("m") == {"ahead-of-time": 1}
    project.sql(f"DELETE FROM {project.table('m__dead_letter')}")
    planned = project.directory / "checkpoints/m/offsets/0"
    version, metadata, *offsets = planned.read_text().splitlines()
    moved = json.loads(metadata)
    moved["batchTimestampMs"] += planned_later_h * 3_600_000
    planned.write_text("\n".join([version, json.dumps(moved), *offsets]))
    planned.with_name(".0.crc").unlink(missing_ok=True)
    project.run().check()
    assert seen(project) == (2 if planned_later_h else 1)
