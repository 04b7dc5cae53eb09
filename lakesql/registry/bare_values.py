"""Schemas of values that are no records, such as keys that are only a string or a
number. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from lakesql.registry.avro import parse_avro
from lakesql.registry.registered import Registered
from lakesql.registry.schema_error import SchemaError
from lakesql.registry.schema_kinds import AvroKind
from lakesql.registry.schemas import StreamSchemas


def as_records(schemas: StreamSchemas, fields: Sequence[str]) -> StreamSchemas:
    """The schemas, with each Avro schema that is no record wrapped into a record with
    one field; both have the same binary encoding. They are unchanged if not exactly one
    field is read."""
    if len(fields) != 1:
        return schemas
    return replace(
        schemas, known=tuple(_as_record(each, fields[0]) for each in schemas.known)
    )


def _as_record(each: Registered, field: str) -> Registered:
    if each.kind != AvroKind.name:
        return each
    try:
        schema = parse_avro(each.text)
    except (SchemaError, RecursionError):
        return each  # which is said of the records that name it
    if schema.record is not None:
        return each
    fields = [{"name": field, "type": json.loads(schema.text())}]
    return replace(
        each,
        text=json.dumps({"type": "record", "name": "_lakesql_bare", "fields": fields}),
    )
