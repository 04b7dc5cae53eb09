"""Findings as JSON, for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lakesql.lint.all_rules import load_rule
from lakesql.lint.finding import LintFinding, Span


def render_objects(findings: Iterable[LintFinding]) -> str:
    """One list of objects, one for each finding."""
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
