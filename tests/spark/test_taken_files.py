"""Files that are moved to an archive or deleted once a commit has their records: never
before, and none unread."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakesql.compile.build_select import build_select
from lakesql.engine.sources.move_files import (
    archived_place,
    delete_file,
    move_file,
    move_here,
    move_there,
)
from lakesql.errors import RunError
from lakesql.events import BatchCommitted, FilesLeftOut
from lakesql.run.state.rewind import rewind_model
from lakesql.run.streams.bind import bind_select
from lakesql.source.stream_state import SeenFile
from tests.spark.project import Project

pytestmark = pytest.mark.spark

COLUMNS: dict[str, Any] = {"id": {"type": "int", "required": True}, "at": "timestamp"}


def make(
    project: Project,
    select: str = "SELECT id FROM {s}",
    mode: str = "append",
    **options: Any,
) -> None:
    project.connections["disk"] = {"type": "files", "path": "disk"}
    options = {"after": "archive", "archive": "done", **options}
    path = options.pop("path", "in/**/*.json")
    given = {name: value for name, value in options.items() if value is not None}
    project.stream("s", COLUMNS, connection="disk", path=path, **given)
    project.model(
        "m", select, mode=mode, **({"keys": ["id"]} if mode == "upsert" else {})
    )


def write(project: Project, name: str, *ids: int, folder: str = "in") -> Path:
    rows = ({"id": id_, "at": f"2026-03-01T00:00:{id_:02}Z"} for id_ in ids)
    return project.write(
        f"disk/{folder}/{name}", "".join(f"{json.dumps(row)}\n" for row in rows)
    )


def names(project: Project, folder: str) -> set[str]:
    place = project.directory / "disk" / folder
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


def ids(project: Project) -> list[int]:
    return sorted(row["id"] for row in project.rows("m"))


def move_back(project: Project) -> None:
    disk = project.directory / "disk"
    shutil.copytree(disk / "done", disk, dirs_exist_ok=True)  # copies times, too
    shutil.rmtree(disk / "done")


@pytest.mark.parametrize("after", ["archive", "delete"])
def test_files_go_once_they_are_read_and_none_is_read_twice(
    project: Project, after: str
) -> None:
    make(project, after=after, archive="done" if after == "archive" else None)
    write(project, "1.json", 1, 2)
    write(project, "a b/day=3/ü+%.json", 3)
    write(project, "other.txt", 9)
    steps: list[tuple[str, set[str]]] = []

    ran = project.run(
        reached=lambda model, step: steps.append((step, names(project, "in")))
    ).check()

    assert all("1.json" in there for _, there in steps), (
        "nothing goes before the commit"
    )
    assert names(project, "in") == {"other.txt"}
    assert names(project, "done") == (
        {"in/1.json", "in/a b/day=3/ü+%.json"} if after == "archive" else set()
    )
    assert not ran.of(FilesLeftOut)
    write(project, "2.json", 4)
    project.run().check()
    project.run().check()
    assert ids(project) == [1, 2, 3, 4]
    assert names(project, "in") == {"other.txt"}
    assert len(names(project, "done")) == (3 if after == "archive" else 0)


@pytest.mark.parametrize("step", ["stage", "publish", "finish"])
def test_a_run_that_breaks_off_leaves_its_files_and_the_next_one_takes_them(
    project: Project, step: str
) -> None:
    make(project)
    write(project, "1.json", 1)

    def break_off(_: str, reached: str) -> None:
        if reached == step:
            raise RuntimeError("the machine is gone")

    assert not project.run(reached=break_off).succeeded
    assert names(project, "in") == {"1.json"} and not names(project, "done")

    project.run().check()

    assert ids(project) == [1]
    assert not names(project, "in") and names(project, "done") == {"in/1.json"}


def test_a_kill_between_the_commit_and_the_move_is_made_good(project: Project) -> None:
    make(project)
    for number in (1, 2, 3):
        write(project, f"{number}.json", number)
    project.run().check()
    move_back(project)  # as after a kill behind the commit
    (project.directory / "disk/in/2.json").unlink()  # somebody has taken it
    write(project, "in/3.json", 3, folder="done")
    stamp = (project.directory / "disk/in/3.json").stat()
    # half a move
    os.utime(
        project.directory / "disk/done/in/3.json",
        ns=(stamp.st_atime_ns, stamp.st_mtime_ns),
    )

    ran = project.run().check()

    assert ids(project) == [1, 2, 3]
    assert not names(project, "in") and names(project, "done") == {
        "in/1.json",
        "in/3.json",
    }
    assert not ran.of(BatchCommitted) and not ran.of(FilesLeftOut)


def test_a_file_that_was_not_read_as_it_is_stays(project: Project) -> None:
    make(project)
    write(project, "1.json", 1)
    project.run().check()
    changed = write(project, "1.json", 7)  # the same name again: Spark knows it
    other = write(project, "in/2.json", 8, folder="done")
    write(project, "2.json", 2)

    ran = project.run().check()

    assert ids(project) == [1, 2]
    assert changed.exists(), "it was not read"
    assert [event.stream for event in ran.of(FilesLeftOut)] == ["s"]
    assert json.loads(other.read_text())["id"] == 8, (
        "another file of that name is not written over"
    )
    (kept,) = (
        name
        for name in names(project, "done")
        if name.startswith("in/2.") and name != "in/2.json"
    )
    assert json.loads((project.directory / "disk/done" / kept).read_text())["id"] == 2


def test_a_file_that_nobody_can_read_stays_for_good(project: Project) -> None:
    options = {
        "format": "parquet",
        "ignore_corrupt": "dead_letter",
        "after": "delete",
        "archive": None,
    }
    make(project, path="in/*.parquet", **options)
    (project.directory / "disk/in").mkdir(parents=True)
    pq.write_table(
        pa.table({"id": pa.array([1], pa.int32())}),
        project.directory / "disk/in/good.parquet",
    )
    project.write("disk/in/bad.parquet", b"PAR1 nothing of the kind" * 40)

    for _ in range(3):
        project.run().check()
        assert names(project, "in") == {"bad.parquet"}
    assert ids(project) == [1]
    assert project.reasons("m") == {"file-unreadable": 1}


def test_files_that_a_new_checkpoint_counts_as_read_are_not_taken(
    project: Project,
) -> None:
    make(project, mode="upsert", after="leave", archive=None)
    old = write(project, "old.json", 1)
    os.utime(old, (1_700_000_000, 1_700_000_000))
    write(project, "new.json", 2)
    project.run().check()
    manifest = project.manifest()
    rewind_model(
        manifest,
        project.lake.session,
        bind_select(manifest, build_select(manifest, "m")),
        1_710_000_000_000,
    )

    make(project, mode="upsert")
    for number in (3, 4):
        project.run().check()
        assert names(project, "in") == {"old.json"}
        write(project, f"{number}.json", number)
    project.run().check()

    assert ids(project) == [1, 2, 3, 4]
    assert names(project, "done") == {"in/new.json", "in/3.json", "in/4.json"}


def test_a_run_with_nothing_new_needs_no_java_and_warns_of_nothing(
    project: Project,
) -> None:
    make(project)
    write(project, "1.json", 1)
    project.run().check()

    (finished,) = project.run_without_java()
    assert finished.status == "success" and not finished.warnings
    assert not project.run().check().finished("m").warnings
    write(project, "2.json", 2)
    assert not project.run_without_java()


def test_a_continuous_run_takes_files_between_its_batches(project: Project) -> None:
    make(project)
    project.model("m", "SELECT id FROM {s}", mode="append", trigger="1 second")
    write(project, "1.json", 1)
    written = list[int]()

    def until() -> bool:
        if not written and names(project, "done") == {"in/1.json"}:
            write(project, "2.json", 2)
            written.append(2)
        return names(project, "done") == {"in/1.json", "in/2.json"}

    project.run(continuous=True, until=until).check()

    assert ids(project) == [1, 2] and not names(project, "in")


def test_files_of_a_stateful_model_go_when_its_dead_letters_are_written_too(
    project: Project,
) -> None:
    watermark = {"column": "at", "delay": "1 second"}
    make(
        project,
        "SELECT count(*) AS id FROM {s} GROUP BY window(at, '10 seconds')",
        watermark=watermark,
    )
    write(project, "1.json", 1, 2, 3)
    project.write("disk/in/2.json", '{"id": "x"}\n')
    project.run().check()
    write(project, "3.json", 40)
    project.run().check()

    assert ids(project) == [3]
    assert project.reasons("m") == {"unparsable": 1}
    assert not names(project, "in") and names(project, "done") == {
        "in/1.json",
        "in/2.json",
        "in/3.json",
    }


def test_a_rebuild_never_makes_a_smaller_table_in_silence(project: Project) -> None:
    make(project)
    write(project, "1.json", 1)
    write(project, "2.json", 2)
    project.run().check()
    write(project, "3.json", 3)

    assert project.rebuild("m").conditions("m") == ["files-taken"]
    # what it has read, the archive says then
    shutil.rmtree(project.directory / "checkpoints" / "m")
    assert project.rebuild("m").conditions("m") == ["files-taken"]
    assert ids(project) == [1, 2]

    move_back(project)
    project.rebuild("m").check()
    assert ids(project) == [1, 2, 3]
    assert names(project, "in") == {"1.json", "2.json", "3.json"}, (
        "a rebuild moves nothing"
    )
    project.run().check()
    assert not names(project, "in") and len(names(project, "done")) == 3
    project.rebuild("m", accept_data_loss=True).check()
    assert ids(project) == []


@pytest.mark.parametrize("to", ["start", 1_700_000_000_000])
def test_a_rewind_to_files_that_are_archived_is_refused(
    project: Project, to: Any
) -> None:
    make(project, mode="upsert")
    write(project, "1.json", 1)
    project.run().check()
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, "m"))

    with pytest.raises(RunError) as caught:
        rewind_model(manifest, project.lake.session, bound, to)
    assert [problem.condition for problem in caught.value.problems] == ["files-taken"]

    rewind_model(manifest, project.lake.session, bound, "ledger")
    write(project, "2.json", 2)
    project.run().check()
    assert ids(project) == [1, 2]
    assert not names(project, "in")


def seen(path: Path) -> SeenFile:
    return SeenFile(path.as_uri(), path.stat().st_mtime_ns // 1_000_000)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_move_by_either_way_loses_nothing(
    spark: SparkSession, tmp_path: Path, is_local: bool
) -> None:
    def move(file: SeenFile, target: Path) -> bool:
        if is_local:
            return move_here(Path(file.path.removeprefix("file://")), file, target)
        return move_there(spark, file, target.as_uri())

    source, target = tmp_path / "a" / "x.json.gz", tmp_path / "b" / "c" / "x.json.gz"
    source.parent.mkdir()
    source.write_text("one")
    file = seen(source)
    assert move(file, target) and not source.exists() and target.read_text() == "one"
    assert not move(file, target), "it is gone already"

    shutil.copy2(target, source)
    assert move(file, target) and not source.exists(), "the same file twice"

    source.write_text("two")
    assert not move(file, target) and source.exists(), "another file than was read"
    file = seen(source)
    assert move(file, target) and target.read_text() == "one"
    assert (target.parent / f"x.{file.modified_ms}.json.gz").read_text() == "two"

    (target.parent / f"x.{file.modified_ms}.json.gz").write_text("three")
    source.write_text("two")
    os.utime(source, ns=(file.modified_ms * 1_000_000, file.modified_ms * 1_000_000))
    with pytest.raises(OSError):
        move(file, target)
    assert source.read_text() == "two"


def test_a_file_is_deleted_as_it_was_read_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_text("one")
    file = seen(path)
    os.utime(path, (1, 1))
    assert not delete_file(spark, file) and path.exists()
    assert delete_file(spark, seen(path)) and not path.exists()
    assert not delete_file(spark, file) and not move_file(
        spark, file, str(tmp_path / "y")
    )


def test_an_archived_file_keeps_its_path_below_the_connection() -> None:
    assert (
        archived_place("/srv/x/", "done/a", "/srv/x/in/b c/1.json")
        == "/srv/x/done/a/in/b c/1.json"
    )
    assert (
        archived_place("s3a://bucket/x", "done", "/x/in/1.json")
        == "s3a://bucket/x/done/in/1.json"
    )
    assert archived_place("/srv/x", "done", "/srv/xy/1.json") is None
