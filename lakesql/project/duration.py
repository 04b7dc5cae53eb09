"""How intervals are read: `30 seconds`, `10 minutes`, `1 hour 30 minutes`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesql.decode import Node
from lakesql.errors import ProjectError

_UNITS_MS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_PART = re.compile(r"\s*(\d+)\s*(" + "|".join(_UNITS_MS) + r")s?\b", re.IGNORECASE)

MAX_TEXT = 200
MAX_MS = 100 * 366 * _UNITS_MS["day"]
"""The longest interval: a hundred years, well below the limits of Spark's numbers."""


@dataclass(frozen=True, slots=True)
class Duration:
    """An interval: the text that Spark reads, and its length in milliseconds."""

    text: str
    length_ms: int


def interval_text(length_ms: int) -> str:
    """A length in milliseconds as a text, in the largest unit in which it is a whole
    number: 5400000 is `90 minutes`."""
    unit = next(
        unit for unit in reversed(_UNITS_MS) if length_ms % _UNITS_MS[unit] == 0
    )
    number = length_ms // _UNITS_MS[unit]
    return f"{number} {unit}{'' if number == 1 else 's'}"


def parse_duration(node: Node) -> Duration:
    """The interval in `node`. Raises `ProjectError` (`bad-interval`), also for months
    and years, which have no fixed length."""
    text = (
        node.value
        if isinstance(node.value, str) and len(node.value) <= MAX_TEXT
        else ""
    )
    parts = [(int(number), unit.lower()) for number, unit in _PART.findall(text)]
    length_ms = sum(number * _UNITS_MS[unit] for number, unit in parts)
    if not parts or _PART.sub("", text).strip() or length_ms > MAX_MS:
        raise ProjectError.of(
            "bad-interval", f"{node.shown} is not an interval.", place=node.place
        )
    return Duration(
        " ".join(
            f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts
        ),
        length_ms,
    )
