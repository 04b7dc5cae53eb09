"""`lakesql run`: one Spark session, one query per model, in the order in which models read each other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesql.catalog.connect import check_checkpoints
from lakesql.compile.select import Select, build_select
from lakesql.engine.failure import explain
from lakesql.engine.query import ModelQuery
from lakesql.engine.session import new_session
from lakesql.errors import Problem, ProjectError
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
    RunFinished,
    RunStarted,
    SessionStarted,
    Status,
)
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.config import AvailableNow
from lakesql.run.interrupt import Interrupt, catch_signals
from lakesql.run.prepare import Surroundings, find_readings, prepare_model
from lakesql.run.spark import now_ms, open_spark

POLL_S = 0.05
PROGRESS_EVERY_S = 0.5


def run_models(manifest: Manifest, names: Sequence[str], continuous: bool, emit: Emit) -> bool:
    """Run the models `names` until all that is there has been taken (`continuous`: until somebody ends it).

    With `continuous` all queries run at once. Otherwise a model starts when those that it reads are done, as many side
    by side as the target's `threads`. A model that fails ends alone; those that read it are skipped. Returns whether
    no model failed. Raises `ProjectError` and `ProfileError` before anything is started or written.
    """
    selects = build_selects(manifest, names)
    readings = [reading for select in selects.values() for reading in find_readings(manifest, select)]
    started = time.monotonic()
    emit(RunStarted(manifest.target.name, tuple(names), continuous, now_ms()))
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    session, catalog = open_spark(manifest, readings, lambda text: emit(Noted(text, now_ms())))
    try:
        emit(SessionStarted(_since(started), now_ms()))
        with catch_signals() as interrupt:  # not before: a SparkContext sets a handler of its own
            succeeded = run_selects(Surroundings(manifest, session, catalog, emit), selects, continuous, interrupt)
    finally:
        session.stop()
    emit(RunFinished(_since(started), interrupt.is_set(), now_ms()))
    return succeeded


def run_selects(around: Surroundings, selects: Mapping[str, Select], continuous: bool, interrupt: Interrupt) -> bool:
    """What `run_models` does once the session is open, which stays open: run the models and say whether none failed."""
    runs = _supervise(around, selects, continuous, interrupt)
    return all(run.status != "error" for run in runs.values())


def build_selects(manifest: Manifest, names: Sequence[str]) -> dict[str, Select]:
    """The SELECTs of the models. Raises `ProjectError` with the problems of all of them at once."""
    built: dict[str, Select] = {}
    problems: dict[Problem, None] = {}
    for name in names:
        try:
            build_select(manifest, name, built)
        except ProjectError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ProjectError(problems)
    return {name: built[name] for name in names}


@dataclass(slots=True)
class _ModelRun:
    """One model of a run: what it waits for, its query while it runs, and what it has done."""

    select: Select
    waits_for: frozenset[str]
    query: ModelQuery | None = None
    status: Status | None = None
    started: float = 0.0
    reported: float = 0.0
    batches: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0
    skipped_batches: int = 0

    def count(self, event: Event) -> None:
        """Take in what a batch came to."""
        match event:
            case BatchCommitted():
                self.batches += 1
                self.records += event.records
                self.rows += event.rows
            case BatchEmpty():
                self.records += event.records
            case RecordsRejected():
                self.rejected += event.count
            case BatchSkipped():
                self.skipped_batches += 1
            case _:
                pass


def _supervise(
    around: Surroundings, selects: Mapping[str, Select], continuous: bool, interrupt: Interrupt
) -> Mapping[str, _ModelRun]:
    """Start each model when its turn has come, watch all that run, until all are done."""
    before = around.manifest.graph.predecessors_within(node_id("model", name) for name in selects)
    runs = {
        name: _ModelRun(select, frozenset(id_.split(".", 1)[1] for id_ in before[node_id("model", name)]))
        for name, select in selects.items()
    }
    limit = len(runs) if continuous else around.manifest.target.threads
    while any(run.status is None for run in runs.values()):
        active = [run for run in runs.values() if run.query is not None and run.status is None]
        waiting = [run for run in runs.values() if run.query is None and run.status is None]
        for run in active:
            _watch(around, run, interrupt)
        for run in waiting:
            failed = [name for name in sorted(run.waits_for) if runs[name].status in ("error", "skipped")]
            if failed:
                _finish(around, run, "skipped", because=f"{failed[0]} did not succeed")
            elif interrupt.is_set():
                _finish(around, run, "skipped", because="the run was ended")
            elif len(active) < limit and _may_start(run, runs, continuous):
                _start(around, run, continuous)
                active.append(run)
        time.sleep(POLL_S)
    return runs


def _may_start(run: _ModelRun, runs: Mapping[str, _ModelRun], continuous: bool) -> bool:
    """Whether what the model reads is there: done, or with `continuous` begun, which makes its table."""
    if continuous:
        return all(runs[name].query is not None for name in run.waits_for)
    return all(runs[name].status == "success" for name in run.waits_for)


def _start(around: Surroundings, run: _ModelRun, continuous: bool) -> None:
    name = run.select.model.name
    run.started = time.monotonic()
    session = new_session(around.session)
    try:
        counting = around.counting(run.count)
        query = ModelQuery(prepare_model(counting, session, run.select))
        query.start(session, run.select.model.config.trigger if continuous else AvailableNow())
        run.query = query
        around.emit(QueryStarted(name, now_ms()))
    except Exception as error:  # whatever a model's start raises ends this model alone
        _finish(around, run, "error", problems=explain(error, run.select).problems)


def _watch(around: Surroundings, run: _ModelRun, interrupt: Interrupt) -> None:
    query = run.query
    assert query is not None
    if query.is_active():
        if interrupt.is_set() or query.failure is not None:
            query.request_stop()
        if time.monotonic() - run.reported > PROGRESS_EVERY_S:
            run.reported = time.monotonic()
            speed, left = query.progress()
            around.emit(Progress(run.select.model.name, speed, left.count, left.unit, now_ms(), left.lag))
        return
    error = query.error()
    if error is not None:
        _finish(around, run, "error", problems=explain(error, run.select).problems)
    else:
        _finish(around, run, "success")


def _finish(
    around: Surroundings, run: _ModelRun, status: Status, problems: tuple[Problem, ...] = (), because: str = ""
) -> None:
    run.status = status
    around.emit(
        ModelFinished(
            model=run.select.model.name,
            status=status,
            batches=run.batches,
            records=run.records,
            rows=run.rows,
            rejected=run.rejected,
            skipped_batches=run.skipped_batches,
            duration_ms=_since(run.started) if run.started else 0,
            at_ms=now_ms(),
            problems=problems,
            because=because,
        )
    )


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
