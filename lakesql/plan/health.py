"""The health of a table: figures from its metadata, and which of them are above the
limits for `watch` or `ill`."""

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
"""The number of commits over which the 95th percentile of the latency is taken."""

WORDS: tuple[Word, ...] = ("well", "watch", "ill")
"""The words for health, from good to bad."""

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
"""The figures that are judged."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What was read of a table.

    `is_ours`: a snapshot has a ledger entry. `commits` are those of the main branch,
    oldest first: those with a ledger entry, or, if there is none, all that added rows.
    `files` are those of the current snapshot; if there are more than are read, the
    newest ones. `sizes` are those of the metadata files. `dead_letters` has, for each
    commit to the dead-letter table, its time and the number of dead letters that it
    added; `letters_unread` has the reason if that table cannot be read.
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
    """The figures by which a table is judged.

    `freshness_ms` is the time since the newest event, if that is known for the last
    commit (`is_by_event`) or estimated by the latency of the commit before
    (`is_by_latency`); else the time since the last commit, None if there is none.
    `average_small_files` is the average number of data files in a partition below 75 %
    of the target size. `delete_ratio` is the share of the rows in data files that is
    deleted. Not compacted are delete files, and small data files of partitions that
    have five or more, except those that a compaction wrote: `compaction_lag_ms` is the
    age of the oldest, `uncompacted_bytes` their size in all. `uncompacted_files` is the
    number of small data files in a partition, as maintenance counts them. The ratios of
    dead letters and late events are their shares of themselves and the rows written in
    the last hour; those of dead letters are None if their table cannot be read.
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
    """All figures of a table at one time; None for those that are not known.

    `age_ms` is the time since the last commit. `latency_ms` is the time from a commit's
    newest event to the commit, for the last commit of which it is known;
    `latency_p95_ms` is its 95th percentile over the last 100 commits. `backlog` is what
    the source had left to read at the last commit, in records, files or milliseconds
    (`backlog_unit`). `files_read` is the number of data and delete files whose sizes
    were read. `older_last_hour` counts the rows left out because the table had newer
    ones of their keys, `rescued_last_day` the records with fields that the contract of
    their stream does not know.
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
        """The backlog if it is a time; else None."""
        return self.backlog if self.backlog_unit == "ms" else None

    @property
    def backlog_items(self) -> int | None:
        """The backlog if it is a number of records or files; else None."""
        return None if self.backlog_unit == "ms" else self.backlog


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure and its judgement. `limit` is the limit that it exceeds; if it exceeds
    none, the lowest.

    `value` is None if it is not known, as before the first commit.
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
"""The options by which a rewrite is due if no model configures it."""


def is_rewrite_overdue(
    rewrite: RewriteDataFiles, uncompacted: Uncompacted, version: int
) -> bool:
    """Whether there is clearly more to rewrite than makes a rewrite due; with only as
    much, the rewrite may be about to begin."""
    return bool(why_rewrite_due(rewrite, uncompacted, version, OVERDUE))


def judge(figures: Judged, limits: Freshness, is_overdue: bool) -> tuple[Finding, ...]:
    """Every figure that is not `well`, the worst first. `limits` of the model replace
    the usual ones.

    The usual limit of `compaction_lag` counts only if a rewrite of data files
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
    """Each figure for which `limits` has a limit: `watch` above that of a warning,
    `ill` above that of an error.

    A figure that is not known exceeds every limit. So do all of a table that does not
    exist, for which `figures` is None, and the freshness of one without a commit.
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
    """The worst word of the findings; `well` if there are none."""
    return max((finding.word for finding in findings), key=WORDS.index, default="well")


def percentile(ordered: Sequence[int], share: float) -> int | None:
    """The smallest of the sorted values that at least `share` of them do not exceed;
    None if there are none."""
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
"""The limits of figures if the model sets none. Freshness has none: only the model can
know how fresh its table must be."""


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
    # A bound that is not set is infinite, so an unknown value must be finite.
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
    """The time of the newest event of a table. None if it is known neither for the last
    commit nor for the one before.

    If it is known only for the one before, it is estimated for the last commit, as the
    later of two: by the latency of the commit before, and by the step between the
    newest events of the two commits before, as a model that catches up reads hours of
    events in a batch.
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
    """`part` as a share of `whole`; 0 if `whole` is 0."""
    return part / whole if whole else 0.0
