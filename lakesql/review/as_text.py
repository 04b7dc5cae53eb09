"""A review as text for a terminal."""

from __future__ import annotations

import difflib
import textwrap
from collections import Counter
from collections.abc import Iterator

from lakesql.compile.growth import ROW_BYTES, ROWS_PER_SECOND
from lakesql.counts import number
from lakesql.observe.text import duration, size
from lakesql.review.verdicts import (
    VERDICTS,
    ColumnChanges,
    DayChange,
    DayCounts,
    ForecastDay,
    ModelReview,
    Reason,
    Review,
)

_WIDTH = 110


def render_text(review: Review) -> str:
    """A line with the number of models by verdict, then each model that has a reason:
    reasons, columns, readers, steps, forecast and statements."""
    changed = [model for model in review.models if model.reasons]
    parts = [f"Compared with {review.against}: {count_verdicts(review)}."]
    parts += ["\n".join(_model_lines(model)) for model in changed]
    return "\n\n".join(parts) + "\n"


def count_verdicts(review: Review) -> str:
    """How many models have each verdict, the most severe first."""
    counts = Counter(model.verdict for model in review.models)
    if not counts:
        return "there is no model"
    return ", ".join(
        f"{counts[verdict]} {verdict}"
        for verdict in reversed(VERDICTS)
        if counts[verdict]
    )


def diff_lines(model: ModelReview) -> list[str]:
    """The unified diff of a model's compiled SQL. Empty if the verdict is `none` or
    `docs`, or if a version has no compiled text."""
    before, after = model.statements.before, model.statements.after
    if before is None or after is None or model.verdict in ("none", "docs"):
        return []
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2
    )
    return list(lines)


def reason_line(reason: Reason) -> str:
    """A reason in one line, as a run shows it before it applies the change."""
    return (
        f"plan: {reason.verdict}: {reason.what}{f' {reason.do}' if reason.do else ''}"
    )


def column_lines(columns: ColumnChanges) -> list[str]:
    """A line for each column that was added, dropped or retyped."""
    return [
        *(f"+ {column.name} {column.type}".rstrip() for column in columns.added),
        *(f"- {column.name} {column.type}".rstrip() for column in columns.dropped),
        *(
            f"~ {column.name} {column.before} -> {column.after}"
            for column in columns.retyped
        ),
    ]


DAY_TITLE = f"a day at {ROWS_PER_SECOND:g} rows of {ROW_BYTES:g} bytes a second"
"""The assumptions of the forecasts for a day, as a title."""


def day_rows(change: DayChange) -> list[tuple[str, str, str]]:
    """The figures that differ between the forecasts of both versions, as (name, before,
    after)."""
    before, after = _day_figures(change.before), _day_figures(change.after)
    names = dict.fromkeys((*before, *after))
    rows = [(name, before.get(name, "-"), after.get(name, "-")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _day_figures(day: ForecastDay) -> dict[str, str]:
    return {
        "newest row at most old": duration(day.freshness_ms),
        "a batch reads all that comes": "no" if day.is_behind else "yes",
        **_count_figures(day.unmaintained, ""),
        **(
            _count_figures(day.maintained, " (maintained, at most)")
            if day.maintained
            else {}
        ),
    }


def _count_figures(counts: DayCounts, how: str) -> dict[str, str]:
    return {
        f"commits{how}": number(counts.commits),
        f"data files{how}": number(counts.data_files),
        f"delete files{how}": number(counts.delete_files),
        f"snapshots{how}": number(counts.snapshots),
        f"metadata{how}": size(counts.metadata_bytes),
    }


def _model_lines(model: ModelReview) -> Iterator[str]:
    yield f"{model.verdict:<10}  {model.name}"
    for reason in model.reasons:
        place = f"{reason.place} " if reason.place else ""
        yield f"  {place}[{reason.condition}]" + (
            "" if reason.verdict == model.verdict else f" {reason.verdict}"
        )
        yield from _wrapped(reason.what, "    ")
        if reason.do:
            yield from _wrapped(reason.do, "    -> ", "       ")
    if lines := column_lines(model.columns):
        yield "  columns"
        yield from (f"    {line}" for line in lines)
    if model.downstream:
        yield "  read by"
        for reader in model.downstream:
            through = (
                "" if reader.through == model.name else f" (through {reader.through})"
            )
            yield f"    {reader.name}: {', '.join(reader.columns)}{through}"
    if model.steps:
        yield "  lakesql run will"
        for step in model.steps:
            yield f"    {step.text}"
            if any(statement.startswith("ALTER") for statement in step.statements):
                yield from (
                    textwrap.indent(f"{statement};", "      ")
                    for statement in step.statements
                )
    if model.day is not None:
        yield f"  {DAY_TITLE}"
        yield from (
            f"    {name:<36} {was:>12} -> {now}"
            for name, was, now in day_rows(model.day)
        )
    if lines := diff_lines(model):
        yield "  statements"
        yield from (f"    {line}" for line in lines)


def _wrapped(text: str, first: str, others: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others or first,
        break_long_words=False,
        break_on_hyphens=False,
    )
