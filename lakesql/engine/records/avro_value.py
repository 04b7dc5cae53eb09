"""How values in Avro become columns."""

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
"""Bytes that are put after each value and read as a second field, which is right only
if the value was read to its end. Spark's reader does not report bytes that are left
over, which mean that the value has another schema."""


def avro_columns(
    value: Column,
    columns: Sequence[tuple[str, T.DataType]],
    schema: str,
    row: str,
    corrupt: str,
) -> dict[str, Column]:
    """The columns that parsing adds to a raw record, in order: the value read with the
    schema, and the row.

    `row` is a struct of `columns`, each of its type, and `corrupt`: what is wrong, or
    NULL. `schema` is the writer's, as JSON; columns are taken from the fields of the
    same name.
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
    """The parsed value `found` as a struct of `columns`, each of its type, and
    `corrupt`: what is wrong, or NULL.

    `kind` is the type of what was read, if it is known: a value that has the wanted
    type is then not converted.
    """
    is_whole = F.coalesce(found["tail"] == F.lit(TAIL), F.lit(False))
    return as_columns(found["body"], F.when(~is_whole, MISFIT), columns, corrupt, kind)


def with_tail(schema: str) -> str:
    """The schema of a record that has the value and the bytes of `TAIL`."""
    tail = {
        "name": "tail",
        "type": {"type": "fixed", "name": "_lakesql_tail", "size": len(TAIL)},
    }
    fields = [{"name": "body", "type": json.loads(schema)}, tail]
    return json.dumps({"type": "record", "name": "_lakesql_read", "fields": fields})
