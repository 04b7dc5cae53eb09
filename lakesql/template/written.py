"""Checks the text that a template has rendered, piece by piece: no piece may end up in
a comment that another piece opened."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice

from lakesql.errors import Place
from lakesql.template.comments import LINE_COMMENT, find_line_comments
from lakesql.template.jinja import SourceText
from lakesql.template.values import TemplateError

SHOWN = 40
"""The maximum number of characters that an error shows of the text that would be
lost."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of rendered text, from `start` on, and the offset `origin` in the source
    that it comes from. If it is `verbatim`, its characters are those of the source;
    otherwise all of it comes from `origin`."""

    start: int
    origin: int
    verbatim: bool


@dataclass(slots=True)
class Pieces:
    """The pieces of one text, in their order, and the file that their origins are in.

    `captured` are the texts of macros and blocks that are part of it unchanged, by the
    starts of their pieces.
    """

    source: SourceText
    pieces: list[Piece] = field(default_factory=list)
    captured: dict[int, Captured] = field(default_factory=dict)


class Captured(str):
    """The text of a macro or a block, with its pieces. Strings that are computed from
    it have none."""

    __slots__ = ("written",)
    written: Pieces

    @classmethod
    def of(cls, text: str, written: Pieces) -> Captured:
        """A text with the pieces that it consists of."""
        captured = cls(text)
        captured.written = written
        return captured


def check_comments(text: str, written: Pieces) -> None:
    """Raise `TemplateError` if a `--` comment swallows text that does not follow it on
    its line of the file.

    A comment that an expression opens may contain only what this expression writes.
    More text on that line, or on the next one if a `-` strips the line break, would
    silently be lost in the comment.
    """
    if LINE_COMMENT not in text:
        return
    line_ends: dict[tuple[str, int], int] = {}
    for start, end in find_line_comments(text):
        lost = _find_lost(text, written, start, end, line_ends)
        if lost is None:
            continue
        opening = written.pieces[_index_of(written, start)]
        at = _origin_of(opening, start)
        what = f"This writes a comment (--) which takes in '{lost.text}', as no line break is written before it."
        fix = "End the comment with a line break that no '-' strips, or write it as /* … */."
        error = TemplateError("template-failed", what, fix, at)
        if lost.place != written.source.place(at):
            error.inside.append(f"The comment begins at {lost.place}.")
        raise error


@dataclass(frozen=True, slots=True)
class _Swallowed:
    """A text that would be lost in a comment, and the place where the comment
    begins."""

    text: str
    place: Place


def _find_lost(
    text: str,
    written: Pieces,
    start: int,
    end: int,
    line_ends: dict[tuple[str, int], int],
) -> _Swallowed | None:
    """The text that would be lost in the comment from `start` to `end`, also within the
    captured text that opens it; None if there is none.

    A `--` whose dashes come from two pieces (`n -{{ -1 }}`) is no comment of the file.
    """
    index = _index_of(written, start)
    opening = written.pieces[index]
    origin = _origin_of(opening, start)
    behind_mark = start + len(LINE_COMMENT)
    is_of_file = opening.verbatim and _index_of(written, behind_mark - 1) == index
    for piece in islice(written.pieces, index + 1, None):
        if piece.start >= end:
            break
        if is_of_file and origin < piece.origin < _line_end(
            written.source, origin, line_ends
        ):
            continue
        lost = text[max(piece.start, behind_mark) : end].strip()
        if lost:
            return _Swallowed(
                lost if len(lost) <= SHOWN else lost[:SHOWN] + "…",
                written.source.place(origin),
            )
    inner = written.captured.get(opening.start)
    if inner is None:
        return None
    return _find_lost(
        inner,
        inner.written,
        start - opening.start,
        min(end - opening.start, len(inner)),
        line_ends,
    )


def _index_of(written: Pieces, offset: int) -> int:
    return bisect_right(written.pieces, offset, key=lambda piece: piece.start) - 1


def _origin_of(piece: Piece, offset: int) -> int:
    return piece.origin + (offset - piece.start) * piece.verbatim


_TAG_OR_LINE_BREAK = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\n", re.DOTALL)


def _line_end(
    source: SourceText, origin: int, known: dict[tuple[str, int], int]
) -> int:
    """The offset at which the line of an offset ends in the file. Line breaks within
    tags are skipped."""
    key = (source.path, origin)
    if key not in known:
        breaks = (
            found.start()
            for found in _TAG_OR_LINE_BREAK.finditer(source.text, origin)
            if found[0] == "\n"
        )
        known[key] = next(breaks, len(source.text))
    return known[key]
