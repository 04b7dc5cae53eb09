"""Views of tables whose columns somebody else renames, drops and adds: no snapshot says
it."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.engine.refresh.changed_view import NO_OTHER_ROW
from lakesql.events import BatchCommitted
from tests.spark.project import Project

VIEWS: dict[str, tuple[str, dict[str, Any]]] = {
    "by_key": (
        "SELECT id, v FROM {d}",
        {"mode": "materialized_view", "keys": ["id"], "refresh": "incremental"},
    ),
    "by_difference": (
        "SELECT v, count(*) AS n FROM {d} GROUP BY v",
        {"mode": "materialized_view", "refresh": "incremental"},
    ),
    "of_few": ("SELECT id, v FROM {d}", {"mode": "materialized_view", "keys": ["id"]}),
    "anew": ("SELECT id, s.x AS x, v FROM {d}", {"mode": "table"}),
    "of_all": (
        "SELECT * FROM {d}",
        {"mode": "materialized_view", "keys": ["id"], "refresh": "incremental"},
    ),
    "versions": ("SELECT id, v FROM {d}", {"mode": "scd2", "keys": ["id"]}),
}


@pytest.fixture
def read(project: Project) -> Project:
    """Views of a table that no model writes."""
    name = project.table("d")
    project.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{project.namespace}")
    project.sql(
        f"CREATE TABLE {name} (id int, v int, s struct<x: int, y: int>) USING iceberg"
    )
    project.sql(
        f"INSERT INTO {name} VALUES (1, 10, named_struct('x', 1, 'y', 2)), (2, 20, NULL)"
    )
    for view, (select, config) in VIEWS.items():
        project.model(view, select.replace("{d}", name), **config)
    project.run().check()
    return project


def alter(project: Project, *changes: str) -> None:
    for change in changes:
        project.sql(f"ALTER TABLE {project.table('d')} {change}")


def check_views(project: Project) -> None:
    """Each view has the rows and the columns of its SELECT, also of what is changed
    later."""
    for _ in range(2):
        project.run().check()
        for view, (select, config) in VIEWS.items():
            wanted = project.lake.session.sql(select.replace("{d}", project.table("d")))
            found = project.lake.session.table(project.table(view))
            if config["mode"] == "scd2":
                found = found.where("valid_to IS NULL")
            assert set(found.columns) >= set(wanted.columns), view
            found = found.select(*wanted.columns)
            assert sorted(map(str, found.collect())) == sorted(
                map(str, wanted.collect())
            ), view
        assert len(project.run_without_java()) == len(VIEWS)
        columns = project.lake.session.table(project.table("d")).columns
        values = ", ".join({"id": "3"}.get(name, "NULL") for name in columns)
        project.sql(f"INSERT INTO {project.table('d')} VALUES ({values})")


@pytest.mark.parametrize(
    "changes",
    [
        ("DROP COLUMN v", "ADD COLUMN v int"),
        ("ADD COLUMN w int", "RENAME COLUMN v TO u", "RENAME COLUMN w TO v"),
        ("RENAME COLUMN s.x TO z", "RENAME COLUMN s.y TO x"),
        ("ADD COLUMN w int",),
        ("ALTER COLUMN v TYPE bigint",),
    ],
    ids=lambda changes: changes[-1],
)
def test_a_view_has_what_its_select_makes_of_the_columns_of_now(
    read: Project, changes: tuple[str, ...]
) -> None:
    alter(read, *changes)
    assert not read.run_without_java()
    check_views(read)


def test_a_description_of_a_column_changes_no_row(read: Project) -> None:
    alter(read, "ALTER COLUMN v COMMENT 'a number'")
    ran = read.run().check()
    assert {event.refreshed for event in ran.of(BatchCommitted)} == {NO_OTHER_ROW}
    assert len(read.run_without_java()) == len(VIEWS)


def test_what_a_new_column_leaves_alone_is_kept_by_what_has_changed(
    read: Project,
) -> None:
    alter(read, "ADD COLUMN w int")
    read.sql(f"INSERT INTO {read.table('d')} VALUES (3, 30, NULL, 1)")
    ran = read.run().check()
    how = {event.model: event.refreshed for event in ran.of(BatchCommitted)}
    assert (how["by_key"], how["by_difference"]) == (
        "by key, 1 key",
        "by difference, 1 group",
    )
