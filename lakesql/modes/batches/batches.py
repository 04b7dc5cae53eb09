"""What every mode with a SELECT must answer about its batches, so that no other module
asks which mode a model has; and what several modes check and write alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lakesql.compile.batch import MakeView, Step
from lakesql.compile.checks import checked_rows, is_dead, kept_rows
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.compile.table import TableColumn
from lakesql.errors import Problem, RunError
from lakesql.model.writing import Writing, common
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.names import CHANGE, CHECKED_VIEW, MADE_VIEW, ROWS_VIEW


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An option that contradicts another one, with what is wrong and why."""

    option: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What a changed SELECT, or a new column, means for stored rows: whether the plan
    asks for a rebuild, the text on it, the advice, and what else is needed to `fill` a
    new column."""

    verdict: Literal["next-batch", "rebuild"]
    what: str
    do: str
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Batches(ABC):
    """The batches of a model, by its mode: what is refused, the steps, and texts."""

    select: Select

    @abstractmethod
    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT whose rows the mode cannot write, and of options of
        the mode that contradict each other."""

    @abstractmethod
    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of each batch: first the view `_lakesql_rows` of the SELECT's rows,
        last one `Write`.

        `columns` are those that the table gets; None if only Spark's analyzer knows
        them.
        """

    def made_views(self) -> tuple[MakeView, ...]:
        """The views of the SELECT's rows and of their checks, `_lakesql_rows` last. If
        the SELECT reads a feed's rows, the checks are not among them: `check_rows` does
        these before the write."""
        select = self.select
        when = (
            "the streaming query"
            if select.query.stateful
            else "each batch: the rows that the SELECT makes of it"
        )
        if not select.checks or select.feed is not None:
            return (MakeView(when, ROWS_VIEW, select.text),)
        sets_aside = bool(is_dead(select.checks))
        return (
            MakeView(when, MADE_VIEW, select.text),
            MakeView(
                "each batch: its rows, each with what it fails",
                CHECKED_VIEW,
                checked_rows(select.checks),
            ),
            MakeView(
                f"each batch: its rows{', without those whose records are dead letters' if sets_aside else ''}",
                ROWS_VIEW,
                kept_rows(
                    select.checks,
                    is_placed=select.writing.is_positioned and not select.writing.keys,
                ),
            ),
        )

    @property
    @abstractmethod
    def unique_by(self) -> tuple[str, ...]:
        """The columns in which no two rows of the table are equal; empty if rows may be
        duplicates."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which batches find the rows of the table that they change;
        empty if they change none."""
        return self.unique_by

    @property
    def feed_views(self) -> FeedViews | None:
        """The views that turn a feed's changes into the rows that the SELECT reads;
        None if it reads the records themselves."""
        return None

    @property
    def needs_columns(self) -> str:
        """The given option for which the SELECT's columns must be known; '' if there is
        none."""
        return ""

    @property
    def updated(self) -> dict[str, tuple[str, ...]]:
        """The columns named by the options on which columns an update sets, by
        option."""
        return {}

    def refuse_truncate(self, *, has_place: bool) -> RunError | None:
        """The error by which a truncate of the source is refused; None if it empties
        the table. `has_place`: it has the field that orders the changes, without which
        it is not known which rows are older."""
        if refusal := self.refuse_any_truncate():
            return refusal
        if any(stream.reads_several for stream in self.select.streams.values()):
            return _truncate_of_one(self.select)
        return None if has_place else _truncate_without_place(self.select)

    def refuse_any_truncate(self) -> RunError | None:
        """The error by which the mode refuses every truncate; None if it does not."""
        return None

    # --- what is remembered

    def remembered(
        self, columns: Iterable[TableColumn]
    ) -> tuple[str, tuple[TableColumn, ...]]:
        """The description of the tombstones' table and its columns: by default the keys
        and `sequence_by`. `columns` are those of the model's table."""
        writing = self.select.writing
        names = {
            name.lower()
            for name in (*writing.keys, *(self.select.sequence or writing.sequence_by))
        }
        kept = (
            replace(column, comment="")
            for column in columns
            if column.name.lower() in names
        )
        return "Keys that were deleted from", tuple(kept)

    # --- texts of the compiled file and of plans

    def given(self) -> str:
        """The text on what the SELECT reads under the name of a stream."""
        return "the batch's records"

    @abstractmethod
    def rows(self) -> str:
        """The text on which rows the table has."""

    def incomplete(self) -> str:
        """The text on which changes of a feed are dead letters because they lack a
        value; '' if none are."""
        return ""

    def updates(self) -> str:
        """The text on how an update of a stored row differs from setting all of its
        columns; '' if it does not."""
        return ""

    def filtered(self) -> str:
        """The text on what happens to a stored row whose new version is filtered out;
        '' if there is no filter."""
        return ""

    def left_by_filter(self) -> str:
        """A noun for what stays in the table of a key whose newest record is filtered
        out; '' if nothing stays."""
        return ""

    def unsent(self) -> str:
        """The text on what happens to large values that are missing in a change event,
        as the update has not changed them; '' if there are none."""
        return ""

    def late(self) -> str:
        """The text on what happens to a late row if no watermark drops it."""
        if self.select.writing.sequence_by and not self.select.query.stateful:
            return "none is too late; a row older than the one of its key in the table changes nothing"
        return "none is too late"

    def deletes(self) -> str:
        """The text on what happens to deleted rows, and how many of them stop the
        model."""
        return ""

    def deleted_keys(self) -> str:
        """The text on how deleted keys are remembered; '' if they are not."""
        kept = self.select.writing.retention
        if kept is None:
            return ""
        return f"remembered in {self.select.model.table.tombstones} for {kept.text}: no older row brings one back"

    def joined_again(self) -> str:
        """The text on when a row that was joined with a table is joined again."""
        return "a row is joined again when a record of its key arrives"

    def untraceable(self) -> str:
        """The reason why a row of the SELECT cannot become a dead letter, as it is not
        made of one record; '' if it can."""
        if self.select.query.stateful:
            return "It keeps state between batches: a row is made of many records."
        return ""

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means for stored rows."""
        return StoredRows(
            "next-batch",
            "Rows that are in the table stay as they were.",
            "To have it in all rows: lakesql rebuild",
        )


def find_keys_in_sequence(writing: Writing) -> Iterator[Contradiction]:
    """A contradiction for each key that is in `sequence_by` too."""
    for key in common(writing.keys, writing.sequence_by):
        what = f"'{key}' is in keys and in sequence_by."
        yield Contradiction(
            "sequence_by",
            what,
            "All changes of a row have the same key: it orders none of them.",
        )


def find_tracked_keys(writing: Writing) -> Iterator[Contradiction]:
    """A contradiction if all of `track_columns` are keys."""
    tracked = writing.compared.get("track_columns", ())
    keys = common(writing.keys, tracked)
    if tracked and len(keys) == len(tracked):
        what = f"All of track_columns are keys: {', '.join(keys)}."
        why = (
            "All versions of a row have the same keys: it would never get a second one."
        )
        yield Contradiction("track_columns", what, why)


def contradictory(select: Select, found: Iterable[Contradiction]) -> Iterator[Problem]:
    """The contradictions as problems at the places of their options."""
    for each in found:
        yield Problem(
            "contradictory-options",
            each.what,
            each.why,
            place=select.model.option_place(each.option),
        )


def listed(columns: tuple[str, ...], word: str) -> str:
    """The columns, quoted and joined by this word."""
    return f" {word} ".join(map(identifier, columns))


def say_ratio(ratio: float) -> list[str]:
    """The text that a batch which deletes more than this share of the table's rows
    stops the model; empty if the share is 1."""
    return (
        [
            f"a batch that deletes more than {ratio * 100:g}% of the table's rows stops the model"
        ]
        if ratio < 1
        else []
    )


def check_updating(select: Select) -> Iterator[Problem]:
    """The problems of a SELECT that would have to take back rows, which a mode that
    only writes the SELECT's rows cannot do: filtered groups, nested aggregates, and
    sessions."""
    mode, noted = select.model.config.mode, select.query.noted
    if "filtered-groups" in noted:
        yield Problem(
            "filtered-groups",
            f"A group that stops passing this filter would keep its last row in the table, as mode "
            f"'{mode}' only writes the rows that the SELECT gives.",
            place=select.rendered.place(noted["filtered-groups"]),
        )
    if "nested-aggregate" in noted:
        yield Problem(
            "nested-aggregate",
            f"Mode '{mode}' cannot aggregate the rows of an aggregate.",
            "Spark would have to take back a row that the outer aggregate has counted already.",
            place=select.rendered.place(noted["nested-aggregate"]),
        )
    if "session-in-upsert" in noted:
        yield Problem(
            "session-in-upsert",
            f"Mode '{mode}' cannot group by session_window.",
            "A session that grows has another start or end, and its former row would stay.",
            place=select.rendered.place(noted["session-in-upsert"]),
        )


def check_null_groups(select: Select) -> Iterator[Problem]:
    """A problem for each key that is NULL in the rows added by ROLLUP, CUBE or GROUPING
    SETS."""
    if "grouping-sets" not in select.query.noted:
        return
    plain = {
        output.name.lower() for output in select.query.outputs or () if output.column
    }
    for key in select.writing.keys:
        if key.lower() in plain:
            yield Problem(
                "group-not-in-keys",
                f"In the rows that ROLLUP, CUBE and GROUPING SETS add, the key '{key}' is NULL, for all of its values.",
                "A row without a key is a dead letter.",
                f"Give it a value, coalesce({key}, 'all') AS {key}. If 'all' may be one of its own, add grouping_id() "
                "to the SELECT and to keys.",
                select.model.option_place("keys"),
            )


def check_groups(select: Select) -> Iterator[Problem]:
    """A problem for each grouping column that `keys` do not determine, without a
    `sequence_by`: several groups would have one key, and any of them would stay."""
    writing = select.writing
    if not writing.keys or writing.sequence_by:
        return
    keys = {key.lower() for key in writing.keys}
    for group in select.query.groups or ():
        if not group.told_by & keys:
            yield Problem(
                "group-not-in-keys",
                f"The SELECT has a row for each {group.text}, which no key tells apart.",
                "Of several rows with one key, any one would stay.",
                f"Select {group.text} and add it to keys, take any_value({group.text}) instead of grouping by it, "
                "or say by sequence_by which row is to stay.",
                select.model.option_place("keys"),
            )


def _truncate_of_one(select: Select) -> RunError:
    (stream,) = select.streams.values()
    return RunError.of(
        "truncate-refused",
        f"A source of model '{select.model.name}' was truncated, and its stream '{stream.name}' reads several topics. "
        "Nothing of the batch was written.",
        why="The rows of the other topics would go too: which topic a row of the table is from is not known.",
        fix="Declare a stream of one topic for each source, and mirror each by a model of its own.",
        place=stream.place,
    )


def _truncate_without_place(select: Select) -> RunError:
    model = select.model
    place = " or ".join(
        word for word in select.sequence.values() if word.startswith(f"{CHANGE}.")
    )
    return RunError.of(
        "truncate-refused",
        f"The source of model '{model.name}' was truncated, and the event has no {place}, by which the changes are "
        "ordered. Nothing of the batch was written.",
        why="Which rows are older than the truncate is not known, and as a dead letter it would leave them all.",
        fix=f"Leave {place} out of sequence_by, and `lakesql rebuild {model.name}`. To go on without the truncate: "
        f"`lakesql rewind {model.name} --to TIME`, with a time after it.",
        place=model.option_place("sequence_by"),
    )
