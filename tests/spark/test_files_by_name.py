"""Folders of files whose names grow: each file is read once, in their order, and none
that comes late in silence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.events import BatchCommitted, FilesLate, FilesLeftOut
from lakesql.run.state.rewind import rewind_model
from lakesql.run.streams.bind import bind_select
from tests.spark.project import Project, Ran
from tests.spark.test_new_source import command, kill_at

pytestmark = pytest.mark.spark

ALWAYS, NEVER = "1 millisecond", "1000 days"


def make(project: Project, **options: Any) -> None:
    project.connections["disk"] = {"type": "files", "path": "disk"}
    given = {
        "path": "in/**/*.json",
        "ordered_by": "name",
        "list_all_every": ALWAYS,
        **options,
    }
    given = {key: value for key, value in given.items() if value is not None}
    columns = given.pop("columns", {"id": {"type": "int", "required": True}})
    project.stream("s", columns, connection="disk", **given)
    project.model("m", "SELECT id FROM {s}", mode="append")


def write(project: Project, name: str, *ids: int) -> Path:
    return project.write(
        f"disk/in/{name}", "".join(f"{json.dumps({'id': id_})}\n" for id_ in ids)
    )


def ids(project: Project) -> list[int]:
    return sorted(row["id"] for row in project.rows("m"))


def position(project: Project) -> Any:
    return json.loads(project.summaries("m")[-1]["lakesql.offsets"])["s"]


def late(ran: Ran) -> list[tuple[int, str]]:
    return [(event.files, event.why) for event in ran.check().of(FilesLate)]


def test_new_files_are_read_from_the_last_name_on(project: Project) -> None:
    make(project, list_all_every=NEVER)
    write(project, "2026-03-01/a b+%25.json", 1)
    write(project, "2026-03-02/ü[1].json", 2)
    write(project, "2026-03-02/_hidden.json", 99)
    ran = project.run().check()

    assert ids(project) == [1, 2]
    assert position(project)["last_name"] == "in/2026-03-02/ü[1].json"
    assert position(project)["files"] == 2
    (hidden,) = ran.of(FilesLeftOut)
    assert "_hidden.json" in hidden.why

    (finished,) = project.run_without_java()
    assert finished.status == "success" and not finished.warnings
    assert not project.run().check().of(BatchCommitted)
    write(project, "2026-03-02/ü[2].json", 3)
    assert not project.run_without_java()
    project.run().check()
    assert ids(project) == [1, 2, 3]
    assert list((project.directory / "checkpoints/m").glob("sources/0/*")) == [], (
        "Spark keeps no lists"
    )


@pytest.mark.parametrize("old", [False, True], ids=["now", "with an old time"])
def test_a_file_with_a_smaller_name_is_read_and_said(
    project: Project, old: bool
) -> None:
    make(project)
    for number in (1, 3, 5):
        write(project, f"{number}.json", number)
    project.run().check()
    came = write(project, "2.json", 2)
    if old:
        os.utime(came, (1_000_000_000, 1_000_000_000))
    write(project, "6.json", 6)

    ((files, why),) = late(project.run())

    assert files == 1 and "in/2.json" in why
    assert ids(project) == [1, 2, 3, 5, 6]
    assert not project.run().check().of(FilesLate), "it is known now"
    assert ids(project) == [1, 2, 3, 5, 6]


def test_it_is_found_when_all_files_are_listed(project: Project) -> None:
    make(project, list_all_every=NEVER)
    write(project, "2.json", 2)
    project.run().check()
    write(project, "1.json", 1)
    assert not late(project.run())

    make(project)  # so is it once the hour is over
    assert not project.run_without_java()
    assert [files for files, _ in late(project.run())] == [1]
    assert ids(project) == [1, 2]


def test_late_files_are_refused_where_the_stream_says_so(project: Project) -> None:
    make(project, late_files="refuse")
    write(project, "2.json", 2)
    project.run().check()
    came = write(project, "1.json", 1)
    write(project, "3.json", 3)

    for _ in range(2):
        assert project.run().conditions("m") == ["late-files"]
    assert ids(project) == [2]

    came.unlink()
    project.run().check()
    assert ids(project) == [2, 3]


def test_a_file_that_has_changed_is_not_read_again_and_said(project: Project) -> None:
    make(project)
    changed = write(project, "1.json", 1)
    project.run().check()
    changed.write_text('{"id": 1}\n{"id": 7}\n')
    os.utime(changed, (1_900_000_000, 1_900_000_000))
    (said,) = project.run().check().of(FilesLeftOut)
    assert "1.json" in said.why and ids(project) == [1]


def test_files_that_are_gone_are_forgotten(project: Project) -> None:
    make(project)
    for number in range(1, 5):
        write(project, f"{number}.json", number)
    project.run().check()
    for number in (1, 2):
        (project.directory / f"disk/in/{number}.json").unlink()
    write(project, "5.json", 5)
    assert not project.run().check().of(FilesLeftOut)
    assert ids(project) == [1, 2, 3, 4, 5]
    assert project.rebuild("m").conditions("m") == []


def test_batches_are_bounded(project: Project) -> None:
    make(project, max_per_batch=2)
    for number in range(6):
        write(project, f"{number}.json", number)
    ran = project.run().check()
    assert len(ran.of(BatchCommitted)) == 3
    assert ids(project) == [*range(6)]


def test_a_lost_checkpoint_continues_from_the_ledger_and_says_what_it_cannot_tell(
    project: Project,
) -> None:
    make(project)
    for number in (1, 2, 3):
        write(project, f"{number}.json", number)
    project.run().check()
    folder = project.directory / "checkpoints/m"
    shutil.rmtree(folder)
    write(project, "4.json", 4)
    ran = project.run().check()
    assert ids(project) == [1, 2, 3, 4] and not ran.of(FilesLeftOut), (
        "count and digest tell that none is late"
    )
    write(project, "0.json", 0)
    assert [files for files, _ in late(project.run())] == [1]

    shutil.rmtree(folder)
    write(project, "2-late.json", 9)
    said = project.run().check().of(FilesLeftOut)
    assert ["6 now; 5 had been read" in event.why for event in said] == [True]
    assert ids(project) == [0, 1, 2, 3, 4]


def test_a_rebuild_reads_all_and_misses_what_is_gone(project: Project) -> None:
    make(project)
    for number in (1, 2, 3):
        write(project, f"{number}.json", number)
    project.run().check()
    project.rebuild("m").check()
    write(project, "4.json", 4)
    assert not project.run().check().of(FilesLeftOut)
    assert ids(project) == [1, 2, 3, 4]
    (project.directory / "disk/in/1.json").unlink()
    assert project.rebuild("m").conditions("m") == ["data-lost"]
    project.rebuild("m", accept_data_loss=True).check()
    assert ids(project) == [2, 3, 4]
    project.run().check()
    assert ids(project) == [2, 3, 4]


def rewind(project: Project, to: Any, **options: Any) -> None:
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, "m"))
    rewind_model(manifest, project.lake.session, bound, to, **options)


def test_a_rewind_goes_back_to_the_ledger_or_to_a_time(project: Project) -> None:
    make(project)
    for number in (1, 2, 3):
        file = write(project, f"{number}.json", number)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        project.run().check()
    first = project.snapshot_ids("m")[0]
    project.sql(
        f"CALL lake.system.rollback_to_snapshot('{project.namespace}.m', {first})"
    )
    assert project.run().conditions("m") == ["table-behind"]
    rewind(project, "ledger")
    project.run().check()
    assert ids(project) == [1, 2, 3]

    rewind(project, 1_700_000_002_000, allow_duplicates=True)
    project.run().check()
    assert ids(project) == [1, 2, 2, 3, 3]


def test_a_stream_that_was_listed_as_a_whole_is_told_apart(project: Project) -> None:
    project.connections["disk"] = {"type": "files", "path": "disk"}
    project.stream("s", {"id": "int"}, connection="disk", path="in/**/*.json")
    project.model("m", "SELECT id FROM {s}", mode="append")
    old = write(project, "1.json", 1)
    os.utime(old, (1_700_000_000, 1_700_000_000))
    project.run().check()
    make(project)
    write(project, "2.json", 2)
    assert project.run().conditions("m") == ["streams-changed"]
    rewind(project, 1_700_000_001_000, allow_duplicates=True)
    project.run().check()
    assert ids(project) == [1, 2]


def test_a_planned_file_that_is_removed_is_left_out_and_said(project: Project) -> None:
    make(project)
    gone = write(project, "1.json", 1)
    write(project, "2.json", 2)

    def break_off(_: str, reached: str) -> None:
        if reached == "stage":
            raise RuntimeError("the machine is gone")

    assert not project.run(reached=break_off).succeeded
    gone.unlink()
    (said,) = project.run().check().of(FilesLeftOut)
    assert "in/1.json" in said.why
    assert ids(project) == [2]
    write(project, "1.json", 1)
    assert [files for files, _ in late(project.run())] == [1]
    assert ids(project) == [1, 2]


def test_parquet_and_unreadable_files(project: Project) -> None:
    make(
        project,
        path="in/*.parquet",
        format="parquet",
        ignore_corrupt="dead_letter",
        columns={"id": "int"},
    )
    (project.directory / "disk/in").mkdir(parents=True)
    for number in (1, 3):
        pq.write_table(
            pa.table({"id": pa.array([number], pa.int32())}),
            project.directory / f"disk/in/{number}.parquet",
        )
    project.write("disk/in/2.parquet", b"PAR1 nothing of the kind" * 40)
    project.write("disk/in/4.parquet", b"")
    project.run().check()
    assert ids(project) == [1, 3]
    assert project.reasons("m") == {"file-unreadable": 2}
    project.run().check()
    assert ids(project) == [1, 3]


def test_a_change_feed_is_applied_in_the_order_of_names(project: Project) -> None:
    project.connections["disk"] = {"type": "files", "path": "disk"}
    columns = {"id": {"type": "int", "required": True}, "v": "string"}
    project.stream(
        "s",
        columns,
        connection="disk",
        path="in/*.json",
        ordered_by="name",
        list_all_every=ALWAYS,
    )
    project.model("m", "SELECT id, v FROM {s}", mode="upsert", keys=["id"])
    for name, second in (("1", 30), ("2", 20), ("3", 10)):
        file = project.write(f"disk/in/{name}.json", json.dumps({"id": 1, "v": name}))
        os.utime(file, (1_700_000_000 + second, 1_700_000_000 + second))
        project.run().check()
    assert [row["v"] for row in project.rows("m")] == ["3"]


@contextmanager
def breaking_off(random: Random) -> Iterator[None]:
    """A process whose checkpoint cannot be written from a random place on, as if it was
    killed there."""
    left, write, is_over = random.randint(0, 12), CheckpointFiles.write, False

    def count_down(files: CheckpointFiles, name: str, text: str) -> None:
        nonlocal left, is_over
        is_over = is_over or (
            left == 0 and name.startswith(("listed/", "offsets/", "commits/"))
        )
        left -= left > 0
        if is_over:
            raise OSError("the machine is gone")
        write(files, name, text)

    with mock.patch.object(CheckpointFiles, "write", count_down):
        yield


@pytest.mark.parametrize("seed", range(4))
def test_each_file_is_read_once_whatever_comes_late_and_wherever_it_breaks(
    project: Project, seed: int
) -> None:
    random, written, said = Random(seed), list[int](), 0
    make(project, path="in/*/*.json", max_per_batch=3)

    def arrive() -> None:
        for _ in range(random.randint(0, 4)):
            number = len(written)
            written.append(number)
            day = (
                random.randint(1, 3 + number // 5)
                if random.random() < 0.3
                else 3 + number // 5
            )
            write(project, f"2026-03-{day:02}/{number:03}.json", number)

    for _ in range(6):
        arrive()
        step = random.choice(["stage", "publish", "finish", "write", None])

        def break_off(_: str, reached: str, step: str | None = step) -> None:
            if reached == step and random.random() < 0.7:
                raise RuntimeError("the machine is gone")

        with breaking_off(random) if step == "write" else nullcontext():
            ran = project.run(reached=break_off)
        said += len(ran.of(FilesLate))
        if random.random() < 0.3:
            arrive()
    project.run().check()
    project.run().check()
    assert ids(project) == written
    assert said, "some came late"


def test_a_plan_says_what_another_way_to_find_files_means(project: Project) -> None:
    make(project)
    write(project, "1.json", 1)
    project.run().check()
    directory = ("--project-dir", str(project.directory))

    def plan() -> tuple[int, str]:
        done = command(
            "plan", "--state", str(project.directory / "before"), "--live", *directory
        )
        return done.returncode, f"{done.stdout}{done.stderr}"

    assert command("parse", *directory).returncode == 0
    (project.directory / "target").rename(project.directory / "before")
    assert plan()[0] == 0
    make(project, late_files="refuse", list_all_every="2 hours")
    code, said = plan()
    assert (
        code == 0
        and "come late end the model" in said
        and "listed every 2 hours" in said
    )
    make(project, ordered_by=None, list_all_every=None)
    _, said = plan()
    assert "breaks" in said and "streams-changed" in said and "listed every" not in said


def test_a_kill_at_each_step_loses_and_doubles_nothing(project: Project) -> None:
    make(project)
    project.manifest()  # writes the profile
    wanted = list[int]()
    for number, step in enumerate(("stage", "publish", "finish")):
        write(project, f"{number + 5}.json", number + 5)
        write(project, f"{4 - number}.json", 4 - number)
        wanted += [number + 5, 4 - number]
        kill_at(project, step)
    project.run().check()
    assert ids(project) == sorted(wanted)
