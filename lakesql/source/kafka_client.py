"""The offsets that Kafka's topics hold, asked without Java, by librdkafka, for commands
that must answer at once."""

from __future__ import annotations

import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from lakesql.errors import Place, Problem, ProfileError
from lakesql.secrets import find_secrets
from lakesql.source.cluster import (
    ANSWER_TIMEOUT_MS,
    Topic,
    reach_broker,
    unknown_topic,
    unreachable,
)
from lakesql.source.librdkafka_options import librdkafka_options
from lakesql.source.source import AskedStream

if TYPE_CHECKING:
    from lakesql.source.kafka import Kafka

REQUEST_S = 2.0
"""How long librdkafka may try to reach a broker at a time; after each try its errors
are looked at."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the topics of a stream hold: their ids and, of each partition, the first
    offset that still exists and the one after the last. `problems` are topics that do
    not exist or may not be read."""

    ids: Mapping[str, str] = field(default_factory=dict)
    beginnings: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def read_offsets(
    connection: Kafka, streams: Collection[AskedStream]
) -> dict[str, Held]:
    """What the topics of each stream hold, by the streams' names.

    librdkafka gets the options of the connection that it has a counterpart of. Raises
    `ProfileError`, or what `reach_broker` raises.
    """
    reach_broker(connection.bootstrap_servers)
    client = _Client(connection, librdkafka_options(connection).settings)
    there = client.topic_names()
    names = {
        stream.name: stream.origin.find_topics(lambda: there) for stream in streams
    }
    topics, refused = client.describe(
        {name for found in names.values() for name in found}
    )
    beginnings, ends = (
        client.offsets(topics.values(), _SPEC.earliest()),
        client.offsets(topics.values(), _SPEC.latest()),
    )
    places = {stream.name: stream.place for stream in streams}
    return {
        stream: Held(
            ids={name: topics[name].id for name in found if name in topics},
            beginnings={name: beginnings[name] for name in found if name in topics},
            ends={name: ends[name] for name in found if name in topics},
            problems=tuple(
                _refused(connection, name, refused[name], there, places[stream])
                for name in found
                if name in refused
            ),
        )
        for stream, found in names.items()
    }


_SPEC: Any = OffsetSpec
_KAFKAS_OWN = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Topics that a pattern never matches, as the Java client does not list them either."""


class _Client:
    """A connection to a cluster by librdkafka. Each question is answered, or fails,
    within seconds."""

    def __init__(self, connection: Kafka, settings: Mapping[str, str]) -> None:
        self._connection = connection
        self._errors: list[Any] = []
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": self._errors.append}
        try:
            self._admin = AdminClient({**settings, **quiet})
        except KafkaException as error:
            why = _said(error)
            raise ProfileError.of(
                "kafka-option",
                "librdkafka does not take the connection's options.",
                why=why,
            ) from None

    def topic_names(self) -> frozenset[str]:
        """All topics that the connection's user may see, without Kafka's internal ones.

        It is the first question to a cluster: its errors tell whether there is a
        connection at all.
        """
        deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
        while True:
            try:
                return (
                    frozenset(self._admin.list_topics(timeout=REQUEST_S).topics)
                    - _KAFKAS_OWN
                )
            except KafkaException as error:
                self._admin.poll(0)  # brings what has happened meanwhile to `_errors`
                self._check_connection()
                if time.monotonic() > deadline:
                    raise unreachable(
                        self._connection.bootstrap_servers, _said(error)
                    ) from None

    def _check_connection(self) -> None:
        """Raise `ProfileError` if a broker has answered and refused the connection."""
        servers = self._connection.bootstrap_servers
        for error in self._errors:
            why = _redacted(error.str())
            if error.code() == KafkaError._AUTHENTICATION:
                what = f"{servers} refuses the connection's credentials."
                raise ProfileError.of("wrong-credentials", what, why=why)
            if error.code() == KafkaError._SSL and "certificate" in why:
                what = f"No secure connection to {servers}: one side does not take the other's certificate."
                raise ProfileError.of("certificate-untrusted", what, why=why)

    def describe(
        self, names: Collection[str]
    ) -> tuple[dict[str, Topic], dict[str, Any]]:
        """The topics of these names, and the errors of those that cannot be
        described."""
        found: dict[str, Topic] = {}
        refused: dict[str, Any] = {}
        if not names:
            return found, refused
        asked = self._admin.describe_topics(
            TopicCollection(sorted(names)), request_timeout=ANSWER_TIMEOUT_MS / 1000
        )
        for name, future in asked.items():
            try:
                described = future.result()
            except KafkaException as error:
                if error.args[0].code() not in _OF_TOPIC:
                    raise unreachable(
                        self._connection.bootstrap_servers, _said(error)
                    ) from None
                refused[name] = error.args[0]
                continue
            partitions = tuple(sorted(each.id for each in described.partitions))
            found[name] = Topic(name, _id_text(described.topic_id), partitions)
        return found, refused

    def offsets(
        self, topics: Collection[Topic], spec: Any
    ) -> dict[str, dict[int, int]]:
        """The offset of each partition that `spec` stands for, including records of
        open transactions."""
        found: dict[str, dict[int, int]] = {topic.name: {} for topic in topics}
        wanted = {
            TopicPartition(topic.name, number): spec
            for topic in topics
            for number in topic.partitions
        }
        if not wanted:
            return found
        level = IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(
            wanted, isolation_level=level, request_timeout=ANSWER_TIMEOUT_MS / 1000
        )
        for place, future in asked.items():
            try:
                found[place.topic][place.partition] = int(future.result().offset)
            except KafkaException as error:
                raise unreachable(
                    self._connection.bootstrap_servers, _said(error)
                ) from None
        return found


_UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_OF_TOPIC = _UNKNOWN | {KafkaError.TOPIC_AUTHORIZATION_FAILED}
"""Errors of a single topic, not of the connection."""


def _refused(
    connection: Kafka,
    name: str,
    error: Any,
    there: Collection[str],
    place: Place | None,
) -> Problem:
    servers = connection.bootstrap_servers
    if error.code() in _UNKNOWN:
        return unknown_topic(name, servers, there, place)
    return Problem(
        "topic-forbidden",
        f"The user of the connection may not read topic '{name}' at {servers}.",
        place=place,
    )


def _id_text(id_: Any) -> str:
    """A topic's id as Java writes it, which is how checkpoints and ledgers have it."""
    halves = (id_.get_most_significant_bits(), id_.get_least_significant_bits())
    return (
        urlsafe_b64encode(
            b"".join(half.to_bytes(8, "big", signed=True) for half in halves)
        )
        .decode()
        .rstrip("=")
    )


def _said(error: KafkaException) -> str:
    return _redacted(error.args[0].str())


def _redacted(text: str) -> str:
    return find_secrets(os.environ).redact(text)
