"""What a broker is asked, and what a connection that does not work is called: within
seconds, by a named condition."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakesql.cli.checks import check_connection
from lakesql.decode import node_of
from lakesql.engine.sources.broker import Broker as Asked
from lakesql.engine.sources.broker import open_broker, open_java
from lakesql.engine.spark.jars import ensure_jars, user_cache
from lakesql.engine.spark.java import find_java
from lakesql.errors import LakesqlError, Place
from lakesql.source.kafka import Kafka
from lakesql.source.origin import TopicPattern, Topics
from lakesql.stream.stream import read_stream
from tests.servers.broker import STORE_PASSWORD, Broker, jaas
from tests.servers.process import free_ports

ANSWERS_WITHIN_S = 60
PLACE = Place("streams/shop.yml", 3, 5)

pytestmark = pytest.mark.usefixtures("plain_py4j")


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    java, home = find_java(os.environ), user_cache(os.environ)
    with open_java(java, ensure_jars(frozenset({"kafka"}), home, print)) as jvm:
        yield jvm


@pytest.fixture(scope="module")
def asked(jvm: Any, broker: Broker) -> Iterator[Asked]:
    with open_broker(jvm, Kafka(broker.servers)) as asked:
        yield asked


def test_beginning_and_end_offsets_are_read_for_each_partition(
    broker: Broker, asked: Asked
) -> None:
    broker.create_topic("held", 3)
    broker.produce(
        "held", [f"{number}".encode() for number in range(10)], partitioner="random"
    )
    topics = asked.topics(["held"])
    ends = asked.end_offsets(topics.values())
    assert topics["held"].partitions == (0, 1, 2)
    assert asked.beginning_offsets(topics.values()) == {"held": {0: 0, 1: 0, 2: 0}}
    assert sum(ends["held"].values()) == 10

    partition = max(ends["held"], key=lambda each: ends["held"][each])
    broker.delete_records("held", partition, 1)
    assert asked.beginning_offsets(topics.values())["held"][partition] == 1


def test_the_end_is_that_of_what_was_committed(
    jvm: Any, broker: Broker, asked: Asked
) -> None:
    broker.create_topic("open")
    broker.produce("open", [b"1", b"2"])
    held = broker.begin_transaction("open", [b"3"])
    topics = asked.topics(["open"]).values()
    assert asked.end_offsets(topics) == {"open": {0: 2}}
    with open_broker(
        jvm, Kafka(broker.servers, {"isolation.level": "read_uncommitted"})
    ) as all_of_it:
        assert all_of_it.end_offsets(topics) == {"open": {0: 3}}
    held.abort_transaction(30)


def test_a_topic_made_again_has_another_id(broker: Broker, asked: Asked) -> None:
    broker.create_topic("again")
    before = asked.topics(["again"])["again"].id
    assert asked.topics(["again"])["again"].id == before
    broker.delete_topic("again")
    broker.create_topic("again")
    assert asked.topics(["again"])["again"].id != before


def test_topics_are_found_by_name_and_by_pattern(broker: Broker, asked: Asked) -> None:
    for name in ("shop.eu", "shop.us", "shops"):
        broker.create_topic(name)
    assert set(asked.find_topics(TopicPattern(r"shop\..*"))) == {"shop.eu", "shop.us"}
    assert set(asked.find_topics(Topics(("shop.us",)))) == {"shop.us"}
    assert not asked.find_topics(TopicPattern("none.*"))


def test_each_unknown_topic_is_reported_with_the_nearest_name(
    broker: Broker, asked: Asked
) -> None:
    broker.create_topic("payments")
    with pytest.raises(LakesqlError) as caught:
        asked.find_topics(Topics(("payments", "paymnets", "refunds")), PLACE)
    assert [problem.condition for problem in caught.value.problems] == [
        "unknown-topic"
    ] * 2
    assert [problem.place for problem in caught.value.problems] == [PLACE] * 2
    assert "'payments'" in caught.value.problems[0].fix


def test_right_credentials_and_certificates_connect(jvm: Any, broker: Broker) -> None:
    plain = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas(),
    }
    scram = {
        **plain,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas(module="scram.Scram"),
    }
    ssl = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(broker.trust_store),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    right = (
        Kafka(broker.sasl_servers, plain),
        Kafka(broker.sasl_servers, scram),
        Kafka(broker.ssl_servers, ssl),
    )
    for connection in right:
        with open_broker(jvm, connection) as asked:
            assert isinstance(asked.topic_names(), frozenset)


def test_each_wrong_connection_has_its_condition_within_the_time_limit(
    jvm: Any, broker: Broker
) -> None:
    (closed,) = free_ports(1)
    sasl = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas("wrong"),
    }
    scram = {
        **sasl,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas("wrong", module="scram.Scram"),
    }
    unknown = {
        **scram,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas(module="scram.Scram"),
    }
    wrong = {
        "nobody": (Kafka(f"127.0.0.1:{closed}"), "connection-unreachable"),
        "no such host": (Kafka("broker.invalid:9092"), "connection-unreachable"),
        "no port": (Kafka("127.0.0.1"), "connection-unreachable"),
        "password": (Kafka(broker.sasl_servers, sasl), "wrong-credentials"),
        "scram password": (Kafka(broker.sasl_servers, scram), "wrong-credentials"),
        "mechanism": (Kafka(broker.sasl_servers, unknown), "wrong-credentials"),
        "certificate": (
            Kafka(broker.ssl_servers, {"security.protocol": "SSL"}),
            "certificate-untrusted",
        ),
        "no such store": (
            Kafka(
                broker.ssl_servers,
                {"security.protocol": "SSL", "ssl.truststore.location": "/none.jks"},
            ),
            "kafka-option",
        ),
        "protocol": (
            Kafka(broker.servers, {"security.protocol": "SASL_SLL"}),
            "kafka-option",
        ),
        "user expected": (Kafka(broker.sasl_servers), "connection-unreachable"),
        "plain text expected": (
            Kafka(broker.servers, {"security.protocol": "SSL"}),
            "connection-unreachable",
        ),
        "certificate expected": (Kafka(broker.ssl_servers), "connection-unreachable"),
    }
    found, slow = {}, {}
    for name, (connection, _) in wrong.items():
        started = time.monotonic()
        with pytest.raises(LakesqlError) as caught:
            open_broker(jvm, connection)
        (problem,) = caught.value.problems
        print(name, problem)
        found[name] = problem.condition
        if time.monotonic() - started > ANSWERS_WITHIN_S:
            slow[name] = time.monotonic() - started
        assert problem.fix
    assert found == {name: condition for name, (_, condition) in wrong.items()}
    assert not slow


def test_a_server_that_is_no_broker_is_unreachable(jvm: Any) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(LakesqlError) as caught,
    ):
        open_broker(jvm, Kafka(f"127.0.0.1:{server.getsockname()[1]}"))
    assert [problem.condition for problem in caught.value.problems] == [
        "connection-unreachable"
    ]


def test_debug_says_what_a_broker_has(broker: Broker) -> None:
    broker.create_topic("debugged", 3)
    right = read_stream(
        node_of(
            {"name": "r", "connection": "k", "topic": "debugged", "format": "bytes"},
            PLACE,
        )
    )
    wrong = read_stream(
        node_of(
            {"name": "w", "connection": "k", "topic": "debuged", "format": "bytes"},
            PLACE,
        )
    )
    found = check_connection(Kafka(broker.servers), [right])
    assert "1 topics with 3 partitions" in found.text
    assert found.warnings == ("stream r: there is no record in debugged",)
    none = read_stream(
        node_of(
            {"name": "n", "connection": "k", "pattern": "no[.]such", "format": "bytes"},
            PLACE,
        )
    )
    assert check_connection(Kafka(broker.servers), [none]).warnings == (
        "stream n: no topic matches no[.]such",
    )
    broker.produce("debugged", [b"1"])
    assert check_connection(Kafka(broker.servers), [right]).warnings == ()
    with pytest.raises(LakesqlError) as caught:
        check_connection(Kafka(broker.servers), [right, wrong])
    assert [problem.condition for problem in caught.value.problems] == ["unknown-topic"]
    with pytest.raises(LakesqlError) as caught:
        check_connection(
            Kafka(broker.ssl_servers, {"security.protocol": "SSL"}), [right]
        )
    assert [problem.condition for problem in caught.value.problems] == [
        "certificate-untrusted"
    ]
