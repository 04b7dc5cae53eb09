"""The views that turn the changes of a feed in a batch into the rows that the SELECT
reads.

Two modes read a feed so: `cdc`, which uses the newest change of each key, and `scd2`,
which uses all changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import Bounded, KeepRows, MakeView
from lakesql.compile.feed_tombstones import closing_tombstones, without_followers
from lakesql.compile.log_positions import not_replaced, placed_behind
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.modes.batches.mirror import changed_keys, current_rows
from lakesql.modes.batches.moves import READ_AS_NEWEST, KeyChanges
from lakesql.modes.batches.newest import Newest
from lakesql.names import (
    ALONE_VIEW,
    CHANGE,
    CHANGED_VIEW,
    CHANGES_VIEW,
    CLOSING_VIEW,
    KNOWN_VIEW,
    NEWEST_VIEW,
    NOT_EMPTIED_VIEW,
    PLACED_VIEW,
    RAW,
)
from lakesql.stream.stream import Stream

UNSENT_WHEN = "each batch with updates that have not sent all values"
_READ_AS_CHANGES = f", read as {CHANGES_VIEW} from there on"


@dataclass(frozen=True, slots=True)
class FeedViews:
    """The views of one model. `has_versions`: every change is kept, and not only the
    newest of each key. `marks`: rows that the source deletes stay in the table, so that
    a deleted row keeps its last values."""

    select: Select
    has_versions: bool = False
    marks: bool = False

    def views(self) -> Iterator[MakeView | KeepRows]:
        """All views in the order of the compiled file: those of every batch, with those
        that only some batches need between them."""
        yield self.newest()
        moves = self.key_changes
        some = (
            *(self.lone_tombstones(), self.closing(), self.placed()),
            *((moves.cut(), moves.told_apart()) if moves else ()),
            self.newest_known(),
            moves.moved_on() if moves else None,
        )
        yield from (view for view in some if view is not None)
        yield self.changed(has_truncate=False)
        yield self.current()

    def newest(self) -> MakeView:
        """The view of the newest change of each key; with `has_versions`, of every
        change, once."""
        what = (
            "its changes, each once"
            if self.has_versions
            else "the newest change of each key"
        )
        return MakeView(f"each batch: {what}", NEWEST_VIEW, self._newest.changes())

    def placed(self) -> MakeView | None:
        """The view of the changes in a batch with a snapshot's rows, which the log
        positions order; None if the log position does not order the model's changes."""
        if not self.select.orders_reads:
            return None
        when = "each batch of changes and a snapshot's rows"
        if not self.has_versions:
            query, which = not_replaced(self._keys), "without what these replace"
            return MakeView(
                f"{when}: {which}{_READ_AS_CHANGES}", PLACED_VIEW, query, CHANGES_VIEW
            )
        placed = placed_behind(self._keys, self.select.change_columns)
        which = "these behind what they follow"
        return MakeView(
            f"{when}: {which}{_READ_AS_CHANGES}", PLACED_VIEW, placed, CHANGES_VIEW
        )

    def lone_tombstones(self) -> MakeView | None:
        """The view of the changes without the tombstones that follow a delete of their
        key; None if the feed has no tombstones, or if a column of the feed, which
        tombstones lack, orders the changes."""
        if not self._feed.record_envelope.is_of_log:
            return None
        if not all(
            word.startswith(f"{CHANGE}.") for word in self.select.sequence.values()
        ):
            return None
        when = "each batch with tombstones of the feed: without those that follow a delete of their key"
        return MakeView(
            f"{when}{_READ_AS_CHANGES}",
            ALONE_VIEW,
            without_followers(self._keys),
            CHANGES_VIEW,
        )

    def closing(self) -> KeepRows | None:
        """The step that gives tombstones a log position behind the changes of their
        key; None if the mode is not a history ordered by log positions."""
        select = self.select
        if not (self.has_versions and select.is_placed):
            return None
        (place,) = select.sequence
        query = closing_tombstones(
            select.model.table, select.feed_keys, place, select.change_columns
        )
        when = "each batch with tombstones of the feed that stand alone: behind what their key has had"
        bounded = Bounded(query, ("stored", "deleted"))
        return KeepRows(
            f"{when}{_READ_AS_CHANGES}", CLOSING_VIEW, bounded, CHANGES_VIEW
        )

    def tombstone_keys(self) -> str:
        """The query for the keys of the tombstones among the changes, under the model's
        names."""
        keys = self.select.feed_keys
        named = ", ".join(
            f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items()
        )
        return f"SELECT {named} FROM {CHANGES_VIEW} WHERE {RAW}.value IS NULL"

    @property
    def key_changes(self) -> KeyChanges | None:
        """The handling of key changes; None if the model needs none, as where every
        change is kept."""
        return KeyChanges(self.select, self.marks) if self.select.has_moves else None

    def newest_known(self) -> MakeView | None:
        """The view of the newest changes in a batch with columns missing in change
        events; None if the model keeps no values of the table."""
        if not self.select.kept:
            return None
        when = f"{UNSENT_WHEN}: the newest change of each key, with what earlier ones have sent"
        return MakeView(
            f"{when}{READ_AS_NEWEST}",
            KNOWN_VIEW,
            self._newest.changes_known(),
            NEWEST_VIEW,
        )

    def changed(self, has_truncate: bool) -> MakeView:
        """The view of the newest changes without truncates, and, in a batch that has a
        truncate, without the changes that it follows."""
        keys = changed_keys(
            has_truncate, self.select.is_placed, bool(self.select.kept), self.marks
        )
        if has_truncate:
            when = f"each batch with a truncate: the keys that have changed, read as {CHANGED_VIEW}"
            return MakeView(when, NOT_EMPTIED_VIEW, keys, CHANGED_VIEW)
        return MakeView("each batch: the keys that have changed", CHANGED_VIEW, keys)

    def current(self, with_deleted: bool = True) -> MakeView:
        """The view of the source's rows after the changes, under the stream's name.
        `with_deleted`: deleted rows too, if the mode marks them."""
        which = ", and those that they delete" if self.marks else ""
        query = current_rows(self._latest, tuple(self.select.kept), with_deleted)
        when = f"each batch: the rows of the source that they leave{which}"
        return MakeView(when, identifier(self._feed.name), query)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The feed's names of the key columns."""
        return tuple(self.select.feed_keys.values())

    @property
    def _newest(self) -> Newest:
        """The queries for the newest changes. With `has_versions` the order is part of
        the key, so that every change is the newest of its own."""
        select = self.select
        if self.has_versions:
            return Newest((*self._keys, *select.order))
        return Newest(
            self._keys, select.order, self._latest, tuple(select.kept), select.has_moves
        )

    @property
    def _latest(self) -> tuple[str, ...]:
        """All columns of the feed if deleted rows are kept; else none."""
        return self._feed.column_names if self.marks else ()

    @property
    def _feed(self) -> Stream:
        (stream,) = self.select.query.streams_read
        return self.select.streams[stream]
