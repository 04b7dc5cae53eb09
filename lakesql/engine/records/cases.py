"""One CASE expression over many conditions."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def first_of(branches: Iterable[tuple[Column, Column]], otherwise: Column) -> Column:
    """The value of the first branch whose condition holds; `otherwise` if none does."""
    found: Column | None = None
    for holds, value in branches:
        found = F.when(holds, value) if found is None else found.when(holds, value)
    return otherwise if found is None else found.otherwise(otherwise)
