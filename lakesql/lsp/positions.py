"""Converts positions in a text between lakesql's and those of the protocol.

lakesql counts lines and characters from 1. The protocol counts them from 0, and
characters in code units of an encoding, mostly UTF-16, in which an emoji has two. Both
end a line at `\\n`, `\\r\\n` and `\\r` alone, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types

from lakesql.errors import Place
from lakesql.lint.finding import Span
from lakesql.template.jinja import SourceText, source_of


@dataclass(frozen=True, slots=True)
class TextPositions:
    """The positions of one text. `source` is the text with `\\n` at the end of each
    line; offsets are those in it.

    `line_end` is how the lines of the file itself end.
    """

    source: SourceText
    encoding: str
    line_end: str = "\n"

    def edit(self, of: types.Range, text: str) -> types.TextEdit:
        """The edit that replaces a range by a text, with the line ends of the file."""
        return types.TextEdit(of, text.replace("\n", self.line_end))

    def position(self, place: Place) -> types.Position:
        """The position of a place; the end of the text for a place after it."""
        line = max(1, place.line or 1)
        if line > len(self.source.starts):
            return self._end()
        written = self.line(line)
        column = max(0, min((place.column or 1) - 1, len(written)))
        return types.Position(line - 1, self._units(written[:column]))

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def range_of(self, start: int, end: int) -> types.Range:
        """The range between two offsets."""
        return types.Range(
            self.position(self.source.place(start)),
            self.position(self.source.place(end)),
        )

    def whole(self) -> types.Range:
        """The range of the whole text."""
        return types.Range(types.Position(0, 0), self._end())

    def offset(self, position: types.Position) -> int:
        """The offset of a position; the end of its line for a position after that."""
        if position.line >= len(self.source.starts):
            return len(self.source.text)
        written = self.line(position.line + 1)
        units = 0
        for at, character in enumerate(written):
            if units >= position.character:
                return self.source.starts[position.line] + at
            units += self._units(character)
        return self.source.starts[position.line] + len(written)

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        start = self.source.starts[number - 1]
        end = (
            self.source.starts[number] - 1
            if number < len(self.source.starts)
            else len(self.source.text)
        )
        return self.source.text[start:end]

    def _end(self) -> types.Position:
        last = len(self.source.starts)
        return types.Position(last - 1, self._units(self.line(last)))

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        if self.encoding == types.PositionEncodingKind.Utf8:
            return len(text.encode("utf-8", "surrogatepass"))
        if self.encoding == types.PositionEncodingKind.Utf32:
            return len(text)
        return len(text.encode("utf-16-le", "surrogatepass")) // 2


def positions_of(path: str, text: str, encoding: str) -> TextPositions:
    """The positions of a file's text."""
    return TextPositions(
        source_of(path, text), encoding, "\r\n" if "\r\n" in text else "\n"
    )
