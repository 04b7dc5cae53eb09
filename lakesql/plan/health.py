"""How a table is: figures from its metadata, and whether they are well, to be watched,
or ill."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesql.errors import Problem
from lakesql.events import RescuedFields, TableTotals, Word, add_rescued
from lakesql.model.properties import Freshness
from lakesql.model.table_name import TableName
from lakesql.plan import thresholds
from lakesql.plan.thresholds import Bound
from lakesql.project.procedures import GROUP_FILES, SMALL_FILE_SHARE, RewriteDataFiles
from lakesql.table.commits import Commit
from lakesql.table.due import OVERDUE, why_rewrite_due
from lakesql.table.live_files import LiveFile, MetadataSizes
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import Uncompacted, measure_uncompacted

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

LAST_COMMITS = 100
"""Over so many commits the latency's p95 is taken."""

WORDS: tuple[Word, ...] = ("well", "watch", "ill")
"""From good to bad."""

Figure = Literal[
    "freshness",
    "average_small_files",
    "compaction_lag",
    "dead_letter_ratio",
    "late_ratio",
    "delete_ratio",
    "delete_files_per_data_file",
    "metadata_bytes",
]
"""What is judged. Times are in milliseconds."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of a table as it was read.

    `is_ours`: some snapshot has a ledger entry. `commits` are the main branch's, oldest
    first: those with a ledger entry, or of a table without, all that brought rows.
    `files` are those of the current snapshot, the newest ones where there are more than
    were read. `sizes` is what its metadata takes. `dead_letters` are times of commits
    to the table of dead letters, each with the letters that it brought;
    `letters_unread` says why it cannot be read, if so.
    """

    name: TableName
    metadata: TableMetadata
    is_ours: bool
    commits: tuple[Commit, ...]
    totals: TableTotals
    files: tuple[LiveFile, ...]
    sizes: MetadataSizes
    dead_letters: tuple[tuple[int, int], ...] = ()
    letters_unread: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """The figures by which a table is judged. Times are in milliseconds, sizes in
    bytes.

    `freshness` is since the newest event: as it is known of the last commit
    (`is_by_event`), or by the latency of the one before (`is_by_latency`); else since
    the last commit, None where there is none. `average_small_files` are the data files
    of a partition below 75 % of the target size. `delete_ratio` is deleted rows to all
    rows that data files hold. `compaction_lag` is the age of the oldest,
    `uncompacted_bytes` the size of all that is not compacted: small data files of
    partitions that have five or more, but for those that a compaction wrote, and delete
    files. `uncompacted_files` counts small data files as maintenance does, those of
    each partition that a commit wrote to. The ratios of dead letters and late events
    are to themselves and the rows written, in the last hour; those of dead letters are
    None where their table cannot be read.
    """

    freshness_ms: int | None
    is_by_event: bool
    is_by_latency: bool
    average_small_files: float
    delete_files: int
    delete_ratio: float
    delete_files_per_data_file: float
    metadata_bytes: int
    compaction_lag_ms: int
    uncompacted_files: float
    uncompacted_bytes: int
    dead_letters_last_hour: int | None
    dead_letter_ratio: float | None
    late_last_hour: int
    late_ratio: float


@dataclass(frozen=True, slots=True)
class Figures(Judged):
    """A table in figures, at one moment; None where nothing is known.

    `age` is since the last commit. `latency` is from a commit's newest event to the
    commit: of the last one of which it is known, and the 95th percentile over the last
    100. `backlog` is what the source had that was not read, as the last commit says it,
    in records, files or milliseconds (`backlog_unit`). `files_read` of the data and
    delete files are what sizes are known of. `older_last_hour` are the rows that were
    left out, as the table had newer ones of their keys.
    `rescued_last_day` are the records with fields that the contract of their stream
    does not know.
    """

    age_ms: int | None
    latency_ms: int | None
    latency_p95_ms: int | None
    backlog: int | None
    backlog_unit: str
    commits_last_hour: int
    rows_last_hour: int
    rows: int
    data_files: int
    data_bytes: int
    partitions: int
    file_bytes_average: int | None
    file_bytes_p10: int | None
    file_bytes_p50: int | None
    file_bytes_p90: int | None
    small_files: int
    small_file_ratio: float
    snapshots: int
    files_read: int
    older_last_hour: int = 0
    rescued_last_day: tuple[RescuedFields, ...] = ()

    @property
    def backlog_ms(self) -> int | None:
        """The backlog where it is a time."""
        return self.backlog if self.backlog_unit == "ms" else None

    @property
    def backlog_items(self) -> int | None:
        """The backlog where it is a number of records or files."""
        return None if self.backlog_unit == "ms" else self.backlog


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure as it was judged: against the bound that it is nearest to, the one that
    it exceeds if it exceeds any.

    `value` is None where there is nothing yet, such as a commit.
    """

    figure: Figure
    word: Word
    value: float | None
    limit: float


def measure(facts: TableFacts, now_ms: int) -> Figures:
    """The figures of a table at `now_ms`."""
    data = [file for file in facts.files if not file.is_delete]
    sizes = sorted(file.size_bytes for file in data)
    small = [
        file
        for file in data
        if file.size_bytes < SMALL_FILE_SHARE * facts.metadata.target_bytes
    ]
    partitions = len({file.partition for file in data})
    uncompacted = [
        *_not_compacted(small),
        *(file for file in facts.files if file.is_delete),
    ]
    delete_files = _known(facts.totals.delete_files, len(facts.files) - len(data))
    data_files = _known(facts.totals.data_files, len(data))
    rows = _known(facts.totals.rows, sum(file.rows for file in data))
    deletes = _known(
        facts.totals.deletes, sum(file.rows for file in facts.files if file.is_delete)
    )
    last = facts.commits[-1] if facts.commits else None
    newest = _newest_event(facts.commits)
    is_known = last is not None and last.event_ms is not None
    recent = [commit for commit in facts.commits if commit.at_ms > now_ms - HOUR_MS]
    written, late = (
        sum(commit.rows for commit in recent),
        sum(commit.late for commit in recent),
    )
    letters = _letters_since(facts, now_ms - HOUR_MS)
    latencies = [
        ms
        for commit in facts.commits[-LAST_COMMITS:]
        if (ms := commit.latency_ms) is not None
    ]
    backlog, _, unit = (last.backlog if last else "").partition(" ")
    age_ms = max(0, now_ms - last.at_ms) if last else None
    return Figures(
        age_ms=age_ms,
        freshness_ms=max(0, now_ms - newest) if newest is not None else age_ms,
        is_by_event=is_known,
        is_by_latency=newest is not None and not is_known,
        latency_ms=latencies[-1] if latencies else None,
        latency_p95_ms=percentile(sorted(latencies), 0.95),
        backlog=int(backlog) if backlog.isascii() and backlog.isdigit() else None,
        backlog_unit=unit,
        commits_last_hour=len(recent),
        rows_last_hour=written,
        rows=rows,
        data_files=data_files,
        data_bytes=sum(sizes),
        partitions=partitions,
        file_bytes_average=round(sum(sizes) / len(sizes)) if sizes else None,
        file_bytes_p10=percentile(sizes, 0.1),
        file_bytes_p50=percentile(sizes, 0.5),
        file_bytes_p90=percentile(sizes, 0.9),
        small_files=len(small),
        small_file_ratio=share_of(len(small), len(data)),
        average_small_files=share_of(len(small), partitions),
        delete_files=delete_files,
        delete_ratio=min(1.0, share_of(deletes, rows)),
        delete_files_per_data_file=share_of(delete_files, data_files),
        snapshots=len(facts.metadata.snapshots),
        metadata_bytes=facts.sizes.total_bytes,
        compaction_lag_ms=max(
            0, now_ms - min((file.written_ms for file in uncompacted), default=now_ms)
        ),
        uncompacted_files=measure_uncompacted(facts.metadata).small_files,
        uncompacted_bytes=sum(file.size_bytes for file in uncompacted),
        dead_letters_last_hour=letters,
        dead_letter_ratio=None
        if letters is None
        else share_of(letters, letters + written),
        late_last_hour=late,
        late_ratio=share_of(late, late + written),
        files_read=len(facts.files),
        older_last_hour=sum(commit.older for commit in recent),
        rescued_last_day=add_rescued(
            *(it.rescued for it in facts.commits[::-1] if it.at_ms > now_ms - DAY_MS)
        ),
    )


def _letters_since(facts: TableFacts, since_ms: int) -> int | None:
    if facts.letters_unread:
        return None
    return sum(count for at_ms, count in facts.dead_letters if at_ms > since_ms)


USUAL_REWRITE = RewriteDataFiles()
"""What makes a rewrite due where no model says it."""


def is_rewrite_overdue(
    rewrite: RewriteDataFiles, uncompacted: Uncompacted, version: int
) -> bool:
    """Whether there is more to rewrite than makes that due: with as much, it may just
    be beginning."""
    return bool(why_rewrite_due(rewrite, uncompacted, version, OVERDUE))


def judge(figures: Judged, limits: Freshness, is_overdue: bool) -> tuple[Finding, ...]:
    """Every figure that is not well, the worst first. `limits` of the model stand in
    the place of the usual ones.

    What is not compacted is judged by the usual one only if a rewrite of data files
    `is_overdue`.
    """
    own = check(figures, limits)
    left = {finding.figure for finding in own}
    if figures.delete_files <= thresholds.FEW_DELETE_FILES:
        left |= {"delete_ratio", "delete_files_per_data_file"}
    if not is_overdue:
        left.add("compaction_lag")
    usual = [
        _compare(figure, value, USUAL_BOUNDS[figure])
        for figure, value in _values(figures).items()
        if figure not in left
        if value is not None
    ]
    found = [finding for finding in (*own, *usual) if finding.word != "well"]
    return tuple(sorted(found, key=lambda finding: -WORDS.index(finding.word)))


def check(figures: Judged | None, limits: Freshness) -> tuple[Finding, ...]:
    """Each figure that `limits` say something of: `watch` above a warning's limit,
    `ill` above an error's.

    A table that is not there, of which there are no figures, keeps no limit, and a
    figure that nobody knows keeps none; a table without a commit is older than any.
    """
    findings = []
    warn, error = limits.warn_after, limits.error_after
    if warn is not None or error is not None:
        bound = Bound(
            warn.length_ms if warn else math.inf, error.length_ms if error else math.inf
        )
        findings.append(
            _compare("freshness", figures.freshness_ms if figures else None, bound)
        )
    lag = limits.max_compaction_lag
    most: dict[Figure, float | None] = {
        "average_small_files": limits.max_average_small_files,
        "compaction_lag": lag.length_ms if lag else None,
        "dead_letter_ratio": limits.max_dead_letter_ratio,
    }
    values = _values(figures) if figures else {}
    findings += [
        _compare(figure, values.get(figure), Bound(math.inf, limit))
        for figure, limit in most.items()
        if limit is not None
    ]
    return tuple(findings)


def worst(findings: Iterable[Finding]) -> Word:
    """The worst word of them, `well` where there are none."""
    return max((finding.word for finding in findings), key=WORDS.index, default="well")


def percentile(ordered: Sequence[int], share: float) -> int | None:
    """The smallest of the values, in order, that `share` of them do not exceed; None of
    none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


USUAL_BOUNDS: Mapping[Figure, Bound] = {
    "average_small_files": thresholds.AVERAGE_SMALL_FILES,
    "compaction_lag": thresholds.COMPACTION_LAG_MS,
    "delete_ratio": thresholds.DELETE_RATIO,
    "delete_files_per_data_file": thresholds.DELETE_FILES_PER_DATA_FILE,
    "metadata_bytes": thresholds.METADATA_BYTES,
    "dead_letter_ratio": thresholds.DEAD_LETTER_RATIO,
    "late_ratio": thresholds.LATE_RATIO,
}
"""What is judged without a word of the model. How fresh a table must be, only its model
can say."""


def _values(figures: Judged) -> dict[Figure, float | None]:
    return {
        "average_small_files": figures.average_small_files,
        "compaction_lag": figures.compaction_lag_ms,
        "delete_ratio": figures.delete_ratio,
        "delete_files_per_data_file": figures.delete_files_per_data_file,
        "metadata_bytes": figures.metadata_bytes,
        "dead_letter_ratio": figures.dead_letter_ratio,
        "late_ratio": figures.late_ratio,
    }


def _compare(figure: Figure, value: float | None, bound: Bound) -> Finding:
    # a limit that is not there is infinite
    above = sys.float_info.max if value is None else value
    if above > bound.ill:
        return Finding(figure, "ill", value, bound.ill)
    if above > bound.watch:
        return Finding(figure, "watch", value, bound.watch)
    return Finding(figure, "well", value, min(bound.watch, bound.ill))


def _not_compacted(small: Sequence[LiveFile]) -> Iterable[LiveFile]:
    crowded = Counter(file.partition for file in small)
    return (
        file
        for file in small
        if crowded[file.partition] >= GROUP_FILES and not file.is_compacted
    )


def _newest_event(commits: Sequence[Commit]) -> int | None:
    """The newest event of a table. None where neither that of the last commit is known
    nor that of the one before.

    Where it is that of the one before alone, the last commit is taken to have its
    latency; or its newest event to be as much newer than that one's as that was than
    its own predecessor's, if that makes it newer: a model that catches up reads hours
    of events in a batch.
    """
    known = [commit.newest_ms for commit in commits]
    if commits and known[-1] is None:
        if len(known) < 2 or (before := known[-2]) is None:
            return None
        last_ms = commits[-1].at_ms
        known.append(last_ms - (commits[-2].at_ms - before))
        if len(known) > 3 and (previous := known[-4]) is not None:
            known.append(min(last_ms, before + (before - previous)))
    return max((each for each in known if each is not None), default=None)


def _known(said: int | None, counted: int) -> int:
    return counted if said is None else said


def share_of(part: float, whole: float) -> float:
    """The part of a whole, 0 of nothing."""
    return part / whole if whole else 0.0
