"""How text that is not UTF-8 is replaced in the rows that are written: Parquet's
readers refuse a file with it.

Spark accepts any bytes as text, as in `CAST(_record.key AS string)`. One such value
makes a file that neither Arrow nor pyiceberg reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.sources.binding import StreamBinding
from lakesql.names import REPLACED, is_reserved

_MAKES_BYTES: dict[str, bool] = {}
"""Whether a SELECT has binary values anywhere, by its text: asking Spark takes
milliseconds."""


def with_valid_text(
    rows: DataFrame,
    select: Select,
    bindings: Sequence[StreamBinding],
    counters: BatchCounters | None = None,
) -> DataFrame:
    """The rows, with U+FFFD in place of bytes that are not UTF-8, as `make_valid_utf8`
    replaces them; the values are counted by `counters`.

    If such text makes dead letters instead (`select.judges_text`), columns are left as
    they are, except those that have binary values too.
    """
    if not _may_be_invalid(rows, select, bindings):
        return rows
    texts = {
        field.name: field.dataType
        for field in rows.schema.fields
        if _is_replaced(field, select)
    }
    if not texts:
        return rows
    keys = {
        name.lower() for name in (*select.writing.keys, *select.writing.sequence_by)
    }
    of_bytes = select.text_of_bytes
    invalid = {
        name: _is_invalid(F.col(identifier(name)), kind, name.lower() in of_bytes)
        for name, kind in texts.items()
    }
    in_keys = [found for name, found in invalid.items() if name.lower() in keys]
    counted = rows
    if counters is not None:
        counted = counters.texts(rows, list(invalid.values()), in_keys)
    return counted.select(
        *(
            _valid(F.col(identifier(name)), texts[name]).alias(name)
            if name in texts
            else F.col(identifier(name))
            for name in rows.columns
        )
    )


def _is_replaced(field: T.StructField, select: Select) -> bool:
    if is_reserved(field.name) or not _has_text(field.dataType):
        return False
    return not select.judges_text or "binary" in field.dataType.simpleString()


def _may_be_invalid(
    rows: DataFrame, select: Select, bindings: Sequence[StreamBinding]
) -> bool:
    """Whether the SELECT reads text that was not checked, or has binary values
    anywhere.

    Texts of JSON, CSV and change feeds are valid; otherwise their records are dead
    letters.
    """
    if select.query.reads_tables or not all(map(_is_judged, bindings)):
        return True
    if any(
        "binary" in column.type
        for binding in bindings
        for column in binding.stream.columns
    ):
        return True
    if select.text not in _MAKES_BYTES:
        names = {binding.stream.name.lower() for binding in bindings}
        _MAKES_BYTES[select.text] = _has_bytes(
            rows._jdf.queryExecution().analyzed(), names
        )
    return _MAKES_BYTES[select.text]


def _is_judged(binding: StreamBinding) -> bool:
    return binding.stream.record_format.is_text and not binding.has_rows


def _has_bytes(plan: Any, streams: set[str]) -> bool:
    """Whether an expression of an analysed plan, outside of its streams, is or has a
    binary value."""
    is_named = str(plan.getClass().getSimpleName()) == "SubqueryAlias"
    if is_named and str(plan.alias()).lower() in streams:
        return False
    if any(map(_is_of_bytes, _each(plan.expressions()))):
        return True
    return any(
        _has_bytes(below, streams)
        for below in (*_each(plan.children()), *_each(plan.subqueries()))
    )


def _is_of_bytes(expression: Any) -> bool:
    is_of_bytes = "binary" in str(expression.dataType().catalogString())
    return is_of_bytes or any(map(_is_of_bytes, _each(expression.children())))


def _each(found: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (found.apply(index) for index in range(found.size()))


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


def _is_invalid(value: Column, kind: T.DataType, is_of_bytes: bool = False) -> Column:
    """Whether the value has text that is not valid; false for a value without text.
    `is_of_bytes`: text with U+FFFD counts as invalid too."""
    match kind:
        case T.StringType():
            is_invalid = ~F.is_valid_utf8(value)
            if is_of_bytes:
                is_invalid |= F.contains(value, F.lit(REPLACED))
            return F.coalesce(is_invalid, F.lit(False))
        case T.StructType(fields=fields):
            found = F.lit(False)
            for field in fields:
                if _has_text(field.dataType):
                    found |= _is_invalid(value[field.name], field.dataType, is_of_bytes)
            return found
        case T.ArrayType(elementType=element) if _has_text(element):
            return F.coalesce(
                F.exists(value, lambda item: _is_invalid(item, element, is_of_bytes)),
                F.lit(False),
            )
        case T.MapType(keyType=key, valueType=element):
            keys = _is_invalid(F.map_keys(value), T.ArrayType(key), is_of_bytes)
            return keys | _is_invalid(
                F.map_values(value), T.ArrayType(element), is_of_bytes
            )
        case _:
            return F.lit(False)


def _first_of_each(entries: Column) -> Column:
    """The first entry of each key: two keys may have become equal by being made
    valid."""
    keys = F.transform(entries, lambda entry: entry["key"])
    return F.filter(
        entries, lambda entry, index: F.array_position(keys, entry["key"]) == index + 1
    )


def _valid(value: Column, kind: T.DataType) -> Column:
    """The value with all texts in it made valid."""
    if not _has_text(kind):
        return value
    match kind:
        case T.StringType():
            return F.make_valid_utf8(value)
        case T.StructType(fields=fields):
            parts = (
                _valid(value[field.name], field.dataType).alias(field.name)
                for field in fields
            )
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(elementType=element):
            return F.transform(value, lambda item: _valid(item, element))
        case T.MapType(keyType=key, valueType=element):
            entries = F.transform(
                F.map_entries(value),
                lambda entry: F.struct(
                    _valid(entry["key"], key).alias("key"),
                    _valid(entry["value"], element),
                ),
            )
            return F.when(
                _is_invalid(value, kind), F.map_from_entries(_first_of_each(entries))
            ).otherwise(value)
        case _:
            return value
