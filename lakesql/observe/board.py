"""How a run stands, as a value: every event makes the next one. The live view and the closing table read it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Event,
    ModelFinished,
    Noted,
    PartitionLag,
    Progress,
    QueryStarted,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    SessionStarted,
    StepApplied,
)

Phase = Literal["waiting", "running", "retrying", "success", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class ModelState:
    """How a model stands. `batch` is the newest batch's number; `left` is None where nobody knows, and `lag` is what is
    left of each partition of its topics."""

    name: str
    phase: Phase = "waiting"
    batch: int | None = None
    batches: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0
    skipped_batches: int = 0
    records_per_second: float | None = None
    left: int | None = None
    left_unit: Literal["records", "files"] = "records"
    lag: tuple[PartitionLag, ...] = ()
    committed_at_ms: int | None = None
    dead_letters: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    finished: ModelFinished | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """How a run stands. `models` are in the run's order; `finished` is None while it goes on."""

    target: str = ""
    continuous: bool = False
    started_at_ms: int = 0
    spark_is_up: bool = False
    models: Mapping[str, ModelState] = field(default_factory=dict)
    finished: RunFinished | None = None

    def count(self, phase: Phase) -> int:
        """How many models are in this phase."""
        return sum(model.phase == phase for model in self.models.values())


def advance(board: Board, event: Event) -> Board:
    """The board after the event."""
    match event:
        case RunStarted():
            models = {name: ModelState(name) for name in event.models}
            return Board(event.target, event.continuous, event.at_ms, models=models)
        case SessionStarted():
            return replace(board, spark_is_up=True)
        case RunFinished():
            return replace(board, finished=event)
        case Noted() | StepApplied():
            return board
        case _:
            model = board.models.get(event.model) or ModelState(event.model)
            return replace(board, models={**board.models, event.model: _advance_model(model, event)})


def _advance_model(
    model: ModelState,
    event: QueryStarted
    | Retrying
    | BatchCommitted
    | BatchSkipped
    | BatchEmpty
    | RecordsRejected
    | Progress
    | ModelFinished,
) -> ModelState:
    match event:
        case QueryStarted():
            return replace(model, phase="running")
        case Retrying():
            return replace(model, phase="retrying", records_per_second=None)
        case BatchCommitted():
            return replace(
                model,
                phase="running",
                batch=event.batch,
                batches=model.batches + 1,
                records=model.records + event.records,
                rows=model.rows + event.rows,
                committed_at_ms=event.at_ms,
            )
        case BatchSkipped():
            return replace(model, phase="running", batch=event.batch, skipped_batches=model.skipped_batches + 1)
        case BatchEmpty():
            return replace(
                model,
                phase="running",
                batch=event.batch,
                records=model.records + event.records,
            )
        case RecordsRejected():
            counts = Counter(dict(model.reasons))
            counts.update(dict(event.reasons))
            return replace(
                model,
                rejected=model.rejected + event.count,
                dead_letters=event.table,
                reasons=tuple(counts.most_common()),
            )
        case Progress():
            speed = event.records_per_second
            return replace(
                model,
                records_per_second=speed if math.isfinite(speed) else None,
                left=event.left,
                left_unit=event.left_unit,
                lag=event.lag,
            )
        case ModelFinished():
            return replace(
                model,
                phase=event.status,
                batches=event.batches,
                records=event.records,
                rows=event.rows,
                rejected=event.rejected,
                skipped_batches=event.skipped_batches,
                finished=event,
            )
        case _:
            assert_never(event)


_ATTENTION: dict[Phase, int] = {"error": 0, "retrying": 1, "running": 2, "waiting": 3, "skipped": 4, "success": 5}


def most_telling(board: Board, limit: int) -> tuple[ModelState, ...]:
    """At most `limit` of the models, in the run's order: those that fail before the running, then the others."""
    by_attention = sorted(board.models.values(), key=lambda model: _ATTENTION[model.phase])
    chosen = {model.name for model in by_attention[: max(limit, 0)]}
    return tuple(model for model in board.models.values() if model.name in chosen)
