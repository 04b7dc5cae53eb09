"""What `lakesql drop` removes, and what `lakesql ls --orphans` finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.run.state.drop import Dropper
from tests.spark.project import Project

COLUMNS = {"id": "bigint", "at": {"type": "timestamp", "required": False}}


@pytest.fixture
def filled(project: Project) -> Project:
    """Two models, of which `counted` keeps state; both have a dead letter."""
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.record(
        "s", [{"id": number, "at": "2026-03-01T12:00:00Z"} for number in range(3)]
    )
    project.record("s", ["no record"])
    project.model("kept", "SELECT id FROM {s}", mode="append")
    project.model(
        "counted",
        "SELECT id, count(*) AS n FROM {s} GROUP BY id",
        mode="upsert",
        keys=["id"],
    )
    project.run().check()
    return project


def dropper(project: Project) -> Dropper:
    return Dropper(project.manifest(), project.lake.session, project.lake.catalog)


def drop(project: Project, model: str) -> None:
    found = dropper(project)
    found.drop(model, found.find()[model], lambda text: None)


def test_everything_of_a_model_is_removed_and_nothing_of_another(
    filled: Project,
) -> None:
    location = Path(filled.iceberg("counted").location().removeprefix("file://"))
    assert list(location.rglob("*.parquet"))
    drop(filled, "counted")
    assert not filled.has("counted") and not filled.has("counted__dead_letter")
    assert not list(location.rglob("*.*"))
    assert filled.checkpoint_folders() == {"kept", "kept.lease"}
    assert len(filled.rows("kept")) == 3 and filled.reasons("kept").total() == 1


def test_a_dropped_model_is_filled_again_by_the_next_run(filled: Project) -> None:
    before = filled.rows("counted")
    drop(filled, "counted")
    filled.run().check()
    assert filled.rows("counted") == before
    assert filled.reasons("counted").total() == 1
    assert len(filled.rows("kept")) == 3


def test_what_a_drop_that_broke_off_has_left_is_removed_by_the_next(
    filled: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFiles, "remove_all", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            drop(filled, "counted")
    assert not filled.has("counted")
    assert {"counted", "counted__dead_letter"} < filled.checkpoint_folders()
    drop(filled, "counted")
    assert filled.checkpoint_folders() == {"kept", "kept.lease"}


def test_orphans_are_what_models_leave_whose_files_are_gone(filled: Project) -> None:
    assert dropper(filled).find_orphans() == {}
    (filled.directory / "models" / "counted.sql").unlink()
    ((model, remains),) = dropper(filled).find_orphans().items()
    assert model == "counted"
    assert [table.name for table in remains.tables] == [
        "counted",
        "counted__dead_letter",
    ]
    assert {Path(folder).name for folder in remains.folders} == {
        "counted",
        "counted__dead_letter",
        "counted.lease",
    }
    drop(filled, "counted")
    assert dropper(filled).find_orphans() == {}


def test_a_table_that_somebody_else_made_is_no_orphan(filled: Project) -> None:
    filled.sql(f"CREATE TABLE {filled.table('theirs')} (a int) USING iceberg")
    assert dropper(filled).find_orphans() == {}
    assert set(dropper(filled).find()) == {"kept", "counted"}


FORGETFUL = {
    "mode": "upsert",
    "keys": ["id"],
    "sequence_by": "seq",
    "delete_when": "gone",
}


def delete_one(project: Project, model: str = "m") -> None:
    """A model whose table remembers that the row 1 was deleted at 5; then its stream
    has a row 1 of 3 instead."""
    project.stream("s", {"id": "int", "seq": "int", "gone": "boolean"})
    project.record(
        "s", [{"id": 1, "seq": 5, "gone": True}, {"id": 2, "seq": 5, "gone": False}]
    )
    project.model(model, "SELECT id, seq, gone FROM {s}", **FORGETFUL)
    project.run().check()
    assert project.has(f"{model}__tombstones")
    project.record("s2", [{"id": 1, "seq": 3, "gone": False}])
    project.stream("s", {"id": "int", "seq": "int", "gone": "boolean"}, topic="s2")


def test_what_a_model_remembers_goes_with_it_though_its_file_is_gone(
    project: Project,
) -> None:
    delete_one(project)
    file = project.directory / "models" / "m.sql"
    text = file.read_text()
    file.unlink()
    (remains,) = dropper(project).find_orphans().values()
    assert [table.name for table in remains.tables] == ["m", "m__tombstones"]
    drop(project, "m")
    assert project.table_names() == set()
    file.write_text(text)
    project.run().check()
    assert [row["id"] for row in project.rows("m")] == [1]


def test_a_new_table_does_not_remember_what_was_deleted_from_one_that_is_gone(
    project: Project,
) -> None:
    delete_one(project)
    project.sql(f"DROP TABLE {project.table('m')} PURGE")
    shutil.rmtree(project.directory / "checkpoints")
    project.run().check()
    assert [row["id"] for row in project.rows("m")] == [1]


def test_a_table_of_another_project_that_has_a_model_of_the_name_stays(
    filled: Project, tmp_path: Path
) -> None:
    other = Project(filled.lake, tmp_path / "other", filled.namespace)
    other.stream("s", {"id": "bigint"})
    other.record("s", [{"id": 7}])
    other.model("kept", "SELECT id FROM {s}", mode="append", table="theirs")
    other.model("counted", "SELECT id FROM {s}", mode="append", table="theirs_too")
    other.run().check()
    (filled.directory / "models" / "counted.sql").unlink()
    for model, table in (("kept", "theirs"), ("counted", "theirs_too")):
        remains = dropper(filled).find()[model]
        assert [found.name for found in remains.tables] == [
            model,
            f"{model}__dead_letter",
        ]
        assert [found.name for found in remains.foreign] == [table]
        drop(filled, model)
        assert filled.table_names() & {model, table} == {table}
    assert dropper(filled).find_orphans().keys() == {"counted"}, (
        "nothing says that its project is another one"
    )


def test_a_table_that_a_model_has_had_goes_with_it(filled: Project) -> None:
    filled.model("kept", "SELECT id FROM {s}", mode="append", table="new")
    remains = dropper(filled).find()["kept"]
    assert [table.name for table in remains.tables] == [
        "kept",
        "kept__dead_letter",
    ] and not remains.foreign
