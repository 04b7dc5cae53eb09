"""336,776 real flights through a real broker, while the runner and the broker are killed and partitions are added.

Whatever happens, each flight stands in the table once, the keyed table is what plain Python makes of the same records,
and each of the 200 records that cannot be read is a dead letter once.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from tests.flights import source
from tests.servers.broker import Broker, Message
from tests.servers.runner import Event, Runner, of

MODELS = ("flights", "flights_daily")
TOPIC = "flights"
STALLS_AFTER_S = 120
ENDS_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Flown:
    """What was sent, what the runs told, and the tables."""

    bad: dict[tuple[int, int], tuple[str, bytes]]
    runs: list[list[Event]]
    recovered_s: list[float]
    catalog: SqlCatalog
    ended: list[int]
    errors: str

    def table(self, name: str) -> Any:
        return self.catalog.load_table(("flights", name))


class Feed:
    """Sends the flights in portions, each record to the partition of its key, and knows where the bad ones are."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bad: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._records = source.records()
        self.ends: dict[int, int] = {}

    def send(self, count: int, partitions: int) -> None:
        """The next `count` records; fewer at the end."""
        self.broker.produce(TOPIC, self._take(count, partitions))

    def _take(self, count: int, partitions: int) -> Iterator[Message]:
        for _, record in zip(range(count), self._records, strict=False):
            partition = source.partition_of(record.key, partitions)
            offset = self.ends.get(partition, 0)
            self.ends[partition] = offset + 1
            value = record.value.encode()
            if record.kind:
                self.bad[partition, offset] = (source.REASONS[record.kind], value)
            yield Message(value, record.key.encode(), partition=partition)


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flown]:
    """All of it, with everything that happens on the way."""
    directory = tmp_path_factory.mktemp("flights")
    broker, runner = Broker(tmp_path_factory.mktemp("flights-broker")), Runner(directory, *MODELS)
    write_project(directory, broker)
    try:
        yield fly(broker, runner, Feed(broker))
    finally:
        runner.stop()
        broker.stop()


def fly(broker: Broker, runner: Runner, feed: Feed) -> Flown:
    recovered_s, ended = [], []
    broker.start()
    broker.create_topic(TOPIC, 3)

    feed.send(90_000, 3)
    runner.start()
    runner.wait(lambda events: committed(events, 2), STALLS_AFTER_S)
    runner.kill_python()

    runner.start()
    recovered_s.append(runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S))
    feed.send(90_000, 3)
    runner.wait(lambda events: committed(events, 3), STALLS_AFTER_S)
    runner.kill_java()
    ended.append(runner.ended(ENDS_WITHIN_S))

    runner.start()
    recovered_s.append(runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S))
    broker.add_partitions(TOPIC, 5)
    feed.send(90_000, 5)
    runner.wait(lambda events: committed(events, 3), STALLS_AFTER_S)
    runner.kill_both()

    runner.start()
    recovered_s.append(runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S))
    broker.kill()
    time.sleep(1)
    broker.start()
    feed.send(source.COUNT, 5)
    runner.wait(lambda events: caught_up(events, feed.ends), STALLS_AFTER_S)
    ended.append(runner.terminate(ENDS_WITHIN_S))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{runner.directory}/.lakesql/catalog.db")
    return Flown(feed.bad, runner.runs, recovered_s, catalog, ended, runner.errors.read_text())


def committed(events: list[Event], batches: int) -> bool:
    """Whether every model has committed so many batches since the start."""
    return all(len(of(events, "batch_committed", model)) >= batches for model in MODELS)


def caught_up(events: list[Event], partitions: dict[int, int]) -> bool:
    """Whether the newest word of every model is that nothing is left in any of the partitions."""
    told = [of(events, "progress", model)[-1:] for model in MODELS]
    return all(
        last and last[0]["left"] == 0 and {each["partition"] for each in last[0]["lag"]} == partitions.keys()
        for last in told
    )


def write_project(directory: Path, broker: Broker) -> None:
    """The project of the flights without the CSV files, on a broker, and with a trigger that goes on."""
    shutil.copytree(source.PROJECT, directory, dirs_exist_ok=True)
    (directory / "models" / "flights_from_csv.sql").unlink()
    profiles = yaml.safe_load((directory / "profiles.yml").read_text())
    connections = profiles["flights"]["outputs"]["dev"]["connections"]
    connections["recorded"] = {"type": "kafka", "bootstrap_servers": broker.servers}
    (directory / "profiles.yml").write_text(json.dumps(profiles))
    settings = directory / "pyproject.toml"
    settings.write_text(settings.read_text() + '\n[tool.lakesql.models]\ntrigger = "1 second"\n')


@pytest.mark.parametrize("model", MODELS)
def test_every_flight_stands_once(flown: Flown, model: str) -> None:
    assert source.sum_arrow(flown.table(model).scan().to_arrow()) == source.expected(model)


@pytest.mark.parametrize("model", MODELS)
def test_every_unreadable_record_is_a_dead_letter_once(flown: Flown, model: str) -> None:
    letters = flown.table(f"{model}__dead_letter").scan().to_arrow().to_pylist()
    found = {(row["partition"], row["offset"]): (row["reason"], row["value"]) for row in letters}
    assert len(letters) == len(flown.bad) == source.BAD_COUNT
    assert found == flown.bad


def test_a_run_whose_java_is_killed_ends_and_one_that_is_asked_to_ends_well(flown: Flown) -> None:
    assert flown.ended == [1, 0]
    assert [json.loads(line)["condition"] for line in flown.errors.splitlines()] == ["java-ended"]


def test_each_batch_was_committed_once(flown: Flown) -> None:
    for model in MODELS:
        told = [event["batch"] for events in flown.runs for event in of(events, "batch_committed", model)]
        assert told == sorted(set(told))
        assert len(told) > 20


def test_a_killed_run_is_back_soon(flown: Flown) -> None:
    print("from the start to the first commit:", [f"{each:.1f} s" for each in flown.recovered_s])
    assert len(flown.recovered_s) == 3
