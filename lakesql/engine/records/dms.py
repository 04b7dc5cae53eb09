"""How the records of AWS DMS are parsed: `{"data": {…}, "metadata": {…}}`, or flat
ones, which are the row with a column `Op`.

The fields of `metadata`, and the records of type `control`, which concern a table:
"Using Apache Kafka as a target" in the user guide of AWS DMS.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.debezium import KINDS, READ, SOURCE, TRANSACTION
from lakesql.engine.records.parse import from_json
from lakesql.names import CORRUPT

_OPS = {"load": "r", "insert": "c", "update": "u", "delete": "d"}
_FLAT_OPS = {"I": "c", "U": "u", "D": "d"}
_METADATA = (
    *("timestamp", "record-type", "operation", "schema-name", "table-name"),
    *("transaction-id", "transaction-record-id", "commit-timestamp", "stream-position"),
)

_FLAT = "_lakesql_flat"


def dms_event(
    row: T.StructType, deletes_by_key: bool
) -> tuple[list[dict[str, Column]], Column]:
    """The stages to parse first, and over these a record as an event in Debezium's
    form.

    A record about a table has the op `m`, except a truncate. A record without
    `metadata` is flat, and names no table. If `deletes_by_key`, a record without a
    value is a delete.
    """
    text, found, flat = F.col("value").cast("string"), F.col(READ), F.col(_FLAT)
    metadata = T.StructType([T.StructField(name, T.StringType()) for name in _METADATA])
    fields = (
        T.StructType()
        .add("data", row)
        .add("before-image", row)
        .add("metadata", metadata)
        .add(CORRUPT, "string")
    )
    is_native = found["metadata"]["record-type"].isNotNull()
    flat_fields = T.StructType([*row.fields, T.StructField(CORRUPT, T.StringType())])
    read = {
        READ: from_json(text, fields),
        _FLAT: F.when(~is_native, from_json(text, flat_fields)),
    }
    native = F.when(found[CORRUPT].isNull(), _native(found))
    return [{name: column} for name, column in read.items()], F.when(
        is_native, native
    ).otherwise(_flat(flat, row, deletes_by_key))


def is_flat_op(name: Column) -> Column:
    """Whether a field is the one with the operation in a flat record, and no column of
    the row."""
    return name == "Op"


def _native(found: Column) -> Column:
    metadata, data = found["metadata"], found["data"]
    operation, kind = metadata["operation"], metadata["record-type"]
    control = F.when(operation == "truncate-table", F.lit("t")).otherwise(F.lit("m"))
    known = F.when(kind == "data", _mapped(operation, _OPS, "operation ")).when(
        kind == "control", control
    )
    op = F.coalesce(known, F.concat(F.lit("record-type "), kind))
    place, number = (
        metadata["stream-position"],
        metadata["transaction-record-id"].try_cast("bigint"),
    )
    lsn = [
        F.regexp_extract(place, "^([0-9A-Fa-f]+)/([0-9A-Fa-f]{1,8})([.]|$)", part)
        for part in (1, 2)
    ]
    file, at = (
        F.regexp_extract(place, "^([^:]+[.][0-9]+):([0-9]+)(:|$)", part)
        for part in (1, 2)
    )
    at_commit = F.coalesce(
        *(
            metadata[each].try_cast("timestamp")
            for each in ("commit-timestamp", "timestamp")
        )
    )
    source = {
        "schema": metadata["schema-name"],
        "table": F.coalesce(metadata["table-name"], F.lit("")),
        "file": F.when(file != "", file),
        "snapshot": F.when(operation == "load", F.lit("true")).otherwise(
            F.lit("false")
        ),
        "txId": metadata["transaction-id"],
        "lsn": F.when(
            lsn[0] != "",
            F.conv(F.concat(lsn[0], F.lpad(lsn[1], 8, "0")), 16, 10).try_cast("bigint"),
        ),
        "pos": at.try_cast("bigint"),
        "row": number,
        "ts_ms": F.unix_millis(at_commit),
    }
    return _event(
        op,
        F.when(op != "d", data),
        F.when(op == "d", data).otherwise(found["before-image"]),
        F.struct(
            *(
                source.get(each.name, F.lit(None)).alias(each.name)
                for each in SOURCE.fields
            )
        ).cast(SOURCE),
        F.struct(
            metadata["transaction-id"].alias("id"), number.alias("total_order")
        ).cast(TRANSACTION),
    )


def _flat(found: Column, row: T.StructType, deletes_by_key: bool) -> Column:
    """The event of a flat record, which has neither the row before an update nor the
    time and position of the change."""
    op = _mapped(
        F.get_json_object(F.col("value").cast("string"), "$.Op"), _FLAT_OPS, "Op "
    )
    if deletes_by_key:
        op = F.when(F.col("value").isNull(), F.lit("d")).otherwise(op)
    data = F.struct(*(found[each.name].alias(each.name) for each in row.fields))
    event = _event(
        op,
        F.when(op != "d", data),
        F.when((op == "d") & F.col("value").isNotNull(), data),
        F.lit(None).cast(SOURCE),
        None,
    )
    return F.when(found[CORRUPT].isNull(), event)


def _event(
    op: Column,
    after: Column,
    before: Column,
    source: Column,
    transaction: Column | None,
) -> Column:
    return F.struct(
        after.alias("after"),
        before.alias("before"),
        op.alias("op"),
        F.lit(None).cast("bigint").alias("ts_ms"),
        source.alias("source"),
        (F.lit(None).cast(TRANSACTION) if transaction is None else transaction).alias(
            "transaction"
        ),
        F.lit(None).cast(KINDS).alias("kinds"),
    )


def _mapped(word: Column, ops: dict[str, str], what: str) -> Column:
    """The op for a word; for an unknown word a text that is no op, and NULL if the word
    is NULL."""
    found = F.concat(F.lit(what), word)
    for name, op in ops.items():
        found = F.when(word == name, F.lit(op)).otherwise(found)
    return found
