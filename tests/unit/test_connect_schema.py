"""Avro's schemas as Kafka Connect's: what its JsonConverter would write beside a
value."""

from __future__ import annotations

import json
from typing import Any

from lakesql.registry.avro import parse_avro
from lakesql.registry.connect_schema import connect_schema, without_meanings
from lakesql.stream.feed_schema import merge_fields, schema_fields


def envelope(*fields: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "record", "name": "Value", "fields": [*fields]}
    sides = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
    ]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop",
        "fields": [*sides, {"name": "op", "type": "string"}],
    }


def test_the_columns_of_an_event_are_those_of_its_json() -> None:
    numeric = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    found = envelope(
        {"name": "id", "type": "long"},
        {"name": "small", "type": {"type": "int", "connect.type": "int16"}},
        {"name": "price", "type": ["null", numeric]},
        {
            "name": "day",
            "type": {"type": "int", "connect.name": "io.debezium.time.Date"},
        },
        {
            "name": "at",
            "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
        },
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "int"]}]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["a"]}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    )
    schema = json.loads(connect_schema(parse_avro(json.dumps(found))))
    columns = merge_fields((), schema_fields({"schema": schema})).columns
    assert [(column.name, column.type) for column in columns] == [
        ("id", "bigint"),
        ("small", "smallint"),
        ("price", "decimal(12,2)"),
        ("day", "date"),
        ("at", "timestamp_ntz"),
        ("tags", "array<int>"),
        ("state", "string"),
        ("seen", "timestamp_ntz"),
    ]


def test_values_are_read_without_what_they_mean() -> None:
    plain = without_meanings(
        parse_avro(
            json.dumps(
                envelope({"name": "d", "type": {"type": "int", "logicalType": "date"}})
            )
        )
    )
    assert "logicalType" not in plain.text()
    assert parse_avro(plain.text()).record is not None
