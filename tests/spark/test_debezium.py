"""Change events of Debezium: which rows they give, of which types, and what of them is
a dead letter."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {"id": {"type": "bigint", "required": True}, "name": "string"}
SOURCE = {
    "connector": "postgresql",
    "ts_ms": 1_772_366_400_000,
    "snapshot": "false",
    "lsn": 100,
    "txId": 7,
}

Wrap = Callable[[dict[str, Any]], dict[str, Any]]


def event(
    op: str, after: Any = None, before: Any = None, **more: Any
) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "op": op,
        "ts_ms": 1,
        "source": SOURCE,
        "transaction": None,
        **more,
    }


def plain(content: dict[str, Any]) -> dict[str, Any]:
    return content


def with_schema(content: dict[str, Any]) -> dict[str, Any]:
    """A key or a value as it is with `schemas.enable=true`."""
    return {
        "schema": {
            "type": "struct",
            "fields": [{"field": "x"}],
            "name": "shop.Envelope",
        },
        "payload": content,
    }


def feed(project: Project, columns: dict[str, Any] = COLUMNS) -> None:
    project.stream("s", columns, envelope="debezium", key=["id"])


def send(project: Project, *records: tuple[Any, Any]) -> None:
    """Keys and values, in order; a value that is None is a tombstone."""
    project.record("s", [Fields(key=key, value=value) for key, value in records])


@pytest.mark.parametrize("wrap", [plain, with_schema])
def test_each_kind_of_change_is_a_row_with_what_happened(
    project: Project, wrap: Wrap
) -> None:
    feed(project)
    fields = ", ".join(
        f"_change.{name} AS {name}"
        for name in ("op", "ts", "position", "tx", "snapshot", "before")
    )
    project.model("m", f"SELECT id, name, {fields} FROM {{s}}", mode="append")
    transaction = {"id": "7:90", "total_order": 3, "data_collection_order": 1}
    key = wrap({"id": 1})
    send(
        project,
        (
            key,
            wrap(
                event(
                    "r", {"id": 1, "name": "a"}, source={**SOURCE, "snapshot": "last"}
                )
            ),
        ),
        (key, wrap(event("c", {"id": 2, "name": "b"}, transaction=transaction))),
        (key, wrap(event("u", {"id": 2, "name": None}, {"id": 2, "name": "b"}))),
        (key, wrap(event("d", None, {"id": 2, "name": ""}))),
        (key, None),
        (key, wrap(event("d"))),
        (None, wrap(event("m", message={"prefix": "x", "content": "aGk="}))),
        (None, wrap(event("t"))),
    )
    ran = project.run().check()
    assert ran.finished("m").records == 8
    rows = project.rows_without_spark("m")
    assert not project.has("m__dead_letter") or project.reasons("m") == {}
    found = [
        (row["op"], row["id"], row["name"], row["position"], row["snapshot"])
        for row in rows
    ]
    expected = [
        ("r", 1, "a", [100], True),
        ("c", 2, "b", [100, 3], False),
        ("u", 2, None, [100], False),
        ("d", 2, "", [100], False),
        ("d", 1, None, [100], False),
        ("t", None, None, [100], False),
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {row["tx"] for row in rows} == {"7"}
    assert {row["ts"] for row in rows} == {datetime(2026, 3, 1, 12, tzinfo=UTC)}
    assert {row["op"]: row["before"] for row in rows if row["op"] in "cu"} == {
        "c": None,
        "u": {"id": 2, "name": "b"},
    }


def test_binlog_positions_are_compared_as_numbers(project: Project) -> None:
    feed(project)
    project.model("m", "SELECT id, _change.position AS at FROM {s}", mode="append")
    places = [
        {"file": f"mariadb-bin.{file:06}", "pos": at, "row": row}
        for file, at, row in ((9, 500, 0), (10, 4, 2))
    ]
    for id_, place in enumerate(places):
        send(
            project,
            (
                {"id": id_},
                event(
                    "c",
                    {"id": id_, "name": None},
                    source={"connector": "mariadb", **place},
                ),
            ),
        )
    project.run().check()
    assert [row["at"] for row in project.rows("m", "id")] == [[9, 500, 0], [10, 4, 2]]


VALUES: list[tuple[str | dict[str, str], Any, Any]] = [
    ("decimal(12,2)", "12.50", Decimal("12.50")),
    ("decimal(12,2)", 12.5, Decimal("12.50")),
    ("decimal(12,2)", "-0.10", Decimal("-0.10")),
    ("decimal(12,2)", "12.5000", Decimal("12.50")),
    ("decimal(12,2)", 1e3, Decimal("1000.00")),
    ("decimal(12,2)", "1.25E1", Decimal("12.50")),
    ("double", "NaN", float("nan")),
    ("double", "-Infinity", float("-inf")),
    ("double", 1e300, 1e300),
    ("float", 0.5, 0.5),
    ("boolean", True, True),
    ("boolean", 0, False),
    ("smallint", -32768, -32768),
    ("bigint", 9223372036854775807, 9223372036854775807),
    ("date", 20513, date(2026, 3, 1)),
    ("date", -1, date(1969, 12, 31)),
    ("date", "2026-03-01", date(2026, 3, 1)),
    (
        "timestamp",
        "2026-03-01T12:00:00.123456Z",
        datetime(2026, 3, 1, 12, 0, 0, 123456, UTC),
    ),
    (
        {"type": "timestamp", "unit": "milliseconds"},
        -1,
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
    ),
    (
        {"type": "timestamp", "unit": "microseconds"},
        1772366400000001,
        datetime(2026, 3, 1, 12, 0, 0, 1, UTC),
    ),
    (
        {"type": "timestamp", "unit": "nanoseconds"},
        -1,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    (
        {"type": "timestamp", "unit": "nanoseconds"},
        1772366400000001999,
        datetime(2026, 3, 1, 12, 0, 0, 1, UTC),
    ),
    (
        {"type": "timestamp_ntz", "unit": "microseconds"},
        10_000_000_000_000_000,
        datetime(2286, 11, 20, 17, 46, 40),
    ),
    ("binary", base64.b64encode(b"\x00\xff").decode(), b"\x00\xff"),
    ("string", '{"a": 1}', '{"a": 1}'),
    (
        "string",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ),
    ("binary", base64.urlsafe_b64encode(b"\xfb\xff\xfe").decode(), b"\xfb\xff\xfe"),
    ({"type": "binary", "encoding": "hex"}, "00ff", b"\x00\xff"),
    ({"type": "binary", "encoding": "hex"}, "0x00FF", b"\x00\xff"),
    ({"type": "string", "unit": "milliseconds"}, 27_000_001, "07:30:00.001"),
    ({"type": "string", "unit": "microseconds"}, 27_000_000_000, "07:30:00"),
    (
        {"type": "string", "unit": "nanoseconds"},
        86_399_999_999_999,
        "23:59:59.999999999",
    ),
    ({"type": "string", "unit": "microseconds"}, -3_020_399_500_000, "-838:59:59.5"),
    ({"type": "string", "unit": "microseconds"}, "07:30:00Z", "07:30:00Z"),
    ("bigint", 27_000_000_000, 27_000_000_000),
    ("string", "P1Y2M3DT4H5M6.7S", "P1Y2M3DT4H5M6.7S"),
    ("string", 27_000_000_000, "27000000000"),
    ("int", 2026, 2026),
    ("int", 0, 0),
    ("string", "red,green", "red,green"),
    ("decimal(20,0)", 18446744073709551615, Decimal(18446744073709551615)),
    ("decimal(9,3)", {"scale": 1, "value": "fQ=="}, Decimal("12.500")),
    ("decimal(9,3)", {"scale": -2, "value": "fQ=="}, Decimal(12500)),
    ("double", {"scale": 2, "value": "/4M="}, -1.25),
    ("decimal(38,20)", "1.00000000000000000001", Decimal("1.00000000000000000001")),
    ("decimal(12,4)", 1234567.8901, Decimal("1234567.8901")),
    ("date", "2026-03-01Z", date(2026, 3, 1)),
    ("map<string,string>", '{"a": "1", "b": null}', [("a", "1"), ("b", None)]),
    (
        "struct<wkb:binary,srid:int>",
        {"wkb": "AAE=", "srid": 4326},
        {"wkb": b"\x00\x01", "srid": 4326},
    ),
    ("array<int>", [], []),
    ("array<int>", [1, None, 3], [1, None, 3]),
    ("array<date>", [0, "1970-01-02"], [date(1970, 1, 1), date(1970, 1, 2)]),
    ("struct<x:double,y:date>", {"x": 1.5, "y": 1}, {"x": 1.5, "y": date(1970, 1, 2)}),
    ("map<string,int>", {"a": 1}, [("a", 1)]),
    ("string", None, None),
]


def test_values_arrive_as_the_type_of_their_column(project: Project) -> None:
    feed(
        project,
        {**COLUMNS, **{f"c{number}": kind for number, (kind, *_) in enumerate(VALUES)}},
    )
    project.model("m", "SELECT * FROM {s}", mode="append")
    row = {
        "id": 1,
        "name": None,
        **{f"c{number}": value for number, (_, value, _) in enumerate(VALUES)},
    }
    send(project, ({"id": 1}, event("c", row)))
    project.run().check()
    (found,) = project.rows_without_spark("m")
    for number, (kind, value, expected) in enumerate(VALUES):
        arrived = found[f"c{number}"]
        same = (
            isnan(arrived)
            if isinstance(expected, float) and isnan(expected)
            else arrived == expected
        )
        assert same, (kind, value, arrived)


def precise(unscaled: int) -> str:
    """A decimal as Connect writes it: its digits as a whole number in two's complement,
    in base64."""
    return base64.b64encode(
        unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    ).decode()


DECIMAL, TIME = "org.apache.kafka.connect.data.Decimal", "io.debezium.time."
ANY_SCALE = "io.debezium.data.VariableScaleDecimal"
BY_SCHEMA: list[tuple[str, str, int | None, Any, Any]] = [
    ("decimal(12,2)", DECIMAL, 2, precise(1250), Decimal("12.50")),
    ("decimal(12,2)", DECIMAL, 2, precise(-1), Decimal("-0.01")),
    ("decimal(12,2)", DECIMAL, 0, precise(7), Decimal("7.00")),
    ("decimal(12,2)", DECIMAL, 4, precise(-125000), Decimal("-12.50")),
    ("decimal(12,2)", DECIMAL, 2, precise(0), Decimal("0.00")),
    ("decimal(38,0)", DECIMAL, 0, precise(10**38 - 1), Decimal(10**38 - 1)),
    ("decimal(38,0)", DECIMAL, 0, precise(1 - 10**38), Decimal(1 - 10**38)),
    ("decimal(38,9)", DECIMAL, 9, precise(-(2**64)), Decimal(-(2**64)).scaleb(-9)),
    ("decimal(18,0)", DECIMAL, 0, precise(2**55 + 1), Decimal(2**55 + 1)),
    (
        "timestamp",
        f"{TIME}Timestamp",
        None,
        -1,
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
    ),
    (
        "timestamp",
        f"{TIME}MicroTimestamp",
        None,
        1772366400000001,
        datetime(2026, 3, 1, 12, 0, 0, 1, UTC),
    ),
    (
        "timestamp",
        f"{TIME}NanoTimestamp",
        None,
        1772366400000001000,
        datetime(2026, 3, 1, 12, 0, 0, 1, UTC),
    ),
    (
        "timestamp_ntz",
        "org.apache.kafka.connect.data.Timestamp",
        None,
        0,
        datetime(1970, 1, 1),
    ),
    ("date", f"{TIME}Date", None, 20513, date(2026, 3, 1)),
    ("string", f"{TIME}Time", None, 27_000_500, "07:30:00.5"),
    ("string", f"{TIME}MicroTime", None, 27_000_000_001, "07:30:00.000001"),
    ("string", f"{TIME}NanoTime", None, 0, "00:00:00"),
    ("string", f"{TIME}ZonedTime", None, "07:30:00Z", "07:30:00Z"),
    ("bigint", f"{TIME}MicroTime", None, 27_000_000_001, 27_000_000_001),
    ("bigint", f"{TIME}MicroDuration", None, -1, -1),
    ("smallint", f"{TIME}Year", None, 2026, 2026),
    ("string", "io.debezium.data.Enum", None, "7", "7"),
    ("binary", "io.debezium.data.Bits", None, "AQI=", b"\x01\x02"),
    ("string", DECIMAL, 2, precise(-125), "-1.25"),
    ("double", DECIMAL, 2, precise(-125), -1.25),
    ("bigint", DECIMAL, 0, precise(2**62), 2**62),
    ("decimal(20,0)", DECIMAL, 0, precise(2**64 - 1), Decimal(2**64 - 1)),
    (
        "array<string>",
        f"{TIME}MicroTime",
        None,
        [27_000_000_000, None],
        ["07:30:00", None],
    ),
    (
        "array<timestamp>",
        f"{TIME}MicroTimestamp",
        None,
        [-1],
        [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
    ),
    ("array<decimal(9,2)>", DECIMAL, 2, [precise(-125)], [Decimal("-1.25")]),
    ("string", ANY_SCALE, None, {"scale": 3, "value": precise(-7)}, "-0.007"),
    (
        "decimal(9,3)",
        ANY_SCALE,
        None,
        {"scale": 3, "value": precise(-7)},
        Decimal("-0.007"),
    ),
]


def test_the_schema_beside_an_event_says_how_its_values_are_written(
    project: Project,
) -> None:
    columns = {f"c{number}": kind for number, (kind, *_) in enumerate(BY_SCHEMA)}
    feed(project, {**COLUMNS, **columns})
    project.model("m", "SELECT *, _change.before AS before FROM {s}", mode="append")
    fields = [
        {
            "field": f"c{number}",
            **({"items": each} if kind.startswith("array") else each),
        }
        for number, (kind, name, scale, *_) in enumerate(BY_SCHEMA)
        for each in [
            {
                "name": name,
                "parameters": None if scale is None else {"scale": str(scale)},
            }
        ]
    ]
    row = {
        "id": 1,
        "name": None,
        **{f"c{number}": value for number, (*_, value, _) in enumerate(BY_SCHEMA)},
    }
    schema = {
        "type": "struct",
        "fields": [{"field": side, "fields": fields} for side in ("before", "after")],
    }
    unfit = {**row, "id": 2, "c0": precise(12345), "c3": precise(125001)}
    sent = [
        {"schema": schema, "payload": event("u", each, row)} for each in (row, unfit)
    ]
    send(project, *(({"id": each["payload"]["after"]["id"]}, each) for each in sent))
    project.run().check()
    (found,) = project.rows_without_spark("m")
    for number, (kind, name, _, value, expected) in enumerate(BY_SCHEMA):
        assert found[f"c{number}"] == found["before"][f"c{number}"] == expected, (
            kind,
            name,
            value,
        )
    (letter,) = project.rows("m__dead_letter")
    assert letter["detail"].startswith("c3: not a decimal(12,2)")


class Written(str):
    """A JSON number with its digits as they are written."""


MISFITS: list[tuple[str | dict[str, str], Any]] = [
    ("decimal(12,2)", "12.345"),
    ("decimal(4,2)", "123.45"),
    ("decimal(4,2)", 1e-7),
    ("decimal(12,2)", "1,5"),
    ("decimal(12,2)", "AfQ="),
    ("double", "1e999"),
    ("tinyint", 128),
    ("int", 1.5),
    ("bigint", 18446744073709551615),
    ("boolean", "perhaps"),
    ("date", "yesterday"),
    ("date", 99999999999),
    ("date", 2932897),
    ("timestamp", "-infinity"),
    ({"type": "timestamp", "unit": "microseconds"}, 9223372036825200000),
    ("timestamp", 1772366400000),
    ("timestamp", "noon"),
    ({"type": "timestamp", "unit": "milliseconds"}, 9223372036854775807),
    ("binary", "no base64!"),
    ({"type": "binary", "encoding": "hex"}, "0g"),
    ({"type": "string", "unit": "microseconds"}, 99999999999999999999),
    ("bigint", "07:30:00"),
    ("bigint", "P1D"),
    ("smallint", 70000),
    ("decimal(4,2)", {"scale": 3, "value": precise(12345)}),
    ("decimal(4,2)", {"scale": 0, "value": "?"}),
    ("decimal(12,2)", "NaN"),
    ("decimal(12,2)", True),
    ("decimal(38,19)", Written("1.00000000000000000001")),
    ("decimal(38,18)", Written("123456789012345678901.5")),
    ("boolean", 2.5),
    ("date", "0000-00-00"),
    ("timestamp", "0000-00-00 00:00:00"),
    ({"type": "timestamp_ntz", "unit": "microseconds"}, -62_135_596_800_000_001),
    ("array<int>", "none"),
    ("array<int>", {"a": 1}),
    ("map<string,string>", "no JSON"),
    ("map<string,int>", {"a": "x"}),
    ("struct<x:int>", 1),
    ("struct<x:int>", [1]),
    ("array<struct<x:int>>", [{"x": 1}, "x"]),
    ("array<int>", [1, "x"]),
    ("struct<x:int>", {"x": "y"}),
]


def test_a_value_that_does_not_fit_is_a_dead_letter_that_names_its_column(
    project: Project,
) -> None:
    feed(
        project,
        {**COLUMNS, **{f"c{number}": kind for number, (kind, _) in enumerate(MISFITS)}},
    )
    project.model("m", "SELECT * FROM {s}", mode="append")
    rows = [
        {"id": number, "name": None, f"c{number}": value}
        for number, (_, value) in enumerate(MISFITS)
    ]
    for number, row in enumerate(rows):
        value, text = row[f"c{number}"], json.dumps(event("u", row))
        send(
            project,
            (
                {"id": number},
                text.replace(f'"{value}"', value)
                if isinstance(value, Written)
                else text,
            ),
        )
    assert project.run().conditions("m") == ["no-usable-record"]
    assert project.rows("m") == []
    letters = project.rows("m__dead_letter", "offset")
    assert [letter["reason"] for letter in letters] == ["unparsable"] * len(MISFITS)
    for number, letter in enumerate(letters):
        assert letter["detail"].startswith(f"c{number}: "), (
            MISFITS[number],
            letter["detail"],
        )
        assert json.loads(bytes(letter["value"]))["after"]["id"] == number


UNAVAILABLE = "__debezium_unavailable_value"
IN_BASE64 = base64.b64encode(UNAVAILABLE.encode()).decode()
AS_DECIMALS = [
    base64.b64encode(bytes([byte])).decode() for byte in UNAVAILABLE.encode()
]
UNSENT: list[tuple[str | dict[str, str], Any, Any]] = [
    ("string", UNAVAILABLE, "text"),
    ("binary", IN_BASE64, "fQ=="),
    ({"type": "binary", "encoding": "hex"}, UNAVAILABLE.encode().hex(), "00ff"),
    ("array<string>", [UNAVAILABLE], ["a", "b"]),
    ("array<binary>", [IN_BASE64], ["fQ=="]),
    ("string", [UNAVAILABLE], '["a"]'),
    ("struct<x:int,y:string>", UNAVAILABLE, '{"x": 1}'),
    ("map<string,int>", UNAVAILABLE, {"a": 1}),
    ("array<struct<x:int>>", UNAVAILABLE, [{"x": 1}]),
    ("array<array<int>>", UNAVAILABLE, "[[1]]"),
    ("array<int>", UNAVAILABLE, "[1, 2]"),
    ("array<string>", UNAVAILABLE, ["a"]),
    ("array<int>", list(UNAVAILABLE.encode()), [1, 2]),
    ("array<bigint>", list(UNAVAILABLE.encode()), [1]),
    ("array<date>", list(UNAVAILABLE.encode()), [0]),
    ("array<double>", [float(byte) for byte in UNAVAILABLE.encode()], [1.5]),
    ("array<decimal(10,2)>", AS_DECIMALS, ["1.25"]),
    (
        "array<decimal(10,2)>",
        [{"scale": 0, "value": each} for each in AS_DECIMALS],
        [{"scale": 1, "value": "fQ=="}],
    ),
    ("array<string>", [{"scale": 0, "value": each} for each in AS_DECIMALS], ["12.5"]),
    ("string", list(UNAVAILABLE.encode()), [1]),
    (
        "array<string>",
        ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"],
    ),
    ("map<string,string>", {UNAVAILABLE: UNAVAILABLE}, {"a": "1"}),
    (
        "map<string,string>",
        json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),
        '{"a": "1"}',
    ),
    (
        "string",
        json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),
        '{"a": "1"}',
    ),
]
"""Types, what Debezium writes of a value that it was not sent, and a value."""


UPSERT = {"mode": "upsert", "keys": "id", "delete_when": "op = 'd'"}


@pytest.mark.parametrize(
    "config", [{"mode": "append"}, UPSERT], ids=["append", "upsert"]
)
def test_a_value_that_is_not_sent_is_a_dead_letter_that_says_so(
    project: Project, config: dict[str, str]
) -> None:
    feed(
        project,
        {**COLUMNS, **{f"c{number}": kind for number, (kind, *_) in enumerate(UNSENT)}},
    )
    project.model("m", "SELECT *, _change.op AS op FROM {s}", **config)
    for number, (_, unsent, _) in enumerate(UNSENT):
        send(
            project,
            (
                {"id": number},
                event("u", {"id": number, "name": None, f"c{number}": unsent}),
            ),
        )
    assert project.run().conditions("m") == ["no-usable-record"]
    assert project.rows("m") == []
    letters = project.rows("m__dead_letter", "offset")
    assert len(letters) == len(UNSENT)
    for number, letter in enumerate(letters):
        assert letter["detail"].startswith(f"c{number}: not in the event"), (
            UNSENT[number],
            letter["detail"],
        )


def test_what_is_no_change_is_a_dead_letter_with_what_is_wrong(
    project: Project,
) -> None:
    feed(project)
    project.model("m", "SELECT id FROM {s}", mode="append")
    bad: list[tuple[str, tuple[Any, Any]]] = [
        ("no JSON object", ({"id": 1}, "text")),
        ("no JSON object", ({"id": 1}, {"id": 1, "name": "flat"})),
        ("no JSON object", ({"id": 1}, event("c", "no row"))),
        ("unknown op: x", ({"id": 1}, event("x", {"id": 1, "name": None}))),
        ("no `after`", ({"id": 1}, event("u"))),
        ("no `before`", (None, event("d"))),
        ("id", ({"id": 1}, event("c", {"id": None, "name": "a"}))),
    ]
    send(
        project,
        *(record for _, record in bad),
        ({"id": 9}, event("c", {"id": 9, "name": None})),
    )
    project.run().check()
    assert [row["id"] for row in project.rows("m")] == [9]
    letters = project.rows("m__dead_letter", "offset")
    assert [
        said
        for (said, _), letter in zip(bad, letters, strict=True)
        if said not in letter["detail"]
    ] == []
    assert project.reasons("m") == {"unparsable": 6, "required-missing": 1}


def test_deletes_of_a_key_alone_are_taken_whatever_stands_in_the_other_columns(
    project: Project,
) -> None:
    feed(project, {**COLUMNS, "amount": {"type": "decimal(9,2)", "required": True}})
    project.model("m", "SELECT id, amount, _change.op AS op FROM {s}", mode="append")
    send(
        project,
        ({"id": 1}, event("d", None, {"id": 1, "name": "", "amount": ""})),
        ({"id": 2}, event("d", None, {"id": "x", "name": "", "amount": "1.00"})),
    )
    project.run().check()
    assert project.rows("m") == [{"id": 1, "amount": None, "op": "d"}]
    assert project.reasons("m") == {"unparsable": 1}


def test_a_change_feed_feeds_stateful_models_and_upserts(project: Project) -> None:
    feed(project)
    counted = (
        "SELECT name, count(*) AS n FROM {s} WHERE _change.op <> 'd' GROUP BY name"
    )
    project.model("n", counted, mode="upsert", keys=["name"])
    project.model(
        "u",
        "SELECT id, name, _change.op AS op FROM {s}",
        mode="upsert",
        keys=["id"],
        delete_when="op = 'd'",
    )
    send(
        project,
        *(
            ({"id": id_}, event("c", {"id": id_, "name": "ab"[id_ % 2]}))
            for id_ in range(5)
        ),
    )
    send(
        project,
        ({"id": 4}, event("d", None, {"id": 4, "name": None})),
        ({"id": 4}, None),
    )
    project.run().check()
    assert project.rows("n", "name") == [{"name": "a", "n": 3}, {"name": "b", "n": 2}]
    assert [row["id"] for row in project.rows("u", "id")] == [0, 1, 2, 3]


def test_change_is_refused_where_no_stream_is_a_feed(project: Project) -> None:
    project.stream("s", COLUMNS)
    project.model("m", "SELECT id, _change.op AS op FROM {s}", mode="append")
    with pytest.raises(ProjectError) as raised:
        project.run()
    assert [problem.condition for problem in raised.value.problems] == [
        "envelope-missing"
    ]


def test_flat_records_are_changes_too(project: Project) -> None:
    """As ExtractNewRecordState writes them: deletes as rows that are marked, or as
    tombstones alone."""
    project.stream(
        "s", {**COLUMNS, "opens": "string"}, envelope="debezium_flat", key=["id"]
    )
    project.model(
        "m",
        "SELECT id, name, _change.op AS op, _change.position AS at, opens FROM {s}",
        mode="append",
    )
    project.model("c", "SELECT id, name FROM {s}", mode="cdc", keys=["id"])
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "opens", "type": "int64", "name": f"{TIME}MicroTime"},
    ]
    wrapped = {"id": 5, "name": "e", "opens": 27_000_000_000, "__op": "c", "__lsn": 9}
    send(
        project,
        (
            {"id": 1},
            {"id": 1, "name": "a", "__op": "c", "__lsn": 7, "__deleted": "false"},
        ),
        ({"id": 2}, {"id": 2, "name": "b"}),
        (
            {"id": 3},
            {
                "id": 3,
                "name": "c",
                "__op": "r",
                "__source_file": "bin.000010",
                "__source_pos": 4,
            },
        ),
        ({"id": 1}, {"id": 1, "name": None, "__op": "d", "__deleted": "true"}),
        ({"id": 3}, None),
        (
            {"id": 5},
            {"schema": {"type": "struct", "fields": fields}, "payload": wrapped},
        ),
        ({"id": 4}, "no row"),
        ({"id": 4}, {"id": 4, "name": "d", "__op": "x"}),
    )
    project.run().check()
    found = sorted(
        (
            (row["op"], row["id"], row["name"], row["at"])
            for row in project.rows_without_spark("m")
        ),
        key=repr,
    )
    assert {row["id"]: row["opens"] for row in project.rows_without_spark("m")}[
        5
    ] == "07:30:00"
    expected = [
        ("c", 1, "a", [7]),
        ("u", 2, "b", None),
        ("r", 3, "c", [10, 4]),
        ("d", 1, None, None),
        ("d", 3, None, None),
        ("c", 5, "e", [9]),
    ]
    assert found == sorted(expected, key=repr)
    assert project.rows("c", "id") == [{"id": 2, "name": "b"}, {"id": 5, "name": "e"}]
    assert project.reasons("m") == project.reasons("c") == {"unparsable": 2}
