"""Mode `scd2`: what is checked of a SELECT, the statements of a batch, and what is said
of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakesql.compile.batch import (
    COMMIT,
    Bounded,
    KeepRows,
    MakeView,
    ReadBounds,
    Remember,
    Step,
    Write,
    forget,
)
from lakesql.compile.select import Select
from lakesql.compile.table import TableColumn
from lakesql.errors import Problem, RunError
from lakesql.modes.batches.batches import (
    Batches,
    StoredRows,
    check_null_groups,
    check_updating,
    contradictory,
    find_keys_in_sequence,
    find_tracked_keys,
    listed,
)
from lakesql.modes.batches.feed_rows import (
    GIVEN_ROWS,
    check_feed,
    check_rows,
    check_state,
    say_incomplete,
    say_unsent,
    stored_until_changed,
    untraceable_change,
)
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.modes.batches.history import History
from lakesql.modes.batches.merge import Merge, newest_rows
from lakesql.modes.batches.mirror import mirrored_rows
from lakesql.modes.scd2 import Scd2
from lakesql.names import BATCH_VIEW, DELETE, HISTORY_VIEW, REMEMBERED, STORED


@dataclass(frozen=True, slots=True)
class Scd2Batches(Batches):
    """Each change of a key is a version of it: of rows of the SELECT, or of what a
    change feed does to its rows."""

    select: Select
    config: Scd2

    def check(self) -> Iterator[Problem]:
        """A SELECT without state between batches; of a feed, whose key and sequence it
        keeps."""
        yield from check_updating(self.select)
        yield from check_null_groups(self.select)
        yield from check_state(self.select, "version of a row")
        if self._is_of_feed:
            yield from check_feed(self.select)
        writing = self.select.writing
        yield from contradictory(self.select, find_keys_in_sequence(writing))
        yield from contradictory(self.select, find_tracked_keys(writing))

    @property
    def feed_views(self) -> FeedViews | None:
        """All changes, and the rows that each leaves, where a feed is read."""
        return FeedViews(self.select, has_versions=True) if self._is_of_feed else None

    @property
    def needs_columns(self) -> str:
        """The columns that are tracked, all if none is named."""
        return "mode"

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys, and what orders the changes of a key."""
        return (
            *self.config.keys,
            *(tuple(self.select.sequence) or self.config.sequence_by),
        )

    def refuse_any_truncate(self) -> RunError | None:
        """A truncate is no change of any key."""
        model = self.select.model
        return RunError.of(
            "truncate-refused",
            f"The source of model '{model.name}' was truncated, and no history has a truncate. Nothing of the batch "
            "was written.",
            fix=f"Fill the source again, and `lakesql rebuild {model.name}`.",
            place=model.option_place("mode"),
        )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """One MERGE of the versions that all changes of the batch's keys make. What
        makes none is remembered."""
        select, config = self.select, self.config
        sequence = select.sequence or {name: name for name in config.sequence_by}
        batch = newest_rows(
            Merge(select.model.table, (*config.keys, *sequence)),
            select.writing.is_positioned,
        )
        if self._is_of_feed:
            batch = mirrored_rows({**select.feed_keys, **sequence}, {}, columns)
        history = History(
            select.model.table, config, tuple(sequence), columns or (), select.is_placed
        )
        return (
            *self.made_views(),
            MakeView(
                "each batch: its changes, and what the SELECT makes of them",
                BATCH_VIEW,
                batch,
            ),
            ReadBounds(BATCH_VIEW, config.keys),
            *check_rows(select, DELETE),
            KeepRows(
                "each batch: all changes of its keys",
                HISTORY_VIEW,
                Bounded(history.changes(self._is_of_feed), (STORED, REMEMBERED)),
            ),
            Remember(
                "each batch: changes that make no version are remembered",
                HISTORY_VIEW,
                history.is_forgotten,
                history.remember,
                forget(select, "tombstones"),
            ),
            Write(COMMIT, Bounded(history.merge, ("target",))),
        )

    def remembered(
        self, columns: Iterable[TableColumn]
    ) -> tuple[str, tuple[TableColumn, ...]]:
        """All columns of a change that makes no version, and whether it was a
        delete."""
        is_delete = TableColumn(
            DELETE,
            "boolean",
            "Whether it was a delete; otherwise a change that made no version.",
        )
        kept = (replace(column, comment="") for column in columns)
        return "Changes that make no version in", (*kept, is_delete)

    def given(self) -> str:
        """What the SELECT reads under the name of a stream."""
        return GIVEN_ROWS if self._is_of_feed else Batches.given(self)

    def rows(self) -> str:
        """Which rows the table has."""
        by = ", then ".join(
            (*(self.select.sequence.values() or self.config.sequence_by), "arrival")
        )
        keys = listed(self.config.keys, "and")
        return (
            f"the history of each {keys}: a row for each version, in the order of {by}"
        )

    def filtered(self) -> str:
        """A row of a feed that no longer passes has ended; a row of records tells
        nothing."""
        if not self.select.query.filters:
            return ""
        if self._is_of_feed:
            return "the version of a row that no longer passes ends"
        return "a change that is filtered out ends no version"

    def left_by_filter(self) -> str:
        """The version before stays the current one; of a feed it ends."""
        return "" if self._is_of_feed else "the version before it, as the current one"

    def incomplete(self) -> str:
        """Changes that have no place in the sequence."""
        return say_incomplete(self.select)

    def unsent(self) -> str:
        """What becomes of large values that an update leaves out because it has not
        changed them."""
        return say_unsent(self.select) if self._is_of_feed else ""

    def late(self) -> str:
        """What becomes of a change that comes late."""
        return "none is too late; a change that comes late splits the history where it belongs"

    def deleted_keys(self) -> str:
        """How deletes are remembered."""
        return (
            f"they end the last version; remembered, as are changes that make no version, in "
            f"{self.select.model.table.tombstones} for {self.config.tombstone_retention.text}, for what comes late"
        )

    def joined_again(self) -> str:
        """With each change."""
        when = (
            "its source changes" if self._is_of_feed else "a record of its key arrives"
        )
        return f"a row is joined again when {when}"

    def untraceable(self) -> str:
        """A change of a feed cannot be set aside."""
        why = Batches.untraceable(self)
        return why or (untraceable_change(self.select) if self._is_of_feed else "")

    def stored_rows(self) -> StoredRows:
        """They follow their source."""
        return stored_until_changed("a history", self._is_of_feed)

    @property
    def _is_of_feed(self) -> bool:
        return self.select.feed is not None
