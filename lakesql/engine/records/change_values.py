"""Values of change events: each is read as text, and then as the contract's type, or it does not fit.

How a value is written depends on the database and on the settings of the connector. Where a schema stands beside the
event, it says what a number counts, and which scale the bytes of a decimal have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.parse import COMMON_DAYS, COMMON_TIMES, Contract, ContractColumn, bound

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a large value that the change did not touch: Postgres does not send it."""

SENT_BY = "REPLICA IDENTITY FULL sends it"
"""How one gets it all the same."""


def row_columns(row: Column, kinds: Column, contract: Contract) -> list[Column]:
    """The columns of a row of texts, as their types."""
    columns = []
    for column in contract.columns:
        text = row[column.name]
        value = read_value(text, column.type, hint(column, kinds))
        if column.name in contract.kept:
            value = F.when(~is_unavailable(text, column.type), value)
        columns.append(value.alias(column.name))
    return columns


@dataclass(frozen=True, slots=True)
class Hint:
    """How the values of a column are written: what its numbers count, as in `Column.unit`, and the scale of a decimal
    that stands there as bytes; NULL where nobody says so."""

    unit: Column
    scale: Column


_UNITS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}


def hint(column: ContractColumn, kinds: Column) -> Hint:
    """What the schema beside the event says of a column (`kinds`), or else the contract."""
    kind = F.try_element_at(kinds, F.lit(column.name))
    unit = F.lit(column.unit)
    if isinstance(column.type, T.TimestampType | T.TimestampNTZType):
        known = F.create_map(*(F.lit(word) for pair in _UNITS.items() for word in pair))
        unit = F.coalesce(F.try_element_at(known, kind["name"]), unit)
    is_bytes = kind["name"] == "org.apache.kafka.connect.data.Decimal"
    return Hint(unit, F.when(is_bytes, kind["parameters"]["scale"]))


_UNAVAILABLE_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


def is_unavailable(text: Column, wanted: T.DataType) -> Column:
    """Whether a value is the placeholder, which has another shape in binary columns and in arrays."""
    match wanted:
        case T.ArrayType(elementType=T.StructType() | T.MapType() | T.ArrayType()) | T.StructType() | T.MapType():
            return F.lit(False)
        case T.ArrayType():
            return F.coalesce(
                (F.size(text) == 1) & F.get(text, F.lit(0)).isin(UNAVAILABLE, _UNAVAILABLE_BASE64), F.lit(False)
            )
        case _:
            return F.coalesce(text.isin(UNAVAILABLE, _UNAVAILABLE_BASE64), F.lit(False))


def misfits(text: Column, wanted: T.DataType, hint: Hint) -> Column:
    """Whether a value, or one within it, is no value of its type."""
    match wanted:
        case T.StructType(fields=fields):
            found = F.lit(False)
            for field in fields:
                found = found | misfits(text[field.name], field.dataType, hint)
            return F.coalesce(found, F.lit(False))
        case T.ArrayType(elementType=element):
            return F.coalesce(F.exists(text, lambda item: misfits(item, element, hint)), F.lit(False))
        case T.MapType(valueType=element):
            return F.coalesce(F.exists(F.map_values(text), lambda item: misfits(item, element, hint)), F.lit(False))
        case _:
            return text.isNotNull() & read_value(text, wanted, hint).isNull()


def read_value(text: Column, wanted: T.DataType, hint: Hint) -> Column:
    """A value of the contract's type, of its text, or NULL where it is none."""
    match wanted:
        case T.StructType(fields=fields):
            values = (read_value(text[f.name], f.dataType, hint).alias(f.name) for f in fields)
            return F.when(text.isNotNull(), F.struct(*values))
        case T.ArrayType(elementType=element):
            return F.transform(text, lambda item: read_value(item, element, hint))
        case T.MapType(valueType=element):
            return F.transform_values(text, lambda _, item: read_value(item, element, hint))
        case T.StringType():
            return text
        case T.BinaryType():
            return F.try_to_binary(text, F.lit("base64"))
        case T.DateType():
            days = F.date_from_unix_date(text.try_cast("int"))
            value = F.when(_is_whole(text), days).otherwise(text.try_cast(wanted))
            return F.when(F.unix_date(value).between(*COMMON_DAYS), value)
        case T.TimestampType() | T.TimestampNTZType():
            value = F.when(_is_whole(text), _counted(text, hint.unit)).otherwise(text.try_cast("timestamp"))
            return F.when(F.unix_micros(value).between(*COMMON_TIMES), value.cast(wanted))
        case T.DecimalType():
            written = F.when(hint.scale.isNull(), text).otherwise(_written_out(text, hint.scale))
            return bound(written, lambda number: _decimal(number, wanted))
        case T.DoubleType() | T.FloatType():
            value = text.try_cast(wanted)
            return F.when((F.abs(value) != float("inf")) | F.isnan(value) | text.rlike("(?i)^[-+]?inf"), value)
        case _:
            return text.try_cast(wanted)


def _is_whole(text: Column) -> Column:
    return text.rlike("^-?[0-9]+$")


_TO_MICROS: dict[str, Callable[[Column], Column]] = {
    "milliseconds": lambda number: F.try_multiply(number, F.lit(1000)),
    "microseconds": lambda number: number,
    "nanoseconds": lambda number: F.call_function(
        "div", F.try_subtract(number, F.pmod(number, F.lit(1000))), F.lit(1000)
    ),
}


def _counted(text: Column, unit: Column) -> Column:
    """The time that a number stands for; NULL where nobody says what it counts."""
    number = text.try_cast("bigint")
    micros = F.lit(None).cast("bigint")
    for name, to_micros in _TO_MICROS.items():
        micros = F.when(unit == name, to_micros(number)).otherwise(micros)
    return F.timestamp_micros(micros)


def _decimal(text: Column, wanted: T.DecimalType) -> Column:
    """The decimal of a number's text; NULL where digits would be rounded off."""
    value = text.try_cast(wanted)
    fraction = F.regexp_extract(text, r"\.([0-9]*)", 1)
    is_exact = F.when(text.rlike("[eE]"), value.cast("double") == text.try_cast("double")).otherwise(
        F.length(F.rtrim(fraction, F.lit("0"))) <= wanted.scale
    )
    return F.when(is_exact & ~text.contains(","), value)


def _written_out(text: Column, scale: Column) -> Column:
    """The text of a decimal whose digits are a whole number in two's complement, in base64, with the scale of its
    schema."""
    digits = F.hex(F.try_to_binary(text, F.lit("base64")))
    return bound(digits, lambda it: bound(_whole(it), lambda whole: _with_point(whole, scale.try_cast("int"))))


def _whole(digits: Column) -> Column:
    """The whole number that 32 hexadecimal digits at most are in two's complement, as text."""
    is_negative = F.substr(digits, F.lit(1), F.lit(1)) >= "8"
    inverted = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")  # of a number n, which is -n - 1
    padded = F.lpad(F.when(is_negative, inverted).otherwise(digits), 32, "0")
    high, low = (F.conv(F.substr(padded, F.lit(at), F.lit(16)), 16, 10).try_cast("decimal(20,0)") for at in (1, 17))
    found = F.try_add(F.try_multiply(high, F.lit(Decimal(2**64))), low)
    negative = F.concat(F.lit("-"), F.try_add(found, F.lit(Decimal(1))).cast("string"))
    whole = F.when(is_negative, negative).otherwise(found.cast("string"))
    return F.when(F.length(digits) <= 32, whole)


def _with_point(whole: Column, scale: Column) -> Column:
    """The text of a whole number divided by a power of ten."""
    unsigned = F.ltrim(whole, F.lit("-"))
    digits = F.lpad(unsigned, F.greatest(F.length(unsigned), scale + 1), F.lit("0"))
    before = F.substr(digits, F.lit(1), F.length(digits) - scale)
    sign = F.when(whole.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, before, F.lit("."), F.right(digits, scale))
