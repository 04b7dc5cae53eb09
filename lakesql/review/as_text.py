"""A review as a person reads it in a terminal."""

from __future__ import annotations

import difflib
import textwrap
from collections import Counter
from collections.abc import Iterator

from lakesql.review.verdicts import VERDICTS, ColumnChanges, ModelReview, Review

_WIDTH = 110


def render_text(review: Review) -> str:
    """A line that counts, then each model that has a reason: what it is, columns, readers, steps and statements."""
    changed = [model for model in review.models if model.reasons]
    parts = [f"Compared with {review.against}: {count_verdicts(review)}."]
    parts += ["\n".join(_model_lines(model)) for model in changed]
    return "\n\n".join(parts) + "\n"


def count_verdicts(review: Review) -> str:
    """How many models have each verdict, the hardest first."""
    counts = Counter(model.verdict for model in review.models)
    if not counts:
        return "there is no model"
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(VERDICTS) if counts[verdict])


def diff_lines(model: ModelReview) -> list[str]:
    """The unified diff of what a model runs; nothing where rows and table are the same, or it is new or gone."""
    before, after = model.statements.before, model.statements.after
    if before is None or after is None or model.verdict in ("none", "docs"):
        return []
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2)
    return list(lines)


def column_lines(columns: ColumnChanges) -> list[str]:
    """A line for each column that was added, dropped or retyped."""
    return [
        *(f"+ {column.name} {column.type}".rstrip() for column in columns.added),
        *(f"- {column.name} {column.type}".rstrip() for column in columns.dropped),
        *(f"~ {column.name} {column.before} -> {column.after}" for column in columns.retyped),
    ]


def _model_lines(model: ModelReview) -> Iterator[str]:
    yield f"{model.verdict:<10}  {model.name}"
    for reason in model.reasons:
        place = f"{reason.place} " if reason.place else ""
        yield f"  {place}[{reason.condition}]" + ("" if reason.verdict == model.verdict else f" {reason.verdict}")
        yield from _wrapped(reason.what, "    ")
        if reason.do:
            yield from _wrapped(reason.do, "    -> ", "       ")
    if lines := column_lines(model.columns):
        yield "  columns"
        yield from (f"    {line}" for line in lines)
    if model.downstream:
        yield "  read by"
        for reader in model.downstream:
            through = "" if reader.through == model.name else f" (through {reader.through})"
            yield f"    {reader.name}: {', '.join(reader.columns)}{through}"
    if model.steps:
        yield "  lakesql run will"
        for step in model.steps:
            yield f"    {step.text}"
            if step.statements[0].startswith("ALTER"):
                yield from (f"      {statement};" for statement in step.statements)
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
