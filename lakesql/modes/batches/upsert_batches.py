"""The batches of mode `upsert`: what is refused in a SELECT, the steps of a batch, and
the texts about it in the compiled file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import (
    COMMIT,
    Bounded,
    CheckDeletes,
    MakeView,
    ReadBounds,
    Remember,
    Step,
    TakeTombstones,
    Write,
    forget,
)
from lakesql.compile.select import Select
from lakesql.errors import Problem
from lakesql.model.table_name import TableName
from lakesql.model.writing import common
from lakesql.modes.batches.append_batches import say_untold
from lakesql.modes.batches.batches import (
    Batches,
    Contradiction,
    check_groups,
    check_null_groups,
    check_updating,
    contradictory,
    find_keys_in_sequence,
    listed,
    say_ratio,
)
from lakesql.modes.batches.merge import (
    NEVER,
    Merge,
    Updates,
    insert_parts,
    merge_parts,
    newest_rows,
    remember_statement,
    tombstoned_rows,
)
from lakesql.modes.upsert import Upsert
from lakesql.names import BATCH_VIEW, DELETE, REMEMBERED, STORED, TOMBSTONED_VIEW
from lakesql.select.query import read_expression


@dataclass(frozen=True, slots=True)
class UpsertBatches(Batches):
    """The newest row of each key is updated or inserted, or its key deleted."""

    select: Select
    config: Upsert

    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT whose rows would have to be taken back, whose keys
        do not distinguish its rows, that ignores deletes of a change feed, or whose
        conditions are wrong; and contradictory options."""
        select, model, query = self.select, self.select.model, self.select.query
        yield from check_updating(select)
        yield from check_null_groups(select)
        if query.joins_streams:
            yield Problem(
                "upsert-over-join",
                f"Mode '{self.config.mode}' cannot take the rows of a join of two streams.",
                "Spark joins streams with each other in mode 'append' only.",
                place=model.option_place("mode"),
            )
        yield from check_groups(select)
        if ignored := self._feed_of_ignored_deletes():
            yield Problem(
                "upsert-over-feed",
                f"Mode 'upsert' would write a row for each delete of the change feed '{ignored}'.",
                "Nothing of the model tells a delete from an update: the deleted row would stay, with what the feed "
                "sends of it.",
                "Use mode 'cdc', whose table has the rows of the source. Or select `_change.op AS op`, and say "
                "`delete_when=\"op = 'd'\"`; or leave deletes out: `WHERE _change.op <> 'd'`.",
                model.option_place("mode"),
            )
        for option, condition in select.writing.conditions.items():
            if isinstance(
                problem := read_expression(condition, select.columns, use="filter"),
                Problem,
            ):
                yield problem.at(model.option_place(option))
        for option, condition in select.writing.match_conditions.items():
            problem = read_expression(
                condition, select.columns, ("source", "target"), use="filter"
            )
            if isinstance(problem, Problem):
                yield problem.at(model.option_place(option))
        is_asked = "tombstone_retention" in model.options and model.said.get(
            "tombstone_retention"
        )
        if is_asked and not select.writing.memories:
            yield Problem(
                "contradictory-options",
                "tombstone_retention is given, and deleted keys are not remembered.",
                "Without sequence_by nothing says which row is older; in mode 'upsert' delete_when says what is "
                "deleted.",
                place=model.option_place("tombstone_retention"),
            )
        yield from contradictory(select, self._find_contradictions())

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a batch: one MERGE of the newest row of each key, and before it
        the INSERT of deleted keys into the tombstones."""
        select = self.select
        config, merge = self.config, self._merge
        newest = newest_rows(merge, select.writing.is_positioned, columns or ())
        aliases = ("deleted", "target") if merge.remembers else ("target",)
        ratio = self._max_delete_ratio
        return (
            *self.made_views(),
            MakeView("each batch: the newest row of each key", BATCH_VIEW, newest),
            ReadBounds(BATCH_VIEW, config.keys),
            *(
                (self._take_tombstones(columns or ()),)
                if self._takes_tombstones
                else ()
            ),
            *((CheckDeletes(BATCH_VIEW, ratio),) if ratio < 1 else ()),
            *(
                (_remember(select, remember_statement(merge)),)
                if merge.remembers
                else ()
            ),
            Write(
                COMMIT,
                Bounded(merge_parts(merge, columns), aliases),
                new=Bounded(insert_parts(merge, columns), aliases[:-1]),
            ),
        )

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.config.keys

    @property
    def needs_columns(self) -> str:
        """The option by which an update does not set all columns, so that these must be
        known; '' if none is given."""
        if self.config.update_columns is not None:
            return "update_columns"
        if self.config.exclude_columns:
            return "exclude_columns"
        return "ignore_null_updates" if self.config.ignore_null_updates else ""

    @property
    def updated(self) -> dict[str, tuple[str, ...]]:
        """The columns named by the options on which columns an update sets, by
        option."""
        return {
            "update_columns": self.config.update_columns or (),
            "exclude_columns": self.config.exclude_columns,
        }

    def rows(self) -> str:
        """The text on which rows the table has: one for each key."""
        newest = [
            *self.config.sequence_by,
            *(["arrival"] if self.select.writing.is_positioned else []),
        ]
        which = (
            f"the newest by {', then '.join(newest)}"
            if newest
            else "replaced when it changes"
        )
        return f"one for each {listed(self.config.keys, 'and')}, {which}{say_untold(self.select)}"

    def updates(self) -> str:
        """The text on how an update of a stored row differs from setting all of its
        columns; '' if it does not."""
        return "; ".join(self._note_updates())

    def filtered(self) -> str:
        """The text on a filter: the former row of a key stays; '' without a filter."""
        if not self.select.query.filters:
            return ""
        return "if the newest row of a key is filtered out, the table keeps the key's former row"

    def left_by_filter(self) -> str:
        """What stays of a key whose newest record is filtered out: its former row; ''
        for a SELECT that keeps state, which has no records of keys."""
        return "" if self.select.query.stateful else "its former row"

    def deletes(self) -> str:
        """The text on how many deletes stop the model; '' if none do."""
        return "; ".join(say_ratio(self._max_delete_ratio))

    @property
    def _takes_tombstones(self) -> bool:
        return self.select.writing.tombstones == "delete"

    @property
    def _deletes(self) -> bool:
        return bool(self.config.delete_when) or self._takes_tombstones

    @property
    def _max_delete_ratio(self) -> float:
        return self.config.max_delete_ratio if self._deletes else 1.0

    @property
    def _merge(self) -> Merge:
        """How the rows of a batch are merged into the table."""
        remembers = self.select.writing.retention is not None
        return merge_of(
            self.select.model.table, self.config, self._takes_tombstones, remembers
        )

    def _take_tombstones(self, columns: tuple[str, ...]) -> TakeTombstones:
        select, merge, when = self.select, self._merge, "each batch with tombstones"
        sequenced = bool(merge.sequence)
        rows = tombstoned_rows(merge, select.columns or ())
        newest = newest_rows(
            merge, select.writing.is_positioned, columns, has_tombstones=True
        )
        return TakeTombstones(
            f"{when}: its rows and these{', in the sequence of what they delete' if sequenced else ''}",
            TOMBSTONED_VIEW,
            Bounded(rows, (STORED, REMEMBERED) if sequenced else ()),
            MakeView(f"{when}: the newest row of each key", BATCH_VIEW, newest),
            merge.keys,
        )

    def _feed_of_ignored_deletes(self) -> str:
        """The name of a change feed whose deletes the model would write as rows; '' if
        there is none, or if the model uses `_change.op`.

        A model that keeps state is not meant: it may count changes, deletes included.
        """
        query = self.select.query
        if query.stateful or self.config.delete_when or "op" in query.change_fields:
            return ""
        return next(
            (name for name in query.streams_read if self.select.streams[name].is_feed),
            "",
        )

    def _find_contradictions(self) -> Iterator[Contradiction]:
        config = self.config
        if config.max_delete_ratio < 1 and not self._deletes:
            what = "max_delete_ratio is given, and nothing is deleted."
            why = "There is no delete_when, and the keys are not the key of one topic, whose tombstones would delete."
            yield Contradiction("max_delete_ratio", what, why)
        if config.update_columns is not None and config.exclude_columns:
            what, why = (
                "update_columns and exclude_columns are both given.",
                "Each says which columns are updated, one",
            )
            yield Contradiction("exclude_columns", what, f"{why} by naming the others.")
        for key in common(config.keys, config.update_columns or ()):
            what = f"'{key}' is in keys and in update_columns."
            yield Contradiction(
                "update_columns",
                what,
                "A row is found by its keys: they are equal already.",
            )
        yield from find_keys_in_sequence(self.select.writing)
        option = (
            "update_columns" if config.update_columns is not None else "exclude_columns"
        )
        for column in config.sequence_by:
            if self._merge.updated(column) or common((column,), config.keys):
                continue
            yield Contradiction(
                option,
                f"'{column}' is in sequence_by, and {option} leaves it as it is stored.",
                "An update by a newer row would keep the older row's place in the sequence, and older rows win later.",
            )

    def _note_updates(self) -> Iterator[str]:
        config = self.config
        if config.update_columns is not None:
            columns = ", ".join(config.update_columns)
            yield (
                f"a stored row gets {columns}"
                if columns
                else "none; a row whose key is in the table changes nothing"
            )
        if config.exclude_columns:
            yield f"a stored row keeps {', '.join(config.exclude_columns)}"
        if config.ignore_null_updates:
            yield "a NULL leaves the stored value"
        if config.when_matched:
            yield (
                "a stored row is updated only where when_matched holds for it and the newest row of a batch, so that "
                "rows may depend on where a batch ends"
            )


def _remember(select: Select, statement: str) -> Remember:
    when = "each batch that deletes: what it deletes is remembered"
    return Remember(when, BATCH_VIEW, DELETE, statement, forget(select, "tombstones"))


def merge_of(
    table: TableName,
    config: Upsert,
    takes_tombstones: bool = False,
    remembers: bool = False,
) -> Merge:
    """How rows are merged into a table by these options. `takes_tombstones`: records
    without a value delete keys too."""
    return Merge(
        table,
        config.keys,
        config.sequence_by,
        delete_when=config.delete_when or (NEVER if takes_tombstones else ""),
        updates=Updates(
            config.update_columns,
            config.exclude_columns,
            config.when_matched,
            config.ignore_null_updates,
        ),
        remembers=remembers,
    )
