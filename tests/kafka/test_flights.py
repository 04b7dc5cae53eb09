"""Real flights through a real broker, while the runner and the broker are killed and
partitions are added.

Whatever happens, each flight stands in the table once, the keyed table is what plain
Python makes of the same records, and each of the 200 records that cannot be read is a
dead letter once. There are 30,000 of them, with `--all-flights` 336,776, in as many
batches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.flights import source
from tests.flights.feed import (
    ENDS_WITHIN_S,
    MODELS,
    STALLS_AFTER_S,
    TOPIC,
    Feed,
    caught_up,
    committed,
    dead_letters,
    write_project,
)
from tests.servers.broker import Broker
from tests.servers.runner import Event, Runner, of

pytestmark = pytest.mark.whole


@dataclass(frozen=True, slots=True)
class Flown:
    """What was sent, what the runs told, and the tables."""

    flights: tuple[source.Flight, ...]
    bad: dict[tuple[int, int], tuple[str, bytes]]
    runs: list[list[Event]]
    catalog: SqlCatalog
    ended: list[int]
    errors: str

    def table(self, name: str) -> Any:
        return self.catalog.load_table(("flights", name))


@pytest.fixture(scope="module")
def flown(
    flights: tuple[source.Flight, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flown]:
    """All of it, with everything that happens on the way."""
    directory = tmp_path_factory.mktemp("flights")
    broker, runner = (
        Broker(tmp_path_factory.mktemp("flights-broker")),
        Runner(directory, *MODELS),
    )
    write_project(directory, broker, per_batch=len(flights) * 15_000 // source.COUNT)
    try:
        yield fly(broker, runner, flights)
    finally:
        runner.stop()
        broker.stop()


def fly(broker: Broker, runner: Runner, flights: tuple[source.Flight, ...]) -> Flown:
    feed, ended = Feed(broker, flights), []
    broker.start()
    broker.create_topic(TOPIC, 3)

    feed.send(0.27, 3)
    runner.start()
    runner.wait(lambda events: committed(events, 2), STALLS_AFTER_S)
    runner.kill_python()

    runner.start()
    runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S)
    feed.send(0.27, 3)
    runner.wait(lambda events: committed(events, 3), STALLS_AFTER_S)
    runner.kill_java()
    ended.append(runner.ended(ENDS_WITHIN_S))

    runner.start()
    runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S)
    broker.add_partitions(TOPIC, 5)
    feed.send(0.27, 5)
    runner.wait(lambda events: committed(events, 3), STALLS_AFTER_S)
    runner.kill_both()

    runner.start()
    runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S)
    broker.kill()
    time.sleep(1)
    broker.start()
    feed.send(1, 5)
    runner.wait(lambda events: caught_up(events, feed.ends), STALLS_AFTER_S)
    ended.append(runner.terminate(ENDS_WITHIN_S))
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{runner.directory}/.lakesql/catalog.db"
    )
    return Flown(
        flights, feed.bad, runner.runs, catalog, ended, runner.errors.read_text()
    )


@pytest.mark.parametrize("model", MODELS)
def test_no_flight_is_missing_or_duplicate(flown: Flown, model: str) -> None:
    assert source.sum_arrow(flown.table(model).scan().to_arrow()) == source.expected(
        model, flown.flights
    )


@pytest.mark.parametrize("model", MODELS)
def test_each_unreadable_record_is_one_dead_letter(flown: Flown, model: str) -> None:
    found = dead_letters(flown.table(f"{model}__dead_letter"))
    assert len(found) == len(flown.bad) == source.BAD_COUNT
    assert found == flown.bad


def test_a_run_whose_java_is_killed_ends_and_one_that_is_asked_to_ends_well(
    flown: Flown,
) -> None:
    assert flown.ended == [1, 0]
    assert [json.loads(line)["condition"] for line in flown.errors.splitlines()] == [
        "java-ended"
    ]


def test_no_batch_is_committed_twice(flown: Flown) -> None:
    for model in MODELS:
        told = [
            event["batch"]
            for events in flown.runs
            for event in of(events, "batch_committed", model)
        ]
        assert told == sorted(set(told))
        assert len(told) > 20
