"""Whether a batch has changes of a second table, whose rows would mix with those of the
first by their keys."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakesql.compile.select import Select
from lakesql.engine.batch.rows import BatchRows
from lakesql.engine.batch.sink import Sink
from lakesql.engine.ledger import snapshots
from lakesql.errors import RunError
from lakesql.names import IGNORED, RAW, REJECTED, SOURCE_TABLE


def check_source_table(sink: Sink, table: snapshots.JavaTable, rows: BatchRows) -> str:
    """The table of the database whose changes the model has read until and with this
    batch, as the ledger has it; '' where none was named, or the model may have those of
    several.

    Waits until the records of the batch have been read. Raises `RunError`
    (`mixed-source-tables`) where there are two.
    """
    if not sink.select.has_one_table:
        return ""
    entry = snapshots.read_newest_entry(table)
    known = entry.source_table if entry else ""
    found = rows.counters.read().tables
    if not {*found} - {known}:
        return known
    if not known and len({*found}) == 1:
        return found[0]
    raise _mixed(sink.select, known, _changes(rows))


def _changes(rows: BatchRows) -> DataFrame:
    """The changes of the batch that name their table, in the order of their arrival:
    its name, and their places."""
    (records,) = (frame for frame in rows.records if SOURCE_TABLE in frame.columns)
    is_change = (
        F.col(REJECTED).isNull() & ~F.col(IGNORED) & F.col(SOURCE_TABLE).isNotNull()
    )
    places = (F.col(f"{RAW}.{name}") for name in _PLACE)
    return (
        records.where(is_change)
        .select(F.col(SOURCE_TABLE).alias("table"), *places)
        .orderBy(*_PLACE)
    )


_PLACE = ("timestamp", "topic", "partition", "offset")


def _mixed(select: Select, known: str, changes: DataFrame) -> RunError:
    model = select.model
    first = known or changes.take(1)[0]["table"]
    (foreign,) = changes.where(F.col("table") != first).take(1)
    (stream,) = (stream for stream in select.streams.values() if stream.is_feed)
    wanted, other = _short_name(first), _short_name(foreign["table"])
    if wanted == other:
        wanted, other = first, foreign["table"]
    fix = (
        f"Say in the stream which it takes, `source_table: {wanted}`, and declare a stream and a model for the other. "
        f"If the two are parts of one table, name both: `source_table: [{wanted}, {other}]`."
    )
    if model.member is not None:
        fix = (
            f"Bring both tables into the project, and each model takes the changes of its own: lakesql schema pull "
            f"{model.member.feed}"
        )
    elif select.feed is None:
        fix += " Or let the SELECT look at `_change.source_table`: in its WHERE, or in a column of the keys."
    return RunError.of(
        "mixed-source-tables",
        f"Stream '{stream.name}' of model '{model.name}' brings changes of two tables: of {first}, and of "
        f"{foreign['table']}, first in {_place_of(foreign)}. Nothing of the batch was written.",
        why="A row of one would be taken for the row of the other that has the same key.",
        fix=fix,
        place=stream.place,
    )


def _short_name(table: str) -> str:
    """The table as `source_table` names it: with its schema, or with its database where
    it has none."""
    parts = table.split(".")
    return ".".join(["", *parts][-2:])


def _place_of(record: Row) -> str:
    if record["offset"] is None:
        return f"the file {record['topic']}"
    return f"the record of {record['topic']}, partition {record['partition']}, offset {record['offset']}"
