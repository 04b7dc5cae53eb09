"""The diagnostics of a file, as an editor marks them: problems, warnings, lint findings
and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lsprotocol import types

import lakesql
from lakesql.errors import Place, Problem
from lakesql.lint.all_rules import load_rule
from lakesql.lint.finding import LintFinding, Span, word_span
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions

SOURCE = "lakesql"


def file_diagnostics(
    project: OpenProject,
    path: str,
    positions: TextPositions,
    problems: tuple[Problem, ...],
) -> list[types.Diagnostic]:
    """The diagnostics of a file. If it has problems, these are all that is shown."""
    shown = [problem_diagnostic(problem, positions) for problem in problems]
    if problems:
        return shown
    warning, information = (
        types.DiagnosticSeverity.Warning,
        types.DiagnosticSeverity.Information,
    )
    shown += [
        problem_diagnostic(each, positions, warning) for each in project.warnings(path)
    ]
    shown += [finding_diagnostic(each, positions) for each in project.findings(path)]
    for note in project.notes(path):
        shown.append(
            types.Diagnostic(
                _first_tag(positions), note, severity=information, source=SOURCE
            )
        )
    return shown


def problem_diagnostic(
    problem: Problem,
    positions: TextPositions,
    severity: types.DiagnosticSeverity = types.DiagnosticSeverity.Error,
) -> types.Diagnostic:
    """A problem at its place, with a link to its condition in the docs."""
    span = problem_span(problem, positions)
    return types.Diagnostic(
        positions.range(span),
        " ".join(text for text in (problem.what, problem.why, problem.fix) if text),
        severity=severity,
        code=problem.condition,
        code_description=_link("errors.md", problem.condition),
        source=SOURCE,
    )


def problem_span(problem: Problem, positions: TextPositions) -> Span:
    """The range of the word at the place of a problem; the first character of the file
    if it has no line."""
    place = problem.place
    if place is None or place.line is None:
        start = Place("", 1, 1)
        return Span(start, Place("", 1, 2))
    return word_span(positions.source.text, place)


def finding_diagnostic(
    finding: LintFinding, positions: TextPositions
) -> types.Diagnostic:
    """A lint finding, with a link to its rule in the docs."""
    rule = load_rule(finding.code)
    return types.Diagnostic(
        positions.range(finding.span),
        f"{finding.what} {finding.fix}".strip(),
        severity=types.DiagnosticSeverity.Warning,
        code=finding.code,
        code_description=_link("lint.md", f"{finding.code.lower()}-{rule.name}"),
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary]
        if rule.name.startswith("unused-")
        else None,
    )


def _first_tag(positions: TextPositions) -> types.Range:
    """The range of the word `config` in a model's file; the first character if there is
    none."""
    found = re.search(r"\{\{-?\s*(config)\b", positions.source.text)
    return positions.range_of(*found.span(1)) if found else positions.range_of(0, 1)


def _link(page: str, anchor: str) -> types.CodeDescription | None:
    folder = docs_folder()
    if folder is None:
        return None
    return types.CodeDescription(f"{(folder / page).as_uri()}#{anchor}")


@cache
def docs_folder() -> Path | None:
    """The folder with the docs of conditions and rules: in the installed package, or
    beside it in the repository; None if there is neither."""
    package = Path(lakesql.__file__).parent
    folders: Iterator[Path] = iter((package / "docs", package.parent / "docs"))
    return next(
        (folder for folder in folders if (folder / "errors.md").is_file()), None
    )
