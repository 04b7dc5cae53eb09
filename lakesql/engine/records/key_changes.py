"""Which records belong to the change of a row's key: Debezium sends each as two, the
delete of the old key and the insert of the new one."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.debezium import Head
from lakesql.engine.records.event import BEFORE, op_of, read_event
from lakesql.engine.records.parse import Contract, with_stages
from lakesql.names import MOVE, RAW, ROW

_HEADERS = {"c": "__debezium.oldkey", "d": "__debezium.newkey"}
"""The header that marks an insert or a delete as part of a key change: it has the key
of the other record."""


def is_half(contract: Contract, event: Head) -> Column:
    """Whether a record is the delete or the insert of a key change, and has a log
    position by which the other record can be found."""
    if not contract.moves:
        return F.lit(False)

    def has(header: str) -> Column:
        return F.coalesce(
            F.array_contains(F.col("headers")["key"], header), F.lit(False)
        )

    source = event["source"]
    is_placed = F.coalesce(source["lsn"], source["pos"]).isNotNull()
    is_marked = reduce(
        or_, ((event["op"] == op) & has(header) for op, header in _HEADERS.items())
    )
    return F.coalesce(is_marked & is_placed, F.lit(False))


def half(contract: Contract, event: Head) -> Column:
    """`_lakesql_half`. It is equal for the delete and the insert, as both have the same
    position in the database's log."""
    source = event["source"]
    parts = (
        F.col("topic"),
        source["file"],
        *(source[name].cast("string") for name in ("lsn", "pos", "row")),
    )
    return F.when(is_half(contract, event), F.concat_ws(" ", *parts))


def move(contract: Contract) -> Column:
    """`_lakesql_move`: hashes of the row's columns before and after the change."""
    op, before = op_of(), F.col(BEFORE)

    def hashed(row: Column) -> Column:
        hashes = []
        for column in contract.columns:
            if column.name not in contract.key:
                value = row[column.name]
                # Spark does not hash maps
                has_map = "map<" in column.type.simpleString()
                hashes.append(F.xxhash64(F.to_json(value) if has_map else value))
        return F.array(*hashes).cast("array<bigint>")

    return F.struct(
        F.when(
            (op == "c") | (op == "u") & before.isNotNull(), hashed(F.col(ROW))
        ).alias("added"),
        F.when(op.isin("u", "d") & before.isNotNull(), hashed(before)).alias("removed"),
    )


_CHANGE = "_lakesql_parsed"


def with_moves(changes: DataFrame, contract: Contract) -> DataFrame:
    """Parsed changes with `_lakesql_move` computed, for which each record is parsed
    once more, as only few batches need it."""
    if splits_updates(contract):
        return changes
    raw = (F.col(RAW)[name].alias(name) for name in ("key", "value"))
    packed = changes.select(F.struct("*").alias(_CHANGE), *raw)
    read = with_stages(packed, read_event(contract, False))
    others = (
        F.col(_CHANGE)[name].alias(name) for name in changes.columns if name != MOVE
    )
    return read.select(*others, move(contract).alias(MOVE))


def splits_updates(contract: Contract) -> bool:
    """Whether an update of a row's key arrives as one record and becomes two changes
    (DMS)."""
    return contract.envelope == "dms" and bool(contract.key)


def no_key(contract: Contract) -> Column:
    """NULL, with the type of a struct of the key's columns."""
    columns = (
        T.StructField(column.name, column.type)
        for column in contract.columns
        if column.name in contract.key
    )
    return F.lit(None).cast(T.StructType(list(columns)))
