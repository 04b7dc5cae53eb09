"""Which rows the SELECT of a mirror is given: the source's rows as the changes of a
batch leave them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.batch import Truncate
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.lone_tombstones import with_lone_tombstones
from lakesql.engine.batch.memories import Moves, make_stand_in
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import good_records
from lakesql.engine.spark.few_rows import make_rows
from lakesql.engine.spark.internals import replace_view
from lakesql.modes.batches.all_batches import batches_of
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.names import CHANGE, CHANGES_VIEW, NEWEST_VIEW, POSITION, RAW


@dataclass(frozen=True, slots=True)
class Feed:
    """What is in a batch of changes: a `truncate`, or None; and whether it `is_cut`,
    which means that it may have only part of a transaction that changes keys. Such
    changes are the view `_lakesql_cut`.

    `is_read`: its records have been read already, and counted.
    """

    truncate: Truncate | None = None
    is_cut: bool = False
    is_read: bool = False


def give_rows(
    session: SparkSession,
    select: Select,
    binding: StreamBinding,
    records: DataFrame,
    counters: BatchCounters,
    moves: Moves,
    with_deleted: bool = True,
    are_few: bool = False,
) -> Feed:
    """Make the view, under the stream's name, that the SELECT reads: of the good
    records, or of the rows that the changes of a feed leave, `with_deleted` rows if the
    table keeps them. `are_few`: as in `BatchRows`.

    Raises what `_open_feed` raises.
    """
    views = batches_of(select).feed_views
    good = good_records(
        counters.stream(records, binding.stream, select, views is not None)
    )
    if views is not None:
        return _open_feed(
            session, views, binding, good, counters, moves, with_deleted, are_few
        )
    replace_view(good, binding.stream.name)
    return Feed()


def give_sample(
    session: SparkSession, select: Select, binding: StreamBinding, records: DataFrame
) -> None:
    """Make the view, under the stream's name, of a few records, without deleted rows:
    like a batch that is not counted and follows no other."""
    give_rows(
        session,
        select,
        binding,
        records,
        BatchCounters(),
        Moves(),
        with_deleted=False,
        are_few=True,
    )


def _open_feed(
    session: SparkSession,
    views: FeedViews,
    binding: StreamBinding,
    changes: DataFrame,
    counters: BatchCounters,
    moves: Moves,
    with_deleted: bool,
    are_few: bool,
) -> Feed:
    """From the changes of a feed, make the view of the newest ones, whose rows are
    computed once, and of the rows that they leave, `with_deleted` rows if the model
    marks them. `moves` has what earlier batches remember.

    Raises `RunError` (`truncate-refused`) if the model accepts no truncate, or if it is
    unknown which rows of the table it removes: the feed has several topics, or the
    truncate has no position in the sequence.
    """
    select = views.select
    # the newest changes are kept with all their columns, so the raw record is dropped
    replace_view(changes.drop(RAW), CHANGES_VIEW)
    newest = counters.rows(session.sql(views.newest().query), ())
    newest = make_rows(newest, are_few=are_few)
    counts = counters.read()
    if counts.valueless:
        changes, counters.followers = with_lone_tombstones(
            session, views, binding, changes, counts.valueless
        )
        replace_view(changes.drop(RAW), CHANGES_VIEW)
        newest = _newest(session, views)
    is_mixed = 0 < counts.reads < counts.records or 0 < counts.unplaced < counts.reads
    placed = views.placed() if is_mixed else None
    if placed:
        make_stand_in(session, placed)
        newest = _newest(session, views)
    keys = moves.begin(session, views, binding, changes, bool(counts.moves))
    if keys.are_told_apart:
        if placed:
            make_stand_in(session, placed)
        newest = _newest(session, views)
    if (counts.unsent or keys.is_cut) and (known := views.newest_known()):
        newest = make_stand_in(session, known)
    replace_view(newest, NEWEST_VIEW)
    if counts.unsent or keys.is_cut:
        newest = keys.move_values(session, newest)
    truncate = None
    if counts.truncates:
        has_place = not counts.bad_truncates
        if refusal := batches_of(select).refuse_truncate(has_place=has_place):
            raise refusal
        truncate = _read_truncate(newest, views)
    for view in (views.changed(truncate is not None), views.current(with_deleted)):
        frame = session.sql(view.query)
        for name in filter(None, (view.name, view.stands_for)):
            replace_view(frame, name)
    return Feed(truncate, keys.is_cut, is_read=True)


def _newest(session: SparkSession, views: FeedViews) -> DataFrame:
    """The newest change of each key, from the current view of the changes."""
    return session.sql(views.newest().query).localCheckpoint()


def _read_truncate(newest: DataFrame, views: FeedViews) -> Truncate:
    sequenced, marks = views.select.is_placed, views.marks
    if not (sequenced or marks):
        return Truncate()
    position = F.col(f"{CHANGE}.position")
    at_us = (
        F.unix_micros(F.max_by(f"{CHANGE}.ts", F.struct(position, POSITION)))
        if marks
        else F.max(F.lit(None))
    )
    truncates = newest.where(F.col(f"{CHANGE}.op") == "t")
    last, at = truncates.agg(F.max(position), at_us).collect()[0]
    return Truncate(tuple(last) if sequenced else (), at)
