"""`lakesql rewind` as a command: what it says, what it does, and what it leaves
alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakesql.cli.main import run_command
from tests.spark.project import Project
from tests.spark.test_ledger import (
    check,
    checkpoint,
    record,
    roll_back,
    tree,
    write_models,
)
from tests.spark.test_rebuild import break_off

REPOSITORY = Path(__file__).parents[2]


def lakesql(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "lakesql",
        *words,
        "--project-dir",
        str(project.directory),
    ]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240
    )


def test_rewind_repairs_a_rolled_back_model_and_keeps_the_old_checkpoint(
    project: Project,
) -> None:
    write_models(project)
    record(project, *range(3))
    project.run().check()
    roll_back(project, "a", 1)
    before = tree(project.directory / "checkpoints")

    told = lakesql(project, "rewind", "a", "--dry-run")
    assert (told.returncode, told.stderr) == (0, "")
    assert tree(project.directory / "checkpoints") == before

    done = lakesql(project, "rewind", "a")
    assert (done.returncode, done.stderr) == (0, "")
    (aside,) = checkpoint(project, "a").parent.glob("a.2*")
    assert str(aside) in done.stdout
    assert tree(aside) == {
        name.removeprefix("a/"): text
        for name, text in before.items()
        if name.startswith("a/")
    }
    project.run().check()
    check(project, range(3), ("a",))
    check(project, range(3), ("u",))


def test_a_rebuild_that_broke_off_behind_its_swap_is_finished_before_the_model_is_rewound(
    project: Project,
) -> None:
    write_models(project)
    record(project, *range(2))
    project.run().check()
    break_off(project, "finish-rebuild", "u")
    project.sql(f"DELETE FROM {project.table('u')}")

    told = lakesql(project, "rewind", "u", "--to", "start", "--dry-run")
    assert told.returncode == 1 and "rewind-impossible" in told.stderr
    assert project.has("u__rebuild")

    done = lakesql(project, "rewind", "u", "--to", "start")
    assert done.returncode == 0, done.stderr
    assert (
        not project.has("u__rebuild") and not checkpoint(project, "u__rebuild").exists()
    )
    project.run().check()
    check(project, range(2), ("u",))


@pytest.mark.parametrize("to", ["", "yesterday", "batch 5", "-1"])
def test_an_invalid_place_to_rewind_to_is_a_usage_error(
    to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["rewind", "orders", "--to", to]) == 2
    assert "error[usage]" in capsys.readouterr().err


def test_rewinding_an_unknown_model_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["rewind", "order", "--project-dir", str(REPOSITORY)]) == 2
    assert "error[unknown-model]" in capsys.readouterr().err
