"""In CI nothing is skipped unseen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.readme import README

SKIPS = {
    "while it runs": "import pytest\ndef test_it(): pytest.skip('no broker')\n",
    "by a mark": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n",
    "on import": "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass\n",
}
EXPECTED_TO_FAIL = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n"


def run(directory: Path, source: str, ci: str) -> int:
    shutil.copy(README.parent / "tests" / "conftest.py", directory)
    (directory / "test_it.py").write_text(source)
    (directory / "test_another.py").write_text("def test_another(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(README.parent)}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize("source", SKIPS.values(), ids=SKIPS)
def test_a_skip_is_a_failure_in_ci_alone(source: str, tmp_path: Path) -> None:
    assert run(tmp_path, source, ci="") == 0
    assert run(tmp_path, source, ci="true") in (1, 2)


def test_what_is_expected_to_fail_is_no_skip(tmp_path: Path) -> None:
    assert run(tmp_path, EXPECTED_TO_FAIL, ci="true") == 0
