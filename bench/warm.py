"""What the next command takes where the one before has left its Spark: `python
bench/warm.py [--runs 5] [--smoke]`.

A preview of the shop's orders, and ten unit tests on Spark, each with a Spark of its
own, and with a warm one. Prints the seconds, the CPU seconds of the process and of Java
meanwhile, and how many times as long the cold one takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.start import Taken, write_shop
from bench.tree import Tree
from bench.unit_tests import write_project
from lakesql.engine.spark.warm import read_keeper

PREVIEW = ("show", "orders", "--preview", "--limit", "5")
TESTS = ("test", "--unit", "--engine", "spark")
COUNT = 10


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--smoke", action="store_true", help="one run, to see that it works"
    )
    options = parser.parse_args()
    runs = 1 if options.smoke else options.runs
    with tempfile.TemporaryDirectory() as folder:
        shop, tests = Path(folder, "shop"), Path(folder, "tests")
        write_shop(shop)
        tests.mkdir()
        write_project(tests, COUNT)
        print(
            f"{'':16}{'cold':>8}{'CPU':>8}{'warm':>8}{'CPU':>8}{'ratio':>8}   median of {runs}"
        )
        for name, project, arguments in (
            ("preview", shop, PREVIEW),
            ("ten unit tests", tests, TESTS),
        ):
            set_warm(project, None)
            # jars and archives of classes are there from here on
            run(project, arguments)
            cold = [run(project, arguments) for _ in range(runs)]
            set_warm(project, "10 minutes")
            run(project, arguments)
            warm = [run(project, arguments) for _ in range(runs)]
            subprocess.run(
                [*COMMAND, "clean"], cwd=project, capture_output=True, check=True
            )
            show(name, cold, warm)
    return 0


COMMAND = (sys.executable, "-m", "lakesql")


def set_warm(project: Path, idle: str | None) -> None:
    """Let the project's target leave its Spark for so long, or not."""
    path = project / "profiles.yml"
    import yaml

    profiles = yaml.safe_load(re.sub(r"\{\{ .+? \}\}", "template", path.read_text()))
    (profile,) = profiles.values()
    profile["outputs"] = {"dev": profile["outputs"]["dev"]}
    spark = profile["outputs"]["dev"].setdefault("spark", {})
    spark.pop("warm", None)
    if idle is not None:
        spark["warm"] = idle
    # no two braces in a row: they would be read as a template
    path.write_text(json.dumps(profiles, indent=1))


def run(project: Path, arguments: tuple[str, ...]) -> Taken:
    """What a command takes, and its Java, whether it is the command's own or a warm
    one.

    Its modules are compiled once, as those of an installed package are.
    """
    kept = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(project.parent / "bytecode"),
    }
    java = find_java(project)
    before = cpu_of(java)
    started = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=project,
        env={**os.environ, **kept},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    tree = Tree(process.pid)
    while process.poll() is None:
        tree.look()
        time.sleep(0.1)
    wall_s = time.monotonic() - started
    if process.returncode != 0:
        assert process.stdout is not None
        raise SystemExit(process.stdout.read())
    return Taken(wall_s, tree.cpu_seconds + cpu_of(java) - before)


def find_java(project: Path) -> int | None:
    """The warm Java of the project's target, or of its unit tests."""
    found = [
        read_keeper(project / "target" / "warm", name) for name in ("dev", "dev-unit")
    ]
    return next((int(said["java"]) for said in found if said), None)


def cpu_of(process: int | None) -> float:
    """The CPU seconds that a process has taken."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(name: str, cold: list[Taken], warm: list[Taken]) -> None:
    figures = [
        statistics.median(part)
        for part in zip(*((it.wall_s, it.cpu_s) for it in cold), strict=True)
    ]
    figures += [
        statistics.median(part)
        for part in zip(*((it.wall_s, it.cpu_s) for it in warm), strict=True)
    ]
    print(
        f"{name:16}"
        + "".join(f"{figure:8.1f}" for figure in figures)
        + f"{figures[0] / figures[2]:8.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
