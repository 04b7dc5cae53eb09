"""The records that a unit test gives of a stream: keys, values and what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lakesql.decode import Node, node_of
from lakesql.errors import Place, ProjectError
from lakesql.project.yaml import parse_yaml
from lakesql.stream.stream import Stream, read_stream
from lakesql.unit.arrivals_given import Arrival, read_arrivals, topic_stream
from lakesql.unit.running_clock import find_running_clock
from tests.cases import each_of

NOW = datetime(2026, 3, 5, 12)
PLAIN = {
    "name": "s",
    "connection": "c",
    "topic": "t",
    "columns": {"id": "bigint", "n": "decimal(30,2)", "at": "timestamp"},
}
FEED = {
    **PLAIN,
    "envelope": "debezium",
    "key": ["ID"],
    "columns": {
        "id": "bigint",
        "name": "string",
        "at": {"type": "timestamp", "unit": "milliseconds"},
    },
}
LINES = {
    "name": "s",
    "path": "s/*.csv",
    "format": "csv",
    "columns": {"id": "bigint", "name": "string", "day": "date"},
}


def read(options: dict[str, Any], *records: Any, first: int = 0) -> list[Arrival]:
    """The arrivals of records written as YAML has them."""

    def other(node: Node, kind: str) -> Any:
        raise AssertionError(f"{kind} is known")

    stream: Stream = topic_stream(
        read_stream(node_of(options, Place("streams.yml"))), "unit_s"
    )
    node = parse_yaml("tests.yml", json.dumps([*records]))
    assert node is not None
    return read_arrivals(node, stream, Path(), NOW, first, other)


def test_a_record_is_what_a_topic_has_of_it() -> None:
    found = read(
        PLAIN,
        {"id": 1, "at": "2026-03-01T00:00:00+01:00"},
        "{raw",
        None,
        {
            "id": 2,
            "_record": {
                "key": {"k": 1},
                "timestamp": "1970-01-01T00:00:01Z",
                "headers": {"h": "v", "n": 5},
            },
        },
        {"_record": {"key": "gone", "value": None}},
        first=7,
    )
    assert [it.value for it in found] == [
        '{"id":1,"at":"2026-02-28T23:00:00Z"}',
        "{raw",
        None,
        '{"id":2}',
        None,
    ]
    assert [it.offset for it in found] == [7, 8, 9, 10, 11]
    assert [it.key for it in found] == [None, None, None, '{"k":1}', "gone"]
    assert [it.timestamp_ms for it in found] == [1_772_712_000_000] * 3 + [
        1000,
        1_772_712_000_000,
    ]
    assert found[3].headers == (("h", "v"), ("n", "5"))


def test_a_number_keeps_its_digits() -> None:
    stream = topic_stream(read_stream(node_of(PLAIN, Place("streams.yml"))), "unit_s")
    node = parse_yaml(
        "tests.yml",
        "[{n: 1234567890123456789.10}, {_record: {value: {n: 0.12345678901234567890}}}]",
    )
    assert node is not None
    found = read_arrivals(node, stream, Path(), NOW, 0, lambda node, kind: None)
    assert [it.value for it in found] == [
        '{"n":1234567890123456789.10}',
        '{"n":0.12345678901234567890}',
    ]


def test_a_change_is_an_event_with_its_key() -> None:
    created, updated, deleted, truncated = read(
        FEED,
        {"op": "c", "after": {"id": 1, "at": "1970-01-01T00:00:02.500Z"}},
        {
            "op": "u",
            "before": {"id": 1, "name": "a"},
            "after": {"id": 1, "name": "b"},
            "ts": "1970-01-01T00:00:01Z",
        },
        {"op": "d", "before": {"id": 1}, "position": 99, "tx": "x"},
        {"op": "t"},
        first=3,
    )
    event = json.loads(created.value or "")
    assert (
        event["after"] == {"id": 1, "name": None, "at": 2500}
        and event["before"] is None
    )
    assert event["source"] == {"snapshot": "false", "lsn": 4}
    event = json.loads(updated.value or "")
    assert (
        event["before"]["name"],
        event["after"]["name"],
        event["source"]["ts_ms"],
    ) == ("a", "b", 1000)
    event = json.loads(deleted.value or "")
    assert event["after"] is None and event["source"] == {
        "snapshot": "false",
        "lsn": 99,
        "txId": "x",
    }
    assert [it.key for it in (created, updated, deleted, truncated)] == [
        '{"id":1}'
    ] * 3 + [None]


def test_a_line_has_its_columns_in_their_order() -> None:
    (line,) = read(LINES, {"day": "2026-03-05", "name": 'a "b", c'})
    assert line.value == ',"a ""b"", c",2026-03-05'
    marked = {
        **LINES,
        "columns": {"id": "bigint", "price": "decimal(9,2)"},
        "csv": {"decimal": ","},
    }
    (line,) = read(marked, {"id": 1, "price": 1.5})
    assert line.value == '1,"1,50"'
    (line,) = read(
        {**marked, "csv": {"decimal": ",", "delimiter": ";"}}, {"id": 1, "price": 1.5}
    )
    assert line.value == "1;1,50"


@each_of(
    ("stream", "record", "condition"),
    [
        (PLAIN, 5, "bad-fixture"),
        (PLAIN, {"id": "x"}, "bad-fixture"),
        (PLAIN, {"other": 1}, "unknown-column"),
        (PLAIN, {"id": 1, "_record": {"value": "x"}}, "bad-fixture"),
        (PLAIN, {"id": 1, "_record": {"offset": 1}}, "unknown-option"),
        (PLAIN, {"id": 1, "_record": {"timestamp": "noon"}}, "bad-fixture"),
        (LINES, {"id": 1, "name": ""}, "bad-fixture"),
        (
            {**LINES, "csv": {"date_format": "dd.MM.yyyy"}},
            {"id": 1, "day": "2026-03-05"},
            "bad-fixture",
        ),
        (FEED, {"id": 1}, "unknown-option"),
        (FEED, {"op": "x"}, "wrong-value"),
        (FEED, {"op": "c"}, "bad-fixture"),
        (FEED, {"op": "c", "after": {"id": 1}, "before": {"id": 1}}, "bad-fixture"),
        (FEED, {"op": "d", "before": {"id": 1}, "position": -1}, "bad-fixture"),
        (
            FEED,
            {"op": "d", "before": {"id": 1}, "ts": "2026-03-05T12:00:00.000001Z"},
            "bad-fixture",
        ),
        (FEED, {"op": "u", "before": {"id": 1}, "after": {"id": 2}}, "bad-fixture"),
        (
            FEED,
            {"op": "c", "after": {"id": 1, "at": "2026-03-05T12:00:00.000001Z"}},
            "bad-fixture",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    stream: dict[str, Any], record: Any, condition: str
) -> None:
    with pytest.raises(ProjectError) as error:
        read(stream, record)
    problem, *_ = error.value.problems
    assert problem.condition == condition
    assert problem.place is not None and problem.place.path == "tests.yml"


@each_of(
    ("text", "found"),
    [
        (
            "SELECT current_timestamp() AS current_date, 'now', now(), `current_date` FROM s",
            "",
        ),
        ("SELECT s.current_date, unix_timestamp(at), current_date() FROM s", ""),
        ("SELECT Current_Timestamp FROM s", "Current_Timestamp without brackets"),
        ("SELECT CURRENT_DATE AS today", "CURRENT_DATE without brackets"),
        ("SELECT unix_timestamp() - 5 FROM s", "unix_timestamp()"),
    ],
)
def test_a_clock_that_a_test_cannot_stop_is_found(text: str, found: str) -> None:
    assert find_running_clock([text]) == found
