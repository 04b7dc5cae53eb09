"""The objects that events of object storage announce. Pure.

S3 and MinIO write keys as in a URL's query; Ceph, EventBridge and SeaweedFS write them
unescaped. EventBridge has one object in each event. SNS has an event of S3 as a text
inside its own. SeaweedFS, whose filer writes to Kafka, uses Protobuf, and the object's
path as the record's key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from lakesql.varints import read_varint


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """An object that was created: its bucket, its key, and its size; 0 if the event
    does not have it."""

    bucket: str
    key: str
    size_bytes: int = 0


def read_event(key: bytes | None, value: bytes | None) -> list[CreatedObject]:
    """The objects that an event announces, given the key and the value of its record;
    empty if the event is about something else.

    Raises `ValueError` if it is in no known form.
    """
    if not value:
        raise ValueError("the record has no value")
    if value.lstrip()[:1] == b"{":
        return [*_read_json(json.loads(value))]
    if key is not None and key.startswith(b"/"):
        return [*_read_filer(key.decode(), value)]
    raise ValueError("the value is no JSON")


def _read_json(event: Mapping[str, Any]) -> Iterator[CreatedObject]:
    try:
        if isinstance(event.get("Records"), list):
            for record in event["Records"]:
                yield from _read_record(record)
        elif "detail-type" in event:
            if event["detail-type"] == "Object Created":
                found = event["detail"]["object"]
                yield CreatedObject(
                    str(event["detail"]["bucket"]["name"]),
                    str(found["key"]),
                    _size(found),
                )
        elif event.get("Type") == "Notification":
            yield from _read_json(json.loads(event["Message"]))
        elif event.get("Event") != "s3:TestEvent":
            raise ValueError("it has neither Records nor a detail-type")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks {error}") from None


_AS_IT_IS = ("ceph:",)
"""The prefixes of `eventSource` in events whose keys are unescaped."""


def _read_record(record: Mapping[str, Any]) -> Iterator[CreatedObject]:
    """The object of an event record in S3's form, if it was created."""
    name = str(record["eventName"]).removeprefix("s3:")
    if not name.startswith("ObjectCreated:"):
        return
    found = record["s3"]["object"]
    is_plain = str(record.get("eventSource", "")).startswith(_AS_IT_IS)
    key = str(found["key"]) if is_plain else unquote_plus(found["key"])
    yield CreatedObject(str(record["s3"]["bucket"]["name"]), key, _size(found))


def _size(found: Mapping[str, Any]) -> int:
    """The size of an object; some write it as a text. 0 if it is missing."""
    size = str(found.get("size", ""))
    return int(size) if size.isdecimal() else 0


_BUCKETS = "/buckets/"
"""The folder that holds SeaweedFS' buckets."""

_NEW_ENTRY, _NEW_PARENT = 2, 4
_NAME, _IS_FOLDER = 1, 2
"""The numbers of fields in SeaweedFS' `EventNotification` and `Entry`."""


def _read_filer(path: str, value: bytes) -> Iterator[CreatedObject]:
    """The object of an event of SeaweedFS' filer about a path, if it was created."""
    event = _fields(value)
    if _NEW_ENTRY not in event:
        return
    entry = _fields(event[_NEW_ENTRY])
    if entry.get(_IS_FOLDER, b"\0") != b"\0":
        return
    if _NEW_PARENT in event and _NAME in entry:
        path = f"{event[_NEW_PARENT].decode()}/{entry[_NAME].decode()}"
    bucket, _, key = path.removeprefix(_BUCKETS).partition("/")
    if path.startswith(_BUCKETS) and key:
        yield CreatedObject(bucket, key)


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types."""


def _fields(message: bytes) -> dict[int, bytes]:
    """The fields of a Protobuf message by their numbers; of a repeated field, the last
    value."""
    found, at = dict[int, bytes](), 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _VARINT:
            start = at
            _, at = read_varint(message, at)
            found[number] = message[start:at]
            continue
        if kind == _BYTES:
            size, at = read_varint(message, at)
        elif not size:
            raise ValueError("it is neither JSON nor Protobuf")
        if at + size > len(message):
            raise ValueError("it is cut short")
        found[number], at = message[at : at + size], at + size
    return found
