"""Random SELECTs kept as views by the statements of `plan_view` on Spark, as
`tests/views` keeps them on DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from lakesql.views.plan_view import Way, plan_view
from tests.views.keeper import (
    INPUTS,
    Change,
    Database,
    Row,
    Rows,
    refresh_by_difference,
    refresh_by_key,
    same,
    some_change,
)
from tests.views.random_selects import random_view

pytestmark = [pytest.mark.spark, pytest.mark.long]


class SparkDatabase(Database):
    """Spark with the views that a refresh reads."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def show(self, change: Change, reads: Sequence[int]) -> None:
        for number in reads:
            old, new = change.old[number], change.new[number]
            self._show(f"_lakesql_new_{number}", number, new)
            self._show(f"oracle_old_{number}", number, old)
            if number in change.changed:
                self._show(f"_lakesql_old_{number}", number, old)
                self._show(
                    f"_lakesql_gone_{number}",
                    number,
                    list((Counter(old) - Counter(new)).elements()),
                )
                self._show(
                    f"_lakesql_come_{number}",
                    number,
                    list((Counter(new) - Counter(old)).elements()),
                )
            else:
                for kind in ("old", "gone", "come"):
                    self.session.catalog.dropTempView(f"_lakesql_{kind}_{number}")

    def _show(self, view: str, number: int, rows: Rows) -> None:
        one = INPUTS[number]
        schema = ", ".join(
            f"{name} {kind}"
            for name, kind in zip(one.columns or (), one.types, strict=True)
        )
        stored = [
            tuple(Decimal(str(it)) if isinstance(it, float) else it for it in row)
            for row in rows
        ]
        self.session.createDataFrame(stored, schema).createOrReplaceTempView(view)

    def rows(self, text: str) -> Rows:
        return [plain(tuple(row)) for row in self.session.sql(text).collect()]

    def names(self, text: str) -> list[str]:
        return [name.lower() for name in self.session.sql(text).columns]

    def store(self, name: str, text: str) -> None:
        self.session.sql(text).localCheckpoint().createOrReplaceTempView(name)


def plain(row: Row) -> Row:
    return tuple(
        value if not isinstance(value, Decimal) else float(value) for value in row
    )


GROUP = 4
"""So many SELECTs are one test."""


@pytest.mark.parametrize("group", range(5))
def test_a_random_select_is_kept_on_spark(
    spark: SparkSession, pytestconfig: pytest.Config, group: int
) -> None:
    database, ways, wrong = SparkDatabase(spark), Counter[Way](), []
    for seed in range(group * GROUP, group * GROUP + GROUP):
        view = random_view(seed)
        plan = plan_view(view.text, INPUTS, view.keys)
        reads = [
            number
            for number, one in enumerate(INPUTS)
            if ".".join(one.table) in view.text
        ]
        change = some_change(
            random.Random(f"{seed} {pytestconfig.getoption('--seed')}"), reads
        )
        way = plan.way_for(change.changed)
        ways[way] += 1
        if way == "full":
            continue
        database.show(change, reads)
        if way == "key":
            done = refresh_by_key(database, plan, plan.touched(change.changed))
        else:
            done = refresh_by_difference(database, plan, plan.delta(change.changed))
        if not same(done.kept, done.right):
            wrong.append((seed, view))
    assert wrong == []
    assert ways["full"] < ways.total()
