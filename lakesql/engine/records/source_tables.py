"""Which table of a database a change is of, and whether that is one whose changes a
stream takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F


def table_of(source: Column) -> Column:
    """The name of the table, of MongoDB's collection; NULL where the event says
    none."""
    return F.coalesce(source["table"], source["collection"])


def full_name(source: Column) -> Column:
    """The table with its schema and its database, as far as the event says them; NULL
    where it names no table."""
    table = table_of(source)
    return F.when(
        table.isNotNull(), F.concat_ws(".", source["db"], source["schema"], table)
    )


def is_of(source: Column, tables: Sequence[str]) -> Column:
    """Whether the event is of one of these tables; NULL where it names none.

    Each is `schema.table` or `database.schema.table`. The database is asked in the
    place of a schema where there is no schema, as in MySQL and MongoDB. `*` stands for
    any characters.
    """
    parts = _parts(source)
    return F.when(
        table_of(source).isNotNull(),
        reduce(or_, (_fits(parts, each) for each in tables)),
    )


def which_of(source: Column, tables: Sequence[str]) -> Column:
    """Which of these tables, of which none has a `*`, the event is of, as `is_of` asks
    it of each; '' of none. NULL where it names no table, or where two of them may be
    meant."""
    short, whole = _names(_parts(source))
    is_short, is_whole = short.isin([*tables]), whole.isin([*tables])
    is_both = is_short & is_whole & (short != whole)
    found = F.when(is_short, short).when(is_whole, whole).otherwise(F.lit(""))
    return F.when(table_of(source).isNotNull() & ~is_both, found)


def _parts(source: Column) -> tuple[Column, Column, Column]:
    """The database, the schema and the table of an event."""
    database = F.coalesce(source["db"], F.lit(""))
    return database, F.coalesce(source["schema"], database), table_of(source)


def _names(parts: Sequence[Column]) -> tuple[Column, Column]:
    """What a table may be called: `schema.table`, or with the database before it."""
    return F.concat_ws(".", *parts[-2:]), F.concat_ws(".", *parts)


def _fits(parts: Sequence[Column], table: str) -> Column:
    """Whether the last parts of a name are those of a table. The parts of a name
    without `*` may have dots."""
    if "*" not in table:
        short, whole = _names(parts)
        return (short == table) | (whole == table)
    wanted = table.split(".")
    return reduce(and_, map(_is, parts[-len(wanted) :], wanted))


def _is(part: Column, wanted: str) -> Column:
    pattern = ".*".join(map(re.escape, wanted.split("*")))
    return part.rlike(rf"\A(?s:{pattern})\z")
