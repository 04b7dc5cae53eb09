"""Random messages of Protobuf over versions of a random schema, and what columns must
hold of them.

What must come out is worked out by Protobuf's own library, of the class that a message
was written with.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from pyspark.sql import types as T

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INT, LONG, TEXT, BYTES = T.IntegerType(), T.LongType(), T.StringType(), T.BinaryType()

SCALARS: dict[str, T.DataType] = {
    "double": T.DoubleType(),
    "float": T.FloatType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), INT),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), LONG),
    **dict.fromkeys(("uint64", "fixed64"), T.DecimalType(20, 0)),
    "bool": T.BooleanType(),
    "string": TEXT,
    "bytes": BYTES,
    "Kind": TEXT,
}
KNOWN: dict[str, T.DataType] = {
    "google.protobuf.Timestamp": T.TimestampType(),
    "google.protobuf.Duration": T.DecimalType(21, 9),
    "google.protobuf.UInt64Value": T.DecimalType(20, 0),
    "google.protobuf.Int32Value": INT,
    "google.protobuf.StringValue": TEXT,
    "google.protobuf.Struct": TEXT,
}
WIDER = {
    "int32": ("int64", "sint32", "sfixed64"),
    "uint32": ("uint64", "int64"),
    "sint32": ("sint64", "int32"),
    "fixed32": ("uint64",),
    "float": ("double",),
    "bool": ("int32",),
}
"""What a field may become, on the wire another thing too: each record is read by its
own schema."""

Label = Literal["", "optional", "repeated", "oneof", "map"]


@dataclass(frozen=True)
class Entry:
    """A field: of a scalar, a message that Protobuf knows, or the message `below`. Maps
    have texts as keys."""

    name: str
    number: int
    kind: str
    label: Label = ""
    below: tuple[Entry, ...] = ()

    @property
    def type(self) -> T.DataType:
        """The type of its column."""
        single = {**SCALARS, **KNOWN}.get(self.kind) or struct_of(self.below)
        if self.label == "map":
            return T.MapType(TEXT, single)
        return T.ArrayType(single) if self.label == "repeated" else single


def struct_of(fields: Sequence[Entry]) -> T.StructType:
    return T.StructType([T.StructField(each.name, each.type) for each in fields])


def random_fields(rng: random.Random, depth: int, count: int) -> tuple[Entry, ...]:
    numbers = rng.sample(range(1, 40), count)
    return tuple(random_field(rng, number, depth) for number in numbers)


def random_field(rng: random.Random, number: int, depth: int) -> Entry:
    labels: tuple[Label, ...] = ("", "", "optional", "repeated", "oneof", "map")
    label, name = rng.choice(labels), f"f{number}"
    sort = rng.random()
    if depth and sort < 0.25:
        return Entry(name, number, "", label, random_fields(rng, depth - 1, 3))
    if sort < 0.45:
        return Entry(name, number, rng.choice([*KNOWN]), label)
    return Entry(name, number, rng.choice([*SCALARS]), label)


def evolved(
    rng: random.Random, fields: tuple[Entry, ...], depth: int = 2
) -> tuple[Entry, ...]:
    """The fields of a later version: some renamed, some widened, one gone, one new."""
    kept = list(fields)
    if len(kept) > 2:
        kept.remove(rng.choice(kept))
    changed = []
    for each in kept:
        if rng.random() < 0.3:
            each = replace(each, name=f"{each.name}x")
        if each.kind in WIDER and rng.random() < 0.4:
            each = replace(each, kind=rng.choice(WIDER[each.kind]))
        if each.label in ("", "optional") and rng.random() < 0.2:
            each = replace(each, label=rng.choice(("", "optional")))
        if each.below:
            each = replace(each, below=evolved(rng, each.below, depth - 1))
        changed.append(each)
    taken = {each.number for each in fields}
    number = rng.choice([it for it in range(40, 60) if it not in taken])
    changed.append(random_field(rng, number, 0))
    rng.shuffle(changed)
    return tuple(changed)


def proto_of(fields: Sequence[Entry], names: Mapping[int, str]) -> str:
    """The text of a version's schema; `names` are those of its enum."""
    known = ("timestamp", "duration", "wrappers", "struct")
    imports = "".join(f'import "google/protobuf/{each}.proto"; ' for each in known)
    symbols = " ".join(f"{name} = {number};" for number, name in names.items())
    return f'syntax = "proto3"; package shop; {imports} enum Kind {{ {symbols} }} message Order {{ {_lines(fields)} }}'


def _lines(fields: Sequence[Entry]) -> str:
    out, oneof = [], []
    for each in fields:
        kind = each.kind
        if not kind:
            kind = f"M{each.number}"
            out.append(f"message {kind} {{ {_lines(each.below)} }}")
        line = f"{kind} {each.name} = {each.number};"
        if each.label == "oneof":
            oneof.append(line)
        elif each.label == "map":
            out.append(f"map<string, {kind}> {each.name} = {each.number};")
        else:
            out.append(f"{each.label} {line}")
    if oneof:
        out.append(f"oneof choice {{ {' '.join(oneof)} }}")
    return "\n".join(out)


def fill(
    rng: random.Random, message: Any, fields: Sequence[Entry], kinds: Sequence[int]
) -> None:
    """Set some fields of a message."""
    for each in fields:
        if rng.random() < 0.35:
            continue
        found = getattr(message, each.name)
        if each.label == "repeated":
            for _ in range(rng.randrange(3)):
                _add(rng, found, each, kinds)
        elif each.label == "map":
            for key in rng.sample(["a", "b", "ü", ""], rng.randrange(3)):
                _put(rng, found, key, each, kinds)
        elif each.kind in SCALARS:
            setattr(message, each.name, random_value(rng, each.kind, kinds))
        else:
            found.SetInParent()
            _fill_one(rng, found, each, kinds)


def _add(rng: random.Random, found: Any, each: Entry, kinds: Sequence[int]) -> None:
    if each.kind in SCALARS:
        found.append(random_value(rng, each.kind, kinds))
    else:
        _fill_one(rng, found.add(), each, kinds)


def _put(
    rng: random.Random, found: Any, key: str, each: Entry, kinds: Sequence[int]
) -> None:
    if each.kind in SCALARS:
        found[key] = random_value(rng, each.kind, kinds)
    else:
        _fill_one(rng, found[key], each, kinds)


def _fill_one(
    rng: random.Random, message: Any, each: Entry, kinds: Sequence[int]
) -> None:
    match each.kind:
        case "google.protobuf.Timestamp":
            message.seconds = rng.choice(
                [0, -1, 253402300799, -62135596800, rng.randrange(2 * 10**9)]
            )
            message.nanos = rng.choice([0, 999_999_999, rng.randrange(10**9)])
        case "google.protobuf.Duration":
            sign = rng.choice([1, -1])
            message.seconds = sign * rng.choice(
                [0, 315_576_000_000, rng.randrange(10**6)]
            )
            message.nanos = sign * rng.choice([0, 999_999_999, rng.randrange(10**9)])
        case "google.protobuf.Struct":
            message.update({"a": rng.random(), "b": [None, True, "ü"], "c": {"d": {}}})
        case "google.protobuf.UInt64Value":
            message.value = random_value(rng, "uint64", kinds)
        case "google.protobuf.Int32Value":
            message.value = random_value(rng, "int32", kinds)
        case "google.protobuf.StringValue":
            message.value = random_value(rng, "string", kinds)
        case _:
            fill(rng, message, each.below, kinds)


def random_value(rng: random.Random, kind: str, kinds: Sequence[int]) -> Any:
    match kind:
        case "Kind":
            return rng.choice(kinds)
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(["", "a", "ü€😀", "x" * 50])
        case "bytes":
            return rng.choice([b"", b"\0\xff", b"abc"])
        case "double":
            return rng.choice([0.0, -0.5, 1e300, 3.25])
        case "float":
            return rng.choice([0.0, -0.5, 3.25])
    bits = 64 if "64" in kind else 32
    if kind.startswith(("u", "fixed")):
        return rng.choice([0, 1, 2**bits - 1, rng.randrange(2**bits)])
    return rng.choice(
        [0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(2**20)]
    )


def expected(
    columns: Sequence[Entry],
    written: Any,
    fields: Sequence[Entry],
    names: Mapping[int, str],
) -> dict[str, Any]:
    """What columns hold of a message, which was written with these fields."""
    row = {}
    for column in columns:
        own = next((each for each in fields if each.number == column.number), None)
        row[column.name] = _column(column, written, own, names)
    return row


def _column(
    column: Entry, written: Any, own: Entry | None, names: Mapping[int, str]
) -> Any:
    has_presence = column.label in ("optional", "oneof") or (
        not column.label and column.kind not in SCALARS
    )
    if column.label == "map":
        found = {} if own is None else getattr(written, own.name)
        return {key: _single(column, found[key], own, names) for key in found}
    if column.label == "repeated":
        found = [] if own is None else getattr(written, own.name)
        return [_single(column, each, own, names) for each in found]
    if own is None:
        return None if has_presence else _default(column, names)
    found, is_there = getattr(written, own.name), True
    if own.label in ("optional", "oneof") or own.kind not in SCALARS:
        is_there = written.HasField(own.name)
    elif has_presence:
        is_there = bool(found)  # what was not written
    if not is_there:
        return None if has_presence else _default(column, names)
    return _single(column, found, own, names)


def _default(column: Entry, names: Mapping[int, str]) -> Any:
    match column.type:
        case T.DecimalType():
            return Decimal(0)
        case T.StringType():
            return names[0] if column.kind == "Kind" else ""
        case T.BinaryType():
            return b""
        case T.BooleanType():
            return False
        case _:
            return 0


def _single(
    column: Entry, value: Any, own: Entry | None, names: Mapping[int, str]
) -> Any:
    assert own is not None
    match own.kind:
        case "google.protobuf.Timestamp":
            return EPOCH + timedelta(
                seconds=value.seconds, microseconds=value.nanos // 1000
            )
        case "google.protobuf.Duration":
            return Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9)
        case "google.protobuf.Struct":
            return json.dumps({"a": value["a"], "b": [None, True, "ü"], "c": {"d": {}}})
        case (
            "google.protobuf.UInt64Value"
            | "google.protobuf.Int32Value"
            | "google.protobuf.StringValue"
        ):
            return value.value
        case "Kind":
            return names[value]
        case "":
            return expected(column.below, value, own.below, names)
        case _:
            return value
