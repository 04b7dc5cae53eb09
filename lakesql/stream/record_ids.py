"""The ids of the schemas that a record names, as the broker has it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lakesql.registry.connection import Wire
from lakesql.registry.registered import of_global
from lakesql.stream.recording import RawRecord
from lakesql.stream.stream import Stream

Side = Literal["key", "value"]

_FRAMES: dict[Wire, int] = {"confluent": 5, "apicurio": 9, "apicurio_headers": 0}
"""How many bytes stand before a key and a value."""


def find_ids(stream: Stream, record: RawRecord) -> Iterator[int]:
    """The ids of schemas that a record names, of those parts of it that are read by such."""
    for side in ("key", "value"):
        is_read = stream.key_kind if side == "key" else stream.record_format.schema_kind
        if not (is_read or stream.is_feed):
            continue
        id_ = written_id(stream.wire, side, record)
        if id_ is not None:
            yield id_


def written_id(wire: Wire, side: Side, record: RawRecord) -> int | None:
    """The id of the schema of a record's key, or of its value; None where it names none."""
    content = record.key if side == "key" else record.value
    if content is None:
        return None
    if wire != "apicurio_headers":
        end = _FRAMES[wire]
        return int.from_bytes(content[1:end], "big") if content[:1] == b"\0" and len(content) >= end else None
    headers = {name: value for name, value in reversed(record.headers) if value is not None and len(value) == 8}
    if (found := headers.get(f"apicurio.{side}.contentId")) is not None:
        return int.from_bytes(found, "big")
    found = headers.get(f"apicurio.{side}.globalId")
    return None if found is None else of_global(int.from_bytes(found, "big"))


def body_of(wire: Wire, side: Side, record: RawRecord) -> bytes:
    """What stands behind the id."""
    content = record.key if side == "key" else record.value
    return (content or b"")[_FRAMES[wire] :]
