"""What happens when a model's SELECT and its table have grown apart."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.events import StepApplied
from lakesql.run.state.drop import Dropper
from tests.spark.project import Project

POLICIES = ("append_new_columns", "sync_all_columns", "ignore", "fail")


def test_each_schema_change_policy_treats_new_wider_and_missing_columns(
    project: Project,
) -> None:
    """The stream's contract gets a column and a wider type, and the SELECT loses a
    column."""
    project.stream("s", {"id": "int", "n": "int", "old": "string"}, max_per_batch=1)
    project.record("s", [{"id": 1, "n": 1, "old": "o1"}])
    for policy in POLICIES:
        project.model(
            f"a_{policy}", "SELECT * FROM {s}", mode="append", on_schema_change=policy
        )
        project.model(
            f"u_{policy}",
            "SELECT * FROM {s}",
            mode="upsert",
            keys="id",
            on_schema_change=policy,
        )
    project.run().check()

    project.stream(
        "s", {"id": "int", "n": "bigint", "extra": "string"}, max_per_batch=1
    )
    project.record(
        "s", [{"id": 1, "n": 2**40, "extra": "e1"}, {"id": 2, "n": 2, "extra": "e2"}]
    )
    ran = project.run()

    upserted = {
        "append_new_columns": [
            {"id": 1, "n": 2**40, "old": "o1", "extra": "e1"},
            {"id": 2, "n": 2, "old": None, "extra": "e2"},
        ],
        "sync_all_columns": [
            {"id": 1, "n": 2**40, "extra": "e1"},
            {"id": 2, "n": 2, "extra": "e2"},
        ],
        "fail": [{"id": 1, "n": 1, "old": "o1"}],
    }
    appended = {
        "append_new_columns": [
            {"id": 1, "n": 1, "old": "o1", "extra": None},
            {"id": 1, "n": 2**40, "old": None, "extra": "e1"},
            {"id": 2, "n": 2, "old": None, "extra": "e2"},
        ],
        "sync_all_columns": [
            {"id": 1, "n": 1, "extra": None},
            {"id": 1, "n": 2**40, "extra": "e1"},
            {"id": 2, "n": 2, "extra": "e2"},
        ],
        "fail": [{"id": 1, "n": 1, "old": "o1"}],
    }
    for policy in POLICIES:
        if policy == "ignore":
            continue
        assert project.rows(f"u_{policy}", "id") == upserted[policy], policy
        assert (
            sorted(project.rows(f"a_{policy}"), key=lambda row: (row["id"], row["n"]))
            == appended[policy]
        ), policy
    for model in ("a_fail", "u_fail"):
        assert ran.conditions(model) == ["schema-change"]
    # Columns stay as they are under `ignore`: a type that they do not hold is refused,
    # and nothing is cut off.
    for model in ("a_ignore", "u_ignore"):
        assert ran.conditions(model) == ["type-change"]
        assert project.rows(model) == [{"id": 1, "n": 1, "old": "o1"}]

    project.stream("s", {"id": "int", "n": "int", "extra": "string"}, max_per_batch=1)
    project.record("s", [{"id": 3, "n": 3, "extra": "e3"}])
    for model in ("a_ignore", "u_ignore"):
        mode = (
            {"mode": "append"}
            if model.startswith("a")
            else {"mode": "upsert", "keys": "id"}
        )
        project.model(
            model,
            "SELECT * FROM {s} WHERE n IS NOT NULL",
            on_schema_change="ignore",
            **mode,
        )
    project.run("a_ignore", "u_ignore").check()
    for model in ("a_ignore", "u_ignore"):
        found = [(row["id"], row["n"], row["old"]) for row in project.rows(model, "id")]
        assert (3, 3, None) in found
        assert set(project.rows(model)[0]) == {"id", "n", "old"}


def test_a_table_made_by_another_writer_is_adopted(project: Project) -> None:
    project.stream("s", {"id": "int", "n": "bigint"})
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id", sequence_by="n")
    project.sql(f"CREATE NAMESPACE lake.{project.namespace}")
    project.sql(
        f"CREATE TABLE {project.table('m')} (id int, n bigint, note string) USING iceberg"
    )
    project.sql(
        f"INSERT INTO {project.table('m')} VALUES (1, NULL, 'kept'), (2, 9, 'newer'), (3, 1, 'alone')"
    )
    project.record("s", [{"id": 1, "n": 5}, {"id": 2, "n": 8}, {"id": 4, "n": 1}])

    ran = project.run().check()

    assert project.rows("m", "id") == [
        {"id": 1, "n": 5, "note": "kept"},
        {"id": 2, "n": 9, "note": "newer"},
        {"id": 3, "n": 1, "note": "alone"},
        {"id": 4, "n": 1, "note": None},
    ]
    assert not [event for event in ran.of(StepApplied) if "create" in event.text]


def test_a_table_whose_first_batch_failed_follows_the_corrected_model(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "k": "string"})
    project.record("s", [{"id": 1, "k": "a"}])
    project.model("m", "SELECT CAST(k AS int) AS id, k FROM {s}", mode="append")
    assert not project.run().succeeded
    assert (
        project.iceberg("m").schema().find_field("id").field_type.__class__.__name__
        == "IntegerType"
    )
    project.model(
        "m",
        "SELECT k AS id, id AS n FROM {s}",
        mode="upsert",
        keys=["id"],
        partition_by=["bucket(2, id)"],
    )
    ran = project.run().check()
    assert any("anew" in step.text for step in ran.of(StepApplied))
    assert project.rows("m") == project.rows_without_spark("m") == [{"id": "a", "n": 1}]
    assert [str(field.transform) for field in project.iceberg("m").spec().fields] == [
        "bucket[2]"
    ]


def test_columns_and_fields_in_another_order_are_taken_by_their_names(
    project: Project,
) -> None:
    """The table is appended to in each of these modes: of the upsert it has no row any
    more, then no row of the key."""
    configs = {
        "a": {"mode": "append"},
        "k": {"mode": "append", "keys": "id"},
        "u": {"mode": "upsert", "keys": "id"},
    }

    def arrive(id_: int, columns: str, v: str, w: str) -> None:
        project.stream("s", {"id": "int", "old": "int", "v": v, "w": w})
        for name, config in configs.items():
            project.model(name, f"SELECT {columns} FROM {{s}}", **config)
        project.record(
            "s",
            [
                {
                    "id": id_,
                    "old": id_,
                    "v": {"a": "A", "b": "B"},
                    "w": [{"x": 1, "y": 2}],
                }
            ],
        )
        project.run().check()

    arrive(
        1, "id, old, v, w", "struct<a:string,b:string>", "array<struct<x:int,y:int>>"
    )
    project.sql(f"DELETE FROM {project.table('u')}")
    arrive(2, "w, v, id", "struct<b:string,a:string>", "array<struct<y:int,x:int>>")
    arrive(3, "w, v, id", "struct<b:string,a:string>", "array<struct<y:int,x:int>>")
    same = {"v": {"a": "A", "b": "B"}, "w": [{"x": 1, "y": 2}]}
    rows = [
        {"id": 1, "old": 1, **same},
        {"id": 2, "old": None, **same},
        {"id": 3, "old": None, **same},
    ]
    assert [project.rows(name, "id") for name in configs] == [rows, rows, rows[1:]]


@pytest.mark.long
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(
    "writes",
    [{"mode": "append"}, {"mode": "upsert", "keys": ["id"]}],
    ids=["append", "upsert"],
)
def test_a_column_by_which_a_table_was_partitioned_once_outlives_its_select(
    project: Project, writes: dict[str, Any], version: str
) -> None:
    def take(id_: int, columns: str, **more: Any) -> None:
        config = {
            "on_schema_change": "sync_all_columns",
            "properties": {"format-version": version},
            **writes,
            **more,
        }
        project.model("m", f"SELECT {columns} FROM {{s}}", **config)
        project.record(
            "s",
            [
                {"id": id_, "p": "a", "v": f"v{id_}"},
                {"id": 100, "p": "a", "v": f"v{id_}"},
            ],
        )
        project.run().check()

    project.stream("s", {"id": "int", "p": "string", "v": "string"})
    take(0, "id, p, v", partition_by=["p"])
    take(1, "id, v", partition_by=["bucket(2, id)"], maintenance=False)
    take(2, "id, v", partition_by=["bucket(2, id)"])
    rows = {(row["id"], row["v"], row["p"]) for row in project.rows("m")}
    newest = {(0, "v0", "a"), (1, "v1", None), (2, "v2", None), (100, "v2", None)}
    if writes["mode"] == "append":
        assert rows == newest | {(100, "v0", "a"), (100, "v1", None)}
    else:
        assert {row[:2] for row in rows} == {row[:2] for row in newest}
    assert len(project.rows_without_spark("m")) == len(rows)
    ran = project.rebuild("m")
    if writes["mode"] == "append":
        ran.check()
    else:
        assert ran.conditions("m") == ["rebuild-impossible"]
    take(3, "id, v", partition_by=["bucket(2, id)"])
    assert (3, "v3") in {(row["id"], row["v"]) for row in project.rows("m")}


@pytest.mark.long
def test_a_table_to_merge_into_that_has_lost_a_column_of_its_partitions_is_named(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "p": "string"})
    project.record("s", [{"id": 1, "p": "a"}])
    project.model(
        "m", "SELECT id, p FROM {s}", mode="upsert", keys=["id"], partition_by=["p"]
    )
    project.run().check()
    project.model(
        "m",
        "SELECT id FROM {s}",
        mode="upsert",
        keys=["id"],
        partition_by=["bucket(2, id)"],
    )
    project.run().check()
    project.sql(f"ALTER TABLE {project.table('m')} DROP COLUMN p")
    project.record("s", [{"id": 1, "p": "b"}])
    assert project.run().conditions("m") == ["partition-lost"]
    assert project.rebuild("m").conditions("m") == ["partition-lost"]
    dropper = Dropper(project.manifest(), project.lake.session, project.lake.catalog)
    dropper.drop("m", dropper.find()["m"], lambda text: None)
    project.run().check()
    assert project.rows("m") == [{"id": 1}]
