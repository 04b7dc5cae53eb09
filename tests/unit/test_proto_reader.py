"""Messages read by the schemas they were written with, as the contract's columns, beside Protobuf's own library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from lakesql.engine.records.proto_decode import WRONG, make_decoder
from lakesql.engine.records.proto_reader import ProtoReaders, make_proto_readers
from lakesql.registry.connection import Wire
from lakesql.registry.registered import Registered
from lakesql.registry.schemas import StreamSchemas
from tests.messages import framed, message_of

INT, LONG, TEXT, BYTES = T.IntegerType(), T.LongType(), T.StringType(), T.BinaryType()
HEAD = 'syntax = "proto3"; package shop; '
TYPES = {
    "double": T.DoubleType(),
    "float": T.FloatType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), INT),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), LONG),
    **dict.fromkeys(("uint64", "fixed64"), T.DecimalType(20, 0)),
    "bool": T.BooleanType(),
    "string": TEXT,
    "bytes": BYTES,
}


def schemas_of(*texts: str, wire: Wire = "confluent", message: str = "") -> StreamSchemas:
    """Schemas of the ids from 1 on, the last one the newest."""
    known = tuple(Registered(number, "PROTOBUF", text) for number, text in enumerate(texts, 1))
    return StreamSchemas(wire, known, len(known), kind="PROTOBUF", message=message)


def read(
    readers: ProtoReaders, values: Sequence[bytes | None], ids: Sequence[int | None] = ()
) -> list[dict[str, Any] | str]:
    """The rows of values, by the ids that they begin with; what is wrong, where that is all that there is."""
    ids = ids or [None if value is None else int.from_bytes(value[1:5], "big") for value in values]
    found = make_decoder(readers.plan)(pa.array(ids, pa.int64()), pa.array(values, pa.binary()))
    return [_row(each) for each in found.to_pylist(maps_as_pydicts="strict")]


def _row(read_: Mapping[str, Any]) -> dict[str, Any] | str:
    groups = [value for name, value in read_.items() if name != WRONG and value is not None]
    assert len(groups) <= 1 or not read_[WRONG]
    return read_[WRONG] or (groups[0] if groups else {})


def test_each_record_is_read_by_its_own_schema() -> None:
    first = HEAD + "message Order { int32 id = 1; string cust = 2; string gone = 3; sint32 delta = 4; }"
    second = HEAD + "message Order { int64 id = 1; string customer = 2; int64 delta = 4; optional string more = 5; }"
    one, two = message_of(first), message_of(second)
    columns = [("id", LONG), ("customer", TEXT), ("gone", TEXT), ("delta", LONG), ("more", TEXT)]
    readers = make_proto_readers(schemas_of(first, second), columns)
    assert readers.absent == ()
    values = [
        framed(1, one(id=-7, cust="a", gone="g", delta=-3)),
        framed(2, two(id=2**40, customer="b", delta=-3, more="")),
        framed(1, b""),
        None,
    ]
    assert read(readers, values) == [
        {"id": -7, "customer": "a", "gone": "g", "delta": -3, "more": None},
        {"id": 2**40, "customer": "b", "gone": "", "delta": -3, "more": ""},
        {"id": 0, "customer": "", "gone": "", "delta": 0, "more": None},
        {},
    ]


def test_writers_of_the_same_columns_are_read_together() -> None:
    texts = [HEAD + f"message Order {{ int64 id = 1; {more} }}" for more in ("", "string a = 2;", "string b = 3;")]
    assert len(make_proto_readers(schemas_of(*texts), [("id", LONG)]).types) == 1
    narrow = HEAD + "message Order { int32 id = 1; }"
    assert len(make_proto_readers(schemas_of(narrow, *texts), [("id", LONG)]).types) == 2
