"""How a number of things is written in a sentence."""

from __future__ import annotations


def count(times: int, one: str, many: str = "") -> str:
    """`1 row`, `1,204 rows`."""
    return f"{number(times)} {one if times == 1 else many or one + 's'}"


def number(value: int) -> str:
    """`336,776`."""
    return f"{value:,}"
