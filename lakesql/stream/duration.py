"""An interval as people write it: `30 seconds`, `10 minutes`, `1 hour 30 minutes`."""

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


@dataclass(frozen=True, slots=True)
class Duration:
    """An interval: the text that Spark reads, and its length in milliseconds."""

    text: str
    length_ms: int


def parse_duration(node: Node) -> Duration:
    """The interval in `node`. Raises `ProjectError` (`bad-interval`); months and years have no fixed length."""
    text = node.value if isinstance(node.value, str) else ""
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise ProjectError.of(
            "bad-interval",
            f"'{node.plain()}' is not an interval.",
            fix="Write a number and a unit, such as '30 seconds' or '10 minutes'.",
            place=node.place,
        )
    length_ms = sum(int(number) * _UNITS_MS[unit.lower()] for number, unit in parts)
    return Duration(" ".join(text.split()), length_ms)
