"""Runners that are killed at a step of a batch, as tests/crash has them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.spark.project import Project

REPOSITORY = Path(__file__).parents[2]


def kill_at(project: Project, step: str, model: str = "m") -> None:
    """Run a model until it reaches a step of its next batch, and kill Python and Java there."""
    order = {"project": str(project.directory), "model": model, "step": step, "fate": "kill-both"}
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
    """Run a project by two processes at once: one of them may find that the other has a model's lease."""
    project.manifest()
    order = json.dumps({"project": str(project.directory)})
    line = [sys.executable, "-m", "tests.crash.runner", str(project.directory)]
    both = [
        subprocess.Popen(line, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for each in both:
        assert each.stdin is not None
        each.stdin.write(f"{order}\n")
        each.stdin.close()
    said = [each.stdout.read() for each in both if each.stdout is not None]
    assert all(each.wait(300) == 0 for each in both), said
