"""How flat records of Debezium's ExtractNewRecordState are parsed: each is the row
itself, with the metadata of the change in additional fields."""

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
"""The names that the connector's `add.fields` can give to each metadata field, without
the prefix."""

_DELETED = "__deleted"
"""The field that marks a record as a delete; its prefix is fixed."""

FIRST_PREFIX, SECOND_PREFIX = "__", "_"
"""The prefixes of the names of `add.fields` if the stream configures none: the default
one, and one that is common too. The second counts only in records whose field `_op` is
a valid `op`."""


def flat_event(
    row: T.StructType, prefix: str | None
) -> tuple[list[dict[str, Column]], Column]:
    """The stages to parse first, and over these a flat record as an event in Debezium's
    form.

    `prefix` is that of the metadata fields, None if the stream does not configure it. A
    record without a value is a delete, whose row is the record's key. A record without
    metadata is an insert or an update. If a schema stands beside the row, `kinds` is
    taken from it.
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
        """The value of a metadata field under any of its names; a name that the
        contract has as a column belongs to the row."""
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
    """Whether a field of a flat record is metadata: its name is one of `add.fields`, or
    the transform's own.

    If the stream configures no prefix, the usual ones are accepted.
    """
    prefixes = [FIRST_PREFIX, SECOND_PREFIX] if prefix is None else [prefix]
    words = dict.fromkeys(word for each in _ADDED.values() for word in each)
    own = [_DELETED, *(begin + word for begin in prefixes for word in words)]
    return name.isin(*own) | (
        name.startswith(prefixes[0]) if prefixes[0] else F.lit(False)
    )


def flat_text() -> Column:
    """The text of the row, which is in `payload` if a schema stands beside it."""
    text = F.col("value").cast("string")
    return F.when(has_schema(), F.get_json_object(text, "$.payload")).otherwise(text)


def has_schema() -> Column:
    """Whether a schema stands beside the row."""
    return _schema_fields().isNotNull()


def _kinds() -> Column:
    fields = F.from_json(_schema_fields(), T.ArrayType(KINDS.valueType))
    return by_name(fields).cast(KINDS)


def _schema_fields() -> Column:
    """The fields of the schema beside a row, as JSON; NULL if there is none. Most rows
    have none, and their text is not parsed for it."""
    text = F.col("value").cast("string")
    return F.when(
        text.contains('"payload"'), F.get_json_object(text, "$.schema.fields")
    )
