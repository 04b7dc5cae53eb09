"""Notes on what a model's table holds that its author may not have intended, for the
compiled file and for `parse`."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.modes.batches.all_batches import batches_of


def find_notes(select: Select) -> Iterator[tuple[str, str]]:
    """The notes of a model, each with its label in the compiled file."""
    query = select.query
    counted = [
        note for name in query.streams_read if (note := _records_of(select, name))
    ]
    if query.stateful and counted:
        done, what, do = "kept", "newest rows", "read that table"
        if query.aggregated:
            done, what, do = (
                "aggregated",
                "sums over newest rows",
                "aggregate its table in mode materialized_view",
            )
        elif query.joins_streams:
            done, what, do = (
                "joined",
                "pairs of newest rows",
                "join the tables in mode materialized_view",
            )
        fix = f"for {what}, keep these by a model in mode upsert or cdc, and {do}"
        yield "records", f"{done} as they arrive: {'; '.join(counted)}; {fix}"
    tables = _tables_of(select)
    if tables:
        again = batches_of(select).joined_again()
        stays = "later changes of it change no row that is written"
        newest = "for the newest values, join the tables in a model in mode materialized_view"
        yield (
            "joined tables",
            f"{tables} as it is when the batch runs: {stays}; {again}; {newest}",
        )


def _records_of(select: Select, name: str) -> str:
    """What the records of a stream may be besides events: newer states of a key, or
    changes of rows. '' if neither."""
    stream = select.streams[name]
    if stream.is_feed:
        return (
            f"each change of {identifier(name)} counts, not each row of its source once"
        )
    if name in select.read_tables:
        return ""
    if stream.key and stream.origin.brings == "records":
        key = ", ".join(map(identifier, stream.key))
        return f"if a record of {identifier(name)} is a newer state of its {key}, the older ones count too"
    return ""


def _tables_of(select: Select) -> str:
    """The tables of other models that the SELECT reads beside its streams; '' if there
    are none."""
    if not select.query.reads_tables or select.model.config.reads == "tables":
        return ""
    return " and ".join(
        identifier(name)
        for name in dict.fromkeys(found.name for found in select.model.facts.refs)
    )
