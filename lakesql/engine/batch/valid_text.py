"""Bytes that a SELECT has made text of, in the rows that are written: Parquet's readers refuse text that is not UTF-8.

Spark takes any bytes for text: `CAST(_record.key AS string)`. One such value makes a file that neither Arrow nor
pyiceberg reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.sources.binding import StreamBinding
from lakesql.names import is_reserved

_MAKES_BYTES = re.compile(
    r"\b(?:binary|unbase64|unhex|encode|try_to_binary|to_binary|aes_decrypt|try_aes_decrypt|"
    r"zstd_decompress|try_zstd_decompress|from_avro|to_avro|to_protobuf|url_decode|try_url_decode)\b|\bx'",
    re.IGNORECASE,
)
"""What bytes may come of in a SELECT, beside its streams."""


def with_valid_text(rows: DataFrame, select: Select, bindings: Sequence[StreamBinding]) -> DataFrame:
    """The rows, in whose texts U+FFFD stands for bytes that are not UTF-8, as `make_valid_utf8` has it.

    A key that is not UTF-8 is NULL, so that its record is a dead letter: the keys of two rows could become the same.
    """
    if not _may_make_text(select, bindings):
        return rows
    keys = {name.lower() for name in select.writing.not_null}
    columns = []
    for field in rows.schema.fields:
        value = F.col(identifier(field.name))
        if not is_reserved(field.name) and _has_text(field.dataType):
            value = _valid_key(value, field.dataType) if field.name.lower() in keys else _valid(value, field.dataType)
        columns.append(value.alias(field.name))
    return rows.select(*columns)


def _may_make_text(select: Select, bindings: Sequence[StreamBinding]) -> bool:
    if {"key", "headers"} & set(select.query.record_fields):
        return True
    has_binary = any("binary" in column.type for binding in bindings for column in binding.stream.columns)
    return has_binary or select.query.reads_tables or _MAKES_BYTES.search(select.text) is not None


def _has_text(kind: T.DataType) -> bool:
    match kind:
        case T.StringType():
            return True
        case T.StructType(fields=fields):
            return any(_has_text(field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return _has_text(element)
        case T.MapType(keyType=key, valueType=element):
            return _has_text(key) or _has_text(element)
        case _:
            return False


def _valid_key(value: Column, kind: T.DataType) -> Column:
    return F.when(F.is_valid_utf8(value), value) if isinstance(kind, T.StringType) else _valid(value, kind)


def _valid(value: Column, kind: T.DataType) -> Column:
    """The value with valid texts in it."""
    if not _has_text(kind):
        return value
    match kind:
        case T.StringType():
            return F.make_valid_utf8(value)
        case T.StructType(fields=fields):
            parts = (_valid(value[field.name], field.dataType).alias(field.name) for field in fields)
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(elementType=element):
            return F.transform(value, lambda item: _valid(item, element))
        case T.MapType(keyType=key, valueType=element):
            entries = F.transform(
                F.map_entries(value),
                lambda entry: F.struct(_valid(entry["key"], key).alias("key"), _valid(entry["value"], element)),
            )
            return F.map_from_entries(entries)
        case _:
            return value
