"""The edits of findings, made in the texts of files until none is left, where each text
still parses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesql.errors import ProjectError
from lakesql.lint.finding import LintFinding, TextEdit

MAX_ROUNDS = 10
"""How often what was fixed is looked at again: a fix may make room for another one."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The texts that fixes have changed, by their paths, and how many findings they
    were for."""

    texts: Mapping[str, str]
    count: int


def fix_texts(
    texts: Mapping[str, str], find: Callable[[Mapping[str, str]], Sequence[LintFinding]]
) -> Fixed:
    """The texts of files with the edits of what `find` finds in them.

    `find` is given the changed texts, by their paths, and raises `ProjectError` where
    the project does not parse with them. A file with which it does not stays as it was.
    """
    changed: dict[str, str] = {}
    count = 0
    refused: set[str] = set()
    for _ in range(MAX_ROUNDS):
        fixable = [
            finding
            for finding in find(changed)
            if finding.edits and finding.path not in refused
        ]
        if not fixable:
            break
        for path in sorted({finding.path for finding in fixable}):
            own = [finding for finding in fixable if finding.path == path]
            text, taken = apply_edits(changed.get(path, texts[path]), own)
            try:
                find({**changed, path: text})
            except ProjectError:
                refused.add(path)
                continue
            changed[path] = text
            count += taken
    return Fixed(
        {path: text for path, text in changed.items() if text != texts[path]}, count
    )


def apply_edits(text: str, findings: Iterable[LintFinding]) -> tuple[str, int]:
    """A text with the edits of findings, and of how many. One whose edits meet those of
    another waits for its turn.

    Line ends are those of the text.
    """
    taken: list[tuple[int, int, str]] = []
    count = 0
    starts = _line_starts(text)
    for finding in findings:
        edits = [_offsets(edit, starts) for edit in finding.edits]
        if any(_meet(edit, other) for edit in edits for other in taken):
            continue
        taken += edits
        count += 1
    for start, end, replacement in sorted(taken, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text, count


def _line_starts(text: str) -> list[int]:
    """The offset of each line, as `SourceText` divides it, with the text's own line
    ends."""
    starts = [0]
    for at, character in enumerate(text):
        if character == "\n" or (character == "\r" and text[at + 1 : at + 2] != "\n"):
            starts.append(at + 1)
    return starts


def _offsets(edit: TextEdit, starts: list[int]) -> tuple[int, int, str]:
    first, last = (
        starts[(it.line or 1) - 1] + (it.column or 1) - 1
        for it in (edit.span.start, edit.span.end)
    )
    return first, last, edit.text


def _meet(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
