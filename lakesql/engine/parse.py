"""From the raw records of a stream to its columns, with every bad record marked for the dead letters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, reduce
from typing import Literal

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql import names
from lakesql.engine import parse_json

RECORD_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""The fields of `_record`, in order."""

UNPARSABLE = "unparsable"
REQUIRED_MISSING = "required-missing"
TOMBSTONE = "tombstone"
"""Why a record is a dead letter: `_lakesql_rejected.reason`."""


@dataclass(frozen=True, slots=True)
class ContractColumn:
    """A column of a stream. `required`: a record in which it is NULL or absent is a dead letter."""

    name: str
    type: T.DataType
    required: bool = False


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a line of CSV reads. With `header` a line that holds the contract's column names is no record."""

    header: bool = False
    delimiter: str = ","
    null_value: str = ""
    quote: str = '"'
    escape: str = "\\"
    timestamp_format: str | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What the values of a stream hold. Formats `string` and `bytes` have one column."""

    columns: tuple[ContractColumn, ...]
    format: Literal["json", "csv", "string", "bytes"] = "json"
    csv: CsvOptions = CsvOptions()


def parse_records(
    raw: DataFrame,
    contract: Contract,
    keep: frozenset[str] = frozenset(RECORD_FIELDS),
    carry: tuple[str, ...] = (),
) -> DataFrame:
    """The contract's columns of raw records, `_record` and `_lakesql_rejected`.

    `raw` has Kafka's shape: `key, value, topic, partition, offset, timestamp, headers`; batch or streaming. `_record`
    holds the fields of `keep` alone (it is absent when there are none), and columns of `raw` named in `carry` come
    along as they are: what is kept and carried goes through Python. `_lakesql_rejected` is NULL on good rows and
    `struct<reason, detail, value, key>` on bad ones, whose other columns mean nothing.
    """
    kept = [field for field in RECORD_FIELDS if field in keep]
    record = [F.struct(*(F.col(field) for field in kept)).alias(names.RECORD)] if kept else []
    source = raw.select(F.col("value").alias(_VALUE), F.col("key").alias(_KEY), *record, *carry)
    match contract.format:
        case "json":
            shape = _shape(contract) if _session_is_utc(raw) else None
            rows = _read_json_fast(source, contract, shape) if shape else _read_text(source, contract)
        case "csv":
            rows = _read_text(_without_headers(source, contract), contract)
        case "string" | "bytes":
            rows = _read_plain(source, contract)
    return rows.select(
        *(F.col(_quoted(column.name)) for column in contract.columns),
        *([F.col(names.RECORD)] if kept else []),
        *carry,
        F.col(names.REJECTED),
    )


_VALUE, _KEY = names.VALUE, "_lakesql_key"
_UNDECIDED = "_lakesql_undecided"
_ROW = "_lakesql_row"
_CORRUPT = "_lakesql_corrupt"

Reader = Callable[[Column, T.StructType], Column]
"""Reads a text as a struct whose last field gets the text when it does not fit."""


def _read_json_fast(source: DataFrame, contract: Contract, shape: parse_json.Shape) -> DataFrame:
    """JSON by pyarrow; the records that it leaves undecided, and those alone, by `from_json` in the same plan."""
    parsed = [f"_lakesql_{i}" for i in range(len(contract.columns))]
    schema = T.StructType(
        [T.StructField(name, column.type) for name, column in zip(parsed, contract.columns, strict=True)]
        + [T.StructField(_UNDECIDED, T.BooleanType(), nullable=False)]
        + list(source.schema.fields)
    )
    arrived = source.mapInArrow(parse_json.batch_parser(shape), schema)
    decided = ~F.col(_UNDECIDED)
    row = F.when(F.col(_UNDECIDED), _guarded(contract))
    arrived = arrived.withColumn(_ROW, _once(row))
    return arrived.select(
        *(
            F.when(decided, F.col(name)).otherwise(F.col(_ROW)[column.name]).alias(column.name)
            for name, column in zip(parsed, contract.columns, strict=True)
        ),
        *_carried(source),
        _once(F.when(F.col(_UNDECIDED), _rejected(contract))).alias(names.REJECTED),
    )


def _read_text(source: DataFrame, contract: Contract) -> DataFrame:
    """Every record by Spark's own parser."""
    return source.withColumn(_ROW, _once(_guarded(contract))).select(
        *(F.col(_ROW)[column.name].alias(column.name) for column in contract.columns),
        *_carried(source),
        _once(_rejected(contract)).alias(names.REJECTED),
    )


def _once(column: Column) -> Column:
    """The same column, of which Spark makes no copies: it pushes filters through deterministic projections only.

    Without this a filter on `_lakesql_rejected` repeats the parsing many times over.
    """
    return F.when(F.spark_partition_id() >= 0, column)


def _read_plain(source: DataFrame, contract: Contract) -> DataFrame:
    """The value as it is; text must be UTF-8."""
    (column,) = contract.columns
    is_text = contract.format == "string"
    reason = F.when(F.col(_VALUE).isNull(), _reject(TOMBSTONE, F.lit("the record has no value")))
    if is_text:
        reason = reason.when(~F.is_valid_utf8(_text()), _reject(UNPARSABLE, F.lit("not UTF-8")))
    value = _text() if is_text else F.col(_VALUE)
    return source.select(value.alias(column.name), *_carried(source), reason.alias(names.REJECTED))


def _without_headers(source: DataFrame, contract: Contract) -> DataFrame:
    """The lines that are records: not blank, and with `header` not the line of column names."""
    line = F.rtrim(_text())
    is_record = line != ""
    if contract.csv.header:
        plain = [column.name for column in contract.columns]
        quote = contract.csv.quote
        quoted = [f"{quote}{name.replace(quote, contract.csv.escape + quote)}{quote}" for name in plain]
        is_record &= ~line.isin(contract.csv.delimiter.join(plain), contract.csv.delimiter.join(quoted))
    return source.where(F.col(_VALUE).isNull() | is_record)


def _reader(contract: Contract) -> Reader:
    return _from_json if contract.format == "json" else _from_csv(contract.csv)


def _from_json(text: Column, schema: T.StructType) -> Column:
    return F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})


def _from_csv(options: CsvOptions) -> Reader:
    spark_options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "sep": options.delimiter,
        "nullValue": options.null_value,
        "quote": options.quote,
        "escape": options.escape,
    }
    if options.timestamp_format is not None:
        spark_options["timestampFormat"] = options.timestamp_format
    # The typed method takes the schema as DDL only.
    return lambda text, schema: F.from_csv(text, _ddl(schema), spark_options)


@cache
def _rejected(contract: Contract) -> Column:
    """Why the record is bad, over the columns `_lakesql_row` (what Spark read), `_lakesql_value`, `_lakesql_key`.

    Built once for a contract: it takes hundreds of calls into Java, which each batch would wait for.
    """
    text, row, is_json = _text(), F.col(_ROW), contract.format == "json"
    misfit = _misfit(contract)
    shapeless = F.lit("not a JSON object" if is_json else "not a line of the contract's columns")
    rejected = (
        F.when(F.col(_VALUE).isNull(), _reject(TOMBSTONE, F.lit("the record has no value")))
        .when(~F.is_valid_utf8(text), _reject(UNPARSABLE, F.lit("not UTF-8")))
        .when(row.isNull() | row[_CORRUPT].isNotNull(), _reject(UNPARSABLE, F.coalesce(misfit, shapeless)))
    )
    if is_json:
        rejected = rejected.when(~_is_one_value(text), _reject(UNPARSABLE, F.lit("more than one JSON value")))
    suspicious = _any(_suspicious(row[column.name], column.type, text) for column in contract.columns)
    if suspicious is not None:
        rejected = rejected.when(suspicious & misfit.isNotNull(), _reject(UNPARSABLE, misfit))
    for column in contract.columns:
        if column.required:
            rejected = rejected.when(row[column.name].isNull(), _reject(REQUIRED_MISSING, F.lit(column.name)))
    return rejected


def _reject(reason: str, detail: Column) -> Column:
    return F.struct(
        F.lit(reason).alias("reason"), detail.alias("detail"), F.col(_VALUE).alias("value"), F.col(_KEY).alias("key")
    )


def _is_one_value(text: Column) -> Column:
    """Whether nothing follows the object, which `from_json` would not say.

    True when the first closing brace ends the text. Else the text must be one element in brackets and one member in
    braces: no text can close both. The words that only Spark takes for numbers are replaced first.
    """
    strict = F.regexp_replace(text, r"[-+]?(NaN|Infinity|INF)", "0")
    elements = F.json_array_length(F.concat(F.lit("["), strict, F.lit("]")))
    members = F.size(F.json_object_keys(F.concat(F.lit('{"v":'), strict, F.lit("}"))))
    one = F.coalesce((elements == 1) & (members == 1), F.lit(False))
    return (F.instr(text, "}") == F.length(text)) | one


def _suspicious(value: Column, wanted: T.DataType, text: Column) -> Column | None:
    """Whether a value may come from a number that overflowed without a word; None for types where none does.

    `from_json` reports numbers out of range, but for: double and float (infinite), tinyint from 128 to 255 (negative),
    and a timestamp given in seconds, of 13 digits and more (any other time).
    """
    match wanted:
        case T.DoubleType() | T.FloatType():
            found: Column | None = F.abs(value) == F.lit(float("inf")).cast(wanted)
        case T.ByteType():
            found = value < 0
        case T.TimestampType():
            micros = F.unix_micros(value)
            # The expression costs as much as the parsing, so it is asked of times that no ISO text in seconds gives.
            unusual = (micros % 1_000_000 != 0) | ~micros.between(*_COMMON_TIMES) | micros.isin(-1_000_000, 0)
            found = unusual & text.rlike("[0-9]{13}")
        case T.StructType(fields=fields):
            found = _any(_suspicious(value[field.name], field.dataType, text) for field in fields)
        case T.ArrayType(elementType=element):
            found = _exists(value, lambda item: _suspicious(item, element, text))
        case T.MapType(valueType=element):
            found = _exists(F.map_values(value), lambda item: _suspicious(item, element, text))
        case _:
            found = None
    return None if found is None else F.coalesce(found, F.lit(False))


def _misfit(contract: Contract) -> Column:
    """The first field whose value does not fit its type, in words; NULL when there is none to be named.

    The record is read once more with text in place of every other type: what is text there and NULL in the row did
    not fit.
    """
    mirror = _reader(contract)(_text(), _with_corrupt(contract, _as_text))

    def first(seen: Column) -> Column:
        return F.coalesce(
            *(
                F.when(wrong, F.lit(f"{path}: not a {kind}, or out of its range"))
                for column in contract.columns
                for path, kind, wrong in _misfits(F.col(_ROW)[column.name], seen[column.name], column.type, column.name)
            ),
            F.lit(None).cast("string"),
        )

    # A lambda binds the mirror, so that it is read once and not once per column.
    named = F.transform(F.array(mirror), first)[0]
    return F.when(F.col(_ROW).isNotNull(), named)


def _misfits(value: Column, seen: Column, wanted: T.DataType, path: str) -> list[tuple[str, str, Column]]:
    """For each field at and below `path`: its path, its type's name, and whether what was seen does not fit it."""
    if isinstance(wanted, T.StructType):
        fields = [_misfits(value[f.name], seen[f.name], f.dataType, f"{path}.{f.name}") for f in wanted.fields]
        return [each for field in fields for each in field]
    absent = value.isNull() & seen.isNotNull()
    overflowed = _overflowed(seen, wanted)
    wrong = absent if overflowed is None else absent | F.coalesce(overflowed, F.lit(False))
    return [(path, wanted.simpleString(), wrong)]


def _overflowed(seen: Column, wanted: T.DataType) -> Column | None:
    """Whether the text of a number is beyond its type, for the types of `_suspicious`."""
    match wanted:
        case T.DoubleType() | T.FloatType():
            # A number that is no double arrives in quotes, and so do the bare words, which are allowed.
            word = _text().rlike(r"[:\[,]\s*[-+]?(INF|Infinity)")
            is_number = seen.rlike(r"^[-+]?[0-9.]") & (F.abs(seen.try_cast(wanted)) == F.lit(float("inf")).cast(wanted))
            return is_number | (seen.isin('"Infinity"', '"-Infinity"') & ~word)
        case T.ByteType():
            return seen.rlike("^[0-9]+$") & (seen.try_cast("int") > 127)
        case T.TimestampType():
            return seen.rlike("^-?[0-9]{13,}$") & (F.abs(seen.try_cast("decimal(38,0)")) > LAST_TIMESTAMP_S)
        case T.StructType(fields=fields):
            return _any(_overflowed(seen[field.name], field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return _exists(seen, lambda item: _overflowed(item, element))
        case T.MapType(valueType=element):
            return _exists(F.map_values(seen), lambda item: _overflowed(item, element))
        case _:
            return None


_COMMON_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999, in microseconds."""

LAST_TIMESTAMP_S = 9_223_372_036_854
"""The seconds that Spark can multiply into microseconds."""

EXPONENT_BOMB = r"[:\[,]\s*\"?[-+]?[0-9.]+[eE][-+]?[0-9]{6,}[\"\s,}\]]"
"""A number of a hundred thousand digits and more in a dozen bytes: Spark writes them out to round it to a decimal,
13 s for 1e10000000."""


@cache
def _guarded(contract: Contract) -> Column:
    """`_lakesql_row`: the record as Spark reads it; NULL for a number that would stop the stream for minutes."""
    row = _reader(contract)(_text(), _with_corrupt(contract))
    if any(_holds_decimal(column.type) for column in contract.columns):
        return F.when(~_text().rlike(EXPONENT_BOMB), row)
    return row


def _holds_decimal(wanted: T.DataType) -> bool:
    match wanted:
        case T.DecimalType():
            return True
        case T.StructType(fields=fields):
            return any(_holds_decimal(field.dataType) for field in fields)
        case T.ArrayType(elementType=element) | T.MapType(valueType=element):
            return _holds_decimal(element)
        case _:
            return False


def _with_corrupt(contract: Contract, change: Callable[[T.DataType], T.DataType] = lambda same: same) -> T.StructType:
    fields = [T.StructField(column.name, change(column.type)) for column in contract.columns]
    return T.StructType([*fields, T.StructField(_CORRUPT, T.StringType())])


def _as_text(wanted: T.DataType) -> T.DataType:
    """The type with text in place of every value."""
    match wanted:
        case T.StructType(fields=fields):
            return T.StructType([T.StructField(field.name, _as_text(field.dataType)) for field in fields])
        case T.ArrayType(elementType=element):
            return T.ArrayType(_as_text(element))
        case T.MapType(valueType=element):
            return T.MapType(T.StringType(), _as_text(element))
        case _:
            return T.StringType()


def _shape(contract: Contract) -> parse_json.Shape | None:
    """The contract for the fast path, or None when it has a type that pyarrow and Spark read differently."""
    fields = []
    for column in contract.columns:
        arrow = _arrow_type(column.type)
        if arrow is None:
            return None
        fields.append((column.name, arrow))
    required = tuple(i for i, column in enumerate(contract.columns) if column.required)
    return parse_json.Shape(tuple(fields), required)


def _arrow_type(wanted: T.DataType) -> pa.DataType | None:
    match wanted:
        case T.StructType(fields=fields):
            children = [(field.name, _arrow_type(field.dataType)) for field in fields]
            return pa.struct(children) if children and all(child for _name, child in children) else None
        case T.ArrayType(elementType=element):
            child = _arrow_type(element)
            return pa.list_(child) if child else None
        case T.DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case _:
            return _ARROW_TYPES.get(type(wanted))


_ARROW_TYPES: dict[type[T.DataType], pa.DataType] = {
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.BooleanType: pa.bool_(),
    T.StringType: pa.string(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", "UTC"),
}


def _session_is_utc(frame: DataFrame) -> bool:
    """Whether a timestamp without a zone means UTC, as the fast path takes it."""
    return frame.sparkSession.conf.get("spark.sql.session.timeZone") in ("UTC", "Etc/UTC", "Z", "+00:00", "GMT")


def _text() -> Column:
    return F.col(_VALUE).cast("string")


def _carried(source: DataFrame) -> list[Column]:
    return [F.col(name) for name in source.columns if name not in (_VALUE, _KEY)]


def _exists(items: Column, test: Callable[[Column], Column | None]) -> Column | None:
    """Whether the test holds for an item; None when it is no test."""
    if test(F.lit(None)) is None:
        return None

    def holds(item: Column) -> Column:
        found = test(item)
        assert found is not None
        return F.coalesce(found, F.lit(False))

    return F.exists(items, holds)


def _any(conditions: Iterable[Column | None]) -> Column | None:
    known = [condition for condition in conditions if condition is not None]
    return reduce(operator.or_, known) if known else None


def _ddl(schema: T.StructType) -> str:
    return ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# Executors need pyarrow, but not lakesql: the parser travels with the query.
cloudpickle.register_pickle_by_value(parse_json)  # type: ignore[no-untyped-call]
