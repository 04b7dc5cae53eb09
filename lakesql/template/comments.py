"""Finds which SQL comment or quote is open in a text, so that no text is appended into
one and lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_COMMENT = "--"


class Inside(NamedTuple):
    """The comment or quote that is open at some position of a text: the mark that
    opened it, '' if none is.

    `/* … */` comments nest: `depth` is the number of further ones around it.
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
    # Raw literals and quoted names have no escapes.
    "r'": re.compile("'"),
    'r"': re.compile('"'),
    "`": re.compile("`"),
}


def inside_after(text: str, inside: Inside = NOTHING) -> Inside:
    """What is open after a text; `inside` is what is open before it."""
    last = inside
    for _, now in _changes(text, inside):
        last = now
    return last


def find_line_comments(text: str) -> Iterator[tuple[int, int]]:
    """The start and the end of each `--` comment of a text, without its line break."""
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
    """The marks of a text that open or close a comment or quote, each with what is open
    after it."""
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
