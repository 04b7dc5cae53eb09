"""How a file of CSV is written, as its own records say it: delimiter, header, the word for NULL. Pure.

No dialect is ever guessed while a model runs: what is found here stands in the stream's entry.
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
    """How files are written. `names` are the spelling of each column in headers, by the name in small letters."""

    delimiter: str = ","
    has_header: bool = True
    null_value: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_dialect(texts: Sequence[str]) -> CsvDialect:
    """What goes best with the first records of the files."""
    delimiter = max(DELIMITERS, key=lambda each: _consistency(texts, each))
    files = [list(islice(records_of(text, delimiter), LOOKED_AT)) for text in texts]
    files = [rows for rows in files if rows]
    has_header = bool(files) and all(_is_header(rows[0]) for rows in files)
    found = CsvDialect(delimiter, has_header)
    if not has_header:
        return replace(found, null_value=_find_null(files), notes=("no header was found: columns are in their order",))
    names: dict[str, str] = {}
    notes = []
    for header, *_ in files:
        spelled = [name.strip() for name in header]
        small = Counter(name.lower() for name in spelled)
        twice = [name for name in spelled if small[name.lower()] > 1]
        notes += [f"a header has the column {json_text(name)} twice, which no contract reads" for name in twice[:1]]
        for name in spelled:
            if small[name.lower()] == 1:
                names.setdefault(name.lower(), name)
    bodies = [rows[1:] for rows in files]
    return replace(found, null_value=_find_null(bodies), names=names, notes=tuple(dict.fromkeys(notes)))


def json_text(name: str) -> str:
    """A name in quotes."""
    return f'"{name}"'


def read_rows(text: str, dialect: CsvDialect, count: int) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The first records of a file as rows, and those of another number of values: which they are, and how many they
    have."""
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
        rows.append({name: csv_value(value, dialect) for name, value in named if name is not None})
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
    """A value as JSON would have it. What a reader would take for another number is a text: 007, +41, 1e5."""
    if text in ("", dialect.null_value):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) < 100 else text
    if _FRACTION.fullmatch(text):
        return Digits(text)
    return float(text) if text in _NUMBER_WORDS else text


def records_of(text: str, delimiter: str) -> Iterator[CsvRow]:
    """The records of a text that are not blank."""
    try:
        yield from (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row))
    except csv.Error:
        return


def _consistency(texts: Sequence[str], delimiter: str) -> tuple[float, int]:
    """How many records have the commonest number of values, and that number: one says nothing."""
    lengths = Counter(len(row) for text in texts for row in islice(records_of(text, delimiter), LOOKED_AT))
    if not lengths:
        return 0.0, 0
    (length, times), *_ = lengths.most_common(1)
    return (times / lengths.total(), length) if length > 1 else (0.0, 0)


def _is_header(row: CsvRow) -> bool:
    """Whether a record may name columns: each value is another word, and none a number, a time or true."""
    if len({value.strip().lower() for value in row if value.strip()}) < 1:
        return False
    values = [csv_value(value.strip(), CsvDialect()) for value in row]
    return all(value is None or _is_word(value) for value in values)


def _is_word(value: Any) -> bool:
    seen = SeenValues()
    seen.add(value)
    return seen.is_of("text")


def _find_null(files: Sequence[Sequence[CsvRow]]) -> str:
    """The word by which most columns have a type that have none with it; '' where none does."""
    columns: dict[int, list[str]] = {}
    for rows in files:
        for row in rows:
            for place, value in enumerate(row):
                columns.setdefault(place, []).append(value)
    gains = {word: sum(_is_typed_without(word, values) for values in columns.values()) for word in NULL_WORDS}
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
