"""The state of a run and of its models, summed up from the events, for renderers and
the supervisor. It is an immutable value, of which each event makes a new one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from lakesql.errors import Problem
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    BatchStarted,
    ColumnsAbsent,
    Event,
    FieldsRescued,
    FilesLate,
    FilesLeftOut,
    HealthJudged,
    HealthReason,
    LineageLost,
    MaintenanceFailed,
    ModelFinished,
    Noted,
    PartitionLag,
    Progress,
    QueryPaused,
    QueryStarted,
    RecordsRejected,
    RescuedFields,
    Retrying,
    RowsWaiting,
    RunFinished,
    RunStarted,
    SeedFinished,
    SessionStarted,
    SpelledOtherwise,
    Status,
    StepApplied,
    StreamEmpty,
    TableMaintained,
    Word,
    add_rescued,
)
from lakesql.plan.health import WORDS
from lakesql.plan.run_health import (
    SeenByRun,
    count_batch,
    count_commit,
    count_letters,
    count_rewrite,
)

Phase = Literal["waiting", "running", "retrying", "success", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class TaskTally:
    """What a maintenance task has done in a run: how often it succeeded and failed, how
    long it took in all, the sums of the procedure's counts, and why it failed last."""

    runs: int = 0
    failures: int = 0
    duration_ms: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class ModelTally:
    """The state of a model, and what it has done so far in the run.

    `retries` counts the retries since its last batch, whose number is `batch`, or since
    its query last waited for something new. `backlog` is None if it is not known, and
    `lag` is the backlog of each partition of its topics. `rejected` counts the dead
    letters, and `reasons` counts them by reason; the other counts are as in
    `BatchCommitted`. `warnings` are about its streams; `has_nothing`: none of these had
    anything to read. `maintenance` is by the names of the tasks that have run. `known`
    is what the run knows of its table by its commits, `judged` the table's health, and
    `judged_because` the reasons. `unusable` describes what is wrong with the first
    record if all records are dead letters and the table is empty. `finished` is None
    until the model is done.
    """

    name: str
    phase: Phase = "waiting"
    retries: int = 0
    batch: int | None = None
    batches: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0
    late: int = 0
    furthest: str = ""
    without_event_time: int = 0
    ignored: int = 0
    remembered: int = 0
    older: int = 0
    skipped_batches: int = 0
    records_per_second: float | None = None
    backlog: int | None = None
    backlog_unit: Literal["records", "files", "ms"] = "records"
    lag: tuple[PartitionLag, ...] = ()
    committed_at_ms: int | None = None
    dead_letter_table: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()
    has_nothing: bool = False
    maintenance: Mapping[str, TaskTally] = field(default_factory=dict)
    known: SeenByRun = SeenByRun()
    judged: Word = "well"
    judged_because: tuple[HealthReason, ...] = ()
    violations: tuple[tuple[str, int], ...] = ()
    replaced: int = 0
    replaced_keys: int = 0
    unusable: str = ""
    rescued: tuple[RescuedFields, ...] = ()
    finished: ModelFinished | None = None

    @property
    def health(self) -> Word:
        """The health of the model: that of its table, but at least `watch` while it is
        retried, and `ill` if it has failed."""
        own: dict[Phase, Word] = {"error": "ill", "retrying": "watch"}
        return max(self.judged, own.get(self.phase, "well"), key=WORDS.index)

    def finish(
        self,
        status: Status,
        duration_ms: int,
        at_ms: int,
        problems: tuple[Problem, ...] = (),
        because: str = "",
    ) -> ModelFinished:
        """The event that the model is done, with its counts."""
        return ModelFinished(
            model=self.name,
            status=status,
            batches=self.batches,
            records=self.records,
            rows=self.rows,
            rejected=self.rejected,
            skipped_batches=self.skipped_batches,
            duration_ms=duration_ms,
            at_ms=at_ms,
            problems=problems,
            because=because,
            late=self.late,
            warnings=self.warnings,
            ignored=self.ignored,
            remembered=self.remembered,
            older=self.older,
            maintained=sum(task.runs for task in self.maintenance.values()),
            violations=self.violations,
            replaced=self.replaced,
            replaced_keys=self.replaced_keys,
            rescued=self.rescued,
        )


@dataclass(frozen=True, slots=True)
class RunTally:
    """The state of a run. `models` are in the run's order; `finished` is None until the
    run is over.

    The `ending` models of a continuous run are not kept fresh by it. Each of the
    `seeds` is None until it is done. `lineage_lost` has the number of all events of the
    run's lineage that were not delivered, and the reason for the last one.
    """

    target: str = ""
    continuous: bool = False
    started_at_ms: int = 0
    spark_is_up: bool = False
    models: Mapping[str, ModelTally] = field(default_factory=dict)
    ending: tuple[str, ...] = ()
    finished: RunFinished | None = None
    seeds: Mapping[str, SeedFinished | None] = field(default_factory=dict)
    lineage_lost: LineageLost | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a model or a seed has failed."""
        failed_seed = any(
            seed is not None and seed.status == "error" for seed in self.seeds.values()
        )
        return failed_seed or self.count("error") > 0

    def count(self, *phases: Phase) -> int:
        """The number of models that are in one of these phases."""
        return sum(model.phase in phases for model in self.models.values())


def count_event(run: RunTally, event: Event) -> RunTally:
    """The tally of the run after the event."""
    match event:
        case RunStarted():
            models = {name: ModelTally(name) for name in event.models}
            seeds = dict.fromkeys(event.seeds)
            return RunTally(
                event.target,
                event.continuous,
                event.at_ms,
                models=models,
                ending=event.ending,
                seeds=seeds,
            )
        case SeedFinished():
            return replace(run, seeds={**run.seeds, event.seed: event})
        case SessionStarted():
            return replace(run, spark_is_up=True)
        case RunFinished():
            return replace(run, finished=event)
        case LineageLost():
            lost = run.lineage_lost.events if run.lineage_lost is not None else 0
            return replace(run, lineage_lost=replace(event, events=lost + event.events))
        case Noted() | StepApplied():
            return run
        case _:
            model = run.models.get(event.model) or ModelTally(event.model)
            return replace(
                run, models={**run.models, event.model: count_model_event(model, event)}
            )


def count_model_event(model: ModelTally, event: Event) -> ModelTally:
    """The tally of the model after an event about it."""
    match event:
        case (
            RunStarted()
            | SessionStarted()
            | RunFinished()
            | Noted()
            | StepApplied()
            | RowsWaiting()
            | SeedFinished()
        ):
            return model
        case BatchStarted() | LineageLost():
            return model
        case StreamEmpty():
            warning = f"stream {event.stream}: {event.why}"
            warnings = tuple(dict.fromkeys((*model.warnings, warning)))
            return replace(model, warnings=warnings, has_nothing=not event.others_have)
        case FilesLeftOut() | FilesLate():
            warnings = tuple(
                dict.fromkeys((*model.warnings, f"stream {event.stream}: {event.why}"))
            )
            return replace(model, warnings=warnings)
        case ColumnsAbsent() | SpelledOtherwise():
            warnings = tuple(
                dict.fromkeys((*model.warnings, f"stream {event.stream}: {event.text}"))
            )
            return replace(model, warnings=warnings)
        case QueryStarted():
            return replace(model, phase="running")
        case QueryPaused():
            return replace(model, phase="waiting", records_per_second=None)
        case Retrying():
            return replace(
                model, phase="retrying", retries=event.attempt, records_per_second=None
            )
        case BatchCommitted():
            return replace(
                model,
                phase="running",
                retries=0,
                batch=event.batch,
                batches=model.batches + 1,
                records=model.records + event.records,
                rows=model.rows + event.rows,
                committed_at_ms=event.at_ms,
                late=model.late + event.late,
                furthest=max(model.furthest, event.furthest),
                without_event_time=model.without_event_time + event.without_event_time,
                ignored=model.ignored + event.ignored,
                remembered=model.remembered + event.remembered,
                older=model.older + event.older,
                violations=_add(model.violations, event.violations),
                replaced=model.replaced + event.replaced,
                replaced_keys=model.replaced_keys + event.replaced_keys,
                known=count_commit(model.known, event),
                unusable="",
            )
        case BatchSkipped():
            skipped = model.skipped_batches + 1
            known = count_batch(model.known, event.at_ms)
            return replace(
                model,
                phase="running",
                retries=0,
                batch=event.batch,
                skipped_batches=skipped,
                known=known,
            )
        case BatchEmpty():
            return replace(
                model,
                phase="running",
                retries=0,
                batch=event.batch,
                records=model.records + event.records,
                late=model.late + event.late,
                furthest=max(model.furthest, event.furthest),
                without_event_time=model.without_event_time + event.without_event_time,
                ignored=model.ignored + event.ignored,
                violations=_add(model.violations, event.violations),
                replaced=model.replaced + event.replaced,
                replaced_keys=model.replaced_keys + event.replaced_keys,
                known=count_batch(model.known, event.at_ms, late=event.late),
                unusable=model.unusable or event.unusable,
            )
        case RecordsRejected():
            return replace(
                model,
                known=count_letters(model.known, event.count),
                rejected=model.rejected + event.count,
                dead_letter_table=event.table,
                reasons=_add(model.reasons, event.reasons),
            )
        case FieldsRescued():
            return replace(model, rescued=add_rescued(model.rescued, event.rescued))
        case Progress():
            speed = event.records_per_second
            return replace(
                model,
                retries=model.retries if event.is_busy else 0,
                records_per_second=speed if math.isfinite(speed) else None,
                backlog=event.left,
                backlog_unit=event.left_unit,
                lag=event.lag,
            )
        case HealthJudged():
            return replace(model, judged=event.health, judged_because=event.findings)
        case TableMaintained():
            known = (
                count_rewrite(model.known)
                if event.task in _rewrites(model.name)
                else model.known
            )
            task = model.maintenance.get(event.task, TaskTally())
            task = replace(
                task,
                runs=task.runs + 1,
                duration_ms=task.duration_ms + event.duration_ms,
                counts=tuple(
                    (Counter(dict(task.counts)) + Counter(dict(event.counts))).items()
                ),
            )
            return replace(
                model, known=known, maintenance={**model.maintenance, event.task: task}
            )
        case MaintenanceFailed():
            task = model.maintenance.get(event.task, TaskTally())
            task = replace(
                task,
                failures=task.failures + 1,
                duration_ms=task.duration_ms + event.duration_ms,
                why=event.why,
            )
            return replace(model, maintenance={**model.maintenance, event.task: task})
        case ModelFinished():
            return replace(
                model,
                phase=event.status,
                batches=event.batches,
                records=event.records,
                rows=event.rows,
                rejected=event.rejected,
                skipped_batches=event.skipped_batches,
                late=event.late,
                ignored=event.ignored,
                remembered=event.remembered,
                older=event.older,
                warnings=event.warnings,
                violations=event.violations,
                replaced=event.replaced,
                replaced_keys=event.replaced_keys,
                rescued=event.rescued,
                finished=event,
            )
        case _:
            assert_never(event)


def _add(
    counts: tuple[tuple[str, int], ...], more: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """The sums of both counts by name, the largest first."""
    return (
        tuple((Counter(dict(counts)) + Counter(dict(more))).most_common())
        if more
        else counts
    )


def _rewrites(model: str) -> tuple[str, ...]:
    """The names of the maintenance tasks that rewrite files of the model's own
    table."""
    return f"{model}.rewrite_data_files", f"{model}.rewrite_position_delete_files"
