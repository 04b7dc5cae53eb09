"""The jobs of a build: each runs its model's batches and then the data tests of its
table, and fails if a test fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.spark.session import new_session
from lakesql.errors import RunError
from lakesql.events import Emit, Noted
from lakesql.plan.data_test_results import TestResult, is_bad
from lakesql.run.build import Build
from lakesql.run.job import Job, StartJob, ThreadWork
from lakesql.run.model_jobs import JobsBy, ModelJobs
from lakesql.run.start.context import RunContext
from lakesql.run.test.run_data_tests import TestRun, run_data_tests
from lakesql.unit.outcomes import is_failed, summary


def jobs_with_tests(build: Build, inner: JobsBy | None) -> JobsBy:
    """The jobs of a run, each with its model's tests around it: unit tests are judged
    before it starts, data tests run after it. A model whose tests fail has failed."""

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
    """A job that runs a model's own job and, if that has succeeded, the data tests of
    its table."""

    job: Job
    tests: ThreadWork
    _is_stopping: bool = False

    def step(self) -> None:
        """Take the inner job's next step, or start the tests once it is over."""
        self.job.step()
        if self._are_next() and not self.job.is_active():
            self.tests.start()

    def is_active(self) -> bool:
        """Whether the inner job or a test is running, or the tests are still to
        begin."""
        return self.job.is_active() or self.tests.is_active() or self._are_next()

    def error(self) -> Exception | None:
        """Why the inner job or its tests have failed; None if neither has."""
        return self.job.error() or self.tests.failure

    def request_stop(self) -> None:
        """Begin neither another batch nor the tests."""
        self._is_stopping = True
        self.job.request_stop()

    def was_stopped(self) -> bool:
        """Whether the inner job was stopped, or the tests were not begun."""
        return self.job.was_stopped() or not self.tests.has_begun

    def progress(self) -> tuple[float, Backlog]:
        """The progress of the inner job."""
        return self.job.progress()

    def _are_next(self) -> bool:
        return (
            not self.tests.has_begun
            and not self._is_stopping
            and self.job.error() is None
        )
