"""The code actions of the editor: the edits of lint findings, and the name that was
probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lsprotocol import types

from lakesql.errors import LakesqlError, Problem
from lakesql.graph.load_manifest import with_texts
from lakesql.lint.finding import LintFinding, Span
from lakesql.lint.fix import fix_texts
from lakesql.lint.lint import lint
from lakesql.lsp.diagnostics import finding_diagnostic, problem_diagnostic, problem_span
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.lakesql"
"""The kind of the action that does what `lakesql lint --fix` does to the file. Editors
can run it on each save."""


def file_actions(
    project: OpenProject,
    path: str,
    uri: str,
    positions: TextPositions,
    asked: types.CodeActionParams,
) -> list[types.CodeAction]:
    """The code actions for a range of a file."""
    only = asked.context.only
    actions: list[types.CodeAction] = []
    if _is_asked(types.CodeActionKind.QuickFix, only):
        for problem in project.problems().get(path, ()):
            actions += _meant(problem, uri, positions, asked.range)
        for finding in project.findings(path):
            if finding.edits and _meet(positions.range(finding.span), asked.range):
                actions.append(_fix(finding, uri, positions))
    if _is_asked(FIX_ALL, only):
        actions += _fix_all(project, path, uri, positions)
    return actions


def _is_asked(
    kind: types.CodeActionKind | str, only: Sequence[types.CodeActionKind | str] | None
) -> bool:
    """Whether the client wants actions of this kind: it names no kinds, or this one, or
    a more general one."""
    if not only:
        return True
    name = _name(kind)
    return any(
        name == _name(each) or name.startswith(f"{_name(each)}.") or not _name(each)
        for each in only
    )


def _name(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def _meet(one: types.Range, other: types.Range) -> bool:
    first, second = _ends(one), _ends(other)
    return first[0] <= second[1] and second[0] <= first[1]


def _ends(of: types.Range) -> tuple[tuple[int, int], tuple[int, int]]:
    return (of.start.line, of.start.character), (of.end.line, of.end.character)


def _fix(finding: LintFinding, uri: str, positions: TextPositions) -> types.CodeAction:
    edits = [
        positions.edit(positions.range(edit.span), edit.text) for edit in finding.edits
    ]
    return types.CodeAction(
        title=f"{finding.fix or finding.what} ({finding.code})",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[finding_diagnostic(finding, positions)],
        is_preferred=True,
        edit=types.WorkspaceEdit(changes={uri: edits}),
    )


_MEANT = re.compile(r"Did you mean '([^']+)'\?")


def _meant(
    problem: Problem, uri: str, positions: TextPositions, asked: types.Range
) -> Iterator[types.CodeAction]:
    """The action that replaces an unknown name by the one that the problem suggests."""
    found = _MEANT.search(problem.fix) or _MEANT.search(problem.why)
    if found is None or problem.place is None or problem.place.column is None:
        return
    span = problem_span(problem, positions)
    if not _meet(positions.range(span), asked):
        return
    written = _written(span, positions)
    quote = written[:1] if written[:1] in ("'", '"', "`") else ""
    if not quote and not re.fullmatch(r"\w+", written):
        return
    edit = positions.edit(positions.range(span), f"{quote}{found[1]}{quote}")
    yield types.CodeAction(
        title=f"Write {found[1]}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[problem_diagnostic(problem, positions)],
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
    )


def _written(span: Span, positions: TextPositions) -> str:
    line = (
        positions.line(span.line) if span.line <= len(positions.source.starts) else ""
    )
    return line[(span.start.column or 1) - 1 : (span.end.column or 1) - 1]


def _fix_all(
    project: OpenProject, path: str, uri: str, positions: TextPositions
) -> Iterator[types.CodeAction]:
    """The action with the changes that `lakesql lint --fix` would make to a model's
    file."""
    manifest = project.manifest
    if manifest is None or not any(finding.edits for finding in project.findings(path)):
        return
    names = [name for name, model in manifest.models.items() if model.path == path]
    try:
        fixed = fix_texts(
            {path: positions.source.text},
            lambda changed: lint(
                with_texts(manifest, changed), project.lint_settings, names, whole=False
            ),
        )
    except LakesqlError:
        return
    if path not in fixed.texts:
        return
    edit = positions.edit(positions.whole(), fixed.texts[path])
    yield types.CodeAction(
        title="Fix all that lakesql lint can",
        kind=FIX_ALL,
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
    )
