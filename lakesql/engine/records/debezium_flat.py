"""Flat records of Debezium's ExtractNewRecordState: the row itself, with what happened
in fields of their own."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.debezium import (
    KINDS,
    OPS,
    READ,
    SOURCE,
    TRANSACTION,
    by_name,
)
from lakesql.engine.records.parse import from_json
from lakesql.names import CORRUPT

_ADDED = {
    "op": ("op",),
    **{each.name: (f"source_{each.name}", each.name) for each in SOURCE.fields},
    "total_order": ("transaction_total_order", "total_order"),
}
"""What the connector's `add.fields` may call what happened, behind its prefix."""

_DELETED = "__deleted"
"""Whether a record is a delete: this name has no other prefix."""

FIRST_PREFIX, SECOND_PREFIX = "__", "_"
"""Before the names of `add.fields`, unless the stream says another: the usual one, and
one that many say instead. A record whose field `_op` is no `op` has nothing that begins
with the second."""


def flat_event(
    row: T.StructType, prefix: str | None
) -> tuple[list[dict[str, Column]], Column]:
    """A flat record as an event of Debezium's, and before it what is to be read first.

    `prefix` stands before the names of what happened, None where the stream does not
    say which. A record without a value is a delete, whose row is the record's key. One
    that says nothing of what happened was inserted or updated. Where a schema stands
    beside it, `kinds` is that.
    """
    own = {name.lower() for name in row.names}
    prefixes = [FIRST_PREFIX, SECOND_PREFIX] if prefix is None else [prefix]
    names = [
        _DELETED,
        *(
            begin + word
            for words in _ADDED.values()
            for word in words
            for begin in prefixes
        ),
        CORRUPT,
    ]
    texts = [
        T.StructField(name, T.StringType())
        for name in dict.fromkeys(names)
        if name.lower() not in own
    ]
    found = F.col(READ)

    def said(name: str) -> Column:
        """What the record says under one of the names; a column that the contract has
        is the row's own."""
        first, *others = prefixes
        values = [found[first + word] for word in _ADDED[name]]
        for second in others:
            is_used = (
                found[f"{second}op"].isin(*OPS)
                if f"{second}op" not in own
                else F.lit(False)
            )
            values += [
                F.when(is_used, found[second + word])
                for word in _ADDED[name]
                if second + word not in own
            ]
        return F.coalesce(*values)

    is_deleted = F.col("value").isNull() | F.coalesce(
        found[_DELETED] == "true", F.lit(False)
    )
    op = F.when(is_deleted, "d").otherwise(F.coalesce(said("op"), F.lit("u")))
    values = F.when(
        F.col("value").isNotNull(),
        F.struct(*(found[each.name].alias(each.name) for each in row.fields)),
    )

    def other(name: str, wanted: T.DataType) -> Column:
        return said(name).try_cast(wanted).alias(name)

    transaction = F.struct(
        F.lit(None).cast("string").alias("id"), other("total_order", T.LongType())
    )
    event = F.struct(
        F.when(op != "d", values).alias("after"),
        F.when(op == "d", values).alias("before"),
        op.alias("op"),
        F.lit(None).cast("bigint").alias("ts_ms"),
        F.struct(*(other(each.name, each.dataType) for each in SOURCE.fields)).alias(
            "source"
        ),
        transaction.cast(TRANSACTION).alias("transaction"),
        _kinds().alias("kinds"),
    )
    read = from_json(flat_text(), T.StructType([*row.fields, *texts]))
    return [{READ: read}], F.when(found[CORRUPT].isNull(), event)


def is_added(name: Column, prefix: str | None) -> Column:
    """Whether a field of a flat record says what happened: it has a name of
    `add.fields`, or of the transform's own.

    Where the stream does not say what stands before those, each of the usual prefixes
    may.
    """
    prefixes = [FIRST_PREFIX, SECOND_PREFIX] if prefix is None else [prefix]
    words = dict.fromkeys(word for each in _ADDED.values() for word in each)
    own = [_DELETED, *(begin + word for begin in prefixes for word in words)]
    return name.isin(*own) | (
        name.startswith(prefixes[0]) if prefixes[0] else F.lit(False)
    )


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
    """The fields of the schema beside a row. Most rows have none, and are not searched
    for it."""
    text = F.col("value").cast("string")
    return F.when(
        text.contains('"payload"'), F.get_json_object(text, "$.schema.fields")
    )
