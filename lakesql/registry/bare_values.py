"""Schemas of values that are no records, such as the texts and numbers that keys are.
Pure."""

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
    """The schemas with each one of Avro that describes no record as that of a record of
    one field, where one is read: both are written in the same bytes."""
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
