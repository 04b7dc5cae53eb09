"""A run's events as OpenLineage's: which are told, what stands in them, and that each
is valid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from openlineage.client.serde import Serde

from lakesql.compile.checks import Check
from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.decode import node_of
from lakesql.errors import Place, Problem
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    BatchStarted,
    Event,
    LineageLost,
    ModelFinished,
    Progress,
    ReadRange,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    SeedFinished,
)
from lakesql.lineage.lineage_inputs import inputs_of
from lakesql.lineage.lineage_jobs import LineageFacts, LineageJob
from lakesql.model.config import AvailableNow, Every, OnChange, Trigger
from lakesql.model.table_name import TableName
from lakesql.observe.emitter import Emitter
from lakesql.observe.lineage_runs import LineageRuns, batch_id
from lakesql.observe.openlineage_events import openlineage_event, redacted
from lakesql.observe.told_run import LineageRun
from lakesql.project.duration import Duration
from lakesql.project.lineage_target import BATCH, LineageFile, LineageTarget
from lakesql.project.profiles import Catalog
from lakesql.run.tell.tell_lineage import period_of
from lakesql.secrets import find_secrets
from lakesql.source.kafka import Kafka
from lakesql.stream.stream import Column, Stream, read_stream
from tests.cases import each_of
from tests.lineage.validate import problems_of

T0 = 1_772_400_000_000
HOUR = 3_600_000
STARTED = RunStarted("dev", ("orders", "totals"), False, at_ms=T0)
PROBLEM = Problem(
    "expectation-failed", "Too many.", place=Place("models/orders.sql", 1, 1)
)
BROKER = Kafka("b1:9092,b2:9092")
COLUMNS = (
    Column("id", "bigint"),
    Column("amount", "decimal(10,2)", description="In euros."),
)
MADE = ModelLineage(
    (
        MadeColumn("id", (SourceColumn("stream.orders_in", "id", "identity"),)),
        MadeColumn(
            "amount", (SourceColumn("stream.orders_in", "amount", "transformation"),)
        ),
    ),
    (
        SourceColumn("stream.orders_in", "id", "filter"),
        SourceColumn("stream.orders_in", "id", "group_by"),
    ),
)
CHECKS = (
    Check("amount >= 0", "amount >= 0", "warn", PROBLEM.place, is_written=True),
    Check("not_null id", "id IS NOT NULL", "stop", PROBLEM.place, column="id"),
)
ORDERS = LineageJob(
    "orders",
    TableName("lake", "shop", "orders"),
    "Orders.",
    "SELECT 1",
    COLUMNS,
    MADE,
    CHECKS,
    ("orders_in",),
)
TOTALS = LineageJob(
    "totals",
    TableName("lake", "shop", "totals"),
    "",
    "SELECT 2",
    (Column("n", ""),),
    ModelLineage(
        (MadeColumn("n", (SourceColumn("model.orders", "id", "aggregation"),)),)
    ),
)
REGIONS = LineageJob(
    "regions",
    TableName("lake", "shop", "regions"),
    "",
    "",
    COLUMNS[:1],
    file="/p/seeds/regions.csv",
)
CATALOG = Catalog(
    type="sql",
    uri="postgresql+psycopg://lake:pw@db:5432/iceberg?sslmode=require",
    warehouse="s3://wh/x",
)


def declared(**origin: str) -> Stream:
    columns = {
        column.name: {"type": column.type, "description": column.description}
        for column in COLUMNS
    }
    return read_stream(
        node_of(
            {"name": "orders_in", "connection": "b", "columns": columns, **origin},
            Place("s.yml"),
        )
    )


def facts(streams: Mapping[str, Stream] | None = None) -> LineageFacts:
    streams = streams or {"orders_in": declared(topic="shop.orders")}
    return LineageFacts(
        project="shop",
        namespace="shop.dev",
        jobs={job.name: job for job in (ORDERS, TOTALS, REGIONS)},
        streams=streams,
        sources=dict.fromkeys(streams, BROKER),
        tables={f"model.{job.name}": job.table for job in (ORDERS, TOTALS)},
        catalog=CATALOG,
    )


class Told:
    """A sink that keeps what it is offered."""

    shown = "nowhere"

    def __init__(self) -> None:
        self.runs: list[LineageRun] = []
        self.lost: list[tuple[int, str]] = []
        self.drained = 0

    def offer(self, told: LineageRun) -> None:
        self.runs.append(told)

    def take_lost(self) -> tuple[int, str]:
        return self.lost.pop(0) if self.lost else (0, "")

    def drain(self) -> None:
        self.drained += 1


def tell(*events: Event, period_ms: int = 0) -> list[LineageRun]:
    numbers, sink = count(1), Told()
    renderer = LineageRuns(
        sink,
        dict.fromkeys(("orders", "totals"), period_ms),
        lambda: str(UUID(int=next(numbers))),
    )
    with Emitter([renderer]) as emit:
        for event in events:
            emit(event)
    assert emit.failures == []
    return sink.runs


def rendered(run: LineageRun, known: LineageFacts | None = None) -> dict[str, Any]:
    """The event as it is sent, which is valid."""
    found: dict[str, Any] = json.loads(
        Serde.to_json(openlineage_event(known or facts(), run))
    )
    assert problems_of(found) == []
    return found


def states(runs: Iterable[LineageRun]) -> list[str]:
    """`START orders`, or what else is told; the run of all without a name."""
    return [f"{run.state} {run.job}".strip() for run in runs]


def begun(
    batch: int, at: int = 0, model: str = "orders", *, repeated: bool = False
) -> BatchStarted:
    offsets = [
        json.dumps({"shop.orders": {"0": 10 * each, "1": each}})
        for each in (batch, batch + 1)
    ]
    read = ReadRange("orders_in", offsets[0] if batch else "", offsets[1])
    location = "s3a://wh/shop/orders"
    return BatchStarted(
        model,
        batch,
        "c1",
        (read,),
        "lake.shop.orders",
        location,
        is_repeated=repeated,
        at_ms=T0 + at,
    )


def done(batch: int, at: int = 0, rows: int = 9, **given: Any) -> BatchCommitted:
    return BatchCommitted(
        "orders",
        batch,
        10,
        rows,
        0,
        700 + batch,
        5,
        "",
        location="",
        **given,
        at_ms=T0 + at,
    )


def finished(
    model: str = "orders", status: Any = "success", problems: tuple[Problem, ...] = ()
) -> ModelFinished:
    return ModelFinished(model, status, 1, 10, 9, 0, 0, 5, problems, at_ms=T0 + 99)


OVER = RunFinished(100, False, at_ms=T0 + 100)


def test_each_batch_is_a_run_below_that_of_lakesql() -> None:
    runs = tell(STARTED, begun(0), done(0), begun(1), done(1), finished(), OVER)
    assert states(runs) == [
        "START",
        *["START orders", "COMPLETE orders"] * 2,
        "COMPLETE",
    ]
    assert {run.parent for run in runs if run.job} == {runs[0].id} == {runs[-1].id}
    assert [run.id for run in runs[1:5]] == [batch_id("c1", 0)] * 2 + [
        batch_id("c1", 1)
    ] * 2
    assert [rendered(run)["eventType"] for run in runs] == [run.state for run in runs]


def test_a_batch_that_is_begun_anew_is_one_run() -> None:
    runs = tell(STARTED, begun(0), begun(0), done(0), OVER)
    assert states(runs) == ["START", "START orders", "COMPLETE orders", "COMPLETE"]


def test_a_refresh_that_finds_nothing_to_write_is_over_when_the_next_one_begins() -> (
    None
):
    started = BatchStarted(
        "totals", 3, "", (), "lake.shop.totals", "s3://wh/totals", at_ms=T0
    )
    runs = tell(STARTED, started, started, finished("totals"), OVER)
    assert states(runs) == [
        "START",
        *["START totals", "COMPLETE totals"] * 2,
        "COMPLETE",
    ]
    assert runs[1].id != runs[3].id


def test_an_event_says_what_was_read_and_written() -> None:
    letters = RecordsRejected(
        "orders",
        1,
        "lake.shop.orders__dead_letter",
        2,
        (("late", 2),),
        "s3://wh/dead",
        at_ms=T0,
    )
    run = tell(
        STARTED, begun(1), letters, done(1, violations=(("amount >= 0", 3),)), OVER
    )[2]
    event = rendered(run)
    (read,), (written, dead) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("kafka://b1:9092", "shop.orders")
    assert read["inputFacets"]["lakesql_offsets"]["partitions"] == [
        {"partition": "0", "begin": 10, "end": 20},
        {"partition": "1", "begin": 1, "end": 2},
    ]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 10
    assert (written["namespace"], written["name"]) == ("s3://wh", "shop/orders")
    assert written["facets"]["version"]["datasetVersion"] == "701"
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 9
    assert written["facets"]["symlinks"]["identifiers"] == [
        {
            "namespace": "postgresql://db:5432/iceberg",
            "name": "shop.orders",
            "type": "TABLE",
        }
    ]
    assert (dead["name"], dead["outputFacets"]["outputStatistics"]["rowCount"]) == (
        "dead",
        2,
    )
    assertions = {
        each["name"]: each
        for each in written["facets"]["dataQualityAssertions"]["assertions"]
    }
    assert (
        assertions["amount >= 0"]["success"],
        assertions["amount >= 0"]["actual"],
    ) == (False, "3")
    assert (
        assertions["not_null id"]["success"]
        and assertions["not_null id"]["severity"] == "error"
    )
    assert [each["status"] for each in event["run"]["facets"]["test"]["tests"]] == [
        "fail",
        "pass",
    ]
    assert event["run"]["facets"]["parent"]["job"]["name"] == "shop.run"
    batches = event["run"]["facets"]["lakesql_batches"]
    assert (
        batches["checkpoint"],
        batches["firstBatch"],
        batches["commits"],
        batches["deadLetters"],
    ) == ("c1", 1, 1, 2)


def test_columns_say_what_they_are_made_of() -> None:
    event = rendered(tell(STARTED, begun(0), done(0), OVER)[2])
    lineage = event["outputs"][0]["facets"]["columnLineage"]
    of_amount = lineage["fields"]["amount"]["inputFields"]
    assert [(it["namespace"], it["name"], it["field"]) for it in of_amount] == [
        ("kafka://b1:9092", "shop.orders", "amount")
    ]
    assert of_amount[0]["transformations"][0]["subtype"] == "TRANSFORMATION"
    (row,) = lineage["dataset"]
    assert {(each["type"], each["subtype"]) for each in row["transformations"]} == {
        ("INDIRECT", "FILTER"),
        ("INDIRECT", "GROUP_BY"),
    }


def test_tables_that_are_read_are_those_that_were_written() -> None:
    """By one name, which is how graphs are joined; and columns name the very
    dataset."""
    read = ReadRange("lake.shop.orders", "5", "700", "s3://wh/shop/orders")
    started = BatchStarted("totals", 0, "", (read,), "lake.shop.totals", "", at_ms=T0)
    ended = BatchCommitted(
        "totals",
        0,
        0,
        4,
        0,
        800,
        5,
        "",
        refreshed="in full",
        location="s3://wh/shop/totals",
        at_ms=T0,
    )
    runs = tell(STARTED, begun(0), done(0), started, ended, OVER)
    event, writer = rendered(runs[4]), rendered(runs[2])
    (read_as,), (written,) = event["inputs"], event["outputs"]
    assert (read_as["namespace"], read_as["name"]) == ("s3://wh", "shop/orders")
    assert (read_as["namespace"], read_as["name"]) == tuple(
        writer["outputs"][0][it] for it in ("namespace", "name")
    )
    assert read_as["facets"]["version"]["datasetVersion"] == "700"
    assert written["name"] == "shop/totals"
    (field,) = written["facets"]["columnLineage"]["fields"]["n"]["inputFields"]
    assert (field["namespace"], field["name"], field["field"]) == (
        "s3://wh",
        "shop/orders",
        "id",
    )
    # there was no table yet, and so no place to name it by
    assert rendered(runs[3])["outputs"] == []


def test_a_pattern_means_the_topics_that_were_read() -> None:
    known = facts({"orders_in": declared(pattern="shop[.].*")})
    after = json.dumps({"shop.a": {"0": 3}, "shop.b": {"0": 4}})
    started = BatchStarted(
        "orders",
        0,
        "c1",
        (ReadRange("orders_in", "", after),),
        "lake.shop.orders",
        "",
        at_ms=T0,
    )
    event = rendered(tell(STARTED, started, done(0), OVER)[2], known)
    assert [each["name"] for each in event["inputs"]] == ["shop.a", "shop.b"]
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]["id"][
        "inputFields"
    ]
    assert [each["name"] for each in fields] == ["shop.a", "shop.b"]


def test_a_stream_that_is_joined_with_itself_is_one_input_without_offsets() -> None:
    reads = tuple(
        ReadRange(number, "", '{"shop.orders": {"0": 3}}') for number in ("0", "1")
    )
    started = BatchStarted("orders", 0, "c1", reads, "lake.shop.orders", "", at_ms=T0)
    event = rendered(tell(STARTED, started, done(0), OVER)[2])
    (read,) = event["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://b1:9092", "shop.orders")
    assert "lakesql_offsets" not in read["inputFacets"]


def test_fast_batches_are_told_together() -> None:
    batches = [
        each
        for number in range(3)
        for each in (begun(number, number), done(number, number))
    ]
    later = [begun(3, HOUR + 1), done(3, HOUR + 2)]
    runs = tell(STARTED, *batches, *later, finished(), OVER, period_ms=HOUR)
    assert states(runs) == [
        "START",
        *["START orders", "COMPLETE orders"] * 2,
        "COMPLETE",
    ]
    run = runs[2]
    assert (
        run.batches,
        run.committed,
        run.records,
        run.output and run.output.rows,
    ) == ((0, 2), 3, 30, 27)
    assert [(each.partition, each.begin, each.end) for each in _partitions(run)] == [
        ("0", None, 30),
        ("1", None, 3),
    ]
    assert runs[3].id not in {run.id, batch_id("c1", 3)}


def _partitions(run: LineageRun) -> Any:
    return inputs_of(facts(), ORDERS, run.reads)[0].partitions


def test_an_hour_ends_without_another_batch() -> None:
    idle = Progress("orders", 0.0, 0, "records", at_ms=T0 + HOUR)
    runs = tell(STARTED, begun(0), idle, done(0), idle, period_ms=HOUR)
    assert states(runs[:3]) == ["START", "START orders", "COMPLETE orders"]


def test_a_failing_batch_fails_its_run_and_the_next_try_has_another() -> None:
    retry = Retrying("orders", 1, 3, 1, (PROBLEM,), at_ms=T0)
    runs = tell(
        STARTED,
        begun(0),
        retry,
        begun(0, repeated=True),
        finished("orders", "error", (PROBLEM,)),
        OVER,
    )
    assert states(runs) == [
        "START",
        "START orders",
        "FAIL orders",
        "START orders",
        "FAIL orders",
        "FAIL",
    ]
    assert runs[1].id == runs[2].id != runs[3].id == runs[4].id
    error = rendered(runs[2])["run"]["facets"]["errorMessage"]
    assert error["message"] == "expectation-failed: Too many."
    assert (
        rendered(runs[-1])["run"]["facets"]["errorMessage"]["message"]
        == "failed: orders"
    )


def test_a_model_that_fails_before_its_first_batch_is_told() -> None:
    runs = tell(STARTED, finished("orders", "error", (PROBLEM,)), OVER)
    assert states(runs) == ["START", "START orders", "FAIL orders", "FAIL"]


def test_a_batch_that_the_table_has_completes_the_run_of_the_runner_that_was_killed() -> (
    None
):
    (killed,) = tell(STARTED, begun(4))[1:2]
    reads, table = begun(4).reads, "lake.shop.orders"
    skipped = BatchSkipped(
        "orders", 4, "c1", reads, table, "s3://wh/shop/orders", 704, at_ms=T0
    )
    runs = tell(STARTED, skipped, begun(5), done(5), finished(), OVER)
    assert states(runs) == [
        "START",
        "COMPLETE orders",
        "START orders",
        "COMPLETE orders",
        "COMPLETE",
    ]
    assert runs[1].id == killed.id
    assert runs[1].output is not None and (
        runs[1].output.snapshot,
        runs[1].output.rows,
    ) == (704, None)
    rendered(runs[1])


def test_a_batch_without_rows_writes_none() -> None:
    run = tell(STARTED, begun(0), BatchEmpty("orders", 0, 5, 0, at_ms=T0), OVER)[2]
    event = rendered(run)
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 0
    assert "version" not in event["outputs"][0]["facets"]


def test_a_run_that_finds_nothing_new_tells_nothing() -> None:
    assert tell(STARTED, finished(), finished("totals"), OVER) == []


def test_a_run_that_breaks_off_says_so() -> None:
    sink = Told()
    with (
        pytest.raises(KeyError),
        Emitter([LineageRuns(sink, {}, lambda: str(UUID(int=1)))]) as emit,
    ):
        for event in (STARTED, begun(0)):
            emit(event)
        raise KeyError
    assert states(sink.runs) == ["START", "START orders", "ABORT orders", "FAIL"]
    assert sink.drained == 1


def test_seeds_are_jobs_too() -> None:
    filled = SeedFinished(
        "regions",
        "success",
        "filled",
        "lake.shop.regions",
        3,
        "",
        5,
        location="s3://wh/regions",
        at_ms=T0,
    )
    failed = SeedFinished(
        "regions", "error", None, "lake.shop.regions", None, "", 5, (PROBLEM,), at_ms=T0
    )
    same = SeedFinished(
        "regions", "success", "unchanged", "lake.shop.regions", 3, "", 5, at_ms=T0
    )
    runs = tell(STARTED, filled, failed, same, OVER)
    jobs = [f"{state} regions" for state in ("START", "COMPLETE", "START", "FAIL")]
    assert states(runs) == ["START", *jobs, "COMPLETE"]
    event = rendered(runs[2])
    assert (event["inputs"][0]["name"], event["outputs"][0]["name"]) == (
        "/p/seeds/regions.csv",
        "regions",
    )
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert [rendered(run)["eventType"] for run in runs] == [run.state for run in runs]


def test_what_is_lost_is_said_before_the_run_is_over() -> None:
    sink, shown = Told(), []
    sink.lost = [(0, ""), (2, "it does not answer"), (1, "it answers 500")]
    renderer = LineageRuns(sink, {}, lambda: str(UUID(int=1)))
    with Emitter(
        [renderer, lambda event, run: shown.append((event, run.lineage_lost))]
    ) as emit:
        for event in (STARTED, begun(0), OVER):
            emit(event)
    losses = [event for event, _ in shown if isinstance(event, LineageLost)]
    assert [each.events for each in losses] == [2, 1]
    last, tally = shown[-1]
    assert isinstance(last, RunFinished) and tally is not None
    assert (tally.events, tally.why, sink.drained) == (3, "it answers 500", 2)


def test_no_secret_stands_in_an_event() -> None:
    secrets = find_secrets(
        {"LAKESQL_SECRET_X": "Orders", "LAKESQL_SECRET_Y": "shop.orders"}
    )
    event = openlineage_event(facts(), tell(STARTED, begun(0), done(0), OVER)[2])
    text = Serde.to_json(redacted(event, secrets))
    assert not secrets.are_in(text) and "***" in text
    assert problems_of(json.loads(text)) == []
    assert "pw" not in Serde.to_json(event)


@each_of(
    ("every", "trigger", "period_ms"),
    [
        (None, Every("1 minute", 60_000), 0),
        (None, Every("30 seconds", 30_000), HOUR),
        (None, OnChange(), HOUR),
        (None, AvailableNow(), HOUR),
        (None, None, HOUR),
        (BATCH, None, 0),
        (Duration("1 day", 24 * HOUR), Every("1 minute", 60_000), 24 * HOUR),
    ],
)
def test_how_long_batches_are_told_together(
    every: Duration | None, trigger: Trigger | None, period_ms: int
) -> None:
    target: LineageTarget = LineageFile(path="x", every=every)
    assert period_of(target, trigger) == period_ms
