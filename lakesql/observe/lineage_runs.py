"""A renderer that turns a run's events into lineage runs (OpenLineage): when one begins
and ends, and what it has read and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self
from uuid import NAMESPACE_URL, uuid5

from lakesql.errors import Problem
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    BatchStarted,
    Event,
    LineageLost,
    ModelFinished,
    ReadRange,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    SeedFinished,
)
from lakesql.observe.tally import RunTally
from lakesql.observe.told_run import LineageOutput, LineageRun, LineageSink, State


@dataclass(slots=True)
class _OpenRun:
    """A lineage run that has begun, with what its batches have done so far.

    `first` and `last` are the numbers of its batches; `is_in_batch`: the last one is
    under way. `letters` has the dead letters by their table. `is_checked`: a batch is
    done, so that `violations` is known.
    """

    id: str
    started_ms: int
    period_ms: int
    checkpoint: str
    table: str
    location: str
    first: int
    last: int
    is_in_batch: bool = True
    reads: dict[str, ReadRange] = field(default_factory=dict)
    rows: int | None = None
    snapshot: int | None = None
    letters: dict[str, LineageOutput] = field(default_factory=dict)
    committed: int = 0
    records: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    is_checked: bool = False


class LineageRuns:
    """A renderer that sends lineage runs to a sink: one for each batch, or one for all
    batches of a period.

    `period_ms` is the period by model, 0 for a run for each batch; `new_id` makes the
    id of a run. Their parent is the run of lakesql itself, which is sent with the first
    of them: a run that finds nothing new sends nothing.
    """

    def __init__(
        self, sink: LineageSink, period_ms: Mapping[str, int], new_id: Callable[[], str]
    ) -> None:
        self._sink = sink
        self._period_ms = period_ms
        self._new_id = new_id
        self._parent = ""
        self._is_begun = False
        self._started_ms = 0
        self._last_ms = 0
        self._open: dict[str, _OpenRun] = {}

    def __call__(self, event: Event, run: RunTally) -> None:
        """Begin, extend or end the lineage runs that the event is about."""
        self._last_ms = event.at_ms
        match event:
            case RunStarted():
                self._parent, self._started_ms = self._new_id(), event.at_ms
            case BatchStarted():
                self._begin(event)
            case BatchCommitted():
                self._add(
                    event,
                    rows=event.rows,
                    snapshot=event.snapshot,
                    location=event.location,
                )
            case BatchEmpty():
                self._add(event, rows=0)
            case BatchSkipped():
                self._find(event)
            case RecordsRejected():
                self._add_letters(event)
            case Retrying():
                self._fail(event.model, event.problems, event.at_ms, is_final=False)
            case ModelFinished():
                self._finish(event)
            case SeedFinished():
                self._tell_seed(event)
            case _:
                self._end_due(event)

    def say_first(self, event: Event, run: RunTally) -> Iterable[Event]:
        """The event on lineage that was not delivered, if there is any, to be shown
        before `event`. If that is the last of the run, all lineage is sent first."""
        if isinstance(event, RunFinished):
            self._end_all(
                run,
                "ABORT" if event.interrupted and not run.continuous else "COMPLETE",
                event.at_ms,
            )
            self._sink.drain()
        events, why = self._sink.take_lost()
        if events:
            yield LineageLost(self._sink.shown, events, why, at_ms=event.at_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):  # what has ended the run is told elsewhere
            if self._is_begun:
                self._end_all(
                    RunTally(), "FAIL" if error is not None else "ABORT", self._last_ms
                )
        self._sink.drain()

    # --- batches

    def _begin(self, event: BatchStarted) -> None:
        found = self._open.get(event.model)
        if (
            found is not None
            and found.is_in_batch
            and event.checkpoint
            and found.last == event.batch
        ):
            return  # it is begun anew, as where a new schema was found in it
        if found is not None and (
            not found.period_ms or event.at_ms - found.started_ms >= found.period_ms
        ):
            # A refresh that finds nothing to write sends no event on its end.
            self._end(event.model, "COMPLETE", event.at_ms)
            found = None
        if found is not None and found.checkpoint != event.checkpoint:
            self._end(event.model, "COMPLETE", event.at_ms)
            found = None
        if found is None:
            period_ms = self._period_ms.get(event.model, 0)
            # The id of a newly planned batch is made of checkpoint and number, so that
            # another runner can complete its lineage run.
            is_own = not period_ms and event.checkpoint and not event.is_repeated
            id_ = batch_id(event.checkpoint, event.batch) if is_own else self._new_id()
            found = self._open[event.model] = _open_run(event, id_, period_ms)
            _join(found, event.reads)
            self._tell("START", event.model, found, event.at_ms)
        else:
            _join(found, event.reads)
        found.last, found.is_in_batch = event.batch, True
        found.location = found.location or event.location

    def _add(
        self,
        event: BatchCommitted | BatchEmpty,
        rows: int,
        snapshot: int | None = None,
        location: str = "",
    ) -> None:
        found = self._open.get(event.model)
        if found is None:
            return
        found.is_in_batch, found.is_checked = False, True
        found.rows = (found.rows or 0) + rows
        found.snapshot = snapshot or found.snapshot
        found.location = location or found.location
        found.records += event.records
        found.committed += snapshot is not None
        found.violations.update(dict(event.violations))
        self._end_due(event)

    def _find(self, event: BatchSkipped) -> None:
        """Send the lineage run of a batch that the table has already: the runner that
        wrote it may have ended before it could."""
        found = self._open.get(event.model)
        if found is None and self._period_ms.get(event.model, 0):
            started = BatchStarted(
                event.model,
                event.batch,
                event.checkpoint,
                event.reads,
                event.table,
                event.location,
                is_repeated=True,
                at_ms=event.at_ms,
            )
            self._begin(started)
            found = self._open[event.model]
        elif found is None:
            id_ = batch_id(event.checkpoint, event.batch)
            found = self._open[event.model] = _open_run(event, id_, 0)
        _join(found, event.reads)
        found.is_in_batch, found.last = False, event.batch
        found.snapshot = event.snapshot or found.snapshot
        self._end_due(event)

    def _add_letters(self, event: RecordsRejected) -> None:
        found = self._open.get(event.model)
        if found is None:
            return
        before = found.letters.get(event.table)
        rows = event.count + (before.rows or 0 if before is not None else 0)
        found.letters[event.table] = LineageOutput(event.table, event.location, rows)

    def _end_due(self, event: Event) -> None:
        """End the lineage run of the event's model if its period is over and no batch
        is under way."""
        model = getattr(event, "model", None)
        found = self._open.get(model) if model else None
        if found is None or model is None or found.is_in_batch:
            return
        if event.at_ms - found.started_ms >= found.period_ms:
            self._end(model, "COMPLETE", event.at_ms)

    # --- ends

    def _finish(self, event: ModelFinished) -> None:
        if event.status == "error":
            self._fail(event.model, event.problems, event.at_ms, is_final=True)
            return
        found = self._open.get(event.model)
        if found is not None:
            is_broken = event.status == "skipped" and found.is_in_batch
            self._end(event.model, "ABORT" if is_broken else "COMPLETE", event.at_ms)

    def _fail(
        self, model: str, problems: tuple[Problem, ...], at_ms: int, *, is_final: bool
    ) -> None:
        error = (
            "\n".join(f"{each.condition}: {each.what}" for each in problems)
            or "no problem was given"
        )
        if model in self._open:
            self._end(model, "FAIL", at_ms, error)
        elif is_final:
            self._tell_parent()
            id_ = self._new_id()
            self._sink.offer(LineageRun("START", id_, model, at_ms, self._parent))
            self._sink.offer(
                LineageRun("FAIL", id_, model, at_ms, self._parent, error=error)
            )

    def _end(self, model: str, state: State, at_ms: int, error: str = "") -> None:
        self._tell(state, model, self._open.pop(model), at_ms, error)

    def _end_all(self, run: RunTally, state: State, at_ms: int) -> None:
        for model, found in tuple(self._open.items()):
            self._end(model, "ABORT" if found.is_in_batch else "COMPLETE", at_ms)
        if not self._is_begun:
            return
        failed = [name for name, tally in run.models.items() if tally.phase == "error"]
        failed += [
            name
            for name, seed in run.seeds.items()
            if seed is not None and seed.status == "error"
        ]
        error = (
            f"failed: {', '.join(failed)}"
            if failed
            else "the run broke off"
            if state == "FAIL"
            else ""
        )
        self._sink.offer(
            LineageRun(
                "FAIL" if failed else state, self._parent, "", at_ms, "", error=error
            )
        )
        self._is_begun = False

    # --- what is sent

    def _tell(
        self, state: State, model: str, found: _OpenRun, at_ms: int, error: str = ""
    ) -> None:
        self._tell_parent()
        is_start = state == "START"
        self._sink.offer(
            LineageRun(
                state=state,
                id=found.id,
                job=model,
                at_ms=at_ms,
                parent=self._parent,
                reads=tuple(found.reads.values()),
                output=LineageOutput(
                    found.table,
                    found.location,
                    None if is_start else found.rows,
                    found.snapshot,
                ),
                letters=tuple(found.letters.values()),
                checkpoint=found.checkpoint,
                batches=(found.first, found.last),
                committed=found.committed,
                records=found.records,
                violations=tuple(found.violations.items()),
                is_checked=found.is_checked,
                error=error,
            )
        )

    def _tell_parent(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._sink.offer(
                LineageRun("START", self._parent, "", self._started_ms, "")
            )

    def _tell_seed(self, event: SeedFinished) -> None:
        if event.done == "unchanged":
            return
        self._tell_parent()
        rows = event.rows if event.done == "filled" else None
        id_, output = self._new_id(), LineageOutput(event.table, event.location, rows)
        began = LineageRun(
            "START",
            id_,
            event.seed,
            event.at_ms - event.duration_ms,
            self._parent,
            output=output,
        )
        self._sink.offer(replace(began, output=replace(output, rows=None)))
        error = "\n".join(f"{each.condition}: {each.what}" for each in event.problems)
        self._sink.offer(
            replace(
                began,
                state="FAIL" if error else "COMPLETE",
                at_ms=event.at_ms,
                error=error,
            )
        )


def _open_run(event: BatchStarted | BatchSkipped, id_: str, period_ms: int) -> _OpenRun:
    """A new lineage run that begins with a batch."""
    return _OpenRun(
        id=id_,
        started_ms=event.at_ms,
        period_ms=period_ms,
        checkpoint=event.checkpoint,
        table=event.table,
        location=event.location,
        first=event.batch,
        last=event.batch,
    )


def batch_id(checkpoint: str, batch: int) -> str:
    """The id of the lineage run of a batch, which every runner computes alike."""
    return str(uuid5(NAMESPACE_URL, f"urn:lakesql:{checkpoint}:{batch}"))


def _join(found: _OpenRun, reads: Iterable[ReadRange]) -> None:
    """Extend the ranges that the lineage run has read by those of a further batch."""
    for read in reads:
        before = found.reads.get(read.name)
        found.reads[read.name] = (
            read if before is None else replace(read, before=before.before)
        )
