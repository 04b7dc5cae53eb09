"""Sampled JSON documents as rows: each document is a row, unless most are Debezium
changes, which contain a row each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakesql.stream.feed_schema import FieldSchema, merge_fields, schema_fields
from lakesql.stream.found_contract import TypedField
from lakesql.stream.json_samples import JsonObject
from lakesql.stream.recording import payload_of

ROUTED = "__dbz__physicalTableIdentifier"
"""The field that Debezium's router adds to the key of a record, which is no column."""


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """Rows with the keys of their records. `are_changes`: the rows come from changes;
    `fields` are those of the schema beside the changes, None if there is none."""

    rows: Sequence[JsonObject]
    keys: Sequence[Any]
    are_changes: bool = False
    fields: Sequence[TypedField] | None = None


def rows_of(documents: Sequence[tuple[Any, JsonObject]]) -> DocumentRows:
    """The rows of documents, each of which is given with the key of its record."""
    changes = [(key, document) for key, document in documents if _is_change(document)]
    if len(changes) * 2 <= len(documents):
        return DocumentRows(
            [document for _, document in documents],
            [_own_key(key) for key, _ in documents],
        )
    found = [(_own_key(key), _row_of(document)) for key, document in changes]
    kept = [(key, row) for key, row in found if row is not None]
    schemas = [said for _, document in changes if (said := schema_fields(document))]
    fields = fields_of_feed(schemas[-1]) if schemas else None
    return DocumentRows(
        [row for _, row in kept],
        [key for key, _ in kept],
        are_changes=True,
        fields=fields,
    )


def fields_of_feed(fields: Sequence[FieldSchema]) -> list[TypedField]:
    """The columns of a feed by the schema beside its changes."""
    why = "it is written as something that no type reads: set decimal.handling.mode=string in the connector"
    columns = merge_fields((), fields).columns
    return [
        TypedField(column.name, column.type, "" if column.type else why)
        for column in columns
    ]


def _is_change(document: JsonObject) -> bool:
    event = payload_of(document) or {}
    if not isinstance(event.get("op"), str):
        return False
    return bool({"before", "after"} & event.keys())


def _row_of(document: JsonObject) -> JsonObject | None:
    """The row after the change, or before it for a delete; None if the change has
    neither."""
    event = payload_of(document) or {}
    row = event.get("after") or event.get("before")
    return row if isinstance(row, Mapping) else None


def _own_key(found: Any) -> Any:
    """The key of a record, without a schema that wraps it."""
    if not isinstance(found, Mapping):
        return found
    payload = found["payload"] if found.keys() == {"schema", "payload"} else found
    if not isinstance(payload, Mapping):
        return payload
    return {name: value for name, value in payload.items() if name != ROUTED}
