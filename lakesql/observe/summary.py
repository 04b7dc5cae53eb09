"""The end of a run's output: the closing table, remarks such as where the dead letters
are, and each failure in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from lakesql.counts import count, number
from lakesql.errors import Place, render_problem
from lakesql.observe.tally import ModelTally, RunTally
from lakesql.observe.text import (
    STYLES,
    Tone,
    duration,
    failing,
    is_up_to_date,
    lost_lineage,
    printable,
    reasons,
    replaced,
)

if TYPE_CHECKING:
    from rich.text import Text

ReadLine = Callable[[Place], str | None]
"""A function that returns the line of a file at a place, None if it cannot be read."""


def render_totals(run: RunTally, width: int) -> list[Text]:
    """The lines of the closing table, the header first, with as many columns as fit
    into `width`: a row for each model in the run's order."""
    # Imported here, as plain output needs rich for nothing else.
    from rich.text import Text

    from lakesql.observe.layout import LayoutColumn, Row, fit_table

    columns = (
        LayoutColumn("model", words=True),
        LayoutColumn("status", words=True),
        LayoutColumn("batches", rank=1),
        LayoutColumn("records", rank=2),
        LayoutColumn("rows"),
        LayoutColumn("dead letters", rank=3),
        LayoutColumn("time"),
    )
    rows = []
    for model in run.models.values():
        status, tone = _status(model)
        figures = (model.batches, model.records, model.rows, model.rejected)
        took = (
            duration(model.finished.duration_ms)
            if model.finished and model.phase != "skipped"
            else ""
        )
        cells = (*(number(figure) if figure else "-" for figure in figures), took)
        rows.append(Row((printable(model.name), Text(status, STYLES[tone]), *cells)))
    return fit_table(columns, rows, 0, width)


def render_closing(run: RunTally) -> str:
    """The last line on the run: `41,000 rows written in 41.2 s. Seeds: 1 filled.
    Models: 3 done, 1 failed.`"""
    over = run.finished
    took = duration(over.duration_ms) if over else ""
    models = run.models.values()
    seeds = _seeds_fared(run)
    fresh = sum(_status(model)[0] == "up to date" for model in models)
    if fresh == len(models) and fresh and not seeds:
        return f"Nothing new to read: {count(fresh, 'model')} up to date, after {took}."
    fared = (
        (run.count("success") - fresh, "done"),
        (fresh, "up to date"),
        (run.count("error"), "failed"),
        (run.count("skipped"), "skipped"),
        (run.count("waiting", "running", "retrying"), "not finished"),
    )
    said = ", ".join(f"{number(times)} {how}" for times, how in fared if times)
    written = sum(seed.written for seed in run.seeds.values() if seed is not None)
    rows = count(sum(model.rows for model in models) + written, "row")
    stopped = "Stopped. " if over and over.interrupted else ""
    return f"{stopped}{rows} written in {took}.{seeds}{f' Models: {said}.' if said else ''}"


def _seeds_fared(run: RunTally) -> str:
    """A sentence such as ` Seeds: 1 filled, 2 unchanged.`; '' for a run without
    seeds."""
    ended = [seed for seed in run.seeds.values() if seed is not None]
    fared = (
        (sum(seed.done == "filled" for seed in ended), "filled"),
        (sum(seed.done == "unchanged" for seed in ended), "unchanged"),
        (sum(seed.done is None for seed in ended), "failed"),
        (len(run.seeds) - len(ended), "not finished"),
    )
    said = ", ".join(f"{number(times)} {how}" for times, how in fared if times)
    return f" Seeds: {said}." if said else ""


def render_remarks(run: RunTally) -> tuple[str, ...]:
    """The lines below the closing table: where the dead letters are, which expectations
    rows fail, fields that no contract knows, late records and those without an event
    time, remembered deletes, rows older than the table's, streams without anything to
    read, why models were skipped, models that a continuous run has not kept fresh, and
    lineage that was not delivered."""
    models = run.models.values()
    dead_letters = (
        f"{model.name}: {count(model.rejected, 'dead letter')} in {model.dead_letter_table} ({reasons(model.reasons)})"
        for model in models
        if model.rejected and model.dead_letter_table
    )
    violations = (
        f"{model.name}: {failing(model.violations)}"
        for model in models
        if model.violations
    )
    texts = (
        f"{model.name}: {replaced(model.replaced, model.replaced_keys)}"
        for model in models
        if model.replaced
    )
    rescued = (
        f"{model.name}: {each.text}; `_rescued` has them"
        for model in models
        for each in model.rescued
    )
    late = (
        f"{model.name}: {number(model.late)} dropped as late, older than its watermark; "
        f"{'they are among its dead letters' if 'late' in dict(model.reasons) else 'no dead letter has them'}"
        for model in models
        if model.late
    )
    timeless = (
        f"{model.name}: {count(model.without_event_time, 'record')} without an event time, which is NULL: no row that is "
        "grouped or joined by it has them. A column that the contract says is `required` makes dead letters of them"
        for model in models
        if model.without_event_time
    )
    moved = (
        f"{model.name}: its watermark was moved furthest by the event of {model.furthest}"
        for model in models
        if model.furthest and (model.late or "ahead-of-time" in dict(model.reasons))
    )
    remembered = (
        f"{model.name}: {number(model.remembered)} remembered among its tombstones, so that an older change brings no "
        "row back"
        for model in models
        if model.remembered
    )
    older = (
        f"{model.name}: {count(model.older, 'row')} left out, older by sequence_by than what the table has of the key"
        for model in models
        if model.older
    )
    empty = (
        f"{model.name}: {warning}" for model in models for warning in model.warnings
    )
    skipped = (
        f"{model.name}: skipped, {model.finished.because}"
        for model in models
        if model.finished and model.finished.status == "skipped"
    )
    ended = (
        f"{name}: ended with what was there (trigger='available_now'), and not kept fresh"
        for name in run.ending
    )
    of_records = (
        *dead_letters,
        *violations,
        *texts,
        *rescued,
        *late,
        *timeless,
        *moved,
        *remembered,
        *older,
    )
    lost = (
        f"lineage: {lost_lineage(each)}"
        for each in (run.lineage_lost,)
        if each is not None
    )
    remarks = (*of_records, *empty, *skipped, *ended, *lost)
    return tuple(map(printable, remarks))


def render_failures(run: RunTally, read_line: ReadLine) -> tuple[str, ...]:
    """A text of several lines for each failed seed and model, with all its problems in
    full."""
    failures = []
    ended = [seed for seed in run.seeds.values() if seed is not None]
    failed = [(seed.seed, seed.problems) for seed in ended if seed.status == "error"]
    finished = [
        model.finished for model in run.models.values() if model.finished is not None
    ]
    failed += [
        (event.model, event.problems) for event in finished if event.status == "error"
    ]
    for name, problems in failed:
        texts = [
            render_problem(problem, read_line(problem.place) if problem.place else None)
            for problem in problems
        ]
        told = "\n".join(texts) if texts else "  No problem was given."
        failures.append(printable(f"{name} failed\n{told}", keep="\n\t"))
    return tuple(failures)


def _status(model: ModelTally) -> tuple[str, Tone]:
    match model.phase:
        case "success":
            return "up to date" if model.finished and is_up_to_date(
                model.finished
            ) else "done", "good"
        case "error":
            return "failed", "bad"
        case "skipped":
            return "skipped", "warning"
        case "waiting" | "running" | "retrying":
            return "unfinished", "warning"
        case _:
            assert_never(model.phase)
