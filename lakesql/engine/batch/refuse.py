"""What stops a model before its batch is published."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame

from lakesql.compile.batch import Truncate
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
from lakesql.model.model import Model
from lakesql.names import FAILED, is_reserved

EXAMPLES = 3
"""How many of the rows that stop a model its error shows."""

EXAMPLE_CHARACTERS = 300
"""How much of each."""


def check_deletes(
    select: Select,
    allowed: float,
    deletes: DataFrame,
    truncate: Truncate | None,
    table: snapshots.JavaTable,
) -> None:
    """Raise `RunError` (`too-many-deletes`) for a batch that would delete more of the
    table's rows than it may.

    A first look compares what the metadata says. It may count rows as deleted that a
    compaction has left out since, and most changes of a mirror that filters may be of
    rows that it does not have: before a batch is refused, rows are counted.
    """
    model, head = select.model, next(snapshots.read_history(table), None)
    if head is None or not head.total:
        return
    found = 0 if truncate else deletes.count()
    if not truncate and found <= allowed * head.live:
        return
    stored = deletes.sparkSession.table(table_name(model.table))
    live = stored.count()
    if not truncate:
        same = (
            stored[identifier(key)] == deletes[identifier(key)]
            for key in select.writing.keys
        )
        found = deletes.join(stored, reduce(and_, same), "left_semi").count()
    if live and (truncate or found > allowed * live):
        what = (
            "truncates the table"
            if truncate
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
    """Raise where the batch must not be published as it was staged."""
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
    """Raise `RunError` (`expectation-failed`) where some of the checked rows must not
    be seen."""
    failing = dict(counts.violations)
    stopping = [
        check
        for check in select.checks
        if check.on_fail == "stop" and check.name in failing
    ]
    if stopping:
        raise RunError(
            _say_failed(select.model, check, failing[check.name], checked)
            for check in stopping
        )


def _say_failed(model: Model, check: Check, number: int, checked: DataFrame) -> Problem:
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
        f"{rows} of this batch of model '{model.name}' fail{'s' if number == 1 else ''} '{check.name}'{said}. Nothing "
        "of the batch was written.",
        f"For instance: {'; '.join(shown)}",
        place=check.place,
    )


def _check_ratio(sink: Sink, counts: BatchCounts) -> None:
    """Raise where too many of a batch's records are dead letters. Of a topic of several
    tables they are counted among all that the topic has, as one that cannot be read may
    be of any: whether another model has read them does not matter."""
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
