"""A broker that ends while a run reads it: the run can be ended, and goes on when the
broker is back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from lakesql.events import BatchCommitted, Event, Retrying
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.spark.project import Project

TOPIC = "orders"
ENDS_WITHIN_S = 30


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of the test's own, with a topic."""
    with running(Broker(tmp_path_factory.mktemp("mortal"))) as broker:
        broker.create_topic(TOPIC, 2)
        yield broker


def build(project: Project, broker: Broker, **options: str) -> None:
    project.connections = {
        "broker": {
            "type": "kafka",
            "bootstrap_servers": broker.servers,
            "options": options,
        }
    }
    project.stream("s", {"id": "int"}, connection="broker", topic=TOPIC)
    project.model("landed", "SELECT id FROM {s}", mode="append", trigger="1 second")


def send(broker: Broker, *numbers: int) -> None:
    broker.produce(TOPIC, [json.dumps({"id": number}).encode() for number in numbers])


def ids(project: Project) -> list[int]:
    return [row["id"] for row in project.rows("landed", "id")]


def test_a_run_resumes_when_its_broker_is_back(
    new_project: Callable[[], Project], mortal: Broker
) -> None:
    project = new_project()
    build(
        project,
        mortal,
        **{"default.api.timeout.ms": "3000", "request.timeout.ms": "2000"},
    )
    send(mortal, 1, 2, 3)
    seen: list[Event] = []

    def meet(event: Event) -> None:
        if isinstance(event, BatchCommitted) and not any(
            isinstance(earlier, BatchCommitted) for earlier in seen
        ):
            mortal.kill()
        if isinstance(event, Retrying) and not any(
            isinstance(earlier, Retrying) for earlier in seen
        ):
            mortal.start()
            send(mortal, 4, 5)
        seen.append(event)

    def is_done() -> bool:
        return (
            sum(event.rows for event in seen if isinstance(event, BatchCommitted)) == 5
        )

    ran = project.run(continuous=True, meet=meet, until=is_done).check()
    assert ids(project) == [1, 2, 3, 4, 5]
    tries = ran.of(Retrying, "landed")
    assert {problem.condition for event in tries for problem in event.problems} == {
        "connection-unreachable"
    }


def test_a_run_whose_broker_is_away_ends_when_it_is_asked_to(
    new_project: Callable[[], Project], mortal: Broker
) -> None:
    project = new_project()
    build(project, mortal)
    send(mortal, 1, 2, 3)
    asked_at = 0.0

    def meet(event: Event) -> None:
        nonlocal asked_at
        if isinstance(event, BatchCommitted):
            mortal.kill()
            # it asks the broker what is new, and gets no answer
            asked_at = time.monotonic() + 5

    project.run(
        continuous=True, meet=meet, until=lambda: 0 < asked_at < time.monotonic()
    ).check()
    assert time.monotonic() - asked_at < ENDS_WITHIN_S
    mortal.start()
    send(mortal, 4)
    project.run().check()
    assert ids(project) == [1, 2, 3, 4]
