"""A mode of two files, which the engine has never heard of, is run: each row once,
whatever comes twice."""

from __future__ import annotations

import shutil

import pytest

from lakesql.modes.all_modes import MODES
from lakesql.modes.batches.all_batches import BATCHES
from tests.spark.project import Project
from tests.types.insert_new import InsertNew
from tests.types.insert_new_batches import InsertNewBatches

pytestmark = pytest.mark.long


def test_the_first_row_of_each_key_stays(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODES, (InsertNew.mode, InsertNew.reads), InsertNew)
    monkeypatch.setitem(BATCHES, InsertNew, InsertNewBatches)
    project.stream("s", {"name": "string", "size": "bigint"})
    project.model(
        "m",
        "SELECT name, size FROM {s}",
        mode="insert_new",
        keys=["name"],
        ignored=["none"],
    )
    batches = [
        [("a", 1), ("b", 2), ("a", 3), ("none", 4)],
        [("b", 5), ("c", 6), (None, 7)],
        [("a", 8), ("none", 9)],
    ]
    firsts: dict[str, int] = {}
    for batch in batches:
        project.record("s", [{"name": name, "size": size} for name, size in batch])  # type: ignore[attr-defined]
        project.run("m").check()
        for name, size in batch:  # type: ignore[attr-defined]
            if name not in (None, "none"):
                firsts.setdefault(name, size)
    expected = [
        {"name": name, "size": size, "inserted": True}
        for name, size in sorted(firsts.items())
    ]
    assert sorted(project.rows("m"), key=lambda row: str(row["name"])) == expected
    assert project.reasons("m") == {"key-missing": 1}
    # Without a checkpoint it goes on from the ledger, and what is read again is there
    # already.
    shutil.rmtree(project.directory / "checkpoints", ignore_errors=True)
    project.record("s", [{"name": "a", "size": 10}])
    project.run("m").check()
    assert sorted(project.rows("m"), key=lambda row: str(row["name"])) == expected
