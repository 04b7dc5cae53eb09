"""How the columns of parsed records are renamed from the names of their fields (`from`)
to those of the contract."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.names import CHANGE, FROM, TOMBSTONE, UNSENT
from lakesql.stream.stream import Stream


def in_columns(parsed: DataFrame, stream: Stream) -> DataFrame:
    """Parsed records of a stream, with columns named as in the contract instead of as
    the fields from which they are read.

    The row before a change, keys, and the lists of columns that are missing in a change
    event are renamed too.
    """
    names = {
        column.field: column.name
        for column in stream.columns
        if column.field != column.name
    }
    if not names:
        return parsed
    return parsed.select(*(_renamed(field, names) for field in parsed.schema.fields))


def _renamed(field: T.StructField, names: Mapping[str, str]) -> Column:
    value = F.col(identifier(field.name))
    if field.name in (FROM, TOMBSTONE):
        value = value.cast(_row(field.dataType, names))
    elif field.name == CHANGE and "before" in _names_of(field.dataType):
        value = value.withField(
            "before",
            value["before"].cast(_row(_type_at(field.dataType, "before"), names)),
        )
    elif field.name == UNSENT:
        known = F.create_map(*(F.lit(word) for pair in names.items() for word in pair))
        value = F.transform(
            value, lambda name: F.coalesce(F.try_element_at(known, name), name)
        )
    return value.alias(names.get(field.name, field.name))


def _names_of(kind: T.DataType) -> list[str]:
    assert isinstance(kind, T.StructType)
    return kind.names


def _type_at(kind: T.DataType, name: str) -> T.DataType:
    assert isinstance(kind, T.StructType)
    return kind[name].dataType


def _row(kind: T.DataType, names: Mapping[str, str]) -> T.StructType:
    """The type of a row, with its fields renamed."""
    assert isinstance(kind, T.StructType)
    return T.StructType(
        [T.StructField(names.get(it.name, it.name), it.dataType) for it in kind.fields]
    )
