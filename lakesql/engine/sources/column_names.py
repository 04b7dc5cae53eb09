"""The names of a contract's columns, in place of those that records have for them
(`from`)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.names import CHANGE, FROM, TOMBSTONE, UNSENT
from lakesql.stream.stream import Stream


def in_columns(parsed: DataFrame, stream: Stream) -> DataFrame:
    """Parsed records of a stream, whose columns have the names of the fields that they
    are read from, by their own.

    What is said of records is renamed with them: the row before a change, keys, and the
    columns that were not sent.
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
    """The type of a row, with the columns' names."""
    assert isinstance(kind, T.StructType)
    return T.StructType(
        [T.StructField(names.get(it.name, it.name), it.dataType) for it in kind.fields]
    )
