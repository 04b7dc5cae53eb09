"""Values that have types by their schema, and what becomes of them where the contract
has others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.decimals import is_literal_of_java
from lakesql.engine.records.folded import all_of
from lakesql.engine.records.times import (
    COMMON_DAYS,
    COMMON_TIMES,
    is_common_year,
    is_more_than_date,
    is_time_alone,
)
from lakesql.engine.spark.gateway import java_class


def as_columns(
    body: Column,
    wrong: Column,
    columns: Sequence[tuple[str, T.DataType]],
    corrupt: str,
    kind: T.StructType | None = None,
) -> Column:
    """A struct that was read as one of `columns`, each of its type, and `corrupt`: what
    is wrong, or NULL.

    `wrong` is a CASE of what is wrong with the record itself. `kind` is the type of
    what was read, where that is known: a value that has its type is taken as it is.
    """
    types = (
        {} if kind is None else {field.name: field.dataType for field in kind.fields}
    )
    values = []
    for name, wanted in columns:
        if types.get(name) == wanted and not _is_dated(wanted):
            values.append(body[name].alias(name))
            continue
        said = F.lit(f"{name}: not a {wanted.simpleString()}, or out of its range")
        if name in types and not can_convert(types[name], wanted):
            wrong = wrong.when(body[name].isNotNull(), said)
            values.append(F.lit(None).cast(wanted).alias(name))
            continue
        wrong = wrong.when(~_fits(body[name], wanted), said)
        values.append(_convert(body[name], wanted).alias(name))
    return F.struct(*values, wrong.alias(corrupt))


def can_convert(found: T.DataType, wanted: T.DataType) -> bool:
    """Whether values of the one type may be values of the other: Spark refuses a cast
    of others before it is run."""
    match found, wanted:
        case T.StructType(), T.StructType():
            types = {field.name.lower(): field.dataType for field in found.fields}
            return all(
                can_convert(types[field.name.lower()], field.dataType)
                for field in wanted.fields
            )
        case T.ArrayType(), T.ArrayType():
            return can_convert(found.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            return found.keyType == wanted.keyType and can_convert(
                found.valueType, wanted.valueType
            )
        case (T.StructType() | T.ArrayType() | T.MapType(), _) | (
            _,
            T.StructType() | T.ArrayType() | T.MapType(),
        ):
            return False
    java_type = java_class("org.apache.spark.sql.types.DataType").fromJson
    cast = java_class("org.apache.spark.sql.catalyst.expressions.Cast")
    return bool(cast.canTryCast(java_type(found.json()), java_type(wanted.json())))


def _is_dated(kind: T.DataType) -> bool:
    """Whether a value of the type may lie in a year that no table takes."""
    match kind:
        case T.StructType(fields=fields):
            return any(_is_dated(field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return _is_dated(element)
        case T.MapType(valueType=element):
            return _is_dated(element)
        case _:
            return isinstance(kind, T.TimestampType | T.TimestampNTZType | T.DateType)


def _convert(value: Column, wanted: T.DataType) -> Column:
    """The value as the wanted type; NULL where it does not fit. Fields are found by
    their names."""
    match wanted:
        case T.StructType(fields=fields):
            parts = (
                _convert(value[field.name], field.dataType).alias(field.name)
                for field in fields
            )
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(elementType=element):
            return F.transform(value, lambda item: _convert(item, element))
        case T.MapType(valueType=element):
            return F.transform_values(value, lambda _, item: _convert(item, element))
        case _:
            return value.try_cast(wanted)


def _fits(value: Column, wanted: T.DataType) -> Column:
    """Whether nothing of the value is lost by `_convert`."""
    match wanted:
        case T.StructType(fields=fields):
            return value.isNull() | all_of(
                _fits(value[field.name], field.dataType) for field in fields
            )
        case T.ArrayType(elementType=element):
            return value.isNull() | F.forall(value, lambda item: _fits(item, element))
        case T.MapType(valueType=element):
            return value.isNull() | F.forall(
                F.map_values(value), lambda item: _fits(item, element)
            )
        case _:
            return value.isNull() | F.coalesce(
                _is_kept(value, value.try_cast(wanted), wanted), F.lit(False)
            )


def _is_kept(value: Column, cast: Column, wanted: T.DataType) -> Column:
    """Whether what the value was cast to is all of it; NULL where it is not even that.

    A cast cuts off fractions, and the time of a date. It takes a number for seconds:
    milliseconds lie beyond the year 9999 then. It puts a text that is a time alone on
    the day of the reading, passes over what stands behind a date, takes a number as
    Java's source code has it, and makes infinity of a large double.
    """
    kind = F.typeof(value)
    match wanted:
        case T.IntegralType():
            return value.try_cast("double") == cast
        case T.DecimalType():
            return F.coalesce(
                value.try_cast(_DECIMAL) == cast.cast(_DECIMAL), cast.isNotNull()
            )
        case T.FloatType():
            is_finite = (F.abs(cast) != F.lit(math.inf)) | (
                F.abs(value.try_cast("double")) == F.lit(math.inf)
            )
            return is_finite & ~is_literal_of_java(value.try_cast("string"))
        case T.DoubleType():
            return cast.isNotNull() & ~is_literal_of_java(value.try_cast("string"))
        case T.TimestampType():
            is_alone = (kind == "string") & is_time_alone(value.try_cast("string"))
            return F.unix_micros(cast).between(*COMMON_TIMES) & ~is_alone
        case T.TimestampNTZType():
            return is_common_year(cast)
        case T.DateType():
            has_time = kind.startswith("timestamp") & (
                value.try_cast("timestamp") != cast.cast("timestamp")
            )
            has_more = (kind == "string") & is_more_than_date(value.try_cast("string"))
            return (
                F.unix_date(cast).between(*COMMON_DAYS)
                & ~F.coalesce(has_time, F.lit(False))
                & ~has_more
            )
        case _:
            return cast.isNotNull()


_DECIMAL = "decimal(38,18)"
"""In which two decimals are compared; one that is too large for it is not."""
