"""Ctrl-C and SIGTERM end a run between two batches: quietly, with exit code 0, and with nothing lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_continuous_run_between_batches(number: signal.Signals, tmp_path: Path) -> None:
    for folder in ("models", "streams", "macros"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    for file in ("profiles.yml", "pyproject.toml"):
        shutil.copy(REPOSITORY / file, tmp_path)
    command = [sys.executable, "-m", "lakesql", "--log-format", "json", "run", "--continuous", "--select", "clicks"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["event"] == "batch_committed" and process.poll() is None:
            process.send_signal(number)
            break
    rest, errors = process.communicate(timeout=60)
    seen += [json.loads(line) for line in rest.splitlines()]
    assert (process.returncode, errors) == (0, "")
    assert [event["interrupted"] for event in seen if event["event"] == "run_finished"] == [True]
    (finished,) = [event for event in seen if event["event"] == "model_finished"]
    assert (finished["status"], finished["problems"]) == ("success", [])
