"""The limit on the length of answers, as an assistant reads them entirely."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

MOST_CHARACTERS = 60_000

SHORTEST = 100
"""A text of fewer characters is left out as a whole: a note would be as long."""

SHORTENED = "The answer was too long: parts are left out where it says so. Ask for less, with select or a name."


def bounded(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, shortened to `MOST_CHARACTERS` of JSON if it is longer: its largest
    lists and texts are halved repeatedly, with notes on what is left out."""
    if _size(answer) <= MOST_CHARACTERS:
        return answer
    while _size(answer) > MOST_CHARACTERS:
        answer = _shorten(answer)
    return {**answer, "shortened": SHORTENED}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _shorten(value: Any) -> Any:
    """The value with its largest part halved."""
    match value:
        case str() if len(value) < SHORTEST:
            return None
        case str():
            kept = len(value) // 2
            return f"{value[:kept]}… ({len(value) - kept:,} characters are left out)"
        case dict() if value:
            return _shorten_dict(value)
        case list() if value:
            return _shorten_list(value)
        case _:
            return None


def _shorten_dict(entries: dict[str, Any]) -> dict[str, Any]:
    largest = max(entries, key=lambda key: _size(entries[key]))
    if len(entries) == 1 or _size(entries[largest]) * 2 > _size(entries):
        return {**entries, largest: _shorten(entries[largest])}
    kept = len(entries) // 2
    first = dict(islice(entries.items(), kept))
    return {**first, "…": f"{len(entries) - kept:,} more are left out"}


def _shorten_list(items: list[Any]) -> list[Any]:
    largest = max(range(len(items)), key=lambda at: _size(items[at]))
    if len(items) == 1 or _size(items[largest]) * 2 > _size(items):
        return [*items[:largest], _shorten(items[largest]), *items[largest + 1 :]]
    kept = len(items) // 2
    return [*items[:kept], f"… ({len(items) - kept:,} more are left out)"]
