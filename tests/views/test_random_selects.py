"""Random SELECTs over tables that change at random: each view equals its SELECT,
whichever way it is kept."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from lakesql.views.plan_view import Way, plan_view
from tests.views.keeper import (
    INPUTS,
    Database,
    refresh_by_difference,
    refresh_by_key,
    same,
    some_change,
)
from tests.views.random_selects import random_view

CHANGES = 3
"""How often each SELECT is kept through a change."""

SEEN = range(40)
"""The SELECTs by which it is seen whether a rule that is left out makes wrong rows."""


def keep(
    seed: int, edit: Callable[[str], str] = lambda text: text
) -> Iterator[tuple[Way, bool]]:
    """The ways in which the view of a seed is kept through changes, and whether it then
    is its SELECT. `edit` says what becomes of the statement that finds what has
    changed."""
    view = random_view(seed)
    plan = plan_view(view.text, INPUTS, view.keys)
    assert plan.problems == (), (seed, view)
    reads = [
        number for number, one in enumerate(INPUTS) if ".".join(one.table) in view.text
    ]
    database = Database()
    for number in range(CHANGES):
        change = some_change(random.Random(f"{seed} {number}"), reads)
        database.show(change, reads)
        match plan.way_for(change.changed):
            case "key":
                done = refresh_by_key(
                    database, plan, edit(plan.touched(change.changed))
                )
                yield "key", same(done.kept, done.right)
            case "difference":
                done = refresh_by_difference(
                    database, plan, edit(plan.delta(change.changed))
                )
                yield "difference", same(done.kept, done.right)
            case "full":
                yield "full", True


@pytest.mark.checks
def test_a_view_of_a_random_select_is_its_select(view_seeds: range) -> None:
    ways: Counter[Way] = Counter()
    wrong: list[int] = []
    for seed in view_seeds:
        kept = list(keep(seed))
        ways.update(way for way, _ in kept)
        wrong += [seed] if any(not is_right for _, is_right in kept) else []
    assert wrong == []
    assert ways["full"] < 0.5 * ways.total()


def without_rows(table: str) -> Callable[[str], str]:
    """An edit that takes the rows from some of the tables of a statement."""
    return lambda text: re.sub(
        rf"{table}(\d)", rf"(SELECT * FROM {table}\1 WHERE false)", text
    )


RULES: dict[str, Callable[[str], str]] = {
    "the rows that have left": without_rows("_lakesql_gone_"),
    "the rows that have come": without_rows("_lakesql_come_"),
    "the others as they were": lambda text: text.replace(
        "_lakesql_old_", "_lakesql_new_"
    ),
    "the others as they are": lambda text: re.sub(
        r"_lakesql_new_(\d)", r"oracle_old_\1", text
    ),
    "what leaves is taken away": lambda text: text.replace(
        "-1 AS _lakesql_sign", "1 AS _lakesql_sign"
    ),
    "rows that lose their partner": lambda text: text.replace("SEMI JOIN", "ANTI JOIN"),
}
"""What a refresh goes by, each with what becomes of its statement when that is switched
off."""


@pytest.mark.checks
@pytest.mark.parametrize("rule", RULES)
def test_random_selects_see_a_rule_that_is_left_out(rule: str) -> None:
    edit = RULES[rule]
    assert any(not is_right for seed in SEEN for _, is_right in keep(seed, edit))
