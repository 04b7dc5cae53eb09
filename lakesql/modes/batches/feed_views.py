"""The views by which the changes of a feed in a batch become the rows that they leave, which the SELECT is given.

Two modes read a feed so: `cdc`, which has the newest change of each key, and `scd2`, which has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import Bounded, KeepRows, MakeView
from lakesql.compile.feed_tombstones import closing_tombstones, without_followers
from lakesql.compile.log_positions import not_replaced, placed_behind
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.modes.batches.mirror import changed_keys, current_rows, newest_changes, newest_known
from lakesql.modes.batches.moves import KeyChanges
from lakesql.names import CHANGE, CHANGED_VIEW, CHANGES_VIEW, NEWEST_VIEW, RAW

UNSENT_WHEN = "each batch with updates that have not sent all values"


@dataclass(frozen=True, slots=True)
class FeedViews:
    """The views of one model. `has_versions`: each change is kept, and not the newest of each key alone. `marks`: rows
    that the source deletes stay in the table, so that a deleted row is had with its last values."""

    select: Select
    has_versions: bool = False
    marks: bool = False

    def views(self) -> Iterator[MakeView | KeepRows]:
        """All views, as the compiled file has them: those of every batch around those of some."""
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
        keys, sequence = self._keys, self.select.order
        if self.has_versions:
            return MakeView("each batch: its changes, each once", NEWEST_VIEW, newest_changes((*keys, *sequence), ()))
        newest = newest_changes(keys, sequence, self.select.has_moves, self._latest, tuple(self.select.kept))
        return MakeView("each batch: the newest change of each key", NEWEST_VIEW, newest)

    def placed(self) -> MakeView | None:
        """The changes where a snapshot has read some of the rows; None where the place in the log is nothing to the
        order."""
        if not self.select.orders_reads:
            return None
        when = "each batch of changes and a snapshot's rows"
        if not self.has_versions:
            return MakeView(f"{when}: without what these replace", CHANGES_VIEW, not_replaced(self._keys))
        placed = placed_behind(self._keys, self.select.change_columns)
        return MakeView(f"{when}: these behind what they follow", CHANGES_VIEW, placed)

    def lone_tombstones(self) -> MakeView | None:
        """The changes without the tombstones that delete nothing; None where a column of the feed orders them, which no
        tombstone has."""
        if not all(word.startswith(f"{CHANGE}.") for word in self.select.sequence.values()):
            return None
        when = "each batch with tombstones of the feed: without those that follow a delete of their key"
        return MakeView(when, CHANGES_VIEW, without_followers(self._keys))

    def closing(self) -> KeepRows | None:
        """The changes where tombstones are placed in a history; None where they need no place in the log."""
        select = self.select
        if not (self.has_versions and select.is_placed):
            return None
        (place,) = select.sequence
        query = closing_tombstones(select.model.table, select.feed_keys, place, select.change_columns)
        when = "each batch with tombstones of the feed that stand alone: behind what their key has had"
        return KeepRows(when, CHANGES_VIEW, Bounded(query, ("stored", "deleted")))

    def tombstone_keys(self) -> str:
        """The query of the keys of the tombstones among the changes, by the model's names for them."""
        keys = self.select.feed_keys
        named = ", ".join(f"{identifier(column)} AS {identifier(key)}" for key, column in keys.items())
        return f"SELECT {named} FROM {CHANGES_VIEW} WHERE {RAW}.value IS NULL"

    @property
    def key_changes(self) -> KeyChanges | None:
        """What is done where the source changes keys of rows; None where each change is kept as it is."""
        return KeyChanges(self.select, self.marks) if self.select.has_moves else None

    def newest_known(self) -> MakeView | None:
        """The newest changes where some of the batch have left out values; None where the model keeps none."""
        if not self.select.kept:
            return None
        query = newest_known(self._keys, self.select.order, tuple(self.select.kept), self._latest)
        return MakeView(
            f"{UNSENT_WHEN}: the newest change of each key, with what earlier ones have sent", NEWEST_VIEW, query
        )

    def changed(self, has_truncate: bool) -> MakeView:
        """The keys that these changes are of."""
        keys = changed_keys(has_truncate, self.select.is_placed, bool(self.select.kept), self.marks)
        which = " with a truncate" if has_truncate else ""
        return MakeView(f"each batch{which}: the keys that have changed", CHANGED_VIEW, keys)

    def current(self, with_deleted: bool = True) -> MakeView:
        """The rows that these changes leave, under the stream's name; `with_deleted`, where the mode marks them, those
        that were deleted too."""
        (stream,) = self.select.query.streams_read
        which = ", and those that they delete" if self.marks else ""
        query = current_rows(self._latest, tuple(self.select.kept), with_deleted)
        return MakeView(f"each batch: the rows of the source that they leave{which}", identifier(stream), query)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The columns of the feed's key."""
        return tuple(self.select.feed_keys.values())

    @property
    def _latest(self) -> tuple[str, ...]:
        """The columns of a feed whose deleted rows are kept."""
        (stream,) = self.select.query.streams_read
        return self.select.streams[stream].column_names if self.marks else ()
