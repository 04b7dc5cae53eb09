"""How CSV files are written, found out from their records: delimiter, header, the word
for NULL, the marks in numbers. Pure.

A run never guesses a dialect: `lakesql infer` writes what is found here into the
stream's entry.
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
"""Words that mean NULL if all other values of a column have one type."""

LOOKED_AT = 200
"""The number of records of each file from which the dialect is found out."""

CsvRow = list[str]


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How CSV files are written. `names` has the spelling of each column in the
    headers, by its name in lower case."""

    delimiter: str = ","
    has_header: bool = True
    null_value: str = ""
    decimal: str = "."
    thousands: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_dialect(texts: Sequence[str]) -> CsvDialect:
    """The dialect that fits the first records of the files best."""
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
    """A name in double quotes."""
    return f'"{name}"'


def read_rows(
    text: str, dialect: CsvDialect, count: int
) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The first `count` records of a file as rows, and the records with another number
    of values: the index of each, from 1, and how many it has."""
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
    """The column names of a file's values; None for a value that no contract can
    read."""
    if header is None:
        return [f"c{number}" for number in range(1, width + 1)]
    return [dialect.names.get(name.strip().lower()) for name in header]


_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]{1,3})?")
_NUMBER_WORDS = frozenset({"NaN", "Infinity", "-Infinity", "Inf", "-Inf"})


def csv_value(text: str, dialect: CsvDialect) -> Any:
    """A value as JSON would have it. A text that only some readers take for a number
    stays a text: 007, +41, 1e5."""
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
    """The number with a decimal point and without thousands marks. A text that is a
    number only by other marks gets a blank at its end, so that it stays a text."""
    if dialect.decimal == "." and not dialect.thousands:
        return text
    mark, point = re.escape(dialect.thousands), re.escape(dialect.decimal)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|" if mark else ""
    if re.fullmatch(rf"-?(?:{grouped}0|[1-9][0-9]*)(?:{point}[0-9]+)?", text):
        return text.replace(dialect.thousands, "").replace(dialect.decimal, ".")
    return f"{text} " if _WHOLE.fullmatch(text) or _FRACTION.fullmatch(text) else text


_SEPARATOR = re.compile(r"(?i)sep=(.)\r?\n")


def records_of(text: str, delimiter: str) -> Iterator[CsvRow]:
    """The non-blank records of a text, without a first line `sep=…`, up to the first
    one that is no valid CSV."""
    lines = io.StringIO(
        _SEPARATOR.sub("", text, count=1) if _SEPARATOR.match(text) else text,
        newline="",
    )
    try:
        yield from (row for row in csv.reader(lines, delimiter=delimiter) if any(row))
    except csv.Error:
        return


def _consistency(texts: Sequence[str], delimiter: str) -> tuple[float, int]:
    """The share of records with the most common number of values, and that number; (0,
    0) if it is one."""
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
    """Whether a record may hold column names: it is not blank, and no value is a
    number, a time or a boolean."""
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
"""The possible decimal marks, each with a possible mark between thousands."""


def _find_marks(
    files: Sequence[Sequence[CsvRow]], dialect: CsvDialect
) -> tuple[str, str]:
    """The decimal and thousands marks with which most columns are numbers; without need
    a point and none."""
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
    """The word without which most columns get a type other than string; '' if there is
    none."""
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
