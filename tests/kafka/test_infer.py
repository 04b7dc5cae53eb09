"""`lakesql infer` of topics of a real broker, and of values that name schemas of a real
registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from lakesql.cli.main import run_command
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker, Message
from tests.spark.project import Project


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project with its profile, as the command's."""
    project.manifest()
    monkeypatch.chdir(project.directory)
    return project


def infer(project: Project, topic: str, name: str) -> str:
    """Write the stream's file, whose text it gives, and a model that reads all of
    it."""
    assert run_command(["infer", topic, "--connection", "broker", "--name", name]) == 0
    project.model(name, f"SELECT * FROM {{{name}}}", mode="append")
    return Path(project.directory, "streams", f"{name}.yml").read_text()


def test_records_of_json_with_keys_and_tombstones(
    project: Project, broker: Broker
) -> None:
    broker.create_topic("infer.json", 2)
    rows = [
        {"order": at % 40, "at": f"2026-03-01T10:00:{at % 60:02d}Z", "n": at / 2}
        for at in range(100)
    ]
    sent = [
        Message(json.dumps(row).encode(), str(row["order"]).encode(), partition=at % 2)
        for at, row in enumerate(rows)
    ]
    broker.produce("infer.json", sent)
    text = infer(project, "infer.json", "orders")
    assert "key: [order]  # a guess: the key of 100 of 100 records" in text
    project.run().check()
    found = [(row["order"], row["n"]) for row in project.rows("orders")]
    assert sorted(found) == sorted((row["order"], row["n"]) for row in rows)


def test_values_that_name_schemas_of_a_registry(
    project: Project, broker: Broker, registry: Apicurio
) -> None:
    broker.create_topic("infer.avro", 1)
    fields = [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ]
    schema: dict[str, Any] = {"type": "record", "name": "Thing", "fields": fields}
    write = AvroSerializer(
        SchemaRegistryClient({"url": registry.url}), json.dumps(schema)
    )
    at = SerializationContext("infer.avro", MessageField.VALUE)
    rows = [
        {"id": number, "name": None if number == 3 else f"n{number}"}
        for number in range(9)
    ]
    broker.produce("infer.avro", [Message(write(row, at)) for row in rows])
    text = infer(project, "infer.avro", "things")
    assert "registry: schemas" in text and "id: {type: bigint, required: true}" in text
    project.run().check()
    assert project.rows("things", "id") == rows


def test_a_feed_in_avro_has_the_columns_of_its_row(
    project: Project, broker: Broker, registry: Apicurio
) -> None:
    broker.create_topic("infer.feed", 1)
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "day", "type": ["null", day], "default": None},
        ],
    }
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]
    schema = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.items",
        "fields": fields,
    }
    write = AvroSerializer(
        SchemaRegistryClient({"url": registry.url}), json.dumps(schema)
    )
    at = SerializationContext("infer.feed", MessageField.VALUE)
    events = [
        {"before": None, "after": {"id": number, "day": 20_000 + number}, "op": "c"}
        for number in range(3)
    ]
    broker.produce("infer.feed", [Message(write(event, at)) for event in events])
    text = infer(project, "infer.feed", "items")
    assert "envelope: debezium" in text
    project.run().check()
    assert [(row["id"], str(row["day"])) for row in project.rows("items", "id")] == [
        (0, "2024-10-04"),
        (1, "2024-10-05"),
        (2, "2024-10-06"),
    ]
