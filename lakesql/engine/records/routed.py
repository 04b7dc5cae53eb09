"""Which records of a topic belong to one table, by the value of a column (`route`); the
others are ignored, good or bad.

A record without such a value may belong to any table: it is a dead letter in each, and
so is a record that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import field_path
from lakesql.engine.records.folded import any_of
from lakesql.engine.records.parse import RAW_FIELDS
from lakesql.names import (
    IGNORED,
    RAW,
    REJECTED,
    REQUIRED_MISSING,
    TOMBSTONE,
    UNKNOWN_TABLE,
    UNPARSABLE,
)
from lakesql.stream.route import Route

LONGEST_VALUE = 1_000
"""How many characters a value that names a table may have, as it is stored and shown as
a name."""


def routed(parsed: DataFrame, route: Route, *, is_separated: bool) -> DataFrame:
    """Parsed records, which have `_lakesql_raw`, with `_lakesql_ignored` and
    `_lakesql_unknown_table`.

    Records of other tables are never rejected. `is_separated`: values are found by
    their position, so that a bad record may have the wrong value in the column and is
    treated as if it had none. A tombstone has no value: it deletes the row of its key
    in whichever table has it.
    """
    value = F.expr(field_path(route.column))
    if is_separated:
        value = F.when(F.col(REJECTED).isNull(), value)
    is_tombstone = (
        F.col(TOMBSTONE).isNotNull() if TOMBSTONE in parsed.columns else F.lit(False)
    )
    is_name = has_name(value)
    is_other = is_name & (value != route.value) & ~is_tombstone
    reason = F.when(value.isNull(), F.lit(REQUIRED_MISSING)).when(
        ~is_name, F.lit(UNPARSABLE)
    )
    rejected = F.coalesce(
        F.col(REJECTED),
        F.when(reason.isNotNull() & ~is_tombstone, _rejected(parsed, reason)),
    )
    return parsed.withColumns(
        {
            REJECTED: F.when(~is_other, rejected),
            IGNORED: is_other,
            UNKNOWN_TABLE: F.when(is_other & ~is_settled(value, route), value),
        }
    )


def has_name(value: Column) -> Column:
    """Whether a value can name a table."""
    return F.coalesce(F.length(value) <= LONGEST_VALUE, F.lit(False))


def is_settled(value: Column, route: Route) -> Column:
    """Whether the project has decided about a value: it assigns it to a table or leaves
    it out, or the patterns of its group leave it out."""
    is_taken = _fits(value, route.include) & ~_fits(value, route.exclude)
    return value.isin([route.value, *route.known]) | ~is_taken


def route_detail(route: Route) -> str:
    """The text about a record that could be read but names no table."""
    return f"{route.column}: no text of {LONGEST_VALUE:,} characters at most, which says of which table the record is"


def _rejected(parsed: DataFrame, reason: Column) -> Column:
    """`_lakesql_rejected` for this reason, with the type that it has in the records."""
    kind = parsed.schema[REJECTED].dataType
    assert isinstance(kind, T.StructType)
    values = {"reason": reason, **{name: F.col(RAW)[name] for name in RAW_FIELDS}}
    none = F.lit(None).cast("string")
    return F.struct(*(values.get(name, none).alias(name) for name in kind.names))


def _fits(value: Column, patterns: Sequence[str]) -> Column:
    """Whether a value matches one of the patterns of Python's `fnmatch`, translated to
    Java's regular expressions."""
    return any_of(value.rlike(_in_java(translate(pattern))) for pattern in patterns)


def _in_java(pattern: str) -> str:
    named = re.sub(r"\(\?P=(\w+)\)", r"\\k<\1>", pattern.replace("(?P<", "(?<"))
    return rf"\A{named.removesuffix('Z')}z"
