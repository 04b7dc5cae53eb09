"""Findings as they are shown: each with its line and carets below what it is about, as
errors are; as JSON, for scripts; as annotations, which GitHub's runners take from a
log; and as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakesql import __version__
from lakesql.errors import Place, hide_secrets, render_line
from lakesql.lint.all_rules import MODULES, load_rule
from lakesql.lint.finding import LintFinding, Span, TextEdit

if TYPE_CHECKING:
    from lakesql.lint.rule import Rule


def render_finding(finding: LintFinding, name: str, texts: Mapping[str, str]) -> str:
    """One finding of the rule with this name. `texts` are the texts of the project's
    files, by path."""
    lines = [f"{finding.code}[{name}] {finding.span.start}"]
    source = line_at(finding.span.start, texts)
    if source is not None:
        shown = source if finding.path.endswith(".sql") else hide_secrets(source)
        lines += render_line(finding.span.start, source, shown, finding.span.width)
    lines.append(f"  {finding.what}")
    lines += [f"  {finding.fix}"] if finding.fix else []
    return "\n".join(lines)


def line_at(place: Place, texts: Mapping[str, str]) -> str | None:
    """The line of a place; None if the text of its file is not known, or has no such
    line."""
    lines = texts.get(place.path, "").splitlines()
    number = place.line or 1
    return lines[number - 1] if number <= len(lines) else None


def render_objects(findings: Iterable[LintFinding]) -> str:
    """A JSON list with an object for each finding."""
    return json.dumps(
        [_object(finding) for finding in findings], ensure_ascii=False, indent=2
    )


def _object(finding: LintFinding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": load_rule(finding.code).name,
        "path": finding.path,
        **_range(finding.span),
        "what": finding.what,
        "fix": finding.fix,
        "edits": [{**_range(edit.span), "text": edit.text} for edit in finding.edits],
    }


def _range(span: Span) -> dict[str, Any]:
    return {
        "start": {"line": span.start.line, "column": span.start.column},
        "end": {"line": span.end.line, "column": span.end.column},
    }


def render_annotations(findings: Iterable[LintFinding], folder: str) -> str:
    """A workflow command for each finding, one a line. `folder` is the path of the
    project's folder in the repository."""
    return "".join(f"{_annotation(finding, folder)}\n" for finding in findings)


def _annotation(finding: LintFinding, folder: str) -> str:
    start, end = finding.span.start, finding.span.end
    properties = {
        "file": f"{folder}{finding.path}",
        "line": start.line,
        "endLine": end.line,
        "col": start.column,
        # GitHub accepts an end column only if the range is on one line.
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


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(findings: Iterable[LintFinding], folder: str) -> str:
    """The SARIF log of one run of the linter. `folder` is the path of the project's
    folder in the repository."""
    rules = {code: load_rule(code) for code in MODULES}
    numbers = {code: number for number, code in enumerate(rules)}
    driver = {
        "name": "lakesql",
        "semanticVersion": __version__,
        "rules": [_sarif_rule(rule) for rule in rules.values()],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}}
        },
        "results": [
            _sarif_result(finding, numbers[finding.code], folder)
            for finding in findings
        ],
    }
    return json.dumps(
        {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]},
        ensure_ascii=False,
        indent=2,
    )


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.finds},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.finds} {rule.why}"},
        "defaultConfiguration": {"level": "warning"},
    }


def _sarif_result(finding: LintFinding, number: int, folder: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": "warning",
        "message": {"text": f"{finding.what} {finding.fix}".strip()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _sarif_file(finding.path, folder),
                    "region": _region(finding.span),
                }
            }
        ],
    }
    if finding.edits:
        replacements = [_replacement(edit) for edit in finding.edits]
        change = {
            "artifactLocation": _sarif_file(finding.path, folder),
            "replacements": replacements,
        }
        result["fixes"] = [
            {"description": {"text": finding.fix}, "artifactChanges": [change]}
        ]
    return result


def _replacement(edit: TextEdit) -> dict[str, Any]:
    return {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}


def _sarif_file(path: str, folder: str) -> dict[str, Any]:
    return {"uri": quote(f"{folder}{path}"), "uriBaseId": "%SRCROOT%"}


def _region(span: Span) -> dict[str, Any]:
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column,
        "endLine": span.end.line,
        "endColumn": span.end.column,
    }
