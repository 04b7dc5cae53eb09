"""What a batch would write, and which dead letters it would have, without writing
any."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakesql.engine.batch.batch_files import batch_bindings
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.dead_letter import union_letters
from lakesql.engine.batch.memories import Moves
from lakesql.engine.batch.new_schemas import preview_schemas
from lakesql.engine.batch.refuse import check_expectations
from lakesql.engine.batch.rows import (
    BatchRows,
    checked_rows,
    find_letters,
    kept_rows,
    open_streams,
)
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.valid_text import with_valid_text
from lakesql.engine.spark.internals import replace_view
from lakesql.names import ROWS_VIEW


def preview_batch(sink: Sink, arrived: DataFrame) -> tuple[int, dict[str, int]]:
    """How many rows a batch of a stateless model would write, and the number of dead
    letters by reason.

    Writes nothing. Raises `RunError` (`expectation-failed`) if rows would stop the
    model.
    """
    counters, select, session = BatchCounters(), sink.select, arrived.sparkSession
    bindings = preview_schemas(arrived, sink.bindings)
    sink = sink.over(batch_bindings(session, arrived, bindings, sink.emit))
    records, feed = open_streams(sink, arrived, counters, Moves())
    checked = None
    made = with_valid_text(session.sql(select.text), select, sink.bindings, counters)
    if feed.is_read:  # its rows are counted as changes
        rows = made
    else:
        rows = counters.rows(
            checked_rows(session, select, made), select.writing.not_null, select.checks
        )
        if select.checks:
            checked, rows = rows, kept_rows(session, select, rows)
    rows.write.format("noop").mode("append").save()
    replace_view(rows, ROWS_VIEW)
    counts = counters.read()
    if checked is not None:
        check_expectations(select, counts, checked)
    letters = find_letters(
        sink, BatchRows(rows, records, (), counters, checked=checked), counts
    )
    by_reason = (
        union_letters(letters).groupBy("reason").count().collect() if letters else []
    )
    return counts.usable, {row["reason"]: row["count"] for row in by_reason}
