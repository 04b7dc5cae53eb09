"""How long the command line takes on a project of 1,000 models: `python bench/cli.py
[--smoke]`.

Each figure is the median of several runs, in a process of its own. CPU time is what
this machine's load disturbs least.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from generate import generate_project, model_name

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Edit:
    """A text of a file that stands there otherwise while a command is measured."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Figure:
    """A command to measure: with nothing kept from before (`cold`) or with nothing
    changed, and what it may take.

    With an `edit` the project is another one than that which is committed.
    """

    name: str
    arguments: tuple[str, ...]
    cold: bool
    limit_s: float
    edit: Edit | None = None


@dataclass(frozen=True)
class Taken:
    """What one run took."""

    cpu_s: float
    wall_s: float
    memory_mib: float


def figures(models: int) -> tuple[Figure, ...]:
    one = model_name(models // 2)
    return (
        Figure("--help", ("--help",), False, 0.15),
        Figure("--version", ("--version",), False, 0.15),
        Figure("ls, cold", ("ls",), True, 3.0),
        Figure("ls, nothing changed", ("ls",), False, 0.5),
        Figure("compile, cold", ("compile",), True, 3.0),
        Figure("compile, nothing changed", ("compile",), False, 0.5),
        Figure(f"compile --select {one}", ("compile", "--select", one), False, 0.4),
        Figure("parse, cold", ("parse",), True, 3.0),
        Figure("parse, nothing changed", ("parse",), False, 0.5),
        Figure("lint, cold", ("lint",), True, 4.5),
        Figure("lint, nothing changed", ("lint",), False, 0.7),
        Figure("plan, cold", ("plan",), True, 6.0),
        Figure("plan, nothing changed", ("plan",), False, 1.5),
        Figure(
            "plan, a macro of most models",
            ("plan",),
            False,
            12.0,
            Edit("macros/text.sql", "trim", "ltrim"),
        ),
    )


def measure(figure: Figure, project: Path, runs: int) -> Taken:
    """The medians of `runs` runs."""
    taken = []
    if (edit := figure.edit) is not None:
        file = project / edit.path
        committed = file.read_text()
        file.write_text(committed.replace(edit.before, edit.after))
    # which leaves what a warm run finds, and the bytecode of lakesql's modules
    run(figure.arguments, project)
    for _ in range(runs):
        if figure.cold:
            shutil.rmtree(project / "target", ignore_errors=True)
        taken.append(run(figure.arguments, project))
    if edit is not None:
        file.write_text(committed)
    return Taken(
        statistics.median(it.cpu_s for it in taken),
        statistics.median(it.wall_s for it in taken),
        max(it.memory_mib for it in taken),
    )


def commit(project: Path) -> None:
    """Make the project a git repository, whose one commit is what a plan compares
    with."""
    (project / ".gitignore").write_text("target/\nlogs/\n")
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
    for arguments in (
        ("init", "-b", "main"),
        ("add", "--all"),
        (*who, "commit", "--message", "a project"),
    ):
        subprocess.run(
            ["git", *arguments], cwd=project, check=True, stdout=subprocess.DEVNULL
        )


def run(arguments: tuple[str, ...], project: Path) -> Taken:
    """Run lakesql in `project` and say what it took; its failure ends the measuring.

    Its modules are compiled once, as those of an installed package are.
    """
    kept = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(project.parent / f"{project.name}-bytecode"),
    }
    environ = {**os.environ, **kept, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "lakesql", *arguments]
    started = time.perf_counter()
    process = subprocess.Popen(
        line, cwd=project, env=environ, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    is_finding = arguments[0] == "lint" and process.returncode == 1
    if process.returncode != 0 and not is_finding:
        raise subprocess.CalledProcessError(process.returncode, line)
    return Taken(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="prove that it runs: a small project, each command once",
    )
    options = parser.parse_args()
    models, runs = (20, 1) if options.smoke else (options.models, options.runs)
    with tempfile.TemporaryDirectory(prefix="lakesql-bench-") as name:
        project = Path(name) / "project"
        project.mkdir()
        generate_project(project, models)
        commit(project)
        print(
            f"{models} models, median of {runs} runs, Python {sys.version.split()[0]}, {os.cpu_count()} cores"
        )
        print(f"{'':32} {'CPU s':>7} {'wall s':>7} {'limit s':>7} {'MiB':>5}")
        for figure in figures(models):
            taken = measure(figure, project, runs)
            print(
                f"{figure.name:32} {taken.cpu_s:7.2f} {taken.wall_s:7.2f} {figure.limit_s:7.2f} {taken.memory_mib:5.0f}"
            )


if __name__ == "__main__":
    main()
