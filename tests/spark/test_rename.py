"""`lakesql rename`: a model of another name continues with what it had, wherever a
rename breaks off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakesql.errors import RunError
from lakesql.events import BatchCommitted, Noted
from lakesql.names import FORMER_PROPERTY
from lakesql.run.state.drop import Dropper
from lakesql.run.state.rename import Renamer
from tests.spark.project import Project

pytestmark = pytest.mark.long

COLUMNS = {
    "id": "bigint",
    "gone": {"type": "boolean", "required": False},
    "at": {"type": "timestamp"},
}
AT = "2026-03-01T12:00:00Z"
KINDS = {
    "append": ("SELECT id FROM {s}", {"mode": "append"}),
    "upsert": (
        "SELECT id, at, gone FROM {s}",
        {"mode": "upsert", "keys": ["id"], "sequence_by": "at", "delete_when": "gone"},
    ),
    "stateful": (
        "SELECT id, count(*) AS n FROM {s} GROUP BY id",
        {"mode": "upsert", "keys": ["id"]},
    ),
}


class BreakOffError(Exception):
    """A rename is killed here."""


def value(id_: int, gone: bool = False) -> dict[str, object]:
    return {"id": id_, "gone": gone, "at": AT}


def fill(project: Project, kind: str, name: str = "old", **more: object) -> None:
    select, config = KINDS[kind]
    project.model(name, select, **{**config, **more})


@pytest.fixture
def begun(project: Project) -> Project:
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.record("s", [value(1), value(2), value(3, gone=True), "no record"])
    return project


def move(project: Project, old: str = "old", new: str = "new") -> None:
    """What `git mv` does."""
    (project.directory / "models" / f"{old}.sql").rename(
        project.directory / "models" / f"{new}.sql"
    )


def rename(
    project: Project, old: str = "old", new: str = "new", break_at: int | None = None
) -> list[str]:
    """The steps that were reached, of which the one of the number `break_at` was not
    taken."""
    steps: list[str] = []

    def reached(step: str) -> None:
        if len(steps) == break_at:
            raise BreakOffError
        steps.append(step)

    Renamer(
        project.manifest(),
        project.lake.session,
        project.lake.catalog,
        lambda text: None,
        reached,
    ).rename(old, new)
    return steps


def ids(project: Project, name: str) -> list[int]:
    return sorted(row["id"] for row in project.rows(name))


def rows_after(kind: str) -> list[int]:
    """What the table has after the records 1 to 6, of which 2 came twice and 3 was
    deleted."""
    return {"append": [1, 2, 2, 3, 4], "upsert": [1, 2, 4], "stateful": [1, 2, 3, 4]}[
        kind
    ]


@pytest.mark.parametrize("keeps_table", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_doubled_wherever_a_rename_breaks_off(
    begun: Project, kind: str, keeps_table: bool
) -> None:
    fill(begun, kind, table="t" if keeps_table else "old")
    begun.run().check()
    table = "t" if keeps_table else "new"
    before = begun.iceberg("t" if keeps_table else "old").metadata.table_uuid
    fill(begun, kind, table="t" if keeps_table else "new")
    move(begun)
    steps = 0
    while True:
        try:
            rename(begun, break_at=steps)
        except BreakOffError:
            steps += 1
            # the first step is not taken yet: nothing says that there is a rename
            if steps > 1:
                ran = begun.run("new")
                assert ran.conditions("new") == ["rename-under-way"]
                assert "lakesql rename old new" in ran.finished("new").problems[0].fix
            continue
        break
    assert steps > 6
    assert begun.iceberg(table).metadata.table_uuid == before
    assert begun.checkpoint_folders() - {"new__dead_letter"} == {"new", "new.lease"}
    beside = {"upsert": {f"{table}__tombstones"}}.get(kind, set())
    assert begun.table_names() == {table, f"{table}__dead_letter", *beside}
    assert begun.run().check().of(Noted, "new") == []
    begun.record("s", [value(2), value(4), "no record either"])
    begun.run().check()
    assert ids(begun, table) == rows_after(kind)
    assert begun.reasons(table).total() == 2
    refs = begun.iceberg(table).metadata.refs
    assert {name for name in refs if name != "main"} == {"lakesql_ledger_new"}
    assert (
        Dropper(begun.manifest(), begun.lake.session, begun.lake.catalog).find_orphans()
        == {}
    )


def test_a_model_that_a_runner_has_is_not_renamed(begun: Project) -> None:
    fill(begun, "append")
    begun.run().check()
    begun.record("s", [value(2), value(4), "no record either"])
    found: list[str] = []

    def meet(event: object) -> None:
        if isinstance(event, BatchCommitted) and not found:
            move(begun)
            found.append(refused(begun))

    begun.run("old", meet=meet).check()
    assert found == ["lease-held"]
    assert begun.run().conditions("new") == [], "nothing says that there is a rename"
    assert ids(begun, "new") == ids(begun, "old") == rows_after("append")


@pytest.mark.parametrize("made", ["new.lease/renaming", "new/metadata"])
def test_a_rename_that_is_killed_is_finished_by_the_next_one(
    begun: Project, made: str
) -> None:
    fill(begun, "upsert")
    begun.run().check()
    fill(begun, "upsert", "new")
    (begun.directory / "models" / "old.sql").unlink()
    begun.manifest()  # which writes the profile
    command = [
        sys.executable,
        "-m",
        "lakesql",
        "rename",
        "old",
        "new",
        "--project-dir",
        str(begun.directory),
    ]
    process = subprocess.Popen(command, cwd=begun.directory, start_new_session=True)
    while not (begun.directory / "checkpoints" / made).exists():
        assert process.poll() is None, "it has ended before it began"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert begun.run("new").conditions("new") == ["rename-under-way"]
    rename(begun)
    assert begun.checkpoint_folders() - {"new__dead_letter"} == {"new", "new.lease"}
    begun.record("s", [value(2), value(4), "no record either"])
    begun.run().check()
    assert ids(begun, "new") == rows_after("upsert")
    assert begun.reasons("new").total() == 2


def test_a_batch_that_crashed_before_the_rename_is_written_once_after_it(
    begun: Project,
) -> None:
    fill(begun, "append")
    begun.run().check()
    begun.record("s", [value(4), "no record"])
    begun.run().check()
    begun.forget("old")
    begun.sql(
        f"CALL lake.system.rollback_to_snapshot('{begun.namespace}.old', {begun.snapshot_ids('old')[0]})"
    )
    assert ids(begun, "old") == [1, 2, 3], (
        "the dead letter of its batch is there, and its rows are not"
    )
    move(begun)
    rename(begun)
    begun.run().check()
    assert ids(begun, "new") == [1, 2, 3, 4]
    assert begun.reasons("new").total() == 2


def test_who_streams_the_table_continues_where_it_stands(begun: Project) -> None:
    fill(begun, "append")
    begun.model("reader", "SELECT id FROM {old}", mode="append")
    begun.run().check()
    begun.record("s", [value(4)])
    begun.run("old").check()
    move(begun)
    begun.model("reader", "SELECT id FROM {new}", mode="append")
    rename(begun)
    begun.run().check()
    begun.record("s", [value(5)])
    begun.run().check()
    begun.run().check()
    assert ids(begun, "reader") == [1, 2, 3, 4, 5]
    move(begun, "new", "newest")
    begun.model("reader", "SELECT id FROM {newest}", mode="append")
    rename(begun, "new", "newest")
    begun.record("s", [value(6)])
    begun.run().check()
    assert ids(begun, "reader") == [1, 2, 3, 4, 5, 6]


def test_a_model_may_have_its_old_name_back(begun: Project) -> None:
    fill(begun, "append")
    begun.run().check()
    move(begun)
    rename(begun)
    move(begun, "new", "old")
    rename(begun, "new", "old")
    begun.record("s", [value(4)])
    begun.run().check()
    assert ids(begun, "old") == [1, 2, 3, 4]
    assert begun.iceberg("old").metadata.properties[FORMER_PROPERTY] == "new"


def test_a_renamed_model_with_the_old_table_is_refused_until_it_is_said_what_that_is(
    begun: Project,
) -> None:
    fill(begun, "append")
    begun.run().check()
    fill(begun, "append", table="old")
    move(begun)
    for _ in range(2):
        ran = begun.run()
        assert ran.conditions("new") == ["table-of-another"]
        assert "lakesql rename old new" in ran.finished("new").problems[0].fix
        assert ids(begun, "old") == [1, 2, 3]
    rename(begun)
    begun.record("s", [value(4)])
    begun.run().check()
    assert ids(begun, "old") == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["upsert", "stateful"])
def test_a_renamed_model_that_merges_may_begin_anew_with_the_old_table(
    begun: Project, kind: str
) -> None:
    fill(begun, kind)
    begun.run().check()
    fill(begun, kind, table="old")
    move(begun)
    begun.run().check()
    assert ids(begun, "old") == ([1, 2] if kind == "upsert" else [1, 2, 3])


def refused(project: Project, old: str = "old", new: str = "new") -> str:
    before = project.checkpoint_folders(), project.table_names()
    with pytest.raises(RunError) as raised:
        rename(project, old, new)
    assert (project.checkpoint_folders(), project.table_names()) == before
    return raised.value.problems[0].condition


def test_what_a_rename_would_mix_or_leave_behind_is_refused(begun: Project) -> None:
    fill(begun, "append")
    begun.run().check()
    assert refused(begun, "old", "old") == "rename-impossible", (
        "the file has its old name still"
    )
    move(begun)
    assert refused(begun, "other", "new") == "rename-impossible", (
        "there is nothing of that name"
    )
    begun.run().check()
    assert refused(begun) == "rename-impossible", "the new name has begun"


def test_a_rebuild_that_is_not_done_is_finished_before_a_rename(begun: Project) -> None:
    fill(begun, "append")
    begun.run().check()

    def reached(model: str, step: str) -> None:
        if step == "hand-over":
            raise BreakOffError

    begun.rebuild("old", reached=reached)
    move(begun)
    assert refused(begun) == "rename-impossible"


def test_checkpoints_that_a_rewind_has_kept_go_along(begun: Project) -> None:
    fill(begun, "upsert")
    begun.run().check()
    kept = begun.directory / "checkpoints" / "old.20260301T120000.000000Z"
    (begun.directory / "checkpoints" / "old").rename(kept)
    begun.run().check()
    move(begun)
    rename(begun)
    assert begun.checkpoint_folders() == {
        "new",
        "new.lease",
        "new.20260301T120000.000000Z",
    }
    kept = kept.with_name("new.20260301T120000.000000Z")
    assert json.loads(Path(kept, "lakesql.json").read_text())["model"] == "new"
