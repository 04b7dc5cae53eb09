"""Avro without a registry: values that are one record each, in a schema that the project holds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from lakesql.engine.records.folded import all_of
from lakesql.engine.records.times import COMMON_DAYS, COMMON_TIMES, is_time_alone

MISFIT = "not a record of the Avro schema"

_TAIL = b"lakesql."


def avro_row(value: Column, columns: Sequence[tuple[str, T.DataType]], schema: str, corrupt: str) -> Column:
    """A binary value as a struct of `columns`, each of its type, and `corrupt`: what is wrong, or NULL.

    `schema` is the writer's, as JSON; what it calls by a column's name becomes the column. Avro's reader says nothing
    of bytes that are left over, which are a sign of another schema. So eight known bytes are put behind the value, and
    read as a second field: they are found where the record is whole, and ends there.
    """
    read = from_avro(F.concat(value, F.lit(_TAIL)), _with_tail(schema), {"mode": "PERMISSIVE"})

    def row(found: Column) -> Column:
        body = found["body"]
        is_whole = F.coalesce(found["tail"] == F.lit(_TAIL), F.lit(False))
        wrong = F.when(~is_whole, F.lit(MISFIT))
        for name, wanted in columns:
            said = F.lit(f"{name}: not a {wanted.simpleString()}, or out of its range")
            wrong = wrong.when(~_fits(body[name], wanted), said)
        return F.struct(*(_convert(body[name], wanted).alias(name) for name, wanted in columns), wrong.alias(corrupt))

    # A lambda binds what was read, so that it is read once and not once per column.
    return F.transform(F.array(read), row)[0]


def _with_tail(schema: str) -> str:
    tail = {"name": "tail", "type": {"type": "fixed", "name": "_lakesql_tail", "size": len(_TAIL)}}
    fields = [{"name": "body", "type": json.loads(schema)}, tail]
    return json.dumps({"type": "record", "name": "_lakesql_read", "fields": fields})


def _convert(value: Column, wanted: T.DataType) -> Column:
    """The value as the wanted type; NULL where it does not fit. Fields are found by their names."""
    match wanted:
        case T.StructType(fields=fields):
            parts = (_convert(value[field.name], field.dataType).alias(field.name) for field in fields)
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
            return value.isNull() | all_of(_fits(value[field.name], field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return value.isNull() | F.forall(value, lambda item: _fits(item, element))
        case T.MapType(valueType=element):
            return value.isNull() | F.forall(F.map_values(value), lambda item: _fits(item, element))
        case _:
            return value.isNull() | F.coalesce(_is_kept(value, value.try_cast(wanted), wanted), F.lit(False))


def _is_kept(value: Column, cast: Column, wanted: T.DataType) -> Column:
    """Whether what the value was cast to is all of it; NULL where it is not even that.

    A cast cuts off fractions, and the time of a date. It takes a number for seconds: milliseconds lie beyond the year
    9999 then. It puts a text that is a time alone on the day of the reading, and makes infinity of a large double.
    """
    kind = F.typeof(value)
    match wanted:
        case T.IntegralType():
            return value.try_cast("double") == cast
        case T.DecimalType():
            return F.coalesce(value.try_cast(_DECIMAL) == cast.cast(_DECIMAL), cast.isNotNull())
        case T.FloatType():
            return (F.abs(cast) != F.lit(math.inf)) | (F.abs(value.try_cast("double")) == F.lit(math.inf))
        case T.TimestampType():
            is_alone = (kind == "string") & is_time_alone(value.try_cast("string"))
            return F.unix_micros(cast).between(*COMMON_TIMES) & ~is_alone
        case T.DateType():
            has_time = kind.startswith("timestamp") & (value.try_cast("timestamp") != cast.cast("timestamp"))
            return F.unix_date(cast).between(*COMMON_DAYS) & ~F.coalesce(has_time, F.lit(False))
        case _:
            return cast.isNotNull()


_DECIMAL = "decimal(38,18)"
"""In which two decimals are compared; one that is too large for it is not."""
