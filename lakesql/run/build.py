"""`lakesql build`: the tests of models, run as their batches are done, before the
models that read them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter

from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.spark.session import new_session
from lakesql.errors import Problem, RunError
from lakesql.events import Emit, Noted
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.data_tests import DataTest
from lakesql.plan.data_test_results import TestResult, is_bad
from lakesql.run.job import Job, StartJob, ThreadWork
from lakesql.run.model_jobs import JobsBy, ModelJobs
from lakesql.run.models import Order
from lakesql.run.seeds_first import SeedsFirst
from lakesql.run.start.context import RunContext
from lakesql.run.test.run_data_tests import Engine, TestRun, run_data_tests
from lakesql.run.together import consistent_group
from lakesql.unit.outcomes import Result, is_failed, summary

NOT_REACHED = "the model did not get as far as its tests"


@dataclass(slots=True)
class Build:
    """Which tests belong to which model of a build, and how they have ended so far.

    `units` are the results of the unit tests of a model, which is run only where they
    pass. A data test belongs to the last of the models that it tests, and `order` sees
    that this one is the last. `loose` are tests of no model that is built, and `seeds`
    has those of seeds alone. `ran` are the models whose batches have ended well,
    whatever their tests say. `unit_results` are those of models that were reached.
    """

    manifest: Manifest
    engine: Engine
    units: Mapping[str, tuple[Result, ...]]
    owned: Mapping[str, tuple[DataTest, ...]]
    order: Order
    loose: tuple[DataTest, ...]
    seeds: SeedsFirst
    ran: set[str] = field(default_factory=set)
    results: dict[str, TestResult] = field(default_factory=dict)
    unit_results: dict[str, tuple[Result, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def all_results(self) -> list[TestResult]:
        """The results of all data tests of models that are built; tests that were not
        reached are skipped ones."""
        tests = [test for name in self.owned for test in self.owned[name]]
        reached = [
            self.results.get(it.name) or TestResult(it, "skipped", message=NOT_REACHED)
            for it in tests
        ]
        return [*self.seeds.all_results(), *reached]


def _check_groups(manifest: Manifest, names: Sequence[str]) -> None:
    """Raise `RunError` (`group-build`) for groups whose tables change together: tests
    between two models would hold up the others."""
    groups = {
        group.name: group
        for name in names
        if (group := consistent_group(manifest, name)) is not None
    }
    problems = [
        Problem(
            "group-build",
            f"The tables of group '{group.name}' change together, and `lakesql build` tests one before the others.",
            "",
            f"Run the group, and test it then: lakesql run --select {group.name}; lakesql test --select {group.name}",
            group.place,
        )
        for group in groups.values()
    ]
    if problems:
        raise RunError(problems)


def plan_build(
    manifest: Manifest,
    names: Sequence[str],
    tests: Sequence[DataTest],
    units: Sequence[Result],
    engine: Engine,
    seeds: Sequence[str] = (),
    is_full_refresh: bool = False,
) -> Build:
    """Put the tests into the order of the models `names`, and those of `seeds` before
    them.

    Whatever reads one of the models of a test waits for it, but where the test itself
    waits for that reader. `units` are the results of the models' unit tests, which have
    run.
    """
    _check_groups(manifest, names)
    graph = manifest.graph
    ids = graph.predecessors_within(node_id("model", name) for name in names)
    waits = {
        name: {read.split(".", 1)[1] for read in ids[node_id("model", name)]}
        for name in names
    }
    read = {name: frozenset(others) for name, others in waits.items()}
    after: dict[str, frozenset[str]] = {}
    owned: dict[str, list[DataTest]] = {name: [] for name in names}
    loose: list[DataTest] = []
    of_seeds = [
        test for test in tests if test.seeds and test.seeds.issuperset(test.depends_on)
    ]
    first = SeedsFirst(manifest, tuple(seeds), tuple(of_seeds), engine, is_full_refresh)
    for test in (test for test in tests if test not in of_seeds):
        tested = [name for name in test.depends_on if name in waits]
        if not tested:
            loose.append(test)
            continue
        order = (
            [*TopologicalSorter(waits).static_order()] if len(tested) > 1 else tested
        )
        owner = max(tested, key=order.index)
        owned[owner].append(test)
        if len(tested) == 1:
            continue
        after[owner] = after.get(owner, frozenset()) | (
            {*tested} - {owner} - read[owner]
        )
        waits[owner] |= {*tested} - {owner}
        before = _all_before(owner, waits)
        for reader in graph.downstream(node_id("model", name) for name in tested):
            name = reader.split(".", 1)[1]
            if name in waits and name != owner and name not in before:
                waits[name].add(owner)
    return Build(
        manifest=manifest,
        engine=engine,
        units={
            name: tuple(result for result in units if result.test.model == name)
            for name in names
        },
        owned={name: tuple(found) for name, found in owned.items()},
        order=Order(
            {
                name: frozenset(waits[name] - read[name] - after.get(name, frozenset()))
                for name in names
            },
            after,
        ),
        loose=tuple(loose),
        seeds=first,
    )


def jobs_with_tests(build: Build, inner: JobsBy | None) -> JobsBy:
    """The jobs of a run with the tests of each model around them: a model whose tests
    fail has failed."""

    def start(jobs: ModelJobs, begin: StartJob, model: str, emit: Emit) -> Job | None:
        if model in build.units and model not in build.unit_results:
            _judge_unit_tests(build, model, emit)
        job = begin(model, emit)
        if job is None or model not in build.owned:
            return job
        return _TestedJob(
            job,
            ThreadWork(
                lambda _: _run_data_tests(build, jobs.context, model, emit),
                f"test {model}",
            ),
        )

    return lambda jobs: partial(
        start, jobs, jobs.start_model if inner is None else inner(jobs)
    )


def _all_before(name: str, waits: Mapping[str, set[str]]) -> frozenset[str]:
    """All models that a model waits for, directly or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        fresh = waits[left.pop()] - found
        found |= fresh
        left.extend(fresh)
    return frozenset(found)


def _judge_unit_tests(build: Build, model: str, emit: Emit) -> None:
    results = build.units[model]
    build.unit_results[model] = results
    failed = [result.test.name for result in results if is_failed(result)]
    if failed:
        raise _failure(model, "Unit tests", failed, "Its batch was not begun.")
    if results:
        emit(Noted(f"unit tests: {summary(results)['passed']} passed", model))


def _run_data_tests(build: Build, context: RunContext, model: str, emit: Emit) -> None:
    def told(result: TestResult) -> None:
        build.results[result.test.name] = result
        emit(Noted(f"test {result.test.name}: {result.status}", model))

    build.ran.add(model)
    here = [
        test
        for test in build.owned[model]
        if build.ran.issuperset({*test.depends_on} & {*build.owned})
    ]
    if not here:
        return
    with build.lock:  # the positions of all tests are kept in one file
        session = partial(new_session, context.session)
        run = TestRun(context.manifest, context.catalog, session, build.engine)
        results = run_data_tests(run, here, told)
    if is_bad(results):
        failed = [result.test.name for result in results if is_bad([result])]
        raise _failure(model, "Data tests", failed, "Its rows are in its table.")


def _failure(model: str, kind: str, failed: Sequence[str], so: str) -> RunError:
    what = f"{kind} of model '{model}' fail: {', '.join(failed)}."
    return RunError.of(
        "test-failed", what, why=f"{so} Models that read it are not run."
    )


@dataclass(slots=True)
class _TestedJob:
    """A job that runs a model's own job and then, if that has succeeded, the data tests
    of its table."""

    job: Job
    tests: ThreadWork
    _is_stopping: bool = False

    def step(self) -> None:
        """Take the job's next step; begin with the tests when it is over."""
        self.job.step()
        if self._are_next() and not self.job.is_active():
            self.tests.start()

    def is_active(self) -> bool:
        """Whether the job or a test still runs, or tests are to begin."""
        return self.job.is_active() or self.tests.is_active() or self._are_next()

    def error(self) -> Exception | None:
        """Why the job has failed, or that tests do."""
        return self.job.error() or self.tests.failure

    def request_stop(self) -> None:
        """Begin neither another batch nor the tests."""
        self._is_stopping = True
        self.job.request_stop()

    def was_stopped(self) -> bool:
        """Whether the job was, or the tests have not begun."""
        return self.job.was_stopped() or not self.tests.has_begun

    def progress(self) -> tuple[float, Backlog]:
        """The progress of the model's own job."""
        return self.job.progress()

    def _are_next(self) -> bool:
        return (
            not self.tests.has_begun
            and not self._is_stopping
            and self.job.error() is None
        )
