"""Findings as a person reads them: each with its line and carets below what it is
about, as errors are."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.errors import Place, hide_secrets, render_line
from lakesql.lint.finding import LintFinding


def render_finding(finding: LintFinding, name: str, texts: Mapping[str, str]) -> str:
    """One finding of the rule with this name. `texts` are those of the project's files,
    by their paths."""
    lines = [f"{finding.code}[{name}] {finding.span.start}"]
    source = line_at(finding.span.start, texts)
    if source is not None:
        shown = source if finding.path.endswith(".sql") else hide_secrets(source)
        lines += render_line(finding.span.start, source, shown, finding.span.width)
    lines.append(f"  {finding.what}")
    lines += [f"  {finding.fix}"] if finding.fix else []
    return "\n".join(lines)


def line_at(place: Place, texts: Mapping[str, str]) -> str | None:
    """The line of a place; None where the text of its file is not known."""
    lines = texts.get(place.path, "").splitlines()
    number = place.line or 1
    return lines[number - 1] if number <= len(lines) else None
