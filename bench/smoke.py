"""The smoke of every benchmark, to see that they work: `PYTHONPATH=. python bench/smoke.py`.

Those that measure batches share one process, and so one Java. Those that measure programs start their own.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = (
    "formats",
    "kafka",
    "cdc",
    "append",
    "upsert",
    "small_upserts",
    "latency",
    "memory",
    "maintenance",
    "views",
    "tpch_views",
    "nexmark",
    "queues",
    "folders",
)
"""The first one's Java is that of all: it has the jars of Kafka and Avro too."""

PROGRAMS = ("cli", "status", "start", "recovery", "peers", "upsert_programs", "heap", "unit_tests", "warm")


def main() -> int:
    for name in SHARED:
        say(name)
        importlib.import_module(f"bench.{name}").main(["--smoke"])
    for name in PROGRAMS:
        say(name)
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, ROOT / "bench" / f"{name}.py", "--smoke"], env=environ, check=True)
    return 0


def say(name: str) -> None:
    print(f"--- bench/{name}.py --smoke ({time.monotonic() - STARTED:.0f} s)", flush=True)


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
