"""Messages read by the schemas they were written with, as the contract's columns,
beside Protobuf's own library."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from pyspark.sql import types as T

from lakesql.engine.records.proto_decode import WRONG, make_decoder, prefixes, reference
from lakesql.engine.records.proto_reader import ProtoReaders, make_proto_readers
from lakesql.registry.connection import Wire
from lakesql.registry.registered import Registered
from lakesql.registry.schema_error import NoColumnError
from lakesql.registry.schemas import StreamSchemas
from tests.messages import framed, message_of
from tests.share import a_few
from tests.unit.random_messages import evolved, expected, fill, proto_of, random_fields

INT, LONG, TEXT, BYTES = T.IntegerType(), T.LongType(), T.StringType(), T.BinaryType()
HEAD = 'syntax = "proto3"; package shop; '


def schemas_of(
    *texts: str, wire: Wire = "confluent", message: str = ""
) -> StreamSchemas:
    """Schemas of the ids from 1 on, the last one the newest."""
    known = tuple(
        Registered(number, "PROTOBUF", text) for number, text in enumerate(texts, 1)
    )
    return StreamSchemas(wire, known, len(known), kind="PROTOBUF", message=message)


def read(
    readers: ProtoReaders,
    values: Sequence[bytes | None],
    ids: Sequence[int | None] = (),
) -> list[dict[str, Any] | str]:
    """The rows of values, by the ids that they begin with; what is wrong, where that is
    all that there is."""
    ids = ids or [
        None if value is None else int.from_bytes(value[1:5], "big") for value in values
    ]
    found = make_decoder(readers.plan)(
        pa.array(ids, pa.int64()), pa.array(values, pa.binary())
    )
    return [_row(each) for each in found.to_pylist(maps_as_pydicts="strict")]


def _row(read_: Mapping[str, Any]) -> dict[str, Any] | str:
    groups = [
        value for name, value in read_.items() if name != WRONG and value is not None
    ]
    assert len(groups) <= 1 or not read_[WRONG]
    return read_[WRONG] or (groups[0] if groups else {})


def test_each_record_is_read_by_its_own_schema() -> None:
    first = (
        HEAD
        + "message Order { int32 id = 1; string cust = 2; string gone = 3; sint32 delta = 4; }"
    )
    second = (
        HEAD
        + "message Order { int64 id = 1; string customer = 2; int64 delta = 4; optional string more = 5; }"
    )
    one, two = message_of(first), message_of(second)
    columns = [
        ("id", LONG),
        ("customer", TEXT),
        ("gone", TEXT),
        ("delta", LONG),
        ("more", TEXT),
    ]
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
    texts = [
        HEAD + f"message Order {{ int64 id = 1; {more} }}"
        for more in ("", "string a = 2;", "string b = 3;")
    ]
    assert len(make_proto_readers(schemas_of(*texts), [("id", LONG)]).types) == 1
    narrow = HEAD + "message Order { int32 id = 1; }"
    assert (
        len(make_proto_readers(schemas_of(narrow, *texts), [("id", LONG)]).types) == 2
    )


NAMES = ({0: "A", 1: "B"}, {0: "A", 1: "C", 2: "D"}, {0: "A", 1: "C", 2: "D", -7: "E"})
"""The enum of each version: a number gets another name, and others come."""


@pytest.mark.parametrize("seed", a_few(range(12), 3))
def test_random_messages_are_what_protobuf_says_they_are(seed: int) -> None:
    rng = random.Random(seed)
    versions = [random_fields(rng, 2, 8)]
    for _ in range(2):
        versions.append(evolved(rng, versions[-1]))
    texts = [
        proto_of(fields, names) for fields, names in zip(versions, NAMES, strict=True)
    ]
    last = {each.name: each for each in versions[-1]}
    gone = [
        each
        for fields in versions[:-1]
        for each in fields
        if each.number not in {it.number for it in versions[-1]}
    ]
    columns = [*last.values(), *{each.number: each for each in gone}.values()]
    readers = make_proto_readers(
        schemas_of(*texts), [(each.name, each.type) for each in columns]
    )
    assert readers.absent == ()
    values, wanted = [], []
    for number in range(60):
        version = number % len(versions)
        message = message_of(texts[version])()
        fill(rng, message, versions[version], [*NAMES[version]])
        values.append(framed(version + 1, message))
        row = {}
        # a name is that of the newest schema which has the field
        for column in columns:
            newest = max(
                at
                for at, fields in enumerate(versions)
                if column.number in {it.number for it in fields}
            )
            row |= expected(
                [column], message, versions[version], NAMES[max(newest, version)]
            )
        wanted.append(row)
    for found, row in zip(read(readers, values), wanted, strict=True):
        assert isinstance(found, dict), found
        assert plain(found) == plain(row)


def plain(value: Any) -> Any:
    """A value as it compares: numbers as numbers, texts of JSON as what they say,
    Decimals without digits of 0."""
    match value:
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case str() if value.startswith("{"):
            return json.loads(value)
        case bool() | Decimal():
            return Decimal(value).normalize()
        case int():
            return Decimal(value).normalize()
        case datetime():
            return value.astimezone(UTC)
        case _:
            return value


def one(
    text: str, columns: Sequence[tuple[str, T.DataType]], *values: Any, **options: Any
) -> list[dict[str, Any] | str]:
    """What is read of messages of one schema."""
    readers = make_proto_readers(schemas_of(text, **options), columns)
    return read(readers, [framed(1, value) for value in values])


def test_a_number_that_an_enum_has_no_name_for_is_never_another_value() -> None:
    text = (
        HEAD
        + "message Order { E e = 1; repeated E es = 2; In in = 3; } enum E { A = 0; B = 1; } message In { E e = 1; }"
    )
    made = message_of(text)
    values = [made(e=1), made(e=5), made(es=[0, 1, 7]), made()]
    inside = made()
    getattr(inside, "in").e = 9
    found = one(
        text,
        [("e", TEXT), ("es", T.ArrayType(TEXT)), ("in", struct(e=TEXT))],
        *values,
        inside,
    )
    assert found == [
        {"e": "B", "es": [], "in": None},
        "e: 5 is no number of enum shop.E",
        "es: 7 is no number of enum shop.E",
        {"e": "A", "es": [], "in": None},
        "in.e: 9 is no number of enum shop.E",
    ]
    assert one(text, [("e", INT)], made(e=5)) == [{"e": 5}]


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def test_numbers_without_a_sign() -> None:
    text = HEAD + "message Order { uint64 a = 1; uint32 b = 2; fixed64 c = 3; }"
    most = message_of(text)(a=2**64 - 1, b=2**32 - 1, c=2**63)
    row = {"a": Decimal(2**64 - 1), "b": 2**32 - 1, "c": Decimal(2**63)}
    decimal = T.DecimalType(20, 0)
    assert one(text, [("a", decimal), ("b", LONG), ("c", decimal)], most) == [row]
    assert one(text, [("a", LONG)], most, message_of(text)(a=2**63 - 1)) == [
        "a: not a bigint, or out of its range",
        {"a": 2**63 - 1},
    ]


KNOWN = "".join(
    f'import "google/protobuf/{each}.proto"; '
    for each in ("timestamp", "duration", "struct", "any")
)
TIMES = (
    HEAD
    + KNOWN
    + (
        "message Order { google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2; "
        "google.protobuf.Value v = 3; google.protobuf.ListValue l = 4; google.protobuf.Any any = 5; }"
    )
)


def test_times_that_are_none_are_told() -> None:
    made = message_of(TIMES)
    seconds = [
        (0, 0),
        (-62135596800, 0),
        (253402300799, 999_999_999),
        (253402300800, 0),
        (0, -1),
        (0, 10**9),
    ]
    values = [made(at={"seconds": second, "nanos": nano}) for second, nano in seconds]
    found = one(TIMES, [("at", T.TimestampType())], *values)
    assert [each["at"].year if isinstance(each, dict) else each for each in found] == [
        *(1970, 1, 9999),
        "at: not a timestamp of the years 1 to 9999",
        *["at: not a timestamp, of its nanoseconds"] * 2,
    ]
    lengths = [(-1, -500_000_000), (0, -1), (1, -1), (315_576_000_001, 0)]
    values = [made(took={"seconds": second, "nanos": nano}) for second, nano in lengths]
    assert one(TIMES, [("took", T.DecimalType(21, 9))], *values) == [
        {"took": Decimal("-1.5")},
        {"took": Decimal("-1e-9")},
        *["took: not a duration"] * 2,
    ]
    parts = struct(seconds=LONG, nanos=INT)
    assert one(TIMES, [("took", parts)], values[2]) == [
        {"took": {"seconds": 1, "nanos": -1}}
    ]


def test_messages_that_are_json_and_any() -> None:
    made = message_of(TIMES)
    first, second = made(), made()
    first.v.number_value = float("nan")
    second.v.struct_value.update({"a": [1, None, "ü"]})
    second.l.extend([True, 2])
    second.any.type_url, second.any.value = "t/shop.X", b"\x08\x01"
    columns = [("v", TEXT), ("l", TEXT), ("any", struct(type_url=TEXT, value=BYTES))]
    wrong, row = one(TIMES, columns, first, second)
    assert str(wrong).startswith("v: not JSON: ")
    assert row == {
        "v": '{"a":[1.0,null,"ü"]}',
        "l": "[true,2.0]",
        "any": {"type_url": "t/shop.X", "value": b"\x08\x01"},
    }


def test_the_defaults_of_proto2() -> None:
    text = (
        'syntax = "proto2"; package shop; message Order { optional int32 a = 1; optional int32 b = 2 [default = 7]; '
        'required string c = 3; optional E e = 4 [default = B]; optional string f = 5 [default = "x"]; '
        "optional bytes g = 6; repeated int32 h = 7 [packed = true]; } enum E { B = 2; A = 1; }"
    )
    columns = [
        ("a", INT),
        ("b", INT),
        ("c", TEXT),
        ("e", TEXT),
        ("f", TEXT),
        ("g", BYTES),
        ("h", T.ArrayType(INT)),
    ]
    written = message_of(text)(a=0, b=0, c="", e=1, f="", g=b"", h=[1, 2])
    assert one(text, columns, written, b"") == [
        {"a": 0, "b": 0, "c": "", "e": "A", "f": "", "g": b"", "h": [1, 2]},
        {"a": None, "b": 7, "c": None, "e": "B", "f": "x", "g": None, "h": []},
    ]


def test_a_number_that_has_been_given_to_another_field_is_not_read_as_it() -> None:
    first = (
        HEAD
        + "message Order { double amount = 1; string note = 2; In in = 3; message In { int32 a = 1; } }"
    )
    second = (
        HEAD
        + "message Order { string label = 1; int64 note = 2; double amount = 4; string in = 3; }"
    )
    one_, two = message_of(first), message_of(second)
    columns = [("label", TEXT), ("amount", T.DoubleType()), ("note", TEXT)]
    readers = make_proto_readers(schemas_of(first, second), columns)
    old, new = (
        framed(1, one_(amount=1.5, note="7")),
        framed(2, two(label="l", note=8, amount=2.5)),
    )
    assert read(readers, [old, new]) == [
        {"label": None, "amount": 1.5, "note": "7"},
        {"label": "l", "amount": 2.5, "note": 8},
    ]


def test_a_field_that_has_become_repeated() -> None:
    first, second = (
        HEAD + f"message Order {{ {label} int32 a = 1; {label} string b = 2; }}"
        for label in ("", "repeated")
    )
    columns = [("a", T.ArrayType(INT)), ("b", T.ArrayType(TEXT))]
    readers = make_proto_readers(schemas_of(first, second), columns)
    values = [
        framed(1, message_of(first)(a=3, b="x")),
        framed(2, message_of(second)(a=[1, 2], b=["y"])),
    ]
    assert read(readers, values) == [{"a": [3], "b": ["x"]}, {"a": [1, 2], "b": ["y"]}]
    backwards = make_proto_readers(schemas_of(second, first), columns)
    values = [
        framed(2, message_of(first)(a=3)),
        framed(1, message_of(second)(a=[1, 2])),
    ]
    assert read(backwards, values) == [{"a": [3], "b": []}, {"a": [1, 2], "b": []}]


def test_keys_of_maps() -> None:
    text = HEAD + "message Order { map<int32, string> a = 1; map<bool, int32> b = 2; }"
    made = message_of(text)(a={-1: "x"}, b={True: 3})
    texts, longs = T.MapType(TEXT, TEXT), T.MapType(LONG, TEXT)
    assert one(text, [("a", texts), ("b", T.MapType(TEXT, INT))], made) == [
        {"a": {"-1": "x"}, "b": {"true": 3}}
    ]
    assert one(text, [("a", longs)], made) == [{"a": {-1: "x"}}]


def test_a_message_in_itself_is_read_as_deep_as_it_is_declared() -> None:
    text = HEAD + "message Order { int32 id = 1; Order before = 2; }"
    made = message_of(text)(id=1, before={"id": 2, "before": {"id": 3}})
    assert one(text, [("before", struct(id=INT, before=struct(id=INT)))], made) == [
        {"before": {"id": 2, "before": {"id": 3}}}
    ]
    for kind in (TEXT, struct(before=TEXT)):
        with pytest.raises(
            NoColumnError, match=r"is of type shop\.Order, which holds itself"
        ):
            make_proto_readers(schemas_of(text), [("before", kind)])


def test_what_no_schema_has_is_absent() -> None:
    text = (
        HEAD + "message Order { int32 id = 1; In in = 2; message In { int32 a = 1; } }"
    )
    readers = make_proto_readers(
        schemas_of(text), [("ID", INT), ("x", INT), ("in", struct(a=INT, b=INT))]
    )
    assert readers.absent == ("in.b", "x")
    value = framed(1, message_of(text)(id=4))
    assert read(readers, [value]) == [{"ID": 4, "x": None, "in": None}]


def test_the_message_of_a_record() -> None:
    text = HEAD + (
        "message Other { int32 id = 1; } message Order { int32 id = 1; message In { int32 id = 1; } } "
        "message Last { int32 id = 1; }"
    )
    body = b"\x08\x05"
    befores = {path: prefixes(path) for path in ((0,), (1,), (1, 0), (2,))}
    assert befores == {
        (0,): (b"\0", b"\2\0"),
        (1,): (b"\2\2",),
        (1, 0): (b"\4\2\0",),
        (2,): (b"\2\4",),
    }
    assert prefixes((100,)) == (b"\x02\xc8\x01",)
    values = [framed(1, body, each) for found in befores.values() for each in found]
    values.append(framed(1, body, reference("Order")))
    wrong = "it is a {}, and the stream reads shop.Order"
    readers = make_proto_readers(schemas_of(text, message="shop.Order"), [("id", INT)])
    assert read(readers, values) == [
        *[wrong.format("shop.Other")] * 2,
        {"id": 5},
        wrong.format("shop.Order.In"),
        wrong.format("shop.Last"),
        {"id": 5},
    ]
    inner = make_proto_readers(schemas_of(text, message="In"), [("id", INT)])
    assert read(inner, values)[3] == {"id": 5}
    nameless = [
        b"\0\0\0\0\1",
        framed(1, b"", b"\x10\2"),
        framed(1, b"", b"\xff\xff\xff\xff"),
    ]
    assert (
        read(readers, nameless)
        == ["the bytes behind its id name no message of schema id 1"] * 3
    )


def test_messages_change_places_and_names() -> None:
    first = HEAD + "message Order { int32 id = 1; } message Other { int32 id = 1; }"
    second = HEAD + "message Other { int32 id = 1; } message Order { int32 id = 1; }"
    renamed = HEAD + "message OrderPlaced { int32 id = 1; }"
    readers = make_proto_readers(
        schemas_of(first, second, renamed, message="Order"), [("id", INT)]
    )
    assert dict(readers.unusable) == {3: "has no message Order"}
    values = [
        framed(1, b"\x08\x05"),
        framed(2, b"\x08\x06", b"\2\2"),
        framed(2, b"", b"\0"),
    ]
    assert read(readers, values)[:2] == [{"id": 5}, {"id": 6}]
    unsaid = make_proto_readers(
        schemas_of(HEAD + "message Order { int32 id = 1; }", renamed), [("id", INT)]
    )
    assert read(unsaid, [framed(1, b"\x08\x05"), framed(2, b"\x08\x06")]) == [
        {"id": 5},
        {"id": 6},
    ]


@pytest.mark.parametrize(("wire", "size"), [("apicurio", 9), ("apicurio_headers", 0)])
def test_apicurio_names_the_message_by_a_reference_or_not_at_all(
    wire: Wire, size: int
) -> None:
    text = HEAD + "message Order { int32 id = 1; } message Other { int32 id = 1; }"
    readers = make_proto_readers(schemas_of(text, wire=wire), [("id", INT)])
    values = [
        bytes(size) + before + b"\x08\x05"
        for before in (b"", reference("Order"), reference("Other"))
    ]
    assert read(readers, [*values, bytes(size)], [1, 1, 1, 1]) == [
        {"id": 5},
        {"id": 5},
        "it is a shop.Other, and the stream reads shop.Order",
        {"id": 0},
    ]


def test_what_fails_is_alone() -> None:
    text = HEAD + "message Order { int32 id = 1; string name = 2; }"
    made = message_of(text)
    values: list[Any] = [made(id=number, name=str(number)) for number in range(100)]
    values[17], values[63], values[64] = b"\x12\x05ab", b"\x12\x01\xff", b"\x08"
    found = one(text, [("id", INT), ("name", TEXT)], *values)
    assert [number for number, each in enumerate(found) if isinstance(each, str)] == [
        17,
        63,
        64,
    ]
    assert found[17] == "not a record of the Protobuf schema: Wire format was corrupt"
    assert [each["id"] for each in found if isinstance(each, dict)] == [
        it for it in range(100) if it not in (17, 63, 64)
    ]


def test_ids_whose_schema_cannot_be_used() -> None:
    known = (
        Registered(1, "PROTOBUF", HEAD + "message Order { int32 id = 1; }"),
        Registered(2, "AVRO", '"string"'),
    )
    known = (
        *known,
        Registered(3, "PROTOBUF", "message {"),
        Registered(4, "PROTOBUF", HEAD),
    )
    schemas = StreamSchemas("confluent", known, 1, frozenset({9}), "PROTOBUF")
    readers = make_proto_readers(schemas, [("id", INT)])
    assert dict(readers.unusable) == {
        2: "is a schema of AVRO, not of Protobuf",
        3: "has a schema that cannot be read: lakesql_schema.proto:1:9: Expected message name.",
        4: "has no message shop.Order",
        9: "is not in the registry",
    }


def test_a_key_that_is_written_twice_has_its_last_value() -> None:
    text = HEAD + "message Order { map<string, int32> m = 4; }"
    entries = {key: b"\x22\x05\x0a\x01a\x10" + bytes([key]) for key in (1, 2)}
    found = one(
        text,
        [("m", T.MapType(TEXT, INT))],
        entries[1] + entries[2],
        b"",
        entries[2] + entries[1],
    )
    assert found == [{"m": {"a": 2}}, {"m": {}}, {"m": {"a": 1}}]


FUZZED = HEAD + (
    "message Order { int32 a = 1; string s = 2; repeated int32 r = 3; In in = 5; repeated In ins = 6; double d = 8; "
    "sint64 z = 9; bytes y = 10; optional uint32 u = 11; fixed32 f = 12; message In { int32 a = 1; string s = 2; } }"
)
INNER = struct(a=INT, s=TEXT)
FUZZED_COLUMNS = [
    *(
        ("a", INT),
        ("s", TEXT),
        ("r", T.ArrayType(INT)),
        ("in", INNER),
        ("ins", T.ArrayType(INNER)),
    ),
    *(("d", T.DoubleType()), ("z", LONG), ("y", BYTES), ("u", LONG), ("f", LONG)),
]


def of_library(body: bytes) -> dict[str, Any] | None:
    """What Protobuf's own library reads; None where it reads nothing."""
    try:
        read_ = message_of(FUZZED).FromString(body)
    except DecodeError:
        return None
    row = {name: getattr(read_, name) for name, _ in FUZZED_COLUMNS}
    row["in"] = in_of(row["in"]) if read_.HasField("in") else None
    row["u"] = read_.u if read_.HasField("u") else None
    return {**row, "r": list(row["r"]), "ins": [in_of(each) for each in row["ins"]]}


def in_of(message: Any) -> dict[str, Any]:
    return {"a": message.a, "s": message.s}


@pytest.mark.checks
def test_bytes_that_were_damaged_are_what_protobuf_says_they_are() -> None:
    rng = random.Random(11)
    whole = message_of(FUZZED)(
        a=-2,
        s="ab\u00fc",
        r=[1, -2],
        ins=[{"s": "w"}],
        d=1.5,
        z=-3,
        y=b"\0\1",
        u=7,
        f=9,
    )
    getattr(whole, "in").a = 1
    bodies = [damaged(rng, whole.SerializeToString()) for _ in range(5000)]
    found = one(FUZZED, FUZZED_COLUMNS, *bodies)
    wanted = list(map(of_library, bodies))
    assert 500 < wanted.count(None) < 4500
    for body, row, expected_ in zip(bodies, found, wanted, strict=True):
        assert repr(row if isinstance(row, dict) else None) == repr(expected_), (
            body.hex()
        )


def damaged(rng: random.Random, body: bytes) -> bytes:
    """The bytes with one to three of them changed, gone or added."""
    changed = bytearray(body)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[place] = rng.randrange(256)
            case 1:
                del changed[place]
            case _:
                changed.insert(place, rng.randrange(256))
    return bytes(changed)
