"""How numbers over time are drawn as one line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = ".:-=+*#@"

Sample = tuple[int, float]
"""A time in milliseconds, and a value."""


def sparkline(values: Sequence[float | None], bars: str = BARS) -> str:
    """A line with a character for each value: from the lowest bar for 0 to the highest
    for the greatest value; a blank for None."""
    most = max((value for value in values if value is not None), default=0) or 1
    return "".join(
        " " if value is None else bars[_level(value / most, len(bars))]
        for value in values
    )


def in_buckets(
    samples: Iterable[Sample],
    start_ms: int,
    end_ms: int,
    buckets: int,
    fold: Callable[[list[float]], float],
) -> list[float | None]:
    """For each of `buckets` equal parts of the time from `start_ms` to `end_ms`, the
    result of `fold` for its samples; None for a part without samples.

    Samples outside of the time are ignored.
    """
    found: list[list[float]] = [[] for _ in range(buckets)]
    for at_ms, value in samples:
        if start_ms <= at_ms <= end_ms:
            found[
                min((at_ms - start_ms) * buckets // (end_ms - start_ms), buckets - 1)
            ].append(value)
    return [fold(values) if values else None for values in found]


def _level(share: float, levels: int) -> int:
    return max(0, min(levels - 1, int(share * levels)))
