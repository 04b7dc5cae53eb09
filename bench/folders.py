"""How long it takes to find 1,000 new files among a million known ones: `PYTHONPATH=.
python bench/folders.py`.

The files lie in 1,000 folders of this machine, a day each. Measured are what finds the
new ones by their names (`ordered_by: name`), what looks 1,000 names of events up among
those that are known (`notifications`), the listing of all files that is made now and
then, and what Spark does where it lists these folders. Beside each stands by how much
the pages that Python holds have grown at most. With `--smoke` 20,000 files are known.

Fails where 1,000 new files among a million take more than 5 s, or 64 MiB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench.project import bound, open_project, write_project
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.raw import planned_batches
from lakesql.engine.sources.spark_source import PlannedBatches, Planning
from lakesql.source.files_by_name import TakenNames
from lakesql.source.known_files import Index, KnownFiles
from lakesql.source.name_order import FoundFile

STREAM = """
streams:
  - name: landed
    connection: landing
    path: in/*/*.json
    ordered_by: name
    list_all_every: {every}
    columns: {{id: int}}
"""
MODEL = "{{ config(mode='append') }}\nSELECT id FROM {{ stream('landed') }}\n"
IN_FOLDER, NEW, BATCH = 1_000, 1_000, 10_000
PLANS_WITHIN_S, PLANS_WITHIN_MIB = 5.0, 64.0
MIB = 2**20


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="20,000 known files")
    is_smoke = parser.parse_args(arguments).smoke
    known = 20_000 if is_smoke else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {
            "models/m.sql": MODEL,
            "streams/s.yml": STREAM.format(every="1000 days"),
        }
        manifest = write_project(
            root, files, connections=f"{{landing: {{type: files, path: '{root}'}}}}"
        )
        taken = make_known(root, known)
        for number in range(NEW):
            make_file(root, known + number)
        with open_project(manifest, "m") as context:
            names = [
                name_of(number) for number in range(known - NEW // 2, known + NEW // 2)
            ]
            seconds, grown = measure(root, context.session, taken, names, manifest)
    return 0 if seconds <= PLANS_WITHIN_S and grown <= PLANS_WITHIN_MIB else 1


def measure(
    root: Path,
    session: SparkSession,
    taken: TakenNames,
    names: Sequence[str],
    manifest: object,
) -> tuple[float, float]:
    """Print how long each way takes; the seconds and the MiB of the one by names."""
    from lakesql.graph.manifest import Manifest

    assert isinstance(manifest, Manifest)
    binding = bound(manifest, "m")["m"].bindings[0]
    files = CheckpointFiles(session, str(root / "checkpoint"))
    index = Index(folded=0, listed_ms=time.time_ns() // 1_000_000)
    KnownFiles(files, index).begin()
    batches = planned_batches(
        session,
        [binding],
        Planning("m", files, print, partial(CheckpointFiles, session)),
    )
    assert batches is not None

    def plan() -> None:
        end = find_all(batches, taken)
        assert end == NEW, f"{end} files were found"

    found = timed(f"{NEW:,} new files by their names", plan)
    known = KnownFiles(files, index)
    timed(
        "lists made of the names that were read",
        lambda: [*known.unknown((), taken.files)],
    )

    def look_up() -> None:
        told = (FoundFile(name, 0, 0) for name in names)
        unknown = sum(1 for _ in known.unknown(told, taken.files))
        assert unknown == NEW // 2, f"{unknown} are unknown"

    timed(f"{NEW:,} names of events among those that are known", look_up)
    order = batches._files.there  # type: ignore[attr-defined]
    timed(
        "a listing of all files",
        lambda: known.compare(order.files("", taken.last), taken.files, Nobody()),
    )
    timed(
        "Spark's listing of the folders",
        lambda: session.read.text(str(root / "in" / "*")),
    )
    return found


def find_all(batches: PlannedBatches, taken: TakenNames) -> int:
    """How many new files are planned from where a query stands until all that are there
    now are."""
    position, until, files = taken.position, batches.find_last(taken.position), 0
    while (end := batches.find_end(position, until)) is not None:
        files += end["files"] - position["files"]
        position = end
    return files


class Nobody:
    """Is told of what a listing finds."""

    def late(self, file: FoundFile) -> bool:
        raise AssertionError(f"{file.name} was read")

    def changed(self, file: FoundFile) -> None:
        raise AssertionError(f"{file.name} has not changed")

    def adopted(self, file: FoundFile) -> None:
        raise AssertionError(f"{file.name} was read")


def make_known(root: Path, known: int) -> TakenNames:
    """Files that were read, and their lists in a checkpoint; where the query stands."""
    taken, batches = TakenNames(), root / "checkpoint" / "listed" / "batches"
    batches.mkdir(parents=True)
    for first in range(0, known, BATCH):
        found = [make_file(root, number) for number in range(first, first + BATCH)]
        KnownFiles(LocalLists(root / "checkpoint"), Index()).plan_batch(
            taken.files, taken.files + BATCH, found
        )
        taken = taken.plus(found)
    return taken


class LocalLists:
    """The lists of a checkpoint, before there is a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> str | None:
        return (self._folder / name).read_text()

    def names(self, name: str = "") -> list[str]:
        return []

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink()


def name_of(number: int) -> str:
    return f"in/{number // IN_FOLDER:06}/{number:09}.json"


def make_file(root: Path, number: int) -> FoundFile:
    """An empty file: nobody reads it."""
    path = root / name_of(number)
    if number % IN_FOLDER == 0:
        path.parent.mkdir(parents=True)
    path.touch()
    return FoundFile(name_of(number), 0, path.stat().st_mtime_ns // 1_000_000)


def timed(what: str, do: Callable[[], object]) -> tuple[float, float]:
    """Do it, and print how long it took and how much more Python held; both."""
    with watched() as grown:
        started = time.perf_counter()
        do()
        seconds = time.perf_counter() - started
    print(f"{what}: {seconds:.2f} s, {grown[0]:.0f} MiB", flush=True)
    return seconds, grown[0]


@contextmanager
def watched() -> Iterator[list[float]]:
    """By how much the pages of this process have grown at most, in MiB, looked at every
    10 ms."""
    grown, is_over, before = [0.0], threading.Event(), resident()

    def watch() -> None:
        while not is_over.wait(0.01):
            grown[0] = max(grown[0], resident() - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield grown
    is_over.set()
    thread.join()


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
