"""How long `lakesql status` takes on a table of 1,000 and of 10,000 snapshots:
`PYTHONPATH=. python bench/status.py`.

Each commit has added a data file, every other one a delete file too, with a ledger
entry as a topic's batches have it. The whole command is timed, as a process of its own:
beside it stands a table of one snapshot, which takes what it takes to start Python and
import libraries. With `--smoke` 100 snapshots, once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from bench.project import write_project
from lakesql.catalog.connect import open_catalog
from tests.long_tables import Past, make_past

COLUMNS = Schema(
    *(NestedField(number, f"c{number}", StringType()) for number in range(1, 21))
)
STREAM = "streams: [{name: events, connection: landing, path: events, format: json, columns: {c1: string}}]\n"
MODEL = (
    "{{ config(mode='upsert', keys=['c1']) }}\nSELECT c1 FROM {{ stream('events') }}\n"
)
MINUTE_MS = 60_000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="100 snapshots, once")
    is_smoke = parser.parse_args(arguments).smoke
    for commits in (1, 100) if is_smoke else (1, 1_000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            make_project(Path(folder), commits)
            command = [sys.executable, "-m", "lakesql", "status", "--output", "json"]
            wall, cpu = median(command, Path(folder), 1 if is_smoke else 5)
            print(
                f"{commits:,} snapshots: {wall:.2f} s, {cpu:.2f} s of CPU", flush=True
            )
    return 0


def make_project(root: Path, commits: int) -> None:
    files = {"models/events.sql": MODEL, "streams/events.yml": STREAM}
    manifest = write_project(
        root, files, connections=f"{{landing: {{type: files, path: '{root}'}}}}"
    )
    now_ms = time.time_ns() // 1_000_000
    past = [
        entry(number, now_ms - (commits - number) * MINUTE_MS)
        for number in range(commits)
    ]
    make_past(
        open_catalog(manifest.target.catalog),
        (manifest.target.namespace, "events"),
        COLUMNS,
        past,
    )


def entry(number: int, at_ms: int) -> Past:
    offsets = {
        "events": {
            "shop.events": {str(partition): 1000 * number for partition in range(3)}
        }
    }
    return Past(
        at_ms,
        (100_000 + number,),
        (500,) if number % 2 else (),
        operation="overwrite" if number % 2 else "append",
        summary={
            "lakesql.model": "events",
            "lakesql.checkpoint": "0f0e0d0c-0b0a-0908-0706-050403020100",
            "lakesql.batch": str(number),
            "lakesql.offsets": json.dumps(offsets),
            "lakesql.query": "0123456789abcdef",
            "lakesql.mode": "upsert",
            "lakesql.keys": '["c1"]',
            "lakesql.event-time": time.strftime(
                "%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at_ms / 1000 - 12)
            ),
        },
    )


def median(command: Sequence[str], folder: Path, times: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that the command takes; once before, so that its
    files are in memory."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    taken = []
    for _ in range(times + 1):
        started, used = time.monotonic(), cpu_s()
        subprocess.run(
            command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL
        )
        taken.append((time.monotonic() - started, cpu_s() - used))
    walls, cpus = zip(*taken[1:], strict=True)
    return statistics.median(walls), statistics.median(cpus)


def cpu_s() -> float:
    """Seconds of CPU that processes have taken which this one has started, and which
    have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
