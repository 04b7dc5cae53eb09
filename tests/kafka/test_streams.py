"""Streams of a real broker: which records are read, what of them, in which batches."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.batch.sample import preview_rows
from lakesql.engine.sources.broker import Brokers
from lakesql.errors import ProjectError
from lakesql.events import BatchCommitted, Noted, Progress, StreamEmpty
from lakesql.run.streams.bind import bind_select
from tests.servers.broker import STORE_PASSWORD, Broker, Message, jaas
from tests.servers.process import free_ports
from tests.spark.project import Project

COLUMNS = {"id": {"type": "bigint", "required": True}, "name": "string"}


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    """An empty project whose connection is the broker."""
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return str(request.node.name).replace("[", "-").replace("]", "")


def value(id_: int, name: str | None = None) -> bytes:
    return json.dumps({"id": id_, "name": name}).encode()


def ids(project: Project, name: str = "landed") -> list[int]:
    return [row["id"] for row in project.rows(name, "id")]


def test_record_fields_and_headers_arrive_as_they_were_sent(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    headers = (("trace", b"a1"), ("trace", b"\xff\x00"), ("none", None))
    sent = [
        Message(value(1, "Ada"), b"k1", headers, 0, 1_772_400_000_123),
        Message(value(2), None, (), 1, 1_772_400_001_000),
        Message(value(3), b"\xfe", (), 1, 1_772_400_002_000),
    ]
    broker.produce(topic, sent)
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    fields = ", ".join(
        f"_record.{name} AS {name}" for name in ("topic", "partition", "key", "headers")
    )
    project.model(
        "landed",
        f"SELECT id, {fields}, _record.offset AS at, _record.timestamp AS time FROM {{s}}",
        mode="append",
    )
    project.run().check()
    rows = project.rows("landed", "id")
    assert [
        (row["id"], row["topic"], row["partition"], row["at"], row["key"])
        for row in rows
    ] == [
        (1, topic, 0, 0, b"k1"),
        (2, topic, 1, 0, None),
        (3, topic, 1, 1, b"\xfe"),
    ]
    assert [row["time"].timestamp() for row in rows] == [
        1_772_400_000.123,
        1_772_400_001,
        1_772_400_002,
    ]
    assert rows[0]["headers"] == [
        {"key": "trace", "value": b"a1"},
        {"key": "trace", "value": b"\xff\x00"},
        {"key": "none", "value": None},
    ]
    assert not rows[1]["headers"]


def test_late_records_are_dead_letters_with_their_offsets(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    columns = {"id": "bigint", "at": "timestamp"}
    project.stream(
        "s",
        columns,
        connection="broker",
        topic=topic,
        watermark={"column": "at", "delay": "1 minute"},
        max_per_batch=4,
    )
    select = "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM {s} GROUP BY 1"
    project.model("m", select, mode="upsert", keys=["hour"], late="dead_letter")

    def produce(*hours: int) -> None:
        sent = [
            json.dumps({"id": hour, "at": f"2026-03-01T{hour:02}:00:00Z"}).encode()
            for hour in hours
        ]
        broker.produce(
            topic,
            [
                Message(each, b"key", (), hour % 2)
                for each, hour in zip(sent, hours, strict=True)
            ],
        )

    produce(12, 15)
    project.run().check()
    produce(10, 16, 9, 17, 11)
    project.run().check()
    letters = project.rows("m__dead_letter", "offset")
    assert {
        (row["partition"], row["offset"], row["reason"], row["key"]) for row in letters
    } == {
        (0, 1, "late", b"key"),
        (1, 1, "late", b"key"),
        (1, 3, "late", b"key"),
    }
    assert sum(row["n"] for row in project.rows("m")) == 4


def test_an_unreadable_record_is_a_dead_letter_with_its_bytes(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    bad = [b'{"id": 1', b"\xff\xfe", None, b'{"name": "x"}']
    broker.produce(
        topic, [value(1), *(Message(each, b"key") for each in bad), value(2)]
    )
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    assert project.run().check().finished("landed").rejected == 4
    assert ids(project) == [1, 2]
    letters = project.rows("landed__dead_letter", "offset")
    assert [
        (row["offset"], row["reason"], row["value"], row["key"]) for row in letters
    ] == [
        (1, "unparsable", bad[0], b"key"),
        (2, "unparsable", bad[1], b"key"),
        (3, "tombstone", None, b"key"),
        (4, "required-missing", bad[3], b"key"),
    ]


@pytest.mark.parametrize("format_", ["string", "bytes", "csv"])
def test_string_bytes_and_csv_values_are_read(
    project: Project, broker: Broker, topic: str, format_: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [b"1,one", b"2,\xff"])
    columns = {"id": "bigint", "name": "string"} if format_ == "csv" else None
    project.stream("s", columns, connection="broker", topic=topic, format=format_)
    project.model("landed", "SELECT * FROM {s}", mode="append")
    project.run().check()
    assert [tuple(row.values()) for row in project.rows("landed")] == {
        "string": [("1,one",), ("2,\ufffd",)],
        "bytes": [(b"1,one",), (b"2,\xff",)],
        "csv": [(1, "one")],
    }[format_]
    assert project.reasons("landed") == ({"unparsable": 1} if format_ == "csv" else {})


def test_topics_are_read_by_list_and_by_pattern(
    project: Project, broker: Broker, topic: str
) -> None:
    for number, name in enumerate(("eu", "us", "other"), start=1):
        broker.create_topic(f"{topic}.{name}")
        broker.produce(f"{topic}.{name}", [value(number)])
    project.stream(
        "listed", COLUMNS, connection="broker", topics=[f"{topic}.eu", f"{topic}.other"]
    )
    project.stream(
        "matched", COLUMNS, connection="broker", pattern=rf"{topic}\.(eu|us|new)"
    )
    # in which the pattern is found, and which are not meant
    for other in (f"x{topic}.eu", f"{topic}.eu.dlq"):
        broker.create_topic(other, 1)
        broker.produce(other, [Message(value(99))])
    for name in ("listed", "matched"):
        project.model(f"from_{name}", f"SELECT id FROM {{{name}}}", mode="append")
    project.run().check()
    assert ids(project, "from_listed") == [1, 3]
    assert ids(project, "from_matched") == [1, 2]

    broker.create_topic(f"{topic}.new")
    broker.produce(f"{topic}.new", [value(4)])
    project.run().check()
    assert ids(project, "from_listed") == [1, 3]
    assert ids(project, "from_matched") == [1, 2, 4]


def test_each_start_reads_the_records_from_there_on(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    for number in range(1, 5):
        time = datetime(2026, 3, number, tzinfo=UTC)
        broker.produce(
            topic,
            [
                Message(
                    value(number),
                    partition=0,
                    timestamp_ms=int(time.timestamp() * 1000),
                )
            ],
        )
    starts = {
        "earliest": "earliest",
        "latest": "latest",
        "time": "2026-03-03T00:00:00Z",
        "none": "2026-03-05",
    }
    for name, start in starts.items():
        project.stream(name, COLUMNS, connection="broker", topic=topic, start=start)
        project.model(f"from_{name}", f"SELECT id FROM {{{name}}}", mode="append")
    project.run().check()
    assert ids(project, "from_earliest") == [1, 2, 3, 4]
    assert ids(project, "from_time") == [3, 4]
    broker.produce(
        topic, [Message(value(5), partition=0), Message(value(6), partition=1)]
    )
    project.run().check()
    assert ids(project, "from_earliest") == [1, 2, 3, 4, 5, 6]
    assert ids(project, "from_time") == [3, 4, 5, 6]
    assert ids(project, "from_latest") == ids(project, "from_none") == [5, 6]


def test_a_start_that_is_still_to_come_is_refused(
    project: Project, broker: Broker, topic: str
) -> None:
    """Whatever arrives before then would be read, as if it were of that time."""
    broker.create_topic(topic)
    soon = datetime.now(UTC) + timedelta(days=1)
    project.stream(
        "s", COLUMNS, connection="broker", topic=topic, start=soon.isoformat()
    )
    project.model("landed", "SELECT id FROM {s}", mode="append")
    for _ in range(2):
        assert project.run().conditions("landed") == ["bad-start"]
        broker.produce(topic, [value(1)])


def test_a_preview_from_a_time_on_passes_over_partitions_without_a_record_that_young(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    for number in range(1, 5):
        at_ms = int(datetime(2026, 3, number, tzinfo=UTC).timestamp() * 1000)
        broker.produce(
            topic, [Message(value(number), partition=number % 2, timestamp_ms=at_ms)]
        )
    for start, expected in (
        ("2026-03-02", [2, 3, 4]),
        ("2026-03-04", [4]),
        ("2026-03-05", []),
    ):
        project.stream("s", COLUMNS, connection="broker", topic=topic, start=start)
        project.model("landed", "SELECT id FROM {s}", mode="append")
        manifest = project.manifest()
        bound = bind_select(manifest, build_select(manifest, "landed"))
        columns, rows, count, rejected = preview_rows(
            project.lake.session, bound.select, bound.bindings, 10, Brokers()
        )
        assert (columns, count, rejected) == (("id",), len(expected), ())
        assert sorted(id_ for (id_,) in rows) == expected


def test_records_behind_an_open_transaction_are_told(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [value(1)])
    held = broker.begin_transaction(topic, [value(2)])
    broker.produce(topic, [value(3), value(4)])
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    (noted,) = [
        event.text
        for event in project.run().check().of(Noted)
        if "transaction" in event.text
    ]
    assert f"3 offsets of {topic}-0, from 1 on" in noted
    assert ids(project) == [1]
    held.abort_transaction(30)
    assert [
        event
        for event in project.run().check().of(Noted)
        if "transaction" in event.text
    ] == []
    assert ids(project) == [1, 3, 4]


def test_max_per_batch_limits_a_batch(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 3)
    broker.produce(
        topic, [Message(value(number), partition=number % 3) for number in range(90)]
    )
    project.stream("s", COLUMNS, connection="broker", topic=topic, max_per_batch=30)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    ran = project.run().check()
    assert [event.records for event in ran.of(BatchCommitted)] == [30, 30, 30]
    assert ids(project) == list(range(90))
    assert project.run().check().of(BatchCommitted) == []


def test_a_small_rest_makes_no_batch_of_its_own(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    broker.produce(
        topic, [Message(value(number), partition=number % 2) for number in range(2_100)]
    )
    project.stream("s", COLUMNS, connection="broker", topic=topic, max_per_batch=1_000)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    assert [event.records for event in project.run().check().of(BatchCommitted)] == [
        1_050,
        1_050,
    ]
    broker.produce(
        topic, [Message(value(number), partition=0) for number in range(2_100, 2_110)]
    )
    assert [event.records for event in project.run().check().of(BatchCommitted)] == [10]
    assert ids(project) == list(range(2_110))


def test_a_topic_without_records_is_told(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    (told,) = project.run().check().of(StreamEmpty)
    assert (told.model, told.stream, told.why) == (
        "landed",
        "s",
        f"there is no record in {topic}",
    )
    ran = project.run(fail_if_empty=True)
    assert not ran.succeeded and ran.conditions("landed") == ["stream-empty"]
    broker.produce(topic, [value(1)])
    assert project.run(fail_if_empty=True).check().of(StreamEmpty) == []
    assert project.run(fail_if_empty=True).check().finished("landed").records == 0
    assert ids(project) == [1]


def test_partitions_added_during_a_run_are_read(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [value(1), value(2)])
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model(
        "landed",
        "SELECT id, _record.partition AS partition FROM {s}",
        mode="append",
        trigger="1 second",
    )
    seen: list[int] = []

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted):
            seen.append(event.records)
            if len(seen) == 1:
                broker.add_partitions(topic, 3)
                # At once, before anybody has seen the new partitions: they are read
                # from their beginning.
                added = [
                    Message(value(2 + number), partition=number) for number in (1, 2)
                ]
                broker.produce(
                    topic, added, **{"topic.metadata.refresh.interval.ms": "100"}
                )

    project.run(continuous=True, meet=meet, until=lambda: sum(seen) >= 4).check()
    assert [(row["id"], row["partition"]) for row in project.rows("landed", "id")] == [
        (1, 0),
        (2, 0),
        (3, 1),
        (4, 2),
    ]


def test_only_committed_transactions_are_read_unless_the_connection_says_otherwise(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [value(1)])
    broker.begin_transaction(topic, [value(2)]).abort_transaction(30)
    broker.begin_transaction(topic, [value(3)]).commit_transaction(30)
    held = broker.begin_transaction(topic, [value(4)])
    project.connections = {
        **project.connections,
        "all_of_it": {
            "type": "kafka",
            "bootstrap_servers": broker.servers,
            "options": {"isolation.level": "read_uncommitted"},
        },
    }
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.stream("t", COLUMNS, connection="all_of_it", topic=topic)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    project.model("everything", "SELECT id FROM {t}", mode="append")
    project.run().check()
    assert ids(project) == [1, 3]
    assert ids(project, "everything") == [1, 2, 3, 4]
    held.commit_transaction(30)
    project.run().check()
    assert ids(project) == [1, 3, 4]


def test_credentials_and_certificates_of_a_connection_are_used(
    project: Project, broker: Broker, topic: str
) -> None:
    modules = {"PLAIN": "plain.Plain", "SCRAM-SHA-512": "scram.Scram"}
    servers: dict[str, tuple[str, dict[str, str]]] = {
        mechanism.split("-")[0].lower(): (
            broker.sasl_servers,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": jaas(module=module),
            },
        )
        for mechanism, module in modules.items()
    }
    servers["ssl"] = (
        broker.ssl_servers,
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(broker.trust_store),
            "ssl.truststore.password": STORE_PASSWORD,
        },
    )
    project.connections = {
        name: {"type": "kafka", "bootstrap_servers": address, "options": options}
        for name, (address, options) in servers.items()
    }
    broker.create_topic(topic)
    broker.produce(topic, [value(1)])
    for name in servers:
        project.stream(name, COLUMNS, connection=name, topic=topic)
        project.model(f"by_{name}", f"SELECT id FROM {{{name}}}", mode="append")
    project.run().check()
    assert [ids(project, f"by_{name}") for name in servers] == [[1]] * 3


def test_a_stateful_model_aggregates_and_writes_its_dead_letters(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    broker.produce(
        topic,
        [value(number, "even" if number % 2 == 0 else "odd") for number in range(10)],
    )
    broker.produce(topic, [b"broken"])
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model(
        "counted",
        "SELECT name, count(*) AS times, max(id) AS last FROM {s} GROUP BY name",
        mode="upsert",
        keys=["name"],
    )
    project.run().check()
    assert project.rows("counted", "name") == [
        {"name": "even", "times": 5, "last": 8},
        {"name": "odd", "times": 5, "last": 9},
    ]
    assert project.reasons("counted") == {"unparsable": 1}


def test_the_ledger_keeps_where_each_partition_stands(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    broker.produce(
        topic, [Message(value(number), partition=number % 2) for number in range(5)]
    )
    project.stream("s", COLUMNS, connection="broker", topic=topic)
    project.model("landed", "SELECT id FROM {s}", mode="append")
    project.run().check()
    (summary,) = project.summaries("landed")
    assert json.loads(summary["lakesql.offsets"])["s"] == {topic: {"0": 3, "1": 2}}


def test_a_topic_that_is_not_there_is_named_before_anything_is_made(
    project: Project, broker: Broker
) -> None:
    broker.create_topic("parcels")
    project.stream("s", COLUMNS, connection="broker", topic="parcel")
    project.model("landed", "SELECT id FROM {s}", mode="append")
    ran = project.run()
    assert ran.conditions("landed") == ["unknown-topic"]
    (problem,) = ran.finished("landed").problems
    assert (
        "'parcels'" in problem.fix
        and problem.place is not None
        and problem.place.path == "streams/s.yml"
    )
    assert not project.has("landed")


def test_what_is_wrong_with_a_connection_is_said_before_anything_is_made(
    project: Project, broker: Broker
) -> None:
    broker.create_topic("mailboxes")
    (closed,) = free_ports(1)
    wrong = {
        "connection-unreachable": (f"127.0.0.1:{closed}", {}),
        "wrong-credentials": (
            broker.sasl_servers,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": jaas("wrong"),
            },
        ),
        "certificate-untrusted": (broker.ssl_servers, {"security.protocol": "SSL"}),
    }
    project.stream("s", COLUMNS, connection="broker", topic="mailboxes")
    project.model("landed", "SELECT id FROM {s}", mode="append")
    for condition, (servers, options) in wrong.items():
        project.connections = {
            "broker": {
                "type": "kafka",
                "bootstrap_servers": servers,
                "options": options,
            }
        }
        ran = project.run()
        assert ran.conditions("landed") == [condition]
        (problem,) = ran.finished("landed").problems
        assert servers in problem.what and problem.fix
        assert (
            not project.has("landed")
            and not (project.directory / "checkpoints" / "landed").exists()
        )


AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {
            "name": "amount",
            "type": {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": 12,
                "scale": 2,
            },
        },
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "times", "type": "int"},
                        {"name": "sku", "type": "string"},
                    ],
                },
            },
        },
        {
            "name": "status",
            "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]},
        },
        {"name": "weight", "type": "double"},
    ],
}
AVRO_COLUMNS = {
    "order_id": {"type": "int", "required": True},  # the topic has longs
    "status": "string",
    "amount": "decimal(12,2)",
    "at": "timestamp",
    "lines": "array<struct<sku:string,times:bigint>>",  # in another order
    "weight": "double",
}


def avro(
    order_id: int,
    cents: int,
    micros: int | None,
    lines: list[tuple[int, str]],
    status: int,
    weight: float = 1,
) -> bytes:
    """An order, written by hand."""

    def long(number: int) -> bytes:
        zigzag, written = (number << 1) ^ (number >> 63), b""
        while zigzag > 127:
            written, zigzag = written + bytes([zigzag & 127 | 128]), zigzag >> 7
        return written + bytes([zigzag])

    def sized(content: bytes) -> bytes:
        return long(len(content)) + content

    items = b"".join(long(times) + sized(sku.encode()) for times, sku in lines)
    return (
        long(order_id)
        + sized(cents.to_bytes(4, "big", signed=True))
        + (long(0) if micros is None else long(1) + long(micros))
        + (long(len(lines)) + items if lines else b"")
        + long(0)
        + long(status)
        + struct.pack("<d", weight)
    )


def test_avro_records_are_read_and_malformed_ones_are_dead_letters(
    project: Project, broker: Broker, topic: str
) -> None:
    good = [
        avro(1, 1999, 1_772_400_000_000_001, [(2, "lamp"), (1, "desk")], 1),
        avro(2, -5, None, [], 0, float("inf")),
    ]
    huge = avro(3, 0, None, [(1, "x")], 0).replace(b"\x02x", b"\xfe\xff\xff\xff\x07x")
    bad = [
        good[0][:-3],
        good[0] + b"\x00",
        b"",
        b'{"order_id": 1}',
        b"\x00\x00\x00\x00\x07" + good[1],  # as a registry's clients write it
        avro(2**31, 0, None, [], 0),
        huge,
        None,
    ]
    broker.create_topic(topic)
    broker.produce(topic, [good[0], *(Message(each) for each in bad), good[1]])
    project.write("schemas/order.avsc", json.dumps(AVRO))
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "avro",
        "schema": "schemas/order.avsc",
    }
    project.stream("s", AVRO_COLUMNS, **options)
    project.model("landed", "SELECT *, _record.offset AS place FROM {s}", mode="append")
    project.run().check()
    assert project.rows("landed", "place") == [
        {
            "order_id": 1,
            "status": "PAID",
            "amount": Decimal("19.99"),
            "at": datetime(2026, 3, 1, 21, 20, 0, 1, tzinfo=UTC),
            "lines": [{"sku": "lamp", "times": 2}, {"sku": "desk", "times": 1}],
            "weight": 1.0,
            "place": 0,
        },
        {
            "order_id": 2,
            "status": "NEW",
            "amount": Decimal("-0.05"),
            "at": None,
            "lines": [],
            "weight": float("inf"),
            "place": 9,
        },
    ]
    letters = project.rows("landed__dead_letter", "offset")
    assert [(row["offset"], row["value"]) for row in letters] == list(
        enumerate(bad, start=1)
    )
    assert [row["reason"] for row in letters] == ["unparsable"] * 7 + ["tombstone"]
    assert letters[5]["detail"].startswith("order_id: ")


def test_a_fraction_of_avro_is_no_whole_number(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    broker.produce(
        topic,
        [
            avro(n, 0, None, [], 0, weight)
            for n, weight in enumerate((1.0, 1.5, -3e9, 2.0**40))
        ],
    )
    project.write("schemas/order.avsc", json.dumps(AVRO))
    options = {
        "connection": "broker",
        "topic": topic,
        "format": "avro",
        "schema": "schemas/order.avsc",
    }
    project.stream("s", {"order_id": "bigint", "weight": "int"}, **options)
    project.model("landed", "SELECT * FROM {s}", mode="append")
    project.run().check()
    assert project.rows("landed") == [{"order_id": 0, "weight": 1}]
    assert [
        row["detail"].split(":")[0] for row in project.rows("landed__dead_letter")
    ] == ["weight"] * 3


def test_a_missing_or_unfit_avro_schema_is_refused(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    project.model("landed", "SELECT * FROM {s}", mode="append")
    project.write("schemas/text.avsc", "nothing")
    project.write("schemas/array.avsc", '{"type": "array", "items": "int"}')
    project.write(
        "schemas/other.avsc", json.dumps({**AVRO, "fields": AVRO["fields"][:2]})
    )
    for schema in ("none", "text", "array", "other"):
        path = f"schemas/{schema}.avsc"
        project.stream(
            "s",
            AVRO_COLUMNS,
            connection="broker",
            topic=topic,
            format="avro",
            schema=path,
        )
        with pytest.raises(ProjectError) as caught:
            bind_select(project.manifest(), build_select(project.manifest(), "landed"))
        assert [problem.condition for problem in caught.value.problems] == [
            "avro-schema"
        ]


def test_the_lag_is_reported_for_each_partition_and_falls_to_zero(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, 2)
    broker.produce(
        topic,
        [Message(value(number), partition=number % 4 // 3) for number in range(80)],
    )
    project.stream("s", COLUMNS, connection="broker", topic=topic, max_per_batch=8)
    project.model("landed", "SELECT id FROM {s}", mode="append", trigger="1 second")
    told: list[Progress] = []
    ran = project.run(
        continuous=True,
        meet=lambda event: (
            told.append(event) if isinstance(event, Progress) and event.lag else None
        ),
        until=lambda: bool(told) and told[-1].left == 0,
    ).check()
    first, *_ = ran.of(Progress)
    assert (first.left, {each.left_unit for each in ran.of(Progress)}) == (
        None,
        {"records"},
    )
    assert all(each.left == sum(part.records for part in each.lag) for each in told)
    assert {(part.topic, part.partition) for part in told[0].lag} == {
        (topic, 0),
        (topic, 1),
    }
    lefts = [each.left or 0 for each in told]
    assert lefts == sorted(lefts, reverse=True) and lefts[0] > 8


def test_records_removed_during_a_run_are_reported_as_lost(
    project: Project, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    # Large ones: of small ones Kafka's client has all in its hands already.
    broker.produce(topic, [value(number, "x" * 300_000) for number in range(40)])
    project.stream("s", COLUMNS, connection="broker", topic=topic, max_per_batch=5)
    project.model("landed", "SELECT id FROM {s}", mode="append", trigger="1 second")
    batches: list[int] = []

    def meet(event: Any) -> None:
        if isinstance(event, BatchCommitted):
            batches.append(event.batch)
            if event.batch == 0:
                broker.delete_records(topic, 0, 30)

    ran = project.run(continuous=True, meet=meet, until=lambda: len(batches) >= 8)
    assert ran.conditions("landed") == ["data-lost"]
    (problem,) = ran.finished("landed").problems
    assert (
        f": {topic}-0: 5 to 29." in problem.what and "--accept-data-loss" in problem.fix
    )
    assert ids(project) == list(range(5))
