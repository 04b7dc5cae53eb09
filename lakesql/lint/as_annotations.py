"""Findings as GitHub's runners take them from a log: an annotation at the line of
each."""

from __future__ import annotations

from collections.abc import Iterable

from lakesql.lint.finding import LintFinding


def render_annotations(findings: Iterable[LintFinding], folder: str) -> str:
    """A workflow command for each finding, a line each. `folder` is the project's, from
    the repository's root."""
    return "".join(f"{_annotation(finding, folder)}\n" for finding in findings)


def _annotation(finding: LintFinding, folder: str) -> str:
    start, end = finding.span.start, finding.span.end
    properties = {
        "file": f"{folder}{finding.path}",
        "line": start.line,
        "endLine": end.line,
        "col": start.column,
        # Columns count within one line alone.
        "endColumn": max((end.column or 1) - 1, start.column or 1)
        if start.line == end.line
        else None,
        "title": finding.code,
    }
    said = ",".join(
        f"{key}={_escape_property(str(value))}"
        for key, value in properties.items()
        if value is not None
    )
    return f"::warning {said}::{_escape(f'{finding.what} {finding.fix}'.strip())}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
