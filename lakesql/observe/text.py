"""How an event is written in one line, and how counts, durations, sizes and times are
written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal, assert_never

from lakesql.counts import count, number
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
    LineageLost,
    MaintenanceFailed,
    ModelFinished,
    Noted,
    Progress,
    QueryPaused,
    QueryStarted,
    RecordsRejected,
    Retrying,
    RowsWaiting,
    RunFinished,
    RunStarted,
    SeedFinished,
    SessionStarted,
    SpelledOtherwise,
    StepApplied,
    StreamEmpty,
    TableMaintained,
    Word,
)

Tone = Literal["plain", "good", "warning", "bad"]

STYLES: Mapping[Tone, str] = {
    "plain": "",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
}

WORD_TONES: Mapping[Word, Tone] = {"well": "good", "watch": "warning", "ill": "bad"}

GAP = "  "
"""The space between two columns of text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line about a model, or about the run if `model` is empty."""

    model: str
    text: str
    tone: Tone = "plain"


def describe(event: Event) -> Line:
    """The event as one line without control characters."""
    line = _describe(event)
    return Line(printable(line.model), printable(line.text), line.tone)


def _waiting(event: RowsWaiting) -> str:
    """The event as a text, such as `228 groups wait until the watermark,
    2026-03-01T23:59:50.000Z, has passed`."""
    watermark = (
        f"the watermark, {event.watermark}," if event.watermark else "the watermark"
    )
    verb = "waits" if event.groups == 1 else "wait"
    said = (
        [f"{count(event.groups, 'group')} {verb} until {watermark} has passed"]
        if event.groups
        else []
    )
    if event.joined:
        said.append(
            f"{count(event.joined, 'record')} kept for those of the other stream that may come"
        )
    return "; ".join(said)


def _describe(event: Event) -> Line:
    match event:
        case RunStarted():
            until = "until stopped" if event.continuous else "once"
            seeds = count(len(event.seeds), "seed") if event.seeds else ""
            models = (
                count(len(event.models), "model") if event.models or not seeds else ""
            )
            return Line(
                "",
                f"{' and '.join(filter(None, (seeds, models)))} on target {event.target}, {until}",
            )
        case SessionStarted():
            return Line("", f"Spark is up after {duration(event.duration_ms)}")
        case Noted():
            return Line(event.model or "", event.text)
        case StreamEmpty():
            return Line(
                event.model,
                f"stream {event.stream} has nothing to read: {event.why}",
                "warning",
            )
        case FilesLeftOut() | FilesLate():
            return Line(event.model, f"stream {event.stream}: {event.why}", "warning")
        case RowsWaiting():
            return Line(event.model, _waiting(event))
        case ColumnsAbsent():
            absent = f"{count(event.changes, 'change')} of stream {event.stream}: {event.text}"
            return Line(event.model, f"batch {event.batch}: {absent}", "warning")
        case SpelledOtherwise():
            return Line(event.model, f"stream {event.stream}: {event.text}", "warning")
        case StepApplied():
            return Line(event.model, event.text)
        case QueryStarted():
            return Line(event.model, "started")
        case QueryPaused():
            return Line(
                event.model, "pauses until a rebuild has swapped in its table's rows"
            )
        case Retrying():
            retry = f"retry {event.attempt} of {event.attempts} in {duration(event.wait_ms)}"
            return Line(event.model, f"{headline(event.problems)} - {retry}", "warning")
        case BatchStarted():
            return Line(event.model, f"batch {event.batch}: begins")
        case BatchCommitted() if event.refreshed:
            parts = [
                event.refreshed,
                count(event.rows, "row"),
                duration(event.duration_ms),
            ]
            said = _join(*parts, failing(event.violations))
            return Line(event.model, f"refresh {event.batch}: {said}", _style_of(event))
        case BatchCommitted():
            parts = [
                count(event.records, "record"),
                count(event.rows, "row"),
                *_lost(event.rejected, event.late),
            ]
            said = _join(
                *parts,
                duration(event.duration_ms),
                failing(event.violations),
                _replaced_in(event),
            )
            return Line(event.model, f"batch {event.batch}: {said}", _style_of(event))
        case BatchSkipped():
            return Line(
                event.model,
                f"batch {event.batch}: in the table already, nothing written",
                "warning",
            )
        case BatchEmpty():
            parts = [
                count(event.records, "record"),
                "no row to write",
                *_lost(event.rejected, event.late),
            ]
            said = _join(*parts, failing(event.violations), _replaced_in(event))
            return Line(event.model, f"batch {event.batch}: {said}", _style_of(event))
        case RecordsRejected():
            dead_letters = f"{count(event.count, 'dead letter')} in {event.table}"
            return Line(
                event.model,
                f"batch {event.batch}: {dead_letters} ({reasons(event.reasons)})",
                "warning",
            )
        case FieldsRescued():
            return Line(
                event.model,
                f"batch {event.batch}: {'; '.join(it.text for it in event.rescued)}",
                "warning",
            )
        case Progress():
            backlog = (
                ""
                if event.left is None
                else f"backlog {backlog_text(event.left, event.left_unit)}"
            )
            left = time_left(event.left, event.left_unit, event.records_per_second)
            figures = (
                backlog,
                rate(event.records_per_second),
                f"about {left} left" if left else "",
            )
            return Line(event.model, _join(*figures) or "no figures yet")
        case HealthJudged():
            why = "; ".join(finding.text for finding in event.findings)
            return Line(
                event.model,
                f"{event.health}: {why}" if why else event.health,
                WORD_TONES[event.health],
            )
        case TableMaintained():
            done = [
                f"{name.removesuffix('_count').replace('_', ' ')} {number(n)}"
                for name, n in event.counts
                if n
            ]
            return Line(
                event.model,
                f"{event.task}: {_join(*done, duration(event.duration_ms))}",
            )
        case MaintenanceFailed():
            return Line(
                event.model,
                f"{event.task} failed, and is tried again later: {event.why}",
                "warning",
            )
        case ModelFinished():
            return _describe_finished(event)
        case SeedFinished():
            return _describe_seed(event)
        case LineageLost():
            return Line("", lost_lineage(event), "warning")
        case RunFinished():
            return Line(
                "",
                f"{'stopped' if event.interrupted else 'finished'} after {duration(event.duration_ms)}",
            )
        case _:
            assert_never(event)


def _describe_finished(event: ModelFinished) -> Line:
    match event.status:
        case "success" if is_up_to_date(event) and event.warnings:
            return Line(
                event.model, f"nothing to read: {'; '.join(event.warnings)}", "warning"
            )
        case "success" if is_up_to_date(event) and event.maintained:
            return Line(
                event.model,
                f"up to date; {count(event.maintained, 'procedure')} run on its tables",
                "good",
            )
        case "success" if is_up_to_date(event):
            return Line(event.model, "up to date, nothing new to read", "good")
        case "success":
            return Line(
                event.model,
                f"done: {totals(event)}, {duration(event.duration_ms)}",
                "good",
            )
        case "error":
            return Line(event.model, f"failed: {headline(event.problems)}", "bad")
        case "skipped":
            done = f", after {totals(event)}" if event.batches else ""
            return Line(event.model, f"skipped: {event.because}{done}", "warning")
        case _:
            assert_never(event.status)


def _describe_seed(event: SeedFinished) -> Line:
    rows = "" if event.rows is None else count(event.rows, "row")
    match event.done:
        case "filled":
            took = duration(event.duration_ms)
            return Line(
                event.seed,
                f"{_join(f'filled with {rows}', took)}: {event.because}",
                "good",
            )
        case "unchanged":
            return Line(event.seed, _join(f"unchanged, {event.because}", rows), "good")
        case None:
            return Line(event.seed, f"failed: {headline(event.problems)}", "bad")
        case _:
            assert_never(event.done)


def is_up_to_date(event: ModelFinished) -> bool:
    """Whether the model succeeded and had nothing to do: no batch, record or row."""
    work = (
        event.batches
        + event.records
        + event.rows
        + event.rejected
        + event.late
        + event.skipped_batches
    )
    return event.status == "success" and work == 0


def totals(event: ModelFinished) -> str:
    """The model's counts of batches, records and rows in the run, as a text."""
    known = (
        f"{count(event.skipped_batches, 'batch', 'batches')} known already"
        if event.skipped_batches
        else ""
    )
    return _join(
        count(event.batches, "batch", "batches"),
        count(event.records, "record") if event.records or not event.rows else "",
        count(event.rows, "row"),
        *_lost(event.rejected, event.late),
        known,
    )


def headline(problems: tuple[Problem, ...]) -> str:
    """The first problem in one line, with the number of further ones."""
    if not problems:
        return "no problem was given"
    first = problems[0]
    place = f" {first.place}" if first.place else ""
    more = (
        f" (and {count(len(problems) - 1, 'more problem')})"
        if len(problems) > 1
        else ""
    )
    return f"error[{first.condition}]{place} {first.what}{more}"


def reasons(counts: tuple[tuple[str, int], ...]) -> str:
    """The counts of dead letters by reason: `required-missing 3, unparsable 1`."""
    return (
        ", ".join(f"{reason} {number(times)}" for reason, times in counts)
        or "no reason given"
    )


def failing(counts: tuple[tuple[str, int], ...]) -> str:
    """The counts of failing rows by expectation: `3 rows fail 'amount >= 0'`; '' if
    none fails."""
    return ", ".join(
        f"{count(times, 'row')} {'fails' if times == 1 else 'fail'} '{name}'"
        for name, times in counts
    )


def replaced(values: int, keys: int) -> str:
    """A text on the number of values, and of `keys` among them, that had bytes which
    are no UTF-8; '' if none had."""
    if not values:
        return ""
    said = f"{count(values, 'value')} had bytes that are no UTF-8, replaced by U+FFFD"
    if not keys:
        return said
    advice = "`invalid_text: dead_letter` of the stream sets such records aside"
    return f"{said}; {number(keys)} of them in keys, which may coincide now: {advice}"


def _replaced_in(event: BatchCommitted | BatchEmpty) -> str:
    return replaced(event.replaced, event.replaced_keys)


def _style_of(event: BatchCommitted | BatchEmpty) -> Tone:
    return "warning" if event.violations or event.replaced else "plain"


def lost_lineage(event: LineageLost) -> str:
    """A text such as `3 lineage events not delivered to http://localhost:5000: it does
    not answer`."""
    return f"{count(event.events, 'lineage event')} not delivered to {event.target}: {event.why}"


def rate(records_per_second: float) -> str:
    """A speed such as `8,300 records/s`; '' if it is no finite number, as before
    Spark's first batch."""
    return (
        f"{records_per_second:,.0f} records/s"
        if math.isfinite(records_per_second)
        else ""
    )


def backlog_text(backlog: int, unit: str) -> str:
    """A backlog such as `1,200 records`, `1 file`, or for milliseconds `2 min 05 s`."""
    return duration(backlog) if unit == "ms" else count(backlog, unit.removesuffix("s"))


def time_left(backlog: int | None, unit: str, records_per_second: float | None) -> str:
    """The time that a backlog of records takes at this speed, such as `2 min 05 s`; ''
    if it is unknown or below `SOON_S`."""
    if (
        not backlog
        or unit != "records"
        or not records_per_second
        or not math.isfinite(records_per_second)
    ):
        return ""
    seconds = backlog / records_per_second
    return duration(round(seconds) * 1000) if seconds >= SOON_S else ""


SOON_S = 15
"""The least number of seconds left for which a forecast is shown."""


def duration(ms: int) -> str:
    """A duration: `0.8 s`, `41.2 s`, `2 min 05 s`, `3 h 04 min`, `12 d 03 h`."""
    seconds = max(0, ms) / 1000
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def size(size_bytes: float) -> str:
    """A size in decimal units: `812 B`, `3.4 kB`, `268 MB`, `1.2 GB`."""
    for unit, unit_bytes in (
        ("TB", 10**12),
        ("GB", 10**9),
        ("MB", 10**6),
        ("kB", 10**3),
    ):
        if size_bytes >= 0.9995 * unit_bytes:
            value = size_bytes / unit_bytes
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"
    return f"{size_bytes:.0f} B"


def percent(share: float) -> str:
    """A share as a percentage: `0 %`, `0.4 %`, `12 %`. Only exactly 0 shows as `0 %`,
    and only exactly 1 as `100 %`."""
    value = 100 * share
    if value in (0, 100) or 9.95 <= value < 99.5:
        return f"{value:.0f} %"
    return (
        f"{max(value, 0.1):.1f} %"
        if value < 9.95
        else "99 %"
        if value < 100
        else f"{value:,.0f} %"
    )


def age(ms: int) -> str:
    """An age in one unit, so that it changes rarely on a screen: `now`, `4 s ago`, `12
    min ago`."""
    seconds = ms // 1000
    if seconds < 1:
        return "now"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def stopwatch(ms: int) -> str:
    """A duration in the form of a stopwatch: `0:42`, `12:05`, `3:00:07`."""
    minutes, seconds = divmod(max(0, ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def wall_time(at_ms: int, zone: tzinfo | None) -> str:
    """The time of day, such as `12:03:05`, in `zone`, or in this machine's zone if it
    is None."""
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%H:%M:%S")


def iso_time(at_ms: int) -> str:
    """The time in ISO 8601 and UTC: `2026-03-01T12:03:05.120Z`."""
    return (
        datetime.fromtimestamp(at_ms / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def printable(text: str, keep: str = "") -> str:
    """`text` in one line, with control characters escaped, except those in `keep`.

    Events may quote records, and so texts from anybody, with commands for terminals.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else " " if c.isspace() else _escape(c)
        for c in text
    )


def shorten(name: str, width: int) -> str:
    """`name` in at most `width` characters: `...` replaces the middle of a longer
    one."""
    if len(name) <= width:
        return name
    tail = (width - 3) // 2
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _lost(rejected: int, late: int) -> tuple[str, str]:
    """The counts of dead letters and late records as texts; '' for 0."""
    return count(
        rejected, "dead letter"
    ) if rejected else "", f"{number(late)} dropped as late" if late else ""
