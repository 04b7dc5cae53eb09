"""How long it takes from the command to the first commit: `lakesql run --select orders` on the shop, warm cache.

    python bench/start.py [--runs 5] [--smoke]

Each run starts from nothing but the user's cache (jars, class-data archive): a new copy of the shop, no tables. Prints
seconds from the start of the process to Spark being up, to the first commit, and to the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKS = ("session_started", "batch_committed", "run_finished")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one run, to see that it works")
    options = parser.parse_args()
    runs = [measure() for _ in range(1 if options.smoke else options.runs + 1)]
    warm = runs if options.smoke else runs[1:]
    print(f"{'':16}{'median':>8}{'best':>8}{'worst':>8}   seconds, {len(warm)} runs")
    for mark in MARKS:
        seconds = [run[mark] for run in warm]
        print(f"{mark:16}{statistics.median(seconds):8.1f}{min(seconds):8.1f}{max(seconds):8.1f}")
    return 0


def measure() -> dict[str, float]:
    """Seconds from the start of the process to the first event of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "shop")
        for part in ("models", "streams", "macros"):
            shutil.copytree(ROOT / part, project / part)
        for part in ("profiles.yml", "pyproject.toml"):
            shutil.copy(ROOT / part, project / part)
        command = [sys.executable, "-m", "lakesql", "--log-format", "json", "run", "--once", "--select", "orders"]
        started = time.monotonic()
        process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
        seen: dict[str, float] = {}
        assert process.stdout is not None
        for line in process.stdout:
            seen.setdefault(json.loads(line)["event"], time.monotonic() - started)
        if process.wait() != 0:
            raise SystemExit(f"lakesql ended with {process.returncode}")
        return seen


if __name__ == "__main__":
    sys.exit(main())
