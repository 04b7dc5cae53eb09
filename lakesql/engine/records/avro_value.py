"""Values in Avro."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from lakesql.engine.records.typed_value import as_columns

MISFIT = "not a record of the Avro schema"

TAIL = b"lakesql."
"""Avro's reader says nothing of bytes that are left over, which are a sign of another
schema. So these known bytes are put behind the value, and read as a second field: they
are found where the record is whole, and ends there."""


def avro_columns(
    value: Column,
    columns: Sequence[tuple[str, T.DataType]],
    schema: str,
    row: str,
    corrupt: str,
) -> dict[str, Column]:
    """The columns that reading adds to a raw record, in their order: what the schema
    reads, and the row.

    `row` is a struct of `columns`, each of its type, and `corrupt`: what is wrong, or
    NULL. `schema` is the writer's, as JSON; what it calls by a column's name becomes
    the column.
    """
    read = from_avro(
        F.concat(value, F.lit(TAIL)), with_tail(schema), {"mode": "PERMISSIVE"}
    )
    return {_READ: read, row: struct_of(F.col(_READ), columns, corrupt)}


_READ = "_lakesql_avro"


def struct_of(
    found: Column,
    columns: Sequence[tuple[str, T.DataType]],
    corrupt: str,
    kind: T.StructType | None = None,
) -> Column:
    """What was read as a struct of `columns`, each of its type, and `corrupt`: what is
    wrong, or NULL.

    `kind` is the type of what was read, where that is known: a value that has its type
    is taken as it is.
    """
    is_whole = F.coalesce(found["tail"] == F.lit(TAIL), F.lit(False))
    return as_columns(found["body"], F.when(~is_whole, MISFIT), columns, corrupt, kind)


def with_tail(schema: str) -> str:
    """The schema of a value with the known bytes behind it."""
    tail = {
        "name": "tail",
        "type": {"type": "fixed", "name": "_lakesql_tail", "size": len(TAIL)},
    }
    fields = [{"name": "body", "type": json.loads(schema)}, tail]
    return json.dumps({"type": "record", "name": "_lakesql_read", "fields": fields})
