"""Which records without a value delete a row, in a change feed in which each delete may
be followed by a tombstone."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.feed_tombstones import first_tombstones
from lakesql.engine.batch.bounds import read_keys
from lakesql.engine.batch.memories import make_stand_in
from lakesql.engine.ledger import snapshots
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import good_records, parse_binding, with_position
from lakesql.engine.sources.raw import read_before
from lakesql.engine.spark.internals import replace_view
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.names import CHANGES_VIEW, EARLIER_VIEW, RAW


def with_lone_tombstones(
    session: SparkSession,
    views: FeedViews,
    binding: StreamBinding,
    changes: DataFrame,
    valueless: int,
) -> tuple[DataFrame, int]:
    """The changes of a batch that has `valueless` tombstones, without those that only
    follow a delete; and how many these are.

    If the records of a partition begin with a tombstone, the record before it is read
    from the topic. In a history that is ordered by log positions, the remaining
    tombstones get positions.
    """
    view, select = views.lone_tombstones(), views.select
    if view is None:
        return changes, 0
    changes = changes.localCheckpoint()  # parsed once for all that is asked of them
    replace_view(changes, CHANGES_VIEW)
    first = [
        (row["topic"], row["partition"], row["offset"])
        for row in session.sql(first_tombstones()).collect()
    ]
    earlier = changes.limit(0)
    if first:
        raw = read_before(session, binding, first)
        earlier = good_records(
            with_position(parse_binding(raw, binding, select, keep_raw=True), binding)
        )
    replace_view(earlier, EARLIER_VIEW)
    changes = make_stand_in(session, view)
    alone = changes.where(F.col(f"{RAW}.value").isNull()).count()
    closing = views.closing()
    if alone and closing and snapshots.table_exists(session, select.model.table):
        keys = (
            read_keys(session.sql(views.tombstone_keys()), tuple(select.feed_keys))
            or ()
        )
        changes = session.sql(closing.query.text(keys)).localCheckpoint()
        replace_view(changes, closing.name)
    return changes, valueless - alone
