"""The projects that the benchmarks run: one model on the embedded target."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakesql.compile.build_select import build_selects
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import LakesqlError
from lakesql.events import Event, ModelFinished
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest
from lakesql.project.files import read_project
from lakesql.project.profiles import load_target
from lakesql.run.start.context import RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.streams.bind import BoundSelect, bind_selects

SETTINGS = '[tool.lakesql]\nname = "bench"\n'
CATALOG = "{name: lake, type: sql, uri: 'sqlite:///catalog.db', warehouse: warehouse}"


def write_project(
    root: Path, files: Mapping[str, str], connections: str = "{}"
) -> Manifest:
    """A project of these files, its tables in `root`/warehouse and its progress in
    `root`/checkpoints.

    `connections` is the profile's, as YAML. What stands there is written over.
    """
    target = f"catalog: {CATALOG}, connections: {connections}, checkpoints: checkpoints, spark: {{master: 'local[2]'}}"
    profiles = f"bench: {{outputs: {{dev: {{{target}}}}}}}\n"
    for path, text in {
        "pyproject.toml": SETTINGS,
        "profiles.yml": profiles,
        **files,
    }.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    return read_manifest(root)


def read_manifest(root: Path) -> Manifest:
    return load_manifest(
        read_project(root), load_target("bench", None, [root], os.environ), {}
    )


def bound(manifest: Manifest, model: str) -> dict[str, BoundSelect]:
    """The one model, as `run_selects` takes it."""
    return bind_selects(manifest, build_selects(manifest, [model]))


@contextmanager
def open_project(manifest: Manifest, model: str) -> Iterator[RunContext]:
    """What the model runs in, Spark among it, which ends with this. A model that fails
    raises what it failed of."""
    settings = session_settings(manifest, bound(manifest, model)[model].bindings, print)
    with open_spark(settings) as (spark, catalog):
        yield RunContext(manifest, spark, catalog, report_failure)


def cpu_seconds() -> float:
    """The CPU time of this process, of its Java and of the Python that this has
    started, until now: what others on the machine do counts little in it."""
    java = java_class("java.lang.ProcessHandle").current().pid()
    for pid in family(java):
        _ticks[pid] = max(_ticks.get(pid, 0), ticks_of(pid))
    return time.process_time() + sum(_ticks.values()) / os.sysconf("SC_CLK_TCK")


_ticks: dict[int, int] = {}
"""The CPU time of each process that was seen: those of them that have ended since have
used it too."""


def ticks_of(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])


def family(pid: int) -> list[int]:
    """A process, and those that it has started, and so on."""
    try:
        files = [*Path(f"/proc/{pid}/task").glob("*/children")]
        children = [int(child) for file in files for child in file.read_text().split()]
    except OSError:  # it has ended
        return [pid]
    return [pid, *(each for child in children for each in family(child))]


def report_failure(event: Event) -> None:
    if isinstance(event, ModelFinished) and event.problems:
        raise LakesqlError(event.problems)
