"""Which times are taken for times: what Spark makes of other numbers and texts is none."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

COMMON_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999, in microseconds."""

COMMON_DAYS = (-719_162, 2_932_896)
"""The same years, in days since 1970."""


def is_time_alone(text: Column) -> Column:
    """Whether the text of a timestamp is a time without a date, which Spark puts on the day of the reading."""
    return text.rlike(r"^\s*T?[0-9]{1,2}:")


def is_whole_number(text: Column) -> Column:
    """Whether the text is a whole number."""
    return text.rlike("^-?[0-9]+$")


def time_of(text: Column, wanted: T.DataType, unit: Column) -> Column:
    """The time of a number, which counts `unit` since 1970, or of a text; NULL where it is none of the common years."""
    value = F.when(is_whole_number(text), _counted(text, unit)).otherwise(text.try_cast("timestamp"))
    micros = F.unix_micros(value)  # named alone: what stands there several times is worked out once
    return F.when(micros.between(*COMMON_TIMES), F.timestamp_micros(micros).cast(wanted))


_TO_MICROS: dict[str, Callable[[Column], Column]] = {
    "seconds": lambda number: F.try_multiply(number, F.lit(1_000_000)),
    "milliseconds": lambda number: F.try_multiply(number, F.lit(1000)),
    "microseconds": lambda number: number,
    "nanoseconds": lambda number: (
        F.call_function("div", number, F.lit(1000)) - F.when(number % 1000 < 0, F.lit(1)).otherwise(F.lit(0))
    ),
}


def _counted(text: Column, unit: Column) -> Column:
    """The time that a number stands for; NULL where nobody says what it counts."""
    number = text.try_cast("bigint")
    micros = F.lit(None).cast("bigint")
    for name, to_micros in _TO_MICROS.items():
        micros = F.when(unit == name, to_micros(number)).otherwise(micros)
    return F.timestamp_micros(micros)
