"""Which options of Kafka's Java client librdkafka is given, and by which names; the
others are named."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place
from lakesql.run.streams.ask_sources import read_topics
from lakesql.source.files import Files
from lakesql.source.kafka import Kafka
from lakesql.source.librdkafka_options import librdkafka_options
from lakesql.stream.stream import read_stream
from tests.cases import each_of

SERVERS = "127.0.0.1:9092"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password={};'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----"


def given(options: Mapping[str, str]) -> Mapping[str, str]:
    found = librdkafka_options(Kafka(SERVERS, options))
    assert found.unknown == {}
    assert found.settings["bootstrap.servers"] == SERVERS
    return {
        name: value
        for name, value in found.settings.items()
        if name not in (*options, "bootstrap.servers")
    }


def unknown(options: Mapping[str, str]) -> list[str]:
    return sorted(librdkafka_options(Kafka(SERVERS, options)).unknown)


@each_of(
    ("written", "password"),
    [
        ('"secret"', "secret"),
        ("'se;cr\"et'", 'se;cr"et'),
        ("bare", "bare"),
        (r'"a\"b\\c"', r'a"b\c'),
    ],
)
def test_user_and_password_are_read_from_the_login_module(
    written: str, password: str
) -> None:
    login = {"sasl.username": "reader", "sasl.password": password}
    assert given({**SASL, "sasl.jaas.config": PLAIN.format("reader", written)}) == login
    scram = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM.format("reader", written),
    }
    assert given({**SASL, **scram}) == login


@each_of(
    "options",
    [
        {"sasl.jaas.config": PLAIN.format("reader", r'"a\nb"')},
        {"sasl.jaas.config": SCRAM.format("reader", "x")},
        {"sasl.jaas.config": PLAIN.format("reader", "x tokenauth=true")},
        {},
    ],
)
def test_a_login_that_is_not_sure_to_be_the_same_is_named(
    options: Mapping[str, str],
) -> None:
    assert unknown({**SASL, **options}) == ["sasl.jaas.config"]


def test_mechanisms_without_user_and_password_are_named() -> None:
    # Kerberos, by default
    assert unknown({"security.protocol": "SASL_SSL"}) == ["sasl.mechanism"]
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://localhost/",
    }
    assert unknown({**SASL, **token}) == [
        "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url",
    ]


def test_certificates_are_given_as_pem_or_pkcs12() -> None:
    ssl = {"security.protocol": "SSL"}
    pem = {
        **ssl,
        "ssl.truststore.type": "pem",
        "ssl.keystore.type": "PEM",
        "ssl.key.password": "k",
    }
    files = {"ssl.truststore.location": "ca.pem", "ssl.keystore.location": "own.pem"}
    own = {"ssl.certificate.location": "own.pem", "ssl.key.location": "own.pem"}
    assert given({**pem, **files}) == {"ssl.ca.location": "ca.pem", **own}
    texts = {
        "ssl.truststore.certificates": "C",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": "K",
    }
    assert given({**pem, **texts}) == {
        "ssl.ca.pem": "C",
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": "K",
    }
    chain = {"ssl.keystore.certificate.chain": CERTIFICATE * 2}
    assert unknown({**pem, **chain}) == ["ssl.keystore.certificate.chain"]
    store = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "own.p12",
        "ssl.keystore.password": "s",
    }
    assert librdkafka_options(Kafka(SERVERS, {**ssl, **store})).settings == {
        **ssl,
        "bootstrap.servers": SERVERS,
        "ssl.keystore.location": "own.p12",
        "ssl.keystore.password": "s",
    }
    java = {
        "ssl.truststore.location": "ca.jks",
        "ssl.truststore.password": "s",
        "ssl.keystore.location": "own.jks",
    }
    assert unknown({**ssl, **java}) == sorted(java)
    assert unknown({"security.protocol": "SASL_PLAINTEXT", **java}) == [
        "sasl.mechanism"
    ]
    assert given(java) == {}  # in plain text they mean nothing


def test_the_name_of_a_broker_is_checked_as_java_checks_it() -> None:
    name = "ssl.endpoint.identification.algorithm"
    for said, is_given in (("", "none"), ("HTTPS", "https")):
        options = {"security.protocol": "SSL", name: said}
        assert librdkafka_options(Kafka(SERVERS, options)).settings[name] == is_given


def test_options_of_fetching_are_left_out_and_others_are_named() -> None:
    assert given({"max.poll.records": "10", "client.id": "us"}) == {}
    assert unknown(
        {"max.poll.records": "10", "config.providers": "env", "ssl.protocol": "TLS"}
    ) == ["config.providers"]


def test_what_is_not_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = {"name": "orders", "connection": "k", "topic": "o", "format": "bytes"}
    stream = read_stream(node_of(origin, Place("streams/s.yml", 1, 1)))
    connections = {
        "k": Kafka(SERVERS, {"security.protocol": "SASL_SSL"}),
        "files": Files(),
    }
    found, (said,) = read_topics(connections, [stream])
    assert found == {} and "'k'" in said and "sasl.mechanism" in said
    assert read_topics(connections, []) == ({}, ())
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, "lakesql.source.kafka_client", raising=False)
    found, (said,) = read_topics(connections, [stream])
    assert found == {} and ".[kafka]" in said
