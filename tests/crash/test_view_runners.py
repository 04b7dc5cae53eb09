"""Runners of models over tables that die at each step of a refresh, sleep, or run
beside each other: each model then equals its SELECT over the snapshots that its ledger
names, no refresh is in the table twice, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from lakesql.engine.refresh.refresh_table import RefreshStep
from lakesql.names import LEDGER_BATCH
from lakesql.run.maintain import maintenance_jobs
from tests.crash.harness import PATIENCE_S, SPARK, Runners
from tests.crash.runner import Order
from tests.crash.test_procedures import age
from tests.share import choose
from tests.spark.project import Project
from tests.spark.random_inputs import Writer
from tests.spark.view_rounds import Rounds

MODELS = ("by_key", "whole", "chained", "history", "over_shown")
STEPS = (*get_args(RefreshStep), "anywhere")
LATEST_S = 1.5
"""How long after a refresh has begun to stage a runner is killed at most: rows are
being computed then, or written."""


def make_rounds(
    project: Project,
    seed: int,
    models: Sequence[str] = MODELS,
    writers: Sequence[Writer] = (),
) -> Rounds:
    """A project whose models have no table yet, over inputs that have rows. None is
    refused for the keys of its rows, so a run makes the table of each."""
    project._target["spark"] = SPARK
    rounds = Rounds(project, seed, models, writers)
    views = rounds.views
    for model in [*views.models.values()]:
        while views.models[model.name].view.keys and views.has_key_twice(model.name):
            views.add(replace(model, view=views.pick("key")))
    project.manifest()  # writes profiles.yml
    return rounds


def batches(project: Project, name: str) -> list[int]:
    """The numbers of the refreshes in a table, in the order of their commits."""
    return [
        int(summary[LEDGER_BATCH])
        for summary in project.summaries(name)
        if LEDGER_BATCH in summary
    ]


def find_faults(rounds: Rounds) -> list[str]:
    """What is wrong after one more run, which does what is left."""
    rounds.refresh()
    if rounds.faults:
        return rounds.faults
    for name in rounds.stored:
        found = batches(rounds.project, name)
        if found != sorted({*found}):
            rounds.faults.append(f"{name} has the refreshes {found}")
    return rounds.faults


def find_left(rounds: Rounds) -> list[str]:
    """The files of data that no table has, once orphans were removed that are old
    enough."""
    project, left = rounds.project, []
    tasks = {name: frozenset({f"{name}.remove_orphan_files"}) for name in rounds.stored}
    folders = {
        name: Path(project.iceberg(name).location().removeprefix("file:"))
        for name in rounds.stored
    }
    for folder in folders.values():
        age(folder)
    project.run(*tasks, jobs_by=maintenance_jobs(tasks, at_once=True)).check()
    for name, folder in folders.items():
        paths = (
            row["file_path"]
            for row in project.sql(
                f"SELECT file_path FROM {project.table(name)}.all_files"
            )
        )
        known = {path.removeprefix("file:") for path in paths}
        left += [
            str(file) for file in folder.rglob("*.parquet") if str(file) not in known
        ]
    return left


@pytest.mark.parametrize("step", STEPS)
def test_a_refresh_killed_at_any_step_is_begun_anew(
    project: Project, runners: Runners, step: str, seed: int
) -> None:
    """In the first load, and where rows are changed or all of them exchanged."""
    chance = choose(seed, "views", step)
    rounds = make_rounds(project, chance.randrange(10**6))
    for is_first in (True, False):
        if not is_first:
            rounds.change_all()
            rounds.change_select()
            project.manifest()
        victim = chance.choice(rounds.stored)
        reached: RefreshStep = "stage" if step == "anywhere" else step  # type: ignore[assignment]
        after_s = chance.uniform(0.05, LATEST_S) if step == "anywhere" else 0
        runner = runners.run(
            Order(str(project.directory), victim, reached, after_s=after_s)
        )
        code = runner.wait()
        runner.end()
        assert code == -signal.SIGKILL or not any(
            "reached" in line for line in runner.lines
        ), runner.lines[-3:]
        assert find_faults(rounds) == [], (victim, rounds.done, rounds.views.models)
    assert find_left(rounds) == []


def test_two_runners_do_each_refresh_once(
    project: Project, runners: Runners, seed: int
) -> None:
    """One of them refreshes a view; the other one is refused, or finds it as it should
    be."""
    chance = choose(seed, "views", "two")
    rounds = make_rounds(project, chance.randrange(10**6))
    order = Order(str(project.directory))
    both = runners.run_all([order, order], apart_s=chance.uniform(0, 1.5))
    assert [runner.wait() for runner in both] == [0, 0]
    for name in rounds.stored:
        met = [
            condition
            for runner in both
            for condition in runner.conditions().get(name, [])
        ]
        assert met in ([], ["lease-held"])
        assert batches(project, name) == [0]
    assert find_faults(rounds) == []


@pytest.mark.parametrize("step", ["stage", "publish", "anywhere"])
def test_a_paused_runner_changes_no_view_after_another_took_over(
    project: Project,
    runners: Runners,
    step: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It wakes up in the middle of a refresh, after which another runner has refreshed
    the view with newer changes."""
    monkeypatch.setattr("lakesql.engine.progress.lease.PASSES_ON_AFTER_S", 5.0)
    chance = choose(seed, "views", "paused", step)
    rounds = make_rounds(
        project, chance.randrange(10**6), writers=("foreign", "foreign", "foreign")
    )
    assert find_faults(rounds) == []
    rounds.inputs["orders"].insert()
    victim = chance.choice(
        [name for name in rounds.stored if "orders" in rounds.views.tables_of(name)]
        or ["figures"]
    )
    if step == "anywhere":
        runner = runners.run(
            Order(str(project.directory), victim, "stage", fate="go-on")
        )
    else:
        runner = runners.run(Order(str(project.directory), victim, step, fate="pause"))  # type: ignore[arg-type]
    runner.wait_for("reached")
    if step == "anywhere":
        time.sleep(chance.uniform(0, 0.6))
        runner.pause(project.lake.catalog.profile.uri)
    else:
        time.sleep(1)
    for each in rounds.inputs.values():
        each.insert()
    assert find_faults(rounds) == []
    before = {name: batches(project, name) for name in rounds.stored}
    runner.resume()
    assert runner.wait() == 0
    runner.end()
    assert runner.conditions()[victim] in ([], ["lease-lost"], ["batch-published"])
    assert {name: batches(project, name) for name in rounds.stored} == before
    assert find_faults(rounds) == []


def lakesql(project: Project, *words: str) -> subprocess.Popen[str]:
    """A command of its own process, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "lakesql", *words],
        cwd=project.directory,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_run_beside_a_continuous_one_is_refused_and_the_views_follow(
    project: Project, seed: int
) -> None:
    chance = choose(seed, "views", "continuous")
    rounds = make_rounds(
        project,
        chance.randrange(10**6),
        ("wanted", "chained"),
        ("foreign", "foreign", "foreign"),
    )
    names = rounds.stored
    continuous = lakesql(project, "run", "--continuous", "--select", *names)
    try:
        wait_until(lambda: all(map(project.has, names)), continuous)
        once = lakesql(project, "run", "--select", *names)
        while once.poll() is None:
            rounds.dice.choice([*rounds.inputs.values()]).change()
            time.sleep(0.5)
        assert once.returncode == 1 and "lease-held" in (
            once.stdout.read() if once.stdout else ""
        )
        wait_until(
            lambda: (
                not [fault for name in names for fault in rounds.views.faults(name)]
            ),
            continuous,
        )
        continuous.send_signal(signal.SIGTERM)
        said, _ = continuous.communicate(timeout=PATIENCE_S)
        assert continuous.returncode == 0, said
    finally:
        continuous.kill()
    assert {name: batches(project, name) for name in names} == {
        name: [*range(len(batches(project, name)))] for name in names
    }
    assert find_faults(rounds) == []


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process is to do."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None and time.monotonic() < until, (
            process.communicate()[0] if process.stdout else ""
        )
        time.sleep(0.5)
