"""The options of Kafka's Java client translated to librdkafka's, for a client that asks
a broker without Java.

Only options that surely mean the same are translated. If one cannot be, the broker is
not asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesql.source.kafka import Kafka


@dataclass(frozen=True, slots=True)
class LibrdkafkaSettings:
    """The settings for librdkafka, and the options that have no counterpart
    (`unknown`), each with what would have one."""

    settings: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def librdkafka_options(connection: Kafka) -> LibrdkafkaSettings:
    """The connection's options as settings of librdkafka."""
    protocol = connection.options.get("security.protocol", "PLAINTEXT").upper()
    unused = tuple(
        start
        for start, used in (("ssl.", "SSL"), ("sasl.", "SASL"))
        if used not in protocol
    )
    given = {
        name: value
        for name, value in connection.options.items()
        if not name.startswith(unused)
    }
    settings = {"bootstrap.servers": connection.bootstrap_servers}
    unknown: dict[str, str] = {}
    for found in (
        _trusted(given),
        _own_certificate(given),
        _login(given) if "SASL" in protocol else LibrdkafkaSettings(),
    ):
        settings |= found.settings
        unknown |= found.unknown
    for name, value in given.items():
        if name in _SAME:
            settings[name] = value
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = value.lower() or "none"
        elif name not in _IMMATERIAL and not name.startswith(_READ_TOGETHER):
            unknown[name] = ""
    return LibrdkafkaSettings(settings, unknown)


_SAME = frozenset(
    {
        "client.id",
        "client.dns.lookup",
        "security.protocol",
        "sasl.mechanism",
        "ssl.key.password",
    }
)
"""Options with the same name and the same values in both clients."""

_IMMATERIAL = frozenset(
    {
        "allow.auto.create.topics",
        "check.crcs",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Options on fetching, consumer groups and timeouts: they do not change where a topic
begins and ends."""

_READ_TOGETHER = ("ssl.truststore.", "ssl.keystore.", "sasl.jaas.config")
"""Prefixes of options that are translated together with others, by functions of their
own."""


def _trusted(given: Mapping[str, str]) -> LibrdkafkaSettings:
    """The trusted certificates; librdkafka reads only PEM stores."""
    stores = {
        name: value
        for name, value in given.items()
        if name.startswith("ssl.truststore.")
    }
    kind = stores.pop("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        return LibrdkafkaSettings(
            unknown=dict.fromkeys(stores, "ssl.truststore.type: PEM")
        )
    names = {
        "ssl.truststore.location": "ssl.ca.location",
        "ssl.truststore.certificates": "ssl.ca.pem",
    }
    return _renamed(stores, names)


def _own_certificate(given: Mapping[str, str]) -> LibrdkafkaSettings:
    """The client's own certificate and key: PEM, in a file or as text, or a PKCS12
    file."""
    stores = {
        name: value for name, value in given.items() if name.startswith("ssl.keystore.")
    }
    kind = stores.pop("ssl.keystore.type", "JKS").upper()
    if kind == "PKCS12":
        return _renamed(
            stores,
            {name: name for name in ("ssl.keystore.location", "ssl.keystore.password")},
        )
    if kind != "PEM":
        return LibrdkafkaSettings(
            unknown=dict.fromkeys(stores, "ssl.keystore.type: PEM or PKCS12")
        )
    if stores.get("ssl.keystore.certificate.chain", "").count("BEGIN CERTIFICATE") > 1:
        return LibrdkafkaSettings(
            unknown={
                "ssl.keystore.certificate.chain": "one certificate, or a chain by ssl.keystore.location"
            }
        )
    names = {
        "ssl.keystore.certificate.chain": "ssl.certificate.pem",
        "ssl.keystore.key": "ssl.key.pem",
    }
    if "ssl.keystore.location" not in stores:
        return _renamed(stores, names)
    # one file with both certificate and key
    both = stores.pop("ssl.keystore.location")
    found = _renamed(stores, names)
    return LibrdkafkaSettings(
        {**found.settings, "ssl.certificate.location": both, "ssl.key.location": both},
        found.unknown,
    )


def _renamed(given: Mapping[str, str], names: Mapping[str, str]) -> LibrdkafkaSettings:
    return LibrdkafkaSettings(
        {names[name]: value for name, value in given.items() if name in names},
        dict.fromkeys(given.keys() - names.keys(), ""),
    )


def _login(given: Mapping[str, str]) -> LibrdkafkaSettings:
    """User and password from `sasl.jaas.config`."""
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        return LibrdkafkaSettings(
            unknown={"sasl.mechanism": "PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512"}
        )
    found = _LOGIN.fullmatch(given.get("sasl.jaas.config", ""))
    module = "ScramLoginModule" if mechanism.startswith("SCRAM") else "PlainLoginModule"
    if found is None or not found["module"].endswith(f".{module}"):
        return LibrdkafkaSettings(
            unknown={"sasl.jaas.config": f"{module}, as sasl.mechanism says"}
        )
    said = {
        name: _unquoted(value)
        for name, value in _LOGIN_OPTION.findall(found["options"])
    }
    user, password = said.get("username"), said.get("password")
    if said.keys() != {"username", "password"} or user is None or password is None:
        return LibrdkafkaSettings(
            unknown={"sasl.jaas.config": "a username and a password, and nothing else"}
        )
    return LibrdkafkaSettings({"sasl.username": user, "sasl.password": password})


_LOGIN = re.compile(
    r"\s*(?P<module>[\w.]+)\s+(required|requisite|sufficient|optional)(?P<options>.*);\s*",
    re.I | re.S,
)
_LOGIN_OPTION = re.compile(
    r"""([\w.$-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.$-]+)"""
)
"""One option in `sasl.jaas.config`, whose text was checked when the profile was
read."""


def _unquoted(value: str) -> str | None:
    """The value as Java reads it; None if it escapes another character than a quote or
    a backslash."""
    if value[0] not in "\"'":
        return value
    inside = value[1:-1]
    return (
        None
        if re.search(r"\\[^\"'\\]", re.sub(r"\\\\", "", inside))
        else re.sub(r"\\(.)", r"\1", inside)
    )
