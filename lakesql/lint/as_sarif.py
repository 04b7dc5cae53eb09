"""Findings as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from lakesql import __version__
from lakesql.lint.all_rules import MODULES, load_rule
from lakesql.lint.finding import LintFinding, Span, TextEdit
from lakesql.lint.rule import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(findings: Iterable[LintFinding], folder: str) -> str:
    """The log of one run of the linter. `folder` is the project's, from the
    repository's root."""
    rules = {code: load_rule(code) for code in MODULES}
    numbers = {code: number for number, code in enumerate(rules)}
    driver = {
        "name": "lakesql",
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules.values()],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}}
        },
        "results": [
            _result(finding, numbers[finding.code], folder) for finding in findings
        ],
    }
    return json.dumps(
        {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]},
        ensure_ascii=False,
        indent=2,
    )


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.finds},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.finds} {rule.why}"},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(finding: LintFinding, number: int, folder: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": "warning",
        "message": {"text": f"{finding.what} {finding.fix}".strip()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _file(finding.path, folder),
                    "region": _region(finding.span),
                }
            }
        ],
    }
    if finding.edits:
        replacements = [_replacement(edit) for edit in finding.edits]
        change = {
            "artifactLocation": _file(finding.path, folder),
            "replacements": replacements,
        }
        result["fixes"] = [
            {"description": {"text": finding.fix}, "artifactChanges": [change]}
        ]
    return result


def _replacement(edit: TextEdit) -> dict[str, Any]:
    return {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}


def _file(path: str, folder: str) -> dict[str, Any]:
    return {"uri": quote(f"{folder}{path}"), "uriBaseId": "%SRCROOT%"}


def _region(span: Span) -> dict[str, Any]:
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column,
        "endLine": span.end.line,
        "endColumn": span.end.column,
    }
