"""What a refresh by what has changed reads: changes once for all views, and of tables
what its keys can have."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.batch import KeyRange
from lakesql.engine.batch.bounds import FEW, read_keys
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.refresh import shared_changes
from lakesql.engine.refresh.shared_changes import SharedChanges
from lakesql.engine.spark.few_rows import FEW_ROWS, keep_rows
from lakesql.engine.spark.internals import SETTING, choose_way
from lakesql.engine.spark.row_changes import RowChanges
from lakesql.engine.spark.session import new_session
from lakesql.events import BatchCommitted
from lakesql.model.table_name import TableName
from tests.spark.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(params=["always", "never"])
def session(
    spark: SparkSession, request: pytest.FixtureRequest
) -> Iterator[SparkSession]:
    """A session that goes past Spark's public interfaces, and one that does not."""
    made = new_session(spark)
    made.conf.set(SETTING, request.param)
    choose_way(made, print)
    yield made
    made.conf.set(SETTING, "auto")
    choose_way(made, print)


# --- rows that are made once


def jobs(session: SparkSession) -> int:
    """How many jobs Spark has begun."""
    return int(session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@pytest.mark.parametrize("count", [0, 1, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("most", [FEW_ROWS, math.inf])
@pytest.mark.parametrize("is_planned_once", [False, True])
def test_rows_are_made_once_and_counted(
    session: SparkSession, count: int, most: float, is_planned_once: bool
) -> None:
    rows = session.range(count).selectExpr(
        "id", "uuid() AS another", "CAST(NULL AS variant) AS v"
    )
    made = keep_rows(rows, most, is_planned_once=is_planned_once)
    assert (made.count, made.are_few) == (count, count <= FEW_ROWS)
    first, second = (
        sorted(tuple(row) for row in made.rows.collect()) for _ in range(2)
    )
    assert first == second and [row[0] for row in first] == [*range(count)]


def test_spark_looks_at_few_rows_without_a_job(spark: SparkSession) -> None:
    made = keep_rows(spark.range(10).selectExpr("id % 3 AS k", "id"))
    before = jobs(spark)
    assert read_keys(made.rows.where("id > 3"), ("k",)) == (
        KeyRange("k", low=0, high=2),
    )
    assert jobs(spark) == before


def test_rows_are_made_for_other_sessions_too(spark: SparkSession) -> None:
    for count in (3, FEW_ROWS + 1):
        made = keep_rows(spark.range(count))
        assert made.of(new_session(spark)).count() == count


# --- keys


COLUMNS = {
    "n": ("int", [None, 0, 1, -7, 2**31 - 1, -(2**31)]),
    "s": ("string", [None, "", "a", "A", "a ", "é", "zz", "\U0001f600", "\ud7ff"]),
    "f": (
        "double",
        [None, "0.0D", "-0.0D", "double('NaN')", "1e300D", "double('-Infinity')"],
    ),
    "d": (
        "date",
        [None, "DATE '2026-01-01'", "DATE '0001-01-01'", "DATE '9999-12-31'"],
    ),
    "t": (
        "timestamp",
        [
            None,
            "TIMESTAMP '2026-01-01 00:00:00.000001'",
            "TIMESTAMP '1969-12-31 23:59:59'",
        ],
    ),
    "m": (
        "decimal(9,2)",
        [None, Decimal("0.00"), Decimal("-1.50"), Decimal("9999999.99")],
    ),
    "b": ("boolean", [None, True, False]),
}
"""Columns that a view may group by, of values whose order and equality differ between
engines."""


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value)
        case str() if value.startswith(
            ("DATE", "TIMESTAMP", "double(")
        ) or value.endswith("D"):
            return value
        case str():
            return f"'{value}'"
        case Decimal():
            return f"{value}BD"
    return f"CAST({value} AS int)"


class Things:
    """A table of somebody else's, in which rows come, go and change their keys."""

    def __init__(self, project: Project, seed: int, version: int) -> None:
        self.session, self.dice = project.lake.session, random.Random(seed)
        self.name = f"lake.{project.namespace}.things"
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
        properties = (
            f"'format-version' = '{version}', 'write.update.mode' = 'merge-on-read'"
        )
        self.session.sql(
            f"CREATE TABLE {self.name} (id int, {columns}) USING iceberg TBLPROPERTIES ({properties})"
        )
        self.newest = 0

    def insert(self, count: int) -> None:
        rows = []
        for _ in range(count):
            self.newest += 1
            rows.append(
                f"({', '.join([str(self.newest), *(literal(self.pick(name)) for name in COLUMNS)])})"
            )
        self.session.sql(f"INSERT INTO {self.name} VALUES {', '.join(rows)}")

    def change(self) -> None:
        """An insert, a delete, and two keys that move."""
        self.insert(self.dice.choice([1, 3]))
        few = f"id % 7 = {self.dice.randrange(7)}"
        for name in self.dice.sample([*COLUMNS], 2):
            kind = COLUMNS[name][0]
            value = f"CAST({literal(self.pick(name))} AS {kind})"
            self.session.sql(f"UPDATE {self.name} SET {name} = {value} WHERE {few}")
        self.session.sql(
            f"DELETE FROM {self.name} WHERE id = {self.dice.randrange(1, self.newest + 1)}"
        )

    def pick(self, name: str) -> Any:
        return self.dice.choice(COLUMNS[name][1])


def values(rows: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows.collect())


@pytest.mark.parametrize(("seed", "version"), [(1, 2), (2, 3)])
def test_no_row_is_beyond_the_bounds_of_its_key(
    project: Project, seed: int, version: int
) -> None:
    things = Things(project, seed, version)
    things.insert(40)
    views: dict[str, str] = {}
    for name in COLUMNS:
        views[f"diff_{name}"] = (
            f"SELECT {name}, count(*) AS c, max(id) AS most FROM {things.name} GROUP BY {name}"
        )
    for name in ("n", "s", "f", "d"):
        views[f"key_{name}"] = (
            f"SELECT {name}, count(DISTINCT id % 5) AS c FROM {things.name} GROUP BY {name}"
        )
    views["diff_pairs"] = f"SELECT s, n, count(*) AS c FROM {things.name} GROUP BY s, n"
    views["key_ranked"] = (
        f"SELECT id, s, rank() OVER (PARTITION BY s ORDER BY id) AS r FROM {things.name}"
    )
    others = f"lake.{project.namespace}.others"
    project.lake.session.sql(
        f"CREATE TABLE {others} USING iceberg AS SELECT id AS k FROM range(-9, 3)"
    )
    views["key_united"] = (
        f"SELECT n AS k, 'n' AS of, count(DISTINCT id) AS c FROM {things.name} GROUP BY n "
        f"UNION ALL SELECT k, 'o', count(*) FROM {others} GROUP BY k"
    )
    keyed = {"key_ranked": {"keys": ["id", "s"]}, "key_united": {"keys": ["k", "of"]}}
    for view in views:
        project.model(
            view,
            views[view],
            mode="materialized_view",
            refresh="incremental",
            **keyed.get(view, {}),
        )
    project.run().check()
    ways = {"diff": ("by difference", "no row"), "key": ("by key", "no row")}
    for round_ in range(3):
        things.change()
        ran = project.run().check()
        for view in views:
            found = project.lake.session.table(project.table(view))
            shown = found.select(
                *(name for name in found.columns if not name.startswith("_lakesql_"))
            )
            assert values(shown) == values(project.lake.session.sql(views[view])), (
                f"{view}, round {round_}"
            )
            (committed,) = ran.of(BatchCommitted, view)
            assert committed.refreshed.startswith(ways[view.partition("_")[0]]), (
                f"{view}: {committed.refreshed}"
            )


@pytest.mark.parametrize("step", [1, 10])
def test_more_keys_than_are_listed_are_within_their_range(
    project: Project, step: int
) -> None:
    session, name = project.lake.session, f"lake.{project.namespace}.numbers"
    session.sql(f"CREATE TABLE {name} (id bigint, k bigint) USING iceberg")
    half = f"CASE WHEN id % 3 > 0 THEN id * {step} END"
    session.sql(f"INSERT INTO {name} SELECT id, {half} FROM range({8 * FEW})")
    select = f"SELECT k, count(*) AS c FROM {name} GROUP BY k"
    project.model("counted", select, mode="materialized_view")
    project.model(
        "distinct_ids",
        f"SELECT k, count(DISTINCT id) AS c FROM {name} GROUP BY k",
        mode="materialized_view",
    )
    project.run().check()
    for change in (
        f"DELETE FROM {name} WHERE id % 4 = 0",
        f"UPDATE {name} SET k = NULL WHERE id < 9",
        f"UPDATE {name} SET k = 5 WHERE k IS NULL",
    ):
        session.sql(change)
        project.run().check()
        for view in ("counted", "distinct_ids"):
            rows = session.table(project.table(view)).select("k", "c")
            assert values(rows) == values(session.sql(select)), f"{view}: {change}"


@pytest.mark.parametrize(
    ("keys", "bound"),
    [
        ("VALUES (1), (NULL), (3)", KeyRange("k", low=1, high=3, has_null=True)),
        ("VALUES (1), (NULL), (90)", KeyRange("k", (1, 90), has_null=True)),
        ("VALUES (CAST(NULL AS int))", KeyRange("k", has_null=True)),
        (
            f"SELECT id * 9 FROM range({2 * FEW})",
            KeyRange("k", low=0, high=18 * FEW - 9),
        ),
        (
            f"SELECT NULLIF(id, 0) FROM range({2 * FEW})",
            KeyRange("k", low=1, high=2 * FEW - 1, has_null=True),
        ),
        (
            f"SELECT CAST(NULL AS int) FROM range({2 * FEW})",
            KeyRange("k", has_null=True),
        ),
    ],
)
def test_null_is_within_the_bounds(
    spark: SparkSession, keys: str, bound: KeyRange
) -> None:
    assert read_keys(spark.sql(f"SELECT * FROM ({keys}) AS t(k)"), ("k",)) == (bound,)


def test_texts_that_a_collation_takes_for_equal_have_no_bounds(
    spark: SparkSession,
) -> None:
    assert read_keys(spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS k"), ("k",)) == ()


# --- changes that several views read


Reads = list[tuple[str, int | None, int]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """The pairs of snapshots of which somebody reads the changes."""
    found: Reads = []
    read = shared_changes.changes_between

    def noting(
        session: SparkSession,
        name: TableName,
        table: Any,
        start: int | None,
        end: int,
        **options: Any,
    ) -> AbstractContextManager[RowChanges]:
        found.append((name.name, start, end))
        return read(session, name, table, start, end, **options)

    monkeypatch.setattr(shared_changes, "changes_between", noting)
    return found


def test_two_views_of_one_table_read_its_changes_once(
    project: Project, reads: Reads
) -> None:
    session, name = project.lake.session, f"lake.{project.namespace}.orders"
    session.sql(f"CREATE TABLE {name} (id int, customer int) USING iceberg")
    session.sql(
        f"INSERT INTO {name} SELECT CAST(id AS int), CAST(id % 9 AS int) FROM range(100)"
    )
    selects = {
        "counted": f"SELECT customer, count(*) AS c FROM {name} GROUP BY customer",
        "evens": f"SELECT id, customer FROM {name} WHERE id % 2 = 0",
        "several": f"SELECT customer, count(DISTINCT id) AS c FROM {name} GROUP BY customer",
    }
    for view, select in selects.items():
        project.model(
            view,
            select,
            mode="materialized_view",
            **({"keys": "id"} if view == "evens" else {}),
        )
    project.run().check()
    for change in (
        f"UPDATE {name} SET customer = 3 WHERE id < 5",
        f"INSERT INTO {name} VALUES (900, 8)",
    ):
        reads.clear()
        session.sql(change)
        project.run().check()
        assert len(reads) == 1
        for view, select in selects.items():
            rows = session.table(project.table(view))
            assert values(rows.select(*session.sql(select).columns)) == values(
                session.sql(select)
            )


def test_changes_are_kept_until_others_were_asked_for(
    project: Project, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, name = project.lake.session, TableName("lake", project.namespace, "t")
    session.sql(f"CREATE TABLE {name} (id int) USING iceberg")
    snapshots = []
    for number in range(4):
        session.sql(
            f"INSERT INTO {name} SELECT CAST(id AS int) FROM range({number + 1})"
        )
        snapshots.append(load_table(session, name).currentSnapshot().snapshotId())
    table, shared = load_table(session, name), SharedChanges()

    def count(start: int, end: int) -> int:
        other = new_session(session)
        with shared.between(
            other, name, table, snapshots[start], snapshots[end]
        ) as changes:
            return 0 if changes.come is None else changes.come.count()

    monkeypatch.setattr(shared_changes, "KEPT_SPANS", 2)
    assert [
        count(*span) for span in ((0, 3), (1, 3), (0, 3), (2, 3), (0, 3), (1, 3))
    ] == [9, 7, 9, 4, 9, 7]
    assert [snapshots.index(start) for _, start, _ in reads] == [0, 1, 2, 1]
    reads.clear()
    assert [count(*span) for span in ((0, 3), (0, 2), (0, 3))] == [9, 5, 9]
    assert [snapshots.index(end) for _, _, end in reads] == [2, 3], (
        "a table's changes to another snapshot are let go"
    )
    reads.clear()
    monkeypatch.setattr(shared_changes, "KEPT_ROWS", 5)
    assert [count(1, 3), count(1, 3)] == [7, 7]
    assert len(reads) == 2, "they are too many to be kept"


def test_few_rows_are_made_anew_whatever_has_changed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesql.engine.refresh.refresh_table.FEW_ROWS", 100_000)
    session, few, many = (
        project.lake.session,
        *(f"lake.{project.namespace}.{name}" for name in ("few", "many")),
    )
    for name, rows in ((few, 20_000), (many, 100_000)):
        session.sql(
            f"CREATE TABLE {name} USING iceberg AS SELECT id, id % 3 AS k FROM range({rows})"
        )
    counted = "SELECT k, count(*) AS c FROM {} GROUP BY k"
    both = f"SELECT a.k, count(*) AS c FROM {few} AS a JOIN {few} AS b ON a.id = b.id GROUP BY a.k"
    views = {
        "of_few": (counted.format(few), {}, "in full, as they are few"),
        "of_changes": (
            counted.format(few),
            {"refresh": "incremental"},
            "by difference, 1 group",
        ),
        "of_many": (counted.format(many), {}, "by difference, 1 group"),
        "of_pairs": (both, {}, "by difference, 1 group"),
    }
    for view, (select, options, _) in views.items():
        project.model(view, select, mode="materialized_view", **options)
    project.run().check()
    for name in (few, many):
        session.sql(f"INSERT INTO {name} VALUES (-1, 2)")
    ran = project.run().check()
    for view, (select, _, how) in views.items():
        assert [it.refreshed for it in ran.of(BatchCommitted, view)] == [how]
        assert values(session.table(project.table(view)).select("k", "c")) == values(
            session.sql(select)
        )
