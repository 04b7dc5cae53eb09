"""What of a recording others may see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesql.project.yaml import parse_yaml
from lakesql.stream.recording import unmasked_columns
from lakesql.stream.shown_sample import MASKED, show_lines, sounds_sensitive
from lakesql.stream.stream import Stream, read_stream
from tests.cases import each_of


def stream(columns: str, rest: str = "key: [id]") -> Stream:
    text = f"{{name: s, connection: c, topic: t, {rest}, columns: {{{columns}}}}}"
    return read_stream(parse_yaml("s.yml", text))


def line(value: Any, **rest: Any) -> str:
    return json.dumps(
        {
            "partition": 0,
            "offset": 7,
            "timestamp": 1772409601000,
            **rest,
            "value": value,
        }
    )


def shown(
    found: Stream, *lines: str, also: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    return [json.loads(each) for each in show_lines(lines, found, also)]


COLUMNS = "id: bigint, note: string, who: {type: string, sensitive: true}"


def test_declared_columns_are_shown_and_sensitive_and_unknown_ones_are_not() -> None:
    (found,) = shown(
        stream(COLUMNS),
        line({"id": 5, "note": "fine", "who": "Ada L.", "more": {"x": "secret stuff"}}),
    )
    assert found["value"] == {
        "id": 5,
        "note": "fine",
        "who": MASKED,
        "more": {"x": MASKED},
    }
    assert (found["partition"], found["offset"], found["timestamp"]) == (
        0,
        7,
        1772409601000,
    )


def test_a_masked_value_is_masked_wherever_it_stands() -> None:
    record = line(
        {"id": 5, "note": "call Ada L. now", "who": "Ada L."},
        key="Ada L.",
        headers=[["h", "Ada L."]],
    )
    other = line({"id": 6, "note": "Ada L.", "who": None}, key="6")
    found = show_lines([other, record], stream(COLUMNS))
    assert "Ada L." not in "".join(found)
    assert json.loads(found[1])["value"]["note"] == f"call {MASKED} now"
    assert json.loads(found[0])["value"] == {"id": 6, "note": MASKED, "who": None}


def test_a_masked_number_is_masked_in_other_columns_and_the_key() -> None:
    found = shown(
        stream("id: bigint, who: {type: bigint, sensitive: true}"),
        line({"id": 17, "who": 17}, key="17"),
    )
    assert (
        found[0]["value"] == {"id": MASKED, "who": MASKED} and found[0]["key"] == MASKED
    )
    assert found[0]["offset"] == 7


@each_of(
    ("name", "is_sensitive"),
    [
        ("billing_email", True),
        ("IPAddress", True),
        ("ipAddress", True),
        ("last_name", True),
        ("lastName", True),
        ("card_number", True),
        ("description", False),
        ("shipping", False),
        ("pinned", False),
        ("name", False),
        ("status", False),
    ],
)
def test_where_nothing_is_said_a_name_decides(name: str, is_sensitive: bool) -> None:
    assert sounds_sensitive(name) == is_sensitive
    (found,) = shown(
        stream(f"id: bigint, {name}: string"), line({"id": 1, name: "abcdef"})
    )
    assert found["value"][name] == (MASKED if is_sensitive else "abcdef")
    (found,) = shown(
        stream(f"id: bigint, {name}: {{type: string, sensitive: false}}"),
        line({"id": 1, name: "abcdef"}),
    )
    assert found["value"][name] == "abcdef"


def test_columns_go_by_the_fields_that_they_are_read_from() -> None:
    found = shown(
        stream(
            "id: bigint, who: {type: string, from: customerRef, sensitive: true}, m: {type: string, from: email}"
        ),
        line(
            {"id": 1, "customerRef": "Ada L.", "EMAIL": "seen", "who": "not the column"}
        ),
    )
    assert found[0]["value"] == {
        "id": 1,
        "customerRef": MASKED,
        "EMAIL": "seen",
        "who": MASKED,
    }


def test_of_structs_what_they_declare_is_shown_and_of_maps_nothing() -> None:
    kind = "struct<city: string, email: string, tags: array<string>>"
    found = shown(
        stream(
            f"id: bigint, at: '{kind}', m: 'map<string, string>', all: {{type: '{kind}', sensitive: false}}"
        ),
        line(
            {
                "at": {"city": "Ghent", "email": "a@b.cd", "tags": ["x"], "no": 1},
                "m": {"Ada L.": "v"},
                "all": {"no": 2},
            }
        ),
    )
    assert found[0]["value"] == {
        "at": {"city": "Ghent", "email": MASKED, "tags": ["x"], "no": MASKED},
        "m": MASKED,
        "all": {"no": 2},
    }


@each_of("value", ["no json", "[1]", '"text"', ["a"], 5])
def test_what_is_no_object_is_masked_as_a_whole(value: Any) -> None:
    (found,) = shown(stream(COLUMNS), line(value))
    assert found["value"] == ([MASKED] if isinstance(value, list) else MASKED)


def test_an_object_in_a_text_is_one_and_bytes_are_none() -> None:
    text = json.dumps(
        {
            "partition": 0,
            "value_base64": "QWRhIEwu",
            "key_base64": "QWRh",
            "other": "field",
        }
    )
    found = shown(
        stream(COLUMNS),
        line('{"id": 1, "who": "Ada L."}'),
        text,
        "not a line of JSON Ada L.",
    )
    assert found[0]["value"] == {"id": 1, "who": MASKED}
    assert found[1] == {
        "partition": 0,
        "value_base64": MASKED,
        "key_base64": MASKED,
        "other": MASKED,
    }
    assert found[2] == {"value": MASKED}


def test_a_key_is_shown_where_it_is_of_one_column_that_may_be_seen() -> None:
    record = line({"id": 1}, key="1")
    assert shown(stream(COLUMNS), record)[0]["key"] == "1"
    assert shown(stream(COLUMNS, "key: [id, note]"), record)[0]["key"] == MASKED
    assert shown(stream(COLUMNS, "key: [who]"), record)[0]["key"] == MASKED
    assert shown(stream(COLUMNS, "max_per_batch: 5"), record)[0]["key"] == MASKED
    in_key = stream(
        "id: bigint, region: {type: string, in: key}, who: {type: string, in: key, sensitive: true}"
    )
    assert shown(in_key, line({}, key='{"region": "north", "who": "Ada L."}'))[0][
        "key"
    ] == {
        "region": "north",
        "who": MASKED,
    }


@pytest.mark.parametrize("envelope", ["debezium", "debezium_flat"])
def test_a_change_has_its_rows_masked_and_its_place_shown(envelope: str) -> None:
    feed = stream(COLUMNS, f"key: [id], envelope: {envelope}")
    row = {"id": 1, "note": "n", "who": "Ada L.", "new": "x"}
    seen = {"id": 1, "note": "n", "who": MASKED, "new": MASKED}
    if envelope == "debezium_flat":
        assert shown(feed, line({**row, "__op": "u"}))[0]["value"] == {
            **seen,
            "__op": "u",
        }
        return
    event = {
        "op": "u",
        "ts_ms": 5,
        "source": {"table": "t"},
        "before": None,
        "after": row,
        "note": "aside",
    }
    expected = {**event, "after": seen, "note": MASKED}
    assert shown(feed, line(event))[0]["value"] == expected
    assert shown(feed, line({"schema": {"name": "x"}, "payload": event}))[0][
        "value"
    ] == {
        "schema": {"name": MASKED},
        "payload": expected,
    }


def test_what_a_group_masks_is_masked() -> None:
    (found,) = shown(
        stream("id: bigint, note: {type: string, sensitive: false}"),
        line({"id": 1, "note": "n"}),
        also=("note",),
    )
    assert found["value"] == {"id": 1, "note": MASKED}


def test_what_a_recording_would_have_unmasked_is_known() -> None:
    found = stream(
        "id: bigint, a: {type: string, sensitive: true}, B: {type: string, sensitive: true}, email: string"
    )
    assert unmasked_columns(found, ()) == ("a", "B")
    assert unmasked_columns(found, ("b",)) == ("a",)
    assert unmasked_columns(found, ("a", "b")) == ()
