"""The views by which the changes of a feed in a batch become the rows that they leave,
which the SELECT is given.

Two modes read a feed so: `cdc`, which has the newest change of each key, and `scd2`,
which has all of them.
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
    """The views of one model. `has_versions`: each change is kept, and not the newest
    of each key alone. `marks`: rows that the source deletes stay in the table, so that
    a deleted row is had with its last values."""

    select: Select
    has_versions: bool = False
    marks: bool = False

    def views(self) -> Iterator[MakeView | KeepRows]:
        """All views, as the compiled file has them: those of every batch around those
        of some."""
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
        """The newest changes of the feed. Their rows are made once."""
        what = (
            "its changes, each once"
            if self.has_versions
            else "the newest change of each key"
        )
        return MakeView(f"each batch: {what}", NEWEST_VIEW, self._newest.changes())

    def placed(self) -> MakeView | None:
        """The changes where a snapshot has read some of the rows; None where the place
        in the log is nothing to the order."""
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
        """The changes without the tombstones that delete nothing; None where the feed
        has none, or where a column of it orders the changes, which no tombstone has."""
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
        """The changes where tombstones are placed in a history; None where they need no
        place in the log."""
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
        """The query of the keys of the tombstones among the changes, by the model's
        names for them."""
        keys = self.select.feed_keys
        named = ", ".join(
            f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items()
        )
        return f"SELECT {named} FROM {CHANGES_VIEW} WHERE {RAW}.value IS NULL"

    @property
    def key_changes(self) -> KeyChanges | None:
        """What is done where the source changes keys of rows; None where each change is
        kept as it is."""
        return KeyChanges(self.select, self.marks) if self.select.has_moves else None

    def newest_known(self) -> MakeView | None:
        """The newest changes where some of the batch have left out values; None where
        the model keeps none."""
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
        """The keys that these changes are of."""
        keys = changed_keys(
            has_truncate, self.select.is_placed, bool(self.select.kept), self.marks
        )
        if has_truncate:
            when = f"each batch with a truncate: the keys that have changed, read as {CHANGED_VIEW}"
            return MakeView(when, NOT_EMPTIED_VIEW, keys, CHANGED_VIEW)
        return MakeView("each batch: the keys that have changed", CHANGED_VIEW, keys)

    def current(self, with_deleted: bool = True) -> MakeView:
        """The rows that these changes leave, under the stream's name; `with_deleted`,
        where the mode marks them, those that were deleted too."""
        which = ", and those that they delete" if self.marks else ""
        query = current_rows(self._latest, tuple(self.select.kept), with_deleted)
        when = f"each batch: the rows of the source that they leave{which}"
        return MakeView(when, identifier(self._feed.name), query)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The columns of the feed's key."""
        return tuple(self.select.feed_keys.values())

    @property
    def _newest(self) -> Newest:
        """What the newest changes are found by; where each change is kept, each is the
        newest of its own."""
        select = self.select
        if self.has_versions:
            return Newest((*self._keys, *select.order))
        return Newest(
            self._keys, select.order, self._latest, tuple(select.kept), select.has_moves
        )

    @property
    def _latest(self) -> tuple[str, ...]:
        """The columns of a feed whose deleted rows are kept."""
        return self._feed.column_names if self.marks else ()

    @property
    def _feed(self) -> Stream:
        (stream,) = self.select.query.streams_read
        return self.select.streams[stream]
