"""The tables behind a change feed, as its newest records tell of them: what they are
called, their keys and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakesql.stream.feed_schema import FieldSchema, schema_fields
from lakesql.stream.recording import RawRecord, parse_json, payload_of
from lakesql.stream.source_table import SourceTable
from lakesql.stream.stream import Stream


def tables_in(records: Iterable[RawRecord], stream: Stream) -> list[SourceTable]:
    """The tables that the changes are of, in the order in which they came, each as its
    newest schema has it.

    The records are in the order of their age. A table whose changes carry no schema has
    no columns here, and one that was only truncated is none: it has no row, and no
    record says its key. What is called the same in two topics are two tables, as those
    of two databases are. What tells of a table's schema has no `op`, and is no change.
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
    """The columns of a record's key; none where it has no key in JSON."""
    return tuple(payload_of(parse_json(record.key)) or ())


def _name_of(change: Mapping[str, Any]) -> str:
    """`schema.table` of a change; `database.table` where there are no schemas; '' of
    what is no change of a table."""
    source = change.get("source")
    if not isinstance(source, Mapping):
        return ""
    table = source.get("table") or source.get("collection")
    outer = source.get("schema") or source.get("db")
    return ".".join(str(part) for part in (outer, table) if part) if table else ""
