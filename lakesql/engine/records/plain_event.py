"""Which change events can be parsed the fast way (plain events): inserts and updates in
which each value is written as its column's type.

Most events of a feed are such. Their values are parsed in one pass over the text, and
the result is used only if nothing is wrong. Every other event is parsed to texts first
(`event.py`), which are then converted and checked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.change_values import (
    LONG_FRACTION,
    contract_hint,
    is_nested,
    is_unavailable,
    typed,
)
from lakesql.engine.records.debezium import HEAD_TEXTS, is_of, typed_head
from lakesql.engine.records.event import change_field
from lakesql.engine.records.folded import all_of
from lakesql.engine.records.json_text import invalid_text, is_rewritten
from lakesql.engine.records.parse import Contract, ContractColumn, from_json
from lakesql.names import CHANGE, CORRUPT

PLAIN = "_lakesql_plain"
"""The column with the result of the fast way: a struct of `values`, the row after the
change, of the fields of `HEAD`, and of `is_plain`: whether this is what the record has,
and nothing is wrong with it."""

_READ = "_lakesql_plain_read"

_TYPED = (T.ShortType, T.IntegerType, T.LongType, T.DoubleType)
"""Types for which Spark's JSON reader accepts numbers only, and reads each as its text
would be read; except a double that is not finite."""


def can_be_plain(contract: Contract, has_before: bool) -> bool:
    """Whether events of a feed may be plain: neither the row before a change nor a
    schema beside the event is needed, no column is nested, and none has times of day
    that may be numbers."""
    is_simple = (
        contract.envelope == "debezium"
        and not has_before
        and not contract.schema_fields
    )
    columns = contract.columns
    is_coded = any(it.unit and isinstance(it.type, T.StringType) for it in columns)
    return is_simple and not is_coded and not any(is_nested(it.type) for it in columns)


def with_plain(raw: DataFrame, contract: Contract, is_key_right: Column) -> DataFrame:
    """The raw records with `PLAIN`. `is_key_right`: whether the record's key has the
    columns of the stream's key."""
    row = T.StructType(
        [T.StructField(it.name, _read_type(it.type)) for it in contract.columns]
    )
    fields = [
        *HEAD_TEXTS,
        T.StructField("after", row),
        *(T.StructField(name, T.StringType()) for name in (_SCHEMA, CORRUPT)),
    ]
    is_bare = ~F.startswith(F.col("value"), F.lit(b'{"schema"'))
    read = F.when(
        is_bare, from_json(F.col("value").cast("string"), T.StructType(fields))
    )
    after = F.col(_READ)["after"]
    values = {it.name: _value(after[it.name], it) for it in contract.columns}
    is_plain = _is_plain(contract, values) & is_key_right
    # Outside a CASE an expression is evaluated once, however often it is used. The last
    # field keeps Spark from merging this projection with those above it, in which each
    # value is used several times.
    plain = F.struct(
        F.struct(*(value.alias(name) for name, value in values.items())).alias(
            "values"
        ),
        *(value.alias(name) for name, value in typed_head(F.col(_READ)).items()),
        is_plain.alias("is_plain"),
        F.spark_partition_id().alias("once"),
    )
    return raw.withColumn(_READ, read).withColumn(PLAIN, plain)


_SCHEMA = "schema"


def _read_type(wanted: T.DataType) -> T.DataType:
    """The type that Spark's reader is given for a column: its own, if it reads a number
    like the number's text; else text."""
    return wanted if isinstance(wanted, _TYPED) else T.StringType()


def _value(read: Column, column: ContractColumn) -> Column:
    return (
        read
        if isinstance(column.type, _TYPED)
        else typed(read, column.type, contract_hint(column))
    )


def _is_plain(contract: Contract, values: Mapping[str, Column]) -> Column:
    """Whether nothing is wrong with an event: every fault of `find_faults` that can
    occur here is checked."""
    read, after = F.col(_READ), F.col(_READ)["after"]
    record = F.col("value").cast("string")
    asked = [
        read[CORRUPT].isNull()
        & read[_SCHEMA].isNull()
        & read["op"].isin("c", "u", "r")
        & after.isNotNull()
    ]
    asked.append(invalid_text(record).isNull())
    if contract.source_table:
        asked.append(is_of(read["source"], contract.source_table))
    for name in contract.sequence:
        is_field = name.startswith(f"{CHANGE}.")
        field = (
            change_field(name.split(".")[1], typed_head(F.col(_READ)), contract)
            if is_field
            else after[name]
        )
        asked.append(field.isNotNull())
    for column in contract.columns:
        value, text = values[column.name], after[column.name]
        if column.required or column.name in contract.key:
            asked.append(value.isNotNull())
        match column.type:
            case T.ShortType() | T.IntegerType() | T.LongType():
                pass
            case T.DoubleType():
                asked.append(value.isNull() | (F.abs(value) < float("inf")))
            case T.StringType():
                asked.append(
                    ~is_unavailable(text) & ~is_rewritten(text, record, column.name)
                )
            case T.BinaryType():
                asked.append(
                    (text.isNull() | value.isNotNull()) & ~is_unavailable(text)
                )
            case _:
                asked.append(text.isNull() | value.isNotNull())
    if any(isinstance(column.type, T.DecimalType) for column in contract.columns):
        asked.append(~record.rlike(LONG_FRACTION))
    return F.coalesce(all_of(asked), F.lit(False))
