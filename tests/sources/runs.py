"""Runs of a model `m` over a queue: what it has, runners that are killed as tests/crash
kills them, and two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from lakesql.cli.main import run_command
from lakesql.source.origin import recorded_folder
from tests.spark.project import Project

REPOSITORY = Path(__file__).parents[2]
STEPS = ("look-up", "stage", "publish", "finish")


class Sender(Protocol):
    """A topic, and the numbers of what was sent to it."""

    sent: list[int]

    def send(self, count: int) -> None:
        """So many records more, with the next numbers."""


def numbers(project: Project) -> list[int]:
    """Those that the model has, in their order, each as often as it is there."""
    return [row["id"] for row in project.rows("m", "id")]


def lose_checkpoint(project: Project) -> None:
    """The model goes on by its table's ledger."""
    (project.directory / "checkpoints" / "m").rename(project.directory / "gone")


def check_kills(
    project: Project, topic: Sender, after: Callable[[str], None] = lambda step: None
) -> None:
    """Each record is there once, whatever step a runner is killed at, and without the
    checkpoint that it wrote."""
    topic.send(20)
    project.run().check()
    for step in STEPS:
        topic.send(20)
        kill_at(project, step)
        topic.send(5)
        after(step)
    project.run().check()
    assert numbers(project) == topic.sent
    lose_checkpoint(project)
    topic.send(20)
    project.run().check()
    assert numbers(project) == topic.sent


def kill_at(project: Project, step: str, model: str = "m") -> None:
    """Run a model until it reaches a step of its next batch, and kill Python and Java
    there."""
    order = {
        "project": str(project.directory),
        "model": model,
        "step": step,
        "fate": "kill-both",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.runner", str(project.directory)],
        cwd=REPOSITORY,
        input=f"{json.dumps(order)}\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == -signal.SIGKILL, f"{ended.stdout}{ended.stderr}"


def run_two(project: Project) -> None:
    """Run a project by two processes at once: one of them may find that the other has a
    model's lease."""
    project.manifest()
    order = json.dumps({"project": str(project.directory)})
    line = [sys.executable, "-m", "tests.crash.runner", str(project.directory)]
    both = [
        subprocess.Popen(
            line,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for each in both:
        assert each.stdin is not None
        each.stdin.write(f"{order}\n")
        each.stdin.close()
    said = [each.stdout.read() for each in both if each.stdout is not None]
    assert all(each.wait(300) == 0 for each in both), said


def check_samples(
    project: Project, topic: str, ids: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`record` gives a target without the broker some of the last 30 numbers, which
    were sent at once, and `infer` finds their column."""
    project.manifest()
    profiles = json.loads((project.directory / "profiles.yml").read_text())
    outputs = profiles[project.profile]["outputs"]
    recorded = {"bus": {"type": "recorded", "path": "recorded"}}
    outputs["prod"] = outputs["dev"]
    outputs["dev"] = {**outputs["dev"], "connections": recorded}
    (project.directory / "profiles.yml").write_text(json.dumps(profiles))
    monkeypatch.chdir(project.directory)

    assert run_command(["record", "s", "--target", "prod", "--rows", "10"]) == 0
    assert run_command(["record", "s", "--target", "prod", "--rows", "10"]) == 2, (
        "there is a recording"
    )
    asked = [
        "infer",
        topic,
        "--connection",
        "bus",
        "--target",
        "prod",
        "--name",
        "found",
    ]
    assert run_command([*asked, "--output", "found.yml"]) == 0

    assert "id: " in (project.directory / "found.yml").read_text()
    (file,) = (project.directory / "recorded" / recorded_folder(topic)).glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    newest = sorted(line["value"]["id"] for line in lines)
    assert len({*newest}) == 10 and {*newest} <= {*ids[-30:]}, (
        "of one millisecond any may be the newest"
    )
    places = [(line["partition"], line["offset"]) for line in lines]
    assert len({*places}) == len(places), "each record has a place of its own"
    project.connections["bus"] = recorded["bus"]
    project.model("again", "SELECT id, _record.topic AS topic FROM {s}", mode="append")
    project.run("again").check()
    assert [row["id"] for row in project.rows("again", "id")] == newest


STARTS_A_PROCESS = 77

_RUN_ALONE = f"""
import os, sys
def look(event, words):
    if event == "subprocess.Popen":
        os._exit({STARTS_A_PROCESS})
from lakesql.cli.main import run_command
sys.addaudithook(look)
sys.exit(run_command(["run"]))
"""


def run_alone(project: Project) -> int:
    """How `lakesql run` ends in a process of its own, which is ended as it starts
    another one: Java's."""
    project.manifest()
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", _RUN_ALONE]
    ended = subprocess.run(
        command,
        cwd=project.directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode in (0, STARTS_A_PROCESS), f"{ended.stdout}{ended.stderr}"
    return ended.returncode
