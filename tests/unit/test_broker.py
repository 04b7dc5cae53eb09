"""What is known of Kafka without a broker: options of its client, offsets."""

from __future__ import annotations

import re
import socket

import pytest

from lakesql.decode import node_of
from lakesql.errors import LakesqlError, Place, ProjectError, TransientError
from lakesql.source.cluster import (
    FETCHES,
    LOGIN_PATIENCE,
    PATIENCE,
    client_options,
    consumer_options,
    lag_of,
    reach_broker,
)
from lakesql.source.kafka import Kafka
from lakesql.source.kafka_options import (
    LOGIN_MODULES,
    OWNED,
    SECURITY,
    read_client_options,
)
from tests.cases import each_of

PLACE = Place("profiles.yml", 4, 9)


def refused(**options: str) -> list[str]:
    """The conditions by which options are refused; `__` stands for a dot."""
    with pytest.raises(ProjectError) as caught:
        read_client_options(
            node_of(
                {key.replace("__", "."): value for key, value in options.items()}, PLACE
            )
        )
    assert all(
        problem.place == PLACE and problem.fix for problem in caught.value.problems
    )
    return [problem.condition for problem in caught.value.problems]


def test_options_are_handed_on_as_they_are() -> None:
    options = {
        "security.protocol": "SASL_SSL",
        "retries": 3,
        "client.dns.lookup": "use_all_dns_ips",
    }
    assert read_client_options(node_of(options, PLACE)) == {**options, "retries": "3"}


@each_of("name", OWNED)
def test_options_that_lakesql_sets_itself_are_refused(name: str) -> None:
    assert refused(**{name: "x"}) == ["kafka-option"]


def test_names_that_are_no_kafka_options_are_refused() -> None:
    assert (
        refused(
            kafka__security__protocol="SSL",
            startingOffsets="latest",
            failOnDataLoss="false",
        )
        == ["kafka-option"] * 3
    )


@each_of(
    ("name", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("security_protocol", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.jass.config", "sasl.jaas.config"),
        ("ssl.truststore.certificate", "ssl.truststore.certificates"),
    ],
)
def test_a_misspelt_option_of_the_login_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ProjectError) as caught:
        read_client_options(node_of({name: "x"}, PLACE))
    (problem,) = caught.value.problems
    assert problem.condition == "kafka-option" and f"'{meant}'" in problem.fix


@each_of(
    "name",
    [
        *SECURITY,
        "sasl.username",
        "ssl.ca.location",
        "aws.security.region",
        "client.rack",
    ],
)
def test_every_other_option_of_the_login_goes_on_to_kafka(name: str) -> None:
    value = f"{LOGIN_MODULES[0]} required;" if name == "sasl.jaas.config" else "x"
    assert read_client_options(node_of({name: value}, PLACE)) == {name: value}


@each_of("module", LOGIN_MODULES)
@each_of(
    "form",
    [
        '{} required username="a" password="b;c";',
        " {}\n  required\n  k='v';",
        "{} optional;",
    ],
)
def test_known_login_modules_are_accepted(module: str, form: str) -> None:
    options = {"sasl.jaas.config": form.format(module)}
    assert read_client_options(node_of(options, PLACE)) == options


@each_of(
    "text",
    [
        'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil/x";',
        "com.sun.security.auth.module.LdapLoginModule required;",
        f"/* */ {LOGIN_MODULES[0]} required;",
        f"// {LOGIN_MODULES[0]} required;\ncom.evil.LoginModule required;",
        f"{LOGIN_MODULES[0]}x required;",
        f"x.{LOGIN_MODULES[0]} required;",
        LOGIN_MODULES[0],
        "hunter2",
        "",
    ],
)
def test_other_login_modules_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ProjectError) as caught:
        read_client_options(node_of({"listener.name.x.sasl.jaas.config": text}, PLACE))
    (problem,) = caught.value.problems
    assert problem.condition == "kafka-option"
    assert "hunter2" not in problem.what + problem.why + problem.fix


@each_of(
    "options",
    [
        'username="u" password="ab"cdefgh"',
        'username="u" password="ab\\"',
        'username="u" password="ab\ncd"',
        'username="u" password="ab\rcd"',
        'username="u", password="x"',
        'username="u" password',
        'username="u"; x.Y required',
    ],
)
def test_login_options_that_kafka_would_quote_are_refused_and_not_shown(
    options: str,
) -> None:
    with pytest.raises(ProjectError) as caught:
        read_client_options(
            node_of(
                {"sasl.jaas.config": f"{LOGIN_MODULES[0]} required {options};"}, PLACE
            )
        )
    (problem,) = caught.value.problems
    assert problem.condition == "kafka-option"
    assert not {"ab", "cd", "cdefgh"} & set(
        re.findall(r"\w+", problem.what + problem.why + problem.fix)
    )


@each_of(
    "options",
    [
        "",
        ' username="u" password="a;b=\\"c\\\\"',
        "\n  username='u'\n  password = \"x y\" ",
        ' useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="k/h@R"',
    ],
)
def test_well_formed_login_options_are_accepted(options: str) -> None:
    text = f"{LOGIN_MODULES[0]} required{options};"
    assert read_client_options(node_of({"sasl.jaas.config": text}, PLACE)) == {
        "sasl.jaas.config": text
    }


def test_a_malformed_host_name_is_unreachable_and_no_internal_error() -> None:
    with pytest.raises(LakesqlError) as caught:
        reach_broker("kafka..svc:9092")
    assert [problem.condition for problem in caught.value.problems] == [
        "connection-unreachable"
    ]


def test_what_is_committed_is_read_unless_the_profile_says_else() -> None:
    assert client_options(Kafka("h:1"))["isolation.level"] == "read_committed"
    options = {"isolation.level": "read_uncommitted", "bootstrap.servers": "other:2"}
    assert client_options(Kafka("h:1", options)) == {
        "isolation.level": "read_uncommitted",
        "bootstrap.servers": "h:1",
        **PATIENCE,
        **LOGIN_PATIENCE,
    }


def test_a_client_waits_as_long_as_the_profile_says() -> None:
    # Kafka refuses an api timeout that is shorter
    options = {"request.timeout.ms": "60000"}
    assert (
        client_options(Kafka("h:1", options))
        .keys()
        .isdisjoint(PATIENCE.keys() - options.keys())
    )


def test_a_consumer_fetches_as_the_profile_says() -> None:
    own = {"fetch.max.wait.ms": "300"}
    assert FETCHES.items() <= consumer_options(Kafka("b:1")).items()
    assert consumer_options(Kafka("b:1", own)).items() >= {**FETCHES, **own}.items()


def test_lag_is_the_difference_of_offsets_for_each_partition() -> None:
    assert lag_of({"a": {0: 5, 1: 9}}, {"a": {0: 8, 1: 9, 2: 4}}) == {
        "a": {0: 3, 1: 0, 2: 4}
    }
    assert lag_of({}, {}) == {}


def test_an_address_that_answers_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert reach_broker(f"127.0.0.1:1, {address}") == address
    for wrong in (address, "no-port", "127.0.0.1:99999999"):
        with pytest.raises(TransientError) as caught:
            reach_broker(wrong)
        assert [problem.condition for problem in caught.value.problems] == [
            "connection-unreachable"
        ]
