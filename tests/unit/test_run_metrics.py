"""A run as metrics: what its events make of them, and what is answered by HTTP."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakesql.errors import Problem, ProfileError
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    Event,
    HealthJudged,
    ModelFinished,
    Progress,
    QueryPaused,
    QueryStarted,
    RecordsRejected,
    Retrying,
    RunStarted,
    TableMaintained,
)
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.model.table_name import TableName
from lakesql.observe.emitter import Emitter
from lakesql.observe.metrics import RUN_METRICS, RunMetrics, labels_of
from lakesql.run.tell.serve_metrics import serve_metrics
from tests.cases import each_of

START = 1_800_000_000_000
MINUTE = 60_000
LATER = START + 2 * MINUTE
STARTED = RunStarted("dev", ("orders", "clicks"), True, at_ms=START)
BEGUN = QueryStarted("orders", at_ms=START)
EVERY_MINUTE = Every("1 minute", MINUTE)
PROBLEM = Problem("catalog-unreachable", "It does not answer.")


def metrics_of(*events: Event, trigger: Trigger = EVERY_MINUTE) -> RunMetrics:
    labels = {
        name: labels_of(TableName("lake", "shop", f"t_{name}"), name)
        for name in STARTED.models
    }
    metrics = RunMetrics(labels, dict.fromkeys(STARTED.models, trigger))
    emit = Emitter([metrics])
    for event in events:
        emit(event)
    assert emit.failures == []
    return metrics


def samples(text: str, model: str = "orders") -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels
        == {
            "catalog": "lake",
            "namespace": "shop",
            "table": f"t_{model}",
            "model": model,
        }
    }


def batch(
    number: int, minute: float = 1, *, event: str = "", model: str = "orders"
) -> BatchCommitted:
    at_ms = START + round(minute * MINUTE)
    return BatchCommitted(
        model, number, 100, 90, 0, 7, 2500, event, late=3, at_ms=at_ms
    )


def progress(left: int | None, minute: float = 2, *, is_busy: bool = False) -> Progress:
    return Progress(
        "orders",
        50.0,
        left,
        "records",
        is_busy=is_busy,
        at_ms=START + round(minute * MINUTE),
    )


def retrying(attempt: int, minute: float) -> Retrying:
    return Retrying(
        "orders", attempt, 10, 1, (PROBLEM,), at_ms=START + round(minute * MINUTE)
    )


def test_counters_add_up_and_gauges_are_the_last() -> None:
    text = metrics_of(
        STARTED,
        QueryStarted("orders", at_ms=START),
        batch(0, event="2026-03-01T10:00:00+00:00"),
        RecordsRejected(
            "orders", 1, "lake.shop.t__dead_letter", 5, (("late", 5),), at_ms=START
        ),
        Retrying("orders", 1, 10, 1000, (PROBLEM,), at_ms=START),
        batch(1, 2, event="2026-03-01T09:00:00+00:00"),
        BatchEmpty(
            "orders",
            2,
            10,
            0,
            violations=(("amount >= 0", 3), ("not_null id", 2)),
            at_ms=START,
        ),
        progress(400),
        progress(300),
        HealthJudged("orders", "watch", "well", (), at_ms=LATER),
    ).render(LATER)
    assert samples(text) == {
        "lakesql_batches_total": 2,
        "lakesql_records_total": 210,
        "lakesql_rows_total": 180,
        "lakesql_dead_letters_total": 5,
        "lakesql_late_events_total": 6,
        "lakesql_expectation_failures_total": 5,
        "lakesql_retries_total": 1,
        "lakesql_batch_duration_seconds_count": 2,
        "lakesql_batch_duration_seconds_sum": 5,
        "lakesql_backlog_records": 300,
        "lakesql_model_running": 1,
        "lakesql_model_failed": 0,
        "lakesql_model_health": 1,
        "lakesql_model_consecutive_retries": 0,
        # two minutes after the last batch, with a trigger of one
        "lakesql_model_no_progress_seconds": 60,
        "lakesql_table_last_commit_timestamp_seconds": (START + 2 * MINUTE) / 1000,
        # the newest, not the last
        "lakesql_table_last_event_timestamp_seconds": 1772359200,
    }
    assert samples(text, "clicks")["lakesql_batches_total"] == 0


def test_every_metric_that_is_listed_is_served_and_no_other() -> None:
    files = Progress("clicks", 1.0, 3, "files", at_ms=START)
    committed = batch(0, event="2026-03-01T10:00:00+00:00")
    behind = Progress("clicks", 1.0, 1_500, "ms", at_ms=START)
    assert (
        samples(metrics_of(STARTED, behind).render(LATER), "clicks")[
            "lakesql_backlog_seconds"
        ]
        == 1.5
    )
    texts = [
        metrics_of(STARTED, committed, progress(1), each).render(LATER)
        for each in (files, behind)
    ]
    families = {
        family.name: family.type
        for text in texts
        for family in text_string_to_metric_families(text)
    }
    assert families == {
        metric.name.removesuffix("_total"): metric.kind for metric in RUN_METRICS
    }


def test_nothing_is_served_of_a_run_that_has_not_begun() -> None:
    assert metrics_of().render(LATER) == ""
    assert metrics_of().faults(START, 0) == ()


@each_of(
    ("events", "minute", "is_well"),
    [
        ((), 60, True),
        ((BEGUN, progress(None), progress(None, 59)), 60, True),
        ((BEGUN, progress(0), progress(0, 59)), 60, True),
        # it has nothing to do, and nobody watches it any more
        ((BEGUN, progress(0, 49)), 60, False),
        ((BEGUN,), 60, False),
        # its source has never answered
        ((BEGUN, progress(None, 2, is_busy=True)), 60, False),
        ((BEGUN, progress(10)), 11, True),
        ((BEGUN, progress(10)), 13, False),
        # it had nothing to do for long
        ((BEGUN, progress(0), progress(10, 55)), 60, True),
        ((BEGUN, progress(10), progress(10, 55)), 60, False),
        # a batch hangs, of what came at last
        ((BEGUN, progress(0), progress(0, 40, is_busy=True)), 60, False),
        ((BEGUN, progress(0), progress(0, 55, is_busy=True)), 60, True),
        ((BEGUN, batch(0, 5), progress(0, 6), progress(0, 59)), 60, True),
        ((batch(0, 55), progress(10, 56)), 60, True),
        ((batch(0, 5), progress(10)), 60, False),
        (
            (
                batch(0, 5),
                progress(10),
                TableMaintained(
                    "orders", "o.rewrite", "t", (), 1, at_ms=START + 55 * MINUTE
                ),
            ),
            60,
            True,
        ),
        ((BEGUN, progress(0), retrying(1, 59)), 60, True),
        ((retrying(1, 0), BEGUN, retrying(2, 59)), 60, False),
        (
            (retrying(1, 0), BEGUN, progress(None, 1, is_busy=True), retrying(2, 59)),
            60,
            False,
        ),
        ((retrying(1, 0), BEGUN, progress(0, 1), retrying(2, 59)), 60, True),
        # while it waits for its retry, nothing is heard of it
        ((BEGUN, progress(0), retrying(1, 3)), 12, True),
        (
            (BEGUN, progress(0), QueryPaused("orders", at_ms=START + 40 * MINUTE)),
            45,
            True,
        ),
        # its rebuild hangs
        (
            (BEGUN, progress(0), QueryPaused("orders", at_ms=START + 40 * MINUTE)),
            60,
            False,
        ),
        (
            (ModelFinished("orders", "success", 1, 1, 1, 0, 0, 1, at_ms=START),),
            60,
            True,
        ),
        (
            (
                ModelFinished(
                    "orders", "error", 1, 1, 1, 0, 0, 1, (PROBLEM,), at_ms=START
                ),
            ),
            0,
            False,
        ),
    ],
)
def test_a_run_is_well_while_no_model_is_stuck_or_has_failed(
    events: Iterable[Event], minute: int, is_well: bool
) -> None:
    faults = metrics_of(STARTED, *events).faults(START + minute * MINUTE, 10 * MINUTE)
    assert (faults == ()) == is_well
    assert all(fault.startswith("orders ") for fault in faults)


@each_of("trigger_minutes", [0, 1, 60, 6 * 60])
def test_a_wait_for_the_trigger_is_no_stall(trigger_minutes: int) -> None:
    """A backlog of several batches: after each the model waits for its trigger, and
    more is left."""
    trigger = Every("", trigger_minutes * MINUTE) if trigger_minutes else AvailableNow()
    waits = (progress(400, 1 + minute) for minute in range(trigger_minutes + 11))
    metrics = metrics_of(STARTED, BEGUN, batch(0, 1), *waits, trigger=trigger)
    due = 1 + trigger_minutes
    found = {
        minute: _judged(metrics, minute)
        for minute in (1, (1 + due) // 2, due, due + 10)
    }
    assert found == {**dict.fromkeys(found, (0, True)), due + 10: (10 * 60, True)}
    assert _judged(metrics, due + 10.5) == (10.5 * 60, False)


def test_a_batch_that_hangs_is_noticed_however_long_the_trigger_is() -> None:
    """Its time begins with the batch, not with the one before."""
    busy = (progress(400, 61 + minute, is_busy=True) for minute in range(11))
    metrics = metrics_of(
        STARTED,
        BEGUN,
        batch(0, 1),
        progress(400),
        *busy,
        trigger=Every("1 hour", 60 * MINUTE),
    )
    assert _judged(metrics, 71) == (10 * 60, True)
    assert _judged(metrics, 71.5) == (10.5 * 60, False)


def test_a_retry_waits_for_no_trigger() -> None:
    metrics = metrics_of(
        STARTED,
        BEGUN,
        progress(0),
        retrying(1, 3),
        trigger=Every("1 hour", 60 * MINUTE),
    )
    assert _judged(metrics, 13) == (10 * 60, True)
    assert _judged(metrics, 14) == (11 * 60, False)


def test_a_run_that_hangs_shows_in_the_metrics_too() -> None:
    metrics = metrics_of(
        STARTED, BEGUN, progress(0), trigger=Every("1 hour", 60 * MINUTE)
    )
    assert _judged(metrics, 14) == (12 * 60, False)


def _judged(metrics: RunMetrics, minute: float) -> tuple[float, bool]:
    """For how many seconds `orders` makes no progress, and whether that is well where
    ten minutes are."""
    at_ms = START + round(minute * MINUTE)
    without = samples(metrics.render(at_ms))["lakesql_model_no_progress_seconds"]
    return without, metrics.faults(at_ms, 10 * MINUTE) == ()


def test_retries_in_a_row_stand_until_the_model_gets_on() -> None:
    events: list[Event] = [STARTED, BEGUN]
    busy = progress(None, 9, is_busy=True)
    stands: tuple[tuple[Event, float], ...] = (
        (retrying(1, 3), 1),
        (retrying(2, 8), 2),
        # it is being tried, and has done nothing yet
        (QueryStarted("orders", at_ms=START + 9 * MINUTE), 2),
        (busy, 2),
        (retrying(3, 13), 3),
        (progress(0, 14), 0),
        (retrying(1, 15), 1),
        (batch(0, 16), 0),
        (retrying(1, 17), 1),
        # that it has failed is said
        (
            ModelFinished("orders", "error", 1, 1, 1, 0, 0, 1, (PROBLEM,), at_ms=START),
            0,
        ),
    )
    for event, retries in stands:
        events.append(event)
        text = metrics_of(*events).render(LATER)
        assert samples(text)["lakesql_model_consecutive_retries"] == retries, event


def get(port: int, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}{path}", timeout=10
        ) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_and_health_are_answered_while_the_run_goes_on() -> None:
    now = time.time_ns() // 1_000_000
    metrics = metrics_of(
        RunStarted("dev", ("orders",), True, at_ms=now), replace(batch(0), at_ms=now)
    )
    with serve_metrics(metrics, "127.0.0.1", 0, MINUTE) as port:
        code, kind, text = get(port, "/metrics")
        assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert samples(text)["lakesql_batches_total"] == 1
        assert get(port, "/healthz")[::2] == (200, "ok\n")
        emit = Emitter([metrics])
        emit(ModelFinished("orders", "error", 1, 1, 1, 0, 0, 1, (PROBLEM,), at_ms=now))
        assert get(port, "/healthz")[::2] == (503, "orders has failed\n")
        assert get(port, "/")[0] == 404
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


@pytest.mark.parametrize("address", ["127.0.0.1", "no.such.host.invalid"])
def test_a_port_that_cannot_be_had_is_a_condition(address: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(ProfileError) as caught,
            serve_metrics(metrics_of(), address, port, MINUTE),
        ):
            pass
    (problem,) = caught.value.problems
    assert problem.condition == "metrics-port"
    assert f"{address}:{port}" in problem.what
