"""Which times are taken for times: what Spark makes of other numbers and texts is none."""

from __future__ import annotations

from pyspark.sql import Column

COMMON_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999, in microseconds."""

COMMON_DAYS = (-719_162, 2_932_896)
"""The same years, in days since 1970."""


def is_time_alone(text: Column) -> Column:
    """Whether the text of a timestamp is a time without a date, which Spark puts on the day of the reading."""
    return text.rlike(r"^\s*T?[0-9]{1,2}:")
