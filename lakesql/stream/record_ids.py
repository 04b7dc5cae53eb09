"""The ids of the schemas that a broker's record names for its key and value. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lakesql.registry.connection import CONTENT_HEADER, GLOBAL_HEADER, ID_BYTES, Wire
from lakesql.registry.registered import of_global
from lakesql.stream.recording import RawRecord
from lakesql.stream.stream import Stream

Side = Literal["key", "value"]


def _frame(wire: Wire) -> int:
    """The number of bytes before a key or a value that hold the id."""
    return 0 if wire == "apicurio_headers" else 1 + ID_BYTES[wire]


def find_ids(stream: Stream, record: RawRecord) -> Iterator[int]:
    """The ids of the schemas that a record names, for those of key and value that are
    read by a schema."""
    for side in ("key", "value"):
        is_read = stream.key_kind if side == "key" else stream.record_format.schema_kind
        if not (is_read or stream.is_feed):
            continue
        id_ = written_id(stream.wire, side, record)
        if id_ is not None:
            yield id_


def written_id(wire: Wire, side: Side, record: RawRecord) -> int | None:
    """The id of the schema of a record's key or value; None if it names none."""
    content = _content(side, record)
    if content is None:
        return None
    if end := _frame(wire):
        return (
            int.from_bytes(content[1:end], "big")
            if content[:1] == b"\0" and len(content) >= end
            else None
        )
    headers = {
        name: value
        for name, value in reversed(record.headers)
        if value is not None and len(value) == ID_BYTES[wire]
    }
    if (found := headers.get(CONTENT_HEADER.format(side=side))) is not None:
        return int.from_bytes(found, "big")
    found = headers.get(GLOBAL_HEADER.format(side=side))
    return None if found is None else of_global(int.from_bytes(found, "big"))


def body_of(wire: Wire, side: Side, record: RawRecord) -> bytes:
    """The content of a record's key or value after the schema id."""
    return (_content(side, record) or b"")[_frame(wire) :]


def _content(side: Side, record: RawRecord) -> bytes | None:
    return record.key if side == "key" else record.value
