"""How a file of CSV is written, as its own records say it: delimiter, header, the word
for NULL. Pure.

No dialect is ever guessed while a model runs: what is found here stands in the stream's
entry.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from lakesql.stream.recording import Digits
from lakesql.stream.seen_values import STRING, SeenValues, find_type

DELIMITERS = (",", ";", "\t", "|")
NULL_WORDS = ("NULL", "null", "\\N", "NA", "N/A", "n/a", "None", "-")
"""Words that stand for NULL, if all other values of a column are of one type."""

LOOKED_AT = 200
"""How many records of each file say how it is written."""

CsvRow = list[str]


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How files are written. `names` are the spelling of each column in headers, by the
    name in small letters."""

    delimiter: str = ","
    has_header: bool = True
    null_value: str = ""
    decimal: str = "."
    thousands: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_dialect(texts: Sequence[str]) -> CsvDialect:
    """What goes best with the first records of the files."""
    named = [line[1] for text in texts if (line := _SEPARATOR.match(text))]
    delimiter = (
        named[0]
        if named
        else max(DELIMITERS, key=lambda each: _consistency(texts, each))
    )
    files = [list(islice(records_of(text, delimiter), LOOKED_AT)) for text in texts]
    files = [rows for rows in files if rows]
    has_header = bool(files) and all(_is_header(rows[0]) for rows in files)
    bodies = [rows[1:] for rows in files] if has_header else files
    found = CsvDialect(delimiter, has_header, _find_null(bodies))
    decimal, thousands = _find_marks(bodies, found)
    found = replace(found, decimal=decimal, thousands=thousands)
    if not has_header:
        return replace(
            found, notes=("no header was found: columns are in their order",)
        )
    names: dict[str, str] = {}
    notes = []
    for header, *_ in files:
        spelled = [name.strip() for name in header]
        small = Counter(name.lower() for name in spelled)
        twice = [name for name in spelled if small[name.lower()] > 1]
        notes += [
            f"a header has the column {json_text(name)} twice, which no contract reads"
            for name in twice[:1]
        ]
        for name in spelled:
            if small[name.lower()] == 1:
                names.setdefault(name.lower(), name)
    return replace(found, names=names, notes=tuple(dict.fromkeys(notes)))


def json_text(name: str) -> str:
    """A name in quotes."""
    return f'"{name}"'


def read_rows(
    text: str, dialect: CsvDialect, count: int
) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The first records of a file as rows, and those of another number of values: which
    they are, and how many they have."""
    records = records_of(text, dialect.delimiter)
    header = next(records, []) if dialect.has_header else None
    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, int]] = []
    width = len(header) if header is not None else 0
    for at, values in enumerate(islice(records, count), 1):
        width = width or len(values)
        if len(values) != width:
            bad.append((at, len(values)))
            continue
        named = zip(_names(header, width, dialect), values, strict=True)
        rows.append(
            {
                name: csv_value(value, dialect)
                for name, value in named
                if name is not None
            }
        )
    return rows, bad


def _names(header: CsvRow | None, width: int, dialect: CsvDialect) -> list[str | None]:
    """What the values of a file are called; None for one that no contract reads."""
    if header is None:
        return [f"c{number}" for number in range(1, width + 1)]
    return [dialect.names.get(name.strip().lower()) for name in header]


_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]{1,3})?")
_NUMBER_WORDS = frozenset({"NaN", "Infinity", "-Infinity", "Inf", "-Inf"})


def csv_value(text: str, dialect: CsvDialect) -> Any:
    """A value as JSON would have it. What a reader would take for another number is a
    text: 007, +41, 1e5."""
    if text in ("", dialect.null_value):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    text = _with_point(text, dialect)
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) < 100 else text
    if _FRACTION.fullmatch(text):
        return Digits(text)
    return float(text) if text in _NUMBER_WORDS else text


def _with_point(text: str, dialect: CsvDialect) -> str:
    """A number with the marks of the dialect as one with a point; what is none by these
    marks is none by others."""
    if dialect.decimal == "." and not dialect.thousands:
        return text
    mark, point = re.escape(dialect.thousands), re.escape(dialect.decimal)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|" if mark else ""
    if re.fullmatch(rf"-?(?:{grouped}0|[1-9][0-9]*)(?:{point}[0-9]+)?", text):
        return text.replace(dialect.thousands, "").replace(dialect.decimal, ".")
    return f"{text} " if _WHOLE.fullmatch(text) or _FRACTION.fullmatch(text) else text


_SEPARATOR = re.compile(r"(?i)sep=(.)\r?\n")


def records_of(text: str, delimiter: str) -> Iterator[CsvRow]:
    """The records of a text that are not blank, without a first line that names the
    delimiter."""
    lines = io.StringIO(
        _SEPARATOR.sub("", text, count=1) if _SEPARATOR.match(text) else text,
        newline="",
    )
    try:
        yield from (row for row in csv.reader(lines, delimiter=delimiter) if any(row))
    except csv.Error:
        return


def _consistency(texts: Sequence[str], delimiter: str) -> tuple[float, int]:
    """How many records have the commonest number of values, and that number: one says
    nothing."""
    lengths = Counter(
        len(row)
        for text in texts
        for row in islice(records_of(text, delimiter), LOOKED_AT)
    )
    if not lengths:
        return 0.0, 0
    (length, times), *_ = lengths.most_common(1)
    return (times / lengths.total(), length) if length > 1 else (0.0, 0)


def _is_header(row: CsvRow) -> bool:
    """Whether a record may name columns: each value is another word, and none a number,
    a time or true."""
    if len({value.strip().lower() for value in row if value.strip()}) < 1:
        return False
    values = [csv_value(value.strip(), CsvDialect()) for value in row]
    return all(value is None or _is_word(value) for value in values)


def _is_word(value: Any) -> bool:
    seen = SeenValues()
    seen.add(value)
    return seen.is_of("text")


_MARKS = (
    (",", "."),
    (",", "\u202f"),
    (",", "\u00a0"),
    (",", " "),
    (".", "\u2019"),
    (".", "'"),
    (".", ","),
    (",", ""),
)
"""What may stand before a fraction, and between thousands."""


def _find_marks(
    files: Sequence[Sequence[CsvRow]], dialect: CsvDialect
) -> tuple[str, str]:
    """The marks by which most columns are numbers that are none with a point alone."""
    columns = _columns_of(files)
    numbers = {
        marks: sum(_are_numbers(values, dialect, marks) for values in columns)
        for marks in ((".", ""), *_MARKS)
    }
    best = max(numbers, key=lambda marks: numbers[marks])
    if best[1] and numbers[best] == numbers[best[0], ""]:
        return best[0], ""  # no number has the mark between its thousands
    return best


def _are_numbers(
    values: Sequence[str], dialect: CsvDialect, marks: tuple[str, str]
) -> bool:
    marked = replace(dialect, decimal=marks[0], thousands=marks[1])
    seen = SeenValues()
    for value in values:
        seen.add(csv_value(value, marked))
    return seen.is_number


def _columns_of(files: Sequence[Sequence[CsvRow]]) -> list[list[str]]:
    columns: dict[int, list[str]] = {}
    for rows in files:
        for row in rows:
            for place, value in enumerate(row):
                columns.setdefault(place, []).append(value)
    return list(columns.values())


def _find_null(files: Sequence[Sequence[CsvRow]]) -> str:
    """The word by which most columns have a type that have none with it; '' where none
    does."""
    columns = _columns_of(files)
    gains = {
        word: sum(_is_typed_without(word, values) for values in columns)
        for word in NULL_WORDS
    }
    best = max(gains, key=lambda word: gains[word])
    return best if gains[best] else ""


def _is_typed_without(word: str, values: Sequence[str]) -> bool:
    if word not in values:
        return False
    seen = SeenValues()
    for value in values:
        if value != word:
            seen.add(csv_value(value, CsvDialect()))
    return bool(seen.kinds) and find_type(seen) != STRING
