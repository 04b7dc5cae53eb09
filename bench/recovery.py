"""Recovery: seconds from the SIGKILL of `lakesql run --continuous` and its Java to the
first new commit.

    python bench/recovery.py [--runs 5] [--smoke]

Five files a second of ten records each arrive in a folder, all the time, and a model
appends them to a table of an SQLite catalog. Once a few batches are committed, the
runner and its Java are killed, and the same command is started at once. Prints seconds
from the kill to Spark being up, to the query being started and to the first new batch
in the table. In the end the table must hold every record once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from bench.project import read_manifest, write_project
from lakesql.catalog.connect import open_catalog
from tests.servers.runner import Event, Runner, of

MARKS = ("session_started", "query_started", "batch_committed")
BATCHES = 3
"""So many are committed before each kill."""

FILES = {
    "streams/arrived.yml": "streams:\n  - name: arrived\n    path: arrived/*.jsonl\n"
    "    columns: {id: bigint, kind: string}\n",
    "models/events.sql": "{{ config(mode='append', trigger='100 milliseconds') }}\n"
    "SELECT id, kind FROM {{ stream('arrived') }}\n",
}
FILE_EVERY_S = 0.2
FILE_RECORDS = 10
STALLS_AFTER_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--smoke", action="store_true", help="one run, to see that it works"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_project(root, FILES)
        feed, runner = Feed(root / "arrived"), Runner(root, "events")
        try:
            runner.start()
            runs = [
                recover(runner) for _ in range(1 if options.smoke else options.runs)
            ]
            records = feed.stop()
            runner.wait(lambda events: count_rows(root) >= records, STALLS_AFTER_S)
        finally:
            feed.stop()
            runner.stop()
        assert count_rows(root) == records, (
            f"{count_rows(root)} rows of {records} records"
        )
    print(
        f"{'':16}{'median':>8}{'best':>8}{'worst':>8}   seconds since the kill, {len(runs)} runs"
    )
    for mark in MARKS:
        seconds = [run[mark] for run in runs]
        print(
            f"{mark:16}{statistics.median(seconds):8.1f}{min(seconds):8.1f}{max(seconds):8.1f}"
        )
    return 0


def recover(runner: Runner) -> dict[str, float]:
    """Kill the runner once it commits, and start it again: seconds from the kill to the
    first event of each kind."""
    runner.wait(
        lambda events: len(of(events, "batch_committed")) >= BATCHES, STALLS_AFTER_S
    )
    killed = time.monotonic()
    runner.kill_both()
    runner.start()
    gone_s = runner.started_at - killed
    return {
        mark: gone_s + runner.wait(partial(is_seen, mark), STALLS_AFTER_S)
        for mark in MARKS
    }


def is_seen(kind: str, events: list[Event]) -> bool:
    return bool(of(events, kind))


class Feed:
    """Writes files of JSON lines until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records = 0
        self._stopped = threading.Event()
        folder.mkdir()
        self._write()  # the first is there before anybody looks
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """How many records there are, now that no more come."""
        self._stopped.set()
        self._thread.join()
        return self._records

    def _write_all(self) -> None:
        while not self._stopped.wait(FILE_EVERY_S):
            self._write()

    def _write(self) -> None:
        ids = range(self._records, self._records + FILE_RECORDS)
        half_written = self._folder / "_next"
        half_written.write_text(
            "".join(json.dumps({"id": i, "kind": "click"}) + "\n" for i in ids)
        )
        half_written.rename(self._folder / f"{self._records:08}.jsonl")
        self._records += FILE_RECORDS


def count_rows(root: Path) -> int:
    """The different ids in the table, if each stands there once."""
    table = open_catalog(read_manifest(root).target.catalog).iceberg.load_table(
        ("bench", "events")
    )
    ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert len(ids) == len(set(ids)), f"{len(ids) - len(set(ids))} rows are doubled"
    return len(ids)


if __name__ == "__main__":
    sys.exit(main())
