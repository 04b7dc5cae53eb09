"""Rows as text: a table for people, a line of JSON each for programs."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from lakesql.observe.text import printable

Row = Sequence[Any]

LONGEST_CELL = 60
NARROWEST_CELL = 20
MOST_LINES = 8
"""Bounds of what is shown of a value: characters in a table; characters of a line and lines where it is folded."""


def render_rows(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """The rows as a table, or where that is wider than `width` characters turned: a line for each column of a row."""
    table = render_table(columns, rows)
    is_wide = max(map(_width, table.split("\n"))) > width
    return _render_turned(columns, rows, width) if is_wide and rows else table


def render_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The rows under their columns' names; numbers to the right, long values shortened."""
    if not columns:
        return ""
    cells = [[_shorten(printable(name)) for name in columns]]
    cells += [[_shorten(printable(_text(value))) for value in row] for row in rows]
    widths = [max(_width(line[index]) for line in cells) for index in range(len(columns))]
    right = [_is_number(row[index] for row in rows) for index in range(len(columns))]
    lines = [" | ".join(_pad(*cell) for cell in zip(line, widths, right, strict=True)).rstrip() for line in cells]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "".join(f"{line}\n" for line in lines)


def _render_turned(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """Each row under its number, each of its values beside the column's name, folded where it is long."""
    names = [_shorten(printable(name)) for name in columns]
    widest = max(map(_width, names))
    lines: list[str] = []
    for number, row in enumerate(rows, start=1):
        lines.append(f"-- {number} ".ljust(width, "-"))
        for name, value in zip(names, row, strict=True):
            first, *others = _fold(printable(_text(value)), max(width - widest - 3, NARROWEST_CELL))
            lines.append(f"{_pad(name, widest, False)} | {first}".rstrip())
            lines += (f"{' ' * widest} | {other}" for other in others)
    return "".join(f"{line}\n" for line in lines)


def _fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width`; what goes beyond `MOST_LINES` of them is left out."""
    lines, line, filled = [], "", 0
    for character in text:
        size = _width(character)
        if filled + size > width:
            lines.append(line)
            line, filled = "", 0
        line, filled = line + character, filled + size
    lines.append(line)
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]


def render_json(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """An object a line. Decimals are texts, so that no digit is lost; bytes that are not UTF-8 are in base64."""
    lines = (json.dumps(dict(zip(columns, map(_plain, row), strict=True)), ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return str(value)


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ") + ("Z" if value.tzinfo else "")
        case Mapping() | list() | tuple():
            return json.dumps(_plain(value), ensure_ascii=False)
        case _:
            return str(_plain(value))


def _is_number(values: Iterable[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in present
    )


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _pad(text: str, width: int, right: bool) -> str:
    gap = " " * (width - _width(text))
    return gap + text if right else text + gap


def _width(text: str) -> int:
    """The columns of a terminal that `text` fills."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
