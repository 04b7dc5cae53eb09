"""Converts the texts of a seed to values of Spark's types, to the same values as
Spark's CSV reader does for a stream.

Further forms that Spark accepts, such as `1d` for a double and `2026` for a date, are
refused, as they are mostly mistakes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from functools import partial
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakesql.errors import ProfileError
from lakesql.stream.types import SparkType, parse_type

Value: TypeAlias = "str | bool | int | float | Decimal | date | datetime"
"""A datetime for a `timestamp` is in UTC; for a `timestamp_ntz` it has no zone."""

ReadValue = Callable[[str], Value]


class NoValueError(Exception):
    """A text that is no value of its column's type. Its message says why."""


def reader_of(kind: SparkType, zone: tzinfo) -> ReadValue | None:
    """The function that converts a text, which is not empty, to a value of the type;
    None if a seed cannot have columns of that type.

    A timestamp without a zone is read as a time of `zone`. The function raises
    `NoValueError` for a text that is no value of the type.
    """
    match kind.name:
        case "string":
            return str
        case "boolean":
            return _read_boolean
        case name if name in _WHOLE_BITS:
            return partial(_read_whole, bits=_WHOLE_BITS[name])
        case "float":
            return partial(_read_double, layout="f")
        case "double":
            return partial(_read_double, layout="d")
        case "decimal":
            precision, scale = (
                (*map(int, kind.parameters), 0)[:2] if kind.parameters else (10, 0)
            )
            return partial(_read_decimal, precision=precision, scale=scale)
        case "date":
            return _read_date
        case "timestamp":
            return partial(_read_timestamp, zone=zone)
        case "timestamp_ntz":
            return _read_local_time
        case _:
            return None


def holds_values_of(kind: str) -> bool:
    """Whether a seed may have columns of this Spark type."""
    parsed = parse_type(kind)
    return parsed is not None and reader_of(parsed, UTC) is not None


def find_zone(name: str) -> tzinfo:
    """The time zone that Spark calls by this name: a region, or an offset such as
    `+02:00`. Raises `ProfileError` for an unknown name."""
    try:
        if offset := _OFFSET.fullmatch(name):
            return _fixed(offset["sign"], offset["hours"], offset["minutes"])
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (NoValueError, ZoneInfoNotFoundError, ValueError, OSError):
        what = f"'{name}' is a time zone of spark.sql.session.timeZone in which lakesql cannot read a seed's timestamps."
        raise ProfileError.of(
            "wrong-value", what, fix="Name a region, such as Europe/Berlin, or UTC."
        ) from None


_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2})")


def _fixed(sign: str, hours: str, minutes: str) -> tzinfo:
    if int(minutes) > 59:
        raise NoValueError("no offset has more than 59 minutes")
    ahead = timedelta(hours=int(hours), minutes=int(minutes))
    if ahead > timedelta(hours=18):
        raise NoValueError("no offset has more than 18 hours")
    return timezone(ahead if sign == "+" else -ahead)


def _read_boolean(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.lower())
    if found is None:
        raise NoValueError("a boolean is `true` or `false`")
    return found


_WHOLE_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")


def _read_whole(text: str, bits: int) -> int:
    if not _WHOLE.fullmatch(text) or len(text) > 100:
        raise NoValueError("a whole number has digits alone")
    number = int(text)
    most = 1 << (bits - 1)
    if not -most <= number < most:
        raise NoValueError(
            f"the numbers of this type are those from {-most} to {most - 1}"
        )
    return number


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "Inf"), float("inf")),
    **dict.fromkeys(("-Infinity", "-Inf"), float("-inf")),
}


def _read_double(text: str, layout: str) -> float:
    if text in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[text]
    if not _NUMBER.fullmatch(text):
        raise NoValueError("a number has a point between its digits, and no other sign")
    try:
        (number,) = struct.unpack(layout, struct.pack(layout, float(text)))
    except OverflowError:
        number = float("inf")
    if number in (float("inf"), float("-inf")):
        raise NoValueError("the number is too large for this type")
    return float(number)


def _read_decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _NUMBER.fullmatch(text) or len(text) > 100:
        raise NoValueError(
            "a decimal has a point between its digits, and no other sign"
        )
    with localcontext() as context:
        context.prec = 200
        number = Decimal(text)
        if number and number.adjusted() >= precision - scale:
            raise NoValueError(
                f"it has more than {precision - scale} digits before the point"
            )
        if number.adjusted() < -200 or number != round(number, scale):
            raise NoValueError(f"it has more than {scale} digits behind the point")
        return round(number, scale)


_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")


def _read_date(text: str) -> date:
    found = _DATE.fullmatch(text)
    if found is None:
        raise NoValueError("a date is written as 2026-03-01")
    try:
        return date(*map(int, found.groups()))
    except ValueError as error:
        raise NoValueError(str(error)) from None


_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))?)?"
)


def _read_timestamp(text: str, zone: tzinfo) -> datetime:
    local, own = _split_time(text)
    try:
        return local.replace(tzinfo=own or zone).astimezone(UTC)
    except OverflowError:
        raise NoValueError("the time is beyond the years 1 to 9999") from None


def _read_local_time(text: str) -> datetime:
    local, zone = _split_time(text)
    if zone is not None:
        raise NoValueError("a timestamp_ntz has no time zone")
    return local


def _split_time(text: str) -> tuple[datetime, tzinfo | None]:
    """The date and time of a text, and the zone that it names; None if it names
    none."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise NoValueError(
            "a timestamp is written as 2026-03-01 12:00:00, with Z or +02:00 for its zone, or without"
        )
    fraction = found["fraction"] or ""
    if len(fraction) > 6:
        raise NoValueError("a timestamp has six digits of a second at most")
    zone: tzinfo | None = None
    if found["zone"]:
        zone = (
            UTC
            if found["zone"] == "Z"
            else _fixed(found["sign"], found["hours"], found["minutes"])
        )
    day = _read_date(found["date"])
    hour, minute, second = (
        int(found[part] or 0) for part in ("hour", "minute", "second")
    )
    try:
        return datetime(
            day.year,
            day.month,
            day.day,
            hour,
            minute,
            second,
            int(fraction.ljust(6, "0")),
        ), zone
    except ValueError as error:
        raise NoValueError(str(error)) from None
