"""Lineage on its way: to a file and to servers that take it, that answer wrongly, late,
or not at all."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import ProfileError
from lakesql.observe.told_run import LineageRun
from lakesql.project.lineage_target import (
    LineageFile,
    LineageHttp,
    LineageKafka,
    LineageTarget,
)
from lakesql.run.tell.send_lineage import LineageSender, RefusedError, open_sender
from lakesql.secrets import NO_SECRETS
from lakesql.source.kafka import Kafka
from tests.lineage.receiver import Receiver
from tests.lineage.validate import problems_of
from tests.unit.test_lineage_runs import OVER, STARTED, begun, done, facts, tell


def runs(batches: int = 2) -> list[LineageRun]:
    """Two events for each batch, and two of the whole."""
    return tell(
        STARTED,
        *(each for number in range(batches) for each in (begun(number), done(number))),
        OVER,
    )


@contextmanager
def opened(target: LineageTarget) -> Iterator[LineageSender]:
    with open_sender(target, facts, {"b": Kafka("b1:9092")}, NO_SECRETS) as sender:
        yield sender


def send(target: LineageTarget, told: list[LineageRun]) -> tuple[int, str]:
    """What was lost when all was offered and drained, and why."""
    with opened(target) as sender:
        for each in told:
            sender.offer(each)
        sender.drain()
        return sender.take_lost()


def test_a_file_gets_a_line_for_each_event_behind_those_that_it_has(
    tmp_path: Path,
) -> None:
    target = LineageFile(path=str(tmp_path / "deep" / "lineage.jsonl"))
    assert send(target, runs()) == (0, "")
    assert send(target, runs()) == (0, "")
    events = [json.loads(line) for line in Path(target.path).read_text().splitlines()]
    assert [event["eventType"] for event in events] == [
        "START",
        *["START", "COMPLETE"] * 2,
        "COMPLETE",
    ] * 2
    assert [problem for event in events for problem in problems_of(event)] == []


def test_a_server_gets_valid_events_in_their_order_with_the_token() -> None:
    with Receiver() as receiver:
        target = LineageHttp(
            url=f"{receiver.url}/below", endpoint="/api/lineage", token="t0ken"
        )
        assert send(target, runs()) == (0, "")
    assert [event["eventType"] for event in receiver.events] == [
        "START",
        *["START", "COMPLETE"] * 2,
        "COMPLETE",
    ]
    assert receiver.problems == []
    assert {*receiver.paths} == {"/below/api/lineage"}
    assert {*receiver.logins} == {"Bearer t0ken"}


def test_nobody_there_loses_all_and_takes_no_time() -> None:
    with socket.socket() as held:  # a port at which nobody listens
        held.bind(("127.0.0.1", 0))
        target = LineageHttp(url=f"http://127.0.0.1:{held.getsockname()[1]}")
        offered_s, drained_s, lost = _timed(target, runs(100))
    assert lost == (202, "it does not answer (ConnectionError)")
    assert offered_s < 1 and drained_s < 5


@pytest.mark.parametrize(
    ("status", "said"),
    [(500, "it answers 500"), (503, "it answers 503"), (401, "it answers 401")],
)
def test_a_server_that_fails_loses_all_and_stops_nothing(
    status: int, said: str
) -> None:
    with Receiver(status) as receiver:
        offered_s, drained_s, (events, why) = _timed(
            LineageHttp(url=receiver.url), runs(100)
        )
    assert (events, why.startswith(said)) == (202, True)
    assert offered_s < 1 and drained_s < 5


def test_a_server_that_hangs_is_not_waited_for() -> None:
    with Receiver(delay_s=30) as receiver:
        offered_s, drained_s, (events, _) = _timed(
            LineageHttp(url=receiver.url), runs(3), drain_s=0.3
        )
    assert events == 8
    assert offered_s < 1 and drained_s < 3


def test_what_a_server_refuses_is_lost_and_the_rest_is_delivered() -> None:
    told = runs()
    refused: list[str] = []

    def to_event(run: LineageRun) -> Any:
        if run.state == "COMPLETE" and run.job:
            refused.append(run.id)
            raise ValueError("it is none")
        from lakesql.observe.openlineage_events import openlineage_event

        return openlineage_event(facts(), run)

    with Receiver() as receiver, opened(LineageHttp(url=receiver.url)) as sender:
        sender.to_event = to_event
        for each in told:
            sender.offer(each)
        sender.drain()
        lost, why = sender.take_lost()
    assert (lost, len(refused)) == (2, 2)
    assert "it is none" in why
    assert [event["eventType"] for event in receiver.events] == [
        "START",
        "START",
        "START",
        "COMPLETE",
    ]


@pytest.mark.checks
def test_events_wait_for_a_server_that_comes_back() -> None:
    with Receiver(500) as receiver, opened(LineageHttp(url=receiver.url)) as sender:
        for each in runs():
            sender.offer(each)
        _wait_until(lambda: len(receiver.paths) >= 2)
        receiver.status = 0
        _wait_until(lambda: len(receiver.events) == 6)
        sender.drain()
        assert sender.take_lost() == (0, "it answers 500 Internal Server Error")
    assert receiver.problems == []


def test_what_waits_is_bounded() -> None:
    holds = threading.Event()
    delivered: list[Any] = []

    class Slow:
        def emit(self, event: Any) -> None:
            holds.wait()
            delivered.append(event)

    sender = LineageSender("slow", Slow, lambda run: run, most=10)
    told = runs(20)
    for each in told:
        sender.offer(each)
    assert sender.take_lost() == (len(told) - 10, "more than 10 events wait")
    holds.set()
    sender.drain()
    assert delivered == told[:10]
    assert sender.take_lost()[0] == 0


def test_a_client_that_takes_a_while_to_load_is_waited_for() -> None:
    delivered: list[Any] = []

    class Ready:
        def emit(self, event: Any) -> None:
            delivered.append(event)

    def load() -> Ready:
        time.sleep(0.5)
        return Ready()

    sender = LineageSender("late", load, lambda run: run, drain_s=0.1)
    told = runs(1)
    for each in told:
        sender.offer(each)
    sender.drain()
    assert (delivered, sender.take_lost()[0]) == (told, 0)


def test_what_comes_after_the_end_is_lost() -> None:
    sender = LineageSender(
        "away", lambda: pytest.fail("nothing is to be sent"), lambda run: run
    )
    sender.drain()
    sender.offer(runs()[0])
    assert sender.take_lost()[0] == 1


def test_a_refusal_is_lost_at_once() -> None:
    class Refusing:
        def emit(self, event: Any) -> None:
            raise RefusedError("no")

    sender = LineageSender("no", Refusing, lambda run: run)
    for each in runs():
        sender.offer(each)
    sender.drain()
    assert sender.take_lost() == (6, "no")


def test_a_missing_extra_has_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, target in (
        ("openlineage", LineageFile(path="x")),
        ("confluent_kafka", LineageKafka(connection="b", topic="t")),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            patch.setattr(
                "lakesql.run.tell.send_lineage.find_spec",
                lambda name, missing=module: name != missing or None,
            )
            with pytest.raises(ProfileError) as raised, opened(target):
                pass
        assert [problem.condition for problem in raised.value.problems] == [
            "extra-missing"
        ]


def test_an_option_that_librdkafka_does_not_have_is_refused() -> None:
    connections = {"b": Kafka("b1:9092", {"interceptor.classes": "x"})}
    target = LineageKafka(connection="b", topic="t")
    with (
        pytest.raises(ProfileError) as raised,
        open_sender(target, facts, connections, NO_SECRETS),
    ):
        pass
    assert [problem.condition for problem in raised.value.problems] == ["kafka-option"]


@pytest.mark.checks
def test_a_cluster_that_is_away_loses_all() -> None:
    with open_sender(
        LineageKafka(connection="b", topic="t"),
        facts,
        {"b": Kafka("127.0.0.1:1")},
        NO_SECRETS,
    ) as sender:
        sender.drain_s = 8
        for each in runs():
            sender.offer(each)
        sender.drain()
        assert sender.take_lost()[0] == 6


def _timed(
    target: LineageTarget, told: list[LineageRun], drain_s: float = 5
) -> tuple[float, float, tuple[int, str]]:
    """How long it took to offer the events and to drain them, and what was lost."""
    with opened(target) as sender:
        sender.drain_s = drain_s
        begin = time.monotonic()
        for each in told:
            sender.offer(each)
        offered = time.monotonic()
        sender.drain()
        return offered - begin, time.monotonic() - offered, sender.take_lost()


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
