"""How counts are written in a sentence."""

from __future__ import annotations


def count(times: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 row`, `1,204 rows`. `many` is the plural if it is not
    `one` with an s."""
    return f"{number(times)} {one if times == 1 else many or one + 's'}"


def number(value: int) -> str:
    """A number with separators: `336,776`."""
    return f"{value:,}"
