"""The batches of mode `append`: what is refused in a SELECT, the steps of a batch, and
the texts about it in the compiled file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import (
    COMMIT,
    Bounded,
    MakeView,
    ReadBounds,
    Step,
    Write,
)
from lakesql.compile.select import Select
from lakesql.errors import Problem
from lakesql.modes.append import Append
from lakesql.modes.batches.batches import (
    Batches,
    Contradiction,
    check_groups,
    check_null_groups,
    contradictory,
    listed,
)
from lakesql.modes.batches.insert import (
    insert_first_parts,
    insert_statement,
    keyed_rows,
)
from lakesql.names import BATCH_VIEW


@dataclass(frozen=True, slots=True)
class AppendBatches(Batches):
    """Batches that insert all rows, or with `keys` the first row of each key."""

    select: Select
    config: Append

    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT whose groups have no watermark, by which it is known
        when they no longer change, or whose keys do not identify its groups; and
        contradictory options."""
        select, query = self.select, self.select.query
        if (
            query.aggregated or "distinct" in query.noted
        ) and not query.grouped_by_event_time:
            what = (
                "an aggregate must be grouped by"
                if query.aggregated
                else "DISTINCT must have a column that is the"
            )
            yield Problem(
                "watermark-missing",
                f"In mode '{self.config.mode}' {what} event time of a stream that has a watermark.",
                "A group's row is appended once it can no longer change; without a watermark that never happens.",
                _fix_watermark(select),
                select.rendered.place(
                    query.noted["watermark-missing" if query.aggregated else "distinct"]
                ),
            )
        yield from check_null_groups(select)
        yield from check_groups(select)
        yield from contradictory(select, _find_unbounded(self.config))

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """The steps of a batch: one INSERT, with `keys` only of rows whose key is not
        in the table."""
        config, table = self.config, self.select.model.table
        rows = self.made_views()
        if not config.keys:
            insert = Bounded((insert_statement(table, columns),), ())
            return *rows, Write(COMMIT, insert, only_adds=True, compares=False)
        margins = {config.time_column: config.within.length_ms} if config.within else {}
        return (
            *rows,
            MakeView(
                f"each batch: {'its rows, numbered' if config.within else 'the first row of each key'}",
                BATCH_VIEW,
                keyed_rows(config, self.select.writing.is_positioned),
            ),
            ReadBounds(BATCH_VIEW, (*config.keys, *margins), margins),
            Write(
                COMMIT,
                Bounded(insert_first_parts(table, config, columns), ("target",)),
                only_adds=True,
            ),
        )

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys, if there are any."""
        return self.config.keys

    @property
    def identity(self) -> tuple[str, ...]:
        """None, as no row of the table is changed."""
        return ()

    def rows(self) -> str:
        """The text on which rows the table has."""
        query = self.select.query
        if not self.config.keys:
            added_once = "a group's row is added once, when the watermark has passed it"
            return added_once if query.aggregated else "all are added"
        keys = listed(self.config.keys, "and")
        first = ", the first by arrival" if self.select.writing.is_positioned else ""
        return f"one for each {keys}{first}{say_untold(self.select)}"

    def updates(self) -> str:
        """The text on a row whose key is in the table already; '' without keys."""
        config = self.config
        if not config.keys:
            return ""
        near = (
            f", within {config.within.text} of its {config.time_column}"
            if config.within
            else ""
        )
        return f"none; a row whose key is in the table{near} is not inserted"

    def joined_again(self) -> str:
        """The text on when a row is joined again: never."""
        return "no row is joined again"

    def untraceable(self) -> str:
        """The reason why a row cannot become a dead letter: a replay of a record that
        makes several rows would add again those that were written. '' if it can."""
        # Not `super()`, which fails in a dataclass with slots, as that is a new class.
        if why := Batches.untraceable(self):
            return why
        if self.select.query.multiplies and not self.config.keys:
            return (
                "It may make several rows of a record, by a join, explode or the like: `lakesql replay` would add "
                "those again that were written. With keys it would not."
            )
        return ""


def say_untold(select: Select) -> str:
    """The text that of several rows of a batch with one key any may stay; '' if that
    cannot happen, or an order decides."""
    query, keys = select.query, listed(select.writing.keys, "and")
    if not query.stateful or query.groups is not None or select.writing.sequence_by:
        return ""
    return f"; if several rows of a batch have the same {keys}, any one of them stays"


def _find_unbounded(config: Append) -> Iterator[Contradiction]:
    if config.within and not config.keys:
        yield Contradiction(
            "within",
            "within is given, and no keys.",
            "Without keys every row is added.",
        )
    if config.within and not config.time_column:
        what = "within is given, and the table is not partitioned by a time."
        yield Contradiction(
            "within",
            what,
            "It bounds by this time which of the table's rows are looked at.",
        )


def _fix_watermark(select: Select) -> str:
    """The advice, for a SELECT that streams the table of a model, by which its groups
    get a watermark; '' for other SELECTs."""
    read = [name for name in select.query.streams_read if name in select.read_tables]
    if not read:
        return ""
    return (
        f"Group by a time of the table of '{read[0]}' that has a watermark in the properties of '{read[0]}': "
        "`watermark: {column: …, delay: 10 minutes}`. Or use mode 'upsert', with the columns of the groups as keys."
    )
