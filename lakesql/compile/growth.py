"""How the table of a model grows by its commits, as far as the model's configuration
tells, for compiled files and forecasts. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakesql.compile.table import terms_of
from lakesql.model.config import AvailableNow, Every, OnChange, Trigger
from lakesql.model.maintenance_tasks import own_tasks
from lakesql.model.model import Model
from lakesql.model.writing import TASK_RECORDS
from lakesql.project.procedures import AT_END, DAY_MS, HOUR_MS, RemoveOrphanFiles
from lakesql.table.simulation import (
    MERGE_SNAPSHOT_BYTES,
    Maintained,
    SimulatedTask,
    Sizes,
    Stock,
    TableGrowth,
    Writes,
    grow,
)
from lakesql.table.terms import Terms

ROWS_PER_SECOND = 100.0
ROW_BYTES = 100.0
BATCH_MS = 2_000.0
RUN_MS = HOUR_MS
"""Assumptions where nothing is configured or measured: rows a second, bytes of a row in
a data file, duration of a batch, and the interval at which a model with trigger
`available_now` is run."""

MOST_TASKS = 8
"""The assumed maximum number of tasks that write a large batch."""


def sizes_of(model: Model) -> Sizes:
    """The assumed sizes of a table's metadata, for a model whose table cannot be
    measured."""
    merges = model.config.replaced_ratio > 0
    return replace(Sizes(), snapshot=MERGE_SNAPSHOT_BYTES) if merges else Sizes()


def assume_writes(
    model: Model, interval_ms: float, rows_per_second: float, row_bytes: float
) -> Writes:
    """The commits of a model by its configuration, and by assumptions where that does
    not tell."""
    config = model.config
    rows = rows_per_second * interval_ms / 1000
    partitions, new_partitions = 1.0, 1.0
    for part in config.partition_by:
        if part.transform == "bucket":
            partitions *= part.width or 1
        new_partitions *= _NEW_A_DAY.get(part.transform, 1.0)
    is_timed = any(part.transform in _NEW_A_DAY for part in config.partition_by)
    partitions = max(1.0, min(partitions, rows))
    plain = Writes(interval_ms, rows, row_bytes, partitions=partitions)
    files = commit_files(
        plain,
        terms_of(model).target_bytes,
        is_spread=bool(config.partition_by or config.writing().keys),
    )
    deleted = config.replaced_ratio * rows
    return replace(
        plain,
        files=files,
        new_partitions=new_partitions * partitions if is_timed else 0.0,
        deleted=deleted,
        scattered=deleted,
        rewrites=deleted > 0 and config.rewrites_files,
    )


_NEW_A_DAY = {"hours": 24.0, "days": 1.0, "months": 1 / 30.4, "years": 1 / 365.25}
"""How many partitions a day are opened by rows that arrive in the order of the time by
which they are partitioned."""


def commit_files(writes: Writes, target_bytes: float, *, is_spread: bool) -> float:
    """How many data files a commit writes: one for each partition, and one more for
    each time that a file reaches the target size.

    If the rows are not shuffled by partition or key (`is_spread` is false), each task
    writes at least one.
    """
    tasks = 1 if is_spread else min(MOST_TASKS, math.ceil(writes.rows / TASK_RECORDS))
    by_size = (
        math.ceil(writes.rows * writes.row_bytes / writes.partitions / target_bytes)
        * writes.partitions
    )
    return max(1.0, writes.partitions, by_size, tasks)


def interval_of(trigger: Trigger, rows_per_second: float, batch_ms: float) -> float:
    """The time between two commits in milliseconds: no batch begins before the last one
    has ended, or without a row."""
    match trigger:
        case Every(interval_ms=interval_ms):
            every = float(interval_ms)
        case AvailableNow():
            every = RUN_MS
        case OnChange(expected_ms=expected_ms):
            every = float(expected_ms)
    return max(every, batch_ms, 1000 / rows_per_second)


def falls_behind(trigger: Trigger, rows: float, most_records: int | None) -> bool:
    """Whether more rows arrive between two batches than one batch may read. With
    `available_now` a run has several batches, so never."""
    match trigger:
        case Every():
            return most_records is not None and rows > most_records
        case AvailableNow() | OnChange():
            return False


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed of a model's table before it exists. `maintenance` is None if
    nobody maintains it."""

    writes: Writes
    terms: Terms
    sizes: Sizes
    maintenance: Maintained | None


def assume(model: Model) -> Assumed:
    """The assumed commits of the model, and the maintenance of its table."""
    interval_ms = interval_of(model.trigger, ROWS_PER_SECOND, BATCH_MS)
    writes = assume_writes(model, interval_ms, ROWS_PER_SECOND, ROW_BYTES)
    return Assumed(
        writes, terms_of(model), sizes_of(model), maintenance_by(model, model.trigger)
    )


def maintenance_by(model: Model, trigger: Trigger) -> Maintained | None:
    """How the model's table is maintained under a trigger: at the end of a run, a part
    of each threshold is enough.

    None if nobody maintains it. Removing orphans is left out, as orphan files are not
    counted.
    """
    tasks = own_tasks(model)
    if not tasks:
        return None
    return Maintained(
        tasks=tuple(
            SimulatedTask(task.procedure, task.options, task.is_by_time)
            for task in tasks
            if not isinstance(task.options, RemoveOrphanFiles)
        ),
        max_time_ratio=model.config.maintenance.max_time_ratio,
        factor=AT_END if isinstance(trigger, AvailableNow) else 1.0,
    )


def grow_assumed(
    assumed: Assumed, span_ms: float = DAY_MS
) -> tuple[TableGrowth, TableGrowth | None]:
    """The growth of a new table within `span_ms`, without maintenance and with the
    model's; the latter is None if it has none."""
    known = (assumed.writes, assumed.terms, assumed.sizes, Stock())
    kept = (
        grow(*known, assumed.maintenance, span_ms)
        if assumed.maintenance is not None
        else None
    )
    return grow(*known, None, span_ms), kept
