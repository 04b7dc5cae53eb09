"""Which batches must not be published, and stop the model: too many bad records, failed
expectations, changes of a second table, or a log that starts over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakesql.compile.checks import Check
from lakesql.compile.quote import identifier, table_name, text
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounts
from lakesql.engine.batch.new_columns import check_schemas
from lakesql.engine.batch.rows import BatchRows
from lakesql.engine.batch.sink import Sink
from lakesql.engine.ledger import snapshots
from lakesql.engine.sources.told_tables import table_of
from lakesql.errors import Problem, RunError
from lakesql.names import (
    FAILED,
    IGNORED,
    RAW,
    REJECTED,
    SOURCE_TABLE,
    UNKNOWN_TABLE,
    is_reserved,
)
from lakesql.stream.route_values import MOST_VALUES

EXAMPLES = 3
"""How many of the rows that stop a model are shown in the error."""

EXAMPLE_CHARACTERS = 300
"""How many characters of each row are shown."""


def check_deletes(
    select: Select,
    allowed: float,
    deletes: DataFrame,
    table: snapshots.JavaTable,
    *,
    truncates: bool,
) -> None:
    """Raise `RunError` (`too-many-deletes`) for a batch that would delete more of the
    table's rows than allowed.

    Metadata are compared first. They may count rows as deleted that a compaction has
    removed since, and most changes of a filtered mirror may be of rows that its table
    does not have; so before a batch is refused, the rows are counted.
    """
    model, head = select.model, next(snapshots.read_history(table), None)
    if head is None or not head.total:
        return
    found = 0 if truncates else deletes.count()
    if not truncates and found <= allowed * head.live:
        return
    stored = deletes.sparkSession.table(table_name(model.table))
    live = stored.count()
    if not truncates:
        same = (
            stored[identifier(key)] == deletes[identifier(key)]
            for key in select.writing.keys
        )
        found = deletes.join(stored, reduce(and_, same), "left_semi").count()
    if live and (truncates or found > allowed * live):
        what = (
            "truncates the table"
            if truncates
            else f"deletes {found:,} of the {live:,} rows of its table"
        )
        raise RunError.of(
            "too-many-deletes",
            f"This batch of model '{model.name}' {what}: more than max_delete_ratio={allowed:g} allows. Nothing of it "
            "was written.",
            fix=f"See whether the source means it (`lakesql show {model.name} --preview`). If it does, run once with a "
            f"higher ratio: lakesql run --once --select {model.name}",
            place=model.option_place("max_delete_ratio"),
        )


def check_batch(sink: Sink, rows: BatchRows, counts: BatchCounts, batch: int) -> None:
    """Raise if the batch must not be published as it was staged."""
    if counts.reshaped and rows.records:
        streams = zip(
            (binding.stream for binding in sink.bindings), rows.records, strict=True
        )
        check_schemas(sink.model, batch, streams, sink.follow, sink.emit)
    if rows.checked is not None:
        check_expectations(sink.select, counts, rows.checked)
    if sink.letters is None:
        _check_ratio(sink, counts)


def check_expectations(select: Select, counts: BatchCounts, checked: DataFrame) -> None:
    """Raise `RunError` (`expectation-failed`) if checked rows fail an expectation that
    stops the model."""
    failing = dict(counts.violations)
    stopping = [
        check
        for check in select.checks
        if check.on_fail == "stop" and check.name in failing
    ]
    if stopping:
        raise RunError(
            _say_failed(select, check, failing[check.name], checked)
            for check in stopping
        )


def _say_failed(
    select: Select, check: Check, number: int, checked: DataFrame
) -> Problem:
    columns = [identifier(name) for name in checked.columns if not is_reserved(name)]
    failing = checked.where(f"array_contains({FAILED}, {text(check.name)})").selectExpr(
        f"to_json(struct({', '.join(columns)})) AS row"
    )
    found = [str(row["row"]) for row in failing.limit(EXAMPLES).collect()]
    shown = (
        each if len(each) <= EXAMPLE_CHARACTERS else f"{each[:EXAMPLE_CHARACTERS]}…"
        for each in found
    )
    said = "" if check.name == check.condition else f" ({check.condition})"
    rows = "1 row" if number == 1 else f"{number:,} rows"
    return Problem(
        "expectation-failed",
        f"{rows} of this batch of model '{select.model.name}' fail{'s' if number == 1 else ''} '{check.name}'{said}. Nothing "
        "of the batch was written.",
        f"For instance: {'; '.join(shown)}",
        place=check.place,
    )


def _check_ratio(sink: Sink, counts: BatchCounts) -> None:
    """Raise if too large a share of a batch's records are dead letters. For a topic
    with several tables the share is of all its records, whether or not another model
    has read them: an unreadable record may be of any of the tables."""
    model, records = sink.model, counts.records
    if any(table_of(binding.stream) for binding in sink.bindings):
        records = max(records, sink.progress.planned or 0)
    allowed = model.config.max_dead_letter_ratio
    if counts.rejected <= allowed * records:
        return
    raise RunError.of(
        "too-many-dead-letters",
        f"{counts.rejected} of {records} records of this batch cannot be used: more than "
        f"max_dead_letter_ratio={allowed:g} allows. Nothing of the batch was written.",
        fix=f"Look at the records with `lakesql show {model.name} --preview`, or raise the ratio.",
        place=model.option_place("max_dead_letter_ratio"),
    )


def check_source_table(sink: Sink, table: snapshots.JavaTable, rows: BatchRows) -> str:
    """The database table whose changes the model has read up to and including this
    batch, as the ledger has it; '' if no change has named one, or the model may read
    several.

    Waits until the records of the batch have been read. Raises `RunError`
    (`mixed-source-tables`) if there are two.
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
    raise _mixed_tables(sink.select, known, _changes_by_table(rows))


def _changes_by_table(rows: BatchRows) -> DataFrame:
    """The changes of the batch that name their table, in the order of their arrival:
    the table's name, and where the record is."""
    (records,) = (frame for frame in rows.records if SOURCE_TABLE in frame.columns)
    is_change = (
        F.col(REJECTED).isNull() & ~F.col(IGNORED) & F.col(SOURCE_TABLE).isNotNull()
    )
    places = (F.col(f"{RAW}.{name}") for name in _BY_ARRIVAL)
    return (
        records.where(is_change)
        .select(F.col(SOURCE_TABLE).alias("table"), *places)
        .orderBy(*_BY_ARRIVAL)
    )


_BY_ARRIVAL = ("timestamp", "topic", "partition", "offset")


def _mixed_tables(select: Select, known: str, changes: DataFrame) -> RunError:
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
    """The table as `source_table` names it: with its schema, or with its database if it
    has none."""
    parts = table.split(".")
    return ".".join(["", *parts][-2:])


def _place_of(record: Row) -> str:
    if record["offset"] is None:
        return f"the file {record['topic']}"
    return f"the record of {record['topic']}, partition {record['partition']}, offset {record['offset']}"


FAR = 10
"""By what factor the newest position in a log must be smaller than one read before for
the log to count as restarted: a connector that was killed repeats the last changes, not
the log from its beginning."""


@dataclass(frozen=True, slots=True)
class NewestPlace:
    """The greatest log position of the changes that were read, and the time of its
    record, in microseconds."""

    place: tuple[int, ...]
    read_us: int

    @property
    def text(self) -> str:
        """The position and the time as JSON, in the form that the ledger has."""
        return json.dumps(
            {"place": self.place, "read_us": self.read_us}, separators=(",", ":")
        )


def check_log(sink: Sink, table: snapshots.JavaTable, counts: BatchCounts) -> str:
    """The newest log position that was read up to and including this batch, as the
    ledger has it; '' if the model does not use positions.

    Raises `RunError` (`log-restarted`) if all changes of the batch, which arrived after
    those read before, are far below that position; for a batch without changes, the
    rows that a snapshot has read count. Records that are read again, as after a rewind,
    arrived before, and prove nothing.
    """
    if not sink.select.is_placed or sink.letters is not None:
        return ""
    entry = snapshots.read_entry(table, sink.progress.identity.owner)
    known = _read_place(entry.newest_place) if entry else None
    if counts.place_us is None or counts.first_us is None:
        if known is not None and counts.first_read_us is not None:
            read = NewestPlace(_place(counts.read_place), counts.first_read_us)
            _check_place(sink, known, read, counts.first_read_us)
        return known.text if known else ""
    newest = NewestPlace(_place(counts.place), counts.place_us)
    if known is None or newest.place >= known.place:
        return newest.text
    _check_place(sink, known, newest, counts.first_us)
    return known.text


def _check_place(
    sink: Sink, known: NewestPlace, newest: NewestPlace, first_us: int
) -> None:
    if first_us > known.read_us and newest.place[0] * FAR < known.place[0]:
        raise _restarted(sink, known, newest)


def _place(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _read_place(text: str) -> NewestPlace | None:
    if not text:
        return None
    found = json.loads(text)
    return NewestPlace(tuple(found["place"]), found["read_us"])


def _restarted(sink: Sink, known: NewestPlace, newest: NewestPlace) -> RunError:
    model = sink.model
    return RunError.of(
        "log-restarted",
        f"The log that model '{model.name}' orders its changes by counts anew: the newest change of this batch has the "
        f"position {list(newest.place)}, and one that was read before has {list(known.place)}. Nothing of the batch "
        "was written.",
        why="The database was moved or restored, or another server has taken over. Each change of a row that the table "
        "has would be taken for an older one, and be ignored.",
        fix="Let the connector take a new snapshot, let the stream begin with it (`start`, or another topic), and "
        f"`lakesql rebuild {model.name}`. If old changes were sent again on purpose, skip them: "
        f"`lakesql rewind {model.name} --to TIME`.",
        place=model.option_place("sequence_by"),
    )


def keep_unknown(sink: Sink, rows: BatchRows, counts: BatchCounts) -> None:
    """Report to the run the routing values of the batch that no known table has, up to
    a maximum number."""
    member = sink.model.member
    if counts.unknown_table is None or member is None:
        return
    for records in rows.records:
        if UNKNOWN_TABLE in records.columns:
            unknown = (
                records.where(F.col(UNKNOWN_TABLE).isNotNull())
                .select(UNKNOWN_TABLE)
                .distinct()
            )
            found = unknown.limit(MOST_VALUES + 1).collect()
            sink.found(member.feed, sorted(row[0] for row in found))
