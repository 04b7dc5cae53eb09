"""The value that a rule returns: a code, a range in a file, what is wrong, how to fix
it, and the edits that do so."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.errors import Place


@dataclass(frozen=True, slots=True)
class Span:
    """A range in a file, from its start up to its end, which is excluded.

    Both places have a line and a column. Columns are counted in characters, from 1, as
    in `Place`.
    """

    start: Place
    end: Place

    @property
    def line(self) -> int:
        """The line in which the range begins."""
        return self.start.line or 1

    @property
    def width(self) -> int:
        """The number of characters on its line; 1 if the range extends over several
        lines."""
        if self.start.line != self.end.line:
            return 1
        return max(1, (self.end.column or 1) - (self.start.column or 1))


@dataclass(frozen=True, slots=True)
class TextEdit:
    """An edit: the text that replaces a range."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """One match of a rule: what is wrong, how to fix it, and the edits that do so, if
    there are any.

    `span` is None for SQL that is in no place of the model's file: the SELECT of a view
    that the model reads.
    """

    span: Span | None
    what: str
    fix: str
    edits: tuple[TextEdit, ...] = ()


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A match as it is shown, with the rule's code. It always has a place."""

    code: str
    span: Span
    what: str
    fix: str
    edits: tuple[TextEdit, ...] = ()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.span.start.path


def word_span(text: str, place: Place) -> Span:
    """The range of the word, or of the quoted text, that begins at a place of the file.
    `text` is the text of the file."""
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
        len(written),
    )
