"""What a Kafka broker knows of its topics: which exist, their ids, and the offsets that
they hold.

It is asked through the Java client that Spark reads with, so that what is refused here
would also be refused there, only later and in other words. Every request is answered,
or fails with a named condition, within seconds.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.jars import spark_jars
from lakesql.engine.spark.java import Java
from lakesql.errors import Place, Problem, ProfileError, RunError
from lakesql.secrets import find_secrets
from lakesql.source.cluster import (
    ANSWER_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Topic,
    client_options,
    newest_shares,
    reach_broker,
    unknown_topic,
    unreachable,
)
from lakesql.source.kafka import Kafka
from lakesql.source.origin import StreamOrigin
from lakesql.stream.recording import RawRecord

T = TypeVar("T")

_KAFKA = "org.apache.kafka."

MAX_SHOWN = 600
"""How many characters of the client's own error text an error shows."""


class Broker:
    """A connection to a cluster, which is closed at the end of the block: `with
    open_broker(jvm, connection) as broker`."""

    def __init__(self, jvm: Any, connection: Kafka, admin: Any) -> None:
        self._jvm = jvm
        self._connection = connection
        self._admin = admin
        self._milliseconds = java_class(
            "java.util.concurrent.TimeUnit", jvm
        ).MILLISECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close(self._class("java.time.Duration").ZERO)

    def _class(self, name: str) -> Any:
        return java_class(name, self._jvm)

    def topic_names(self) -> frozenset[str]:
        """All topics that the connection's user may see, except Kafka's internal
        ones."""
        # no topic name has a comma
        names = str(self._ask(lambda: self._admin.listTopics().names()).toString())
        return frozenset(filter(None, names.strip("[]").split(", ")))

    def topics(
        self, names: Collection[str], place: Place | None = None
    ) -> dict[str, Topic]:
        """The topics of these names. Raises `RunError` (`unknown-topic`) with all names
        that do not exist."""
        return {
            name: Topic(
                name,
                _id_of(described),
                tuple(range(int(described.partitions().size()))),
            )
            for name, described in self._describe(names, place).items()
        }

    def find_topics(
        self, origin: StreamOrigin, place: Place | None = None
    ) -> dict[str, Topic]:
        """The topics that a stream names, or those whose names match its pattern now,
        which may be none."""
        return self.topics(origin.find_topics(self.topic_names), place)

    def find_ids(
        self, origin: StreamOrigin, place: Place | None = None
    ) -> dict[str, str]:
        """The ids of the topics of `find_topics`, with fewer calls of Java."""
        names = origin.find_topics(self.topic_names)
        return {
            name: _id_of(described)
            for name, described in self._describe(names, place).items()
        }

    def _describe(self, names: Collection[str], place: Place | None) -> dict[str, Any]:
        futures = self._admin.describeTopics(list(names)).topicNameValues()
        found: dict[str, Any] = {}
        problems: list[Problem] = []
        for name in names:
            try:
                found[name] = self._ask(lambda name=name: futures.get(name))  # type: ignore[misc]
            except _NoSuchTopicError:
                problems.append(self._no_topic(name, place))
        if problems:
            raise RunError(problems)
        return found

    def beginning_offsets(self, topics: Collection[Topic]) -> dict[str, dict[int, int]]:
        """The first offset that each partition still holds."""
        return self._offsets(
            topics, self._class(f"{_KAFKA}clients.admin.OffsetSpec").earliest()
        )

    def end_offsets(self, topics: Collection[Topic]) -> dict[str, dict[int, int]]:
        """The offset after the last one of each partition that a reader may see: the
        last committed record, unless the connection's options set another isolation
        level."""
        return self._offsets(
            topics, self._class(f"{_KAFKA}clients.admin.OffsetSpec").latest()
        )

    def log_ends(self, topics: Collection[Topic]) -> dict[str, dict[int, int]]:
        """The offset after the last one of each partition, even if readers may not see
        that record yet."""
        return self._offsets(
            topics,
            self._class(f"{_KAFKA}clients.admin.OffsetSpec").latest(),
            "read_uncommitted",
        )

    def offsets_since(
        self, topics: Collection[Topic], at_ms: int
    ) -> dict[str, dict[int, int]]:
        """The offset of each partition's first record at or after a time; its end
        offset if there is none."""
        spec = self._class(f"{_KAFKA}clients.admin.OffsetSpec").forTimestamp(at_ms)
        found, ends = self._offsets(topics, spec), self.end_offsets(topics)
        return {
            topic: {
                partition: ends[topic][partition] if at < 0 else at
                for partition, at in partitions.items()
            }
            for topic, partitions in found.items()
        }

    def asking_ends(
        self, topics: Collection[Topic]
    ) -> Callable[[], dict[str, dict[int, int]]]:
        """A function that returns `end_offsets`, for repeated use: it takes three calls
        of Java, however many topics there are."""
        return self._asking(
            topics, self._class(f"{_KAFKA}clients.admin.OffsetSpec").latest()
        )

    def _offsets(
        self, topics: Collection[Topic], spec: Any, level: str = ""
    ) -> dict[str, dict[int, int]]:
        return self._asking(topics, spec, level)()

    def _asking(
        self, topics: Collection[Topic], spec: Any, level: str = ""
    ) -> Callable[[], dict[str, dict[int, int]]]:
        place, isolation = (
            self._class(f"{_KAFKA}common.TopicPartition"),
            self._class(f"{_KAFKA}common.IsolationLevel"),
        )
        level = level or client_options(self._connection)["isolation.level"]
        options = self._class(f"{_KAFKA}clients.admin.ListOffsetsOptions")(
            isolation.valueOf(level.upper())
        )
        wanted = [
            (topic.name, partition)
            for topic in topics
            for partition in topic.partitions
        ]
        request = self._class("java.util.HashMap")()
        for topic, partition in wanted:
            request.put(place(topic, partition), spec)

        def ask() -> dict[str, dict[int, int]]:
            try:
                answers = self._ask(
                    lambda: self._admin.listOffsets(request, options).all()
                )
            except _NoSuchTopicError:  # deleted since it was described
                there = self.topic_names()
                gone = [
                    self._no_topic(topic.name, None)
                    for topic in topics
                    if topic.name not in there
                ]
                raise RunError(gone) from None
            known = {
                (topic, int(number)): int(at)
                for topic, number, at in _OFFSET.findall(str(answers.toString()))
            }
            found: dict[str, dict[int, int]] = {topic.name: {} for topic in topics}
            for topic, partition in wanted:
                at = known.get((topic, partition))
                if at is None:  # another version of the client says it in other words
                    at = int(answers.get(place(topic, partition)).offset())
                found[topic][partition] = at
            return found

        return ask

    def read_newest(self, topics: Collection[Topic], count: int) -> list[RawRecord]:
        """About the newest `count` records of the topics, divided among their
        partitions, from old to new.

        They are fewer if offsets belong to no record: transaction markers, and records
        that were removed by compaction.
        """
        first, end = self.beginning_offsets(topics), self.end_offsets(topics)
        begin_at = newest_shares(first, end, count)
        wanted = [
            (topic, partition, at, end[topic][partition])
            for topic, partitions in begin_at.items()
            for partition, at in partitions.items()
            if at < end[topic][partition]
        ]
        deserializer = f"{_KAFKA}common.serialization.ByteArrayDeserializer"
        settings = {
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            "enable.auto.commit": "false",
        }
        properties = _properties(
            self._jvm, {**client_options(self._connection), **settings}
        )
        consumer = self._class(f"{_KAFKA}clients.consumer.KafkaConsumer")(properties)
        found: list[RawRecord] = []
        try:
            for topic, partition, at, until in wanted:
                place = self._class(f"{_KAFKA}common.TopicPartition")(topic, partition)
                consumer.assign([place])
                consumer.seek(place, at)
                found += self._read_until(consumer, place, until)
        except Py4JJavaError as error:
            raise _explain(error.java_exception, self._connection) from None
        finally:
            consumer.close()
        return sorted(found, key=lambda record: record.age)

    def _read_until(self, consumer: Any, place: Any, until: int) -> Iterator[RawRecord]:
        wait = self._class("java.time.Duration").ofMillis(500)
        deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
        while consumer.position(place) < until:
            for record in consumer.poll(wait).records(place):
                deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
                if record.offset() < until:
                    yield RawRecord(
                        topic=str(record.topic()),
                        partition=int(record.partition()),
                        offset=int(record.offset()),
                        timestamp_ms=int(record.timestamp()),
                        key=record.key(),
                        value=record.value(),
                        headers=tuple(
                            (str(header.key()), header.value())
                            for header in record.headers().toArray()
                        ),
                    )
            if time.monotonic() > deadline:
                raise unreachable(
                    self._connection.bootstrap_servers,
                    f"{place.toString()} gives no records.",
                )

    def _no_topic(self, name: str, place: Place | None) -> Problem:
        return unknown_topic(
            name, self._connection.bootstrap_servers, self.topic_names(), place
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The result of the future that `question` returns. Raises the condition for
        its failure."""
        try:
            return question().get(ANSWER_TIMEOUT_MS, self._milliseconds)
        except Py4JJavaError as error:
            raise _explain(error.java_exception, self._connection) from None


def open_broker(jvm: Any, connection: Kafka) -> Broker:
    """A new connection to a cluster; `jvm` is a session's `_jvm`, or `open_java`'s.

    Raises `TransientError` (`connection-unreachable`) if no broker answers, and
    `ProfileError` if one refuses the credentials (`wrong-credentials`), its certificate
    is not trusted (`certificate-untrusted`) or the client rejects the options
    (`kafka-option`).
    """
    reach_broker(connection.bootstrap_servers)
    timeouts = {
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "default.api.timeout.ms": ANSWER_TIMEOUT_MS - 1_000,
    }
    settings = {
        **client_options(connection),
        **{key: str(each) for key, each in timeouts.items()},
    }
    try:
        admin = java_class(f"{_KAFKA}clients.admin.AdminClient", jvm).create(
            _properties(jvm, settings)
        )
    except Py4JJavaError as error:
        raise _explain(error.java_exception, connection) from None
    broker = Broker(jvm, connection, admin)
    try:
        broker._ask(lambda: admin.describeCluster().nodes())
    except BaseException:
        broker.__exit__(None, None, None)
        raise
    return broker


class Brokers:
    """Connections to clusters that stay open, one per cluster; may be used from any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[tuple[Kafka, Broker]] = []

    def close(self) -> None:
        """Close all connections. Those of a Java process that has ended are dropped."""
        with self._lock:
            while self._open:
                _, broker = self._open.pop()
                with suppress(Py4JError, OSError):
                    broker.__exit__(None, None, None)

    def of(self, jvm: Any, connection: Kafka) -> Broker:
        """The open connection to a cluster; opened if there is none. Raises what
        `open_broker` raises."""
        with self._lock:
            for known, broker in self._open:
                if known == connection:
                    return broker
            broker = open_broker(jvm, connection)
            self._open.append((connection, broker))
            return broker


_OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+),")
"""An offset in the text of a map of them: one call of Java for all offsets, instead of
two for each."""


def _id_of(described: Any) -> str:
    return str(described.topicId().toString())


def _properties(jvm: Any, settings: Mapping[str, str]) -> Any:
    properties = java_class("java.util.Properties", jvm)()
    for key, value in settings.items():
        properties.setProperty(key, value)
    return properties


@contextmanager
def open_java(java: Java, jars: Collection[Path]) -> Iterator[Any]:
    """A small Java process with Kafka's client and without Spark, for a command that
    only asks brokers: it starts in half a second."""
    class_path = os.pathsep.join([*map(str, jars), str(spark_jars() / "*")])
    port, secret = launch_gateway(
        jarpath=str(next(spark_jars().glob("py4j-*.jar"))),
        classpath=class_path,
        javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        java_path=str(java.binary),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(
            port=port, auth_token=secret, auto_convert=True
        )
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


# --- failures of the client


class _NoSuchTopicError(Exception):
    """The topic does not exist on the broker."""


def _explain(raised: Any, connection: Kafka) -> Exception:
    """The condition for a Java exception of Kafka's client, by the first of its causes
    that is known."""
    causes = list(_causes(raised))
    names = {name for name, _ in causes}
    said = ": ".join(
        dict.fromkeys(_EXCEPTION.sub("", message) for _, message in causes if message)
    )
    # before truncating, as the rest of a truncated secret would not be recognized
    why = find_secrets(os.environ).redact(said)[:MAX_SHOWN]
    servers = connection.bootstrap_servers
    if "UnknownTopicOrPartitionException" in names or "InvalidTopicException" in names:
        return _NoSuchTopicError()
    if "SslAuthenticationException" in names or "SSLHandshakeException" in names:
        return ProfileError.of(
            "certificate-untrusted",
            f"No secure connection to {servers}: one side does not take the other's certificate.",
            why=why,
        )
    if names & {
        "SaslAuthenticationException",
        "UnsupportedSaslMechanismException",
        "LoginException",
    }:
        return ProfileError.of(
            "wrong-credentials",
            f"{servers} refuses the connection's credentials.",
            why=why,
        )
    if any(name.endswith("AuthorizationException") for name in names):
        return ProfileError.of(
            "topic-forbidden",
            f"The user of the connection may not read what the stream names at {servers}.",
            why=why,
        )
    if (
        names & {"ConfigException", "InvalidConfigurationException", "KafkaException"}
        and "TimeoutException" not in names
    ):
        return ProfileError.of(
            "kafka-option",
            "Kafka's client does not take the connection's options.",
            why=why,
        )
    options = {"security.protocol": "PLAINTEXT", **connection.options}
    asked = ", ".join(
        f"{key}={options[key]}"
        for key in ("security.protocol", "sasl.mechanism")
        if key in options
    )
    return unreachable(
        servers, f"Connections are taken, but there is no answer by {asked}: {why}"
    )


_EXCEPTION = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
"""The class name that a Java exception puts before the message of its cause."""


def _causes(raised: Any) -> Iterator[tuple[str, str]]:
    while raised is not None:
        yield str(raised.getClass().getSimpleName()), str(raised.getMessage() or "")
        raised = raised.getCause()
