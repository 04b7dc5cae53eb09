"""What a rule has found: a code, a range in a file, what is wrong, what to do, and the
edits that do it."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.errors import Place


@dataclass(frozen=True, slots=True)
class Span:
    """A range in a file: from a place, which has a line and a column, up to another one
    of the same file, exclusively.

    Columns are counted in characters, from 1, as in `Place`.
    """

    start: Place
    end: Place

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return self.start.line or 1

    @property
    def width(self) -> int:
        """How many characters of its first line it has; 1 where it goes on in the next
        one."""
        if self.start.line != self.end.line:
            return 1
        return max(1, (self.end.column or 1) - (self.start.column or 1))


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The text that is to stand in the place of a range."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What a rule says of one place: what is wrong there, what to do, and the edits
    that do it, if any do.

    Without a span it is about text that the file does not have: the SELECT of a view,
    as a reader of it runs that.
    """

    span: Span | None
    what: str
    fix: str
    edits: tuple[TextEdit, ...] = ()


@dataclass(frozen=True, slots=True)
class LintFinding:
    """What is shown of it, with the rule's code."""

    code: str
    span: Span
    what: str
    fix: str
    edits: tuple[TextEdit, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.span.start.path


def word_span(text: str, place: Place) -> Span:
    """The range of the word, or of the quoted text, that begins at a place of the file
    with this text."""
    line = place.line or 1
    column = place.column or 1
    lines = text.splitlines()
    written = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    start = Place(place.path, line, column)
    return Span(start, Place(place.path, line, column + max(1, _word_length(written))))


def _word_length(written: str) -> int:
    quote = written[:1]
    if quote in ("'", '"', "`"):
        return written.find(quote, 1) + 1
    return next(
        (
            at
            for at, character in enumerate(written)
            if not (character.isalnum() or character == "_")
        ),
        1,
    )
