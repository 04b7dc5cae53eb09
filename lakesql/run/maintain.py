"""Maintenance by itself: tasks that are run without the batches of their models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakesql.clock import now_ms
from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.ledger.snapshots import table_exists
from lakesql.engine.maintenance.keeper import Keeper, MaintenanceStep
from lakesql.engine.maintenance.orphans import Sweep
from lakesql.engine.spark.session import new_session
from lakesql.errors import LakesqlError, RunError
from lakesql.events import Emit, Noted
from lakesql.project.profiles import checkpoint_of
from lakesql.run.models import LeasedQueries, QueriesBy
from lakesql.run.prepare import check_specs, find_maintenance
from lakesql.run.supervise import Queries, Query

IS_RUN = "another runner has the model, and maintains its tables between two batches"


def maintenance_queries(tasks: Mapping[str, frozenset[str]], at_once: bool, sweep: Sweep = "") -> QueriesBy:
    """Queries that run tasks in the place of batches: by model, the names of its tasks that are run. Other models of
    the run have their ordinary queries.

    With `at_once` all of them run, else those that are due. A model that another runner has is left to that one; with
    `at_once` its lease is asked for as for a batch. `sweep` is what is asked for by hand of unknown files.
    """
    return lambda leased: _MaintenanceQueries(leased, tasks, at_once, sweep)


class _Maintenance:
    """The tasks of a model, in a thread of their own."""

    def __init__(self, work: Callable[[Callable[[], bool]], None] | None, model: str) -> None:
        self._stopping = threading.Event()
        self._was_stopped = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if work is not None:
            self._thread = threading.Thread(target=self._run, args=(work,), name=f"maintain {model}", daemon=True)
            self._thread.start()

    def _run(self, work: Callable[[Callable[[], bool]], None]) -> None:
        try:
            work(self._is_ending)
        except Exception as error:
            self._error = error

    def _is_ending(self) -> bool:
        """What the tasks ask before each table."""
        self._was_stopped = self._was_stopped or self._stopping.is_set()
        return self._was_stopped

    def is_active(self) -> bool:
        """Whether a task still runs."""
        return self._thread is not None and self._thread.is_alive()

    def error(self) -> Exception | None:
        """Why it has failed: a task has, or the runner must not continue."""
        return self._error

    def request_stop(self) -> None:
        """Begin no other table."""
        self._stopping.set()

    def was_stopped(self) -> bool:
        """Whether tables were left out."""
        return self._was_stopped

    def progress(self) -> tuple[float, Backlog]:
        """Nothing is read."""
        return 0.0, Backlog(None, "records", is_busy=True)


@dataclass(frozen=True, slots=True)
class _MaintenanceQueries(Queries):
    leased: LeasedQueries
    tasks: Mapping[str, frozenset[str]]
    at_once: bool
    sweep: Sweep = ""

    def start(self, model: str, emit: Emit) -> Query | None:
        if model not in self.tasks:
            return self.leased.start(model, emit)
        context, leases = self.leased.context, self.leased.leases
        checkpoint = checkpoint_of(context.manifest.target, model)
        try:
            if not leases.claim(model, checkpoint, lambda text: emit(Noted(text, now_ms(), model))):
                return None
        except RunError as error:
            if self.at_once or {problem.condition for problem in error.problems} != {"lease-held"}:
                raise
            emit(Noted(IS_RUN, now_ms(), model))
            return _Maintenance(None, model)
        session = new_session(context.session)
        select = self.leased.selects[model].select
        if not table_exists(session, select.model.table):
            emit(Noted("has no table yet", now_ms(), model))
            return _Maintenance(None, model)
        check_specs(session, select.model)

        def reach(step: MaintenanceStep) -> None:
            leases.check(model)
            context.reached(model, step)

        maintenance = find_maintenance(context.manifest, select)
        selected = tuple(task for task in maintenance.tasks if task.name in self.tasks[model])
        keeper = Keeper(replace(maintenance, tasks=selected), emit, reach, sweep=self.sweep)

        def maintain(is_ending: Callable[[], bool]) -> None:
            keeper.at_end(session, is_ending, self.at_once)
            if keeper.failed:
                raise RunError.of("maintenance-failed", f"It has failed: {', '.join(sorted(keeper.failed))}.")

        return _Maintenance(maintain, model)

    def explain(self, model: str, error: Exception) -> LakesqlError:
        return self.leased.explain(model, error)

    def must_stop(self, model: str) -> RunError | None:
        return self.leased.must_stop(model)

    def is_wanted(self, model: str) -> bool:
        return self.leased.is_wanted(model)

    def give_way(self, model: str) -> None:
        self.leased.give_way(model)

    def release(self, model: str) -> None:
        self.leased.release(model)

    def kill(self) -> None:
        self.leased.kill()
