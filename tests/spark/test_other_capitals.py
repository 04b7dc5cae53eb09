"""A column that records spell in other capitals is NULL, and the run says so: once,
whatever brings the records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesql.events import ColumnsAbsent, SpelledOtherwise
from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {
    "id": {"type": "int", "required": True},
    "note": "string",
    "n": "int",
}
ROWS = [{"id": 1, "NOTE": "x", "other": 3}, {"id": 2, "NOTE": None, "n": 1}]


def test_a_run_says_how_records_spell_what_it_reads_as_null(project: Project) -> None:
    project.connections["landing"] = {"type": "files", "path": "landing"}
    project.stream("topic", COLUMNS, max_per_batch=1)
    project.stream(
        "files", COLUMNS, connection="landing", path="a b/*.json", format="json"
    )
    named = {**COLUMNS, "note": {"type": "string", "from": "NOTE"}}
    project.stream("named", named, topic="topic")
    timed = {"watermark": {"column": "at", "delay": "1 hour"}}
    project.stream("timed", {**COLUMNS, "at": "timestamp"}, topic="topic", **timed)
    for name in ("topic", "files", "named"):
        project.model(name, f"SELECT * FROM {{{name}}}", mode="append")
    project.model(
        "timed",
        "SELECT note, count(*) AS n FROM {timed} GROUP BY note, window(at, '1 hour')",
        mode="append",
    )
    project.record("topic", ROWS[:1])
    project.record("topic", ROWS[1:])
    project.write(
        "landing/a b/1 2.json", "".join(f"{json.dumps(row)}\n" for row in ROWS)
    )

    ran = project.run().check()

    told = {event.model: event for event in ran.of(SpelledOtherwise)}
    assert {model: event.columns for model, event in told.items()} == dict.fromkeys(
        ("topic", "files", "timed"), (("note", "NOTE"),)
    )
    assert len(ran.of(SpelledOtherwise)) == 3, "said once, not for each batch"
    assert "from: NOTE" in told["topic"].text
    assert ran.finished("topic").warnings == (f"stream topic: {told['topic'].text}",)
    assert [row["note"] for row in project.rows("topic", "id")] == [None, None]
    assert [row["note"] for row in project.rows("named", "id")] == ["x", None]


def test_a_change_feed_says_it_of_the_changes_that_lack_a_column(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"])
    project.model("m", "SELECT id, note, n FROM {s}", mode="cdc", keys="id")
    project.record(
        "s",
        [
            Fields(key={"id": row["id"]}, value={"op": "c", "after": row})
            for row in ROWS
        ],
    )

    (told,) = project.run().check().of(ColumnsAbsent)

    assert "`note: {…, from: NOTE}`" in told.text
