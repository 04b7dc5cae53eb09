"""Converts Avro schemas to those of Kafka Connect, as its converters do: the schema
that a feed's JSON has beside its values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakesql.registry.avro import Avro

_TYPES = {
    "int": "int32",
    "long": "int64",
    "fixed": "bytes",
    "enum": "string",
    "record": "struct",
    "error": "struct",
}

_MEANINGS: Mapping[tuple[str, str], str] = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "timestamp-micros"): "io.debezium.time.MicroTimestamp",
}
"""Connect's names for Avro's logical types. Neither has a `local-` type for a
database's time without a zone."""

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def connect_schema(schema: Avro) -> str:
    """The schema that Connect's JsonConverter would write beside a value, as JSON."""
    return json.dumps(
        _connect(schema.root, schema), ensure_ascii=False, separators=(",", ":")
    )


def _connect(node: Any, schema: Avro) -> dict[str, Any]:
    if isinstance(node, list):
        kinds = [each for each in node if each != "null"]
        found = _connect(kinds[0], schema) if len(kinds) == 1 else {"type": "union"}
        return {**found, "optional": "null" in node}
    if not isinstance(node, dict):
        return {"type": _TYPES.get(node, node), "optional": False}
    found = schema.find(node)
    kind = found["type"]
    said = {
        "type": found.get("connect.type") or _TYPES.get(kind, kind),
        "optional": False,
        **_meaning(found),
    }
    if "fields" in found:
        said["fields"] = [
            {**_connect(each["type"], schema), "field": each["name"]}
            for each in found["fields"]
        ]
    elif kind == "array":
        said["items"] = _connect(found["items"], schema)
    elif kind == "map":
        said |= {
            "keys": {"type": "string", "optional": False},
            "values": _connect(found["values"], schema),
        }
    return said


def _meaning(node: Mapping[str, Any]) -> dict[str, Any]:
    """Connect's name for the logical type of a value, and its parameters; empty if it
    has none."""
    kind, logical = str(node["type"]), str(node.get("logicalType", ""))
    if logical == "decimal":
        parameters = {
            "scale": str(node.get("scale", 0)),
            "connect.decimal.precision": str(node.get("precision", 38)),
        }
        return {"name": DECIMAL, "parameters": parameters}
    name = node.get("connect.name") or _MEANINGS.get((kind, logical))
    said = {"name": name, "parameters": node.get("connect.parameters")}
    return {key: value for key, value in said.items() if value}


def without_meanings(schema: Avro) -> Avro:
    """The schema without logical types, so that values are read as Connect's
    JsonConverter writes them: a date as a number of days, for example."""
    return Avro(
        _plain(schema.root), {name: _plain(each) for name, each in schema.names.items()}
    )


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "logicalType"}
    parts = {key: _plain(kept[key]) for key in ("items", "values") if key in kept}
    if "fields" in kept:
        parts["fields"] = [
            {**each, "type": _plain(each["type"])} for each in kept["fields"]
        ]
    return {**kept, **parts}
