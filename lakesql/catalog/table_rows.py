"""A correction of how pyiceberg reads and writes rows: a NULL array or map of structs
stays NULL.

pyiceberg 0.12 rebuilds arrays and maps of structs from their offsets alone, which turns
NULL into an empty one.
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
    """The scan by which rows of a table's files are read, with the columns of `schema`,
    and at most `limit` rows."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    keep_nulls()
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue(), limit=limit)


@cache
def keep_nulls() -> None:
    """Patch pyiceberg in this process so that NULL arrays and maps stay NULL when it
    reads and writes rows."""
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor

    for name in ("list", "map"):
        setattr(
            ArrowProjectionVisitor,
            name,
            _with_nulls(getattr(ArrowProjectionVisitor, name)),
        )


def _with_nulls(make: Make) -> Make:
    """The method `make` of pyiceberg's visitor, changed so that the array that it
    returns is NULL where the array that was read is."""

    @wraps(make)
    def made_with_nulls(visitor: Any, kind: Any, read: Any, *parts: Any) -> Any:
        made = make(visitor, kind, read, *parts)
        if made is None or made.null_count == read.null_count:
            return made
        return _masked(made, read.is_null())

    return made_with_nulls


def _masked(made: Any, nulls: pa.Array) -> Any:
    """The array of arrays or maps, of the same type, with NULL where `nulls` is
    true."""
    import pyarrow as pa

    # Offsets are copied, as Arrow takes no mask with those of a sliced array.
    offsets = pa.array(made.offsets.to_numpy())
    if isinstance(made, pa.MapArray):
        return pa.MapArray.from_arrays(
            offsets, made.keys, made.items, type=made.type, mask=nulls
        )
    return type(made).from_arrays(offsets, made.values, type=made.type, mask=nulls)
