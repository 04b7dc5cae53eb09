"""How Protobuf values become Arrow columns, on the executors in Python. It imports
nothing of lakesql, which need not be installed there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

WRONG = "wrong"
"""The field with the reason why a record could not be read."""

MESSAGE = "R0"
"""The name of the message with which a group's records are read."""

MISFIT = "not a record of the Protobuf schema"

How = Literal["as_is", "int64", "decimal", "time", "seconds", "json", "nothing"]


@dataclass(frozen=True)
class Value:
    """A value without others in it. `how` is its conversion, `path` its place in the
    record, `of` the name of its message."""

    how: How = "as_is"
    path: str = ""
    of: str = ""


@dataclass(frozen=True)
class Symbol:
    """A number of an enum, which becomes its name."""

    path: str
    of: str
    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Wrapped:
    """A message around one value, which becomes that value."""

    inner: Shape


@dataclass(frozen=True)
class Record:
    """A message, which becomes a struct: for each field of the struct its name, the
    name of the message's field that it is read from, its shape, and the default that
    its schema declares, if any."""

    fields: tuple[tuple[str, str, Shape, Any], ...]


@dataclass(frozen=True)
class Many:
    """A repeated field, which becomes an array."""

    element: Shape


@dataclass(frozen=True)
class Mapped:
    """A map. Its keys are converted to `key_type`; '' if they stay as they are."""

    key: Shape
    value: Shape
    key_type: Literal["", "string", "int64"] = ""


Shape = Value | Symbol | Wrapped | Record | Many | Mapped


@dataclass(frozen=True)
class ReadAlike:
    """How the records of a group of writers are read: the descriptor of a file with
    `MESSAGE`, and the shape that it becomes."""

    descriptor: bytes
    shape: Record


@dataclass(frozen=True)
class Writer:
    """The group of a writer's records, and the bytes that precede its messages: one of
    `own`, or one of `others` before a message of another name. `schema` names the
    schema in error texts. `may_be_bare`: the message may have no such bytes before
    it."""

    group: int
    schema: str
    own: tuple[bytes, ...]
    others: tuple[tuple[bytes, str], ...] = ()
    may_be_bare: bool = False


@dataclass(frozen=True)
class Plan:
    """How records are read, by the schema ids that they name. `skip` is the number of
    bytes before those that name the message, `reads` the name of the message that is
    read."""

    skip: int
    reads: str
    groups: tuple[ReadAlike, ...] = ()
    writers: Mapping[int, Writer] = field(default_factory=dict)


class Unfit(ValueError):  # noqa: N818  it is told of a record
    """Why a record, or one of a list of records, cannot be read."""


def make_decoder(plan: Plan) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """A function from arrays of ids and values to an array of structs: a field for each
    group, which is NULL on the records of other groups, and `WRONG`."""
    readers: list[Any] = []

    def decode(ids: pa.Array, values: pa.Array) -> pa.Array:
        if not readers:
            readers.extend(_reader(group) for group in plan.groups)
        wrong: list[str | None] = [None] * len(ids)
        read = [
            _read_group(readers[number], group, *found, wrong)
            for number, (group, found) in enumerate(
                zip(plan.groups, _sort(plan, ids, values, wrong), strict=True)
            )
        ]
        names = [f"g{number}" for number in range(len(read))]
        return pa.StructArray.from_arrays(
            [*read, pa.array(wrong, pa.string())], [*names, WRONG]
        )

    return decode


def _reader(group: ReadAlike) -> Callable[[list[bytes]], Any]:
    """A function that reads a list of messages as an Arrow record batch. Raises `Unfit`
    if one of them is invalid.

    Protobuf's own library checks them first: ptars accepts some invalid messages, such
    as those with groups without an end, and panics over others.
    """
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
    from ptars import HandlerPool, PtarsConfig

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(group.descriptor)
    message = pool.FindMessageTypeByName(MESSAGE)
    config = PtarsConfig(list_value_name="element")
    handler = HandlerPool([message.file], config=config).get_for_message(message)
    check = message_factory.GetMessageClass(message).FromString

    def read(bodies: list[bytes]) -> Any:
        try:
            for body in bodies:
                check(body)
        except DecodeError as error:
            raise Unfit(f"{MISFIT}: {str(error).rpartition(': ')[2]}") from None
        try:
            return handler.list_to_record_batch(bodies)
        except BaseException as error:
            # a Rust panic, whose class is not below `Exception`
            if type(error).__name__ != "PanicException":
                raise
            raise Unfit(f"{MISFIT}: {error}") from None

    return read


def _sort(
    plan: Plan, ids: pa.Array, values: pa.Array, wrong: list[str | None]
) -> list[tuple[list[int], list[bytes]]]:
    """The places and the messages of each group's records. Records with another message
    are marked in `wrong`."""
    found: list[tuple[list[int], list[bytes]]] = [([], []) for _ in plan.groups]
    for place, (id_, value) in enumerate(
        zip(ids.to_pylist(), values.to_pylist(), strict=True)
    ):
        if id_ is None or value is None or (writer := plan.writers.get(id_)) is None:
            continue
        start = _start_of(plan, writer, value)
        if start < 0:
            wrong[place] = _other_message(plan, writer, value)
            continue
        places, bodies = found[writer.group]
        places.append(place)
        bodies.append(value[start:])
    return found


def _start_of(plan: Plan, writer: Writer, value: bytes) -> int:
    """The index at which the message begins; -1 if it is another message, or none is
    named."""
    for before in writer.own:
        if value.startswith(before, plan.skip):
            return plan.skip + len(before)
    if not writer.may_be_bare or any(
        value.startswith(before, plan.skip) for before, _ in writer.others
    ):
        return -1
    return plan.skip


def _other_message(plan: Plan, writer: Writer, value: bytes) -> str:
    for before, name in writer.others:
        if value.startswith(before, plan.skip):
            return f"it is a {name}, and the stream reads {plan.reads}"
    return f"the bytes behind its id name no message of {writer.schema}"


def _read_group(
    read: Callable[[list[bytes]], Any],
    group: ReadAlike,
    places: list[int],
    bodies: list[bytes],
    wrong: list[str | None],
) -> Any:
    """What a group has read, as an array with NULL in the places of other records."""
    count = len(wrong)
    parts = _read_all(
        lambda some: _shaped(_as_struct(read(some)), group.shape), places, bodies, wrong
    )
    if len(parts) == 1 and len(parts[0][1]) == count:
        return parts[0][1]
    if not parts:
        return _nothing(read, group, count)
    taken: list[int | None] = [None] * count
    number = 0
    for at, part in parts:
        for place in at:
            taken[place] = number
            number += 1
        assert len(part) == len(at)
    return pa.concat_arrays([part for _, part in parts]).take(
        pa.array(taken, pa.int64())
    )


def _nothing(read: Callable[[list[bytes]], Any], group: ReadAlike, count: int) -> Any:
    """An array of `count` NULLs of a group's type."""
    return pa.nulls(count, _shaped(_as_struct(read([])), group.shape).type)


def _read_all(
    read: Callable[[list[bytes]], Any],
    places: list[int],
    bodies: list[bytes],
    wrong: list[str | None],
) -> list[tuple[list[int], Any]]:
    """What could be read, as parts with their places. A list with an invalid record
    fails as a whole, so it is split in two until that record is alone, which is marked
    in `wrong`."""
    if not bodies:
        return []
    try:
        return [(places, read(bodies))]
    except ValueError as error:
        if len(bodies) == 1:
            wrong[places[0]] = _say(error)
            return []
    middle = len(bodies) // 2
    first = _read_all(read, places[:middle], bodies[:middle], wrong)
    return first + _read_all(read, places[middle:], bodies[middle:], wrong)


def _say(error: ValueError) -> str:
    """Why a record cannot be read, in one line."""
    if isinstance(error, Unfit):
        return str(error)
    said = str(error).strip().splitlines()
    return f"{MISFIT}: {said[0].removeprefix('failed to decode Protobuf message: ')}"


def _as_struct(batch: Any) -> Any:
    if not batch.num_columns:
        return pa.array([{}] * batch.num_rows, pa.struct([]))
    return pa.StructArray.from_arrays(batch.columns, fields=[*batch.schema])


def _shaped(array: Any, shape: Shape) -> Any:
    """An Arrow array of messages or values, converted to its shape. Raises `Unfit` for
    a value that does not fit."""
    match shape:
        case Value():
            return _value(array, shape)
        case Symbol():
            return _symbol(array, shape)
        case Wrapped(inner):
            return _shaped(pc.struct_field(array, [0]), inner)
        case Record():
            return _record(array, shape)
        case Many(element):
            values = _shaped(array.values, element)
            kind = pa.list_(pa.field("element", values.type))
            return pa.ListArray.from_arrays(
                array.offsets, values, type=kind, mask=_mask(array)
            )
        case Mapped(key, value, key_type):
            offsets, keys, items = _once(array)
            keys, items = _shaped(keys, key), _shaped(items, value)
            if key_type:
                keys = keys.cast(key_type)
            return pa.MapArray.from_arrays(offsets, keys, items, mask=_mask(array))


def _record(array: Any, shape: Record) -> Any:
    parts = []
    for _, field_name, inner, default in shape.fields:
        if inner == Value("nothing"):
            parts.append(pa.nulls(len(array), pa.string()))
            continue
        part = pc.struct_field(array, [array.type.get_field_index(field_name)])
        if default is not None:
            part = pc.fill_null(part, pa.scalar(default, part.type))
        parts.append(_shaped(part, inner))
    return pa.StructArray.from_arrays(
        parts, [name for name, *_ in shape.fields], mask=array.is_null()
    )


def _once(array: Any) -> tuple[Any, Any, Any]:
    """The offsets, keys and values of maps. A key that was written twice has its last
    value, as Protobuf specifies."""
    offsets, keys, items = array.offsets, array.keys, array.items
    maps = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
    entries = pa.table({"map": maps, "key": keys})
    if entries.group_by(["map", "key"]).aggregate([]).num_rows == len(keys):
        return offsets, keys, items
    named, ends = keys.to_pylist(), offsets.to_pylist()
    kept: list[int] = []
    kept_ends = [0]
    for start, end in pairwise(ends):
        kept += {named[place]: place for place in range(start, end)}.values()
        kept_ends.append(len(kept))
    chosen = pa.array(kept, pa.int64())
    return pa.array(kept_ends, pa.int32()), keys.take(chosen), items.take(chosen)


def _mask(array: Any) -> Any:
    return array.is_null() if array.null_count else None


def _symbol(array: Any, shape: Symbol) -> Any:
    numbers, names = zip(*shape.names, strict=True)
    found = pc.index_in(array, value_set=pa.array(numbers, pa.int32()))
    if found.null_count > array.null_count:
        known = set(numbers)
        unknown = next(
            number
            for number in array.to_pylist()
            if number is not None and number not in known
        )
        raise Unfit(f"{shape.path}: {unknown} is no number of enum {shape.of}")
    return pa.array(names, pa.string()).take(found)


def _value(array: Any, shape: Value) -> Any:
    match shape.how:
        case "int64":
            return _within(array, pa.int64(), shape)
        case "decimal":
            return array.cast(pa.decimal128(20, 0))
        case "time":
            return _time(array, shape)
        case "seconds":
            return _seconds(array, shape)
        case "json":
            return pa.array(
                [_json(each, shape) for each in array.to_pylist()], pa.string()
            )
        case _:
            return array


def _within(array: Any, kind: Any, shape: Value) -> Any:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        raise Unfit(f"{shape.path}: not a bigint, or out of its range") from None


FIRST_SECOND, LAST_SECOND, LAST_NANOSECOND = (
    -62_135_596_800,
    253_402_300_799,
    999_999_999,
)
LONGEST_S = 315_576_000_000
"""The bounds that Protobuf specifies for a Timestamp, which are the years 1 to 9999,
and for a Duration."""


def _time(array: Any, shape: Value) -> Any:
    """Timestamps, truncated to microseconds."""
    seconds, nanos = pc.struct_field(array, [0]), pc.struct_field(array, [1])
    _expect_between(
        seconds,
        FIRST_SECOND,
        LAST_SECOND,
        f"{shape.path}: not a timestamp of the years 1 to 9999",
    )
    _expect_between(
        nanos, 0, LAST_NANOSECOND, f"{shape.path}: not a timestamp, of its nanoseconds"
    )
    micros = pc.divide(nanos.cast(pa.int64()), 1000)
    return pc.add(pc.multiply(seconds, 1_000_000), micros).cast(
        pa.timestamp("us", "UTC")
    )


def _seconds(array: Any, shape: Value) -> Any:
    """Durations, in seconds."""
    seconds, nanos = pc.struct_field(array, [0]), pc.struct_field(array, [1])
    said = f"{shape.path}: not a duration"
    _expect_between(seconds, -LONGEST_S, LONGEST_S, said)
    _expect_between(nanos, -LAST_NANOSECOND, LAST_NANOSECOND, said)
    _expect_between(
        pc.multiply(pc.sign(seconds).cast(pa.int32()), pc.sign(nanos).cast(pa.int32())),
        0,
        1,
        said,
    )
    kind = pa.decimal128(21, 9)
    whole = nanos.cast(pa.decimal128(21, 0))
    fraction = pa.Array.from_buffers(
        kind, len(whole), whole.buffers(), whole.null_count, whole.offset
    )
    return pc.add(seconds.cast(pa.decimal128(21, 0)), fraction).cast(kind)


def _expect_between(array: Any, least: int, most: int, said: str) -> None:
    bounds = pc.min_max(array)
    if bounds["min"].is_valid and (
        bounds["min"].as_py() < least or bounds["max"].as_py() > most
    ):
        raise Unfit(said)


def _json(written: bytes | None, shape: Value) -> str | None:
    """The JSON text of a message that represents JSON (`google.protobuf.Struct`, for
    example)."""
    if written is None:
        return None
    from google.protobuf import json_format, struct_pb2

    kind = getattr(struct_pb2, shape.of.rpartition(".")[2])
    try:
        found = json_format.MessageToDict(kind.FromString(written))
        return json.dumps(
            found, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except Exception as error:  # of the library, of JSON
        raise Unfit(f"{shape.path}: not JSON: {error}") from None


def prefixes(path: Sequence[int]) -> tuple[bytes, ...]:
    """The bytes that may precede a message of this path: the number of indexes and each
    index, as zigzag varints. For the first message of a file they may also be a single
    0."""
    written = b"".join(map(_varint, (len(path), *path)))
    return (b"\0", written) if tuple(path) == (0,) else (written,)


def _varint(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def reference(name: str) -> bytes:
    """The bytes that Apicurio's serializers may write before a message: a message with
    its name, preceded by its length. Empty if the name is too long for a length of one
    byte."""
    said = name.encode()
    return bytes((len(said) + 2, 0x0A, len(said))) + said if len(said) < 126 else b""
