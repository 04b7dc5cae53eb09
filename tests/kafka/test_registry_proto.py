"""Messages that Confluent's serializer for Python writes, through a real broker, with
schemas in a real registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from lakesql.errors import ProfileError
from lakesql.events import BatchCommitted
from lakesql.run.samples.pull_schemas import pull_schemas
from tests.messages import framed, message_of
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker, Message
from tests.spark.project import Project

VERSIONS = 12
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "name": "string",
    **{f"f{n}": "string" for n in range(VERSIONS)},
}


def version(number: int) -> str:
    """Each version has one field more; the last one's id is wider, its name another
    one, and the first field gone."""
    is_last = number == VERSIONS - 1
    fields = [f"string f{n} = {n + 10};" for n in range(int(is_last), number + 1)]
    named, kind = ("name", "int64") if is_last else ("title", "int32")
    return (
        'syntax = "proto3"; package shop; '
        f"message Other {{ int32 x = 1; }} message Order {{ {kind} id = 1; string {named} = 2; {' '.join(fields)} }}"
    )


def row(number: int, id_: int) -> dict[str, Any]:
    is_last = number == VERSIONS - 1
    fields = {f"f{n}": f"{id_}-{n}" for n in range(int(is_last), number + 1)}
    return {"id": id_, "name" if is_last else "title": f"n{id_}", **fields}


def expected(number: int, id_: int) -> dict[str, Any]:
    sent = row(number, id_)
    return {
        "id": id_,
        "name": f"n{id_}",
        **{f"f{n}": sent.get(f"f{n}", "") for n in range(VERSIONS)},
    }


def serializer(
    registry: Apicurio, made: type[Any], topic: str
) -> Callable[[Any], bytes]:
    """Confluent's, which registers the message's descriptor in base64 when it is first
    used."""
    client = SchemaRegistryClient({"url": registry.url})
    write = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    return lambda message: write(
        message, SerializationContext(topic, MessageField.VALUE)
    )


def test_twelve_versions_in_one_batch_over_three_partitions(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    broker.create_topic(topic, 3)
    classes = [message_of(version(number)) for number in range(VERSIONS)]
    write = [serializer(registry, made, topic) for made in classes]
    for made, each in zip(classes, write, strict=True):
        each(made(id=0))
    sent = [(id_ * 7 % VERSIONS, id_) for id_ in range(600)]
    values = [
        write[number](classes[number](**row(number, id_))) for number, id_ in sent
    ]
    assert values[0][5:7] == b"\2\2", "the second message of its file"
    broker.produce(
        topic,
        [Message(value, partition=number % 3) for number, value in enumerate(values)],
    )
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "protobuf",
        "registry": "schemas",
    }
    project.stream("orders", COLUMNS, message="shop.Order", key=["id"], **options)
    project.model("landed", "SELECT * FROM {orders}", mode="append")
    project.model("newest", "SELECT * FROM {orders}", mode="upsert", keys="id")
    ran = project.run().check()
    assert len(ran.of(BatchCommitted, "landed")) == 1
    wanted = [expected(number, id_) for number, id_ in sent]
    assert project.rows("landed", "id") == wanted
    assert project.rows("newest", "id") == wanted


MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }'
PRICED = (
    'syntax = "proto3"; package shop; import "shop/money.proto"; import "google/type/date.proto"; '
    "// What was bought.\nmessage Priced {\n// Its number.\nint32 id = 1; Money price = 2; google.type.Date day = 3; "
)


def test_a_contract_that_is_pulled_has_what_its_schema_refers_to(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("money", Schema(MONEY, "PROTOBUF"))
    reference = SchemaReference("shop/money.proto", "money", 1)
    first = client.register_schema(
        f"{topic}-value", Schema(f"{PRICED} }}", "PROTOBUF", [reference])
    )
    broker.create_topic(topic)
    project.stream(
        "priced",
        connection="broker",
        topic=topic,
        format="protobuf",
        registry="schemas",
    )
    project.model("landed", "SELECT * FROM {priced}", mode="append")
    changed = {
        each.path for each in pull_schemas(project.manifest(), ()) if each.is_changed
    }
    assert changed == {
        f"streams/schemas/{topic}-value.proto",
        f"streams/schemas/{topic}-value/shop/money.proto",
    }
    columns = project.manifest().streams["priced"].columns
    assert columns[0].description == "Its number."
    broker.produce(topic, [framed(first, b"\x08\x01\x12\x02\x08\x05")])
    project.run().check()
    price = {"cents": 5, "currency": ""}
    assert project.rows("landed") == [{"id": 1, "price": price, "day": None}]
    second = client.register_schema(
        f"{topic}-value",
        Schema(f"{PRICED} optional string note = 4; }}", "PROTOBUF", [reference]),
    )
    broker.produce(
        topic, [framed(second, b"\x08\x02\x22\x01n"), framed(first, b"\x08\x03")]
    )
    project.run().check()  # the new field is a column, before the file has it
    assert [(found["id"], found["note"]) for found in project.rows("landed", "id")] == [
        (1, None),
        (2, "n"),
        (3, None),
    ]
    assert any(each.is_changed for each in pull_schemas(project.manifest(), ()))
    broker.produce(
        topic, [framed(second, b"\x08\x04\x22\x01n"), framed(first, b"\x08\x05")]
    )
    project.run().check()
    assert [
        (each["id"], each["note"]) for each in project.rows("landed", "id")[3:]
    ] == [(4, "n"), (5, None)]


def test_a_contract_out_of_a_descriptor_in_base64(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    made = message_of(version(2))
    write = serializer(registry, made, topic)
    broker.create_topic(topic)
    broker.produce(topic, [Message(write(made(id=1, title="t", f0="a")), partition=0)])
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "protobuf",
        "registry": "schemas",
    }
    project.stream("orders", message="shop.Order", **options)
    project.model("landed", "SELECT * FROM {orders}", mode="append")
    (pulled,) = pull_schemas(project.manifest(), ())
    assert "message Order {" in (project.directory / pulled.path).read_text()
    project.run().check()
    assert project.rows("landed") == [
        {"id": 1, "title": "t", "f0": "a", "f1": "", "f2": ""}
    ]


def test_a_subject_of_another_kind_is_named(
    project: Project, registry: Apicurio
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("of_avro", Schema('"string"', "AVRO"))
    options = {
        "connection": "broker",
        "topic": "t",
        "format": "protobuf",
        "registry": "schemas",
    }
    project.stream("things", subject="of_avro", **options)
    with pytest.raises(ProfileError, match="unknown-subject"):
        pull_schemas(project.manifest(), ())
