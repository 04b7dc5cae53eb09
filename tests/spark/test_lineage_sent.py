"""What real runs tell of their lineage, against what their tables say: snapshots, rows,
what was read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lakesql.compile.build_select import build_selects
from lakesql.compile.compiled import compiled_files
from lakesql.events import BatchSkipped, Event, RunFinished, RunStarted
from lakesql.observe.emitter import Emitter
from lakesql.run.tell.tell_lineage import tell_lineage
from tests.lineage.validate import problems_of
from tests.spark.project import Project, Ran

Told = list[dict[str, Any]]

ORDERS = {"id": "int", "amount": "decimal(10,2)", "seq": "int"}


def told(
    project: Project,
    *names: str,
    until: Callable[[Event], bool] = lambda event: False,
    **given: Any,
) -> Told:
    """Run models and return the valid events that the file gets; none after `until`, as
    if the runner were killed."""
    file = project.directory / "lineage.jsonl"
    project.lineage = {
        "type": "file",
        "path": "lineage.jsonl",
        "every": "batch",
    } | dict(project.lineage or {})
    manifest = project.manifest()
    compiled_files(manifest).compile(manifest.models)
    before = len(file.read_text().splitlines()) if file.exists() else 0
    is_killed = False
    with (
        tell_lineage(
            manifest,
            build_selects(manifest, names or manifest.models),
            continuous=False,
        ) as renderer,
        Emitter([renderer]) as emit,
    ):

        def meet(event: Event) -> None:
            nonlocal is_killed
            is_killed = is_killed or until(event)
            if not is_killed:
                emit(event)

        emit(RunStarted("dev", tuple(names or manifest.models), False))
        project.last = project.run(*names, meet=meet, **given)  # type: ignore[attr-defined]
        if is_killed:
            renderer._open.clear()
            renderer._is_begun = False
        else:
            emit(RunFinished(1, False))
        assert emit.failures == []
    events = [json.loads(line) for line in file.read_text().splitlines()[before:]]
    assert [problem for event in events for problem in problems_of(event)] == []
    return events


def of(events: Told, job: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a job, each with its type."""
    return [
        (event["eventType"], event) for event in events if event["job"]["name"] == job
    ]


def last_of(project: Project) -> Ran:
    ran: Ran = project.last  # type: ignore[attr-defined]
    return ran


def named(dataset: dict[str, Any]) -> tuple[str, str]:
    return dataset["namespace"], dataset["name"]


def place_of(project: Project, table: str) -> tuple[str, str]:
    return "file", str(project.iceberg(table).location()).removeprefix("file:").replace(
        "///", "/"
    )


def test_every_mode_tells_what_its_tables_say(project: Project) -> None:
    project.stream("orders_in", ORDERS, max_per_batch=2)
    feed = {"id": "int", "name": "string"}
    project.stream("people_in", feed, envelope="debezium", key="id")
    project.record(
        "orders_in",
        [{"id": 1, "amount": "1.50", "seq": 1}, {"id": 2, "amount": "2.50", "seq": 1}],
    )
    project.record("orders_in", [{"id": 1, "amount": "3.50", "seq": 2}, {"id": "x"}])
    changes = [
        {
            "op": "c",
            "before": None,
            "after": {"id": n, "name": f"n{n}"},
            "source": {"lsn": n},
            "ts_ms": n,
        }
        for n in (1, 2, 3)
    ]
    project.record("people_in", [{"payload": change} for change in changes])
    project.model("landed", "SELECT id, amount, seq FROM {orders_in}", mode="append")
    keyed = {"keys": "id", "sequence_by": "seq"}
    project.model(
        "orders", "SELECT id, amount, seq FROM {orders_in}", mode="upsert", **keyed
    )
    project.model(
        "versions", "SELECT id, amount, seq FROM {orders_in}", mode="scd2", **keyed
    )
    project.model("people", "SELECT id, name FROM {people_in}", mode="cdc", keys="id")
    project.model(
        "per_id",
        "SELECT id, count(*) AS n FROM {landed!r} GROUP BY id",
        mode="materialized_view",
    )
    project.model(
        "big", "SELECT id AS number FROM {landed} WHERE amount > 2", mode="append"
    )
    events = told(project)
    last_of(project).check()
    runs = Counter(event["run"]["runId"] for event in events)
    assert {*runs.values()} == {2}  # a START and an end
    for model in ("landed", "orders", "versions", "people", "per_id", "big"):
        types = Counter(kind for kind, _ in of(events, model))
        ended = [event for kind, event in of(events, model) if kind == "COMPLETE"]
        assert types == {"START": len(ended), "COMPLETE": len(ended)}, model
        newest = ended[-1]["outputs"][0]
        assert named(newest) == place_of(project, model)
        versions = [
            each["outputs"][0]["facets"]["version"]["datasetVersion"] for each in ended
        ]
        committed = [str(number) for number in project.snapshot_ids(model)]
        assert set(versions) == set(committed), model
        rows = [
            each["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"]
            for each in ended
        ]
        assert sum(rows) == last_of(project).finished(model).rows, model
        made = newest["facets"]["columnLineage"]["fields"]
        assert {*made} == {
            field["name"] for field in newest["facets"]["schema"]["fields"]
        }
        read = {named(each) for event in ended for each in event["inputs"]}
        assert {
            named(each) for column in made.values() for each in column["inputFields"]
        } <= read, model
    landed = place_of(project, "landed")
    (_, per_id), (_, big) = of(events, "per_id")[-1], of(events, "big")[-1]
    assert (
        [named(each) for each in per_id["inputs"]]
        == [landed]
        == [named(each) for each in big["inputs"]]
    )
    assert per_id["inputs"][0]["facets"]["version"]["datasetVersion"] == str(
        project.snapshot_ids("landed")[-1]
    )
    dead = [
        event["outputs"][1]
        for kind, event in of(events, "orders")
        if len(event["outputs"]) > 1
    ]
    assert [each["outputFacets"]["outputStatistics"]["rowCount"] for each in dead] == [
        1
    ]
    assert named(dead[0]) == place_of(project, "orders__dead_letter")
    assert told(project) == []  # nothing new


def test_a_batch_that_fails_tells_why_and_the_next_run_is_another(
    project: Project,
) -> None:
    project.stream("orders_in", ORDERS)
    project.record("orders_in", [{"id": 1, "amount": "-1.50", "seq": 1}])
    project.model("orders", "SELECT id, amount FROM {orders_in}", mode="append")
    expect = {"that": "amount >= 0", "on_fail": "stop"}
    project.write(
        "models/m.yml", json.dumps({"models": [{"name": "orders", "expect": [expect]}]})
    )
    failed = told(project)
    kinds = [kind for kind, _ in of(failed, "orders")]
    assert kinds == ["START", "FAIL"]
    message = of(failed, "orders")[1][1]["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("expectation-failed: ")
    assert of(failed, "p.run")[-1][0] == "FAIL"
    project.write(
        "models/m.yml",
        json.dumps(
            {"models": [{"name": "orders", "expect": [{"that": "amount >= 0"}]}]}
        ),
    )
    mended = of(told(project), "orders")
    assert [kind for kind, _ in mended] == ["START", "COMPLETE"]
    assert mended[0][1]["run"]["runId"] != of(failed, "orders")[0][1]["run"]["runId"]
    facets = mended[1][1]["outputs"][0]["facets"]
    assert [
        each["success"] for each in facets["dataQualityAssertions"]["assertions"]
    ] == [False]


@pytest.mark.parametrize("step", ["stage", "finish"])
def test_a_batch_of_a_killed_runner_is_told_once(project: Project, step: str) -> None:
    project.stream("orders_in", ORDERS)
    project.record("orders_in", [{"id": 1, "amount": "1.50", "seq": 1}])
    project.model("orders", "SELECT id, amount FROM {orders_in}", mode="append")
    killed = False

    def reach(model: str, at: str) -> None:
        nonlocal killed
        if at == step:
            killed = True
            raise ZeroDivisionError

    first = of(told(project, until=lambda event: killed, reached=reach), "orders")
    assert [kind for kind, _ in first] == ["START"]
    again = of(told(project), "orders")
    assert len(last_of(project).of(BatchSkipped)) == (step == "finish")
    ended = [event for kind, event in again if kind == "COMPLETE"]
    assert len(ended) == 1
    output = ended[0]["outputs"][0]
    assert output["facets"]["version"]["datasetVersion"] == str(
        project.snapshot_ids("orders")[-1]
    )
    same_run = ended[0]["run"]["runId"] == first[0][1]["run"]["runId"]
    assert same_run == (step == "finish")
    assert told(project) == []


def test_batches_of_an_hour_are_one_run(project: Project) -> None:
    project.lineage = {"every": "1 hour"}
    project.stream("orders_in", ORDERS, max_per_batch=1)
    for number in range(3):
        project.record("orders_in", [{"id": number, "amount": "1.50", "seq": 1}])
    project.model("orders", "SELECT id, amount FROM {orders_in}", mode="append")
    runs = of(told(project), "orders")
    last_of(project).check()
    assert [kind for kind, _ in runs] == ["START", "COMPLETE"]
    event = runs[1][1]
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == str(
        project.snapshot_ids("orders")[-1]
    )
    batches = event["run"]["facets"]["lakesql_batches"]
    assert (batches["firstBatch"], batches["lastBatch"], batches["commits"]) == (
        0,
        2,
        3,
    )
