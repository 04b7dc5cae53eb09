"""What other columns, or another order of columns, in the inputs mean for a SELECT that
depends on their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.build_select import selects_of
from lakesql.compile.select import Select
from lakesql.errors import Place
from lakesql.modes.batches.all_batches import batches_of
from lakesql.review.causes import ModelVersions, sql_place, stream_place
from lakesql.review.verdicts import Reason
from lakesql.select.column_order import find_ordered_columns


@dataclass(frozen=True, slots=True)
class MovedColumns:
    """That a SELECT depends on an order of columns that has changed: the condition, the
    message, and the place of the cause."""

    condition: str
    what: str
    place: Place


def find_order_changes(change: ModelVersions) -> Iterator[Reason]:
    """The reason that the SELECT computes other rows from the same records, because the
    columns of its inputs have changed."""
    moved = find_moved_columns(change)
    if moved is None:
        return
    stored = batches_of(change.after).stored_rows()
    do = f"{stored.do} {change.model.name}" if stored.do else ""
    yield Reason(
        stored.verdict, moved.condition, f"{moved.what} {stored.what}", moved.place, do
    )


def find_moved_columns(change: ModelVersions) -> MovedColumns | None:
    """The change of the order of columns in an input on which the SELECT depends; None
    if there is none.

    Changes in the text of the SELECT itself are not included: `find_query_changes`
    reports them.
    """
    others = _other_relations(change)
    if not others:
        return None
    places = [
        find_ordered_columns(selects_of(select))
        for select in (change.before, change.after)
    ]
    pairs = zip(*places, strict=False)
    moved = next((after for before, after in pairs if after.differs(before)), None)
    if moved is None:
        return None
    what = f"The SELECT goes by the order of the columns of '{others[0]}', which are others or stand in another order now."
    stream = change.new.manifest.streams.get(others[0])
    if stream is None:
        return MovedColumns("source-changed", what, sql_place(change, moved.offset))
    return MovedColumns(
        "contract-changed", what, stream_place(change.new, stream, "columns")
    )


def _other_relations(change: ModelVersions) -> list[str]:
    """The relations that both versions read, and whose columns differ, also in their
    order; declared streams first."""
    before, after = _columns_read(change.before), _columns_read(change.after)
    others = [
        name
        for name, columns in after.items()
        if name in before and before[name] != columns
    ]
    return sorted(others, key=lambda name: name not in change.new.manifest.streams)


def _columns_read(select: Select) -> dict[str, tuple[str, ...]]:
    """The columns, in order, of the streams and tables that a SELECT reads, by their
    names."""
    streams = {name: stream.column_names for name, stream in select.streams.items()}
    tables = {
        ".".join(parts): names for parts, (names, _) in select.input_columns.items()
    }
    return {**streams, **tables}
