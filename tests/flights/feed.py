"""The flights through a broker: sent in portions, read by a runner of both models, and
how far that one is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.flights import source
from tests.servers.broker import Broker, Message
from tests.servers.runner import Event, of

MODELS = ("flights", "flights_daily")
TOPIC = "flights"
STALLS_AFTER_S = 120
ENDS_WITHIN_S = 30


class Feed:
    """Sends flights in portions, each record to the partition of its key, and knows
    where the bad ones are."""

    def __init__(self, broker: Broker, flights: Sequence[source.Flight]) -> None:
        self.broker = broker
        self.bad: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._count = len(flights)
        self._records = source.records(flights)
        self.ends: dict[int, int] = {}

    def send(self, share: float, partitions: int) -> None:
        """The next records, this share of all; fewer at the end, so that 1 sends all
        that are left."""
        self.broker.produce(
            TOPIC,
            self._take(round(share * (self._count + source.BAD_COUNT)), partitions),
        )

    def _take(self, count: int, partitions: int) -> Iterator[Message]:
        for _, record in zip(range(count), self._records, strict=False):
            partition = source.partition_of(record.key, partitions)
            offset = self.ends.get(partition, 0)
            self.ends[partition] = offset + 1
            value = record.value.encode()
            if record.kind:
                self.bad[partition, offset] = (source.REASONS[record.kind], value)
            yield Message(value, record.key.encode(), partition=partition)


def write_project(
    directory: Path, broker: Broker, per_batch: int, **target: Any
) -> None:
    """The project of the flights without the CSV files, on a broker, and with a trigger
    that goes on.

    `target` stands in the place of what the profile says of it, `per_batch` in that of
    the stream's `max_per_batch`.
    """
    shutil.copytree(source.PROJECT, directory, dirs_exist_ok=True)
    (directory / "models" / "flights_from_csv.sql").unlink()
    edit(
        directory,
        {
            "streams/flights.yml": (
                "max_per_batch: 15000",
                f"max_per_batch: {per_batch}",
            )
        },
    )
    profiles = yaml.safe_load((directory / "profiles.yml").read_text())
    dev = profiles["flights"]["outputs"]["dev"]
    dev["connections"]["recorded"] = {
        "type": "kafka",
        "bootstrap_servers": broker.servers,
    }
    dev.update(target)
    (directory / "profiles.yml").write_text(json.dumps(profiles))
    settings = directory / "pyproject.toml"
    settings.write_text(
        settings.read_text() + '\n[tool.lakesql.models]\ntrigger = "1 second"\n'
    )


def dead_letters(table: Any) -> dict[tuple[int, int], tuple[str, bytes]]:
    """Reason and value of each dead letter, by partition and offset; as in `Feed.bad`.
    None stands there twice."""
    letters = table.scan().to_arrow().to_pylist()
    found = {
        (row["partition"], row["offset"]): (row["reason"], row["value"])
        for row in letters
    }
    assert len(found) == len(letters), "a record is a dead letter twice"
    return found


def edit(directory: Path, changes: Mapping[str, tuple[str, str]]) -> None:
    """Put one text in the place of another in files of the project."""
    for name, (old, new) in changes.items():
        text = (directory / name).read_text()
        assert old in text, f"{name} has no {old}"
        (directory / name).write_text(text.replace(old, new))


def committed(events: list[Event], batches: int) -> bool:
    """Whether every model has committed so many batches since the start."""
    return all(len(of(events, "batch_committed", model)) >= batches for model in MODELS)


def caught_up(events: list[Event], partitions: dict[int, int]) -> bool:
    """Whether the newest word of every model is that nothing is left in any of the
    partitions."""
    told = [of(events, "progress", model)[-1:] for model in MODELS]
    return all(
        last
        and last[0]["left"] == 0
        and {each["partition"] for each in last[0]["lag"]} == partitions.keys()
        for last in told
    )
