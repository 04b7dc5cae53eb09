"""Java that is started before the project is compiled: it ends with a project that is wrong, and nobody hears of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakesql.cli.init import write_project
from lakesql.engine.progress.holder import started
from lakesql.engine.spark.java import find_java

pytestmark = pytest.mark.spark

SILENT = """#!/bin/sh
case "$1" in -XshowSettings*) exec {java} "$@"; esac
echo $$ >> {pids}
echo "this is Java" >&2
exec sleep 300
"""


def test_java_ends_with_a_project_that_is_wrong(tmp_path: Path) -> None:
    shop, pids = tmp_path / "shop", tmp_path / "pids"
    write_project(shop, "shop")
    (shop / "models/broken.sql").write_text("{{ config(mode='append') }}\nSELECT nothing FROM {{ stream('clicks') }}\n")
    binary = tmp_path / "home/bin/java"
    binary.parent.mkdir(parents=True)
    binary.write_text(SILENT.format(java=find_java(os.environ).binary, pids=pids))
    binary.chmod(0o755)
    compiled, ran = (lakesql(shop, command, str(tmp_path / "home")) for command in ("compile", "run"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", compiled.stderr)
    assert "error[unknown-column]" in ran.stderr
    (java,) = pids.read_text().split()
    ends_by = time.monotonic() + 10
    while started(int(java)) and time.monotonic() < ends_by:
        time.sleep(0.05)
    assert not started(int(java))


def lakesql(shop: Path, command: str, java_home: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "JAVA_HOME": java_home}
    arguments = [sys.executable, "-m", "lakesql", command, "--select", "broken"]
    return subprocess.run(arguments, cwd=shop, env=environ, capture_output=True, text=True, check=False, timeout=60)
