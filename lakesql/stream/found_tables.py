"""The tables behind a change feed, found in its newest records: their names, keys and
columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakesql.stream.feed_schema import FieldSchema, schema_fields
from lakesql.stream.recording import RawRecord, parse_json, payload_of
from lakesql.stream.source_table import SourceTable
from lakesql.stream.stream import Stream


def tables_in(records: Iterable[RawRecord], stream: Stream) -> list[SourceTable]:
    """The tables whose changes are among the records, in the order in which they first
    appear, each with its newest schema.

    The records are in the order of their age. A table whose changes carry no schema has
    no columns here. A table that was only truncated is left out: it has no row, and no
    record names its key. The same name in two topics means two tables, as they may be
    of two databases. Records about a table's schema have no `op`, and are no changes.
    """
    keys: dict[tuple[str, str], tuple[str, ...]] = {}
    fields: dict[tuple[str, str], tuple[FieldSchema, ...]] = {}
    for record in records:
        event = parse_json(record.value)
        change = payload_of(event) or {}
        table = _name_of(change), record.topic if stream.origin.may_be_several else ""
        op = change.get("op")
        if not table[0] or op is None or (op == "t" and table not in keys):
            continue
        keys[table] = key_names(record) or keys.get(table, ())
        fields[table] = schema_fields(event) or fields.get(table, ())
    return [
        SourceTable(
            stream=stream.name,
            name=name,
            topic=topic,
            key=key,
            columns=(),
            schema_fields=tuple(field.text for field in fields[name, topic]),
            place=stream.place,
            is_declared=False,
        )
        for (name, topic), key in keys.items()
    ]


def key_names(record: RawRecord) -> tuple[str, ...]:
    """The columns of a record's key; empty if its key is no JSON object."""
    return tuple(payload_of(parse_json(record.key)) or ())


def _name_of(change: Mapping[str, Any]) -> str:
    """`schema.table` of a change; `database.table` if the database has no schemas; ''
    if it is no change of a table."""
    source = change.get("source")
    if not isinstance(source, Mapping):
        return ""
    table = source.get("table") or source.get("collection")
    outer = source.get("schema") or source.get("db")
    return ".".join(str(part) for part in (outer, table) if part) if table else ""
