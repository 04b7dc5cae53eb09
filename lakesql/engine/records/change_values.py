"""How values in change events become values of the contract's types: each is read as
text first, and then converted, or it does not fit.

How a value is encoded depends on the database and on the settings of the connector. If
a schema stands beside the event, it gives the units of times that are numbers and the
scale of decimals that are bytes. Otherwise the contract may give the units.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from hashlib import md5
from operator import or_
from typing import Literal
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.decimals import (
    Decimals,
    has_digits,
    is_exact,
    is_literal_of_java,
)
from lakesql.engine.records.json_text import (
    as_written,
    bound,
    has_name_twice,
    has_rewritten,
    holds_any,
    holds_float,
    holds_text,
    is_rewritten,
    members,
    value_of,
)
from lakesql.engine.records.parse import (
    Contract,
    ContractColumn,
    as_text,
    from_json,
)
from lakesql.engine.records.times import (
    COMMON_DAYS,
    COMMON_TIMES,
    infinite,
    is_more_than_date,
    is_whole_number,
    time_of,
)
from lakesql.names import CORRUPT
from lakesql.stream.feed_schema import COUNTED
from lakesql.stream.stream import Encoding, Infinity

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for a large value that the change did not touch, which
Postgres does not send."""

SENT_BY = "REPLICA IDENTITY FULL sends it"
"""The advice on how to have values sent that a change did not touch."""


def row_as_written(
    row: Column, record: Column, text: Column, contract: Contract
) -> Column:
    """A row of `row_texts`, with the record's own spelling of values where Spark's may
    differ.

    `record` is the text in which the row was found, `text` the row's own. The
    placeholder of a missing value is kept. A decimal whose digits cannot be found in
    `text` becomes a text that is no number.
    """
    asked = {
        column.name: _is_rewritten(column, row, record)
        for column in contract.columns
        if _may_differ(column.type)
    }
    if not asked:
        return row

    def value(column: ContractColumn, found: Column) -> Column:
        read = row[column.name]
        if column.name not in asked:
            return read
        own = value_of(found, F.lit(column.name))
        written = as_written(read, own, T.StringType())
        if isinstance(column.type, T.DecimalType):
            written = F.when(own.isNotNull(), written).otherwise(
                F.concat(F.lit("?"), read)
            )
        return F.when(is_unavailable(read) | ~asked[column.name], read).otherwise(
            written
        )

    def struct_of(found: Column) -> Column:
        return F.struct(
            *(value(column, found).alias(column.name) for column in contract.columns)
        )

    return F.when(
        holds_any(asked.values()) & row.isNotNull(), bound(members(text), struct_of)
    ).otherwise(row)


def _may_differ(wanted: T.DataType) -> bool:
    """Whether Spark's text of a value of this type may differ from the record's in a
    way that matters."""
    return (
        isinstance(wanted, T.DecimalType | T.StringType)
        or _keeps_digits(wanted)
        or holds_float(wanted)
    )


def _is_rewritten(column: ContractColumn, row: Column, record: Column) -> Column:
    read = row[column.name]
    if isinstance(column.type, T.DecimalType):
        return F.coalesce(
            read.rlike("^-?[0-9]") & record.rlike(LONG_FRACTION), F.lit(False)
        )
    if holds_float(column.type) and not _keeps_digits(column.type):
        return F.coalesce(read.rlike(_QUOTED_WORD), F.lit(False))
    return is_rewritten(read, record, column.name)


_QUOTED_WORD = r'"[-+]?(?:NaN|Infinity|INF)"'
"""A pattern for a quoted word, `"NaN"` or `"Infinity"`, in Spark's text of a nested
value: Spark writes a bare word so, and a number that is too large."""

_MAYBE_INFINITE = r"[NI]|[eE][+]?[0-9]{2}|[0-9]{39}"
"""A pattern for JSON of numbers in which one may be infinite, or too large for a
float."""


def _keeps_digits(wanted: T.DataType) -> bool:
    """Whether a nested type holds texts or decimals, of which no digit may be lost."""
    return is_nested(wanted) and (
        holds_text(wanted) or "decimal(" in wanted.simpleString()
    )


def read_values(
    name: str, row: Column, texts: Column, kinds: Column, contract: Contract
) -> list[dict[str, Column]]:
    """The stages of columns that add `name`: `row`, a row of texts, converted to the
    contract's types.

    `texts` is the row before it was `shaped`, `kinds` what the schema beside the event
    says about columns. A value that does not fit is NULL, and so is one that is missing
    in the event. Encoded values, which are rare, are decoded in a stage before, for all
    columns at once: Spark is slow with lambdas, and with everything in the same
    projection.
    """
    plain, coded = (
        F.col(f"{name}_plain"),
        [column for column in contract.columns if _coding(column.type)],
    )
    places = {column.name: F.lit(place) for place, column in enumerate(coded)}
    written = F.transform(
        F.array(*(_to_write(row, column) for column in coded)),
        lambda it: _written(it, kinds),
    )

    def value(column: ContractColumn) -> Column:
        text, told = row[column.name], hint(column, kinds)
        if column.name in places:
            text = F.when(plain.isNull(), text).otherwise(
                F.get(plain, places[column.name])
            )
        read = (read_value if is_nested(column.type) else typed)(
            text, column.type, told
        )
        may_lack = column.name in (*contract.kept, *contract.unused)
        return F.when(~is_unavailable(texts[column.name]), read) if may_lack else read

    values = F.struct(
        *(value(column).alias(column.name) for column in contract.columns)
    )
    first = (
        [{f"{name}_plain": F.when(row.isNotNull() & _may_be_coded(contract), written)}]
        if coded
        else []
    )
    return [*first, {name: F.when(row.isNotNull(), values)}]


def _to_write(row: Column, column: ContractColumn) -> Column:
    """The struct of a column's text and type that `_written` takes."""
    parts = {"name": column.name, "coding": _coding(column.type), "unit": column.unit}
    literals = (F.lit(part).cast("string").alias(key) for key, part in parts.items())
    return F.struct(row[column.name].alias("text"), *literals)


Coding = Literal["", "text", "number"]
"""How values of a type may be encoded: not at all, as a text (a time of day or a
number), or as a number."""


def _coding(wanted: T.DataType) -> Coding:
    match wanted:
        case T.NumericType():
            return "number"
        case T.StringType():
            return "text"
        case _:
            return ""


def _may_be_coded(contract: Contract) -> Column:
    """Whether a value of the record may be encoded, by a cheap test that may err on the
    side of true."""
    if any(
        column.unit and isinstance(column.type, T.StringType)
        for column in contract.columns
    ):
        return F.lit(True)
    signs = (F.col("value").contains(F.lit(sign)) for sign in _SIGNS)
    found = reduce(or_, signs, F.col("key").contains(F.lit(_SIGNS[0])))
    # a tombstone's key may be encoded without any of these signs
    return F.coalesce(found, F.col("value").isNull())


_SIGNS = (b'"scale"', b'Time"')
"""One of these is in every record that has an encoded value: the scale of a number, or
the schema of a time. The exception is a time of day whose unit only the contract
gives."""


def _written(it: Column, kinds: Column) -> Column:
    """The decoded text of a value in `read_values`; `it` is a struct of `_to_write`."""
    kind = F.try_element_at(kinds, it["name"])
    unit = F.coalesce(_unit_of(kind["name"], _TIME_UNITS), it["unit"])
    found = Hint(unit, *_scale_of(kind["name"], kind["parameters"]["scale"]), None)
    return _plain(it["text"], it["coding"] == "text", found)


def _plain(text: Column, is_text: Column, hint: Hint) -> Column:
    """The decoded text of a number or of a text that may be encoded: as a whole number
    with a scale, or as the number of a time of day."""
    # `{"scale": 1, "value": "fQ=="}`, as Debezium writes a decimal of a column that has
    # no scale
    is_own = hint.is_any_scale | (~is_text & text.startswith('{"scale":'))
    own, own_scale = (F.get_json_object(text, path) for path in ("$.value", "$.scale"))
    digits, scale = (
        F.when(is_own, own).otherwise(text),
        F.when(is_own, own_scale).otherwise(hint.scale),
    )
    number = F.when(~is_own & hint.scale.isNull(), text).otherwise(
        _written_out(digits, scale)
    )
    time = F.when(
        is_text & hint.unit.isNotNull() & is_whole_number(text),
        _time_of_day(text, hint.unit),
    )
    return time.otherwise(number)


def has_nested(contract: Contract) -> bool:
    """Whether a column is an array, a struct or a map."""
    return any(is_nested(column.type) for column in contract.columns)


def is_nested(wanted: T.DataType) -> bool:
    """Whether the type is an array, a struct or a map."""
    return isinstance(wanted, T.StructType | T.ArrayType | T.MapType)


def row_texts(contract: Contract) -> T.StructType:
    """The type of a row with one text for each column; the text of an array, a struct
    or a map is its JSON."""
    return T.StructType(
        [T.StructField(column.name, T.StringType()) for column in contract.columns]
    )


def shaped(row: Column, contract: Contract) -> Column:
    """A row of `row_texts` with the JSON of arrays, structs and maps parsed to arrays,
    structs and maps of texts; NULL where it is none of the column's shape.

    So a value of another shape does not fit, and a `json` or an `hstore` that arrives
    as a text does.
    """

    def opened(column: ContractColumn) -> Column:
        text = row[column.name]
        if not is_nested(column.type):
            return text
        fields = [
            T.StructField("v", as_text(column.type)),
            T.StructField(CORRUPT, T.StringType()),
        ]
        read = from_json(
            F.concat(F.lit('{"v":'), text, F.lit("}")), T.StructType(fields)
        )
        if _keeps_digits(column.type):
            is_asked = has_rewritten(text)
        elif holds_float(column.type):
            is_asked = text.rlike(_MAYBE_INFINITE)
        else:
            return bound(
                read, lambda found: F.when(found[CORRUPT].isNull(), found["v"])
            )

        def exact(found: Column) -> Column:
            written = as_written(found["v"], text, as_text(column.type))
            return F.when(
                found[CORRUPT].isNull(), F.when(is_asked, written).otherwise(found["v"])
            )

        return bound(read, exact)

    return F.when(
        row.isNotNull(),
        F.struct(*(opened(column).alias(column.name) for column in contract.columns)),
    )


@dataclass(frozen=True, slots=True)
class Hint:
    """How the values of a column are encoded. `unit` is the unit of its numbers, as in
    `Column.unit`, and `scale` the scale of decimals that are bytes; NULL if unknown.
    `is_any_scale`: each decimal has its own scale beside it. `encoding` is that of
    `Column`, `decimals` and `infinity` are those of the stream."""

    unit: Column
    scale: Column
    is_any_scale: Column
    encoding: Encoding | None
    decimals: Decimals = "exact"
    infinity: Infinity = "dead_letter"


_UNITS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}
_TIME_UNITS = {
    "io.debezium.time.Time": "milliseconds",
    "org.apache.kafka.connect.data.Time": "milliseconds",
    "io.debezium.time.MicroTime": "microseconds",
    "io.debezium.time.NanoTime": "nanoseconds",
}
"""The units of times of day that are numbers, by the names of their schemas."""

_SCALED = "org.apache.kafka.connect.data.Decimal"
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"


def contract_hint(column: ContractColumn) -> Hint:
    """The hint that the contract alone gives for a column of a simple type."""
    return Hint(
        F.lit(column.unit),
        F.lit(None).cast("string"),
        F.lit(False),
        column.encoding,
        column.decimals,
        column.infinity,
    )


def hint(column: ContractColumn, kinds: Column) -> Hint:
    """The hint for a column, or for the items of an array: from `kinds`, the schema
    beside the event, or else from the contract."""
    kind, unit, wanted = (
        F.try_element_at(kinds, F.lit(column.name)),
        F.lit(column.unit),
        column.type,
    )
    name, scale = kind["name"], kind["parameters"]["scale"]
    if isinstance(wanted, T.ArrayType):
        name, scale = (
            F.get_json_object(kind["items"], path)
            for path in ("$.name", "$.parameters.scale")
        )
        wanted = wanted.elementType
    match wanted:
        case T.TimestampType() | T.TimestampNTZType():
            unit = F.coalesce(_unit_of(name, _UNITS), unit)
        case T.StringType():
            unit = F.coalesce(_unit_of(name, _TIME_UNITS), unit)
    return Hint(
        unit, *_scale_of(name, scale), column.encoding, column.decimals, column.infinity
    )


def _scale_of(name: Column, scale: Column) -> tuple[Column, Column]:
    """`scale` and `is_any_scale` of a hint, from the name and the scale in the
    schema."""
    return F.when(name == _SCALED, scale), F.coalesce(name == _ANY_SCALE, F.lit(False))


def _unit_of(name: Column, units: Mapping[str, str]) -> Column:
    known = F.create_map(*(F.lit(word) for pair in units.items() for word in pair))
    return F.try_element_at(known, name)


def _placeholders() -> Iterator[str]:
    """All texts that the placeholder for a missing value can have in a record
    (UnchangedToastedPlaceholder of Debezium's connector).

    They are a text, bytes, and arrays of these or of `uuid`s, which have it as their
    one item; arrays of numbers, decimals and dates, which have its bytes as items; and
    an `hstore`, which has it as its one key and value.
    """
    placed = UNAVAILABLE.encode()
    scalars = (UNAVAILABLE, b64encode(placed).decode(), placed.hex())
    uuid = UUID(bytes=md5(placed, usedforsecurity=False).digest(), version=3)
    yield from scalars
    yield from (f'["{item}"]' for item in (*scalars, uuid))
    # of decimals, of one scale or of any
    digits = [f'"{b64encode(bytes([byte])).decode()}"' for byte in placed]
    any_scale = [f'{{"scale":0,"value":{each}}}' for each in digits]
    yield from (
        f"[{','.join(map(str, items))}]"
        for items in (placed, map(float, placed), digits, any_scale)
    )
    yield f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'


_UNAVAILABLE = tuple(_placeholders())


def is_unavailable(text: Column) -> Column:
    """Whether a value is the placeholder for a missing value, by its text in the
    record; the column's type does not matter."""
    return F.coalesce(text.isin(*_UNAVAILABLE), F.lit(False))


def is_of_other_kind(column: ContractColumn, kinds: Column) -> Column:
    """Whether the schema beside the event declares another type for a column, in an
    encoding that could be mistaken for a value of the contract's type: days for a
    number, a text for base64."""
    wanted, kind = column.type, F.try_element_at(kinds, F.lit(column.name))
    if isinstance(wanted, T.ArrayType):
        wanted = wanted.elementType
        kind = F.from_json(
            kind["items"], T.StructType().add("type", "string").add("name", "string")
        )
    is_number, is_bytes = kind["type"].startswith("int"), kind["type"] == "bytes"
    is_counted = is_number & F.coalesce(kind["name"].isin(*COUNTED), F.lit(False))
    is_decimal = F.coalesce(kind["name"] == _SCALED, F.lit(False))
    match wanted:
        case T.StringType() | T.NumericType():
            found = is_counted | (is_bytes & ~is_decimal)
        case T.DateType():
            found = is_number & ~is_counted
        case T.BinaryType():
            found = ~is_bytes | is_decimal
        case _:
            return F.lit(False)
    return F.coalesce(found, F.lit(False))


def misfits(text: Column, value: Column, wanted: T.DataType, hint: Hint) -> Column:
    """Whether a value does not fit its type: the text is there, and its conversion
    `value` is NULL. Of a nested type every value within is checked."""
    if is_nested(wanted):
        return _misfits_within(text, wanted, hint)
    return (
        text.isNotNull()
        & value.isNull()
        & ~is_null_for_infinite(text, wanted, hint.infinity)
    )


def is_null_for_infinite(
    text: Column, wanted: T.DataType, infinity: Infinity
) -> Column:
    """Whether a value is NULL because it is infinite and the stream's `infinity` is
    `null`."""
    if infinity != "null" or is_nested(wanted):
        return F.lit(False)
    return infinite(text, wanted).isNotNull()


def _misfits_within(text: Column, wanted: T.DataType, hint: Hint) -> Column:
    match wanted:
        case T.StructType(fields=fields):
            found = F.lit(False)
            for field in fields:
                found = found | _misfits_within(text[field.name], field.dataType, hint)
            return F.coalesce(found, F.lit(False))
        case T.ArrayType(elementType=element):
            return F.coalesce(
                F.exists(text, lambda item: _misfits_within(item, element, hint)),
                F.lit(False),
            )
        case T.MapType(valueType=element):
            is_misfit = F.exists(
                F.map_values(text), lambda item: _misfits_within(item, element, hint)
            )
            return F.coalesce(has_name_twice(text) | is_misfit, F.lit(False))
        case _:
            is_null = read_value(text, wanted, hint).isNull()
            return (
                text.isNotNull()
                & is_null
                & ~is_null_for_infinite(text, wanted, hint.infinity)
            )


def read_value(text: Column, wanted: T.DataType, hint: Hint) -> Column:
    """A text, or a nested value of texts, converted to the contract's type; NULL where
    a value does not fit."""
    match wanted:
        case T.StructType(fields=fields):
            values = (
                read_value(text[f.name], f.dataType, hint).alias(f.name) for f in fields
            )
            return F.when(text.isNotNull(), F.struct(*values))
        case T.ArrayType(elementType=element):
            return F.transform(text, lambda item: read_value(item, element, hint))
        case T.MapType(valueType=element):
            return F.transform_values(
                text, lambda _, item: read_value(item, element, hint)
            )
        case _:
            coding = _coding(wanted)
            plain = _plain(text, F.lit(coding == "text"), hint) if coding else text
            return typed(plain, wanted, hint)


def typed(text: Column, wanted: T.DataType, hint: Hint) -> Column:
    """A decoded text, converted to a simple type; NULL if it does not fit."""
    match wanted:
        case T.StringType():
            return text
        case T.BinaryType():
            return _bytes(text, hint.encoding)
        case T.DateType():
            days = F.date_from_unix_date(text.try_cast("int"))
            written = F.regexp_replace(text, "Z$", "")
            day = F.when(~is_more_than_date(written), written.try_cast(wanted))
            value = F.when(is_whole_number(text), days).otherwise(day)
            found = F.when(F.unix_date(value).between(*COMMON_DAYS), value)
            return _bounded(
                infinite(text, wanted),
                found,
                hint,
                *(F.date_from_unix_date(F.lit(day)) for day in COMMON_DAYS),
            )
        case T.TimestampType() | T.TimestampNTZType():
            ends = (
                F.timestamp_micros(F.lit(micros)).cast(wanted)
                for micros in COMMON_TIMES
            )
            return _bounded(
                infinite(text, wanted), time_of(text, wanted, hint.unit), hint, *ends
            )
        case T.DecimalType():
            return _decimal(text, wanted, hint.decimals)
        case T.DoubleType() | T.FloatType():
            value = F.when(~is_literal_of_java(text), text.try_cast(wanted))
            return F.when(
                (F.abs(value) != float("inf"))
                | F.isnan(value)
                | text.rlike("(?i)^[-+]?inf"),
                value,
            )
        case _:
            return text.try_cast(wanted)


def _bounded(
    sign: Column, value: Column, hint: Hint, first: Column, last: Column
) -> Column:
    """The value of a date or timestamp; if the stream's `infinity` is `max`, an
    infinite one is the first or the last that there is."""
    if hint.infinity != "max":
        return value
    return F.when(sign > 0, last).when(sign < 0, first).otherwise(value)


_TO_NANOS = {
    "seconds": 1_000_000_000,
    "milliseconds": 1_000_000,
    "microseconds": 1_000,
    "nanoseconds": 1,
}


def _time_of_day(text: Column, unit: Column) -> Column:
    """The time `[-]HH:MM:SS[.fraction]` for a number of units; MySQL's times may be
    negative, and longer than a day."""
    each = F.create_map(*(F.lit(word) for pair in _TO_NANOS.items() for word in pair))

    def padded(number: Column, digits: int) -> Column:
        shown = number.cast("string")
        return F.lpad(shown, F.greatest(F.length(shown), F.lit(digits)), F.lit("0"))

    def written(nanos: Column) -> Column:
        size = F.abs(nanos)
        seconds = F.call_function("div", size, F.lit(1_000_000_000))
        parts = (
            F.call_function("div", seconds, F.lit(3600)),
            F.call_function("div", seconds % 3600, F.lit(60)),
        )
        fraction = F.rtrim(
            F.concat(F.lit("."), padded(size % 1_000_000_000, 9)), F.lit("0")
        )
        sign = F.when(nanos < 0, F.lit("-")).otherwise(F.lit(""))
        clock = F.concat_ws(":", *(padded(part, 2) for part in (*parts, seconds % 60)))
        return F.concat(sign, clock, F.rtrim(fraction, F.lit(".")))

    return bound(
        F.try_multiply(text.try_cast("bigint"), F.try_element_at(each, unit)), written
    )


def _bytes(text: Column, encoding: Encoding | None) -> Column:
    """The bytes of a text in hexadecimal digits, or in base64 with either of its
    alphabets."""
    if encoding == "hex":
        return F.try_to_binary(F.regexp_replace(text, "^0x", ""), F.lit("hex"))
    return F.try_to_binary(F.translate(text, "-_", "+/"), F.lit("base64"))


LONG_FRACTION = r"[:\[,]\s*-?(?=[0-9.]{17})[0-9]+[.]|[0-9.][eE]-[0-9]{3}"
"""A pattern for JSON numbers with so many digits, or so small, that a double may not
have the same text."""


def _decimal(text: Column, wanted: T.DecimalType, decimals: Decimals) -> Column:
    """The decimal of a number's text; NULL if digits would be rounded off, unless
    `decimals` is `round`."""
    is_number = (
        has_digits(text) if decimals == "round" else is_exact(text, wanted.scale)
    )
    return F.when(is_number, text.try_cast(wanted))


def _written_out(text: Column, scale: Column) -> Column:
    """The text of a decimal that is encoded as a whole number in two's complement, in
    base64, with this scale."""
    digits = F.hex(F.try_to_binary(text, F.lit("base64")))
    return bound(
        digits,
        lambda it: bound(
            _whole(it), lambda whole: _with_point(whole, scale.try_cast("int"))
        ),
    )


def _whole(digits: Column) -> Column:
    """The whole number, as text, of at most 32 hexadecimal digits in two's complement;
    NULL if there are more."""
    is_negative = F.substr(digits, F.lit(1), F.lit(1)) >= "8"
    # the digits of -n - 1, for a negative n
    inverted = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    padded = F.lpad(F.when(is_negative, inverted).otherwise(digits), 32, "0")
    high, low = (
        F.conv(F.substr(padded, F.lit(at), F.lit(16)), 16, 10).try_cast("decimal(20,0)")
        for at in (1, 17)
    )
    found = F.try_add(F.try_multiply(high, F.lit(Decimal(2**64))), low)
    negative = F.concat(F.lit("-"), F.try_add(found, F.lit(Decimal(1))).cast("string"))
    whole = F.when(is_negative, negative).otherwise(found.cast("string"))
    return F.when(F.length(digits) <= 32, whole)


def _with_point(whole: Column, scale: Column) -> Column:
    """The text of a whole number divided by ten to the power of the scale."""
    unsigned = F.concat(
        F.ltrim(whole, F.lit("-")), F.repeat(F.lit("0"), F.greatest(-scale, F.lit(0)))
    )
    scale = F.greatest(scale, F.lit(0))
    digits = F.lpad(unsigned, F.greatest(F.length(unsigned), scale + 1), F.lit("0"))
    before = F.substr(digits, F.lit(1), F.length(digits) - scale)
    sign = F.when(whole.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    fraction = F.when(
        scale > 0, F.concat(F.lit("."), F.right(digits, scale))
    ).otherwise(F.lit(""))
    return F.concat(sign, before, fraction)
