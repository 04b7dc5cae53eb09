"""How values with Protobuf schemas of a registry become the contract's columns: each
record is read by the schema that it names.

This is done in Python on the executors (`proto_decode.py`), to which only the ids and
values of records are sent.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pyspark.cloudpickle as cloudpickle
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from lakesql.engine.records import proto_decode
from lakesql.engine.records.frame import SCHEMA, unread
from lakesql.engine.records.proto_reader import ProtoReaders, make_proto_readers
from lakesql.engine.records.schema_reading import Columns, Reading, choose_row
from lakesql.engine.records.typed_value import as_columns
from lakesql.errors import not_installed
from lakesql.registry.proto_compiler import EXTRA
from lakesql.registry.schemas import StreamSchemas

_READ = "_lakesql_proto"

cloudpickle.register_pickle_by_value(proto_decode)  # type: ignore[no-untyped-call]


def read_proto(schemas: StreamSchemas, columns: Columns, corrupt: str) -> Reading:
    """How to read records with these Protobuf schemas: one column, in which each group
    of writers has a field. Raises an error if the extra that it needs is not
    installed."""
    if find_spec("ptars") is None:
        raise not_installed("ptars", EXTRA)
    readers = _readers_of(schemas, columns)
    said = unread(schemas, readers.unusable)
    if not readers.types:
        return Reading({}, choose_row((), columns, corrupt, said), readers.absent)
    groups = [
        T.StructField(f"g{number}", kind) for number, kind in enumerate(readers.types)
    ]
    kind = T.StructType([*groups, T.StructField(proto_decode.WRONG, T.StringType())])
    decode = arrow_udf(proto_decode.make_decoder(readers.plan), kind)  # type: ignore[call-overload]
    ids: list[list[int]] = [[] for _ in groups]
    for id_, writer in readers.plan.writers.items():
        ids[writer.group].append(id_)
    read, rows = F.col(_READ), []
    wrong = F.when(read[proto_decode.WRONG].isNotNull(), read[proto_decode.WRONG])
    for own, field, row_type in zip(ids, groups, readers.types, strict=True):
        rows.append(
            (own, as_columns(read[field.name], wrong, columns, corrupt, row_type))
        )
    row = choose_row(rows, columns, corrupt, said)
    return Reading({_READ: decode(SCHEMA, "value")}, row, readers.absent)


@cache
def _readers_of(schemas: StreamSchemas, columns: Columns) -> ProtoReaders:
    """How the records of each schema id are read."""
    return make_proto_readers(schemas, columns)
