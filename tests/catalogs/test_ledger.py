"""Exactly once on each catalog: the ledger, the staged commit and its publication, a
commit of somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakesql.events import BatchCommitted, BatchSkipped, Event, RecordsRejected
from tests.catalogs.places import Place, forget, plain
from tests.spark.project import Project, Row

ORDER = {"id": "bigint", "state": "string", "at": "timestamp"}
FIRST = [
    {"id": number % 7, "state": f"s{number}", "at": f"2026-03-01T10:00:{number:02d}Z"}
    for number in range(20)
]
SECOND = [
    {"id": number % 5, "state": f"t{number}", "at": f"2026-03-01T10:01:{number:02d}Z"}
    for number in range(10)
]
MODELS = ("added", "newest", "counted")


@pytest.fixture
def project(place: Place, tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    made = Project(place.lake, tmp_path, f"{request.function.__name__}")
    made.checkpoints = (
        place.checkpoints.removesuffix("/") + f"/{request.function.__name__}"
    )
    made.stream("orders", ORDER, watermark={"column": "at", "delay": "1 minute"})
    made.model(
        "added",
        "SELECT id, state, at FROM {orders}",
        mode="append",
        partition_by=["days(at)"],
    )
    made.model(
        "newest",
        "SELECT id, state, at FROM {orders}",
        mode="upsert",
        keys=["id"],
        sequence_by="at",
        order_by=["id"],
    )
    made.model(
        "counted",
        "SELECT id, count(*) AS orders FROM {orders} GROUP BY id",
        mode="upsert",
        keys=["id"],
    )
    made.record("orders", FIRST)
    return made


def check(project: Project, sent: list[Row], models: Sequence[str] = MODELS) -> None:
    """The tables hold what plain Python makes of the records."""
    assert len(project.rows("added")) == len(sent)
    assert {row["state"] for row in project.rows("added")} == {
        row["state"] for row in sent
    }
    newest = {row["id"]: row["state"] for row in sent}
    assert {row["id"]: row["state"] for row in project.rows("newest")} == newest
    assert len(project.rows("newest")) == len(newest)
    if "counted" not in models:
        return
    counts = {key: sum(row["id"] == key for row in sent) for key in newest}
    assert {row["id"]: row["orders"] for row in project.rows("counted")} == counts


def test_a_replayed_batch_is_skipped_on_every_catalog(
    place: Place, project: Project
) -> None:
    first = project.run().check()
    assert [len(first.of(BatchCommitted, model)) for model in MODELS] == [1, 1, 1]
    check(project, FIRST)
    for model in MODELS:
        assert project.rows_without_spark(model) == project.rows(model)
        assert plain(place.rows_by_duckdb(project.namespace, model)) == plain(
            project.rows(model)
        )
    heads = {model: project.snapshot_ids(model) for model in MODELS}

    forget(project, first, MODELS)
    replayed = project.run().check()

    assert {event.model for event in replayed.of(BatchSkipped)} == set(MODELS)
    assert not replayed.of(BatchCommitted)
    assert {model: project.snapshot_ids(model) for model in MODELS} == heads
    check(project, FIRST)

    assert [event.model for event in project.run_without_java("added")] == ["added"]
    project.record("orders", SECOND)
    assert project.run_without_java("added") == []
    project.run().check()
    check(project, FIRST + SECOND)


def test_a_table_is_rebuilt_on_every_catalog(place: Place, project: Project) -> None:
    """Another schema and other partitions, delete files and state: read by Spark,
    pyiceberg and DuckDB."""
    project.run().check()
    before = {model: project.iceberg(model).metadata.table_uuid for model in MODELS}
    select = "SELECT id, state, at, CAST(id AS string) AS text FROM {orders}"
    project.model("added", select, mode="append", partition_by=["bucket(2, id)"])
    project.model(
        "newest",
        select,
        mode="upsert",
        keys=["id"],
        sequence_by="at",
        partition_by=["text"],
    )
    project.model(
        "counted",
        "SELECT id, count(state) AS orders FROM {orders} GROUP BY id",
        mode="upsert",
        keys=["id"],
    )
    project.record("orders", SECOND)
    assert project.run("counted").conditions("counted") == ["state-changed"]
    project.rebuild(*MODELS).check()
    check(project, FIRST + SECOND)
    assert {
        model: project.iceberg(model).metadata.table_uuid for model in MODELS
    } == before
    third = [
        {"id": number, "state": f"u{number}", "at": f"2026-03-01T10:02:{number:02d}Z"}
        for number in range(3)
    ]
    project.record("orders", third)
    project.run().check()
    check(project, FIRST + SECOND + third)
    for model in MODELS:
        assert project.rows_without_spark(model) == project.rows(model)
        assert plain(place.rows_by_duckdb(project.namespace, model)) == plain(
            project.rows(model)
        )
    assert project.table_names() == set(MODELS)


def test_a_staged_batch_is_published_on_top_of_a_foreign_commit(
    project: Project,
) -> None:
    """The staged append is replayed on top of it, the staged MERGE is made again; both
    know their batch afterwards."""
    models = ("added", "newest")
    project.run(*models).check()
    project.record("orders", [*SECOND, "unreadable"])
    met: list[str] = []

    def intrude(event: Event) -> None:
        if isinstance(event, RecordsRejected):
            met.append(event.model)
            project.sql(
                f"INSERT INTO {project.table(event.model)} VALUES (99, 'mine', TIMESTAMP '2026-03-01 00:00:00')"
            )

    met_foreign = project.run(*models, meet=intrude).check()

    assert sorted(met) == sorted(models)
    check(project, [*FIRST, *SECOND, {"id": 99, "state": "mine"}], models)
    forget(project, met_foreign, models)
    again = project.run(*models).check()
    assert {event.model for event in again.of(BatchSkipped)} == set(models)
    check(project, [*FIRST, *SECOND, {"id": 99, "state": "mine"}], models)
