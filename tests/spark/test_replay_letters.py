"""Dead letters: one for each record, however often it is read; and `lakesql replay`,
which reads them again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.main import run_command
from lakesql.compile.build_select import build_select
from lakesql.engine.spark.session import new_session
from lakesql.errors import RunError
from lakesql.events import Event
from lakesql.run.start.context import RunContext
from lakesql.run.state.replay import Replayed, bind_letters, replay_letters
from lakesql.run.streams.bind import bind_select
from tests.spark.project import Fields, Project
from tests.spark.test_ledger import roll_back

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
STRICT: dict[str, Any] = {
    "id": {"type": "int", "required": True},
    "v": "int",
    "at": "timestamp",
}
LENIENT: dict[str, Any] = {"id": "int", "v": "string", "at": "timestamp"}


def row(id_: int | None, v: Any = 1, hour: int = 0) -> dict[str, Any]:
    return {"id": id_, "v": v, "at": f"2026-03-01T{hour:02}:00:00Z"}


def replay(
    project: Project,
    name: str = "m",
    dry_run: bool = False,
    reached: Callable[[str, str], None] = lambda model, step: None,
) -> Replayed:
    manifest, lake, events = project.manifest(), project.lake, list[Event]()
    bound = bind_letters(bind_select(manifest, build_select(manifest, name)))
    context = RunContext(
        manifest, lake.session, lake.catalog, events.append, reached=reached
    )
    return replay_letters(context, new_session(lake.session), bound, dry_run=dry_run)


def letters(project: Project, name: str = "m") -> list[tuple[int, bool]]:
    """The offset of each dead letter, and whether it is done."""
    rows = project.rows(f"{name}__dead_letter", "offset")
    return [(each["offset"], each["replayed_at"] is not None) for each in rows]


def lose_checkpoint(project: Project, name: str = "m") -> None:
    shutil.rmtree(project.directory / "checkpoints" / name)


def refuse_all(project: Project) -> None:
    """Run where each record becomes a dead letter."""
    assert project.run().conditions("m") == ["no-usable-record"]


class Killed(Exception):  # noqa: N818
    """Raised where a run or a replay is to end as if its process had died there."""


def kill_at(step: str) -> Callable[[str, str], None]:
    def reached(_: str, taken: str) -> None:
        if taken == step:
            raise Killed

    return reached


# --- one letter for each record


def test_a_batch_without_rows_that_is_read_again_after_a_lost_checkpoint_leaves_one_letter_each(
    project: Project,
) -> None:
    project.stream("s", STRICT)
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.record("s", [row(1), "broken"])
    project.run().check()
    project.record("s", ["broken", row(None), "broken"])
    project.run().check()
    lose_checkpoint(project)
    project.record("s", ["broken", row(2)])
    project.run().check()
    assert [offset for offset, _ in letters(project)] == [1, 2, 3, 4, 5]
    assert [each["id"] for each in project.rows("m", "id")] == [1, 2]


def test_a_crash_before_the_publication_and_a_lost_checkpoint_leave_one_letter_each(
    project: Project,
) -> None:
    project.stream("s", STRICT)
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.record("s", [row(1), "broken", row(None)])
    assert not project.run(reached=kill_at("publish")).succeeded
    assert [offset for offset, _ in letters(project)] == [1, 2]
    lose_checkpoint(project)
    project.run().check()
    assert [offset for offset, _ in letters(project)] == [1, 2]
    assert [each["id"] for each in project.rows("m")] == [1]


def test_a_row_without_a_key_that_is_read_again_for_another_reason_stays_one_letter(
    project: Project,
) -> None:
    project.stream("s", {**STRICT, "id": "int"})
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id", sequence_by="at")
    project.record("s", [row(None)])
    refuse_all(project)
    assert project.reasons("m") == {"key-missing": 1}
    lose_checkpoint(project)
    project.stream("s", STRICT)
    project.record("s", [row(None)])
    refuse_all(project)
    assert project.reasons("m") == {"key-missing": 1, "required-missing": 1}


def test_the_same_offset_of_a_topic_that_was_made_anew_is_another_record(
    project: Project,
) -> None:
    project.stream("s", STRICT)
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.record("s", [Fields(value="broken", offset=0, timestamp=1_772_400_000_000)])
    refuse_all(project)
    project.record("s", [Fields(value="broken", offset=0, timestamp=1_772_400_009_000)])
    refuse_all(project)
    assert [offset for offset, _ in letters(project)] == [0, 0]


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_equal_lines_of_a_file_are_a_letter_each_and_stay_so_when_it_is_read_again(
    project: Project, format_: str
) -> None:
    project.stream("s", STRICT, path="landing", format=format_)
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.write(f"landing/a.{format_}", "broken\nbroken\n")
    refuse_all(project)
    assert project.reasons("m") == {"unparsable": 2}
    lose_checkpoint(project)
    project.write(f"landing/b.{format_}", "broken\n")
    refuse_all(project)
    assert project.reasons("m") == {"unparsable": 3}


def test_a_table_of_letters_without_the_newer_columns_gets_them(
    project: Project,
) -> None:
    project.stream("s", STRICT)
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.record("s", ["broken"])
    refuse_all(project)
    for column in ("replay", "replayed_at"):
        project.sql(
            f"ALTER TABLE {project.table('m__dead_letter')} DROP COLUMN {column}"
        )
    assert replay(project, dry_run=True).failing == {"unparsable": 1}
    project.record("s", ["broken"])
    refuse_all(project)
    assert letters(project) == [(0, False), (1, False)]


# --- replay


@pytest.fixture
def corrected(project: Project) -> Project:
    """A model whose contract was corrected: of four dead letters one is still bad."""
    project.stream("s", STRICT)
    project.model("m", "SELECT id, v FROM {s} WHERE id <> 9", mode="append")
    project.record("s", [row(1), row(2, "two"), row(None, 3), "broken", row(9, "x")])
    project.run().check()
    assert project.reasons("m") == {"unparsable": 3, "required-missing": 1}
    project.stream("s", LENIENT)
    project.model(
        "m",
        "SELECT coalesce(id, 0) AS id, v FROM {s} WHERE coalesce(id, 0) <> 9",
        mode="append",
    )
    project.sql(f"ALTER TABLE {project.table('m')} DROP COLUMN v")
    return project


DONE = [(1, True), (2, True), (3, False), (4, True)]


def test_a_replay_writes_what_can_be_used_now_once_and_marks_it(
    corrected: Project,
) -> None:
    found = replay(corrected)
    assert found == Replayed(
        {"required-missing": 1, "unparsable": 3}, 3, 2, {"unparsable": 1}
    )
    assert [(each["id"], each["v"]) for each in corrected.rows("m", "id")] == [
        (0, "3"),
        (1, None),
        (2, "two"),
    ]
    assert letters(corrected) == DONE
    again = replay(corrected)
    assert again == Replayed({"unparsable": 1}, 0, 0, {"unparsable": 1})
    assert len(corrected.rows("m")) == 3 and letters(corrected) == DONE


def test_a_dry_run_says_the_same_and_writes_nothing(corrected: Project) -> None:
    before = {name: corrected.snapshot_ids(name) for name in ("m", "m__dead_letter")}
    schema = corrected.iceberg("m").schema()
    found = replay(corrected, dry_run=True)
    assert found == Replayed(
        {"required-missing": 1, "unparsable": 3}, 3, 2, {"unparsable": 1}
    )
    assert {name: corrected.snapshot_ids(name) for name in before} == before
    assert corrected.iceberg("m").schema() == schema


@pytest.mark.parametrize(
    "step", ["look-up", "view", "stage", "dead-letter", "publish", "finish"]
)
def test_a_replay_that_is_killed_at_a_step_is_continued_without_loss_or_duplicate(
    corrected: Project, step: str
) -> None:
    with pytest.raises(Killed):
        replay(corrected, reached=kill_at(step))
    told = replay(corrected, dry_run=True)
    assert (told.finished, sum(told.reasons.values())) == (
        (3, 1) if step == "finish" else (0, 4)
    )
    found = replay(corrected)
    assert found.finished + found.done == 3
    assert [(each["id"], each["v"]) for each in corrected.rows("m", "id")] == [
        (0, "3"),
        (1, None),
        (2, "two"),
    ]
    assert letters(corrected) == DONE


def test_a_replay_leaves_the_batches_of_the_model_as_they_are(
    corrected: Project,
) -> None:
    batches = [each["lakesql.batch"] for each in corrected.summaries("m")]
    replay(corrected)
    corrected.record("s", [row(5)])
    corrected.run().check()
    found = [
        (each["lakesql.model"], each["lakesql.batch"])
        for each in corrected.summaries("m")
    ]
    assert found == [
        *(("m", batch) for batch in batches),
        ("m__replay", "0"),
        ("m", "1"),
    ]
    lose_checkpoint(corrected)
    corrected.run().check()
    assert [each["id"] for each in corrected.rows("m", "id")] == [0, 1, 2, 5]


def test_letters_whose_replay_was_rolled_back_are_found_and_opened_as_the_docs_say(
    corrected: Project,
) -> None:
    docs = (REPOSITORY / "docs" / "recovery.md").read_text()
    count, update = (
        next(
            block
            for block in re.findall(r"```sql\n(.*?);\n```", docs, re.DOTALL)
            if block.startswith(word)
        )
        .replace("lake.shop.orders", corrected.table("m"))
        .replace("orders__replay", "m__replay")
        for word in ("SELECT replay", "UPDATE")
    )
    replay(corrected)
    assert corrected.sql(count) == []
    roll_back(corrected, "m", 1)
    assert replay(corrected).done == 0 and len(corrected.rows("m")) == 1
    assert [each["letters"] for each in corrected.sql(count)] == [3]
    corrected.lake.session.sql(update)
    assert corrected.sql(count) == []
    replay(corrected)
    assert [(each["id"], each["v"]) for each in corrected.rows("m", "id")] == [
        (0, "3"),
        (1, None),
        (2, "two"),
    ]
    assert letters(corrected) == DONE


def test_a_second_replay_that_came_between_is_not_written_over(
    corrected: Project,
) -> None:
    """As a runner that was paused before it published, and wakes up after another has
    replayed the letters."""

    def overtake(_: str, step: str) -> None:
        if step == "publish":
            replay(corrected)

    with pytest.raises(RunError) as caught:
        replay(corrected, reached=overtake)
    assert caught.value.problems[0].condition == "batch-published"
    assert len(corrected.rows("m")) == 3 and letters(corrected) == DONE


def test_in_mode_upsert_a_replayed_record_does_not_overwrite_a_newer_row(
    project: Project,
) -> None:
    project.stream("s", STRICT)
    project.model(
        "m",
        "SELECT id, cast(v AS string) AS v, at FROM {s}",
        mode="upsert",
        keys="id",
        sequence_by="at",
    )
    project.record(
        "s",
        [
            row(1, "old", 1),
            row(2, "new", 5),
            row(3, "only", 1),
            row(1, 10, 3),
            row(2, 20, 2),
        ],
    )
    project.run().check()
    assert len(letters(project)) == 3
    project.stream("s", LENIENT)
    assert replay(project).done == 3
    assert {each["id"]: each["v"] for each in project.rows("m")} == {
        1: "10",
        2: "new",
        3: "only",
    }


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_lines_of_files_are_replayed_equal_ones_too(
    project: Project, format_: str
) -> None:
    project.stream("s", {"id": "int"}, path="landing", format=format_)
    project.model("m", "SELECT cast(id AS string) AS id FROM {s}", mode="append")
    line = json.dumps({"id": "x"}) if format_ == "json" else "x"
    project.write(f"landing/a.{format_}", f"{line}\n{line}\n")
    refuse_all(project)
    assert project.reasons("m") == {"unparsable": 2}
    project.stream("s", {"id": "string"}, path="landing", format=format_)
    assert replay(project).done == 2
    assert [each["id"] for each in project.rows("m")] == ["x", "x"]


def test_letters_of_several_streams_are_replayed_together(project: Project) -> None:
    for name in "ab":
        project.stream(name, {"id": "int"})
        project.record(name, [{"id": name}])
    union = "SELECT cast(id AS string) AS id FROM {a} UNION ALL SELECT cast(id AS string) FROM {b}"
    project.model("m", union, mode="append")
    refuse_all(project)
    for name in "ab":
        project.stream(name, {"id": "string"})
    assert replay(project).done == 2
    assert [each["id"] for each in project.rows("m", "id")] == ["a", "b"]


IMPOSSIBLE: dict[str, tuple[str, dict[str, Any]]] = {
    "state": (
        "SELECT v AS id, count(*) AS n FROM {s} GROUP BY v",
        {"mode": "upsert", "keys": "id"},
    ),
    "arrival decides": ("SELECT * FROM {s}", {"mode": "upsert", "keys": "id"}),
    "headers": ("SELECT id, _record.headers AS h FROM {s}", {"mode": "append"}),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_right_is_refused(project: Project, case: str) -> None:
    select, config = IMPOSSIBLE[case]
    project.stream("s", STRICT)
    project.model("m", select, **config)
    with pytest.raises(RunError) as caught:
        replay(project)
    (problem,) = caught.value.problems
    assert (
        problem.condition == "replay-impossible" and "lakesql rebuild m" in problem.fix
    )
    assert problem.place is not None and problem.place.path == "models/m.sql"


def test_the_letters_of_rows_and_of_a_mirror_are_refused(project: Project) -> None:
    project.stream("s", STRICT, path="landing/*.parquet", format="parquet")
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.stream("c", {"id": "int"}, envelope="debezium", key=["id"])
    project.model("mirror", "SELECT id FROM {c}", mode="cdc", keys="id")
    for name in ("m", "mirror"):
        with pytest.raises(RunError) as caught:
            replay(project, name)
        assert caught.value.problems[0].condition == "replay-impossible"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_change_that_is_read_late_changes_nothing_that_is_newer(
    project: Project, dry_run: bool
) -> None:
    columns = {
        "id": {"type": "int", "required": True},
        "v": {"type": "int", "required": True},
    }
    project.stream("c", columns, envelope="debezium", key=["id"])
    select = "SELECT id, v, _change.position AS at FROM {c}"
    project.model("m", select, mode="cdc", keys="id", sequence_by="_change.position")
    project.model("h", select, mode="scd2", keys="id", sequence_by="_change.position")

    def change(op: str, id_: int, v: int | None, at: int) -> Fields:
        key, row = {"id": id_}, {"id": id_, "v": v}
        value = {
            "op": op,
            "before": row if op == "d" else None,
            "after": None if op == "d" else row,
        }
        return Fields(key=key, value={**value, "source": {"lsn": at}})

    bad = [change("u", 1, None, 5), change("u", 2, None, 6), change("u", 3, None, 7)]
    project.record(
        "c", [change("c", 1, 1, 1), *bad, change("d", 2, 2, 8), change("u", 3, 3, 9)]
    )
    project.run().check()
    project.stream("c", {"id": "int", "v": "int"}, envelope="debezium", key=["id"])
    for name in ("m", "h"):
        found = replay(project, name, dry_run=dry_run)
        assert (found.done, found.failing) == (3, {})
    if not dry_run:
        assert {row["id"]: row["v"] for row in project.rows("m")} == {1: None, 3: 3}
        assert [(row["id"], row["valid_to"]) for row in project.rows("h", "at")] == [
            (1, [5]),
            (1, None),
            (2, [8]),
            (3, [9]),
            (3, None),
        ]


def test_letters_of_a_table_that_was_written_in_another_mode_are_refused(
    corrected: Project,
) -> None:
    corrected.model(
        "m", "SELECT id, at FROM {s}", mode="upsert", keys="id", sequence_by="at"
    )
    with pytest.raises(RunError) as caught:
        replay(corrected)
    assert caught.value.problems[0].condition == "mode-changed"
    assert len(corrected.rows("m")) == 1


def test_the_command_says_what_it_did(corrected: Project) -> None:
    corrected.manifest()

    def lakesql(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "lakesql",
            *words,
            "--project-dir",
            str(corrected.directory),
        ]
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = lakesql("replay", "m", "--dry-run")
    assert (
        "4 dead letters" in told
        and "3 would be done, with 2 rows" in told
        and "1 would stay (1 unparsable)" in told
    )
    assert letters(corrected) == [(offset, False) for offset, _ in DONE]
    said = lakesql("replay", "m")
    assert "3 are done, with 2 rows" in said and letters(corrected) == DONE


def test_replaying_an_unknown_model_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["replay", "order", "--project-dir", str(REPOSITORY)]) == 2
    assert "error[unknown-model]" in capsys.readouterr().err
