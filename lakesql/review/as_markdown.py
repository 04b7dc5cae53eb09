"""A review as a comment on a pull request: first a table of models and verdicts, then
the details of each model, collapsed."""

from __future__ import annotations

import html
from collections.abc import Iterator

from lakesql.review.as_text import (
    DAY_TITLE,
    column_lines,
    count_verdicts,
    day_rows,
    diff_lines,
)
from lakesql.review.verdicts import MEANINGS, ModelReview, Reason, Review, Verdict

MARKER = "<!-- lakesql plan -->"
"""The first line of the comment, by which a job finds its earlier comment to replace
it."""

MOST_CHARACTERS = 60_000
"""The maximal length of a comment, a little below GitHub's limit. Of what does not fit,
only the number is given."""

_MARKS: dict[Verdict, str] = {
    **dict.fromkeys(("none", "docs", "added", "renamed", "next-batch"), "🟢"),
    **dict.fromkeys(("alter",), "🔵"),
    **dict.fromkeys(("rebuild", "removed"), "🟠"),
    **dict.fromkeys(("breaks", "refused"), "🔴"),
}


def render_markdown(review: Review) -> str:
    """The comment. Models without changes are only counted."""
    changed = [model for model in review.models if model.reasons]
    same = len(review.models) - len(changed)
    head = f"{MARKER}\n## lakesql plan: {_marked(review.verdict)}\n\nCompared with {_cell(review.against)}"
    head += f": {count_verdicts(review)}.\n"
    if not changed:
        return f"{head}\nNo model changes.\n"
    rows = [
        f"| {_name(it)} | {_marked(it.verdict)} | {_cell(_first(it))} |"
        for it in changed
    ]
    table = _bounded(f"{head}\n| Model | Verdict | Why |\n| --- | --- | --- |\n", rows)
    rest = (
        f"\n{same} other model{'s are' if same != 1 else ' is'} as before.\n"
        if same
        else ""
    )
    return _bounded(
        f"{table}{rest}\n", ["\n".join(_details(model)) + "\n" for model in changed]
    )


def _bounded(text: str, parts: list[str]) -> str:
    """The text, followed by as many of the parts as fit into a comment, and the number
    of the others."""
    for number, part in enumerate(parts):
        if len(text) + len(part) > MOST_CHARACTERS:
            return (
                f"{text}\n{len(parts) - number} more in the output of `lakesql plan`.\n"
            )
        text = f"{text}{part}\n"
    return text


def _details(model: ModelReview) -> Iterator[str]:
    yield f"<details><summary>{_marked(model.verdict)} <b>{html.escape(model.name)}</b></summary>\n"
    yield f"_{MEANINGS[model.verdict]}_\n"
    yield from (_reason(model, reason) for reason in model.reasons)
    if lines := column_lines(model.columns):
        yield "\n" + _fenced("diff", lines)
    if model.downstream:
        yield "\nRead by:\n"
        for reader in model.downstream:
            through = (
                "" if reader.through == model.name else f", through `{reader.through}`"
            )
            yield f"- `{reader.name}`: {', '.join(f'`{column}`' for column in reader.columns)}{through}"
    if model.steps:
        yield "\n`lakesql run` will:\n"
        yield _fenced(
            "sql",
            [f"{statement};" for step in model.steps for statement in step.statements],
        )
    if model.day is not None:
        yield f"\n| {DAY_TITLE} | before | after |\n| --- | ---: | ---: |"
        yield from (
            f"| {_cell(name)} | {_cell(was)} | {_cell(now)} |"
            for name, was, now in day_rows(model.day)
        )
    if lines := diff_lines(model):
        yield "\n" + _fenced("diff", lines)
    yield "\n</details>"


def _reason(model: ModelReview, reason: Reason) -> str:
    place = f" at `{reason.place}`" if reason.place else ""
    verdict = "" if reason.verdict == model.verdict else f" ({reason.verdict})"
    do = f"<br>→ {_html(reason.do)}" if reason.do else ""
    return f"- `{reason.condition}`{verdict}{place}: {_html(reason.what)}{do}"


def _fenced(language: str, lines: list[str]) -> str:
    """A block of code, with a fence longer than any run of backticks in it."""
    body = "\n".join(lines)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{language}\n{body}\n{fence}"


def _marked(verdict: Verdict) -> str:
    return f"{_MARKS[verdict]} {verdict}"


def _name(model: ModelReview) -> str:
    return f"`{model.name}`"


def _first(model: ModelReview) -> str:
    reason = model.reasons[0]
    more = f" (and {len(model.reasons) - 1} more)" if len(model.reasons) > 1 else ""
    return f"{reason.what}{more}"


def _cell(text: str) -> str:
    return _html(text).replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("*", "\\*").replace("_", "\\_")
