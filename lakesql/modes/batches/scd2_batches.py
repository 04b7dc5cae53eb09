"""The batches of mode `scd2` over streams: what is refused in a SELECT, the steps of a
batch, and the texts about it in the compiled file."""

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
    """Batches that keep a version for each change of a key: of the SELECT's rows, or of
    the source's rows if a change feed is read."""

    select: Select
    config: Scd2

    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT that keeps state or, over a change feed, does not
        select its key and `sequence_by`; and contradictory options."""
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
        """The views of all changes and of the rows that each leaves; None if no change
        feed is read."""
        return FeedViews(self.select, has_versions=True) if self._is_of_feed else None

    @property
    def needs_columns(self) -> str:
        """The option `mode`: the columns must always be known, as changes in them make
        versions."""
        return "mode"

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys and `sequence_by`: no two versions of a key begin at the same
        place."""
        return (
            *self.config.keys,
            *(tuple(self.select.sequence) or self.config.sequence_by),
        )

    def refuse_any_truncate(self) -> RunError | None:
        """The error of a truncate, which a history cannot represent."""
        model = self.select.model
        return RunError.of(
            "truncate-refused",
            f"The source of model '{model.name}' was truncated, and no history has a truncate. Nothing of the batch "
            "was written.",
            fix=f"Fill the source again, and `lakesql rebuild {model.name}`.",
            place=model.option_place("mode"),
        )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a batch: one MERGE of the versions that all changes of its keys
        make, and before it the INSERT of other changes into the tombstones."""
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
        """The description of the tombstones' table and its columns: those of a change,
        and whether it was a delete."""
        is_delete = TableColumn(
            DELETE,
            "boolean",
            "Whether it was a delete; otherwise a change that made no version.",
        )
        kept = (replace(column, comment="") for column in columns)
        return "Changes that make no version in", (*kept, is_delete)

    def given(self) -> str:
        """The text on what the SELECT reads under the name of a stream."""
        return GIVEN_ROWS if self._is_of_feed else Batches.given(self)

    def rows(self) -> str:
        """The text on which rows the table has: one for each version of a key."""
        by = ", then ".join(
            (*(self.select.sequence.values() or self.config.sequence_by), "arrival")
        )
        keys = listed(self.config.keys, "and")
        return (
            f"the history of each {keys}: a row for each version, in the order of {by}"
        )

    def filtered(self) -> str:
        """The text on a filter: over a change feed, the version of a row that no longer
        passes ends; otherwise it does not. '' without a filter."""
        if not self.select.query.filters:
            return ""
        if self._is_of_feed:
            return "the version of a row that no longer passes ends"
        return "a change that is filtered out ends no version"

    def left_by_filter(self) -> str:
        """What stays of a key whose newest record is filtered out: the version before
        it; '' over a change feed, where that ends."""
        return "" if self._is_of_feed else "the version before it, as the current one"

    def incomplete(self) -> str:
        """The text on which changes are dead letters because they lack a value."""
        return say_incomplete(self.select)

    def unsent(self) -> str:
        """The text on what happens to large values that are missing in a change event;
        '' if no change feed is read."""
        return say_unsent(self.select) if self._is_of_feed else ""

    def late(self) -> str:
        """The text on what happens to a change that comes late."""
        return "none is too late; a change that comes late splits the history where it belongs"

    def deleted_keys(self) -> str:
        """The text on how deletes are remembered."""
        return (
            f"they end the last version; remembered, as are changes that make no version, in "
            f"{self.select.model.table.tombstones} for {self.config.tombstone_retention.text}, for what comes late"
        )

    def joined_again(self) -> str:
        """The text on when a row is joined again: with each change."""
        when = (
            "its source changes" if self._is_of_feed else "a record of its key arrives"
        )
        return f"a row is joined again when {when}"

    def untraceable(self) -> str:
        """The reason why a row cannot become a dead letter, as one of a change feed
        cannot; '' if it can."""
        why = Batches.untraceable(self)
        return why or (untraceable_change(self.select) if self._is_of_feed else "")

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means for stored rows: they stay until their source
        changes."""
        return stored_until_changed("a history", self._is_of_feed)

    @property
    def _is_of_feed(self) -> bool:
        return self.select.feed is not None
