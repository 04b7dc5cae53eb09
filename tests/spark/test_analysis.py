"""What Spark's analyzer finds first is said with the file's line and column, whatever
template made the text."""

from __future__ import annotations

import pytest

from tests.spark.project import Project

COLUMNS = {"id": "bigint", "name": "string", "tags": "array<string>"}


@pytest.mark.parametrize(
    ("select", "line", "column"),
    [
        ("SELECT id,\n  name + tags AS x\nFROM {s}", 3, 3),
        ("SELECT id, CAST(tags AS int) AS x FROM {s}", 2, 12),
        ("SELECT id,\n  element_at(tags, 'a') AS x\nFROM {s}", 3, 3),
        ("SELECT id,\n  {{{{ plus('name', 'tags') }}}} AS x\nFROM {s}", 3, 3),
        (
            "SELECT id, {{{{ plus('id', 'id') }}}} AS w,\n  element_at(tags, 'a') AS y FROM {s}",
            3,
            3,
        ),
    ],
)
def test_the_place_is_that_of_the_file(
    project: Project, select: str, line: int, column: int
) -> None:
    project.write(
        "macros/m.sql", "{% macro plus(a, b) %}\n\n  {{ a }} + {{ b }}\n{% endmacro %}"
    )
    project.stream("s", COLUMNS)
    project.record("s", [{"id": 1}])
    for mode, keys in (("append", {}), ("upsert", {"keys": "id"})):
        project.model(mode, select, mode=mode, **keys)
    ran = project.run()
    for mode in ("append", "upsert"):
        (problem,) = ran.finished(mode).problems
        assert problem.condition == "analysis-failed"
        assert problem.place is not None
        assert (problem.place.path, problem.place.line, problem.place.column) == (
            f"models/{mode}.sql",
            line,
            column,
        )
        assert "SQLSTATE" not in problem.what
        assert "pos " not in problem.what


def test_a_star_over_a_table_lands_no_column_that_iceberg_keeps(
    project: Project,
) -> None:
    """What such a table has, only Spark knows: the model is refused as its own table is
    planned, and makes none."""
    other = f"lake.{project.namespace}.other"
    project.stream("s", COLUMNS)
    project.record("s", [{"id": 1}])
    for mode, keys in (("append", {}), ("upsert", {"keys": "id"})):
        project.model(
            mode,
            f"SELECT s.id, o.* FROM {{s}} s JOIN {other} o ON o.other_id = s.id",
            mode=mode,
            **keys,
        )
    session = project.lake.session
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{project.namespace}")
    session.sql(
        f"CREATE TABLE {other} (other_id bigint, _change_type string) USING iceberg"
    )
    ran = project.run()
    for mode in ("append", "upsert"):
        assert ran.conditions(mode) == ["reserved-column"]
        assert not session.catalog.tableExists(f"lake.{project.namespace}.{mode}")
