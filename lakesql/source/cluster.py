"""A Kafka cluster, whichever client asks it: its address, the options of a client, its
topics, and how they compare."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.address import first_reachable
from lakesql.errors import LakesqlError, Place, Problem, TransientError, did_you_mean

if TYPE_CHECKING:
    from lakesql.source.kafka import Kafka

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition: an offset, as in Spark's checkpoints."""

REQUEST_TIMEOUT_MS = 4_000
ANSWER_TIMEOUT_MS = 8_000
"""How long a request and a question may take. Brokers answer in milliseconds."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it stands. A topic that is deleted and made again has another id."""

    name: str
    id: str
    partitions: tuple[int, ...]


PATIENCE = {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}
"""How long a client waits for a broker, unless the profile says it: a query that is
stopped waits as long, and a run is to end within 30 s. Kafka's own default is a
minute."""

LOGIN_PATIENCE = {
    "sasl.login.connect.timeout.ms": "10000",
    "sasl.login.read.timeout.ms": "10000",
}
"""How long it waits for the server that gives it a token. Kafka's own default is for
ever."""


def client_options(connection: Kafka) -> dict[str, str]:
    """What every client of the connection is given: records of transactions that were
    not committed are not read."""
    patience = {} if PATIENCE.keys() & connection.options.keys() else PATIENCE
    return {
        "isolation.level": "read_committed",
        **patience,
        **LOGIN_PATIENCE,
        **connection.options,
        "bootstrap.servers": connection.bootstrap_servers,
    }


FETCHES = {"max.poll.records": "5000", "fetch.max.wait.ms": "10"}
"""How a task fetches its records from a broker, unless the profile says it.

Spark asks for both ends of the partition after each poll, and drops what the consumer
has fetched in advance. So a poll takes all of a fetch; and the broker, which answers in
turn, does not hold a fetch at the end of the partition for half a second, Kafka's
default, before it says where the end is.
"""


def consumer_options(connection: Kafka) -> dict[str, str]:
    """What a consumer of the connection is given."""
    return {**FETCHES, **client_options(connection)}


def reach_broker(servers: str) -> str:
    """The first address of `servers` that takes a connection; a client needs one to
    find the others."""
    try:
        return first_reachable(servers)
    except ConnectionError as error:
        raise unreachable(servers, str(error)) from None


def numbered(
    position: Mapping[str, Mapping[str, int]] | None,
) -> dict[str, dict[int, int]]:
    """Offsets as JSON has them, in checkpoints and ledgers and in Spark's reports, with
    numbers for the partitions."""
    return {
        topic: {int(number): at for number, at in offsets.items()}
        for topic, offsets in (position or {}).items()
    }


def lag_of(end: Offsets, latest: Offsets) -> dict[str, dict[int, int]]:
    """How many offsets each partition of `latest` is ahead of a reader that stands at
    `end`."""
    return {
        topic: {
            partition: max(0, last - end.get(topic, {}).get(partition, 0))
            for partition, last in partitions.items()
        }
        for topic, partitions in latest.items()
    }


def total_of(lag: Offsets) -> int:
    """How many offsets these are together."""
    return sum(sum(partitions.values()) for partitions in lag.values())


def find_share(lag: Offsets, limit: int | None) -> dict[str, dict[int, int]]:
    """How many of the offsets that it is behind each partition gives to a batch of at
    most `limit`; all without one.

    Each gives the same share of what it has, and at least one, so that none waits for
    another.
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
    """The partitions of which a reader may not see all up to `ends`, and from where on
    not.

    What is `readable` is to be asked after the ends: what has been written between is
    none of it.
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
    """Where to begin in each partition to read the newest `count` offsets: equal
    shares, as far as they go."""
    held = sorted(
        (end[topic][each] - at, topic, each)
        for topic in first
        for each, at in first[topic].items()
    )
    begin_at: dict[str, dict[int, int]] = {topic: {} for topic in first}
    for position, (size, topic, partition) in enumerate(held):
        # what a small one leaves is for the larger ones
        share = min(size, -(-count // (len(held) - position)))
        count -= share
        begin_at[topic][partition] = end[topic][partition] - share
    return begin_at


def unknown_topic(
    name: str, servers: str, there: Collection[str], place: Place | None
) -> Problem:
    """The problem of a topic that the cluster does not have; `there` are the topics
    that it has."""
    what, fix = f"There is no topic '{name}' at {servers}.", did_you_mean(name, there)
    return Problem("unknown-topic", what, fix=fix, place=place)


def unreachable(servers: str, why: str) -> LakesqlError:
    """The error of a cluster of which no broker answers."""
    return TransientError.of(
        "connection-unreachable",
        f"No broker answers at {servers}.",
        why=why,
        fix="Start the broker, or correct `bootstrap_servers` and `options` of the connection in profiles.yml.",
    )
