"""The texts of `lakesql status` and `lakesql freshness` on a table: its health, the
remarks on it, and each figure with its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from lakesql.counts import count
from lakesql.events import Word
from lakesql.model.maintenance_tasks import UnknownFiles, is_maintained
from lakesql.observe.text import WORD_TONES, Tone, duration, iso_time, percent, size
from lakesql.plan.health import Figure, Finding, Judged, check
from lakesql.plan.table_status import (
    Health,
    InputLag,
    Known,
    MissingTable,
    TableStatus,
    Unknown,
)
from lakesql.table.maintenance_plan import Wait

FOREIGN = "* not written by lakesql: none of its snapshots has a ledger entry"

LEFT = "not maintained by lakesql: somebody else maintains it"

LETTERS_UNREAD = "nobody knows how many dead letters: their table cannot be read"

TONES: dict[Health, Tone] = {
    "well": WORD_TONES["well"],
    "watch": WORD_TONES["watch"],
    "ill": WORD_TONES["ill"],
    "missing": "plain",
    "unreadable": "bad",
    "unreachable": "bad",
}


def _is_left(status: TableStatus) -> bool:
    """Whether lakesql does not maintain the table, by its property or by the model's
    options."""
    is_own = is_maintained(status.model) and bool(
        status.model.config.maintenance.procedures
    )
    return not is_own or (
        isinstance(status.state, Known) and status.state.facts.metadata.is_left
    )


def mark(status: TableStatus) -> str:
    """The word for the table's health, with a star if lakesql has not written it."""
    is_foreign = isinstance(status.state, Known) and not status.state.facts.is_ours
    return f"{status.health}*" if is_foreign else status.health


def remarks(status: TableStatus) -> tuple[str, ...]:
    """The remarks on a table: the reasons of its health, who writes and maintains it,
    lagging inputs, waiting maintenance and unknown files. None for a table that cannot
    be read, which is reported as a problem."""
    match status.state:
        case Known(
            facts=facts, figures=figures, findings=findings, waits=waits, lags=lags
        ):
            reasons = [
                f"{finding.word}: {sentence(finding, figures)}" for finding in findings
            ]
            foreign = () if facts.is_ours else (FOREIGN,)
            left = (LEFT,) if _is_left(status) else ()
            is_said = any(finding.figure == "dead_letter_ratio" for finding in findings)
            unread = (LETTERS_UNREAD,) if facts.letters_unread and not is_said else ()
            unknown = _unknown(facts.metadata.record.unknown)
            rescued = (
                f"in the last day, {each.text}; `_rescued` has them"
                for each in figures.rescued_last_day
            )
            others = (*map(_lagging, lags), *map(_waiting, waits), *unknown, *rescued)
            return (*reasons, *unread, *foreign, *left, *others)
        case MissingTable():
            return (
                f"missing: there is no table {status.model.table} yet; its first run makes it",
            )
        case Unknown():
            return ()
        case _:
            assert_never(status.state)


def _lagging(lag: InputLag) -> str:
    if lag.commits is None or lag.behind_ms is None:
        return f"made of {lag.name} as it was before somebody rolled it back, or made it anew"
    return f"behind {lag.name} by {count(lag.commits, 'commit')}, the first of them {duration(lag.behind_ms)} ago"


def _waiting(wait: Wait) -> str:
    until = f", until {iso_time(wait.until_ms)}" if wait.until_ms is not None else ""
    return f"{wait.task.name} is due ({wait.why}) and waits: {wait.waits_for}{until}"


def _unknown(files: UnknownFiles) -> tuple[str, ...]:
    if not files.count:
        return ()
    found = f"{count(files.count, 'unknown file')} in its folder, {size(files.bytes)}"
    return (
        f"{found}, which no removal of orphans takes; one of them is {files.example}",
    )


def sentence(
    finding: Finding, figures: Judged | None, *, has_commit: bool = True
) -> str:
    """A figure with the limit that it was compared with: `63 small data files in a
    partition (limit 50)`.

    Without `has_commit` no commit is known, and the value of freshness is the time
    without one.
    """
    value, limit = finding.value, finding.limit
    if value is None:
        return _without_value(finding, figures)
    match finding.figure:
        case "freshness":
            age = duration(round(value))
            how_old = _newest(figures, age) if has_commit else f"no commit for {age}"
            return f"{how_old} (limit {duration(round(limit))})"
        case "average_small_files":
            return f"{value:,.4g} small data files in a partition (limit {limit:g})"
        case "compaction_lag":
            lasts = f"for {duration(round(value))} (limit {duration(round(limit))})"
            return f"{_uncompacted(figures)} not compacted, {lasts}"
        case "dead_letter_ratio":
            times = figures.dead_letters_last_hour if figures is not None else 0
            return _share_of_hour(times or 0, "dead letter", value, limit)
        case "late_ratio":
            times = figures.late_last_hour if figures is not None else 0
            return _share_of_hour(times, "late event", value, limit)
        case "delete_ratio":
            return f"{percent(value)} of the rows in its data files are deleted (limit {percent(limit)})"
        case "delete_files_per_data_file":
            return f"{value:,.1f} delete files for each data file (limit {limit:g})"
        case "metadata_bytes":
            return f"{size(value)} of metadata (limit {size(limit)})"
        case _:
            assert_never(finding.figure)


def _without_value(finding: Finding, figures: Judged | None) -> str:
    """The text on a figure that is not known."""
    if finding.figure == "freshness":
        return f"no commit yet (limit {duration(round(finding.limit))})"
    if finding.figure == "dead_letter_ratio" and figures is not None:
        return f"{LETTERS_UNREAD} (limit {percent(finding.limit)})"
    return "no table yet"


def _newest(figures: Judged | None, age: str) -> str:
    """The text on a table's freshness: the age of its newest event, or of its last
    commit."""
    if figures is None:
        return f"last commit {age} ago"
    if figures.is_by_latency:
        return f"newest event about {age} ago, by the latency before"
    if figures.is_by_event:
        return f"newest event {age} ago"
    return f"last commit {age} ago"


def _uncompacted(figures: Judged | None) -> str:
    """The size of the data that is not compacted; `delete files` if it is unknown, as
    for a run that has seen delete files alone."""
    if figures is None or not figures.uncompacted_bytes:
        return "delete files"
    return size(figures.uncompacted_bytes)


def _share_of_hour(times: int, kind: str, share: float, limit: float) -> str:
    """The text on a number of dead letters or late events in the last hour, and their
    share of the rows and themselves."""
    shown = f"{percent(share)} of the hour's rows and {kind}s together"
    return f"{count(times, kind)} in the last hour, {shown} (limit {percent(limit)})"


Result = Literal["pass", "warn", "error"]

RESULTS: dict[Word, Result] = {"well": "pass", "watch": "warn", "ill": "error"}

RESULT_TONES: dict[Result, Tone] = {"pass": "good", "warn": "warning", "error": "bad"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A limit of a model's `freshness`, and the result of its check. `value` and
    `limit` are in milliseconds if they are times.

    For a table that cannot be read, `figure` is '' and the result is an error.
    """

    model: str
    result: Result
    figure: Figure | Literal[""]
    value: float | None
    limit: float | None
    text: str


def checked(status: TableStatus) -> tuple[Checked, ...]:
    """The results for each limit of the model's properties, or for each problem of a
    table that cannot be read."""
    name = status.model.name
    if isinstance(status.state, Unknown):
        return tuple(
            Checked(name, "error", "", None, None, f"{status.health}: {problem.what}")
            for problem in status.state.problems
        )
    return tuple(
        Checked(
            name,
            RESULTS[finding.word],
            finding.figure,
            finding.value,
            finding.limit,
            sentence(finding, status.figures),
        )
        for finding in check(status.figures, status.model.properties.freshness)
    )
