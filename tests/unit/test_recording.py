"""Records as lines of a recording, and columns that are masked in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.decode import node_of
from lakesql.errors import Place
from lakesql.source.cluster import newest_shares
from lakesql.stream.recording import (
    Masking,
    RawRecord,
    find_masked,
    mask_records,
    mask_value,
    render_record,
)
from lakesql.stream.stream import Stream, read_stream
from lakesql.stream.types import parse_type
from tests.cases import each_of

SECRET = b"0123456789abcdef"


def record(
    value: bytes | None, key: bytes | None = b"k", **headers: bytes | None
) -> RawRecord:
    return RawRecord("t", 1, 12, 1_772_400_000_000, key, value, tuple(headers.items()))


def masked(
    value: Any, types: dict[str, str], key: bytes | None = None, **headers: bytes | None
) -> RawRecord | None:
    content = (
        value
        if isinstance(value, bytes) or value is None
        else json.dumps(value).encode()
    )
    found = masked_all([record(content, key, **headers)], types)
    return found[0] if found else None


def masked_all(records: list[RawRecord], types: dict[str, str]) -> list[RawRecord]:
    kinds = {
        tuple(path.split(".")): kind
        for path, text in types.items()
        if (kind := parse_type(text))
    }
    return mask_records(records, Masking(kinds, SECRET))


def value_of(found: RawRecord | None) -> Any:
    assert found is not None and found.value is not None
    return json.loads(found.value)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda found: found,
        lambda found: {"schema": {"type": "struct"}, "payload": found},
    ],
)
def test_the_rows_of_a_change_are_masked_wherever_they_stand(wrap: Any) -> None:
    row = {"id": 1, "email": "ada@example.org"}
    event = wrap({"before": row, "after": {**row, "id": 2}, "op": "u"})
    key = json.dumps(wrap({"email": "ada@example.org"})).encode()
    kind = parse_type("string")
    assert kind is not None
    masking = Masking({("email",): kind}, SECRET, changes=True)
    (found,) = mask_records([record(json.dumps(event).encode(), key)], masking)
    assert found.value is not None and found.key is not None
    assert b"ada" not in found.value + found.key
    opened = json.loads(found.value)
    opened = opened.get("payload", opened)
    assert (
        opened["before"]["email"] == opened["after"]["email"]
        and opened["after"]["id"] == 2
    )


@each_of(
    ("value", "expected"),
    [
        (b'{"a": 1.50, "b":"\xc3\xa9"}', '"value":{"a": 1.50, "b":"é"}'),
        (b'{"a":\n1}', r'"value":"{\"a\":\n1}"'),
        (
            b'{"a":[{"b":0.1234567890123456789}]}',
            r'"value":"{\"a\":[{\"b\":0.1234567890123456789}]}"',
        ),
        (b'{"a":[{"b":1e400}]}', r'"value":"{\"a\":[{\"b\":1e400}]}"'),
        (b'{"a": 1', r'"value":"{\"a\": 1"'),
        (b'"text"', r'"value":"\"text\""'),
        (b"[1]", '"value":"[1]"'),
        (b"", '"value":""'),
        (b"\xff\x00", '"value_base64":"/wA="'),
        (None, ""),
    ],
)
def test_a_value_is_recorded_as_json_text_or_base64(
    value: bytes | None, expected: str
) -> None:
    start = '{"partition":1,"offset":12,"timestamp":1772400000000,"key":"k"'
    assert (
        render_record(record(value), True)
        == start + ("," if expected else "") + expected + "}"
    )


def test_an_object_of_another_format_is_text() -> None:
    assert json.loads(render_record(record(b'{"a": 1}'), False))["value"] == '{"a": 1}'


def test_keys_and_headers_that_are_not_utf8_are_recorded_in_base64() -> None:
    line = render_record(record(b"v", b"\xfe", a=b"1", b=None, c=b"\xff"), True)
    found = json.loads(line)
    assert "key" not in found and found["key_base64"] == "/g=="
    assert found["headers"] == [["a", "1"], ["b", None], ["c", None, "/w=="]]
    assert "key" not in json.loads(render_record(record(b"v", None), True))


@given(st.binary() | st.text().map(str.encode) | st.none())
def test_every_line_is_json_and_one_line(value: bytes | None) -> None:
    line = render_record(record(value, value), True)
    found = json.loads(line)
    assert "\n" not in line and "\r" not in line
    assert ("key" in found or "key_base64" in found) == (value is not None)


def test_equal_values_are_masked_alike_wherever_they_are() -> None:
    types = {"id": "bigint", "email": "string"}
    first = masked({"id": 7, "email": "a@b.c"}, types)
    second = masked(b'{"email": "a@b.c", "id": "7", "x": 1.10}', types)
    assert value_of(first)["email"] == value_of(second)["email"] not in ("a@b.c", None)
    assert value_of(first)["id"] == value_of(second)["id"] != 7
    assert (
        second is not None and second.value is not None and b'"x":1.10' in second.value
    )
    assert value_of(masked({"id": 8}, types))["id"] != value_of(first)["id"]


def test_another_secret_is_another_mask() -> None:
    kind = parse_type("string")
    assert kind is not None
    assert mask_value("a", kind, SECRET) != mask_value("a", kind, b"other")


@each_of(
    "kind",
    [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "decimal(5,2)",
        "decimal(3)",
        "float",
        "double",
    ],
)
def test_numbers_stay_numbers_of_their_type(kind: str) -> None:
    parsed = parse_type(kind)
    assert parsed is not None
    limit = {
        "tinyint": 127,
        "smallint": 32767,
        "int": 2**31 - 1,
        "decimal(5,2)": 999,
        "decimal(3)": 999,
    }
    found = [mask_value(str(number), parsed, SECRET) for number in range(200)]
    assert all(
        isinstance(each, int) and 0 <= each <= limit.get(kind, 2**53) for each in found
    )
    assert len(set(found)) > 50


def test_a_value_in_columns_of_two_types_is_masked_by_each_type() -> None:
    found = value_of(masked({"id": 7, "name": "7"}, {"id": "bigint", "name": "string"}))
    assert (
        isinstance(found["id"], int)
        and isinstance(found["name"], str)
        and found["name"] != "7"
    )


def test_nothing_is_invented_and_other_fields_stay() -> None:
    assert value_of(masked({"a": None, "b": 1}, {"a": "string", "c": "string"})) == {
        "a": None,
        "b": 1,
    }


def test_nested_fields_are_masked_whatever_their_case() -> None:
    value = {
        "Address": {"City": "Oslo", "zip": "1"},
        "lines": [{"sku": "x"}, {"sku": "y"}, 3],
    }
    found = value_of(masked(value, {"address.city": "string", "lines.sku": "string"}))
    assert found["Address"]["zip"] == "1" and found["Address"]["City"] != "Oslo"
    assert [
        isinstance(each, int) or each["sku"] not in "xy" for each in found["lines"]
    ] == [True] * 3


def test_keys_and_headers_that_say_it_too_are_masked() -> None:
    found = masked(
        {"id": 7, "n": 1}, {"id": "bigint"}, b"7", who=b"7", other=b"8", none=None
    )
    assert found is not None
    shown = str(value_of(found)["id"]).encode()
    assert (found.key, dict(found.headers)) == (
        shown,
        {"who": shown, "other": b"8", "none": None},
    )
    as_object = masked({"n": 1}, {"id": "bigint"}, b'{"id":7}')
    assert as_object is not None and as_object.key == b'{"id":' + shown + b"}"


def test_a_record_that_cannot_be_masked_is_dropped() -> None:
    for value in (b'{"email": "a@b.c"', b"a@b.c", b"[1]", b"\xff", b""):
        assert masked_all([record(value, None)], {"email": "string"}) == []


@each_of("key", [b"x", b"7", b'"x"', b'["x"]', b"\xff"])
def test_a_tombstone_whose_key_is_not_known_from_a_record_is_dropped(
    key: bytes,
) -> None:
    assert masked_all([record(None, key)], {"id": "string"}) == []


@pytest.mark.parametrize("key", [None, b"", b'{"a":"x"}'])
def test_a_tombstone_whose_key_holds_no_masked_value_is_kept(key: bytes | None) -> None:
    assert masked(None, {"id": "string"}, key) == record(None, key)


@pytest.mark.parametrize("tombstone_at", [0, 1])
def test_a_tombstone_has_the_masked_key_of_its_record(tombstone_at: int) -> None:
    records = [record(b'{"id":"c1"}', b"c1")]
    records.insert(tombstone_at, record(None, b"c1", who=b"c1"))
    found = masked_all(records, {"id": "string"})
    (mask,) = {each.key for each in found}
    assert mask == value_of(found[1 - tombstone_at])["id"].encode() != b"c1"
    assert found[tombstone_at].value is None and dict(found[tombstone_at].headers) == {
        "who": mask
    }


def test_values_of_any_record_are_masked_in_keys_and_headers_of_all() -> None:
    keys = [b"c1", b'"c1"', b'{"customer":{"ids":["c1",7,"d"]}}', b'["c1",null]']
    first, *others = masked_all(
        [
            record(b'{"id":"c1"}', None),
            *(record(b'{"id":"c2"}', key, seen=key, none=None) for key in keys),
        ],
        {"id": "string"},
    )
    mask = value_of(first)["id"]
    shown = [
        mask,
        f'"{mask}"',
        f'{{"customer":{{"ids":["{mask}",7,"d"]}}}}',
        f'["{mask}",null]',
    ]
    assert [each.key for each in others] == [text.encode() for text in shown]
    assert [dict(each.headers) for each in others] == [
        {"seen": each.key, "none": None} for each in others
    ]


def test_a_mask_that_is_another_value_is_not_masked_again() -> None:
    types = {"id": "tinyint"}
    ids = [value_of(masked({"id": number}, types))["id"] for number in range(128)]
    found = masked_all(
        [record(key, key) for key in (b'{"id":%d}' % number for number in range(128))],
        types,
    )
    assert [each.key for each in found] == [b'{"id":%d}' % number for number in ids]


def test_a_key_in_columns_of_two_types_is_masked_as_its_record_has_it() -> None:
    records = [
        record(b'{"id":7,"name":"x"}', b"7"),
        record(b'{"id":8,"name":"7"}', b"8"),
        record(None, b"7"),
    ]
    found = masked_all(records, {"id": "bigint", "name": "string"})
    assert found[2].key == found[0].key == str(value_of(found[0])["id"]).encode()


@pytest.mark.parametrize("text", ["", "null"])
def test_what_is_not_there_is_not_masked(text: str) -> None:
    found = masked({"id": text}, {"id": "string"}, None, none=None, within=b"[null]")
    assert found is not None and (found.key, dict(found.headers)) == (
        None,
        {"none": None, "within": b"[null]"},
    )


def test_the_type_of_a_nested_field_is_found_by_its_path() -> None:
    named = {"type": "struct<x:int>", "from": "a.b"}
    columns = {
        "id": "bigint",
        "named": named,
        "a": "struct<city:string,at:array<struct<`x y`:int>>>",
        "m": "map<string,int>",
    }
    entry = {"name": "s", "connection": "c", "topic": "t", "columns": columns}
    stream: Stream = read_stream(node_of(entry, Place("s.yml")))

    def kind(path: str) -> str | None:
        found = find_masked(stream, path)
        return found and found[1].text

    assert kind("ID") == "bigint"
    assert kind("a.city") == "string"
    assert kind("a.at.x y") == "int"
    found = find_masked(stream, "Named.x")
    assert found is not None and found[0] == ("a.b", "x")
    assert [kind(path) for path in ("no", "a.no", "id.x", "m.x", "")] == [None] * 5


@each_of(
    ("sizes", "count", "taken"),
    [
        ((10, 10, 10), 9, (3, 3, 3)),
        ((10, 10, 10), 10, (3, 3, 4)),
        ((1, 100, 0), 50, (1, 49, 0)),
        ((1, 2, 3), 50, (1, 2, 3)),
        ((0, 0), 5, (0, 0)),
    ],
)
def test_the_newest_records_are_shared_evenly_among_partitions(
    sizes: tuple[int, ...], count: int, taken: tuple[int, ...]
) -> None:
    first = {"t": dict.fromkeys(range(len(sizes)), 5)}
    end = {"t": {number: 5 + size for number, size in enumerate(sizes)}}
    begin_at = newest_shares(first, end, count)
    found = tuple(
        end["t"][number] - begin_at["t"][number] for number in range(len(sizes))
    )
    assert sorted(found) == sorted(taken) and all(
        size >= share for size, share in zip(sizes, found, strict=True)
    )
