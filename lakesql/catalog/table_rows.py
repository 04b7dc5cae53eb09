"""The rows of a table's files as pyiceberg reads them, in which a NULL array or map of
structs stays NULL.

pyiceberg 0.12 makes an array and a map of structs anew of where its items begin, and so
an empty one of NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

Make = Callable[..., Any]


def scan_rows(table: Table, schema: Schema, limit: int | None = None) -> ArrowScan:
    """What reads the rows of a table's files, with these columns, `limit` of them at
    most."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    keep_nulls()
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue(), limit=limit)


@cache
def keep_nulls() -> None:
    """Have pyiceberg keep what is NULL where it reads rows and where it writes them, in
    this process."""
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor

    for name in ("list", "map"):
        setattr(
            ArrowProjectionVisitor,
            name,
            _with_nulls(getattr(ArrowProjectionVisitor, name)),
        )


def _with_nulls(make: Make) -> Make:
    """What makes an array of the one that was read, with NULL where that one has it."""

    @wraps(make)
    def made_with_nulls(visitor: Any, kind: Any, read: Any, *parts: Any) -> Any:
        made = make(visitor, kind, read, *parts)
        if made is None or made.null_count == read.null_count:
            return made
        return _masked(made, read.is_null())

    return made_with_nulls


def _masked(made: Any, nulls: pa.Array) -> Any:
    """An array of arrays or maps, of the very type that it has, with NULL in these
    places."""
    import pyarrow as pa

    # of a slice of an array, Arrow takes no mask
    offsets = pa.array(made.offsets.to_numpy())
    if isinstance(made, pa.MapArray):
        return pa.MapArray.from_arrays(
            offsets, made.keys, made.items, type=made.type, mask=nulls
        )
    return type(made).from_arrays(offsets, made.values, type=made.type, mask=nulls)
