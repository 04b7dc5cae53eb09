"""What all clients of a Kafka cluster share: its address, client options, topics, and
arithmetic on offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.address import first_reachable
from lakesql.errors import LakesqlError, Place, Problem, TransientError, did_you_mean

if TYPE_CHECKING:
    from lakesql.source.kafka import Kafka

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition, as in Spark's checkpoints."""

REQUEST_TIMEOUT_MS = 4_000
ANSWER_TIMEOUT_MS = 8_000
"""How long a request, and a question of several requests, may take. Brokers answer in
milliseconds."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic at present. A topic that was deleted and created again has another id."""

    name: str
    id: str
    partitions: tuple[int, ...]


PATIENCE = {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}
"""How long a client waits for a broker, unless the profile sets it. A query that is
stopped waits as long, and a run has to end within 30 s; Kafka's default is a minute."""

LOGIN_PATIENCE = {
    "sasl.login.connect.timeout.ms": "10000",
    "sasl.login.read.timeout.ms": "10000",
}
"""How long a client waits for the server that issues its token; Kafka's default is for
ever."""


def client_options(connection: Kafka) -> dict[str, str]:
    """The options of every client of the connection. Records of uncommitted
    transactions are not read."""
    patience = {} if PATIENCE.keys() & connection.options.keys() else PATIENCE
    return {
        "isolation.level": "read_committed",
        **patience,
        **LOGIN_PATIENCE,
        **connection.options,
        "bootstrap.servers": connection.bootstrap_servers,
    }


FETCHES = {"max.poll.records": "5000", "fetch.max.wait.ms": "10"}
"""How a task fetches its records from a broker, unless the profile sets it.

Spark asks for both ends of the partition after each poll, and drops what the consumer
has fetched in advance. So one poll takes a whole fetch. And the broker, which answers
in order, must not hold a fetch at the end of the partition for half a second, Kafka's
default, before it answers where the end is.
"""


def consumer_options(connection: Kafka) -> dict[str, str]:
    """The options of a consumer of the connection."""
    return {**FETCHES, **client_options(connection)}


def reach_broker(servers: str) -> str:
    """The first address of `servers` that accepts a connection; a client needs only one
    to find the others. Raises `TransientError` (`connection-unreachable`)."""
    try:
        return first_reachable(servers)
    except ConnectionError as error:
        raise unreachable(servers, str(error)) from None


def numbered(
    position: Mapping[str, Mapping[str, int]] | None,
) -> dict[str, dict[int, int]]:
    """The offsets of a JSON position, in checkpoints, ledgers and Spark's reports, with
    the partitions as numbers."""
    return {
        topic: {int(number): at for number, at in offsets.items()}
        for topic, offsets in (position or {}).items()
    }


def lag_of(end: Offsets, latest: Offsets) -> dict[str, dict[int, int]]:
    """How many offsets a reader at `end` is behind each partition of `latest`."""
    return {
        topic: {
            partition: max(0, last - end.get(topic, {}).get(partition, 0))
            for partition, last in partitions.items()
        }
        for topic, partitions in latest.items()
    }


def total_of(lag: Offsets) -> int:
    """The sum of all numbers of offsets."""
    return sum(sum(partitions.values()) for partitions in lag.values())


def find_share(lag: Offsets, limit: int | None) -> dict[str, dict[int, int]]:
    """How many of its offsets each partition contributes to a batch of at most `limit`;
    all of them without a limit.

    Each contributes the same share of its lag, and at least one offset, so that no
    partition waits for another.
    """
    total = total_of(lag)
    if limit is None or total <= limit:
        return {topic: dict(partitions) for topic, partitions in lag.items()}
    return {
        topic: {
            partition: min(behind, max(1, behind * limit // total))
            for partition, behind in partitions.items()
        }
        for topic, partitions in lag.items()
    }


def find_held(ends: Offsets, readable: Offsets) -> dict[str, dict[int, int]]:
    """The partitions that a reader may not yet read up to `ends`, each with the offset
    where it must stop.

    `readable` has to be asked after `ends`, so that records written in between are not
    mistaken for unreadable ones.
    """
    found = {
        topic: {
            partition: at
            for partition, at in partitions.items()
            if at < ends[topic][partition]
        }
        for topic, partitions in readable.items()
    }
    return {topic: partitions for topic, partitions in found.items() if partitions}


def newest_shares(
    first: Offsets, end: Offsets, count: int
) -> dict[str, dict[int, int]]:
    """The offset in each partition at which to begin to read the newest `count`
    offsets; all partitions contribute equally as far as they can."""
    held = sorted(
        (end[topic][each] - at, topic, each)
        for topic in first
        for each, at in first[topic].items()
    )
    begin_at: dict[str, dict[int, int]] = {topic: {} for topic in first}
    for position, (size, topic, partition) in enumerate(held):
        # what a small partition cannot contribute, the larger ones do
        share = min(size, -(-count // (len(held) - position)))
        count -= share
        begin_at[topic][partition] = end[topic][partition] - share
    return begin_at


def unknown_topic(
    name: str, servers: str, there: Collection[str], place: Place | None
) -> Problem:
    """The problem of a topic that the cluster does not have; `there` are the existing
    topics."""
    what, fix = f"There is no topic '{name}' at {servers}.", did_you_mean(name, there)
    return Problem("unknown-topic", what, fix=fix, place=place)


def unreachable(servers: str, why: str) -> LakesqlError:
    """The error of a cluster no broker of which answers."""
    return TransientError.of(
        "connection-unreachable",
        f"No broker answers at {servers}.",
        why=why,
        fix="Start the broker, or correct `bootstrap_servers` and `options` of the connection in profiles.yml.",
    )
