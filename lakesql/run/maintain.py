"""Runs maintenance tasks without the batches of their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakesql.compile.select import Select
from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.ledger.snapshots import table_exists
from lakesql.engine.maintenance.keeper import Keeper, MaintenanceStep
from lakesql.engine.maintenance.orphans import Sweep
from lakesql.engine.maintenance.partitions import check_specs
from lakesql.engine.spark.session import new_session
from lakesql.errors import RunError
from lakesql.events import Emit, Noted
from lakesql.run.job import Job, ThreadWork
from lakesql.run.model_jobs import JobsBy, ModelJobs
from lakesql.run.start.model_maintenance import find_maintenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IS_RUN = "another runner has the model, and maintains its tables between two batches"


def maintenance_jobs(
    tasks: Mapping[str, frozenset[str]], at_once: bool, sweep: Sweep = ""
) -> JobsBy:
    """Jobs that run maintenance tasks in place of batches: `tasks` has the names of the
    tasks of each model. Other models of the run have their own jobs.

    With `at_once` all of the tasks run, else those that are due. A model whose lease
    another runner holds is left to that runner; with `at_once`, that is an error.
    `sweep` says what to do with files that lakesql is not known to have written:
    nothing, list or delete.
    """

    def start(jobs: ModelJobs, model: str, emit: Emit) -> Job | None:
        if model not in tasks:
            return jobs.start_model(model, emit)
        try:
            if not jobs.claim(model, emit):
                return None
        except RunError as error:
            if at_once or {problem.condition for problem in error.problems} != {
                "lease-held"
            }:
                raise
            emit(Noted(IS_RUN, model))
            return _MaintenanceJob(None)
        session = new_session(jobs.context.session)
        select = jobs.selects[model].select
        if not table_exists(session, select.model.table):
            emit(Noted("has no table yet", model))
            return _MaintenanceJob(None)
        check_specs(session, select.model)
        return _MaintenanceJob(
            ThreadWork(_maintain(jobs, session, select, emit), f"maintain {model}")
        )

    def _maintain(
        jobs: ModelJobs, session: SparkSession, select: Select, emit: Emit
    ) -> Callable[[IsEnding], None]:
        model = select.model.name

        def reach(step: MaintenanceStep) -> None:
            jobs.leases.check(model)
            jobs.context.reached(model, step)

        maintenance = find_maintenance(jobs.context.manifest, select)
        selected = tuple(
            task for task in maintenance.tasks if task.name in tasks[model]
        )
        keeper = Keeper(replace(maintenance, tasks=selected), emit, reach, sweep=sweep)

        def maintain(is_ending: IsEnding) -> None:
            keeper.at_end(session, is_ending, at_once)
            if keeper.failed:
                raise RunError.of(
                    "maintenance-failed",
                    f"It has failed: {', '.join(sorted(keeper.failed))}.",
                )

        return maintain

    return lambda jobs: partial(start, jobs)


IsEnding = Callable[[], bool]
"""Whether the run is to end; asked before each table."""


@dataclass(frozen=True, slots=True)
class _MaintenanceJob:
    """The maintenance of one model; `work` is None if there is nothing to do."""

    work: ThreadWork | None

    def __post_init__(self) -> None:
        if self.work is not None:
            self.work.start()

    def step(self) -> None:
        """Do nothing: the thread runs the tasks one after the other."""

    def is_active(self) -> bool:
        """Whether a task still runs."""
        return self.work is not None and self.work.is_active()

    def error(self) -> Exception | None:
        """Why a task, or the job as a whole, has failed; None if none has."""
        return self.work.failure if self.work is not None else None

    def request_stop(self) -> None:
        """Begin with no further table."""
        if self.work is not None:
            self.work.request_stop()

    def was_stopped(self) -> bool:
        """Whether tables were left out because the job was to end."""
        return self.work is not None and self.work.was_stopped()

    def progress(self) -> tuple[float, Backlog]:
        """No records and no backlog."""
        return 0.0, Backlog(None, "records", is_busy=True)
