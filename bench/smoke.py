"""The smoke of every benchmark, to see that they work: `PYTHONPATH=. python
bench/smoke.py [--share 1/3] [--seed N]`.

Those that measure batches share one process, and so one Java. Those that measure
programs start their own. The seed, which is another one each time, chooses the
benchmarks of a share.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.share import choose_share

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

PROGRAMS = (
    "cli",
    "status",
    "start",
    "recovery",
    "groups",
    "peers",
    "upsert_programs",
    "heap",
    "unit_tests",
    "warm",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--share", default="1/1", help="how many of the benchmarks are run"
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="chooses them"
    )
    options = parser.parse_args(arguments)
    print(
        f"the benchmarks of --share {options.share} --seed {options.seed}", flush=True
    )
    shared, programs = choose(options.share, options.seed)
    for name in shared:
        say(name)
        importlib.import_module(f"bench.{name}").main(["--smoke"])
    for name in programs:
        say(name)
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(
            [sys.executable, ROOT / "bench" / f"{name}.py", "--smoke"],
            env=environ,
            check=True,
        )
    return 0


def choose(share: str, seed: int) -> tuple[list[str], list[str]]:
    """Those of a share, in their order: always the first one, whose Java is that of
    all."""
    shared = {SHARED[0], *choose_share(SHARED[1:], share, seed, "shared")}
    programs = {*choose_share(PROGRAMS, share, seed, "programs")}
    return [name for name in SHARED if name in shared], [
        name for name in PROGRAMS if name in programs
    ]


def say(name: str) -> None:
    print(
        f"--- bench/{name}.py --smoke ({time.monotonic() - STARTED:.0f} s)", flush=True
    )


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
