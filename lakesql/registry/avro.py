"""Parses Avro schemas into trees in which all names are resolved, so that any part of
one can stand alone. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.registry.schema_error import SchemaError

PRIMITIVES = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
NAMED = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True, slots=True)
class Avro:
    """A schema: its root, and the named types in it by their full names. `{"ref":
    name}` refers to one of these."""

    root: Any
    names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The record at the root; None if the schema describes anything else."""
        found = self.find(self.root)
        return (
            found
            if isinstance(found, dict) and found.get("type") in ("record", "error")
            else None
        )

    @property
    def kind(self) -> str:
        """The kind of type at the root, in one word."""
        found = self.find(self.root)
        if isinstance(found, list):
            return "union"
        return str(found["type"]) if isinstance(found, dict) else str(found)

    def find(self, node: Any) -> Any:
        """The type that a node is or refers to."""
        return (
            self.names[node["ref"]]
            if isinstance(node, dict) and "ref" in node
            else node
        )

    def text(self) -> str:
        """The schema as JSON that depends on no other: each named type is defined at
        its first use."""
        return json.dumps(_written(self, self.root, set()), ensure_ascii=False)


def parse_avro(text: str, referenced: Iterable[str] = ()) -> Avro:
    """The schema in a text. It may use the types of the schemas in `referenced`, each
    of which may use those of the ones before it.

    Raises `SchemaError` for an invalid schema.
    """
    names: dict[str, Any] = {}
    for other in referenced:
        _read(_load(other), "", names)
    return Avro(_read(_load(text), "", names), names)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError("it is not JSON") from None


def _read(node: Any, space: str, names: dict[str, Any]) -> Any:
    """A node of a schema with its names resolved. The types that it defines are added
    to `names`."""
    if isinstance(node, str):
        return _read_name(node, space, names)
    if isinstance(node, list):
        return [_read(each, space, names) for each in node]
    if not isinstance(node, dict) or "type" not in node:
        raise SchemaError(f"{json.dumps(node)[:80]} is no type")
    kind = node["type"]
    if not isinstance(kind, str):
        return _read(kind, space, names)
    if kind in NAMED:
        return _read_named(node, space, names)
    if kind == "array":
        return {**node, "items": _read(node.get("items"), space, names)}
    if kind == "map":
        return {**node, "values": _read(node.get("values"), space, names)}
    return node if kind in PRIMITIVES else _read_name(kind, space, names)


def _read_name(name: str, space: str, names: Mapping[str, Any]) -> Any:
    if name in PRIMITIVES:
        return name
    within = f"{space}.{name}" if space and "." not in name else name
    for full in (within, name):
        if full in names:
            return {"ref": full}
    raise SchemaError(f"'{name}' is defined nowhere before it")


def _read_named(node: Mapping[str, Any], space: str, names: dict[str, Any]) -> Any:
    name = node.get("name")
    if not isinstance(name, str):
        raise SchemaError(f"a {node['type']} has no name")
    before, dot, own = name.rpartition(".")
    inside = (
        before
        if dot
        else str(node.get("namespace") or (space if "namespace" not in node else ""))
    )
    full = f"{inside}.{own}" if inside else own
    named = {**node, "name": own, "namespace": inside}
    names[full] = named
    if node["type"] in ("record", "error"):
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"record {full} has no fields")
        named["fields"] = [_read_field(each, inside, names) for each in fields]
    return {"ref": full}


def _read_field(node: Any, space: str, names: dict[str, Any]) -> Any:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str):
        raise SchemaError("a field has no name")
    return {**node, "type": _read(node.get("type"), space, names)}


def _written(schema: Avro, node: Any, defined: set[str]) -> Any:
    if isinstance(node, list):
        return [_written(schema, each, defined) for each in node]
    if not isinstance(node, dict):
        return node
    if "ref" in node:
        full = node["ref"]
        if full in defined:
            return full
        defined.add(full)
        return _written(schema, schema.names[full], defined)
    parts = {
        key: _written(schema, node[key], defined)
        for key in ("items", "values")
        if key in node
    }
    if "fields" in node:
        parts["fields"] = [
            {**each, "type": _written(schema, each["type"], defined)}
            for each in node["fields"]
        ]
    return {**node, **parts}
