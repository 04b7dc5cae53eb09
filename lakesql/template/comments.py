"""Which of SQL's comments and quotes are open in a text, for those who join texts: what
is put into one is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_COMMENT = "--"


class Inside(NamedTuple):
    """What is open at some place of a text: a comment or a quote by the mark that
    opened it, '' for neither.

    Comments in `/* … */` hold others: `depth` is how many are open around.
    """

    mark: str = ""
    depth: int = 0


NOTHING = Inside()

_NEXT_MARK = {
    "": re.compile(r"""--|/\*|\b[rR]['"]|['"`]"""),
    # As in Spark's grammar: a backslash before a line break continues the comment.
    LINE_COMMENT: re.compile(r"\r|(?<!\\)\n"),
    "/*": re.compile(r"/\*|\*/"),
    "'": re.compile(r"\\.|'", re.DOTALL),
    '"': re.compile(r'\\.|"', re.DOTALL),
    # Neither raw literals nor quoted names have escapes.
    "r'": re.compile("'"),
    'r"': re.compile('"'),
    "`": re.compile("`"),
}


def inside_after(text: str, inside: Inside = NOTHING) -> Inside:
    """What is open behind a text; `inside` is what is open before it."""
    last = inside
    for _, now in _changes(text, inside):
        last = now
    return last


def find_line_comments(text: str) -> Iterator[tuple[int, int]]:
    """Where each `--` comment of a text starts and ends; its line break is none of
    it."""
    start: int | None = None
    for found, inside in _changes(text, NOTHING):
        if inside.mark == LINE_COMMENT:
            start = found.start()
        elif start is not None:
            yield start, found.start()
            start = None
    if start is not None:
        yield start, len(text)


def _changes(text: str, inside: Inside) -> Iterator[tuple[re.Match[str], Inside]]:
    """The marks of a text that open or close something, with what is open behind
    each."""
    at = 0
    while found := _NEXT_MARK[inside.mark].search(text, at):
        at = found.end()
        if found[0].startswith("\\"):
            continue
        inside = _inside_behind(found[0], inside)
        yield found, inside


def _inside_behind(mark: str, inside: Inside) -> Inside:
    if not inside.mark:
        return Inside(mark.lower())
    if mark == "/*":
        return Inside("/*", inside.depth + 1)
    if inside.depth:
        return Inside("/*", inside.depth - 1)
    return NOTHING
