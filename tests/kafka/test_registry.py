"""Records that Confluent's own client writes, through a real broker, with schemas in a
real registry."""

from __future__ import annotations

import json
import signal
import threading
import urllib.request
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from lakesql.errors import ProfileError, ProjectError
from lakesql.events import BatchCommitted, Retrying
from lakesql.run.samples.pull_schemas import PulledSchema, pull_schemas
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker, Message
from tests.spark.project import Project

VERSIONS = 20
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "name": "string",
    **{f"f{n}": "string" for n in range(VERSIONS)},
}


def version(number: int) -> dict[str, Any]:
    """Each version has one field more, the last one's id is wider, and its name is
    another one."""
    is_last = number == VERSIONS - 1
    name = (
        {"name": "name", "aliases": ["title"], "type": "string"}
        if is_last
        else {"name": "title", "type": "string"}
    )
    fields = [
        {"name": f"f{n}", "type": "string", "default": f"d{n}"}
        for n in range(number + 1)
    ]
    return {
        "type": "record",
        "name": "Thing",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long" if is_last else "int"}, name, *fields],
    }


def row(number: int, id_: int) -> dict[str, Any]:
    named = "name" if number == VERSIONS - 1 else "title"
    return {
        "id": id_,
        named: f"n{id_}",
        **{f"f{n}": f"{id_}-{n}" for n in range(number + 1)},
    }


def expected(number: int, id_: int) -> dict[str, Any]:
    said = {f"f{n}": f"{id_}-{n}" if n <= number else f"d{n}" for n in range(VERSIONS)}
    return {"id": id_, "name": f"n{id_}", **said}


def writers(registry: Apicurio, topic: str) -> list[Callable[[Any], bytes]]:
    """Confluent's serializers, which register their schemas when they are first
    used."""
    client = SchemaRegistryClient({"url": registry.url})
    at = SerializationContext(topic, MessageField.VALUE)
    made = [
        AvroSerializer(client, json.dumps(version(number)))
        for number in range(VERSIONS)
    ]
    return [lambda value, write=write: write(value, at) for write in made]  # type: ignore[misc]


def test_twenty_versions_in_one_batch_over_three_partitions(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    broker.create_topic(topic, 3)
    write = writers(registry, topic)
    for number in range(VERSIONS):
        write[number](row(number, 0))
    sent = [(id_ * 7 % VERSIONS, id_) for id_ in range(600)]
    broker.produce(
        topic,
        [
            Message(write[number](row(number, id_)), partition=id_ % 3)
            for number, id_ in sent
        ],
    )
    project.stream(
        "things",
        COLUMNS,
        connection="broker",
        topic=topic,
        format="avro",
        registry="schemas",
        key=["id"],
    )
    project.model("landed", "SELECT * FROM {things}", mode="append")
    project.model("newest", "SELECT * FROM {things}", mode="upsert", keys="id")
    ran = project.run().check()
    assert len(ran.of(BatchCommitted, "landed")) == 1
    wanted = [expected(number, id_) for number, id_ in sent]
    assert project.rows("landed", "id") == wanted
    assert project.rows("newest", "id") == wanted


def test_a_registry_that_is_away_is_asked_again_and_nothing_is_lost(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    broker.create_topic(topic, 3)
    write = writers(registry, topic)
    columns = {"id": "bigint", "title": "string", "f0": "string"}
    project.stream(
        "things",
        columns,
        connection="broker",
        topic=topic,
        format="avro",
        registry="schemas",
    )
    project.model("landed", "SELECT * FROM {things}", mode="append")
    broker.produce(
        topic, [Message(write[0](row(0, id_)), partition=id_ % 3) for id_ in range(30)]
    )
    project.run().check()
    broker.produce(
        topic,
        [
            Message(write[id_ % 3](row(id_ % 3, id_)), partition=id_ % 3)
            for id_ in range(30, 60)
        ],
    )
    registry.signal(signal.SIGSTOP)
    timer = threading.Timer(60, lambda: registry.signal(signal.SIGCONT))
    timer.start()
    try:
        ran = project.run().check()
    finally:
        timer.cancel()
        registry.signal(signal.SIGCONT)
    retried = ran.of(Retrying, "landed")
    assert {problem.condition for event in retried for problem in event.problems} == {
        "registry-unreachable"
    }
    assert [found["id"] for found in project.rows("landed", "id")] == [*range(60)]
    registry.signal(signal.SIGSTOP)
    try:
        broker.produce(
            topic, [Message(framed, partition=0) for framed in [write[1](row(1, 60))]]
        )
        project.run().check()  # of an id that is known, nobody is asked
    finally:
        registry.signal(signal.SIGCONT)
    assert len(project.rows("landed")) == 61


def test_schemas_that_refer_to_others(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "shop.types",
        "fields": [{"name": "cents", "type": "long"}],
    }
    client.register_schema("money", Schema(json.dumps(money), "AVRO"))
    order = {
        "type": "record",
        "name": "Priced",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "price", "type": "shop.types.Money"},
        ],
    }
    reference = SchemaReference("shop.types.Money", "money", 1)
    id_ = client.register_schema(
        f"{topic}-value", Schema(json.dumps(order), "AVRO", [reference])
    )
    broker.create_topic(topic)
    broker.produce(topic, [b"\0" + id_.to_bytes(4, "big") + b"\x02\x0a"])
    columns = {"id": "bigint", "price": "struct<cents:bigint>"}
    project.stream(
        "priced",
        columns,
        connection="broker",
        topic=topic,
        format="avro",
        registry="schemas",
    )
    project.model(
        "landed", "SELECT id, price.cents AS cents FROM {priced}", mode="append"
    )
    project.run().check()
    assert project.rows("landed") == [{"id": 1, "cents": 5}]


def test_a_contract_that_is_pulled_follows_the_subject(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    broker.create_topic(topic)
    write = writers(registry, topic)
    project.stream(
        "things", connection="broker", topic=topic, format="avro", registry="schemas"
    )
    project.model("landed", "SELECT * FROM {things}", mode="append")
    broker.produce(topic, [write[0](row(0, 1))])
    with pytest.raises(ProjectError, match="no-columns"):
        project.run()
    (pulled,) = pull_schemas(project.manifest(), ())
    assert pulled == PulledSchema(
        f"streams/schemas/{topic}-value.avsc", is_changed=True
    )
    assert pull_schemas(project.manifest(), ["things"]) == [
        PulledSchema(pulled.path, is_changed=False)
    ]
    project.run().check()
    assert project.rows("landed") == [{"id": 1, "title": "n1", "f0": "1-0"}]
    broker.produce(topic, [write[2](row(2, 2))])
    project.run().check()  # the new fields are columns, before the file has them
    assert project.rows("landed", "id")[1] == {
        "id": 2,
        "title": "n2",
        "f0": "2-0",
        "f1": "2-1",
        "f2": "2-2",
    }
    assert pull_schemas(project.manifest(), ()) == [pulled]
    broker.produce(topic, [write[0](row(0, 3)), write[2](row(2, 4))])
    project.run().check()
    assert project.rows("landed", "id")[2:] == [
        {"id": 3, "title": "n3", "f0": "3-0", "f1": "d1", "f2": "d2"},
        {"id": 4, "title": "n4", "f0": "4-0", "f1": "4-1", "f2": "4-2"},
    ]


def test_global_ids_in_headers_are_resolved_by_apicurio(
    project: Project, broker: Broker, registry: Apicurio, topic: str
) -> None:
    """The same content under two subjects has two global ids, none of which is its
    content id."""
    client = SchemaRegistryClient({"url": registry.url})
    subjects = [f"{topic}-other", f"{topic}-value"]
    contents = {
        client.register_schema(subject, Schema(json.dumps(version(0)), "AVRO"))
        for subject in subjects
    }
    newer = client.register_schema(subjects[1], Schema(json.dumps(version(1)), "AVRO"))
    numbers = {}
    for subject in subjects:
        with urllib.request.urlopen(
            f"{registry.own_url}/v3/groups/default/artifacts/{subject}/versions"
        ) as answer:
            for each in json.load(answer)["versions"]:
                numbers[subject, each["contentId"]] = each["globalId"]
    assert len(contents) == 1 and len({*numbers.values()} - contents) >= 2

    def sent(number: int, global_id: int, id_: int) -> Message:
        body = BytesIO()
        fastavro.schemaless_writer(
            body, fastavro.parse_schema(version(number)), row(number, id_)
        )
        headers = (("apicurio.value.globalId", global_id.to_bytes(8, "big")),)
        return Message(body.getvalue(), headers=headers)

    broker.create_topic(topic)
    old = [
        sent(0, global_id, at)
        for at, ((_, id_), global_id) in enumerate(numbers.items())
        if id_ in contents
    ]
    broker.produce(
        topic, [*old, sent(1, numbers[subjects[1], newer], 9), sent(0, 10**6, 10)]
    )
    columns = {"id": "bigint", "title": "string", "f0": "string", "f1": "string"}
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "avro",
        "registry": "schemas",
    }
    project.stream("things", columns, wire="apicurio_headers", **options)
    project.model("landed", "SELECT * FROM {things}", mode="append")
    project.run().check()
    found = {each["id"]: (each["f0"], each["f1"]) for each in project.rows("landed")}
    assert found == {
        **{at: (f"{at}-0", "d1") for at in range(len(old))},
        9: ("9-0", "9-1"),
    }
    (letter,) = project.rows("landed__dead_letter")
    assert letter["detail"] == "schema of global id 1000000 is not in the registry"


def test_a_subject_that_is_not_there_is_named(
    project: Project, registry: Apicurio
) -> None:
    options = {
        "connection": "broker",
        "topic": "t",
        "format": "avro",
        "registry": "schemas",
    }
    project.stream("things", subject="nothing", **options)
    with pytest.raises(ProfileError, match="unknown-subject"):
        pull_schemas(project.manifest(), ())
