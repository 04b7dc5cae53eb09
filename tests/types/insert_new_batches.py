"""A mode of the tests: what is checked of a SELECT, the statements of a batch, and what
is said of the table."""

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
from lakesql.compile.quote import identifiers, table_name, text
from lakesql.compile.select import Select
from lakesql.errors import Problem
from lakesql.modes.batches.batches import Batches
from lakesql.names import BATCH_VIEW, POSITION, ROWS_VIEW
from tests.types.insert_new import InsertNew


@dataclass(frozen=True, slots=True)
class InsertNewBatches(Batches):
    """The first row of each key, where the table has none."""

    select: Select
    config: InsertNew

    def check(self) -> Iterator[Problem]:
        """No state between batches."""
        if self.select.query.stateful:
            what = f"Mode '{self.config.mode}' keeps no state."
            yield Problem(
                "cdc-stateful", what, place=self.select.model.option_place("mode")
            )

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """One INSERT, bounded by the keys of the batch."""
        keys, (first, *_) = identifiers(self.config.keys), self.config.keys
        ignored = " AND ".join(
            ["true", *(f"{first} <> {text(key)}" for key in self.config.ignored)]
        )
        firsts = (
            f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {POSITION}) AS nth "
            f"FROM {ROWS_VIEW} WHERE {first} IS NOT NULL AND {ignored}) WHERE nth = 1"
        )
        table, landing = table_name(self.select.model.table), identifiers(columns or ())
        match = " AND ".join(f"target.{key} = source.{key}" for key in self.config.keys)
        insert = (
            f"INSERT INTO {table} BY NAME SELECT {landing}, true AS inserted FROM {BATCH_VIEW} AS source "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} AS target WHERE {match} AND "
        )
        return (
            *self.made_views(),
            MakeView("each batch: the first row of each key", BATCH_VIEW, firsts),
            ReadBounds(BATCH_VIEW, self.config.keys),
            Write(COMMIT, Bounded((insert, ")"), ("target",)), only_adds=True),
        )

    @property
    def unique_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.config.keys

    @property
    def identity(self) -> tuple[str, ...]:
        """None: no row is changed."""
        return ()

    def rows(self) -> str:
        """Which rows the table has."""
        return f"one for each {', '.join(self.config.keys)}, as it was inserted"
