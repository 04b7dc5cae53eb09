"""Change feeds in Avro, whose keys and values name schemas of a registry."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tests.spark.project import Fields, Project, in_bytes, use_schema_folder

KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.items",
    "fields": [{"name": "id", "type": "long"}],
}
NUMERIC = {
    "type": "bytes",
    "logicalType": "decimal",
    "precision": 12,
    "scale": 2,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "price", "type": ["null", NUMERIC], "default": None},
    {
        "name": "day",
        "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}],
        "default": None,
    },
]
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "name": "string",
    "price": "decimal(12,2)",
    "day": "date",
}


SOURCE = {"connector": "string", "lsn": "long", "schema": "string", "table": "string"}


def envelope(fields: list[Any]) -> dict[str, Any]:
    row = {"type": "record", "name": "Value", "fields": fields}
    source_fields = [{"name": name, "type": kind} for name, kind in SOURCE.items()]
    source = {"type": "record", "name": "Source", "fields": source_fields}
    before = {"name": "before", "type": ["null", row], "default": None}
    after = {"name": "after", "type": ["null", "Value"], "default": None}
    rest = [
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.items",
        "fields": [before, after, *rest],
    }


def framed(id_: int, schema: Mapping[str, Any], row: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(
        written, fastavro.parse_schema(json.loads(json.dumps(schema))), row
    )
    return b"\0" + id_.to_bytes(4, "big") + written.getvalue()


class Feed:
    """Writes events, each with the next place in the log."""

    def __init__(self) -> None:
        self.place = 0

    def event(
        self, op: str, before: Any, after: Any, id_: int = 2, fields: list[Any] = FIELDS
    ) -> Fields:
        self.place += 1
        source = {
            "connector": "postgresql",
            "lsn": self.place,
            "schema": "public",
            "table": "items",
        }
        row = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": 1_772_400_000_000 + self.place,
        }
        return self.line((before or after)["id"], framed(id_, envelope(fields), row))

    def line(self, key: int, value: bytes | None) -> Fields:
        return in_bytes(value, framed(1, KEY, {"id": key}))


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    project = new_project()
    use_schema_folder(project)
    project.write("schemas/1.avsc", json.dumps(KEY))
    project.write("schemas/2.avsc", json.dumps(envelope(FIELDS)))
    options = {
        "format": "avro",
        "registry": "schemas",
        "envelope": "debezium",
        "key": ["id"],
    }
    project.stream("items", COLUMNS, **options)
    project.model(
        "mirror", "SELECT id, name, price, day FROM {items}", mode="cdc", keys="id"
    )
    project.model(
        "log",
        "SELECT id, name, _change.op AS op, _record.key AS key FROM {items}",
        mode="append",
    )
    return project


def row(
    id_: int, name: str | None, price: str | None = None, day: int | None = None
) -> dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "price": Decimal(price) if price else None,
        "day": day,
    }


def test_a_mirror_of_a_feed_in_avro(project: Project) -> None:
    feed = Feed()
    wider = [*FIELDS, {"name": "more", "type": ["null", "string"], "default": None}]
    project.write("schemas/3.avsc", json.dumps(envelope(wider)))
    project.record(
        "items",
        [
            feed.event("r", None, row(1, "a", "12.50", 20_000)),
            feed.event("c", None, row(2, 'b "é"', "-0.01")),
            feed.event("c", None, {**row(3, "c"), "more": "x"}, 3, wider),
            feed.event("u", row(1, "a", "12.50", 20_000), row(1, "A", "99.99", 20_001)),
            feed.event("d", row(2, "b"), None),
            feed.line(2, None),
        ],
    )
    project.run().check()
    found = [
        (it["id"], it["name"], it["price"], str(it["day"]))
        for it in project.rows("mirror", "id")
    ]
    assert found == [(1, "A", Decimal("99.99"), "2024-10-05"), (3, "c", None, "None")]
    logged = sorted((it["id"], it["op"]) for it in project.rows("log"))
    assert logged == [(1, "r"), (1, "u"), (2, "c"), (2, "d"), (3, "c")]
    assert {it["key"] for it in project.rows("log")} == {
        framed(1, KEY, {"id": id_}) for id_ in (1, 2, 3)
    }


def test_an_event_that_is_no_avro_of_its_schema_says_so(project: Project) -> None:
    feed = Feed()
    good = feed.event("c", None, row(1, "a"))
    value = base64.b64decode(good["value_base64"])
    bad = {
        value[:-2]: "the value: not a record of the Avro schema",
        b"\0\0\0\0\x63" + value[5:]: "the value: schema id 99 is not in the registry",
        b'{"op":"c"}': "the value: it does not begin with a byte 0 and the 4 bytes of a schema's id",
    }
    project.record("items", [good, *(feed.line(9, each) for each in bad)])
    project.run().check()
    assert [it["id"] for it in project.rows("mirror")] == [1]
    for model in ("mirror", "log"):
        letters = {
            it["value"]: it["detail"] for it in project.rows(f"{model}__dead_letter")
        }
        assert letters == bad
