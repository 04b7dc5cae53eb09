"""Runners that die or sleep at each step of a batch: no row is lost and none stands
twice, whatever happens then.

What is left to chance follows from the seed in the name of the test, which is another
one each time:
`pytest 'tests/crash/test_crash.py::test_…[…]' --seed N` repeats a case, and
`--crash-rounds 20` tries each twenty times.
"""

from __future__ import annotations

import signal
import time
from typing import get_args

import pytest

from lakesql.engine.batch.sink import Step
from lakesql.names import REBUILD_SUFFIX
from lakesql.run.start.context import RebuildStep
from tests.crash.harness import (
    DISTURBANCES,
    FILES,
    MODELS,
    SPARK,
    Runners,
    compaction,
    find_faults,
    lost_checkpoint,
    make_project,
    nothing,
    record,
    recover,
)
from tests.crash.runner import Order
from tests.share import choose
from tests.spark.project import Project
from tests.spark.test_cdc import COLUMNS, SELECT, Source, by_key
from tests.spark.test_replay_letters import letters, replay

STEPS: tuple[Step, ...] = get_args(Step)
CASES = [(model, step) for model in MODELS for step in STEPS]


def test_two_concurrent_runners_commit_no_batch_twice(
    project: Project, runners: Runners, seed: int
) -> None:
    """One of them does what there is to do for a model; the other one is refused, or
    finds that all is done.

    They come first: Java ends by itself here, and leaves an archive of its classes with
    which the others start sooner.
    """
    make_project(project)
    order = Order(str(project.directory))
    first, second = runners.run_all(
        [order, order], apart_s=choose(seed, "two").uniform(0, 1.5)
    )
    assert (first.wait(), second.wait()) == (0, 0)
    for model in MODELS:
        assert sorted(first.committed(model) + second.committed(model)) == list(
            range(FILES)
        )
        met = [
            condition
            for runner in (first, second)
            for condition in runner.conditions()[model]
        ]
        assert met in ([], ["lease-held"])
    assert find_faults(project, FILES) == []


@pytest.mark.parametrize(("model", "step"), CASES)
def test_a_runner_killed_at_any_step_loses_and_duplicates_no_row(
    project: Project, runners: Runners, model: str, step: Step, seed: int
) -> None:
    """Both processes, Python alone or Java alone; then something happens to the table
    or the checkpoint, or nothing."""
    chance = choose(seed, model, step)
    fate = chance.choice(("kill-both", "kill-python", "kill-java"))
    disturb = DISTURBANCES[(CASES.index((model, step)) + seed) % len(DISTURBANCES)]
    make_project(project)
    runner = runners.run(
        Order(str(project.directory), model, step, chance.choice((2, 3)), fate)
    )
    runner.wait_for("reached")
    if fate == "kill-java":
        assert runner.wait() != 0
    else:
        assert runner.wait() == -signal.SIGKILL
    runner.end()
    conditions = disturb(project, model)
    record(project, range(FILES, FILES + 1))
    recover(project, model, conditions)
    assert find_faults(project, FILES + 1) == []


@pytest.mark.parametrize("step", STEPS[STEPS.index("stage") :])
def test_a_mirror_killed_around_what_it_remembers_of_cut_swaps_is_its_source(
    project: Project, runners: Runners, step: Step, seed: int
) -> None:
    """Each batch ends within a transaction in which rows swap their keys, of which the
    next one has the rest. `stage` is before the batch is remembered, `dead-letter` and
    `publish` after it, and `finish` when it is in the table."""
    chance = choose(seed, "swaps", step)
    project._target["spark"] = SPARK
    project.stream("s", COLUMNS, max_per_batch=1, envelope="debezium", key=["a", "b"])
    project.model("m", SELECT, mode="cdc", keys=["x", "y"])
    placed = SELECT.replace("v FROM", "v, _change.position AS at FROM")
    project.model(
        "p", placed, mode="cdc", keys=["x", "y"], sequence_by="_change.position"
    )
    source = Source(seed, is_full=True)
    source.rows = {(number, "p"): number * 10 for number in range(1, 6)}
    source.snapshot()
    starts = [0]
    for _ in range(FILES):
        begins, source.tx = len(source.events), source.tx + 1
        source.swap(chance.sample(sorted(source.rows), chance.choice((2, 3, 5))))
        starts.append(chance.randrange(begins + 1, len(source.events)))
    for start, end in zip(starts, [*starts[1:], len(source.events)], strict=True):
        project.record("s", [event for _, event in source.events[start:end]])
    project.manifest()  # writes profiles.yml
    model = chance.choice(("m", "p"))
    runner = runners.run(
        Order(
            str(project.directory), model, step, chance.choice((2, 3, 4)), "kill-both"
        )
    )
    runner.wait_for("reached")
    assert runner.wait() == -signal.SIGKILL
    runner.end()
    if step != "stage":
        assert project.rows_without_spark(f"{model}__moves")
    chance.choice((nothing, compaction, lost_checkpoint))(project, model)
    project.run().check()
    for name in ("m", "p"):
        rows = [
            {column: row[column] for column in ("x", "y", "v")}
            for row in project.rows_without_spark(name)
        ]
        assert sorted(rows, key=by_key) == source.expected(), name


@pytest.mark.parametrize("step", [*STEPS, *get_args(RebuildStep)])
def test_a_rebuild_killed_at_any_step_loses_and_duplicates_no_row(
    project: Project, runners: Runners, step: Step | RebuildStep, seed: int
) -> None:
    """Both processes, Python alone or Java alone; then records arrive, and a run or the
    next rebuild comes first."""
    chance = choose(seed, "rebuild", step)
    model, fate = (
        chance.choice(MODELS),
        chance.choice(("kill-both", "kill-python", "kill-java")),
    )
    make_project(project)
    project.run().check()
    nth = chance.choice((2, 3)) if step in STEPS else 1
    runner = runners.run(
        Order(str(project.directory), model, step, nth, fate, rebuilds=True)
    )
    runner.wait_for("reached")
    assert runner.wait() != 0
    runner.end()
    assert find_faults(project, FILES) == []
    record(project, range(FILES, FILES + 1))
    if chance.choice((True, False)):
        project.run().check()
        assert find_faults(project, FILES + 1) == []
    project.rebuild(*MODELS).check()
    project.run().check()
    assert find_faults(project, FILES + 1) == []
    assert not [name for name in project.table_names() if name.endswith(REBUILD_SUFFIX)]


@pytest.mark.parametrize("fate", ["kill-both", "pause"])
@pytest.mark.parametrize("step", STEPS)
def test_a_replay_of_dead_letters_killed_or_paused_at_any_step_writes_each_once(
    project: Project, runners: Runners, step: Step, fate: str
) -> None:
    """The next replay does what is left, before the paused one wakes up."""
    project._target["spark"] = SPARK
    project.stream("t", {"id": "int"})
    project.model("m", "SELECT cast(id AS string) AS id FROM {t}", mode="append")
    project.record("t", [{"id": 1}, {"id": "x"}, {"id": "y"}, "broken"])
    project.run().check()
    project.stream("t", {"id": "string"})
    project.manifest()
    runner = runners.run(
        Order(str(project.directory), "m", step, 1, fate, replays=True)
    )
    runner.wait_for("reached")
    if fate == "kill-both":
        assert runner.wait() == -signal.SIGKILL
    else:
        time.sleep(1)
    replay(project)
    if fate == "pause":
        runner.resume()
        runner.wait()
    runner.end()
    replay(project)
    assert [row["id"] for row in project.rows("m", "id")] == ["1", "x", "y"]
    assert letters(project) == [(1, True), (2, True), (3, False)]


@pytest.mark.parametrize("step", [*STEPS, "anywhere"])
def test_a_paused_runner_writes_nothing_after_another_took_over(
    project: Project,
    runners: Runners,
    step: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It wakes up in the middle of a batch that the other one has written meanwhile, or
    while rows are being staged."""
    monkeypatch.setattr("lakesql.engine.progress.lease.PASSES_ON_AFTER_S", 5.0)
    model = MODELS[(len(step) + seed) % len(MODELS)]
    make_project(project)
    if step == "anywhere":
        runner = runners.run(Order(str(project.directory), model, "stage", 2, "go-on"))
        runner.wait_for("reached")
        time.sleep(choose(seed, step).uniform(0, 0.6))
        runner.pause(project.lake.catalog.profile.uri)
    else:
        runner = runners.run(Order(str(project.directory), model, step, 2, "pause"))  # type: ignore[arg-type]
        runner.wait_for("reached")
        time.sleep(1)
    record(project, range(FILES, FILES + 1))
    project.run().check()
    assert find_faults(project, FILES + 1) == []
    before = {name: project.snapshot_ids(name) for name in MODELS}
    runner.resume()
    assert runner.wait() == 0
    runner.end()
    assert runner.conditions()[model] in (["lease-lost"], ["batch-published"])
    assert find_faults(project, FILES + 1) == []
    # a snapshot that it has staged may lie there, which no reader sees
    for name in MODELS:
        assert set(before[name]) <= set(project.snapshot_ids(name))
    record(project, range(FILES + 1, FILES + 2))
    project.run().check()
    assert find_faults(project, FILES + 2) == []


def test_without_the_ledger_the_harness_finds_duplicate_rows(
    project: Project, runners: Runners
) -> None:
    """Or all the others would find nothing whatever happened."""
    make_project(project)
    for has_ledger in (True, False):
        runner = runners.run(
            Order(str(project.directory), "a", "finish", 1, "kill-both", has_ledger)
        )
        assert runner.wait() == -signal.SIGKILL
    runner = runners.run(Order(str(project.directory), has_ledger=False))
    assert runner.wait() == 0
    assert "a: 20 doubled or wrong" in find_faults(project, FILES)
