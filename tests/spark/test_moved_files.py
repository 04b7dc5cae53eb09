"""Files that a model has read, and that are elsewhere now."""

from __future__ import annotations

import os
import shutil

import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.progress.seen_files import settle_files
from lakesql.events import Noted
from lakesql.progress.state import query_identities
from lakesql.run.streams.bind import bind_select
from tests.spark.project import Project

COLUMNS = {"id": "bigint", "k": "string"}


@pytest.fixture
def landed(project: Project) -> Project:
    """A model that has read three files of a landing folder, the last one in a batch of
    its own."""
    project.stream("s", COLUMNS, path="landing/*.json", format="json")
    project.model("m", "SELECT id, k FROM {s}", mode="append")
    land(project, "landing/a.json", 1)
    land(project, "landing/b b.json", 2)
    project.run().check()
    land(project, "landing/c.json", 3)
    project.run().check()
    return project


def land(project: Project, path: str, *ids: int) -> None:
    project.write(path, "".join(f'{{"id": {number}, "k": "x"}}\n' for number in ids))


def ids(project: Project, model: str = "m") -> list[int]:
    return [row["id"] for row in project.rows(model, "id")]


def settle(project: Project, are_same: bool, model: str = "m") -> int:
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, model))
    folder = manifest.target.checkpoint_of(model)
    found = query_identities(bound.select, folder)
    return sum(
        settle_files(project.lake.session, each.folder, bound.bindings, are_same)
        for each in found
    )


def read_from(project: Project, path: str) -> None:
    project.stream("s", COLUMNS, path=path, format="json")


@pytest.mark.parametrize("are_same", [True, False])
@pytest.mark.parametrize(
    ("pattern", "copied"), [("/*.json", True), ("/*.json", False), ("", True)]
)
def test_a_renamed_folder_is_refused_until_somebody_says_what_it_holds(
    landed: Project, are_same: bool, pattern: str, copied: bool
) -> None:
    read_from(landed, f"landing{pattern}")
    landed.run().check()
    if copied:
        shutil.copytree(
            landed.directory / "landing",
            landed.directory / "incoming",
            copy_function=shutil.copyfile,
        )
        shutil.rmtree(landed.directory / "landing")
    else:
        (landed.directory / "landing").rename(landed.directory / "incoming")
    read_from(landed, f"incoming{pattern}")
    ran = landed.run()
    assert ran.conditions("m") == ["files-moved"]
    assert all(
        path in ran.finished("m").problems[0].what
        for path in ("landing/c.json", "incoming/c.json")
    )
    assert ids(landed) == [1, 2, 3]
    assert settle(landed, are_same) == 1
    land(landed, "incoming/d.json", 4)
    landed.run().check()
    assert ids(landed) == ([1, 2, 3, 4] if are_same else [1, 1, 2, 2, 3, 3, 4])
    landed.run().check()
    assert settle(landed, are_same) == 0


@pytest.mark.parametrize("are_same", [True, False])
def test_a_copied_folder_is_refused_while_the_original_is_still_there(
    landed: Project, are_same: bool
) -> None:
    shutil.copytree(
        landed.directory / "landing",
        landed.directory / "incoming",
        copy_function=shutil.copyfile,
    )
    read_from(landed, "incoming/*.json")
    assert landed.run().conditions("m") == ["files-moved"]
    assert ids(landed) == [1, 2, 3]
    assert settle(landed, are_same) == 1
    land(landed, "incoming/d.json", 4)
    landed.run().check()
    assert ids(landed) == ([1, 2, 3, 4] if are_same else [1, 1, 2, 2, 3, 3, 4])


def test_a_folder_renamed_within_the_pattern_is_refused_too(project: Project) -> None:
    read_from(project, "landing/*/*.json")
    project.model("m", "SELECT id, k FROM {s}", mode="append")
    land(project, "landing/old/a.json", 1)
    project.run().check()
    (project.directory / "landing" / "old").rename(
        project.directory / "landing" / "new"
    )
    assert project.run().conditions("m") == ["files-moved"]


def test_files_that_were_removed_make_room_for_others_of_their_names(
    project: Project,
) -> None:
    read_from(project, "landing/*/*.json")
    project.model("m", "SELECT id, k FROM {s}", mode="append")
    land(project, "landing/monday/a.json", 1)
    os.utime(
        project.directory / "landing/monday/a.json", (1_700_000_000, 1_700_000_000)
    )
    project.run().check()
    shutil.rmtree(project.directory / "landing" / "monday")
    land(project, "landing/tuesday/a.json", 2)
    project.run().check()
    assert ids(project) == [1, 2]


def test_a_folder_and_a_pattern_are_no_uri(project: Project) -> None:
    """Of which a part after `?` or `#` would be no path."""
    read_from(project, "landing #1/part-?.json")
    project.model("m", "SELECT id, k FROM {s}", mode="append")
    for number in (1, 2):
        land(project, f"landing #1/part-{number}.json", number)
    project.run().check()
    assert not any("moved" in noted.text for noted in project.run().check().of(Noted))
    (project.directory / "landing #1/part-2.json").unlink()
    land(project, "landing #1/part-3.json", 3)
    project.run().check()
    assert ids(project) == [1, 2, 3]


def test_a_connection_that_moves_with_its_files_is_followed(project: Project) -> None:
    """Recorded topics; a stateful model keeps its state, and each bad record stays one
    dead letter."""
    project.connections["broker"] = {"type": "recorded", "path": "recorded"}
    project.stream("s", COLUMNS)
    project.record("s", [{"id": 1, "k": "a"}, "bad", {"id": 2, "k": "a"}])
    project.model("m", "SELECT id, k FROM {s}", mode="append")
    project.model(
        "n", "SELECT k, count(*) AS n FROM {s} GROUP BY k", mode="upsert", keys=["k"]
    )
    project.run().check()
    (project.directory / "recorded").rename(project.directory / "re corded")
    project.connections["broker"] = {"type": "recorded", "path": "re corded"}
    ran = project.run().check()
    assert ids(project) == [1, 2]
    assert project.rows("n") == [{"k": "a", "n": 2}]
    assert [event.rows for event in map(ran.finished, ("m", "n"))] == [0, 0]
    (project.directory / "re corded").rename(project.directory / "recorded")
    project.connections["broker"] = {"type": "recorded", "path": "recorded"}
    project.record("s", [{"id": 3, "k": "a"}])
    project.run().check()
    assert ids(project) == [1, 2, 3]
    assert project.rows("n") == [{"k": "a", "n": 3}]
    assert project.reasons("m").total() == project.reasons("n").total() == 1
