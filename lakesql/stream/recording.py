"""Records of a topic as lines of a recorded folder, some of their columns masked. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from lakesql.stream.stream import Stream
from lakesql.stream.types import SparkType, TypeField, parse_type

Scalar = str | int | bool | None


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as the broker has it. `timestamp_ms` is the time since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Masking:
    """Which columns of a stream are masked, with each one's type. `secret` is what the masks are made with."""

    types: Mapping[str, SparkType]
    secret: bytes


def render_record(record: RawRecord, is_json: bool) -> str:
    """The line, without its end. Bytes that are not UTF-8 stand in base64, as `key_base64` and `value_base64`.

    With `is_json` a JSON object stands in the line as it is, to be read by people: whoever reads the recording gets the
    same values, in other white space.
    """
    parts = [
        f'"partition":{record.partition},"offset":{record.offset},"timestamp":{record.timestamp_ms}',
        *_part("key", record.key, False),
        *_part("value", record.value, is_json),
    ]
    if record.headers:
        parts.append('"headers":' + _dump([_header(name, value) for name, value in record.headers]))
    return "{" + ",".join(parts) + "}"


def mask_record(record: RawRecord, masking: Masking) -> RawRecord | None:
    """The record with its columns masked; None where it is no JSON object, in which they could not be found.

    A value becomes another one of its type, and equal ones become equal ones, whatever stream they are in. A key and a
    header that are, or as JSON hold, one of the values, are masked in the same way.
    """
    masked: dict[str, Scalar] = {}

    def mask_object(content: bytes | None) -> bytes | None:
        found = _parse(content)
        if not isinstance(found, dict):
            return None
        for path, kind in masking.types.items():

            def mask(value: Any, kind: SparkType = kind) -> Scalar:
                text = value if isinstance(value, str) else _dump(value)
                masked[text] = mask_value(text, kind, masking.secret)
                return masked[text]

            _mask_at(found, path.split("."), mask)
        return _dump(found).encode()

    def mask_text(content: bytes | None) -> bytes | None:
        text = "" if content is None else content.decode("utf-8", "replace")
        return mask_object(content) or (str(masked[text]).encode() if text in masked else content)

    value = mask_object(record.value)
    if value is None and record.value is not None:
        return None
    headers = tuple((name, mask_text(content)) for name, content in record.headers)
    return replace(record, key=mask_text(record.key), value=value, headers=headers)


def mask_value(text: str, kind: SparkType, secret: bytes) -> Scalar:
    """What stands for the value `text` of a column of this type, always the same for the same secret."""
    digest = hmac.digest(secret, text.encode(), hashlib.sha256)
    number = int.from_bytes(digest[:8], "big")
    if kind.name == "decimal":
        precision, scale = map(int, (*kind.parameters, "0")[:2] if kind.parameters else ("10", "0"))
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
"""Types whose masks are whole numbers, and the first number that is too large."""

MASKABLE = frozenset({"string", "decimal", *NUMBERS})
"""Names of the types whose values can be masked."""


def column_type(stream: Stream, path: str) -> SparkType | None:
    """The type of a column of the contract, or of a field in it: `address.city`, also in each item of an array.

    None where there is none.
    """
    columns = (TypeField(column.name, kind) for column in stream.columns if (kind := parse_type(column.type)))
    found = SparkType("struct", fields=tuple(columns))
    for name in path.split("."):
        while found.name == "array":
            found = found.fields[0].type
        below = [field.type for field in found.fields if found.name == "struct" and field.name.lower() == name.lower()]
        if not below:
            return None
        found = below[0]
    return found


def _mask_at(found: Any, path: Sequence[str], mask: Callable[[Any], Scalar]) -> None:
    """Mask what stands at a path, in each item of a list on the way. Capitals make no difference, as in Spark."""
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


class _Number(str):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ()


def _dump(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            parts = (f"{json.dumps(key, ensure_ascii=False)}:{_dump(each)}" for key, each in value.items())
            return "{" + ",".join(parts) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_dump, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _parse(content: bytes | None) -> Any:
    """What the bytes are as JSON; None where they are none."""
    try:
        return json.loads(content, parse_float=_Number) if content else None
    except (ValueError, RecursionError):
        return None


def _part(name: str, content: bytes | None, is_json: bool) -> list[str]:
    if content is None:
        return []
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return [f'"{name}_base64":"{base64.b64encode(content).decode()}"']
    is_plain = is_json and "\n" not in text and "\r" not in text and _is_plain_object(_parse(content))
    return [f'"{name}":{text if is_plain else json.dumps(text, ensure_ascii=False)}']


def _is_plain_object(found: Any) -> bool:
    """Whether it is an object whose fractions are doubles, as Spark rewrites them."""
    return isinstance(found, dict) and all(map(_is_plain, found.values()))


def _is_plain(found: Any) -> bool:
    match found:
        case _Number():
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
