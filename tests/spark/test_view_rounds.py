"""Random models over tables that many writers change: whatever happens between two
runs, each then equals its SELECT over the snapshots that its ledger names, or says by a
condition why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.refresh import changed_view, refresh_table, shared_changes
from lakesql.engine.spark import row_changes
from lakesql.engine.spark.row_changes import RowChanges
from lakesql.views.view_tree import OLD
from tests.spark.project import Project
from tests.spark.view_rounds import Rounds
from tests.views.random_selects import View

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROUNDS = 6


def test_models_over_tables_equal_their_selects_whatever_happens(
    project: Project, lake_seed: int
) -> None:
    rounds = Rounds(project, lake_seed)
    assert rounds.play(ROUNDS) == [], (rounds.done, rounds.views.models)


# --- what a refresh goes by, switched off


@contextmanager
def without_rows(side: str) -> Iterator[None]:
    """Changes of inputs lack the rows that have left them, or those that have come."""
    found = shared_changes.changes_between

    @contextmanager
    def changes(*arguments: Any, **more: Any) -> Iterator[RowChanges]:
        with found(*arguments, **more) as all_of_them:
            yield replace(all_of_them, **{side: None})

    with mock.patch.object(shared_changes, "changes_between", changes):
        yield


@contextmanager
def others_as_they_are() -> Iterator[None]:
    """A table that is joined is shown as it is where it should be as it was."""
    show = changed_view.show_input

    def show_newest(
        session: SparkSession, name: str, table: Any, snapshot: int | None, view: str
    ) -> None:
        newest = (
            table.currentSnapshot().snapshotId() if view.startswith(OLD) else snapshot
        )
        show(session, name, table, newest, view)

    with mock.patch.object(changed_view, "show_input", show_newest):
        yield


@contextmanager
def moved_rows_come_twice() -> Iterator[None]:
    """Rows of files that have gone are not taken off those of the files that have
    come."""
    signed = row_changes._signed_files

    def without_gone(scans: Any, files: Any, sign: int) -> Iterator[DataFrame]:
        return signed(scans, files, sign) if sign > 0 else iter(())

    with mock.patch.object(row_changes, "_signed_files", without_gone):
        yield


RULES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "the rows that have left": partial(without_rows, "gone"),
    "the rows that have come": partial(without_rows, "come"),
    "the others as they were": others_as_they_are,
    "moved rows cancel out": moved_rows_come_twice,
    "deletes of files that stay": lambda: mock.patch.object(
        row_changes, "_signed_touched", lambda *_: iter(())
    ),
    "somebody else's changes of a view": lambda: mock.patch.object(
        refresh_table, "is_untouched", lambda *_: True
    ),
}
"""What a refresh goes by, each with what switches it off."""


JOINED = View(
    "SELECT b1.region AS g0, count(*) AS a0, sum(b2.paid) AS a1 "
    "FROM lake.shop.orders b1 JOIN lake.shop.pays b2 ON b1.cust = b2.cust GROUP BY b1.region",
    (),
)
"""Of the rows of both tables nearly all meet others."""


@pytest.mark.parametrize("rule", RULES)
def test_the_rounds_see_a_rule_that_is_left_out(
    new_project: Callable[[], Project], rule: str
) -> None:
    faults: list[str] = []
    for seed in range(5):
        rounds = Rounds(new_project(), seed, models=(), figures=JOINED)
        with RULES[rule]():
            faults += rounds.play_changes(6)
        if faults:
            break
    assert any("too many, by" in fault for fault in faults), faults
