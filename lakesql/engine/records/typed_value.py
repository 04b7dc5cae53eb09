"""How values that have types by their schema are converted to the contract's types, and
which of them do not fit."""

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
    """A struct of `columns`, each converted to its type from the parsed struct `body`,
    and of `corrupt`: what is wrong, or NULL.

    `wrong` is a CASE of the faults of the record itself. `kind` is the type of `body`,
    if it is known: a value that has the wanted type is then not converted.
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
    """Whether values of the first type may fit the second: Spark refuses other casts
    before it runs."""
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
    """Whether the type is a date or timestamp, or has some nested within, whose years
    have to be checked."""
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
    """The value converted to the wanted type; NULL if it does not fit. Fields are found
    by name."""
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
    """Whether `_convert` loses nothing of the value."""
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
    """Whether a cast value is the whole of the original one; may be NULL, which means
    no.

    A cast drops fractions, and the time of a date. It takes a number for seconds, so
    that milliseconds come to lie beyond the year 9999. It puts a text that is only a
    time on the current day, ignores what follows a date, accepts a number in the
    notation of Java's source code, and makes a large double infinite.
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
"""The type in which two decimals are compared; decimals too large for it are not
compared."""
