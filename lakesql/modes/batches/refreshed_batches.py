"""The refreshes of models over tables: what is refused in a SELECT, the steps of a full
refresh, and the texts about it in the compiled file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from lakesql.compile.batch import Bounded, MakeView, Step, Write
from lakesql.compile.checks import checked_rows, kept_rows
from lakesql.compile.quote import identifiers, table_name
from lakesql.compile.select import Select
from lakesql.errors import Problem, RunError
from lakesql.modes.batches.batches import Batches, StoredRows
from lakesql.modes.batches.table_versions import TableVersions
from lakesql.modes.refreshed import Refreshed
from lakesql.names import CHECKED_VIEW, MADE_VIEW, ROWS_VIEW, RefreshChoice
from lakesql.views.plan_view import ViewPlan, plan_view
from lakesql.views.view_tree import ViewInput

_OVERWRITE = """\
INSERT OVERWRITE {table} BY NAME
SELECT {columns}
FROM {rows}"""


@dataclass(frozen=True, slots=True)
class RefreshedBatches(Batches):
    """Refreshes that replace all rows of the table by those of the SELECT, over the
    tables as they are when the refresh begins."""

    select: Select
    config: Refreshed

    @property
    def plan(self) -> ViewPlan:
        """The plan by which the table is refreshed: all rows are computed anew."""
        return plan_of(self.select.query.sql, inputs_of(self.select), (), "full")

    def refuse_full(self, why: str) -> RunError | None:
        """The error that a refresh must compute all rows, for the reason `why`; None if
        it may."""
        return None

    def merge_steps(self, columns: tuple[str, ...]) -> tuple[MakeView, Write]:
        """The last steps of a refresh by key: the view of the changed rows, and the
        statement that writes them. Only modes with such refreshes have it."""
        raise NotImplementedError

    def adjust_steps(self, columns: tuple[str, ...]) -> tuple[MakeView, Write]:
        """The last steps of a refresh by difference: the view of the changed groups,
        and the statement that writes them. Only modes with such refreshes have it."""
        raise NotImplementedError

    def versions(self, columns: tuple[str, ...]) -> TableVersions | None:
        """The statements that write versions of the SELECT's rows; None if the table
        has the rows themselves."""
        return None

    def check(self) -> Iterator[Problem]:
        """A problem if the SELECT reads no table, so that its rows would never
        change."""
        if not self.select.query.tables:
            yield Problem(
                "no-table",
                f"Model '{self.select.model.name}' has mode '{self.config.mode}', and its SELECT reads no table.",
                "Its rows would be the same for ever.",
                "Read the table of a model with ref(), or another one by its name: catalog.namespace.table.",
                self.select.model.place,
            )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a full refresh, which replaces all rows in one commit."""
        when = (
            "a refresh in full: the rows of the SELECT, over one snapshot of each table"
        )
        return *self.row_views(when), self.overwrite(columns)

    def row_views(self, when: str) -> tuple[Step, ...]:
        """The views of the SELECT's rows and of their checks, `_lakesql_rows` last.
        `when` describes the first one."""
        select = self.select
        if not select.checks:
            return (MakeView(when, ROWS_VIEW, select.text),)
        return (
            MakeView(when, MADE_VIEW, select.text),
            MakeView(
                "a refresh: its rows, each with what it fails",
                CHECKED_VIEW,
                checked_rows(select.checks),
            ),
            MakeView(
                "a refresh: its rows",
                ROWS_VIEW,
                kept_rows(select.checks, is_placed=False),
            ),
        )

    def overwrite(self, columns: tuple[str, ...] | None) -> Write:
        """The step that replaces all rows. `columns` is None if only Spark's analyzer
        knows them."""
        overwrite = _OVERWRITE.format(
            table=table_name(self.select.model.table),
            columns=identifiers(columns) if columns else "*",
            rows=ROWS_VIEW,
        )
        return Write("a refresh in full: the commit", Bounded((overwrite,), ()))

    @property
    def unique_by(self) -> tuple[str, ...]:
        """None: rows may be duplicates."""
        return ()

    def rows(self) -> str:
        """The text on which rows the table has."""
        return "those of the SELECT"

    def kept_by(self) -> str:
        """The text on how a refresh keeps the table equal to its SELECT."""
        return "all rows are made anew, and exchanged in one commit"

    def untraceable(self) -> str:
        """The reason why a row cannot become a dead letter: no record is behind it."""
        return (
            "It reads tables: there is no record behind a row that could be set aside."
        )

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means for stored rows: the next refresh replaces
        them."""
        return StoredRows(
            "next-batch", "The next refresh makes all rows of the table anew.", ""
        )


_KEY_PROBLEMS: Mapping[str, tuple[str, str]] = {
    "keys-needed": ("keys-needed", "Say which columns tell its rows apart: keys=[…]."),
    "not-an-output": ("key-not-selected", ""),
    "key-twice": (
        "duplicate-key",
        "Name each key once, and give the columns of the SELECT names of their own.",
    ),
    "not-the-group": (
        "keys-not-group",
        "Leave `keys` out: the columns of the GROUP BY tell the groups apart.",
    ),
    "random-key": ("random-key", "Take a key that is the same each time."),
}
"""By kind of problem with the keys of a view, its condition and the advice."""


def find_key_problems(
    select: Select, plan: ViewPlan, kinds: Collection[str] = _KEY_PROBLEMS.keys()
) -> Iterator[Problem]:
    """The problems, of these kinds, with the keys that are to identify the rows of a
    SELECT."""
    for each in plan.problems:
        if each.kind not in kinds:
            continue
        condition, fix = _KEY_PROBLEMS[each.kind]
        what = f"Model '{select.model.name}' is a {_WHAT[select.model.config.is_exchanged]}, and {each.what}."
        at_option = select.writing.keys and each.kind != "random-key"
        place = (
            select.model.option_place("keys")
            if at_option
            else select.rendered.place(each.offset)
        )
        yield Problem(condition, what, "", fix, place)


_WHAT: Mapping[bool, str] = {True: "view", False: "history"}
"""The word for a table in messages, by whether refreshes may replace all its rows."""


def inputs_of(select: Select) -> tuple[ViewInput, ...]:
    """The tables that the SELECT reads, each once, in the order of its text, with
    their columns where these are known."""
    known = select.input_columns
    return tuple(
        ViewInput(parts, *known.get(tuple(part.lower() for part in parts), (None, ())))
        for parts in select.query.tables
    )


@cache
def plan_of(
    text: str,
    inputs: tuple[ViewInput, ...],
    keys: tuple[str, ...],
    refresh: RefreshChoice,
) -> ViewPlan:
    """The result of `plan_view`, cached."""
    return plan_view(text, inputs, keys, refresh)
