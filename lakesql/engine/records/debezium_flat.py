"""Flat records of Debezium's ExtractNewRecordState: the row itself, with what happened in fields of their own."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.debezium import KINDS, READ, SOURCE, TRANSACTION, by_name
from lakesql.engine.records.parse import from_json
from lakesql.names import CORRUPT

_FLAT = {
    **{each.name: (f"__source_{each.name}", f"__{each.name}") for each in SOURCE.fields},
    "total_order": ("__transaction_total_order", "__total_order"),
}
"""The names that a flat record may have for what happened: the connector's `add.fields`, with its prefix `__`."""


def flat_event(row: T.StructType) -> tuple[list[dict[str, Column]], Column]:
    """A flat record as an event of Debezium's, and before it what is to be read first.

    One without a value is a delete, whose row is the record's key. One that says nothing of what happened was inserted
    or updated. Where a schema stands beside it, `kinds` is that.
    """
    names = ["__op", "__deleted", *(alias for aliases in _FLAT.values() for alias in aliases)]
    texts = [T.StructField(name, T.StringType()) for name in (*names, CORRUPT)]
    found = F.col(READ)
    is_deleted = F.col("value").isNull() | F.coalesce(found["__deleted"] == "true", F.lit(False))
    op = F.when(is_deleted, "d").otherwise(F.coalesce(found["__op"], F.lit("u")))
    values = F.when(F.col("value").isNotNull(), F.struct(*(found[each.name].alias(each.name) for each in row.fields)))

    def other(name: str, wanted: T.DataType) -> Column:
        return F.coalesce(*(found[alias].try_cast(wanted) for alias in _FLAT[name])).alias(name)

    transaction = F.struct(F.lit(None).cast("string").alias("id"), other("total_order", T.LongType()))
    event = F.struct(
        F.when(op != "d", values).alias("after"),
        F.when(op == "d", values).alias("before"),
        op.alias("op"),
        F.lit(None).cast("bigint").alias("ts_ms"),
        F.struct(*(other(each.name, each.dataType) for each in SOURCE.fields)).alias("source"),
        transaction.cast(TRANSACTION).alias("transaction"),
        _kinds().alias("kinds"),
    )
    read = from_json(flat_text(), T.StructType([*row.fields, *texts]))
    return [{READ: read}], F.when(found[CORRUPT].isNull(), event)


def flat_text() -> Column:
    """The text of the row, which is the `payload` where a schema stands beside it."""
    text = F.col("value").cast("string")
    return F.when(has_schema(), F.get_json_object(text, "$.payload")).otherwise(text)


def has_schema() -> Column:
    """Whether a schema stands beside the row."""
    return _schema_fields().isNotNull()


def _kinds() -> Column:
    fields = F.from_json(_schema_fields(), T.ArrayType(KINDS.valueType))
    return by_name(fields).cast(KINDS)


def _schema_fields() -> Column:
    """The fields of the schema beside a row. Most rows have none, and are not searched for it."""
    text = F.col("value").cast("string")
    return F.when(text.contains('"payload"'), F.get_json_object(text, "$.schema.fields"))
