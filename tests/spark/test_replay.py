"""A batch that is run again: after a crash between any two of its steps each row stands
once, each dead letter too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lakesql.engine.batch import write
from lakesql.engine.ledger.commit import Staged
from lakesql.errors import TransientError
from lakesql.events import (
    BatchCommitted,
    BatchSkipped,
    Event,
    RecordsRejected,
    Retrying,
)
from tests.spark.project import Lake, Project, Row

STATELESS = ("append_all", "upsert_all")
STATEFUL = ("append_stateful", "upsert_stateful")
MODELS = (*STATELESS, *STATEFUL)

EVENTS = {"id": "int", "at": "timestamp", "kind": "string"}
UPSERT = {"mode": "upsert", "keys": "id"}


def write_models(project: Project) -> None:
    """Every way in which a batch is written, all over one stream, in batches of one
    file."""
    project.stream(
        "e", EVENTS, watermark={"column": "at", "delay": "1 minute"}, max_per_batch=1
    )
    project.model("append_all", "SELECT * FROM {e}", mode="append")
    project.model("upsert_all", "SELECT * FROM {e}", sequence_by="at", **UPSERT)
    counts = "SELECT window.start AS id, count(*) AS n FROM {e} GROUP BY window(at, '1 hour')"
    project.model("append_stateful", counts, mode="append")
    project.model(
        "upsert_stateful",
        "SELECT kind AS id, count(*) AS n FROM {e} GROUP BY kind",
        **UPSERT,
    )


def write_batches(project: Project, first_hour: int = 0, batches: int = 3) -> None:
    for hour in range(first_hour, first_hour + batches):
        rows: list[Any] = [
            {
                "id": number % 7 + hour,
                "at": f"2026-03-02T{hour:02d}:{number:02d}:00Z",
                "kind": "abc"[number % 3],
            }
            for number in range(20)
        ]
        project.record(
            "e",
            [
                *rows,
                {"id": None, "at": f"2026-03-02T{hour:02d}:30:00Z", "kind": None},
                "broken",
            ],
        )


def tables(project: Project) -> dict[str, list[Row]]:
    names = [
        name
        for model in MODELS
        for name in (model, f"{model}__dead_letter")
        if project.has(name)
    ]
    return {name: project.rows(name) for name in names}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A project whose newest batches were forgotten and run again, and its tables
    before that."""

    project: Project
    forgotten: dict[str, int]
    before: dict[str, list[Row]]
    snapshots: dict[str, list[int]]
    skipped: dict[str, list[int]]


@pytest.fixture(scope="module")
def replayed(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replayed]:
    project = Project(lake, tmp_path_factory.mktemp("replay"), "replay")
    write_models(project)
    write_batches(project)
    first = project.run().check()
    committed = {
        model: [event.batch for event in first.of(BatchCommitted, model)]
        for model in MODELS
    }
    assert all(len(batches) >= 2 for batches in committed.values())
    before = tables(project)
    snapshots = {name: project.snapshot_ids(name) for name in before}
    forgotten = {model: project.forget(model, committed[model][-1]) for model in MODELS}
    for model in STATEFUL:
        project.forget(f"{model}__dead_letter")
    second = project.run().check()
    skipped = {
        model: [event.batch for event in second.of(BatchSkipped, model)]
        for model in MODELS
    }
    yield Replayed(project, forgotten, before, snapshots, skipped)


def test_the_tables_are_as_plain_python_says(replayed: Replayed) -> None:
    rows = replayed.before
    assert len(rows["append_all"]) == 3 * 21
    assert {row["id"] for row in rows["upsert_all"]} == set(range(9))
    assert [row["n"] for row in rows["append_stateful"]] == [21, 21]
    assert {row["id"]: row["n"] for row in rows["upsert_stateful"]} == {
        "a": 21,
        "b": 21,
        "c": 18,
    }
    assert replayed.project.reasons("append_all") == {"unparsable": 3}
    assert replayed.project.reasons("append_stateful") == {"unparsable": 3}
    assert replayed.project.reasons("upsert_all") == {"unparsable": 3, "key-missing": 3}
    # The group of the records without a kind has changed in each batch.
    assert replayed.project.reasons("upsert_stateful") == {
        "unparsable": 3,
        "key-missing": 3,
    }


@pytest.mark.parametrize("model", MODELS)
def test_a_replayed_batch_is_skipped_and_nothing_is_written(
    replayed: Replayed, model: str
) -> None:
    assert replayed.skipped[model] == [replayed.forgotten[model]]
    for name in (model, f"{model}__dead_letter"):
        assert replayed.project.rows(name) == replayed.before[name]
        assert replayed.project.snapshot_ids(name) == replayed.snapshots[name]


class Crash(Exception):  # noqa: N818
    """Raised where a batch is to end as if its process had died there."""


@pytest.mark.promise("before-publish")
@pytest.mark.parametrize(
    "point", [RecordsRejected, BatchCommitted], ids=["before-publish", "after-publish"]
)
def test_a_crash_before_or_after_publishing_loses_and_duplicates_no_row(
    project: Project, point: type[Event]
) -> None:
    """The second batch ends after its dead letters and before it is published, or right
    after it was."""
    write_models(project)
    write_batches(project, batches=1)
    project.run(*STATELESS).check()
    write_batches(project, 1, batches=2)

    def crash(event: Event) -> None:
        if isinstance(event, point) and event.batch == 1:
            raise Crash

    crashed = project.run(*STATELESS, meet=crash)
    assert not crashed.succeeded
    assert {model: crashed.conditions(model) for model in STATELESS} == {
        model: ["internal"] for model in STATELESS
    }
    is_visible = point is BatchCommitted
    for model in STATELESS:
        assert len(project.summaries(model)) == (2 if is_visible else 1)
        assert project.reasons(model)["unparsable"] == 2

    again = project.run(*STATELESS).check()

    for model in STATELESS:
        assert [event.batch for event in again.of(BatchSkipped, model)] == (
            [1] if is_visible else []
        )
        assert [event.batch for event in again.of(BatchCommitted, model)] == (
            [2] if is_visible else [1, 2]
        )
        assert [
            int(summary["lakesql.batch"]) for summary in project.summaries(model)
        ] == [0, 1, 2]
        assert project.reasons(model)["unparsable"] == 3
    assert len(project.rows("append_all")) == 63
    assert len(project.rows("upsert_all")) == 9


def test_a_foreign_commit_between_staging_and_publishing_keeps_both_writers_rows(
    project: Project,
) -> None:
    """An append is replayed on top of it, a MERGE is staged again; both know their
    batch afterwards."""
    models = STATELESS
    write_models(project)
    write_batches(project, batches=1)
    project.run(*models).check()
    write_batches(project, 1, batches=1)

    def intrude(event: Event) -> None:
        if isinstance(event, RecordsRejected):
            project.sql(
                f"INSERT INTO {project.table(event.model)} VALUES (1000, NULL, 'foreign')"
            )

    project.run(*models, meet=intrude).check()

    for model in models:
        assert [
            row["id"] for row in project.rows(model) if row["kind"] == "foreign"
        ] == [1000]
    assert len(project.rows("append_all")) == 42 + 1
    assert len(project.rows("upsert_all")) == 8 + 1
    before = tables(project)
    for model in models:
        assert project.forget(model) == 1

    again = project.run(*models).check()

    assert [event.batch for event in again.of(BatchSkipped)] == [1, 1]
    assert tables(project) == before

    project.sql(
        f"INSERT INTO {project.table('upsert_all')} VALUES (2000, NULL, 'foreign')"
    )
    write_batches(project, 2, batches=1)
    project.run(*models).check()
    assert len(project.rows("append_all")) == 63 + 1
    assert len(project.rows("upsert_all")) == 9 + 2


def test_staged_snapshots_do_not_pile_up(replayed: Replayed) -> None:
    for model in MODELS:
        assert len(replayed.project.snapshot_ids(model)) == len(
            replayed.project.summaries(model)
        )


def test_a_merge_that_only_inserts_is_made_again_where_the_table_has_moved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To Iceberg it is an append: a key that comes in by somebody else meanwhile would
    stand twice."""
    project.stream("e", {"id": "int"})
    project.model("m", "SELECT id FROM {e}", mode="upsert", keys="id")
    project.record("e", [{"id": 1}, {"id": 2}])
    project.run().check()
    project.record("e", [{"id": 2}, {"id": 3}])
    stage, staged = write.stage, list[str]()

    def intrude(*given: Any) -> Staged:
        if not staged:
            project.sql(f"INSERT INTO {project.table('m')} VALUES (3)")
        staged.append(given[2])
        return stage(*given)

    monkeypatch.setattr(write, "stage", intrude)
    ran = project.run().check()
    assert len(staged) == 2
    assert not ran.of(Retrying)
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2, 3]


def test_a_retry_that_rejects_other_rows_writes_no_dead_letter_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys come from a table that has changed. What was set aside by the first try
    is not set aside twice."""
    project.stream("arrived", {"customer": "int", "id": "int"})
    project.stream("orders", {"customer": "int", "v": "int"})
    project.model("customers", "SELECT customer, id FROM {arrived}", mode="append")
    joined = "SELECT c.id, o.v FROM {orders} o LEFT JOIN {customers!r} c ON o.customer = c.customer"
    project.model("m", joined, mode="upsert", keys="id")
    project.record("arrived", [{"customer": 1, "id": 10}, {"customer": 2, "id": 20}])
    project.run("customers").check()
    project.record(
        "orders",
        [{"customer": 1, "v": 1}, {"customer": 2, "v": 2}, {"customer": 3, "v": 3}],
    )

    publish, failed = write.publish, []

    def fail_once(*given: Any) -> Any:
        if failed:
            return publish(*given)
        failed.append(
            project.sql(f"DELETE FROM {project.table('customers')} WHERE customer = 2")
        )
        raise TransientError.of("catalog-unreachable", "It is away for a moment.")

    monkeypatch.setattr(write, "publish", fail_once)
    ran = project.run("m").check()

    assert [event.count for event in ran.of(RecordsRejected)] == [1, 1]
    assert project.rows("m") == [{"id": 10, "v": 1}]
    values = [
        json.loads(row["value"])["customer"] for row in project.rows("m__dead_letter")
    ]
    assert sorted(values) == [2, 3] and project.reasons("m") == {"key-missing": 2}
