"""The batches of mode `cdc`: what is refused in a SELECT, the steps of a batch, and the
texts about it in the compiled file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import (
    COMMIT,
    Bounded,
    CheckDeletes,
    FillUnsent,
    MakeView,
    ReadBounds,
    Remember,
    Step,
    Write,
    forget,
)
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.errors import Problem, RunError
from lakesql.modes.batches.batches import (
    Batches,
    Contradiction,
    StoredRows,
    check_null_groups,
    check_updating,
    contradictory,
    find_keys_in_sequence,
    say_ratio,
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
from lakesql.modes.batches.feed_views import UNSENT_WHEN, FeedViews
from lakesql.modes.batches.merge import (
    Merge,
    insert_parts,
    merge_parts,
    remember_statement,
)
from lakesql.modes.batches.mirror import (
    each_row,
    filled_rows,
    mirrored_parts,
    mirrored_rows,
    not_in_feed,
    truncates,
)
from lakesql.modes.cdc import Cdc
from lakesql.names import (
    BATCH_VIEW,
    DELETE,
    FILLED_VIEW,
    MARKED_AT,
    ONLY_MARKS,
    UNKNOWN,
)


@dataclass(frozen=True, slots=True)
class CdcBatches(Batches):
    """Batches that keep the table equal to the SELECT over the source's rows: a key for
    which the SELECT makes no row is deleted, or marked as deleted."""

    select: Select
    config: Cdc

    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT that does not read exactly one change feed, does not
        select its key and `sequence_by`, or keeps state; and contradictory options."""
        yield from check_updating(self.select)
        yield from check_null_groups(self.select)
        yield from check_state(self.select, "row")
        yield from check_feed(self.select)
        yield from contradictory(self.select, self._find_contradictions())

    @property
    def feed_views(self) -> FeedViews:
        """The views of the newest change of each key, and of the rows that these
        leave."""
        return FeedViews(self.select, marks=self.config.marks)

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.config.keys

    def refuse_any_truncate(self) -> RunError | None:
        """The error of a truncate if the model has `on_truncate='fail'`; else None."""
        if self.config.on_truncate == "apply":
            return None
        model = self.select.model
        return RunError.of(
            "truncate-refused",
            f"The source of model '{model.name}' was truncated, and the model says on_truncate='fail'. Nothing of the "
            "batch was written.",
            fix=f"Fill the source again, and `lakesql rebuild {model.name}`. If the rows are to go, run once with "
            "on_truncate='apply' instead.",
            place=model.option_place("on_truncate"),
        )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a batch: one MERGE of a row for each changed key, and before it
        the INSERTs into the tombstones and the remembered key changes."""
        select, merge, marks = self.select, self._merge, self.config.marks
        ratio = self.config.max_delete_ratio
        moves = self.feed_views.key_changes
        landing = (*columns, MARKED_AT) if marks and columns is not None else columns
        aliases = ("deleted", "target") if merge.remembers else ("target",)
        return (
            *self.made_views(),
            MakeView(
                "each batch: each key that has changed",
                BATCH_VIEW,
                self._changed_rows(columns),
            ),
            *((CheckDeletes(BATCH_VIEW, ratio, self._deleted),) if ratio < 1 else ()),
            *((moves.remember(self._landed(columns)),) if moves else ()),
            ReadBounds(BATCH_VIEW, merge.keys),
            *self._fill_unsent(columns),
            *check_rows(select, self._deleted),
            *((self._remember(),) if merge.remembers else ()),
            Write(
                COMMIT,
                Bounded(merge_parts(merge, landing), aliases),
                truncating=self._truncating,
                new=Bounded(insert_parts(merge, landing), aliases[:-1]),
                skips_older=merge.remembers,
            ),
        )

    def given(self) -> str:
        """The text on what the SELECT reads under the name of the feed."""
        return GIVEN_ROWS

    def rows(self) -> str:
        """The text on which rows the table has: one for each row of the source."""
        (feed,) = self.select.query.streams_read
        sequence = self.select.sequence
        by = (
            f", the newest by {', then '.join((*sequence.values(), 'arrival'))}"
            if sequence
            else ""
        )
        return f"the SELECT over the rows that the source of {identifier(feed)} has now, one for each of its keys{by}"

    def filtered(self) -> str:
        """The text on a filter: a row that no longer passes is deleted; '' without a
        filter."""
        return (
            "a row that no longer passes leaves the table"
            if self.select.query.filters
            else ""
        )

    def incomplete(self) -> str:
        """The text on which changes are dead letters because they lack a value."""
        return say_incomplete(self.select)

    def unsent(self) -> str:
        """The text on what happens to large values that are missing in a change
        event."""
        return say_unsent(self.select)

    def deletes(self) -> str:
        """The text on rows that the source deletes: whether they stay, marked, and how
        many of them stop the model."""
        marked = (
            [f"a row that the source deletes stays, with the time in {MARKED_AT}"]
            if self.config.marks
            else []
        )
        return "; ".join((*marked, *say_ratio(self.config.max_delete_ratio)))

    def joined_again(self) -> str:
        """The text on when a row is joined again: with each change of its source."""
        return "a row is joined again when its source changes"

    def untraceable(self) -> str:
        """The reason why a row cannot become a dead letter: without the change, the
        table would keep a version that the source no longer has."""
        return Batches.untraceable(self) or untraceable_change(self.select)

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means for stored rows: they stay until their source
        changes."""
        return stored_until_changed("a mirror", is_of_feed=True)

    def _changed_rows(self, columns: tuple[str, ...] | None) -> str:
        """The query for a row for each changed key. If the SELECT makes exactly one row
        of each source row, it needs no join to find the keys without one; then
        `_fill_unsent` joins in batches with values missing in change events."""
        select, marks = self.select, self.config.marks
        if columns is not None and self._makes_each:
            return each_row(select.feed_keys, select.sequence, columns)
        return mirrored_rows(
            select.feed_keys, select.sequence, columns, bool(select.kept), marks
        )

    @property
    def _makes_each(self) -> bool:
        """Whether the SELECT makes exactly one row of each source row, and deleted rows
        leave the table."""
        return self.select.query.keeps_each and not self.config.marks

    def _fill_unsent(self, columns: tuple[str, ...] | None) -> tuple[FillUnsent, ...]:
        kept = {
            name: landed for name, landed in self._landed(columns).items() if landed
        }
        if not kept:
            return ()
        select, marks = self.select, self.config.marks
        says_unsent: dict[str, str] = {}
        if columns is not None and self._makes_each:
            says_unsent = mirrored_parts(
                select.feed_keys, select.sequence, columns, keeps=True
            )
        filled = Bounded(
            filled_rows(select.model.table, select.feed_keys, kept, marks, says_unsent),
            ("stored",),
        )
        known = f"NOT {UNKNOWN} OR {ONLY_MARKS}" if marks else f"NOT {UNKNOWN}"
        when = (
            f"{UNSENT_WHEN}: those from the table, read as {BATCH_VIEW} from there on"
        )
        return (FillUnsent(when, BATCH_VIEW, filled, known, FILLED_VIEW),)

    def _landed(self, columns: tuple[str, ...] | None) -> dict[str, tuple[str, ...]]:
        """The columns of the feed whose values are taken from the table if they are
        missing in a change event, each with the table's columns that have them."""
        landing = {column.lower() for column in columns or ()}
        return {
            name: tuple(
                output
                for output in outputs
                if columns is None or output.lower() in landing
            )
            for name, outputs in self.select.kept.items()
        }

    def _remember(self) -> Remember:
        """The step that stores deleted or marked keys among the tombstones, and
        truncates too if log positions order the changes."""
        of_truncates = truncates(self.config.keys) if self._merge.is_placed else ""
        statement = remember_statement(self._merge, of_truncates, self._deleted)
        when = "each batch that deletes: what it deletes is remembered"
        return Remember(
            when,
            BATCH_VIEW,
            self._deleted,
            statement,
            forget(self.select, "tombstones"),
        )

    def _find_contradictions(self) -> Iterator[Contradiction]:
        yield from find_keys_in_sequence(self.select.writing)
        if self.config.on_truncate == "fail" and not self._has_truncates:
            what = "on_truncate='fail' is given, and a table has no truncates: it is emptied by deletes of its rows."
            yield Contradiction(
                "on_truncate",
                what,
                "max_delete_ratio stops a model before it deletes too many.",
            )

    @property
    def _has_truncates(self) -> bool:
        return self.select.feed is None or self.select.feed.record_envelope.is_of_log

    @property
    def _merge(self) -> Merge:
        """How the rows of a batch are merged into the table."""
        select = self.select
        return Merge(
            select.model.table,
            self.config.keys,
            tuple(select.sequence),
            delete_when=DELETE,
            remembers=bool(select.sequence),
            marks=self.config.marks,
            is_placed=select.is_placed,
        )

    @property
    def _deleted(self) -> str:
        """The condition of the batch's rows that the source no longer has."""
        return f"{DELETE} OR {MARKED_AT} IS NOT NULL" if self.config.marks else DELETE

    @property
    def _truncating(self) -> str:
        """The additional clause of the MERGE in a batch with a truncate; '' if
        truncates are refused or the source has none."""
        if self.config.on_truncate == "fail" or not self._has_truncates:
            return ""
        position = self._merge.sequence[0] if self._merge.is_placed else ""
        return not_in_feed(position, self.config.marks)
