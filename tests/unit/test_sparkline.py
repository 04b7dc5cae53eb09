from __future__ import annotations

from collections.abc import Sequence

from lakesql.observe.sparkline import ASCII_BARS, BARS, in_buckets, sparkline
from tests.cases import each_of


@each_of(
    ("values", "line"),
    [
        ([], ""),
        ([None, None], "  "),
        ([0, 0], "▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇██"),
        ([5, None, 5], "█ █"),
        ([1, 1_000_000], "▁█"),
    ],
)
def test_each_value_has_a_bar_and_no_value_has_none(
    values: Sequence[float | None], line: str
) -> None:
    assert sparkline(values) == line


def test_other_bars_stand_at_the_same_places() -> None:
    values = [0, 1, 3, None, 8]
    assert sparkline(values, ASCII_BARS) == "".join(
        ASCII_BARS[BARS.index(bar)] if bar in BARS else bar for bar in sparkline(values)
    )


def test_samples_are_folded_by_equal_parts_of_the_time() -> None:
    samples = [
        (99, 1000.0),
        (100, 1.0),
        (149, 2.0),
        (150, 4.0),
        (200, 8.0),
        (201, 1000.0),
    ]
    assert in_buckets(samples, 100, 200, 2, sum) == [3.0, 12.0]
    assert in_buckets(samples, 100, 200, 4, max) == [1.0, 2.0, 4.0, 8.0]
    assert in_buckets([], 100, 200, 2, sum) == [None, None]
