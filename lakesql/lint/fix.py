"""Applies the edits of findings to the texts of files, round by round until none is
left, as long as the project parses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesql.errors import ProjectError
from lakesql.lint.finding import LintFinding, TextEdit

MAX_ROUNDS = 10
"""The maximum number of rounds; a fix may make another one possible."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The texts that fixes have changed, by path, and the number of findings that were
    fixed."""

    texts: Mapping[str, str]
    count: int


def fix_texts(
    texts: Mapping[str, str], find: Callable[[Mapping[str, str]], Sequence[LintFinding]]
) -> Fixed:
    """The texts of files with the edits of the findings that `find` returns for them.

    `find` gets the changed texts by path, and raises `ProjectError` if the project does
    not parse with them. A file for which it does so keeps its text from before that
    round.
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
    """A text with the edits of findings, and the number of findings that were applied.
    A finding whose edits touch those of an earlier one is left for the next round.

    The line ends of the text are kept.
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
    """The offset of the start of each line. The text has its own line ends; lines are
    counted as in `SourceText`."""
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
