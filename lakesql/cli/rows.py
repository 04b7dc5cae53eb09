"""Rows as text: as a table for people, or as lines of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from lakesql.json_values import plain
from lakesql.observe.text import printable


def render_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int
) -> str:
    """The rows as a table. If it would be wider than `width` characters, each row is
    written with a line for each column instead."""
    # Only here, as lines of JSON need no rich.
    from lakesql.observe.layout import render_values

    words = [
        not _is_number(row[index] for row in rows) for index in range(len(columns))
    ]
    texts = [[printable(_text(value)) for value in row] for row in rows]
    lines = render_values(tuple(map(printable, columns)), words, texts, width)
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def render_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The rows as lines of JSON, one object each. Decimals are texts, so that no digit
    is lost; bytes that are not UTF-8 are in base64."""
    lines = (
        json.dumps(dict(zip(columns, map(plain, row), strict=True)), ensure_ascii=False)
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ") + (
                "Z" if value.tzinfo else ""
            )
        case Mapping() | list() | tuple():
            return json.dumps(plain(value), ensure_ascii=False)
        case _:
            return str(plain(value))


def _is_number(values: Iterable[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        for value in present
    )
