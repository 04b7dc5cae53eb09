"""How records are read by the schemas that they name, whichever kind these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.cases import first_of
from lakesql.engine.records.frame import SCHEMA

Columns = tuple[tuple[str, T.DataType], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the records of known schema ids are read. `columns` are those that it adds to
    a raw record, in order, over the id in `SCHEMA`; `row` is the row over these.
    `absent` are the columns, and fields in them, that no schema has."""

    columns: Mapping[str, Column]
    row: Column
    absent: tuple[str, ...]


def choose_row(
    rows: Sequence[tuple[Sequence[int], Column]],
    columns: Columns,
    corrupt: str,
    otherwise: Column,
) -> Column:
    """The row of a record by its schema id; if there is none, a row of NULLs in which
    `corrupt` is `otherwise`, the reason."""
    nothing = F.struct(
        *(F.lit(None).cast(kind).alias(name) for name, kind in columns),
        otherwise.alias(corrupt),
    )
    return first_of(((F.col(SCHEMA).isin([*ids]), row) for ids, row in rows), nothing)
