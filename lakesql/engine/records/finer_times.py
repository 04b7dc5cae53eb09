"""How timestamps that Spark read as numbers of nanoseconds become timestamps in
microseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.names import CORRUPT

Change = Callable[[Column, T.DataType], Column]
"""A conversion of a number of nanoseconds, given the type that the contract has for
it."""


def in_microseconds(
    rows: DataFrame, read: T.StructType, wanted: T.StructType
) -> DataFrame:
    """The rows, read with the types `read`, converted to those of `wanted`; digits
    below a microsecond are truncated."""
    return rows.withColumns(_columns(read, wanted, _time_of))


def with_finer(rows: DataFrame, read: T.StructType, wanted: T.StructType) -> DataFrame:
    """The rows as read, with `_lakesql_corrupt`: the row as JSON if a timestamp has
    digits below a microsecond, else NULL."""
    texts = _columns(read, wanted, _text_of)
    row = (texts.get(name, F.col(identifier(name))).alias(name) for name in read.names)
    return rows.withColumn(
        CORRUPT, F.when(is_finer(read, wanted), F.to_json(F.struct(*row)))
    )


def is_finer(read: T.StructType, wanted: T.StructType) -> Column:
    """Whether a timestamp of a row has digits below a microsecond."""
    fields = (
        (F.col(identifier(name)), read[name].dataType, wanted[name].dataType)
        for name in read.names
    )
    return reduce(or_, (_any_finer(*field) for field in fields))


def _columns(
    read: T.StructType, wanted: T.StructType, change: Change
) -> dict[str, Column]:
    """The converted columns, by name: those whose types are not the wanted ones, with
    `change` applied to each of their timestamps."""
    return {
        name: _changed(
            F.col(identifier(name)), read[name].dataType, wanted[name].dataType, change
        )
        for name in read.names
        if read[name].dataType != wanted[name].dataType
    }


def _changed(
    value: Column, read: T.DataType, wanted: T.DataType, change: Change
) -> Column:
    """The value with `change` applied to each timestamp in it that was read as a
    number."""
    if read == wanted:
        return value
    match read, wanted:
        case T.StructType(), T.StructType():
            fields = [
                _changed(
                    value.getField(name),
                    read[name].dataType,
                    wanted[name].dataType,
                    change,
                ).alias(name)
                for name in read.names
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.ArrayType(), T.ArrayType():
            return F.transform(
                value,
                lambda each: _changed(
                    each, read.elementType, wanted.elementType, change
                ),
            )
        case T.MapType(), T.MapType():
            keys = F.transform_keys(
                value,
                lambda key, _: _changed(key, read.keyType, wanted.keyType, change),
            )
            return F.transform_values(
                keys,
                lambda _, each: _changed(
                    each, read.valueType, wanted.valueType, change
                ),
            )
        case _:
            return change(value, wanted)


def _any_finer(value: Column, read: T.DataType, wanted: T.DataType) -> Column:
    """Whether a timestamp in a value has digits below a microsecond."""
    if read == wanted:
        return F.lit(False)
    match read, wanted:
        case T.StructType(), T.StructType():
            fields = (
                (value.getField(name), read[name].dataType, wanted[name].dataType)
                for name in read.names
            )
            return reduce(or_, (_any_finer(*field) for field in fields))
        case T.ArrayType(), T.ArrayType():
            found = F.exists(
                value,
                lambda each: _any_finer(each, read.elementType, wanted.elementType),
            )
        case T.MapType(), T.MapType():
            keys, values = F.map_keys(value), F.map_values(value)
            in_keys = F.exists(
                keys, lambda each: _any_finer(each, read.keyType, wanted.keyType)
            )
            found = in_keys | F.exists(
                values, lambda each: _any_finer(each, read.valueType, wanted.valueType)
            )
        case _:
            found = value % 1000 != 0
    return F.coalesce(found, F.lit(False))


def _time_of(nanoseconds: Column, wanted: T.DataType) -> Column:
    return F.timestamp_micros(_whole(nanoseconds, 1_000)).cast(wanted)


def _text_of(nanoseconds: Column, wanted: T.DataType) -> Column:
    """The text of a time in nanoseconds, such as `2026-03-01T10:00:00.123456789Z`;
    without the `Z` if it has no zone."""
    second = F.date_format(
        F.timestamp_seconds(_whole(nanoseconds, 1_000_000_000)), "yyyy-MM-dd'T'HH:mm:ss"
    )
    digits = F.lpad(F.pmod(nanoseconds, F.lit(1_000_000_000)).cast("string"), 9, "0")
    return F.concat(
        second,
        F.lit("."),
        digits,
        F.lit("Z" if isinstance(wanted, T.TimestampType) else ""),
    )


def _whole(nanoseconds: Column, unit: int) -> Column:
    """The number of whole units of this many nanoseconds, rounded down."""
    return F.call_function(
        "div", nanoseconds - F.pmod(nanoseconds, F.lit(unit)), F.lit(unit)
    )
