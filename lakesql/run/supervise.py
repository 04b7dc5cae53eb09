"""Watches over the queries of a run: who may start, who has failed, who is tried again, and when all is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.spark.failure import UNREACHABLE
from lakesql.errors import LakesqlError, Problem, TransientError
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Emit,
    Event,
    ModelFinished,
    Noted,
    Progress,
    QueryStarted,
    RecordsRejected,
    Retrying,
    Status,
    now_ms,
)
from lakesql.project.profiles import Retries
from lakesql.run.interrupt import Interrupt

POLL_S = 0.05
PROGRESS_EVERY_S = 0.5
ENDED = "the run was ended"
GIVES_UP_AFTER_S = 25.0
"""How long a run that is asked to end lets its batches finish: service managers kill what takes longer than 30 s."""
ENDING = (
    f"ending once the batches that are under way are done, in {GIVES_UP_AFTER_S:.0f} s at most; if asked again, at "
    "once. Nothing is lost"
)
UNFINISHED = f"its batch was not done within {GIVES_UP_AFTER_S:.0f} s; the next run writes it"
FIRST_WAIT_MS = 1_000
"""How long is waited before the first new try; before each further one twice as long."""


class Query(Protocol):
    """The running query of a model."""

    def is_active(self) -> bool:
        """Whether any of it still runs."""

    def error(self) -> Exception | None:
        """Why it has failed, None where it has not, or where it was asked to stop before."""

    def request_stop(self) -> None:
        """Let the batch that is being written finish, and begin no other. Returns at once."""

    def progress(self) -> tuple[float, Backlog]:
        """Records per second of the last batch, and what is left to read."""


Start = Callable[[str, Emit], Query | None]
"""Starts the query of the model of this name, from where its table stands. It may raise anything. None where it cannot
be said yet whether it may start: it is asked again soon."""

Explain = Callable[[str, Exception], LakesqlError]
"""What an exception of the model of this name means. A `TransientError` is worth another try."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time: `since` some moment and `epoch`, both in milliseconds, and a pause of so many seconds."""

    since: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    epoch: Callable[[], int] = now_ms
    pause: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class ModelRun:
    """One model of a run: what it waits for, its query while it runs, and what it has done.

    `tries` are the tries since the last batch; at `retry_at` the next one is due.
    """

    name: str
    waits_for: frozenset[str]
    query: Query | None = None
    failure: Exception | None = None
    status: Status | None = None
    has_run: bool = False
    tries: int = 0
    retry_at: int | None = None
    started: int | None = None
    reported: int = 0
    batches: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0
    skipped_batches: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether it runs, or waits to be tried again."""
        return self.query is not None or self.retry_at is not None

    def count(self, event: Event) -> None:
        """Take in what a batch came to."""
        match event:
            case BatchCommitted():
                self.tries = 0
                self.batches += 1
                self.records += event.records
                self.rows += event.rows
            case BatchEmpty():
                self.tries = 0
                self.records += event.records
            case RecordsRejected():
                self.rejected += event.count
            case BatchSkipped():
                self.tries = 0
                self.skipped_batches += 1
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Supervisor:
    """How models are started and explained, how often they are tried again, and who hears of it.

    At most `limit` models run at once. With `continuous` a model starts as soon as those that it reads have begun.
    `must_stop` says why the query of a model must not go on, if it must not: it may have nothing to do, and so no batch
    that would ask. `give_up` ends all queries at once, whatever they are at.
    """

    start: Start
    explain: Explain
    emit: Emit
    retries: Retries
    limit: int
    continuous: bool
    interrupt: Interrupt
    must_stop: Callable[[str], Exception | None] = lambda name: None
    give_up: Callable[[], None] = lambda: None
    clock: Clock = Clock()

    def run(self, waits_for: Mapping[str, frozenset[str]]) -> Mapping[str, ModelRun]:
        """Run the models, each after those that it waits for, until all are done; how each has fared.

        A model whose query fails by something that may pass is started again after a pause, from its checkpoint: a
        batch that was committed all the same is found in the ledger and skipped. Any other failure ends it alone; those
        that wait for it are skipped, but with `continuous`. Once the run is asked to end, no batch is begun, and one
        that takes too long is given up.
        """
        runs = {name: ModelRun(name, others) for name, others in waits_for.items()}
        ends_by: int | None = None
        while any(run.status is None for run in runs.values()):
            if self.interrupt.is_set() and ends_by is None:
                ends_by = self.clock.since() + round(GIVES_UP_AFTER_S * 1000)
                self.emit(Noted(ENDING, self.clock.epoch()))
            if ends_by is not None and self.clock.since() >= ends_by:
                self._give_up(runs.values())
                break
            for run in runs.values():
                if run.query is not None:
                    self._watch(run, run.query)
                elif run.status is None:
                    self._consider(run, runs)
            self.clock.pause(POLL_S)
        return runs

    def _give_up(self, runs: Iterable[ModelRun]) -> None:
        self.give_up()
        for run in runs:
            if run.status is None:
                self._finish(run, "skipped", because=UNFINISHED)

    def _consider(self, run: ModelRun, runs: Mapping[str, ModelRun]) -> None:
        """Start a model that has no query, if its turn has come."""
        failed = [name for name in sorted(run.waits_for) if runs[name].status in ("error", "skipped")]
        if failed and not run.has_run and not self.continuous:
            self._finish(run, "skipped", because=f"{failed[0]} did not succeed")
        elif self.interrupt.is_set():
            self._finish(run, "skipped", because=ENDED)
        elif run.retry_at is not None:
            if self.clock.since() >= run.retry_at:
                self._start(run)
        elif sum(other.is_under_way for other in runs.values()) < self.limit and self._may_start(run, runs):
            self._start(run)

    def _may_start(self, run: ModelRun, runs: Mapping[str, ModelRun]) -> bool:
        """Whether what the model reads is there: done, or with `continuous` begun, which makes its table.

        With `continuous` one that has failed at its start is not waited for: its table may be there from before.
        """
        others = [runs[name] for name in run.waits_for]
        if self.continuous:
            return all(other.has_run or other.status is not None for other in others)
        return all(other.status == "success" for other in others)

    def _start(self, run: ModelRun) -> None:
        def emit(event: Event) -> None:
            run.count(event)
            self.emit(event)

        run.retry_at, run.failure = None, None
        if run.started is None:
            run.started = self.clock.since()
        try:
            run.query = self.start(run.name, emit)
        except Exception as error:  # whatever a model's start raises ends this model alone
            self._fail(run, error)
            return
        if run.query is not None:
            run.has_run = True
            self.emit(QueryStarted(run.name, self.clock.epoch()))

    def _watch(self, run: ModelRun, query: Query) -> None:
        is_over = not query.is_active()
        run.failure = run.failure or query.error() or (None if is_over else self.must_stop(run.name))
        if is_over:
            run.query = None
            if run.failure is not None:
                self._fail(run, run.failure)
            else:
                self._finish(run, "success")
            return
        if self.interrupt.is_set() or run.failure is not None:
            query.request_stop()
        if self.clock.since() - run.reported > PROGRESS_EVERY_S * 1000:
            run.reported = self.clock.since()
            speed, left = query.progress()
            self.emit(Progress(run.name, speed, left.count, left.unit, self.clock.epoch(), left.lag))

    def _fail(self, run: ModelRun, raised: Exception) -> None:
        """End the model, or let it be started again, where the failure may pass by itself."""
        error = self.explain(run.name, raised)
        if isinstance(error, TransientError) and self.interrupt.is_set():
            self._finish(run, "skipped", because=ENDED)  # the next run takes the batch up
        elif self._is_worth_a_try(run, error):
            wait_ms = min(FIRST_WAIT_MS << run.tries, self.retries.max_wait.length_ms)
            run.tries += 1
            run.retry_at = self.clock.since() + wait_ms
            attempts = self.retries.attempts
            self.emit(Retrying(run.name, run.tries, attempts, wait_ms, error.problems, self.clock.epoch()))
        else:
            self._finish(run, "error", error.problems)

    def _is_worth_a_try(self, run: ModelRun, error: LakesqlError) -> bool:
        if not isinstance(error, TransientError) or run.tries >= self.retries.attempts:
            return False
        # A broker or a catalog that a model has never reached may as well be a profile that is wrong.
        return run.has_run or not UNREACHABLE.issuperset(problem.condition for problem in error.problems)

    def _finish(self, run: ModelRun, status: Status, problems: tuple[Problem, ...] = (), because: str = "") -> None:
        run.status = status
        self.emit(
            ModelFinished(
                model=run.name,
                status=status,
                batches=run.batches,
                records=run.records,
                rows=run.rows,
                rejected=run.rejected,
                skipped_batches=run.skipped_batches,
                duration_ms=self.clock.since() - run.started if run.started is not None else 0,
                at_ms=self.clock.epoch(),
                problems=problems,
                because=because,
            )
        )
