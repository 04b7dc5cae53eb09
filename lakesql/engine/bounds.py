"""The keys of a batch as literals, so that a MERGE reads only the files that can hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.merge import KeyRange
from lakesql.compile.quote import identifier

FEW = 1000
"""Up to so many keys are named one by one: Iceberg filters files by the list before the join, where a range over random
keys would hold them all. More literals than this cost more to plan than they save."""

_LITERAL_TYPES = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.StringType,
    T.DateType,
    T.TimestampType,
)
"""Types whose values are compared alike by Spark, by Iceberg's file statistics and as literals."""


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """How many rows a keyed batch writes, and what its keys are."""

    rows: int
    ranges: tuple[KeyRange, ...]


def read_keys(newest: DataFrame, keys: tuple[str, ...]) -> KeyFacts:
    """The bounds of the batch's keys, which are not NULL. Each holds for every key, or an update would become a second
    row; a key whose type has no literal is left unbounded."""
    bounded = [key for key in keys if isinstance(_type_of(newest, key), _LITERAL_TYPES)]
    extremes = [pick(identifier(key)) for key in bounded for pick in (F.min, F.max)]
    count, *found = newest.agg(F.count(F.lit(1)), *extremes).collect()[0]
    if not count:
        return KeyFacts(0, ())
    lows, highs = found[0::2], found[1::2]
    ranges = [KeyRange(key, low=low, high=high) for key, low, high in zip(bounded, lows, highs, strict=True)]
    if count <= FEW and bounded:
        rows = newest.select(*(identifier(key) for key in bounded)).collect()
        ranges = [KeyRange(key, values=_distinct(row[i] for row in rows)) for i, key in enumerate(bounded)]
    return KeyFacts(count, tuple(ranges))


def _distinct(values: Any) -> tuple[Any, ...]:
    return tuple(sorted(set(values)))


def _type_of(frame: DataFrame, column: str) -> T.DataType:
    return next(field.dataType for field in frame.schema.fields if field.name.lower() == column.lower())
