"""Converts Avro change events to JSON with their schemas, in the form that Kafka
Connect's JsonConverter writes."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from lakesql.errors import ProjectError, explain_missing
from lakesql.project.profiles import Target
from lakesql.registry.avro import parse_avro
from lakesql.registry.connect_schema import connect_schema, without_meanings
from lakesql.registry.connection import Registry
from lakesql.registry.registry_client import fetch_schema
from lakesql.registry.schema_error import SchemaError
from lakesql.stream.record_ids import Side, body_of, written_id
from lakesql.stream.recording import RawRecord
from lakesql.stream.stream import Stream

Read = Callable[[bytes], bytes]
"""Converts an Avro value of one schema to JSON; b'' if it is not valid."""


def in_json(
    records: Iterable[RawRecord],
    stream: Stream,
    target: Target,
    *,
    is_recorded: bool = False,
) -> list[RawRecord]:
    """The records with keys and values as JSON; returned unchanged if the stream has no
    registry. A key or value without a schema id becomes None, one that cannot be
    decoded b''.

    Raises `ProjectError` if the target has no such registry (`unknown-connection`), or
    if a recording would need a registry that must be asked (`registry-options`);
    `ProfileError` (`extra-missing`) if fastavro is not installed; and what
    `fetch_schema` raises.
    """
    if not stream.registry:
        return [*records]
    registry = target.registry_of(stream)
    if is_recorded and not registry.path:
        raise ProjectError.of(
            "registry-options",
            f"The tables of stream '{stream.name}' are read of a recording, and the schemas that this names are in "
            f"the registry {registry.name}.",
            why="A command that only reads the project asks nobody.",
            fix=f"Give connection '{stream.registry}' of target '{target.name}' a `path` in the place of its `url`: a "
            "folder with the schemas, which `lakesql record` writes beside its records.",
            place=stream.place,
        )
    reader = cache(partial(_reader, registry))
    return [
        replace(
            record,
            key=_json("key", record, stream, reader),
            value=_json("value", record, stream, reader),
        )
        for record in records
    ]


def _json(
    side: Side, record: RawRecord, stream: Stream, reader: Callable[[int], Read]
) -> bytes | None:
    id_ = written_id(stream.wire, side, record)
    return None if id_ is None else reader(id_)(body_of(stream.wire, side, record))


def _reader(registry: Registry, id_: int) -> Read:
    """The function that decodes values of a schema. If the schema does not exist or is
    not Avro, it returns b'' for all of them."""
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from None
    found = fetch_schema(registry, id_)
    if found is None or found.kind != "AVRO":
        return lambda body: b""
    try:
        schema = parse_avro(found.text)
    except (SchemaError, RecursionError):
        return lambda body: b""
    writer = fastavro.parse_schema(json.loads(without_meanings(schema).text()))
    beginning = f'{{"schema":{connect_schema(schema)},"payload":'

    def read(body: bytes) -> bytes:
        try:
            payload = fastavro.schemaless_reader(io.BytesIO(body), writer, None)
        except (EOFError, ValueError, IndexError, TypeError, UnicodeDecodeError):
            return b""
        return f"{beginning}{json.dumps(payload, default=_in_base64)}}}".encode()

    return read


def _in_base64(value: Any) -> str:
    """Bytes in base64, as JsonConverter writes them; other values as text."""
    return (
        base64.b64encode(value).decode()
        if isinstance(value, bytes | bytearray)
        else str(value)
    )
