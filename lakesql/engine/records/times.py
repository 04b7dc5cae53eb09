"""Which numbers and texts are valid dates and timestamps; what else Spark would make
one of is refused."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

COMMON_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999, in microseconds."""

COMMON_DAYS = (-719_162, 2_932_896)
"""The same years, in days since 1970-01-01."""


def is_common_year(time: Column) -> Column:
    """Whether a timestamp without a time zone lies in the years 1 to 9999."""
    return F.year(time).between(1, 9999)


def is_time_alone(text: Column) -> Column:
    """Whether the text of a timestamp is a time without a date, which Spark puts on the
    current day."""
    return text.rlike(r"^\s*T?[0-9]{1,2}:")


def is_more_than_date(text: Column) -> Column:
    """Whether the text of a date has something after a blank or a `T` that is no time,
    which Spark ignores."""
    return text.rlike(r"[0-9][ T]\s*\S") & text.try_cast("timestamp").isNull()


def is_whole_number(text: Column) -> Column:
    """Whether the text is a whole number."""
    # true for most texts of timestamps, and far cheaper than the pattern
    is_in_zone = F.right(text, F.lit(1)) == "Z"
    return ~is_in_zone & text.rlike("^-?[0-9]+$")


_FOR_EVER = (
    "infinity",
    "9223372036825200000",
    "294247-01-10T04:00:54.775807Z",
    "292278994-08-16T23:00:00Z",
)
_SINCE_EVER = (
    "-infinity",
    "-9223372036832400000",
    "-290308-12-21T19:59:05.224192Z",
    "-292269055-12-02T23:00:00Z",
)
"""How Debezium writes Postgres' infinite timestamps: as texts, as a number of
milliseconds whatever the unit is, and as the last timestamps for which Java has
microseconds and milliseconds."""

_DAYS_FOR_EVER, _DAYS_SINCE_EVER = (
    ("infinity", "2147483647"),
    ("-infinity", "-2147483648"),
)
"""How Debezium writes infinite dates."""


def infinite(text: Column, wanted: T.DataType) -> Column:
    """1 for a date or timestamp that is `infinity`, -1 for `-infinity`, NULL for other
    values and other types."""
    last: tuple[str, ...]
    first: tuple[str, ...]
    match wanted:
        case T.DateType():
            last, first = _DAYS_FOR_EVER, _DAYS_SINCE_EVER
        case T.TimestampType() | T.TimestampNTZType():
            last, first = _FOR_EVER, _SINCE_EVER
        case _:
            return F.lit(None).cast("int")
    word = F.regexp_replace(F.lower(text), "^[+]", "")
    is_last, is_first = (word.isin(*map(str.lower, words)) for words in (last, first))
    return F.when(is_last, 1).when(is_first, -1)


def time_of(text: Column, wanted: T.DataType, unit: Column) -> Column:
    """The timestamp of a number, in `unit` since 1970, or of a text; NULL if it is
    outside the years 1 to 9999, or a time without a date."""
    written = F.when(~is_time_alone(text), text.try_cast("timestamp"))
    value = F.when(is_whole_number(text), _counted(text, unit)).otherwise(written)
    # bound to a name, as an expression that occurs several times is evaluated once
    micros = F.unix_micros(value)
    return F.when(
        micros.between(*COMMON_TIMES), F.timestamp_micros(micros).cast(wanted)
    )


_TO_MICROS: dict[str, Callable[[Column], Column]] = {
    "seconds": lambda number: F.try_multiply(number, F.lit(1_000_000)),
    "milliseconds": lambda number: F.try_multiply(number, F.lit(1000)),
    "microseconds": lambda number: number,
    "nanoseconds": lambda number: (
        F.call_function("div", number, F.lit(1000))
        - F.when(number % 1000 < 0, F.lit(1)).otherwise(F.lit(0))
    ),
}


def _counted(text: Column, unit: Column) -> Column:
    """The timestamp of a number in this unit; NULL if the unit is."""
    number = text.try_cast("bigint")
    micros = F.lit(None).cast("bigint")
    for name, to_micros in _TO_MICROS.items():
        micros = F.when(unit == name, to_micros(number)).otherwise(micros)
    return F.timestamp_micros(micros)
