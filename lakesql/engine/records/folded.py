"""Many conditions joined to one, as a tree whose depth hardly grows with their number.

Spark's rules look at all parts of a chain of conditions at each of its links, so that a
chain of a thousand takes a million steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether each of the conditions holds; true if there are none."""
    return fold(operator.and_, conditions, F.lit(True))


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; false if there are none."""
    return fold(operator.or_, conditions, F.lit(False))


def fold(
    join: Callable[[Column, Column], Column], parts: Iterable[Column], none: Column
) -> Column:
    """The parts joined two by two, in their order; `none` if there are none."""
    left = [*parts]
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [
            *(join(one, other) for one, other in pairs),
            *left[len(left) // 2 * 2 :],
        ]
    return left[0] if left else none
