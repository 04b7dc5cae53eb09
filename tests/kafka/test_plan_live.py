"""`lakesql plan --live` over the topics of a real broker: by librdkafka alone, with a
table that pyiceberg has made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.decode import node_of
from lakesql.errors import LakesqlError, Place
from lakesql.names import (
    LEDGER_BATCH,
    LEDGER_CHECKPOINT,
    LEDGER_KEYS,
    LEDGER_MODE,
    LEDGER_MODEL,
    LEDGER_OFFSETS,
    LEDGER_STATE,
    LEDGER_TOPICS,
)
from lakesql.source.kafka import Kafka
from lakesql.source.kafka_client import read_offsets
from lakesql.source.origin import TopicPattern
from lakesql.stream.stream import Stream, read_stream
from tests.servers.broker import Broker, jaas
from tests.servers.process import free_ports

Run = Callable[..., tuple[int, str, str]]
Reasons = list[tuple[str, str]]


def stream(topic: str, **more: str) -> Stream:
    origin = {} if "pattern" in more else {"topic": topic}
    return read_stream(
        node_of(
            {"name": "s", "connection": "k", "format": "bytes", **origin, **more},
            Place("streams/s.yml", 1, 1),
        )
    )


class Lake:
    """A project with one model of one topic, whose table and checkpoint are as a run
    leaves them."""

    def __init__(self, directory: Path, run: Run, broker: Broker, topic: str) -> None:
        self.directory, self.run, self.broker, self.topic = (
            directory,
            run,
            broker,
            topic,
        )
        self.write("pyproject.toml", '[tool.lakesql]\nname = "p"\n')
        self.connect(broker.servers)
        contract = {
            "name": "landed",
            "connection": "k",
            "topic": topic,
            "columns": {"id": "bigint"},
        }
        self.write("streams/s.yml", json.dumps({"streams": [contract]}))
        self.write(
            "models/sizes.sql",
            "{{ config(mode='append') }}\nSELECT id FROM {{ stream('landed') }}\n",
        )
        assert run("parse", "--project-dir", str(directory))[0] == 0
        (directory / "target").rename(directory / "before")
        uri, warehouse = (
            f"sqlite:///{directory}/catalog.db",
            str(directory / "warehouse"),
        )
        catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse)
        catalog.create_namespace("shop")
        schema = Schema(NestedField(1, "id", LongType()))
        self.table = catalog.create_table(
            "shop.sizes", schema, properties=dict(DEFAULT_PROPERTIES)
        )

    def write(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def connect(self, servers: str, checkpoints: str = "", **options: str) -> None:
        folder = self.directory
        target = {
            "catalog": {
                "name": "lake",
                "type": "sql",
                "uri": f"sqlite:///{folder}/catalog.db",
                "warehouse": str(folder / "warehouse"),
            },
            "namespace": "shop",
            "checkpoints": checkpoints or str(folder / "checkpoints"),
            "connections": {
                "k": {"type": "kafka", "bootstrap_servers": servers, "options": options}
            },
        }
        self.write(
            "profiles.yml",
            json.dumps({"p": {"target": "dev", "outputs": {"dev": target}}}),
        )

    def stands(self, batch: int, offsets: dict[str, int], id_: str) -> None:
        """The batch is in the table, and done in the checkpoint."""
        positions = {self.topic: offsets}
        ledger = {
            LEDGER_MODEL: "sizes",
            LEDGER_CHECKPOINT: "c",
            LEDGER_BATCH: str(batch),
            LEDGER_OFFSETS: json.dumps({"landed": positions}),
            LEDGER_TOPICS: json.dumps({self.topic: id_}),
            LEDGER_MODE: "append",
            LEDGER_KEYS: "[]",
            LEDGER_STATE: "",
        }
        self.table.append(
            pa.table({"id": pa.array([1], pa.int64())}), snapshot_properties=ledger
        )
        origin = {
            "model": "sizes",
            "table_id": str(self.table.metadata.table_uuid),
            "streams": ["landed"],
            "state": "",
        }
        self.write("checkpoints/sizes/metadata", json.dumps({"id": "c"}))
        self.write(
            "checkpoints/sizes/lakesql.json", json.dumps({**origin, "follows": None})
        )
        for number in range(batch + 1):
            self.write(
                f"checkpoints/sizes/offsets/{number}",
                f"v1\n{{}}\n{json.dumps(positions)}",
            )
            self.write(f"checkpoints/sizes/commits/{number}", "v1\n{}")

    def plan(self) -> tuple[Reasons, list[str], str]:
        """The reasons, what they say, and what stands on stderr."""
        state = str(self.directory / "before")
        code, out, err = self.run(
            "plan",
            "--live",
            "--state",
            state,
            "--output",
            "json",
            "--project-dir",
            str(self.directory),
        )
        assert code == 0, err
        (model,) = json.loads(out)["models"]
        said = model["reasons"]
        return (
            [(it["verdict"], it["condition"]) for it in said],
            [it["what"] for it in said],
            err,
        )


def test_topics_are_compared_with_where_the_checkpoint_stands(
    tmp_path: Path, run: Run, broker: Broker
) -> None:
    topic = "planned"
    broker.create_topic(topic, 1)
    lake = Lake(tmp_path, run, broker, topic)
    assert lake.plan()[0] == []
    broker.produce(topic, [b'{"id": 1}'] * 5)
    held = read_offsets(Kafka(broker.servers), [stream(topic)])["s"]
    assert (held.beginnings, held.ends, held.problems) == (
        {topic: {0: 0}},
        {topic: {0: 5}},
        (),
    )
    lake.stands(0, {"0": 5}, held.ids[topic])
    assert lake.plan()[0] == []

    broker.produce(topic, [b'{"id": 2}'] * 3)
    broker.add_partitions(topic, 2)
    found, said, err = lake.plan()
    assert found == [("next-batch", "partition-added"), ("none", "topic-backlog")]
    assert "planned-1" in said[0] and " 3 offsets behind " in said[1]
    assert err == ""

    broker.delete_records(topic, 0, 7)
    found, said, _ = lake.plan()
    assert (found, said[0][:10]) == ([("breaks", "data-lost")], "2 offsets ")
    # where the table's ledger alone tells
    lake.connect(broker.servers, "abfss://lake@store/checkpoints")
    assert lake.plan()[0] == [("breaks", "data-lost"), ("none", "checkpoint-unread")]
    lake.connect(broker.servers)
    broker.delete_topic(topic)
    assert lake.plan()[0] == [("breaks", "unknown-topic")]
    broker.create_topic(topic)
    assert lake.plan()[0] == [("breaks", "topic-recreated")]


def test_a_checkpoint_ahead_of_its_topic_is_said(
    tmp_path: Path, run: Run, broker: Broker
) -> None:
    broker.create_topic("shorter")
    broker.produce("shorter", [b"{}"] * 2)
    lake = Lake(tmp_path, run, broker, "shorter")
    lake.stands(
        0,
        {"0": 4},
        read_offsets(Kafka(broker.servers), [stream("shorter")])["s"].ids["shorter"],
    )
    assert lake.plan()[0] == [("breaks", "data-lost")]
    lake.connect(
        broker.ssl_servers,
        **{
            "security.protocol": "SSL",
            "ssl.truststore.location": str(broker.trust_store),
        },
    )
    found, _, err = lake.plan()
    assert found == []
    assert (
        "connection 'k'" in err
        and "ssl.truststore.location (taken: ssl.truststore.type: PEM)" in err
    )


def test_a_broker_that_is_away_ends_the_plan(
    tmp_path: Path, run: Run, broker: Broker
) -> None:
    lake = Lake(tmp_path, run, broker, "away")
    (closed,) = free_ports(1)
    lake.connect(f"127.0.0.1:{closed}")
    began = time.monotonic()
    with pytest.raises(AssertionError, match="connection-unreachable"):
        lake.plan()
    assert time.monotonic() - began < 10


def test_topics_are_found_by_pattern(broker: Broker) -> None:
    for name in ("ids.eu", "ids.us", "idss"):
        broker.create_topic(name)
    held = read_offsets(Kafka(broker.servers), [stream("", pattern=r"ids\..*")])["s"]
    assert sorted(held.ends) == ["ids.eu", "ids.us"]
    assert isinstance(stream("", pattern="x").origin, TopicPattern)


def test_logins_are_taken_and_refused_by_the_conditions_of_a_run(
    broker: Broker,
) -> None:
    broker.create_topic("secured")
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
    pem = broker.directory / "broker.pem"
    ssl = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
    right = [
        Kafka(broker.sasl_servers, plain),
        Kafka(broker.sasl_servers, scram),
        Kafka(broker.ssl_servers, {**ssl, "ssl.truststore.location": str(pem)}),
        Kafka(
            broker.ssl_servers, {**ssl, "ssl.truststore.certificates": pem.read_text()}
        ),
    ]
    for connection in right:
        assert read_offsets(connection, [stream("secured")])["s"].ends == {
            "secured": {0: 0}
        }
    wrong = {
        "password": (
            Kafka(broker.sasl_servers, {**plain, "sasl.jaas.config": jaas("wrong")}),
            "wrong-credentials",
        ),
        "certificate": (
            Kafka(broker.ssl_servers, {"security.protocol": "SSL"}),
            "certificate-untrusted",
        ),
        "protocol": (
            Kafka(broker.servers, {"security.protocol": "SASL_SLL"}),
            "kafka-option",
        ),
        "plain text expected": (
            Kafka(broker.servers, {"security.protocol": "SSL"}),
            "connection-unreachable",
        ),
    }
    found = {}
    for name, (connection, _) in wrong.items():
        began = time.monotonic()
        with pytest.raises(LakesqlError) as caught:
            read_offsets(connection, [stream("secured")])
        print(name, time.monotonic() - began, caught.value.problems)
        found[name] = caught.value.problems[0].condition
    assert found == {name: condition for name, (_, condition) in wrong.items()}
