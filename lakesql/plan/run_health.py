"""The health of a model's table during a run, by the run's own commits, without reading
the table's metadata."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakesql.events import BatchCommitted, TableTotals, Word
from lakesql.model.properties import NO_LIMITS, Freshness
from lakesql.plan.health import (
    HOUR_MS,
    USUAL_REWRITE,
    Finding,
    Judged,
    is_rewrite_overdue,
    judge,
    share_of,
    worst,
)
from lakesql.project.procedures import GROUP_FILES, RewriteDataFiles
from lakesql.table.commits import event_ms, known_event
from lakesql.table.uncompacted import Uncompacted

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The limits by which a run judges a model's table: those of its properties, and
    the options by which a rewrite of its files is due."""

    freshness: Freshness = NO_LIMITS
    rewrite: RewriteDataFiles = USUAL_REWRITE


@dataclass(frozen=True, slots=True)
class RunJudgement:
    """The figures of a table, those that are not `well`, the worst first, and the
    health of the table."""

    figures: Judged
    findings: tuple[Finding, ...]
    word: Word


@dataclass(frozen=True, slots=True)
class Minute:
    """The counts of a minute of the run, from `at_ms` on: rows written, dead letters,
    and events that a watermark dropped."""

    at_ms: int
    rows: int = 0
    dead_letters: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class SeenByRun:
    """What the commits of a run show of a table.

    `minutes` are those of the last hour with any counts, oldest first. `letters` is the
    number of dead letters of a batch that is not done yet. `newest_ms` is the newest
    event; `is_by_event`: that of the last commit is known. `small_files`, of
    `small_bytes` in all, are the small files added to a table without partitions since
    its number of data files last fell, or the run began; the first of them came at
    `small_since_ms`. `fewest` has the lowest numbers of deletes and delete files since
    then. The table has had delete files since `deletes_since_ms` or longer.
    """

    minutes: tuple[Minute, ...] = ()
    letters: int = 0
    committed_at_ms: int | None = None
    newest_ms: int | None = None
    is_by_event: bool = False
    totals: TableTotals = TableTotals()
    fewest: TableTotals = TableTotals()
    small_files: float = 0
    small_bytes: int = 0
    small_since_ms: int | None = None
    deletes_since_ms: int | None = None


def count_commit(known: SeenByRun, event: BatchCommitted) -> SeenByRun:
    """What is known of the table after a commit."""
    known = count_batch(known, event.at_ms, rows=event.rows, late=event.late)
    told, before, now = event_ms(event.event_time), known.totals, event.table
    newest = None if told is None else known_event(told, event.at_ms)
    files, size, since = known.small_files, known.small_bytes, known.small_since_ms
    fewest = known.fewest
    # Data files were rewritten, by this run or another writer.
    if _fell(before.data_files, now.data_files):
        files, size, since, fewest = 0, 0, None, TableTotals()
    if event.partitions is None and event.small_files:
        files, size, since = (
            files + event.small_files,
            size + event.small_bytes,
            since or event.at_ms,
        )
    deletes_since = known.deletes_since_ms
    is_fewer = _fell(before.delete_files, now.delete_files)
    # The oldest delete file may be among those that were removed.
    if not now.delete_files or is_fewer or event.removed_delete_files:
        deletes_since = None
    if now.delete_files and deletes_since is None:
        deletes_since = event.at_ms
    return replace(
        known,
        committed_at_ms=event.at_ms,
        newest_ms=known.newest_ms
        if newest is None
        else max(newest, known.newest_ms or newest),
        is_by_event=newest is not None,
        totals=now,
        fewest=_fewest(fewest, now),
        small_files=files,
        small_bytes=size,
        small_since_ms=since,
        deletes_since_ms=deletes_since,
    )


def count_batch(
    known: SeenByRun, at_ms: int, *, rows: int = 0, late: int = 0
) -> SeenByRun:
    """What is known of the table after a batch with these numbers of rows and late
    events, and with the dead letters that were counted before."""
    letters = known.letters
    if not rows + late + letters:
        return known
    kept = [minute for minute in known.minutes if minute.at_ms > at_ms - HOUR_MS]
    last = kept.pop() if kept and at_ms - kept[-1].at_ms < MINUTE_MS else Minute(at_ms)
    last = Minute(
        last.at_ms, last.rows + rows, last.dead_letters + letters, last.late + late
    )
    return replace(known, minutes=(*kept, last), letters=0)


def count_letters(known: SeenByRun, count: int) -> SeenByRun:
    """What is known of the table after dead letters were written. They are counted
    together with the rows of their batch, when that is done."""
    return replace(known, letters=known.letters + count)


def count_rewrite(known: SeenByRun) -> SeenByRun:
    """What is known of the table after the run has rewritten its files: no totals,
    until the next commit has them."""
    return replace(
        known,
        totals=TableTotals(),
        fewest=TableTotals(),
        small_files=0,
        small_bytes=0,
        small_since_ms=None,
        deletes_since_ms=None,
    )


def judge_run(
    known: SeenByRun, limits: TableLimits, since_ms: int | None, now_ms: int
) -> RunJudgement:
    """The health of the table at `now_ms`, by the figures of `measure_run`."""
    figures = measure_run(known, since_ms, now_ms)
    is_overdue = is_run_overdue(known, limits.rewrite)
    findings = judge(figures, limits.freshness, is_overdue)
    return RunJudgement(figures, findings, worst(findings))


def measure_run(known: SeenByRun, since_ms: int | None, now_ms: int) -> Judged:
    """The figures at `now_ms`: each as by the table's metadata, or lower if the run
    cannot know it. So a figure that is not `well` is indeed not well.

    The newest event of each commit is known, while the ledger has that of some commits
    only with the next one. For a table with partitions the run does not know in which
    of them the small files are, and for no table the size of its metadata. `since_ms`
    is taken for the last commit if the run has made none.
    """
    totals = known.totals
    data_files, delete_files = totals.data_files or 0, totals.delete_files or 0
    small_files = min(known.small_files, data_files)
    small_since = known.small_since_ms if small_files >= GROUP_FILES else None
    oldest = min(
        (at_ms for at_ms in (small_since, known.deletes_since_ms) if at_ms is not None),
        default=now_ms,
    )
    recent = [minute for minute in known.minutes if minute.at_ms > now_ms - HOUR_MS]
    rows, letters = (
        sum(minute.rows for minute in recent),
        sum(minute.dead_letters for minute in recent),
    )
    late = sum(minute.late for minute in recent)
    last_ms = (
        known.newest_ms if known.is_by_event else known.committed_at_ms or since_ms
    )
    return Judged(
        freshness_ms=0 if last_ms is None else max(0, now_ms - last_ms),
        is_by_event=known.is_by_event,
        is_by_latency=False,
        average_small_files=small_files,
        compaction_lag_ms=max(0, now_ms - oldest),
        uncompacted_files=small_files if small_since is not None else 0,
        uncompacted_bytes=known.small_bytes if small_since is not None else 0,
        delete_files=delete_files,
        delete_ratio=min(1.0, share_of(totals.deletes or 0, totals.rows or 0)),
        delete_files_per_data_file=share_of(delete_files, data_files),
        dead_letters_last_hour=letters,
        dead_letter_ratio=share_of(letters, letters + rows),
        late_last_hour=late,
        late_ratio=share_of(late, late + rows),
        metadata_bytes=0,
    )


FORMAT_VERSION = 2
"""The format version that is assumed for a table, as events of commits do not have
it."""


def is_run_overdue(known: SeenByRun, rewrite: RewriteDataFiles) -> bool:
    """Whether there is clearly more to rewrite than makes a rewrite due, by what the
    run has seen, which is never more than the table has."""
    totals, fewest = known.totals, known.fewest
    small_files = min(known.small_files, totals.data_files or 0)
    deleted = (totals.deletes or 0) - (fewest.deletes or 0)
    uncompacted = Uncompacted(
        small_files=small_files if small_files >= GROUP_FILES else 0,
        deleted_ratio=min(1.0, share_of(deleted, totals.rows or 0)),
        delete_files=(totals.delete_files or 0) - (fewest.delete_files or 0),
    )
    return is_rewrite_overdue(rewrite, uncompacted, FORMAT_VERSION)


def _fewest(known: TableTotals, now: TableTotals) -> TableTotals:
    """The lower numbers of deletes and delete files of the two totals; None where
    neither has one."""
    files = [
        each for each in (known.delete_files, now.delete_files) if each is not None
    ]
    deletes = [each for each in (known.deletes, now.deletes) if each is not None]
    return TableTotals(
        delete_files=min(files, default=None), deletes=min(deletes, default=None)
    )


def _fell(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now < before
