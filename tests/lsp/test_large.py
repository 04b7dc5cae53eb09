"""A project of 1,000 models, as one types in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_processes import ROOT

MOST_MS = 150


@pytest.mark.long
def test_a_keystroke_costs_no_more_than_is_promised(tmp_path: Path) -> None:
    """In CPU time, and so on a machine that does other things too."""
    for command in (
        ["bench/generate.py", str(tmp_path), "1000"],
        ["-m", "bench.keystrokes", str(tmp_path)],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    said = dict(
        re.findall(r"^(a .*): (\d+) ms a keystroke$", done.stdout, re.MULTILINE)
    )
    assert len(said) == 3 and all(int(each) < MOST_MS for each in said.values()), (
        done.stdout
    )
