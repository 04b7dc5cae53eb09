"""How long it takes from the command to the first commit: `lakesql run --select orders` on the shop, warm cache.

    python bench/start.py [--runs 5] [--smoke]

Each run starts from nothing but the user's cache (jars, class-data archive): a new copy of the shop, no tables. Prints
seconds from the start of the process to Spark being up, to the first commit, and to the end. Then the run is repeated,
with nothing new to read: as it is, and without what it needs to know that before Java starts.
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
AGAIN, BY_SPARK = "nothing new", "the same by Spark"
COMMAND = (sys.executable, "-m", "lakesql", "--log-format", "json", "run", "--once", "--select", "orders")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one run, to see that it works")
    options = parser.parse_args()
    runs = [measure() for _ in range(1 if options.smoke else options.runs + 1)]
    warm = runs if options.smoke else runs[1:]
    print(f"{'':18}{'median':>8}{'best':>8}{'worst':>8}   seconds, {len(warm)} runs")
    for mark in (*MARKS, AGAIN, BY_SPARK):
        seconds = [run[mark] for run in warm]
        print(f"{mark:18}{statistics.median(seconds):8.1f}{min(seconds):8.1f}{max(seconds):8.1f}")
    return 0


def measure() -> dict[str, float]:
    """Seconds from the start of the process to the first event of each kind; and of the two runs with nothing new."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "shop")
        for part in ("models", "streams", "macros"):
            shutil.copytree(ROOT / part, project / part)
        for part in ("profiles.yml", "pyproject.toml"):
            shutil.copy(ROOT / part, project / part)
        seen = run(project)
        again = run(project)
        (project / ".lakesql/checkpoints/orders/analyzed.json").unlink()
        by_spark = run(project)
        if "session_started" in again or "session_started" not in by_spark:
            raise SystemExit("what was to be known without Spark was not, or the other way round")
        return {**seen, AGAIN: again["run_finished"], BY_SPARK: by_spark["run_finished"]}


def run(project: Path) -> dict[str, float]:
    """Seconds from the start of the process to the first event of each kind."""
    started = time.monotonic()
    process = subprocess.Popen(COMMAND, cwd=project, stdout=subprocess.PIPE, text=True)
    seen: dict[str, float] = {}
    assert process.stdout is not None
    for line in process.stdout:
        seen.setdefault(json.loads(line)["event"], time.monotonic() - started)
    if process.wait() != 0:
        raise SystemExit(f"lakesql ended with {process.returncode}")
    return seen


if __name__ == "__main__":
    sys.exit(main())
