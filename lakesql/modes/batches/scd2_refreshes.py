"""The refreshes of mode `scd2` over tables: what is refused in a SELECT, the steps of a
refresh, and the texts about it in the compiled file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import Bounded, MakeView, Step, Write
from lakesql.compile.select import Select, output_columns
from lakesql.compile.storable import find_misused
from lakesql.errors import Problem
from lakesql.modes.batches.batches import (
    StoredRows,
    contradictory,
    find_tracked_keys,
    listed,
)
from lakesql.modes.batches.refreshed_batches import (
    RefreshedBatches,
    find_key_problems,
    inputs_of,
    plan_of,
)
from lakesql.modes.batches.table_versions import TableVersions
from lakesql.modes.scd2_of_tables import Scd2OfTables
from lakesql.names import DIFFERENCES_VIEW, HISTORY_VIEW
from lakesql.views.plan_view import ViewPlan


@dataclass(frozen=True, slots=True)
class Scd2Refreshes(RefreshedBatches):
    """Refreshes that compare each row of the SELECT with the current version of its
    key."""

    select: Select
    config: Scd2OfTables

    @property
    def plan(self) -> ViewPlan:
        """The plan by which the table is refreshed: all rows are computed."""
        return plan_of(
            self.select.query.sql, inputs_of(self.select), self.config.keys, "full"
        )

    def versions(self, columns: tuple[str, ...]) -> TableVersions:
        """The statements that write versions of rows with these columns."""
        return TableVersions(self.select.model.table, self.config, columns)

    def check(self) -> Iterator[Problem]:
        """The problems of keys that are random, duplicate or not selected, and of
        tracked columns that cannot be compared."""
        yield from RefreshedBatches.check(self)
        # The keys of a history may be fewer than the columns of the GROUP BY, so that
        # is no problem here. If the SELECT's columns are known, the check of options
        # that name columns finds keys that are not selected.
        is_open = self.select.columns is None
        kinds = (
            ("random-key", "key-twice", "not-an-output")
            if is_open
            else ("random-key", "key-twice")
        )
        yield from find_key_problems(self.select, self.plan, kinds)
        yield from contradictory(self.select, find_tracked_keys(self.select.writing))
        if is_open or self.config.track_columns:
            return
        types = {
            column.name.lower(): column.type for column in output_columns(self.select)
        }
        tracked = {"track_columns": self.versions(tuple(types)).tracked}
        yield from find_misused(
            self.select.model.name, types, (), tracked, self.select.model.option_place
        )

    @property
    def _known(self) -> tuple[str, ...]:
        """The columns of the SELECT, with those that a * stands for; empty if only
        Spark knows them."""
        offered = self.select.query.offered or ()
        return self.select.columns or tuple(
            column.name for column in offered if column.name
        )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a refresh: the view of the first one, which creates the table,
        and those of all others."""
        versions = self.versions(
            columns or self._known or (*self.config.keys, *self.config.track_columns)
        )
        when = "a refresh"
        return (
            *self.row_views(
                f"{when}: the rows of the SELECT, over one snapshot of each table"
            ),
            MakeView(
                "the first refresh: the rows that the table is made with",
                HISTORY_VIEW,
                versions.first,
            ),
            MakeView(
                f"{when}: the rows that differ from their current versions",
                DIFFERENCES_VIEW,
                versions.differences,
            ),
            MakeView(
                f"{when}: the versions that begin, and those that end",
                HISTORY_VIEW,
                versions.changed,
            ),
            Write(f"{when}: the commit", Bounded((versions.merge,), ())),
        )

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys and the start of a version."""
        return (*self.config.keys, self.config.valid_from)

    def rows(self) -> str:
        """The text on which rows the table has."""
        return (
            f"the history of each {listed(self.config.keys, 'and')}: a row for each version, which is valid from the "
            "newest commit of the tables that brought it"
        )

    def kept_by(self) -> str:
        """The text on how a refresh updates the table."""
        said = (
            "each refresh compares the SELECT's rows with the current versions, by key: one that differs ends, and "
            "another one begins; one whose row has left ends"
        )
        return (
            said
            if self._known
            else f"{said}. The columns for which a * stands are not in the statements below"
        )

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means for stored rows: the next refresh adds a version
        of each row that differs."""
        return StoredRows(
            "next-batch",
            "The next refresh begins another version of each row that differs by it.",
            "",
        )
