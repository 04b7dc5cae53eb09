"""A runner of models that dies or falls asleep where it is told to: `python -m
tests.crash.runner PROJECT`.

It opens a session on the catalog of PROJECT, says so, and waits for an order on its
standard input: which project to run, and what is to happen as which step of a model's
batch is reached. So the next one can be started ahead of time.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from lakesql.catalog.connect import OpenCatalog
from lakesql.clock import now_ms
from lakesql.compile.build_select import build_selects
from lakesql.engine.batch.sink import Step
from lakesql.engine.maintenance.keeper import Keeper, MaintenanceStep
from lakesql.engine.progress.progress import QueryProgress
from lakesql.engine.refresh.refresh_table import RefreshStep
from lakesql.events import Event
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest
from lakesql.observe.lines import render_json
from lakesql.progress.state import Decision, Fresh, ProgressState, Resume
from lakesql.project.files import read_project
from lakesql.project.procedures import DAY_MS
from lakesql.project.profiles import load_target
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.maintain import maintenance_jobs
from lakesql.run.manifest.load import load_known
from lakesql.run.models import run_selects
from lakesql.run.rebuild import rebuild_jobs
from lakesql.run.start.context import RebuildStep, RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.state.replay import bind_letters, replay_letters
from lakesql.run.streams.bind import bind_selects


@dataclass(frozen=True, slots=True)
class Order:
    """Run the models of a project, rebuild them, replay the dead letters of `model`, or
    run a `procedure` on its table.

    The `nth` time that `model` reaches `step`, meet a fate: `kill-both`, `kill-python`
    and `kill-java` end processes, `pause` stops both, and `go-on` only says so. They
    are met `after_s` seconds later, whatever goes on then. Snapshots are as old as a
    procedure needs them.
    """

    project: str
    model: str = ""
    step: Step | RebuildStep | MaintenanceStep | RefreshStep = "finish"
    nth: int = 1
    fate: str = "kill-both"
    has_ledger: bool = True
    rebuilds: bool = False
    replays: bool = False
    procedure: str = ""
    after_s: float = 0


def main(directory: str) -> None:
    manifest = load(directory)
    bound = bind_selects(manifest, build_selects(manifest, manifest.models))
    bindings = [binding for each in bound.values() for binding in each.bindings]
    with open_spark(session_settings(manifest, bindings, say)) as (session, catalog):
        run_order(session, catalog)


def run_order(session: SparkSession, catalog: OpenCatalog) -> None:
    jvm: Any = session._jvm
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    tell(ready=java)
    order = Order(**json.loads(sys.stdin.readline()))
    manifest = load(order.project)
    models = [
        node.removeprefix("model.")
        for node in manifest.graph.nodes
        if node.startswith("model.")
    ]
    selects = bind_selects(manifest, build_selects(manifest, models))
    fate = Fate(order, java, manifest.target.catalog.uri)
    context = RunContext(manifest, session, catalog, show, reached=fate.reached)
    if order.replays:
        replay_letters(
            context, session, bind_letters(selects[order.model]), dry_run=False
        )
        return
    jobs_by = rebuild_jobs(manifest, models, "start", False) if order.rebuilds else None
    if order.procedure:
        tasks = {order.model: frozenset({f"{order.model}.{order.procedure}"})}
        selects = {order.model: selects[order.model]}
        jobs_by = maintenance_jobs(tasks, at_once=True)
    with (
        aged(order),
        by_what_has_changed(),
        nullcontext() if order.has_ledger else without_ledger(),
    ):
        succeeded = run_selects(context, selects, RunOptions(), Interrupt(), jobs_by)
    tell(succeeded=succeeded)


class Fate:
    """What is to happen, once, as a step is reached."""

    def __init__(self, order: Order, java: int, catalog: str) -> None:
        self.order = order
        self.java = java
        self.catalog = catalog
        self.left = order.nth
        self.lock = threading.Lock()

    def reached(self, model: str, step: str) -> None:
        if (model, step) != (self.order.model, self.order.step):
            return
        with self.lock:
            self.left -= 1
        if self.left != 0:
            return
        tell(reached=asdict(self.order))
        if self.order.after_s:
            timer = threading.Timer(self.order.after_s, self.meet)
            timer.daemon = False  # a runner that is done before is killed as it ends
            timer.start()
        else:
            self.meet()

    def meet(self) -> None:
        match self.order.fate:
            case "kill-both":
                # it has ended where the runner was done just before
                with suppress(ProcessLookupError):
                    os.kill(self.java, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-python":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-java":
                os.kill(self.java, signal.SIGKILL)
            case "pause":
                pause(self.java, self.catalog)
                os.kill(os.getpid(), signal.SIGSTOP)


def pause(process: int, catalog: str) -> None:
    """Stop a process while it does not hold the lock of the catalog's database, for
    which everybody would wait."""
    with closing(
        sqlite3.connect(
            catalog.removeprefix("sqlite:///"), timeout=30, isolation_level=None
        )
    ) as database:
        database.execute("BEGIN IMMEDIATE")
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.1)  # all of its threads are to have stopped
        database.execute("ROLLBACK")


@contextmanager
def aged(order: Order) -> Iterator[None]:
    """An expiry finds snapshots that are old enough. Other procedures have the time
    that it is."""
    if order.procedure != "expire_snapshots":
        yield
        return
    with mock.patch(
        "lakesql.run.maintain.Keeper",
        partial(Keeper, clock=lambda: now_ms() + 10 * DAY_MS),
    ):
        yield


@contextmanager
def by_what_has_changed() -> Iterator[None]:
    """Views are kept by what has changed, though the tables of tests have few rows."""
    with mock.patch("lakesql.engine.refresh.refresh_table.FEW_ROWS", 0):
        yield


@contextmanager
def without_ledger() -> Iterator[None]:
    """Nothing is looked up, and nothing compared: without them the suite must find
    duplicate rows."""

    def decide(state: ProgressState) -> Decision:
        return Resume(-1) if state.checkpoint and state.checkpoint.planned else Fresh()

    with (
        mock.patch("lakesql.progress.decide.decide", decide),
        mock.patch.object(QueryProgress, "holds", lambda *_: False),
    ):
        yield


def load(directory: str) -> Manifest:
    folder = Path(directory)
    files, target = read_project(folder), load_target("p", None, [folder], os.environ)
    return load_known(partial(load_manifest, files, target, {}, None, None))


def show(event: Event) -> None:
    write(render_json(event))


def say(text: str) -> None:
    tell(said=text)


def tell(**state: Any) -> None:
    write(json.dumps(state))


def write(line: str) -> None:
    """A line in one piece, whichever threads write."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
