"""Supervises the jobs of a run: when each model's job starts, whether a failed one is
retried, and when the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Event as Flag
from threading import Lock, Thread
from types import MappingProxyType

from lakesql.clock import now_ms
from lakesql.engine.spark.failure import AWAY_OR_WRONG
from lakesql.errors import FilesSetAside, LakesqlError, Problem, TransientError
from lakesql.events import (
    Emit,
    Event,
    HealthJudged,
    HealthReason,
    Noted,
    Progress,
    QueryPaused,
    QueryStarted,
    Retrying,
    Status,
)
from lakesql.observe.status_text import sentence
from lakesql.observe.tally import ModelTally, count_model_event
from lakesql.observe.text import duration, headline, is_up_to_date
from lakesql.plan.run_health import TableLimits, judge_run
from lakesql.project.profiles import Retries
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import Job, Jobs, RunOptions

POLL_S = 0.05
RESTING_POLL_S = 0.25
"""The poll interval while every model of the run rests, which may be for days."""
PROGRESS_EVERY_S = 0.5
ENDED = "the run was ended"
GIVES_UP_AFTER_S = 25.0
"""How long a run that is asked to end lets its batches finish: service managers kill a
process that takes longer than 30 s to stop."""
ENDING = (
    f"ending once the batches that are under way are done, in {GIVES_UP_AFTER_S:.0f} s at most; if asked again, at "
    "once. Nothing is lost"
)
JUDGES_EVERY_MS = 1_000
TELLS_EVERY_MS = 60_000
"""How often the health of a table is judged (`JUDGES_EVERY_MS`), and how often an
unchanged finding about an unhealthy table is reported again."""
REMINDS_EVERY_MS = 600_000
"""How often a continuous run repeats which models have failed and are left out."""
BLOCKED_FOR_S = 1.0
"""How long the supervising thread may go without noticing that the run is to end,
because a job blocks it, before the timekeeper thread acts in its place."""
SET_ASIDE_MS = 60_000
"""The pause before a model of a group that has failed for good is tried again."""
UNFINISHED = (
    f"its batch was not done within {GIVES_UP_AFTER_S:.0f} s; the next run writes it"
)
FIRST_WAIT_MS = 1_000
"""The pause before the first retry; it doubles before each further one."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a supervisor: `since` is monotonic and `epoch` the time of day, both
    in milliseconds; `pause` sleeps for a number of seconds."""

    since: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    epoch: Callable[[], int] = now_ms
    pause: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class ModelRun:
    """The state of one model in a run: what it waits for, its job while it runs, and
    the tally of what it has done.

    Without `continuous` the model starts only after the models in `after` have ended,
    whatever their status.

    `retry_at` is when the next retry is due, on the monotonic clock. `is_pausing` is
    set once the job is to end because another process wants the model's lease.
    `is_resting` is set while the model has nothing to read; it is not polled then.
    `has_more` is set if records arrived after its job began. `set_aside` holds the
    problems of a model that has failed for good and is tried again nevertheless.
    """

    tally: ModelTally
    waits_for: frozenset[str]
    after: frozenset[str] = frozenset()
    job: Job | None = None
    failure: Exception | None = None
    has_run: bool = False
    is_pausing: bool = False
    is_resting: bool = False
    has_more: bool = False
    set_aside: tuple[Problem, ...] = ()
    retry_at: int | None = None
    started: int | None = None
    reported: int = 0
    judged: int = 0
    told: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def status(self) -> Status | None:
        """The status with which the model has ended; None while it has not."""
        return self.tally.finished.status if self.tally.finished else None

    @property
    def is_under_way(self) -> bool:
        """Whether the model has a running job or waits for a retry."""
        return self.job is not None or self.retry_at is not None


@dataclass(slots=True)
class _End:
    """The progress of a requested end of the run, which the supervising thread and the
    timekeeper share."""

    is_noted: bool = False
    has_killed: bool = False
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Runs the jobs of models, emits events about them, and retries transient failures
    as `retries` allows.

    A model without a group starts only while fewer than `limit` models run or wait for
    a retry; one for which `group_of` returns a group only while fewer than
    `group_limit` models of that group run. With `options.continuous` a model starts as
    soon as the models that it reads have started. `limits` are the limits by which the
    health of each model's table is judged.
    """

    jobs: Jobs
    emit: Emit
    retries: Retries
    limit: int
    interrupt: Interrupt
    options: RunOptions = RunOptions()
    limits: Mapping[str, TableLimits] = field(default_factory=dict)
    group_of: Callable[[str], str] = lambda name: ""
    group_limit: int = 1
    clock: Clock = Clock()
    end: _End = field(default_factory=_End, init=False)

    def run(
        self,
        waits_for: Mapping[str, frozenset[str]],
        after: Mapping[str, frozenset[str]] = MappingProxyType({}),
        resting: frozenset[str] = frozenset(),
    ) -> Mapping[str, ModelRun]:
        """Run each model after those in `waits_for`, until all have ended; returns the
        final state of each.

        Without `continuous` a model also starts only after the models in `after` have
        ended, whatever their status. Models in `resting` start once records have
        arrived for them.

        A model that fails transiently is started again after a pause, from its
        checkpoint: a batch that was committed nevertheless is found in the ledger and
        skipped. Any other failure ends that model alone; models that wait for it are
        skipped, except with `continuous`. A model whose lease another process asks for
        pauses between two batches, and continues once the lease is given back. Once the
        run is to end, no batch is started, and one that takes longer than
        `GIVES_UP_AFTER_S` is abandoned: without `continuous`, a model that had more to
        read ends as skipped, with the figures of what it has done.
        """
        runs = {
            name: ModelRun(
                ModelTally(name),
                others,
                after.get(name, frozenset()),
                is_resting=name in resting,
            )
            for name, others in waits_for.items()
        }
        over = Flag()
        timekeeper = Thread(
            target=self._keep_time, args=(over,), name="lakesql-end", daemon=True
        )
        timekeeper.start()
        try:
            self._run(runs)
        finally:
            over.set()
            timekeeper.join()
        return runs

    def _run(self, runs: dict[str, ModelRun]) -> None:
        ends_by, reminded = None, self.clock.since()
        while any(run.status is None for run in runs.values()):
            ending = self._why_ending(runs.values())
            if ending and ends_by is None:
                ends_by = self.clock.since() + round(GIVES_UP_AFTER_S * 1000)
                self._note_ending()
            if self.end.has_killed or (
                ends_by is not None and self.clock.since() >= ends_by
            ):
                self._give_up(runs.values())
                break
            if (
                self.options.continuous
                and self.clock.since() - reminded >= REMINDS_EVERY_MS
            ):
                reminded = self.clock.since()
                self._remind(runs.values())
            awake = self._awake(runs, ending)
            try:
                for run in awake:
                    if run.job is not None:
                        self._watch(run, run.job, ending)
                    elif run.status is None:
                        self._consider(run, runs, ending)
            except Exception:
                if not self.end.has_killed:  # else it comes of that
                    raise
            self.clock.pause(POLL_S if awake else RESTING_POLL_S)

    def _awake(self, runs: dict[str, ModelRun], ending: str) -> list[ModelRun]:
        """The models to poll now: all that do not rest, or all once the run is to end.
        Wakes resting models for which records have arrived, and adds models that are
        new in the run."""
        for name in self.jobs.woken():
            run = runs.setdefault(name, ModelRun(ModelTally(name), frozenset()))
            run.is_resting, run.has_more = False, True
        return [run for run in runs.values() if ending or not run.is_resting]

    def _keep_time(self, over: Flag) -> None:
        """End a run that was asked to end even if a starting model, or Java, blocks the
        supervising thread."""
        while not self.interrupt.is_set():
            if over.wait(RESTING_POLL_S):
                return
        ends_by = self.clock.since() + round((GIVES_UP_AFTER_S + BLOCKED_FOR_S) * 1000)
        if over.wait(BLOCKED_FOR_S):
            return
        self._note_ending()
        while self.clock.since() < ends_by:
            if over.wait(POLL_S):
                return
        self.end.has_killed = True
        self.jobs.kill()

    def _note_ending(self) -> None:
        with self.end.lock:
            is_news, self.end.is_noted = not self.end.is_noted, True
        if is_news:
            self.emit(Noted(ENDING, at_ms=self.clock.epoch()))

    def _why_ending(self, runs: Iterable[ModelRun]) -> str:
        """Why the run is to end before its models are done; '' if it is not."""
        if self.interrupt.is_set():
            return ENDED
        failed = [run.tally.name for run in runs if run.status == "error"]
        return (
            f"the run ended with the failure of {failed[0]}"
            if failed and self.options.fail_fast
            else ""
        )

    def _remind(self, runs: Iterable[ModelRun]) -> None:
        for run in runs:
            if run.status == "error" and run.tally.finished:
                since = duration(self.clock.epoch() - run.tally.finished.at_ms)
                problem = headline(run.tally.finished.problems)
                self.emit(
                    Noted(
                        f"failed {since} ago, and the run continues without it: {problem}",
                        run.tally.name,
                        at_ms=self.clock.epoch(),
                    )
                )

    def _give_up(self, runs: Iterable[ModelRun]) -> None:
        if not self.end.has_killed:
            self.jobs.kill()
        for run in runs:
            if run.status is None:
                self._finish(run, "skipped", because=UNFINISHED)

    def _consider(
        self, run: ModelRun, runs: Mapping[str, ModelRun], ending: str
    ) -> None:
        """Start the job of a model that has none, if its turn has come; finish it if
        the run is ending or a model that it waits for has failed."""
        failed = [
            name
            for name in sorted(run.waits_for)
            if runs[name].status in ("error", "skipped")
        ]
        if ending:
            self._finish_idle(run, ending)
        elif failed and not run.has_run and not self.options.continuous:
            self._finish(run, "skipped", because=f"{failed[0]} did not succeed")
        elif self.jobs.is_wanted(run.tally.name):
            self.jobs.give_way(run.tally.name)
        elif run.retry_at is not None:
            if self.clock.since() >= run.retry_at:
                self._start(run)
        elif self._has_room(run, runs) and self._may_start(run, runs):
            self._start(run)

    def _finish_idle(self, run: ModelRun, ending: str) -> None:
        """Finish a model that has no job when the run is to end."""
        if run.set_aside:
            self._finish(run, "error", run.set_aside)
        elif run.is_resting:
            self._finish(run, "success")
        else:
            self._finish(run, "skipped", because=ending)

    def _has_room(self, run: ModelRun, runs: Mapping[str, ModelRun]) -> bool:
        """Whether the concurrency limit of the run, or of the model's group, allows one
        more model."""
        if self.jobs.runs_together(run.tally.name):
            return True
        group = self.group_of(run.tally.name)
        if not group:
            return sum(other.is_under_way for other in runs.values()) < self.limit
        at_work = [other.tally.name for other in runs.values() if other.job is not None]
        return sum(self.group_of(name) == group for name in at_work) < self.group_limit

    def _may_start(self, run: ModelRun, runs: Mapping[str, ModelRun]) -> bool:
        """Whether the models that this one reads are ready: successful, or with
        `continuous` started (which creates their tables), resting or ended.

        With `continuous`, a model that failed at its start does not block its readers:
        its table may exist from an earlier run.
        """
        others = [runs[name] for name in run.waits_for]
        if self.options.continuous:
            return all(
                other.has_run or other.is_resting or other.status is not None
                for other in others
            )
        is_in_turn = all(runs[name].status is not None for name in run.after)
        return is_in_turn and all(other.status == "success" for other in others)

    def _start(self, run: ModelRun) -> None:
        run.retry_at, run.failure, run.is_pausing, run.has_more = (
            None,
            None,
            False,
            False,
        )
        if run.started is None:
            run.started = self.clock.since()
        try:
            run.job = self.jobs.start(run.tally.name, partial(self._emit, run))
        # an exception at a model's start ends this model alone
        except Exception as error:
            self._fail(run, error)
            return
        if run.job is None:
            return
        if not (run.has_run and self.jobs.rests(run.tally.name)):
            self._emit(run, QueryStarted(run.tally.name, at_ms=self.clock.epoch()))
        run.has_run = True

    def _watch(self, run: ModelRun, job: Job, ending: str) -> None:
        job.step()
        is_over = not job.is_active()
        run.is_pausing = run.is_pausing or (
            not is_over and self.jobs.is_wanted(run.tally.name)
        )
        run.failure = (
            run.failure
            or job.error()
            or (None if is_over else self.jobs.must_stop(run.tally.name))
        )
        if is_over:
            run.job = None
            self._end(run, job, ending)
            return
        if ending or run.is_pausing or run.failure is not None:
            job.request_stop()
        if self.clock.since() - run.reported > PROGRESS_EVERY_S * 1000:
            run.reported = self.clock.since()
            speed, backlog = job.progress()
            now = self.clock.epoch()
            told = Progress(
                model=run.tally.name,
                records_per_second=speed,
                left=backlog.count,
                left_unit=backlog.unit,
                at_ms=now,
                lag=backlog.lag,
                is_busy=backlog.is_busy,
            )
            self._emit(run, told)
        if self.clock.since() - run.judged >= JUDGES_EVERY_MS:
            run.judged = self.clock.since()
            self._judge(run)

    def _end(self, run: ModelRun, job: Job, ending: str) -> None:
        """Finish a model whose job is over, or leave it waiting for its next job."""
        tally, options = run.tally, self.options
        is_cut_short = bool(ending) and not options.continuous and job.was_stopped()
        if run.failure is not None:
            self._fail(run, run.failure, ending)
        elif run.is_pausing and not ending:
            self._emit(run, QueryPaused(tally.name, at_ms=self.clock.epoch()))
        elif is_cut_short:
            self._finish(run, "skipped", because=ending)
        elif not ending and self.jobs.rests(tally.name):
            self._rest(run)
        elif (
            options.fail_if_empty
            and tally.has_nothing
            and is_up_to_date(tally.finish("success", 0, 0))
        ):
            self._finish(
                run,
                "error",
                tuple(Problem("stream-empty", text) for text in tally.warnings),
            )
        elif tally.unusable:
            self._finish(run, "error", (_unusable(tally),))
        else:
            self._finish(run, "success")

    def _rest(self, run: ModelRun) -> None:
        """Let a model rest until records have arrived for it."""
        if run.set_aside:
            self._emit(
                run,
                Noted(
                    "goes on, with all that it has missed",
                    run.tally.name,
                    at_ms=self.clock.epoch(),
                ),
            )
        run.is_resting, run.set_aside = not run.has_more, ()
        self.jobs.rest(run.tally.name)

    def _judge(self, run: ModelRun) -> None:
        """Emit the health of a model's table when it has changed, and every
        `TELLS_EVERY_MS` while the table is unhealthy."""
        was, now = run.tally, self.clock.epoch()
        # A run that ends by itself reads what has already arrived; it does not know
        # since when it could have read it.
        since_ms = (
            now - (self.clock.since() - run.started)
            if self.options.continuous and run.started is not None
            else None
        )
        limits = self.limits.get(was.name, TableLimits())
        judged = judge_run(was.known, limits, since_ms, now)
        findings = judged.findings
        before = {(reason.figure, reason.word) for reason in was.judged_because}
        is_news = before != {(finding.figure, finding.word) for finding in findings}
        if not is_news and (
            not findings or self.clock.since() - run.told < TELLS_EVERY_MS
        ):
            return
        run.told = self.clock.since()
        has_commit = was.known.committed_at_ms is not None
        reasons = tuple(
            HealthReason(
                each.figure,
                each.word,
                each.value,
                each.limit,
                sentence(each, judged.figures, has_commit=has_commit),
            )
            for each in findings
        )
        self._emit(
            run, HealthJudged(was.name, judged.word, was.judged, reasons, at_ms=now)
        )

    def _fail(self, run: ModelRun, raised: Exception, ending: str = "") -> None:
        """End the model with an error, or schedule its next start if the failure is
        transient."""
        if self.end.has_killed:
            return  # it comes of that
        if isinstance(raised, FilesSetAside) and not ending:
            # at once, and not counted as a retry: each time fewer files are left
            run.retry_at = self.clock.since()
            return
        name, retries = run.tally.name, run.tally.retries
        if isinstance(raised, FilesSetAside):
            self._finish(run, "skipped", because=ending)
            return
        error = self.jobs.explain(name, raised)
        if isinstance(error, TransientError) and ending:
            # the next run writes the batch
            self._finish(run, "skipped", because=ending)
        elif self._is_worth_a_retry(run, error):
            wait_ms = min(FIRST_WAIT_MS << retries, self.retries.max_wait.length_ms)
            run.retry_at = self.clock.since() + wait_ms
            attempts, now = self.retries.attempts, self.clock.epoch()
            self._emit(
                run,
                Retrying(
                    name, retries + 1, attempts, wait_ms, error.problems, at_ms=now
                ),
            )
        elif self._outlives_failures(name) and not ending:
            self._set_aside(run, error.problems)
        else:
            self._finish(run, "error", error.problems)

    def _outlives_failures(self, name: str) -> bool:
        """Whether a model is tried again even after a failure for good, because it
        belongs to a group."""
        return self.jobs.rests(name) or (
            self.options.continuous and self.jobs.runs_together(name)
        )

    def _set_aside(self, run: ModelRun, problems: tuple[Problem, ...]) -> None:
        """Schedule another try of a model that has failed for good, and let the others
        of its group continue without it."""
        if run.set_aside != problems:
            why = headline(problems)
            text = f"is set aside, and tried again every {duration(SET_ASIDE_MS)}; its records stay in the feed: {why}"
            self._emit(run, Noted(text, run.tally.name, at_ms=self.clock.epoch()))
        run.set_aside = problems
        run.retry_at = self.clock.since() + SET_ASIDE_MS

    def _is_worth_a_retry(self, run: ModelRun, error: LakesqlError) -> bool:
        if (
            not isinstance(error, TransientError)
            or run.tally.retries >= self.retries.attempts
        ):
            return False
        # If a model has never reached its broker or catalog, the profile may as well be
        # wrong.
        return run.has_run or not AWAY_OR_WRONG.issuperset(
            problem.condition for problem in error.problems
        )

    def _finish(
        self,
        run: ModelRun,
        status: Status,
        problems: tuple[Problem, ...] = (),
        because: str = "",
    ) -> None:
        self.jobs.release(run.tally.name)
        duration_ms = self.clock.since() - run.started if run.started is not None else 0
        self._emit(
            run,
            run.tally.finish(
                status, duration_ms, self.clock.epoch(), problems, because
            ),
        )

    def _emit(self, run: ModelRun, event: Event) -> None:
        """Count the event in the model's tally, and emit it. Also called by the threads
        of the model's job."""
        with run.lock:
            run.tally = count_model_event(run.tally, event)
        self.emit(event)


def _unusable(tally: ModelTally) -> Problem:
    """The problem of a model all of whose records have become dead letters."""
    return Problem(
        "no-usable-record",
        f"Each record that model '{tally.name}' has read is a dead letter ({tally.records:,} were read), and its table "
        "has no row.",
        f"The first of them: {tally.unusable}",
        fix=f"See what is in them (`lakesql show {tally.name} --dead-letters`), correct the stream or the model, and "
        f"read them again: `lakesql replay {tally.name}`, or of a change feed `lakesql rebuild {tally.name}`.",
    )
