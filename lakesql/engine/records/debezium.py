"""Debezium's events: `{"before": …, "after": …, "op": …, "ts_ms": …, "source": {…}, "transaction": {…}}`, with or
without a schema around them (`{"schema": …, "payload": …}`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.parse import from_json
from lakesql.names import CORRUPT
from lakesql.stream.feed_schema import FIELD_PARTS, SEPARATOR

SOURCE = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in ("file", "snapshot", "txId")),
        *(T.StructField(name, T.LongType()) for name in ("lsn", "pos", "row", "ts_ms")),
    ]
)
TRANSACTION = T.StructType([T.StructField("id", T.StringType()), T.StructField("total_order", T.LongType())])

HEAD = (
    T.StructField("op", T.StringType()),
    T.StructField("ts_ms", T.LongType()),
    T.StructField("source", SOURCE),
    T.StructField("transaction", TRANSACTION),
)
"""What an event has besides its rows."""

_PARAMETERS = {"scale": "scale", "precision": "connect.decimal.precision"}
_KIND = T.StructType([T.StructField(part, T.StringType()) for part in FIELD_PARTS if part not in _PARAMETERS])
_KIND = _KIND.add("parameters", T.StructType([T.StructField(name, T.StringType()) for name in _PARAMETERS.values()]))
KINDS = T.MapType(T.StringType(), _KIND)
"""Of the schema beside an event, what says how values are written, by column."""

_SIDE = T.StructType().add("field", "string").add("fields", T.ArrayType(_KIND))
_SCHEMA = T.StructType().add("fields", T.ArrayType(_SIDE))

Head = Column | Mapping[str, Column]
"""The fields of `HEAD`, by their names."""

READ = "_lakesql_read"
"""What stands in a record, as its envelope has it."""


def debezium_event(row: T.StructType) -> tuple[list[dict[str, Column]], Column]:
    """The event, or the one in the `payload` where a schema stands beside it; before it what is to be read first.

    NULL where there is none. Its field `kinds` is what the schema says of the columns of the row after the change, by
    their names.
    """
    fields = [*(T.StructField(name, row) for name in ("after", "before")), *HEAD]
    added = [
        T.StructField("schema", _SCHEMA),
        T.StructField("payload", T.StructType(fields)),
        T.StructField(CORRUPT, T.StringType()),
    ]
    found = F.col(READ)
    is_wrapped = found["op"].isNull()
    rows = F.filter(found["schema"]["fields"], lambda field: field["field"] == "after")
    each = (F.when(is_wrapped, found["payload"][it.name]).otherwise(found[it.name]).alias(it.name) for it in fields)
    read = from_json(F.col("value").cast("string"), T.StructType([*fields, *added]))
    kinds = F.when(found["schema"].isNotNull(), by_name(F.get(rows, F.lit(0))["fields"]))
    return [{READ: read}], F.when(found[CORRUPT].isNull(), F.struct(*each, kinds.alias("kinds")))


def by_name(fields: Column) -> Column:
    """The fields of a schema as `KINDS`."""
    return F.map_from_entries(F.transform(fields, lambda it: F.struct(it["field"], it)))


def compact(*values: Column) -> Column:
    """An array of those values that are not NULL."""
    return F.concat(*(F.when(value.isNotNull(), F.array(value)).otherwise(F.array()) for value in values))


def kind_text(kind: Column) -> Column:
    """The text of the `FieldSchema` that a value of `KINDS` is."""
    parts = (kind["parameters"][_PARAMETERS[part]] if part in _PARAMETERS else kind[part] for part in FIELD_PARTS)
    return F.concat_ws(SEPARATOR, *(F.coalesce(part, F.lit("")) for part in parts))


def debezium_field(event: Head, name: str) -> Column:
    """A field of `_change` but for `op` and `before`."""
    source, transaction = event["source"], event["transaction"]
    match name:
        case "ts":
            return F.timestamp_millis(F.coalesce(source["ts_ms"], event["ts_ms"]))
        case "position":
            # Postgres: the log's position, then the order in the transaction. MySQL and MariaDB: the number of the
            # log's file, the position and the row in it. As numbers: file 10 comes after file 9.
            number = F.regexp_extract(source["file"], r"([0-9]+)$", 1).try_cast("bigint")
            lsn = compact(source["lsn"], transaction["total_order"])
            place = compact(number, source["pos"], source["row"])
            return F.when(source["lsn"].isNotNull(), lsn).when(source["pos"].isNotNull(), place)
        case "tx":
            return F.coalesce(source["txId"], transaction["id"])
        case _:
            return F.coalesce(source["snapshot"] != "false", F.lit(False))
