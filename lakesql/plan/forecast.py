"""How a model's table will grow under different triggers, with maintenance and without,
from the table's last commits, given figures, or assumptions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lakesql.compile.growth import (
    BATCH_MS,
    ROW_BYTES,
    ROWS_PER_SECOND,
    RUN_MS,
    assume_writes,
    commit_files,
    falls_behind,
    interval_of,
    maintenance_by,
    sizes_of,
)
from lakesql.compile.table import terms_of
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.model.model import Model
from lakesql.model.writing import TASK_RECORDS
from lakesql.plan.health import LAST_COMMITS, TableFacts, percentile
from lakesql.project.duration import Duration
from lakesql.project.procedures import DAY_MS, SMALL_FILE_SHARE
from lakesql.table.live_files import LiveFile, MetadataSizes
from lakesql.table.simulation import (
    Sizes,
    Stock,
    TableCounts,
    TableGrowth,
    Writes,
    grow,
)
from lakesql.table.terms import Terms, read_terms
from lakesql.table.uncompacted import measure_uncompacted

TRIGGERS = (
    Every("10 seconds", 10_000),
    Every("30 seconds", 30_000),
    Every("1 minute", 60_000),
    Every("5 minutes", 300_000),
    Every("15 minutes", 900_000),
    Every("1 hour", 3_600_000),
)
"""The triggers that are compared with the model's own."""

Source = Literal["given", "measured", "assumed"]

_ENTRY_BYTES = (10.0, 2_000.0)
"""The least and the greatest plausible size in bytes of an entry of a manifest, to
which a measured size is clipped."""

_LONGEST_BATCH_MS = 5_000
"""The greatest latency, from the newest event to the commit, that is taken for the
duration of a batch, which the ledger does not have. A greater one is taken for events
that arrive late, whose delay does not depend on the trigger."""


@dataclass(frozen=True, slots=True)
class ForecastInput:
    """The figures given on the command line; None for those that are not."""

    rows_per_second: float | None = None
    row_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """A figure on which a forecast is based, and its source. `note` describes what an
    assumed figure is about."""

    name: str
    value: float
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The growth of a table under one trigger: `unkept` without maintenance, `kept`
    with the model's, None if it has none.

    `rows` are the rows of a commit. `freshness_ms` is the greatest age of the newest
    row before the next commit: the interval, the duration of a batch, and the age of
    events when they arrive. `is_fresh`: it is within the freshness that the model's
    properties demand; None if they demand none. `is_behind`: more rows arrive between
    two batches than a batch may read, so that the backlog grows without end.
    """

    trigger: Trigger
    is_own: bool
    interval_ms: float
    freshness_ms: float
    rows: float
    unkept: TableGrowth
    kept: TableGrowth | None
    is_fresh: bool | None
    is_behind: bool
    is_cheapest: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of a model's table after `span_ms`. `now` has its counts today; None
    if there is no table or it was not read.

    `limit` is the greatest age of the newest row by the model's properties, None if
    they have none. `triggers` are ordered by their intervals and include the model's
    own; the cheapest is the one with the fewest commits within the limit.
    """

    model: Model
    span_ms: int
    now: TableCounts | None
    inputs: tuple[Input, ...]
    limit: Duration | None
    triggers: tuple[Outlook, ...]

    @property
    def own(self) -> Outlook:
        """The outlook under the model's own trigger."""
        return next(outlook for outlook in self.triggers if outlook.is_own)


def forecast(
    model: Model,
    facts: TableFacts | None,
    given: ForecastInput,
    span_ms: int,
    now_ms: int,
    most_records: int | None = None,
) -> Forecast:
    """The forecast of the model's table after `span_ms`, from its `facts` if they are
    known, else from assumptions; figures that are `given` override both.

    `most_records` is the greatest number of records of a batch; None for no limit.
    """
    measured = _measure(facts) if facts is not None else None
    inputs = tuple(_inputs(model, measured, given))
    values = {each.name: each.value for each in inputs}
    names = ("rows_per_second", "row_bytes", "batch_ms", "delay_ms")
    rate, row_bytes, batch_ms, delay_ms = (values[name] for name in names)
    terms, sizes, stock = terms_of(model), sizes_of(model), Stock()
    if facts is not None:
        terms = read_terms(facts.metadata.properties, facts.metadata.version)
        sizes = _sizes(facts, facts.sizes, sizes)
        stock = _stock(facts, facts.sizes, now_ms)
    limit = (
        model.properties.freshness.warn_after or model.properties.freshness.error_after
    )

    def look(trigger: Trigger) -> Outlook:
        interval_ms = interval_of(trigger, rate, batch_ms)
        writes = assume_writes(model, interval_ms, rate, row_bytes)
        if measured is not None:
            writes = _scale(measured, writes, terms)
        freshness_ms = interval_ms + batch_ms + delay_ms
        is_behind = falls_behind(trigger, writes.rows, most_records)
        maintenance = maintenance_by(model, trigger)
        return Outlook(
            trigger=trigger,
            is_own=trigger == model.trigger,
            interval_ms=interval_ms,
            freshness_ms=freshness_ms,
            rows=writes.rows,
            unkept=grow(writes, terms, sizes, stock, None, span_ms),
            kept=grow(writes, terms, sizes, stock, maintenance, span_ms)
            if maintenance
            else None,
            is_fresh=freshness_ms <= limit.length_ms and not is_behind
            if limit
            else None,
            is_behind=is_behind,
        )

    compared = [each for each in TRIGGERS if not _is_same(each, model.trigger)]
    outlooks = sorted(
        map(look, (model.trigger, *compared)), key=lambda found: found.interval_ms
    )
    return Forecast(
        model=model,
        span_ms=span_ms,
        now=_now(facts, stock) if facts is not None else None,
        inputs=inputs,
        limit=limit,
        triggers=tuple(_mark(outlooks)),
    )


def _now(facts: TableFacts, stock: Stock) -> TableCounts:
    return TableCounts(
        round(stock.data_files),
        round(stock.delete_files),
        len(facts.metadata.snapshots),
        facts.sizes.total_bytes,
    )


def _is_same(trigger: Every, own: Trigger) -> bool:
    return isinstance(own, Every) and own.interval_ms == trigger.interval_ms


def _mark(outlooks: Sequence[Outlook]) -> Iterator[Outlook]:
    """The outlooks with the cheapest one marked: of those that are fresh, and by an
    interval, the one with the longest interval."""
    fresh = [
        each for each in outlooks if each.is_fresh and isinstance(each.trigger, Every)
    ]
    cheapest = fresh[-1] if fresh else None
    return (replace(each, is_cheapest=each is cheapest) for each in outlooks)


# --- what is measured


@dataclass(frozen=True, slots=True)
class _Measured:
    """Averages of a table's last commits; None for figures that they do not show.

    Of the latency from the newest event to the commit, either `batch_ms` is known, or
    `delay_ms` is, the part beyond the assumed duration of a batch. `deleted` is the
    number of deletes, or rewritten rows, of a commit, `scattered` that of random rows
    which touch as many data files.
    """

    commits: int
    rows_per_second: float | None
    row_bytes: float | None
    batch_ms: float | None
    delay_ms: float | None
    rows: float
    files: float
    partitions: float
    deleted: float
    scattered: float
    delete_files: float


def _measure(facts: TableFacts) -> _Measured | None:
    last = facts.commits[-1] if facts.commits else None
    commits = [
        each
        for each in facts.commits[-LAST_COMMITS:]
        if last and last.at_ms - each.at_ms < DAY_MS
    ]
    rows = sum(each.rows for each in commits)
    if not rows:
        return None
    passed_ms = commits[-1].at_ms - commits[0].at_ms
    since = sum(each.rows for each in commits[1:])
    data = [file for file in facts.files if not file.is_delete]
    stored = sum(file.rows for file in data)
    latencies = sorted(ms for each in commits if (ms := each.latency_ms) is not None)
    latency = percentile(latencies, 0.5)
    if latency is not None and (
        not passed_ms or latency > passed_ms / (len(commits) - 1)
    ):
        latency = None  # the model was behind its source
    is_batch = latency is not None and latency <= _LONGEST_BATCH_MS
    deletes = [each.deletes for each in commits if each.deletes is not None]
    replaced = [each.replaced for each in commits if each.replaced is not None]
    touched = [(each.added, each.rows) for each in deletes] + [
        (each.files, each.rows) for each in replaced
    ]
    count = len(commits)
    deleted = sum(rows for _, rows in touched) / count
    return _Measured(
        commits=count,
        rows_per_second=1000 * since / passed_ms if passed_ms and since else None,
        row_bytes=sum(file.size_bytes for file in data) / stored if stored else None,
        batch_ms=float(latency) if latency and is_batch else None,
        delay_ms=float(latency) - BATCH_MS if latency and not is_batch else None,
        rows=rows / count,
        files=sum(each.files for each in commits) / count,
        partitions=sum(each.partitions for each in commits) / count,
        deleted=deleted,
        scattered=_scattered([files for files, _ in touched], deleted, data),
        delete_files=max(
            0.0, sum(each.added - each.removed for each in deletes) / count
        ),
    )


def _scattered(touched: Sequence[int], rows: float, data: Sequence[LiveFile]) -> float:
    """The number of rows, chosen at random, that would be in as many data files as the
    last commits wrote delete files for, or rewrote.

    Smaller than `rows`, the number deleted, if deleted rows are close together.
    `touched` has the number of such files by commit.
    """
    last = touched[-_LAST_DELETES:]
    stored = sum(file.rows for file in data)
    if not last or not stored:
        return 0.0
    files = sum(last) / len(last)
    expected = sum(1 - (1 - file.rows / stored) ** rows for file in data)
    return rows * min(1.0, files / expected) if expected else rows


_LAST_DELETES = 5


def _scale(measured: _Measured, assumed: Writes, terms: Terms) -> Writes:
    """The measured commits, scaled to the number of rows of the `assumed` ones.

    The number of partitions written to stays; the number of new ones is taken from
    `assumed`, and so from the configuration.
    """
    ratio = assumed.rows / measured.rows
    partitions = max(1.0, measured.partitions)
    had_tasks, tasks = (
        max(1, math.ceil(rows / TASK_RECORDS)) for rows in (measured.rows, assumed.rows)
    )
    plain = replace(
        assumed,
        partitions=partitions,
        deleted=measured.deleted * ratio,
        scattered=measured.scattered * ratio,
    )
    is_by_task = assumed.files > assumed.partitions and partitions == 1
    files = max(
        measured.files,
        measured.files / had_tasks * min(tasks, assumed.files) if is_by_task else 0.0,
    )
    files = max(1.0, files, commit_files(plain, terms.target_bytes, is_spread=True))
    return replace(
        plain,
        files=files,
        delete_files=measured.delete_files * files / max(1.0, measured.files),
    )


def _sizes(facts: TableFacts, metadata: MetadataSizes, assumed: Sizes) -> Sizes:
    snapshot = metadata.snapshot_bytes if facts.commits else assumed.snapshot
    log_entry = metadata.log_entry_bytes or assumed.log_entry
    manifest, entry = _manifest_sizes(metadata, assumed)
    count = len(metadata.manifests)
    return Sizes(
        # The rest of the metadata file, so that the parts add up to its size now.
        table=max(
            0.0,
            metadata.file_bytes
            - snapshot * len(facts.metadata.snapshots)
            - log_entry * metadata.log,
        ),
        snapshot=snapshot,
        log_entry=log_entry,
        manifest_list=metadata.list_bytes - assumed.list_entry * count
        if count
        else assumed.manifest_list,
        list_entry=assumed.list_entry,
        manifest=manifest,
        entry=entry,
    )


def _manifest_sizes(metadata: MetadataSizes, assumed: Sizes) -> tuple[float, float]:
    """The size in bytes of a manifest without entries, and of an entry, by a linear fit
    through all manifests."""
    count = len(metadata.manifests)
    if not count:
        return assumed.manifest, assumed.entry
    entries = sum(each.entries for each in metadata.manifests) / count
    size = sum(each.size_bytes for each in metadata.manifests) / count
    spread = sum((each.entries - entries) ** 2 for each in metadata.manifests)
    both = sum(
        (each.entries - entries) * (each.size_bytes - size)
        for each in metadata.manifests
    )
    entry = (
        min(max(both / spread, _ENTRY_BYTES[0]), _ENTRY_BYTES[1])
        if spread
        else assumed.entry
    )
    return max(0.0, size - entry * entries), entry


def _stock(facts: TableFacts, sizes: MetadataSizes, now_ms: int) -> Stock:
    data = [file for file in facts.files if not file.is_delete]
    deletes = [file for file in facts.files if file.is_delete]
    small = [
        file
        for file in data
        if file.size_bytes < SMALL_FILE_SHARE * facts.metadata.target_bytes
    ]
    snapshots = len(facts.metadata.snapshots)
    ages = [float(now_ms - commit.at_ms) for commit in facts.commits][:snapshots]
    oldest = ages[0] if ages else 0.0
    totals = facts.totals
    return Stock(
        data_files=len(data) if totals.data_files is None else totals.data_files,
        small_files=len(small),
        small_bytes=sum(file.size_bytes for file in small),
        small_partitions=len({file.partition for file in small}),
        uncompacted=measure_uncompacted(facts.metadata),
        rows=sum(file.rows for file in data) if totals.rows is None else totals.rows,
        deleted=sum(file.rows for file in deletes)
        if totals.deletes is None
        else totals.deletes,
        delete_files=len(deletes)
        if totals.delete_files is None
        else totals.delete_files,
        data_manifests=sum(not each.is_delete for each in sizes.manifests),
        delete_manifests=sum(each.is_delete for each in sizes.manifests),
        ages_ms=(*[oldest] * (snapshots - len(ages)), *ages),
        log=sizes.log,
    )


def _inputs(
    model: Model, measured: _Measured | None, given: ForecastInput
) -> Iterator[Input]:
    """The figures on which the forecast is based, each with its source."""
    of = measured or _NOTHING
    yield _input(
        "rows_per_second", given.rows_per_second, of.rows_per_second, ROWS_PER_SECOND
    )
    yield _input("row_bytes", given.row_bytes, of.row_bytes, ROW_BYTES)
    yield _input("batch_ms", None, of.batch_ms, BATCH_MS)
    yield _input("delay_ms", None, of.delay_ms, 0.0)
    if isinstance(model.trigger, AvailableNow):
        yield Input("interval_ms", RUN_MS, "assumed", "trigger available_now")
    if measured is not None:
        for name in ("rows", "files", "partitions", "deleted", "delete_files"):
            yield Input(f"commit_{name}", getattr(measured, name), "measured")
        yield Input("commits", measured.commits, "measured")
        return
    unknown = [
        part.column
        for part in model.config.partition_by
        if part.transform in ("identity", "truncate")
    ]
    if unknown:
        yield Input(
            "commit_partitions", 1, "assumed", f"partitions by {', '.join(unknown)}"
        )
    if model.config.replaced_ratio:
        yield Input(
            "replaced_ratio", model.config.replaced_ratio, "assumed", "stored rows"
        )


def _input(
    name: str, given: float | None, measured: float | None, assumed: float
) -> Input:
    if given is not None:
        return Input(name, given, "given")
    return (
        Input(name, assumed, "assumed")
        if measured is None
        else Input(name, measured, "measured")
    )


_NOTHING = _Measured(0, None, None, None, None, 0, 0, 0, 0, 0, 0)
