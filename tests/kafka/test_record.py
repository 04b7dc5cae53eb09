"""`lakesql record`: what a broker has, and what the same project makes of its
recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from lakesql.cli.main import run_command
from tests.kafka.test_registry import row, version
from tests.kafka.test_streams import AVRO, AVRO_COLUMNS, avro, value
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker, Message
from tests.spark.project import Project
from tests.spark.test_registry import framed

COLUMNS = {"id": {"type": "bigint", "required": True}, "name": "string"}


@pytest.fixture
def project(
    new_project: Callable[[], Project], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project with two targets: `prod` reads the broker, `dev` what is recorded of
    it."""
    project = new_project()
    write_targets(project, broker)
    monkeypatch.chdir(project.directory)
    return project


def write_targets(
    project: Project, broker: Broker, dev: Any = None, prod: Any = None
) -> None:
    project.connections = {
        "broker": {"type": "recorded", "path": "recorded"},
        **(dev or {}),
    }
    project.manifest()
    profiles = json.loads((project.directory / "profiles.yml").read_text())
    outputs = profiles["p"]["outputs"]
    connection = {"type": "kafka", "bootstrap_servers": broker.servers}
    outputs["prod"] = {
        **outputs["dev"],
        "connections": {"broker": connection, **(prod or {})},
    }
    (project.directory / "profiles.yml").write_text(json.dumps(profiles))


def lines(project: Project, topic: str) -> list[dict[str, Any]]:
    (file,) = (project.directory / "recorded" / topic).glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def record(*arguments: str) -> int:
    return run_command(["record", *arguments, "--target", "prod"])


def test_a_recording_gives_the_same_rows(project: Project, broker: Broker) -> None:
    broker.create_topic("recorded.all", 2)
    sent = [
        Message(
            b'{"id": 1, "name": "\xc3\xa9"}',
            b"k",
            (("a", b"1"), ("b", None), ("c", b"\xff")),
            0,
            1_772_400_000_001,
        ),
        Message(
            b'{"id":2,\n"name":"x", "price": 1.50}', b"\xfe", (), 1, 1_772_400_000_002
        ),
        Message(b"\xff\xfe", None, (), 1, 1_772_400_000_003),
        Message(b"broken", None, (), 0, 1_772_400_000_004),
        Message(None, b"k", (), 1, 1_772_400_000_005),
        Message(b"", b"", (), 1, 1_772_400_000_006),
    ]
    broker.produce("recorded.all", sent)
    project.stream("raw", connection="broker", topic="recorded.all", format="bytes")
    project.stream(
        "s",
        {**COLUMNS, "price": "decimal(9,2)"},
        connection="broker",
        topic="recorded.all",
    )
    fields = ", ".join(
        f"_record.{name} AS {name}"
        for name in ("topic", "partition", "offset", "timestamp", "key")
    )
    array = "coalesce(_record.headers, array()) AS headers"
    project.model(
        "raws", f"SELECT value, {fields}, {array} FROM {{raw}}", mode="append"
    )
    project.model("landed", "SELECT * FROM {s}", mode="append")
    assert record("raw") == 0
    assert len(lines(project, "recorded.all")) == 6

    project.run().check()
    recorded = {
        name: project.rows(name)
        for name in ("raws", "landed", "raws__dead_letter", "landed__dead_letter")
    }
    project.namespace, project.checkpoints = f"{project.namespace}_live", "live"
    project._target["namespace"] = project.namespace
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    project.run().check()
    for name, rows in recorded.items():
        assert [without_time(row) for row in rows] == [
            without_time(row) for row in project.rows(name)
        ], name
    assert [row["id"] for row in recorded["landed"]] == [1, 2]

    write_targets(project, broker)
    assert record("s", "--replace") == 0
    assert (
        sum(
            isinstance(line.get("value"), dict)
            for line in lines(project, "recorded.all")
        )
        == 1
    )
    project.namespace, project.checkpoints = f"{project.namespace}_json", "json"
    project._target["namespace"] = project.namespace
    project.connections = {"broker": {"type": "recorded", "path": "recorded"}}
    project.run("landed").check()
    assert project.rows("landed") == recorded["landed"]
    assert {row["value"] for row in recorded["landed__dead_letter"]} == {
        b"\xff\xfe",
        b"broken",
        None,
        b"",
    }


def without_time(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: each for key, each in row.items() if key not in ("rejected_at", "batch")
    }


def test_a_recording_of_n_rows_takes_the_newest_of_each_partition(
    project: Project, broker: Broker
) -> None:
    broker.create_topic("recorded.many", 3)
    broker.produce(
        "recorded.many",
        [Message(value(number), partition=number % 3) for number in range(60)],
    )
    project.stream("s", COLUMNS, connection="broker", topic="recorded.many")
    assert record("s", "--rows", "9") == 0
    found = lines(project, "recorded.many")
    assert sorted(line["value"]["id"] for line in found) == list(range(51, 60))
    assert sorted((line["partition"], line["offset"]) for line in found) == [
        (partition, offset) for partition in range(3) for offset in range(17, 20)
    ]


def test_a_recording_is_replaced_only_when_asked(
    project: Project, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("recorded.twice")
    broker.produce("recorded.twice", [value(1)])
    project.stream("s", COLUMNS, connection="broker", topic="recorded.twice")
    old = project.write("recorded/recorded.twice/part-1.jsonl", "{}\n")
    assert record("s", "--log-format", "json") == 2
    assert "recording-exists" in capsys.readouterr().err
    assert old.read_text() == "{}\n"
    assert record("s", "--replace") == 0
    assert [line["value"]["id"] for line in lines(project, "recorded.twice")] == [1]


def test_a_recording_is_removed_where_no_record_of_the_topic_can_be_masked(
    project: Project, broker: Broker
) -> None:
    broker.create_topic("recorded.bare")
    broker.produce("recorded.bare", [b"Ada Lovelace"])
    project.stream("s", COLUMNS, connection="broker", topic="recorded.bare")
    old = project.write("recorded/recorded.bare/part-1.jsonl", "unmasked\n")
    record("s", "--mask", "name", "--replace")
    assert not old.exists()


def test_masked_values_are_equal_across_topics_keys_and_values(
    project: Project, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "jars").mkdir(parents=True)
    broker.create_topic("recorded.people")
    broker.create_topic("recorded.orders")
    people = [
        Message(json.dumps({"id": 7, "name": f"Ada {number}"}).encode(), b"7")
        for number in range(2)
    ]
    broker.produce(
        "recorded.people", [*people, b"Ada 3", Message(None, b"7"), Message(None, b"8")]
    )
    broker.produce("recorded.orders", [b'{"id": 1, "person_id": 7, "name": "Ada 0"}'])
    project.stream("people", COLUMNS, connection="broker", topic="recorded.people")
    columns = {**COLUMNS, "person_id": "bigint"}
    project.stream("orders", columns, connection="broker", topic="recorded.orders")
    assert record("people", "--mask", "id", "--mask", "name") == 0
    assert record("orders", "--mask", "person_id", "--mask", "name") == 0
    found, (order,) = (
        lines(project, "recorded.people"),
        lines(project, "recorded.orders"),
    )
    # nothing tells whether 8 is somebody
    assert len(found) == 3 and found[2]["key"] == found[0]["key"]
    assert (
        found[0]["value"]["id"]
        == found[1]["value"]["id"]
        == int(found[0]["key"])
        == order["value"]["person_id"]
    )
    assert (
        found[0]["value"]["name"] == order["value"]["name"] != found[1]["value"]["name"]
    )
    everything = "".join(
        file.read_text() for file in (project.directory / "recorded").rglob("*.jsonl")
    )
    assert "Ada" not in everything and order["value"]["id"] == 1


def test_avro_is_recorded_in_base64(project: Project, broker: Broker) -> None:
    broker.create_topic("recorded.avro")
    broker.produce(
        "recorded.avro",
        [avro(1, 1999, None, [(2, "lamp")], 1), avro(300, -1, 0, [], 0)],
    )
    project.write("schemas/order.avsc", json.dumps(AVRO))
    options = {
        "connection": "broker",
        "topic": "recorded.avro",
        "format": "avro",
        "schema": "schemas/order.avsc",
    }
    project.stream("s", AVRO_COLUMNS, **options)
    project.model("landed", "SELECT order_id, status FROM {s}", mode="append")
    assert record("s") == 0
    project.run().check()
    rows = [
        (row["order_id"], row["status"]) for row in project.rows("landed", "order_id")
    ]
    assert rows == [(1, "PAID"), (300, "NEW")]


UNIT_TEST = """
unit_tests:
  - name: doubled
    model: landed
    given: [{stream: s, batches: [[{id: 7, k: eu, f0: x}]]}]
    expect: {rows: [{id: 7, k: eu, f0: x}]}
"""


@pytest.mark.parametrize("wire", ["confluent", "apicurio_headers"])
def test_a_recording_has_the_schemas_that_its_records_name(
    project: Project,
    broker: Broker,
    registry: Apicurio,
    wire: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is recorded compiles, is tested and runs without broker and registry: the
    contract is pulled, and ids that stand for nothing stay dead letters."""
    topic = f"recorded.{wire}"
    connections = {"schemas": {"type": "registry", "path": "recorded/_schemas"}}
    write_targets(
        project,
        broker,
        connections,
        {"schemas": {"type": "registry", "url": registry.url}},
    )
    client = SchemaRegistryClient({"url": registry.url})
    schemas = [json.dumps(version(number)) for number in range(2)]
    ids = [
        client.register_schema(f"{topic}-value", Schema(text, "AVRO"))
        for text in schemas
    ]
    key_id = client.register_schema(f"{topic}-key", Schema('"string"', "AVRO"))

    def sent(number: int, id_: int, schema_id: int) -> Message:
        body = BytesIO()
        fastavro.schemaless_writer(
            body, fastavro.parse_schema(version(number)), row(number, id_)
        )
        if wire == "confluent":
            return Message(framed(schema_id, body.getvalue()), framed(key_id, b"\4eu"))
        named = {"value": schema_id, "key": key_id}
        headers = tuple(
            (f"apicurio.{side}.contentId", each.to_bytes(8, "big"))
            for side, each in named.items()
        )
        return Message(body.getvalue(), b"\4eu", headers)

    broker.create_topic(topic)
    broker.produce(topic, [sent(0, 1, ids[0]), sent(1, 2, ids[1]), sent(0, 3, 10**6)])
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "avro",
        "registry": "schemas",
        "wire": wire,
    }
    project.stream("pulled", **options)
    project.stream(
        "s",
        {"id": "bigint", "f0": "string", "k": {"type": "string", "in": "key"}},
        key_format="avro",
        **options,
    )
    project.model("landed", "SELECT id, k, f0 FROM {s}", mode="append")
    project.model("copied", "SELECT id, title, f0, f1 FROM {pulled}", mode="append")
    assert record("s") == 0 and record("pulled", "--replace") == 0
    written = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert {
        f"{each}.avsc" for each in (*ids, key_id)
    } < written and f"{topic}-value.avsc" in written
    project.write("models/tests.yml", UNIT_TEST)
    assert run_command(["test", "--select", "landed", "--target", "dev"]) == 0
    project.run().check()
    assert project.rows("landed", "id") == [
        {"id": at, "k": "eu", "f0": f"{at}-0"} for at in (1, 2)
    ]
    assert [(found["f0"], found["f1"]) for found in project.rows("copied", "id")] == [
        ("1-0", "d1"),
        ("2-0", "2-1"),
    ]
    assert project.reasons("landed") == project.reasons("copied") == {"unparsable": 1}


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["none"], "unknown-stream"),
        (["s", "--mask", "nam"], "unknown-column"),
        (["s", "--mask", "at"], "wrong-type"),
        (["text", "--mask", "value"], "usage"),
        (["s"], "unknown-topic"),
        (["s", "--target", "dev"], "not-a-topic"),
        (["s", "--rows", "0"], "usage"),
    ],
)
@pytest.mark.usefixtures("plain_py4j")
def test_a_recording_that_is_impossible_is_refused_and_writes_nothing(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    condition: str,
) -> None:
    project.stream(
        "s", {**COLUMNS, "at": "timestamp"}, connection="broker", topic="recorded.none"
    )
    project.stream("text", connection="broker", topic="recorded.none", format="string")
    target = [] if "--target" in arguments else ["--target", "prod"]
    assert run_command(["record", *arguments, *target, "--log-format", "json"]) in (
        1,
        2,
    )
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["condition"] for line in said if line["event"] == "problem"] == [
        condition
    ], said
    assert not (project.directory / "recorded").exists()
