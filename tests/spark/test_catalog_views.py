"""Views of the catalog: what they give, what reads them, and what stands in their
place."""

from __future__ import annotations

import pytest

from tests.spark.project import Project


def set_up(project: Project) -> None:
    project.stream("s", {"id": "int", "n": "int", "city": "string"})
    project.stream("clicks", {"id": "int"})
    project.model("rows", "SELECT id, n, city FROM {s}", mode="upsert", keys="id")
    project.model("large", "SELECT id, n, city FROM {rows!r} WHERE n > 10", mode="view")
    project.model("cities", "SELECT DISTINCT city FROM {large!r} l", mode="view")
    summed = "SELECT large.city, sum(n) AS n FROM {large!r} GROUP BY large.city"
    project.model("per_city", summed, mode="materialized_view")
    joined = "SELECT c.id, l.n FROM {clicks} c LEFT JOIN {large!r} l ON l.id = c.id"
    project.model("seen", joined, mode="append")


ALL = ("rows", "large", "cities", "per_city", "seen")


def views_are_right(project: Project, least: int) -> None:
    """That each view, and what reads it, has what Python makes of the rows."""
    rows = [
        row for row in project.rows("rows") if row["n"] is not None and row["n"] > least
    ]
    assert sorted(row["id"] for row in project.rows("large")) == sorted(
        row["id"] for row in rows
    )
    assert {row["city"] for row in project.rows("cities")} == {
        row["city"] for row in rows
    }
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["city"]] = sums.get(row["city"], 0) + row["n"]
    assert {row["city"]: row["n"] for row in project.rows("per_city")} == sums


def test_a_view_and_what_reads_it_follow_the_tables_behind_it(project: Project) -> None:
    set_up(project)
    project.record("s", [{"id": i, "n": i * 5, "city": "ab"[i % 2]} for i in range(6)])
    project.record("clicks", [{"id": 1}, {"id": 4}])
    project.run(*ALL).check()
    views_are_right(project, 10)
    assert {row["id"]: row["n"] for row in project.rows("seen")} == {1: None, 4: 20}
    assert [name for name in ALL if not project.run_without_java(name)] == [], (
        "nothing is new"
    )

    project.record(
        "s", [{"id": 0, "n": 99, "city": "c"}, {"id": 5, "n": 1, "city": "b"}]
    )
    assert project.run_without_java("large") != [], (
        "a view is as it was, whatever its tables have"
    )
    project.run(*ALL).check()
    views_are_right(project, 10)

    project.model("large", "SELECT id, n, city FROM {rows!r} WHERE n > 15", mode="view")
    assert (
        project.run_without_java("large") == project.run_without_java("per_city") == []
    )
    project.run(*ALL).check()
    views_are_right(project, 15)

    table, view = project.table("rows"), project.table("large")
    project.sql(
        f"CREATE OR REPLACE VIEW {view} AS SELECT id, n, city FROM {table} WHERE n < 0"
    )
    assert project.run_without_java("large") == [], "somebody else has changed the view"
    project.run("large").check()
    views_are_right(project, 15)
    project.sql(f"DROP VIEW {view}")
    assert project.run_without_java("large") == []
    project.run("large").check()
    views_are_right(project, 15)


def test_a_view_has_the_columns_that_its_tables_have_now(project: Project) -> None:
    project.stream("s", {"id": "int"})
    project.model("rows", "SELECT id FROM {s}", mode="upsert", keys="id")
    project.model("all_of_it", "SELECT * FROM {rows!r}", mode="view")
    project.record("s", [{"id": 1}])
    project.run("rows", "all_of_it").check()
    project.stream("s", {"id": "int", "more": "string"})
    project.model("rows", "SELECT id, more FROM {s}", mode="upsert", keys="id")
    project.record("s", [{"id": 2, "more": "x"}])
    project.run("rows", "all_of_it").check()
    assert project.rows("all_of_it", "id") == [
        {"id": 1, "more": None},
        {"id": 2, "more": "x"},
    ]


def test_a_catalog_without_views_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(project)
    project.record("s", [{"id": 1, "n": 20, "city": "a"}])
    monkeypatch.setattr(
        "lakesql.engine.refresh.make_view.has_views", lambda session, catalog: False
    )
    assert project.run("rows", "large").conditions("large") == ["no-views"]
    project.model(
        "large", "SELECT id, n, city FROM {rows!r} WHERE n > 10", mode="table"
    )
    project.run("large").check()
    assert project.rows("large") == [{"id": 1, "n": 20, "city": "a"}]


def test_a_name_in_the_catalog_is_one_things(project: Project) -> None:
    set_up(project)
    project.record("s", [{"id": 1, "n": 20, "city": "a"}])
    project.run("rows", "large").check()
    project.model("large", "SELECT id FROM {rows!r}", mode="table")
    assert project.run("large").conditions("large") == ["table-of-another"]
    project.model("large", "SELECT id, n, city FROM {s}", mode="append")
    assert project.run("large").conditions("large") == ["table-of-another"]
    project.model("large", "SELECT id FROM {rows!r}", mode="view", table="rows_too")
    project.sql(f"CREATE VIEW {project.table('rows_too')} AS SELECT 1 AS id")
    assert project.run("large").conditions("large") == ["table-of-another"]
