"""Change events: from the raw records of a topic to the columns of the row that changed, and `_change`.

Debezium's value is `{"before": …, "after": …, "op": …, "ts_ms": …, "source": {…}, "transaction": {…}}`, with or without
a schema around it (`{"schema": …, "payload": …}`). How a value is written depends on the database and on the settings
of the connector, so each is read as text, and then as the contract's type, or the record is a dead letter. Where the
schema stands beside the event, it says what a number counts, and which scale the bytes of a decimal have.

A flat record (`debezium_flat`) is the row itself, with what happened in fields of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.parse import (
    COMMON_DAYS,
    COMMON_TIMES,
    CORRUPT,
    REQUIRED_MISSING,
    SEQUENCE_MISSING,
    UNPARSABLE,
    Contract,
    ContractColumn,
    as_text,
    from_json,
    raw_struct,
    record_struct,
    rejected_struct,
    with_each,
)
from lakesql.names import CHANGE, IGNORED, NEW_FIELDS, ROW, UNSENT
from lakesql.stream.feed_schema import FIELD_PARTS, SEPARATOR
from lakesql.stream.stream import CHANGE_FIELDS

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a large value that the change did not touch: Postgres does not send it."""

SENT_BY = "REPLICA IDENTITY FULL sends it"
"""How one gets it all the same."""

_EVENT = "_lakesql_event"
_BEFORE = "_lakesql_before"
_REASON = "_lakesql_reason"
_KEY = "_lakesql_key"


def parse_changes(
    raw: DataFrame, contract: Contract, keep: frozenset[str], keep_change: frozenset[str], keep_raw: bool = False
) -> DataFrame:
    """The columns of each change's row, `_record` and `_change` with the fields that are kept (if any),
    `_lakesql_rejected`, `_lakesql_ignored` and `_lakesql_new_fields`.

    The row is the one after the change; of a delete it is the one before it, of which a database may send no more than
    the key. A truncate has none: all columns are NULL. Tombstones, which follow a delete for the broker's sake, and
    messages (`pg_logical_emit_message`) are ignored. Everything else is as `parse_records` has it.
    """
    read = with_each(raw, _read(contract))
    judged = with_each(read, {_REASON: _first(fault.reason for fault in _faults(contract))})
    change = [_change_field(name, contract).alias(name) for name in (*CHANGE_FIELDS, "before") if name in keep_change]
    return judged.select(
        *_row_columns(F.col(ROW), contract),
        *([record_struct(keep)] if keep else []),
        *([F.struct(*change).alias(CHANGE)] if change else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(F.col(_REASON)),
        _is_ignored(contract).alias(IGNORED),
        *([_unsent(contract).alias(UNSENT)] if contract.kept else []),
        (_new_fields(contract) if contract.schema_fields else _absent(contract)).alias(NEW_FIELDS),
    )


def with_change_detail(rejected: DataFrame, contract: Contract) -> DataFrame:
    """Rejected raw records with the column `detail`: what was wrong, with the column that it was in."""
    read = _read(contract)
    return with_each(rejected, {**read, "detail": _first(fault.detail for fault in _faults(contract))}).drop(*read)


# --- the event


_SOURCE = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in ("file", "snapshot", "txId")),
        *(T.StructField(name, T.LongType()) for name in ("lsn", "pos", "row", "ts_ms")),
    ]
)
_TRANSACTION = T.StructType([T.StructField("id", T.StringType()), T.StructField("total_order", T.LongType())])


def _read(contract: Contract) -> dict[str, Column]:
    """The columns that reading adds: the event, the record's key, and the rows after and before as texts."""
    row = T.StructType([T.StructField(column.name, as_text(column.type)) for column in contract.columns])
    fields = [
        *(T.StructField(name, row) for name in ("after", "before")),
        T.StructField("op", T.StringType()),
        T.StructField("ts_ms", T.LongType()),
        T.StructField("source", _SOURCE),
        T.StructField("transaction", _TRANSACTION),
    ]
    key = F.col("key").cast("string")
    key = F.when(F.get_json_object(key, "$.schema.fields").isNull(), key).otherwise(F.get_json_object(key, "$.payload"))
    event = T.StructType(fields)
    return {
        _EVENT: _flat_event(event, row) if contract.envelope == "debezium_flat" else _event(event),
        _KEY: F.when(_op() == "d", from_json(key, row)),
        ROW: F.when(_op().isin("c", "u", "r"), F.col(_EVENT)["after"]).when(
            _op() == "d", F.coalesce(F.col(_EVENT)["before"], F.col(_KEY))
        ),
        _BEFORE: F.col(_EVENT)["before"],
    }


_PARAMETERS = {"scale": "scale", "precision": "connect.decimal.precision"}
_KIND = T.StructType([T.StructField(part, T.StringType()) for part in FIELD_PARTS if part not in _PARAMETERS])
_KIND = _KIND.add("parameters", T.StructType([T.StructField(name, T.StringType()) for name in _PARAMETERS.values()]))
_KINDS = T.MapType(T.StringType(), _KIND)
_SIDE = T.StructType().add("field", "string").add("fields", T.ArrayType(_KIND))
_SCHEMA = T.StructType().add("fields", T.ArrayType(_SIDE))
"""Of the schema beside an event, what says how values are written; `_KINDS` is that by column."""


def _new_fields(contract: Contract) -> Column:
    """What the event's schema says of columns and the stream does not know (`fields`), and which of its columns the
    schema does not have (`gone`). NULL where the stream knows all of it."""

    def text(kind: Column) -> Column:
        parts = (kind["parameters"][_PARAMETERS[part]] if part in _PARAMETERS else kind[part] for part in FIELD_PARTS)
        return F.concat_ws(SEPARATOR, *(F.coalesce(part, F.lit("")) for part in parts))

    kinds = F.col(_EVENT)["kinds"]
    known = F.array(*map(F.lit, contract.schema_fields))
    gone = F.array_except(F.array(*(F.lit(column.name) for column in contract.columns)), F.map_keys(kinds))

    def told(said: Column) -> Column:
        new = F.array_except(said, known)
        return F.when((said != known) & (F.size(new) > 0), F.struct(new.alias("fields"), gone.alias("gone")))

    return _bound(F.transform(F.map_values(kinds), text), told)


def _absent(contract: Contract) -> Column:
    """Which declared columns a change does not have (`gone`), and which it has beside them (`fields`).

    NULL where it has all of them. Only what is NULL is looked for, by its name in the whole text: a column of the row
    before the change is one of the row after it too.
    """
    row, text = F.col(ROW), F.col("value").cast("string")
    names = [column.name for column in contract.columns if json.dumps(column.name) == f'"{column.name}"']
    looked_for = (F.when(row[it].isNull() & ~text.contains(f'"{it}"'), F.lit(it)) for it in names)
    gone = F.array_compact(F.array(*looked_for).cast("array<string>"))
    rows = (F.get_json_object(text, path) for path in ("$.payload.after", "$.after"))
    keys = F.json_object_keys(text if contract.envelope == "debezium_flat" else F.coalesce(*rows))
    columns = F.array(*(F.lit(column.name) for column in contract.columns))
    beside = F.filter(F.array_except(keys, columns), lambda name: ~name.startswith("__"))
    is_change = _op().isin("c", "u", "r") & F.col(_REASON).isNull()

    def told(absent: Column) -> Column:
        found = F.struct(F.coalesce(beside, F.array().cast("array<string>")).alias("fields"), absent.alias("gone"))
        return F.when(F.size(absent) > 0, found)

    return F.when(is_change, _bound(gone, told))


def _event(kind: T.StructType) -> Column:
    """The event, or the one in the `payload` where a schema stands beside it. NULL where there is none.

    Its field `kinds` is what the schema says of the columns of the row after the change, by their names.
    """
    added = [
        T.StructField("schema", _SCHEMA),
        T.StructField("payload", kind),
        T.StructField(CORRUPT, T.StringType()),
    ]
    read = from_json(F.col("value").cast("string"), T.StructType([*kind.fields, *added]))

    def opened(found: Column) -> Column:
        is_wrapped = found["op"].isNull()
        rows = F.filter(found["schema"]["fields"], lambda field: field["field"] == "after")
        kinds = F.map_from_entries(F.transform(F.get(rows, F.lit(0))["fields"], lambda it: F.struct(it["field"], it)))
        fields = (F.when(is_wrapped, found["payload"][it.name]).otherwise(found[it.name]).alias(it.name) for it in kind)
        return F.when(found[CORRUPT].isNull(), F.struct(*fields, kinds.alias("kinds")))

    return _bound(read, opened)


_FLAT = {
    **{each.name: (f"__source_{each.name}", f"__{each.name}") for each in _SOURCE.fields},
    "total_order": ("__transaction_total_order", "__total_order"),
}
"""The names that a flat record may have for what happened: the connector's `add.fields`, with its prefix `__`."""


def _flat_event(event: T.StructType, row: T.StructType) -> Column:
    """A flat record as an event. One without a value is a delete, whose row is the record's key.

    One that says nothing of what happened was inserted or updated.
    """
    names = ["__op", "__deleted", *(alias for aliases in _FLAT.values() for alias in aliases)]
    texts = [T.StructField(name, T.StringType()) for name in (*names, CORRUPT)]
    read = from_json(F.col("value").cast("string"), T.StructType([*row.fields, *texts]))

    def opened(found: Column) -> Column:
        is_deleted = F.col("value").isNull() | F.coalesce(found["__deleted"] == "true", F.lit(False))
        op = F.when(is_deleted, "d").otherwise(F.coalesce(found["__op"], F.lit("u")))
        values = F.when(
            F.col("value").isNotNull(), F.struct(*(found[each.name].alias(each.name) for each in row.fields))
        )

        def other(name: str, wanted: T.DataType) -> Column:
            return F.coalesce(*(found[alias].try_cast(wanted) for alias in _FLAT[name])).alias(name)

        filled = {
            "after": F.when(op != "d", values),
            "before": F.when(op == "d", values),
            "op": op,
            "source": F.struct(*(other(each.name, each.dataType) for each in _SOURCE.fields)),
            "transaction": F.struct(F.lit(None).cast("string").alias("id"), other("total_order", T.LongType())),
        }
        fields = (filled.get(it.name, F.lit(None)).cast(it.dataType).alias(it.name) for it in event.fields)
        return F.when(found[CORRUPT].isNull(), F.struct(*fields, F.lit(None).cast(_KINDS).alias("kinds")))

    return _bound(read, opened)


def _op() -> Column:
    return F.col(_EVENT)["op"]


def _is_ignored(contract: Contract) -> Column:
    """Whether a record is no change: a message, or a tombstone behind a delete. A flat tombstone is the delete."""
    is_message = F.coalesce(_op() == "m", F.lit(False))
    return is_message if contract.envelope == "debezium_flat" else F.col("value").isNull() | is_message


def _change_field(name: str, contract: Contract) -> Column:
    source, transaction = F.col(_EVENT)["source"], F.col(_EVENT)["transaction"]
    match name:
        case "op":
            return _op()
        case "ts":
            return F.timestamp_millis(F.coalesce(source["ts_ms"], F.col(_EVENT)["ts_ms"]))
        case "position":
            # Postgres: the log's position, then the order in the transaction. MySQL and MariaDB: the number of the
            # log's file, the position and the row in it. As numbers: file 10 comes after file 9.
            number = F.regexp_extract(source["file"], r"([0-9]+)$", 1).try_cast("bigint")
            lsn = F.array_compact(F.array(source["lsn"], transaction["total_order"]))
            place = F.array_compact(F.array(number, source["pos"], source["row"]))
            return F.when(source["lsn"].isNotNull(), lsn).when(source["pos"].isNotNull(), place)
        case "tx":
            return F.coalesce(source["txId"], transaction["id"])
        case "snapshot":
            return F.coalesce(source["snapshot"] != "false", F.lit(False))
        case _:
            return F.when(F.col(_BEFORE).isNotNull(), F.struct(*_row_columns(F.col(_BEFORE), contract)))


# --- what makes it a dead letter


@dataclass(frozen=True, slots=True)
class _Fault:
    """One thing that makes an event bad: the reason and the detail, both NULL where it does not hold."""

    reason: Column
    detail: Column


def _faults(contract: Contract) -> Iterator[_Fault]:
    op, row = _op(), F.col(ROW)

    def fault(holds: Column, reason: str, detail: Column | str) -> _Fault:
        said = F.lit(detail) if isinstance(detail, str) else detail
        return _Fault(F.when(holds, F.lit(reason)), F.when(holds, said))

    is_record = ~_is_ignored(contract)
    no_event = is_record & (F.col(_EVENT).isNull() | op.isNull())
    yield fault(no_event, UNPARSABLE, "not a change event: no JSON object with an `op`")
    unknown = is_record & ~op.isin("c", "u", "r", "d", "t")
    yield fault(unknown, UNPARSABLE, F.concat(F.lit("unknown op: "), op))
    yield fault(op.isin("c", "u", "r") & row.isNull(), UNPARSABLE, "the event has no `after`")
    yield fault((op == "d") & row.isNull(), UNPARSABLE, "the event has no `before`, and the record no key")
    if contract.schema_fields:
        is_bare = op.isin("c", "u", "r", "d") & F.col(_EVENT)["kinds"].isNull()
        yield fault(is_bare, UNPARSABLE, "no schema beside the event, and the stream declares no columns")
    for name in contract.sequence:
        if name.startswith(f"{CHANGE}."):
            is_missing = op.isin("c", "u", "r", "d", "t") & _change_field(name.split(".")[1], contract).isNull()
        else:
            is_missing = op.isin("c", "u", "r", "d") & row[name].isNull()
        yield fault(is_missing, SEQUENCE_MISSING, name)
    for column in contract.columns:
        text, kind = row[column.name], column.type.simpleString()
        unsent, is_kept = _is_unavailable(text, column.type), column.name in contract.kept
        yield fault(
            op.isin(*(("c", "r") if is_kept else ("c", "u", "r"))) & unsent,
            UNPARSABLE,
            f"{column.name}: not in the event, as the change did not touch it. {SENT_BY}",
        )
        # Of a row that is deleted a database may send the key alone, with anything in the place of the others.
        is_asked = column.name in (*contract.key, *contract.sequence)
        asked = ("c", "u", "r", "d") if is_asked else ("c", "u", "r")
        is_time = isinstance(column.type, T.TimestampType | T.TimestampNTZType) and column.unit is None
        what = f"{column.name}: not a {kind}{', or a number and the contract has no `unit` for it' if is_time else ''}"
        misfits = _misfits(text, column.type, _hint(column))
        yield fault(op.isin(*asked) & (misfits & ~unsent if is_kept else misfits), UNPARSABLE, what)
        if column.required or column.name in contract.key:
            yield fault(op.isin(*asked) & text.isNull(), REQUIRED_MISSING, column.name)


def _unsent(contract: Contract) -> Column:
    """The columns that an update has not sent."""
    row = F.col(ROW)
    types = {column.name: column.type for column in contract.columns}
    names = (F.when(_is_unavailable(row[name], types[name]), F.lit(name)) for name in contract.kept)
    return F.array_compact(F.array(*names))


def _first(each: Iterator[Column]) -> Column:
    return F.coalesce(*each, F.lit(None).cast("string"))


# --- values


def _row_columns(row: Column, contract: Contract) -> list[Column]:
    """The columns of a row of texts, as their types."""
    columns = []
    for column in contract.columns:
        text = row[column.name]
        value = _value(text, column.type, _hint(column))
        if column.name in contract.kept:
            value = F.when(~_is_unavailable(text, column.type), value)
        columns.append(value.alias(column.name))
    return columns


@dataclass(frozen=True, slots=True)
class _Hint:
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


def _hint(column: ContractColumn) -> _Hint:
    kind = F.try_element_at(F.col(_EVENT)["kinds"], F.lit(column.name))
    unit = F.lit(column.unit)
    if isinstance(column.type, T.TimestampType | T.TimestampNTZType):
        known = F.create_map(*(F.lit(word) for pair in _UNITS.items() for word in pair))
        unit = F.coalesce(F.try_element_at(known, kind["name"]), unit)
    is_bytes = kind["name"] == "org.apache.kafka.connect.data.Decimal"
    return _Hint(unit, F.when(is_bytes, kind["parameters"]["scale"]))


_UNAVAILABLE_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


def _is_unavailable(text: Column, wanted: T.DataType) -> Column:
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


def _misfits(text: Column, wanted: T.DataType, hint: _Hint) -> Column:
    """Whether a value, or one within it, is no value of its type."""
    match wanted:
        case T.StructType(fields=fields):
            found = F.lit(False)
            for field in fields:
                found = found | _misfits(text[field.name], field.dataType, hint)
            return F.coalesce(found, F.lit(False))
        case T.ArrayType(elementType=element):
            return F.coalesce(F.exists(text, lambda item: _misfits(item, element, hint)), F.lit(False))
        case T.MapType(valueType=element):
            return F.coalesce(F.exists(F.map_values(text), lambda item: _misfits(item, element, hint)), F.lit(False))
        case _:
            return text.isNotNull() & _value(text, wanted, hint).isNull()


def _value(text: Column, wanted: T.DataType, hint: _Hint) -> Column:
    """A value of the contract's type, of its text, or NULL where it is none."""
    match wanted:
        case T.StructType(fields=fields):
            values = (_value(text[f.name], f.dataType, hint).alias(f.name) for f in fields)
            return F.when(text.isNotNull(), F.struct(*values))
        case T.ArrayType(elementType=element):
            return F.transform(text, lambda item: _value(item, element, hint))
        case T.MapType(valueType=element):
            return F.transform_values(text, lambda _, item: _value(item, element, hint))
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
            return _bound(written, lambda number: _decimal(number, wanted))
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
    return _bound(digits, lambda bound: _bound(_whole(bound), lambda whole: _with_point(whole, scale.try_cast("int"))))


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


def _bound(value: Column, use: Callable[[Column], Column]) -> Column:
    """What `use` makes of a value that it names more than once: it is worked out once, as a lambda's argument."""
    return F.transform(F.array(value), use)[0]
