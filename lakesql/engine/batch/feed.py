"""The rows of a source that the changes of a batch leave: what the SELECT of a mirror is given."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakesql.compile.batch import current_view, newest_view
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounters
from lakesql.errors import RunError
from lakesql.names import NEWEST_VIEW


def open_feed(session: SparkSession, select: Select, counters: BatchCounters) -> bool:
    """Make, of the view `_lakesql_changes`, the view of the newest changes, whose rows are made once, and the stream's.

    Whether there is a truncate among them. Raises `RunError` (`truncate-refused`) where the model takes none.
    """
    newest = counters.rows(session.sql(newest_view(select).query), ())
    newest.localCheckpoint().createOrReplaceTempView(NEWEST_VIEW)
    has_truncate = counters.read().truncates > 0
    if has_truncate and not select.writing.takes_truncates:
        model = select.model
        raise RunError.of(
            "truncate-refused",
            f"The source of model '{model.name}' was truncated, and the model says on_truncate='fail'. Nothing of the "
            "batch was written.",
            fix="If the rows are to go, run once with on_truncate='apply'; otherwise fill the source again, and "
            f"`lakesql rebuild {model.name}`.",
            place=model.option_place("on_truncate"),
        )
    current = current_view(select, has_truncate)
    session.sql(current.query).createOrReplaceTempView(current.name)
    return has_truncate
