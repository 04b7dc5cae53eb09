"""Recordings of topics: records as lines of a recorded folder, with some of their
columns masked. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from lakesql.stream.stream import Stream
from lakesql.stream.types import SparkType, TypeField, parse_type

Scalar = str | int | bool | None


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as the broker has it. `timestamp_ms` is the time since the epoch.

    `own_topic` is the record's topic if it differs from the one that was asked for, as
    with a filter of MQTT.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    own_topic: str = ""

    @property
    def age(self) -> tuple[int, int, int]:
        """The sort key by which records are ordered from the oldest."""
        return self.timestamp_ms, self.partition, self.offset


def parse_line(line: str, topic: str) -> RawRecord | None:
    """The record of a line that `render_record`, or a person, has written; None if it
    is not a record."""
    found = _parse(line.encode())
    if not isinstance(found, dict) or not isinstance(found.get("partition"), int):
        return None
    try:
        key, value = (_content(found, name) for name in ("key", "value"))
    except ValueError:
        return None
    numbers = [found.get(name) for name in ("offset", "timestamp")]
    offset, timestamp = (number if isinstance(number, int) else 0 for number in numbers)
    return RawRecord(topic, found["partition"], offset, timestamp, key, value)


def _content(line: Mapping[str, Any], name: str) -> bytes | None:
    match line.get(name), line.get(f"{name}_base64"):
        case None, None:
            return None
        case None, in_base64:
            return base64.b64decode(str(in_base64), validate=True)
        case str() as text, _:
            return text.encode()
        case other, _:
            return _dump(other).encode()


def parse_json(content: bytes | str | None) -> Any:
    """A key or a value parsed as JSON, fractions as doubles; None if it is not JSON."""
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        return None


def payload_of(event: Any) -> Mapping[str, Any] | None:
    """The object of a parsed key or value, without the schema that a connector may have
    wrapped around it; None if it is no object."""
    payload = event.get("payload", event) if isinstance(event, Mapping) else None
    return payload if isinstance(payload, Mapping) else None


@dataclass(frozen=True, slots=True)
class Masking:
    """Which fields of records are masked: their paths, each with its type. `secret` is
    the key of the hash that masks are made with.

    With `changes` the records are events of a change feed, whose rows are in `before`
    and `after`, possibly inside a `payload`.
    """

    types: Mapping[tuple[str, ...], SparkType]
    secret: bytes
    changes: bool = False


def render_record(record: RawRecord, is_json: bool) -> str:
    """The record as a line without its line end. Bytes that are not UTF-8 are in
    base64, as `key_base64` and `value_base64`.

    With `is_json` a value that is a JSON object is written unquoted, for people to
    read; reading the recording gives the same values, with other white space.
    """
    parts = [
        f'"partition":{record.partition},"offset":{record.offset},"timestamp":{record.timestamp_ms}',
        *(
            [f'"topic":{json.dumps(record.own_topic, ensure_ascii=False)}']
            if record.own_topic
            else []
        ),
        *_part("key", record.key, False),
        *_part("value", record.value, is_json),
    ]
    if record.headers:
        parts.append(
            '"headers":'
            + _dump([_header(name, value) for name, value in record.headers])
        )
    return "{" + ",".join(parts) + "}"


def mask_records(records: Iterable[RawRecord], masking: Masking) -> list[RawRecord]:
    """The records with their columns masked, in their order.

    A value is replaced by another one of its type, and equal values by equal ones, in
    every stream. Keys and headers are masked too if they are one of the masked values
    of any record, or hold one as JSON. A record is left out if its columns cannot be
    found: its value is no JSON object, or it is a tombstone whose key is neither a JSON
    object nor one of the masked values.
    """
    masks: dict[str, Scalar] = {}
    key_masks: dict[str, Scalar] = {}
    found = []
    for record in records:
        own: dict[str, Scalar] = {}
        value = _mask_columns(record.value, masking, own)
        if value is None and record.value is not None:
            continue
        for content in (*(content for _, content in record.headers), record.key):
            _mask_columns(content, masking, own)
        key = _text(record.key)
        if key in own:
            key_masks[key] = own[key]
        masks.update(own)
        found.append((replace(record, value=value), own))
    # if columns of two types hold the same text, a tombstone's key gets the mask that
    # its record's key got
    masks.update(key_masks)
    masked = (
        _mask_outside_value(record, ChainMap(own, masks)) for record, own in found
    )
    return [record for record in masked if record is not None]


def mask_value(text: str, kind: SparkType, secret: bytes) -> Scalar:
    """The mask for the value `text` of a column of this type; the same secret always
    gives the same mask."""
    digest = hmac.digest(secret, text.encode(), hashlib.sha256)
    number = int.from_bytes(digest[:8], "big")
    if kind.name == "decimal":
        precision, scale = map(
            int, (*kind.parameters, "0")[:2] if kind.parameters else ("10", "0")
        )
        return number % int(10 ** (precision - scale))
    return number % NUMBERS[kind.name] if kind.name in NUMBERS else digest.hex()[:16]


NUMBERS: Mapping[str, int] = {
    "tinyint": 2**7,
    "smallint": 2**15,
    "int": 2**31,
    "bigint": 2**53,  # readers of JSON that know doubles only keep these
    "float": 2**24,
    "double": 2**53,
}
"""The types whose masks are whole numbers, each with the first number that is too
large."""

MASKABLE = frozenset({"string", "decimal", *NUMBERS})
"""The names of the types whose values can be masked."""


def find_masked(stream: Stream, path: str) -> tuple[tuple[str, ...], SparkType] | None:
    """The path in records, and the type, of a column of the contract or of a field in
    it (`address.city`, also in the items of an array).

    None if there is none.
    """
    first, *below = path.split(".")
    field = next(
        (
            column.field
            for column in stream.columns
            if column.name.lower() == first.lower()
        ),
        first,
    )
    kind = _column_type(stream, path)
    return ((field, *below), kind) if kind else None


def unmasked_columns(stream: Stream, masks: Iterable[str]) -> tuple[str, ...]:
    """The columns that are sensitive by the contract and that no mask covers as a
    whole."""
    masked = {mask.lower() for mask in masks}
    return tuple(
        column.name
        for column in stream.columns
        if column.sensitive and column.name.lower() not in masked
    )


def _column_type(stream: Stream, path: str) -> SparkType | None:
    columns = (
        TypeField(column.name, kind)
        for column in stream.columns
        if (kind := parse_type(column.type))
    )
    found = SparkType("struct", fields=tuple(columns))
    for name in path.split("."):
        while found.name == "array":
            found = found.fields[0].type
        below = [
            field.type
            for field in found.fields
            if found.name == "struct" and field.name.lower() == name.lower()
        ]
        if not below:
            return None
        found = below[0]
    return found


def _mask_columns(
    content: bytes | None, masking: Masking, masks: dict[str, Scalar]
) -> bytes | None:
    """The JSON object with its columns masked; each mask is added to `masks` by the
    original text. None if the content is no JSON object."""
    found = _parse(content)
    if not isinstance(found, dict):
        return None
    for path, kind in masking.types.items():

        def mask(value: Any, kind: SparkType = kind) -> Scalar:
            text = _text(value)
            masks[text] = mask_value(text, kind, masking.secret)
            return masks[text]

        for row in _rows_in(found) if masking.changes else [found]:
            _mask_at(row, path, mask)
    return _dump(found).encode()


def _rows_in(found: Any) -> Iterator[Any]:
    """The parsed key or event itself, and the objects in it that may be rows."""
    yield found
    for name in ("payload", "before", "after"):
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            yield from _rows_in(found[name])


def _mask_at(found: Any, path: Sequence[str], mask: Callable[[Any], Scalar]) -> None:
    """Mask the value at a path, in each item of a list on the way. Names are compared
    without case, as in Spark."""
    if isinstance(found, list):
        for item in found:
            _mask_at(item, path, mask)
        return
    if not isinstance(found, dict):
        return
    for key in [key for key in found if key.lower() == path[0].lower()]:
        if len(path) > 1:
            _mask_at(found[key], path[1:], mask)
        elif found[key] is not None:
            found[key] = mask(found[key])


def _mask_outside_value(
    record: RawRecord, masks: Mapping[str, Scalar]
) -> RawRecord | None:
    """The record with its key and headers masked; None for a tombstone whose key may
    hold a value that cannot be recognized."""
    if record.value is None and record.key and _text(record.key) not in masks:
        found = _parse(record.key)
        if not isinstance(found, dict) and not (
            isinstance(found, str) and found in masks
        ):
            return None
    headers = tuple(
        (name, _mask_content(content, masks)) for name, content in record.headers
    )
    return replace(record, key=_mask_content(record.key, masks), headers=headers)


def _mask_content(content: bytes | None, masks: Mapping[str, Scalar]) -> bytes | None:
    """A key or a header, masked if it is one of the masked texts, or holds some as
    JSON."""
    if content is None:
        return None
    text = _text(content)
    if text in masks:
        return str(masks[text]).encode()
    found = _parse(content)
    holds_values = isinstance(found, dict | list) or (
        isinstance(found, str) and found in masks
    )
    return _dump(_mask_within(found, masks)).encode() if holds_values else content


def _mask_within(found: Any, masks: Mapping[str, Scalar]) -> Any:
    """The parsed value with every masked value in it replaced."""
    text = _text(found)
    if found is not None and text in masks:
        return masks[text]
    match found:
        case dict():
            return {key: _mask_within(each, masks) for key, each in found.items()}
        case list():
            return [_mask_within(each, masks) for each in found]
        case _:
            return found


def _text(value: Any) -> str:
    """The text by which a value is recognized: bytes and texts themselves, everything
    else as JSON."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case str():
            return value
        case _:
            return _dump(value)


class Digits(str):
    """A JSON number with its original digits."""

    __slots__ = ()


def _dump(value: Any) -> str:
    match value:
        case Digits():
            return str(value)
        case dict():
            parts = (
                f"{json.dumps(key, ensure_ascii=False)}:{_dump(each)}"
                for key, each in value.items()
            )
            return "{" + ",".join(parts) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_dump, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _parse(content: bytes | None) -> Any:
    """The bytes parsed as JSON, fractions as `Digits`; None if they are not JSON."""
    try:
        return json.loads(content, parse_float=Digits) if content else None
    except (ValueError, RecursionError):
        return None


def _part(name: str, content: bytes | None, is_json: bool) -> list[str]:
    if content is None:
        return []
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return [f'"{name}_base64":"{base64.b64encode(content).decode()}"']
    found = (
        _parse(content) if is_json and "\n" not in text and "\r" not in text else None
    )
    is_plain = isinstance(found, dict) and _is_plain(found)
    return [f'"{name}":{text if is_plain else json.dumps(text, ensure_ascii=False)}']


def _is_plain(found: Any) -> bool:
    """Whether all fractions in the value can be written as doubles without loss, as
    Spark rewrites them."""
    match found:
        case Digits():
            return Decimal(found) == Decimal(repr(float(found)))
        case dict():
            return all(map(_is_plain, found.values()))
        case list():
            return all(map(_is_plain, found))
        case _:
            return True


def _header(name: str, content: bytes | None) -> list[str | None]:
    try:
        return [name, None if content is None else content.decode()]
    except UnicodeDecodeError:
        assert content is not None
        return [name, None, base64.b64encode(content).decode()]
