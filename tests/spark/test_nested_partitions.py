"""Tables that are partitioned by fields of structs."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.events import StepApplied, TableMaintained
from tests.spark.project import Project

SELECT = (
    "SELECT id, named_struct('T', at, 'inner', named_struct('k', id % 3)) AS s FROM {s}"
)
BY = ["days(s.t)", "bucket(2, `s`.inner.k)", "s.inner.k"]


def records(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": number, "at": f"2026-03-{1 + number % 3:02}T10:00:00Z"}
        for number in range(first, first + count)
    ]


def fields(project: Project) -> list[tuple[str, str]]:
    table = project.iceberg("m")
    return [
        (table.schema().find_column_name(it.source_id), str(it.transform))
        for it in table.spec().fields
    ]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_lie_in_partitions_of_fields(project: Project, mode: str) -> None:
    config: dict[str, Any] = {
        "mode": mode,
        "partition_by": BY,
        **({"keys": ["id"]} if mode == "upsert" else {}),
    }
    project.stream("s", {"id": "int", "at": "timestamp"})
    project.model("m", SELECT, **config)
    project.record("s", records(0, 6))
    project.run().check()
    assert fields(project) == [
        ("s.T", "day"),
        ("s.inner.k", "bucket[2]"),
        ("s.inner.k", "identity"),
    ]
    project.record("s", records(3, 6) if mode == "upsert" else records(6, 3))
    again = project.run().check()
    assert not [event for event in again.of(StepApplied) if "partition" in event.text]
    assert sorted(row["id"] for row in project.rows("m")) == list(range(9))
    assert sorted(row["id"] for row in project.rows_without_spark("m")) == list(
        range(9)
    )


@pytest.mark.long
def test_partitions_of_fields_are_changed_and_rewritten(project: Project) -> None:
    project.stream("s", {"id": "int", "at": "timestamp"})
    select = SELECT.replace("'T'", "'t'")
    project.model("m", select, mode="upsert", keys=["id"], partition_by=["days(s.t)"])
    project.record("s", records(0, 6))
    project.run().check()
    config = {
        "mode": "upsert",
        "keys": ["id"],
        "partition_by": ["hours(s.t)", "s.inner.k"],
    }
    project.model("m", select, **config)
    project.record("s", records(4, 4))
    project.run().check()
    assert fields(project) == [("s.t", "hour"), ("s.inner.k", "identity")]
    project.model("m", select.replace("id,", "id, 1 AS one,"), **config)
    project.rebuild("m").check()
    assert fields(project) == [("s.t", "hour"), ("s.inner.k", "identity")]
    project.record("s", records(8, 2))
    ran = project.run().check()
    assert not ran.of(TableMaintained) or ran.succeeded
    assert sorted(row["id"] for row in project.rows("m")) == list(range(10))
