"""Reads the records of a CSV file by RFC 4180, each with the number of its first
line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesql.errors import Place, ProjectError

LONGEST_VALUE = 2**31 - 1
"""The maximum length of a value in Python's CSV reader, whose default is lower than
what a file may have."""


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """A record: its values, the number of its first line, and its lines as they are in
    the file."""

    values: list[str]
    line: int
    lines: list[str]

    def place_of(self, value: int, path: str, delimiter: str) -> Place:
        """The place where the value with this index begins; the end of the record if it
        has no such value."""
        line, column, number, is_quoted = self.line, 1, 0, False
        for character in "".join(self.lines).rstrip("\r\n"):
            if number == value:
                break
            if character == '"':
                is_quoted = not is_quoted
            number += character == delimiter and not is_quoted
            column += 1
            if character == "\n":
                line, column = line + 1, 1
        return Place(path, line, column)


def read_records(text: str, delimiter: str, path: str) -> Iterator[CsvRecord]:
    """The records of a text in their order, the header first, without blank lines.

    A value with a delimiter, a quote or a line break is in double quotes, in which a
    quote is doubled. Raises `ProjectError` (`seed-syntax`) at a record with wrong
    quotes.
    """
    csv.field_size_limit(LONGEST_VALUE)
    lines = _Lines(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        begins, lines.current = lines.number + 1, []
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            is_open = "end of data" in str(error)
            what = (
                "A quote is never closed."
                if is_open
                else f"This record is no CSV: {error}."
            )
            raise ProjectError.of(
                "seed-syntax", what, place=Place(path, begins)
            ) from None
        if not _is_blank(lines.current):
            yield CsvRecord(values, begins, lines.current)


class _Lines:
    """An iterator over the lines of a file that keeps those of the current record."""

    def __init__(self, file: io.StringIO) -> None:
        self._file = file
        self.number = 0
        self.current: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._file)
        self.number += 1
        self.current.append(line)
        return line


def _is_blank(lines: Sequence[str]) -> bool:
    """Whether the lines of a record have only blanks. A quoted empty value is not
    blank."""
    return not "".join(lines).strip(" \t\r\n")
