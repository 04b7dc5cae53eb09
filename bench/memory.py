"""Memory over 500 batches: what Java and Python hold while `lakesql run --continuous`
goes on, batch after batch.

    python bench/memory.py [--batches 500] [--mode append|upsert] [--smoke]

Each batch is a file of three records, whose keys come again after 20 batches. Ten times
in a run (five with --smoke) Java's memory is collected in full, and what is left is
printed: objects in the heap, classes and compiled code outside of it, and the pages
that Python holds. Fails if from the second line on the heap or Python grow by more than
4 MiB: in 500 batches by a leak of 10 kB a batch, in the 100 of --smoke by one of 70 kB.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.project import bound, open_project, report_failure, write_project
from lakesql.events import BatchCommitted, Event
from lakesql.graph.manifest import Manifest
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext

ALLOWED_MIB = 4
RECORDS = 3
KEY_GROUPS = 20
CONFIGS = {
    "append": "mode='append'",
    "upsert": "mode='upsert', keys=['id'], sequence_by='version'",
}
MIB = 2**20
COLLECTIONS = 3
PAUSE_S = 0.5
"""Before each collection: Spark gives back what belonged to objects that the one before
has found dead."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is held after a batch, in MiB."""

    batch: int
    heap: float
    outside: float
    python: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--mode", choices=CONFIGS, default="append")
    parser.add_argument("--smoke", action="store_true", help="100 batches")
    options = parser.parse_args(arguments)
    batches, lines = (100, 5) if options.smoke else (options.batches, 10)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_project(
            write_batches(Path(directory), options.mode, batches), "events"
        ) as around,
    ):
        held = run(around, batches, batches // lines)
    warm, last = held[1], held[-1]
    heap, outside, python = (
        last.heap - warm.heap,
        last.outside - warm.outside,
        last.python - warm.python,
    )
    print(
        f"batches {warm.batch} to {last.batch}: {heap:+.1f}, {outside:+.1f}, {python:+.1f} MiB"
    )
    if max(heap, python) > ALLOWED_MIB:
        raise SystemExit("memory is not given back")
    return 0


def run(around: RunContext, batches: int, every: int) -> list[Held]:
    """Run the model for so many batches; what was held after each `every` of them,
    printed as it is found."""
    held: list[Held] = []
    interrupt = Interrupt()
    since = time.monotonic()

    def hear(event: Event) -> None:
        nonlocal since
        report_failure(event)
        if isinstance(event, BatchCommitted):
            assert event.records == RECORDS, f"{event.records} records in a batch"
            done = event.batch + 1
            if done % every == 0:
                seconds = (time.monotonic() - since) / every
                held.append(look(around.session, done))
                print(
                    "{:>7} {:8.1f} {:8.1f} {:8.1f} {:8.2f}".format(
                        *astuple(held[-1]), seconds
                    ),
                    flush=True,
                )
                since = time.monotonic()
            if done == batches:
                interrupt.set()

    print(
        f"{'batch':>7} {'heap':>8} {'outside':>8} {'Python':>8}   MiB, and seconds a batch",
        flush=True,
    )
    selects = bound(around.manifest, "events")
    assert run_selects(
        replace(around, emit=hear), selects, RunOptions(continuous=True), interrupt
    )
    return held


def look(spark: SparkSession, batch: int) -> Held:
    """What is held now, of which nothing could be given back."""
    jvm: Any = spark._jvm
    java = jvm.java.lang.management.ManagementFactory
    gc.collect()
    for _ in range(COLLECTIONS):
        time.sleep(PAUSE_S)
        jvm.java.lang.System.gc()
    # What a collection has left, and not what is there now: other threads have gone on.
    # Only the heap is collected.
    left = [
        usage.getUsed()
        for pool in java.getMemoryPoolMXBeans()
        if (usage := pool.getCollectionUsage())
    ]
    outside = java.getMemoryMXBean().getNonHeapMemoryUsage().getUsed()
    python = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )
    return Held(batch, sum(left) / MIB, outside / MIB, python / MIB)


def write_batches(root: Path, mode: str, batches: int) -> Manifest:
    """A project of one model, and a file for each batch: all there before it starts."""
    files = {
        "streams/arrived.yml": "streams:\n  - name: arrived\n    path: arrived/*.jsonl\n"
        # Whole files are read, about so many records: never two of them.
        f"    max_per_batch: {RECORDS + 1}\n    columns: {{id: bigint, version: bigint}}\n",
        "models/events.sql": f"{{{{ config({CONFIGS[mode]}, trigger='1 millisecond') }}}}\n"
        "SELECT id, version FROM {{ stream('arrived') }}\n",
    }
    for batch in range(batches):
        first = 100 + RECORDS * (batch % KEY_GROUPS)
        lines = [
            json.dumps({"id": first + i, "version": 10_000 + batch})
            for i in range(RECORDS)
        ]
        files[f"arrived/{batch:05}.jsonl"] = "".join(f"{line}\n" for line in lines)
    return write_project(root, files)


if __name__ == "__main__":
    sys.exit(main())
