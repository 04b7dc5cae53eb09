"""What stops a run is mended as the advice of its condition says, and the run goes
on."""

from __future__ import annotations

from tests.spark.project import Project

COLUMNS = {"id": "int", "n": "int", "word": "string"}


def test_what_stops_a_run_is_mended_as_its_advice_says(project: Project) -> None:
    project.stream("s", COLUMNS)
    project.record("s", [{"id": 1, "n": 1, "word": "a"}])
    project.model("analysed", "SELECT id, n + array(1) AS n FROM {s}", mode="append")
    project.model(
        "own",
        "SELECT id, (SELECT max(id) FROM {{{{ this }}}}) AS last FROM {s}",
        mode="append",
    )
    project.model("typed", "SELECT id, n FROM {s}", mode="append")
    project.model("required", "SELECT id, n FROM {s}", mode="append", partition_by="n")
    project.model(
        "strict", "SELECT id FROM {s}", mode="append", on_schema_change="fail"
    )
    ran = project.run()
    assert ran.conditions("analysed") == ["analysis-failed"]
    assert ran.conditions("own") == ["this-missing"]

    project.record("s", [{"id": 2, "n": 2, "word": "b"}])
    project.model("analysed", "SELECT id, n + 1 AS n FROM {s}", mode="append")
    project.model(
        "own",
        "SELECT id, CAST((SELECT max(id) FROM {{{{ this }}}}) AS int) AS last FROM {s}",
        mode="append",
    )
    project.model("typed", "SELECT id, word AS n FROM {s}", mode="append")
    project.model(
        "required",
        "SELECT id FROM {s}",
        mode="append",
        on_schema_change="sync_all_columns",
    )
    project.model(
        "strict", "SELECT id, n FROM {s}", mode="append", on_schema_change="fail"
    )
    ran = project.run()
    assert ran.conditions("typed") == ["type-change"]
    assert ran.conditions("required") == ["column-required"]
    assert ran.conditions("strict") == ["schema-change"]

    project.model("typed", "SELECT id, n, word FROM {s}", mode="append")
    project.model(
        "required",
        "SELECT id, n FROM {s}",
        mode="append",
        on_schema_change="sync_all_columns",
    )
    project.model(
        "strict",
        "SELECT id, n FROM {s}",
        mode="append",
        on_schema_change="append_new_columns",
    )
    project.run().check()
    assert [row["n"] for row in project.rows("analysed", "id")] == [2, 3]
    assert [row["last"] for row in project.rows("own", "id")] == [None, None]
    assert [row["word"] for row in project.rows("typed", "id")] == [None, "b"]
    assert [row["n"] for row in project.rows("required", "id")] == [1, 2]
    assert [row["n"] for row in project.rows("strict", "id")] == [None, 2]


def test_a_field_whose_name_no_column_can_have_is_taken_from_the_text(
    project: Project,
) -> None:
    project.stream("s", format="string")
    project.record("s", [{"id": 1, "a.b": "x", "_record": {"y": 2}}])
    select = """SELECT get_json_object(value, '$.id') AS id, get_json_object(value, "$['a.b']") AS a_b,
      get_json_object(value, '$._record.y') AS y FROM {s}"""
    project.model("m", select, mode="append")
    project.run().check()
    assert project.rows("m") == [{"id": "1", "a_b": "x", "y": "2"}]
