"""How long it takes from the command to the first commit, warm cache: the shop, or
100,000 records from Kafka.

    python bench/start.py [--runs 5] [--topic append | --topic upsert] [--against
    CHECKOUT] [--smoke]

Each run starts from nothing but the user's cache (jars, class-data archive): a new
project, no tables. Prints seconds from the start of the process to Spark being up, to
the query being started, to the first commit, and to the end; and the CPU seconds of the
process and its Java until then. The shop's run is then repeated, with nothing new to
read: as it is, and without what it needs to know that before Java starts.
With --against another checkout's lakesql runs by turns with this one's, each warmed up
first. Then the ratios count: above 1 this checkout is faster, or takes less CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.kafka import (
    APPEND,
    messages,
    open_broker,
    write_flights,
    write_topic_project,
)
from bench.tree import Tree
from bench.upsert import CONFIG

ROOT = Path(__file__).resolve().parent.parent
MARKS = ("session_started", "query_started", "batch_committed", "run_finished")
AGAIN, BY_SPARK = "nothing new", "the same by Spark"
COMMAND = (
    sys.executable,
    "-m",
    "lakesql",
    "--log-format",
    "json",
    "run",
    "--once",
    "--select",
)
RECORDS = 100_000

Write = Callable[[Path], None]
"""Writes the project into a folder."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds since the start of a process, and the CPU seconds of it and all that it
    has started until then."""

    wall_s: float
    cpu_s: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--topic", choices=["append", "upsert"], help="records from Kafka, by this mode"
    )
    parser.add_argument(
        "--against", type=Path, help="another checkout, to compare with"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one run, to see that it works"
    )
    options = parser.parse_args()
    sides = [ROOT, *([options.against.resolve()] if options.against else [])]
    runs: dict[Path, list[dict[str, Taken]]] = {side: [] for side in sides}
    with open_source(options.topic, 5_000 if options.smoke else RECORDS) as (
        model,
        write,
    ):
        for number in range(1 if options.smoke else options.runs + 1):
            for side in sides if number % 2 else reversed(sides):
                runs[side].append(measure(side, model, write))
    for side, found in runs.items():
        show(side, found if options.smoke else found[1:])
    if options.against and not options.smoke:
        compare(*(found[1:] for found in runs.values()))
    return 0


@contextmanager
def open_source(mode: str | None, records: int) -> Iterator[tuple[str, Write]]:
    """A model, and what writes its project: the shop's, or one that reads so many
    records of a broker by a mode."""
    if mode is None:
        yield "orders", write_shop
        return
    with tempfile.TemporaryDirectory() as folder, open_broker(Path(folder)) as broker:
        write_flights(Path(folder, "flights"), 1, records)
        broker.create_topic("flights", 3)
        broker.produce("flights", messages(Path(folder, "flights")))
        config = {"append": APPEND, "upsert": CONFIG % "2"}[mode]

        def write(project: Path) -> None:
            project.mkdir()
            write_topic_project(project, broker.servers, records, config)

        yield "flights", write


def write_shop(project: Path) -> None:
    for part in ("models", "streams", "macros"):
        shutil.copytree(ROOT / part, project / part)
    for part in ("profiles.yml", "pyproject.toml"):
        shutil.copy(ROOT / part, project / part)


def measure(side: Path, model: str, write: Write) -> dict[str, Taken]:
    """What it took to the first event of each kind; and what the two runs of the shop
    took that have nothing new."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        write(project)
        seen = run(side, project, model)
        if model != "orders":
            return seen
        again = run(side, project, model)
        (project / ".lakesql/checkpoints/orders/analyzed.json").unlink()
        by_spark = run(side, project, model)
        if "session_started" in again or "session_started" not in by_spark:
            raise SystemExit(
                "what was to be known without Spark was not, or the other way round"
            )
        return {
            **seen,
            AGAIN: again["run_finished"],
            BY_SPARK: by_spark["run_finished"],
        }


def run(side: Path, project: Path, model: str) -> dict[str, Taken]:
    """What a run takes to the first event of each kind."""
    started = time.monotonic()
    environ = {**os.environ, "PYTHONPATH": str(side)}
    process = subprocess.Popen(
        (*COMMAND, model), cwd=project, env=environ, stdout=subprocess.PIPE, text=True
    )
    tree, seen = Tree(process.pid), dict[str, Taken]()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)["event"]
        if event not in seen:
            wall_s = time.monotonic() - started
            tree.look()
            seen[event] = Taken(wall_s, tree.cpu_seconds)
    if process.wait() != 0:
        raise SystemExit(f"lakesql ended with {process.returncode}")
    return seen


def show(side: Path, runs: list[dict[str, Taken]]) -> None:
    print(
        f"{side.name:18}{'median':>8}{'best':>8}{'worst':>8}{'CPU':>8}   seconds, {len(runs)} runs"
    )
    for mark in marks_of(runs[0]):
        seconds = [run[mark].wall_s for run in runs]
        cpu_s = statistics.median(run[mark].cpu_s for run in runs)
        print(
            f"{mark:18}{statistics.median(seconds):8.1f}{min(seconds):8.1f}{max(seconds):8.1f}{cpu_s:8.1f}"
        )


def compare(ours: list[dict[str, Taken]], theirs: list[dict[str, Taken]]) -> None:
    """Print how many times as long the other checkout takes, in the median of the
    pairs."""
    print(f"{'ratio':18}{'wall':>8}{'CPU':>8}")
    for mark in marks_of(ours[0]):
        pairs = [
            (their[mark], our[mark]) for their, our in zip(theirs, ours, strict=True)
        ]
        wall = statistics.median(their.wall_s / our.wall_s for their, our in pairs)
        cpu = statistics.median(their.cpu_s / our.cpu_s for their, our in pairs)
        print(f"{mark:18}{wall:8.2f}{cpu:8.2f}")


def marks_of(run: Mapping[str, Taken]) -> tuple[str, ...]:
    return tuple(mark for mark in (*MARKS, AGAIN, BY_SPARK) if mark in run)


if __name__ == "__main__":
    sys.exit(main())
