"""How values that name their schema by an id of a registry are read, each with that
schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from pyspark.sql import Column

from lakesql.engine.records.frame import SCHEMA, schema_id
from lakesql.engine.records.registry_avro import read_avro
from lakesql.engine.records.schema_reading import Columns, Reading
from lakesql.names import CORRUPT
from lakesql.registry.schemas import StreamSchemas


def _read_proto(schemas: StreamSchemas, columns: Columns, corrupt: str) -> Reading:
    # only here: it imports pyarrow
    from lakesql.engine.records.registry_proto import read_proto

    return read_proto(schemas, columns, corrupt)


_KINDS: Mapping[str, Callable[[StreamSchemas, Columns, str], Reading]] = {
    "AVRO": read_avro,
    "PROTOBUF": _read_proto,
}
"""How records are read, by the kind of their schemas."""


def registry_columns(
    schemas: StreamSchemas, columns: Columns, row: str, corrupt: str
) -> dict[str, Column]:
    """The columns that parsing adds to a raw record, in order: the schema id, the
    parsed values, the row.

    The last one, `row`, is a struct of `columns` and of `corrupt`: what is wrong, or
    NULL. An id that is not in `schemas` fails the task: it is then looked up, and the
    batch is written again.
    """
    reading = _read(schemas, columns, corrupt)
    return {SCHEMA: schema_id(schemas), **reading.columns, row: reading.row}


def find_absent(schemas: StreamSchemas, columns: Columns) -> tuple[str, ...]:
    """The columns, and fields in them, that none of the schemas has. Raises
    `NoColumnError` for a field whose type Spark does not have."""
    return _read(schemas, columns, CORRUPT).absent


@cache
def _read(schemas: StreamSchemas, columns: Columns, corrupt: str) -> Reading:
    return _KINDS[schemas.kind](schemas, columns, corrupt)
