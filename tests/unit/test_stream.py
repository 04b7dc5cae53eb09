from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.project.yaml import parse_yaml
from lakesql.records.formats.csv import Csv
from lakesql.source.origin import (
    FilePath,
    Generated,
    StreamOrigin,
    TopicPattern,
    Topics,
)
from lakesql.stream.stream import (
    Column,
    Stream,
    Watermark,
    change_fields,
    model_stream,
    read_stream,
)
from tests.cases import each_of


def entry(text: str) -> Node:
    return parse_yaml("s.yml", text)


def read(*lines: str) -> Stream:
    return read_stream(entry("\n".join(lines)))


def problems(*lines: str) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        read(*lines)
    return [
        (problem.condition, str(problem.place).removeprefix("s.yml:"))
        for problem in caught.value.problems
    ]


NAME, COLUMNS = "name: orders", "columns: {id: bigint, at: timestamp}"


def test_every_option_of_a_stream_is_read() -> None:
    found = read(
        "name: orders",
        "description: what arrives",
        "connection: shop",
        "topic: shop.orders",
        "format: csv",
        "envelope: none",
        "key: id",
        "columns:",
        "  id: {type: BIGINT, required: true, description: its number}",
        "  amount: decimal(12, 2)",
        "  größe in cm: {type: int}",
        "  at: timestamp_ltz",
        "watermark: {column: AT, delay: 10   minutes}",
        "start: 2026-01-31T00:00:00+02:00",
        "max_per_batch: 1000",
        "csv: {header: true, delimiter: ;}",
        "x-note: any",
    )
    assert found == Stream(
        name="orders",
        description="what arrives",
        connection="shop",
        origin=Topics(("shop.orders",)),
        format="csv",
        schema="",
        envelope="none",
        key=("id",),
        columns=(
            Column("id", "bigint", True, "its number"),
            Column("amount", "decimal(12,2)"),
            Column("größe in cm", "int"),
            Column("at", "timestamp"),
        ),
        watermark=Watermark("AT", "10 minutes"),
        start=datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=2))),
        max_per_batch=1000,
        csv=Csv(header=True, delimiter=";"),
        place=Place("s.yml", 1, 1),
    )
    assert found.column_names == ("id", "amount", "größe in cm", "at")


def test_a_missing_option_of_a_stream_has_its_default() -> None:
    found = read(NAME, "topic: t", COLUMNS)
    assert (
        found.format,
        found.key,
        found.watermark,
        found.start,
        found.max_per_batch,
        found.csv,
    ) == (
        "json",
        (),
        None,
        "earliest",
        1_000_000,
        Csv(),
    )


def test_a_batch_is_unlimited_only_where_the_stream_says_so() -> None:
    assert (
        read(NAME, "topic: t", COLUMNS, "max_per_batch: unlimited").max_per_batch
        is None
    )
    assert read(NAME, "topic: t", COLUMNS, "max_per_batch: 7").max_per_batch == 7


@each_of(
    ("line", "origin"),
    [
        ("topic: a", Topics(("a",))),
        ("topics: [a, B.c-d_1]", Topics(("a", "B.c-d_1"))),
        ("topics: a", Topics(("a",))),
        (r"pattern: 'shop\..*'", TopicPattern(r"shop\..*")),
        ("path: landing/*.parquet", FilePath("landing/*.parquet")),
        ("path: a..b/{c,d}.json", FilePath("a..b/{c,d}.json")),
        ("description: x", Generated()),
    ],
)
def test_a_stream_says_where_it_comes_from(line: str, origin: StreamOrigin) -> None:
    assert read(NAME, COLUMNS, line).origin == origin


@each_of(
    ("lines", "columns"),
    [
        (("format: string", "topic: t"), (Column("value", "string"),)),
        (("format: bytes", "topic: t"), (Column("value", "binary"),)),
        (
            ("format: string", "topic: t", "columns: {line: string}"),
            (Column("line", "string"),),
        ),
        (
            ("connection: rate",),
            (Column("timestamp", "timestamp"), Column("value", "bigint")),
        ),
    ],
)
def test_some_streams_have_their_columns_by_nature(
    lines: tuple[str, ...], columns: tuple[Column, ...]
) -> None:
    assert read(NAME, *lines).columns == columns


@each_of(
    ("written", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31 12:30", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("'2026-01-31T12:30:00Z'", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_start_is_a_word_or_a_time(written: str, start: object) -> None:
    assert read(NAME, COLUMNS, "topic: t", f"start: {written}").start == start


@each_of(
    ("line", "condition", "place"),
    [
        ("topik: t", "unknown-option", "3:1"),
        ("topic: [a]", "wrong-type", "3:8"),
        ("topic: 3", "wrong-type", "3:8"),
        ("topic: ", "wrong-type", "3:7"),
        ("topics: {a: b}", "wrong-type", "3:9"),
        ("topics: [a, 3]", "wrong-type", "3:13"),
        ("topic: a, b", "bad-topic", "3:8"),
        ("topic: ../secrets", "bad-topic", "3:8"),
        ("topic: ..", "bad-topic", "3:8"),
        ("topics: [a, b c]", "bad-topic", "3:9"),
        ("path: ../x", "outside-project", "3:7"),
        ("path: a/x**/b", "wrong-value", "3:7"),
        ("nanoseconds: dead_letter", "wrong-value", "3:14"),
        ("ignore_corrupt: dead_letter", "wrong-value", "3:17"),
        ("nanoseconds: round", "wrong-value", "3:14"),
        ("unknown_fields: keep", "wrong-value", "3:17"),
        ("after: move", "wrong-value", "3:8"),
        ("after: delete", "wrong-value", "3:8"),
        ("unknown_fields: true", "wrong-value", "3:17"),
        ("path: 'a/{**,b}/c'", "wrong-value", "3:7"),
        ("path: 'a[1.json'", "wrong-value", "3:7"),
        ("path: 'a/{b,c.json'", "wrong-value", "3:7"),
        ("path: a/../../x", "outside-project", "3:7"),
        ("path: /etc/passwd", "outside-project", "3:7"),
        ("path: ~/x", "outside-project", "3:7"),
        ("path: s3://bucket/x", "outside-project", "3:7"),
        ("path: file:/etc/passwd", "outside-project", "3:7"),
        ("path: 'a/{..,b}/x'", "outside-project", "3:7"),
        ("path: 'a/{.,b/c}./x'", "outside-project", "3:7"),
        ("path: 'a/\\.\\./x'", "outside-project", "3:7"),
        ("format: jsn", "wrong-value", "3:9"),
        ("format: [json]", "wrong-value", "3:9"),
        ("envelope: debezium", "wrong-value", "3:11"),
        ("connection: 3", "wrong-type", "3:13"),
        ("options: {a: b}", "client-option", "3:1"),
        ("kafka: {a: b}", "client-option", "3:1"),
        ("kafka.security.protocol: SSL", "client-option", "3:1"),
        ("sasl.jaas.config: x", "client-option", "3:1"),
        ("bootstrap_servers: h:1", "client-option", "3:1"),
        ("key: [id, order_id]", "unknown-column", "3:6"),
        ("key: {id: 1}", "wrong-type", "3:6"),
        ("watermark: at", "wrong-type", "3:12"),
        ("watermark: {column: at}", "missing-option", "3:12"),
        ("watermark: {column: att, delay: 1 hour}", "unknown-column", "3:21"),
        ("watermark: {column: id, delay: 1 hour}", "wrong-type", "3:21"),
        ("watermark: {column: at, delay: 1 month}", "bad-interval", "3:32"),
        ("watermark: {column: at, delay: 3}", "bad-interval", "3:32"),
        ("start: yesterday", "bad-start", "3:8"),
        ("start: 5", "bad-start", "3:8"),
        ("start: [latest]", "bad-start", "3:8"),
        ("start:", "bad-start", "3:7"),
        ("max_per_batch: 0", "wrong-value", "3:16"),
        ("max_per_batch: 1.5", "wrong-value", "3:16"),
        ("max_per_batch: many", "wrong-value", "3:16"),
        ("max_per_batch:", "wrong-value", "3:15"),
        ("csv: {quotes: x}", "unknown-option", "3:7"),
        ("csv: [header]", "wrong-type", "3:6"),
        ("csv: {decimal: x}", "wrong-value", "3:16"),
        ("csv: {thousands: x}", "wrong-value", "3:18"),
        ("csv: {decimal: ',', thousands: ','}", "wrong-value", "3:21"),
    ],
)
def test_each_mistake_has_a_condition_and_a_place(
    line: str, condition: str, place: str
) -> None:
    assert problems(NAME, COLUMNS, line) == [(condition, place)]


def test_a_change_feed_is_json_in_topics_and_its_times_have_units() -> None:
    columns = "columns: {id: bigint, at: {type: timestamp, unit: microseconds}}"
    found = read(NAME, columns, "topic: t", "envelope: debezium")
    assert found.envelope == "debezium" and found.columns[1].unit == "microseconds"
    assert change_fields(found)["before"] == "struct<id:bigint,at:timestamp>"
    assert read(NAME, COLUMNS, "path: a/*.json", "envelope: debezium").names_key
    of_files = ("path: a/*.csv", "format: csv", "envelope: dms", "source_table: a.b")
    assert problems(NAME, COLUMNS, *of_files) == [("wrong-value", "5:11")]
    assert problems(NAME, COLUMNS, "topic: t", "format: csv", "envelope: debezium") == [
        ("wrong-value", "5:11")
    ]
    in_days = "columns: {id: bigint, at: {type: date, unit: milliseconds}}"
    assert problems(NAME, in_days, "topic: t", "envelope: debezium") == [
        ("wrong-value", "2:23")
    ]
    in_weeks = "columns: {at: {type: timestamp, unit: weeks}}"
    assert problems(NAME, in_weeks, "topic: t", "envelope: debezium") == [
        ("wrong-value", "2:39")
    ]
    others = "columns: {at: {type: string, unit: milliseconds}, data: {type: binary, encoding: hex}}"
    found = read(NAME, others, "topic: t", "envelope: debezium_flat")
    assert (
        found.columns[0].unit == "milliseconds" and found.columns[1].encoding == "hex"
    )
    assert problems(NAME, others, "topic: t") == [
        ("wrong-value", "2:11"),
        ("wrong-value", "2:51"),
    ]
    in_hex = "columns: {id: {type: bigint, encoding: hex}}"
    assert problems(NAME, in_hex, "topic: t", "envelope: debezium") == [
        ("wrong-value", "2:11")
    ]


def test_times_of_json_and_csv_have_units() -> None:
    short = "columns: {id: bigint, at: {type: timestamp, unit: millis}, by: {type: timestamp_ntz, unit: micros}}"
    for origin in (("topic: t",), ("path: a/*.csv", "format: csv")):
        assert [it.unit for it in read(NAME, short, *origin).columns] == [
            None,
            "milliseconds",
            "microseconds",
        ]
    in_seconds = "columns: {at: {type: timestamp, unit: seconds}}"
    assert read(NAME, in_seconds, "topic: t").columns[0].unit == "seconds"
    formatted = ("path: a/*.csv", "format: csv", "csv: {timestamp_format: yyyy}")
    assert problems(NAME, in_seconds, *formatted) == [("wrong-value", "2:11")]
    assert problems(NAME, in_seconds, "path: a/*.parquet", "format: parquet") == [
        ("wrong-value", "2:11")
    ]


def test_a_feed_has_tables_and_that_of_dms_must() -> None:
    assert read(
        NAME, COLUMNS, "topic: t", "envelope: dms", "source_table: public.orders"
    ).source_table == ("public.orders",)
    assert read(
        NAME, COLUMNS, "topic: t", "envelope: dms", "source_table: .orders"
    ).source_table == (".orders",)
    assert problems(NAME, COLUMNS, "topic: t", "envelope: dms") == [
        ("missing-option", "1:1")
    ]
    assert problems(
        NAME, COLUMNS, "topic: t", "envelope: dms", "source_table: orders"
    ) == [("wrong-value", "5:15")]
    assert problems(
        NAME, COLUMNS, "topic: t", "envelope: dms", "source_table: d.a.b"
    ) == [("wrong-value", "5:15")]
    for table in ("a.b", "d.a.b", "[a.b, a.c]", "'a.*'"):
        assert read(
            NAME, COLUMNS, "topic: t", "envelope: debezium", f"source_table: {table}"
        ).source_table
    assert problems(
        NAME, COLUMNS, "topic: t", "envelope: debezium", "source_table: b"
    ) == [("wrong-value", "5:15")]
    assert problems(NAME, COLUMNS, "topic: t", "source_table: a.b") == [
        ("wrong-value", "4:15")
    ]
    for envelope in ("dms", "debezium_flat"):
        with pytest.raises(ProjectError) as caught:
            read(NAME, "topic: t", f"envelope: {envelope}")
        (problem,) = caught.value.problems
        assert problem.condition == "missing-option" and "`debezium`" in problem.why


@each_of(
    ("line", "condition", "place"),
    [
        ("columns: {}", "missing-option", "1:1"),
        ("columns: [id]", "wrong-type", "3:10"),
        ("columns: {id: }", "wrong-type", "3:15"),
        ("columns: {id: 3}", "wrong-type", "3:15"),
        ("columns: {id: [int]}", "wrong-type", "3:15"),
        ("columns: {id: {required: true}}", "missing-option", "3:15"),
        ("columns: {id: {type: int, requird: true}}", "unknown-option", "3:27"),
        ("columns: {id: {type: int, required: maybe}}", "wrong-type", "3:37"),
        ("columns: {id: integr}", "unknown-type", "3:15"),
        ("columns: {id: {type: 'decimal(40,2)'}}", "unknown-type", "3:22"),
        ("columns: {id: {type: 3}}", "wrong-type", "3:22"),
        ("columns: {id: int, ID: int}", "duplicate-column", "3:20"),
        ("columns: {id: int, id: int}", "yaml-duplicate-key", "3:20"),
        ("columns: {a.b: int}", "bad-column-name", "3:11"),
        ("columns: {'a`b': int}", "bad-column-name", "3:11"),
        ("columns: {'': int}", "bad-column-name", "3:11"),
        ("columns: {_record: int}", "reserved-column", "3:11"),
        ("columns: {_LAKESQL_x: int}", "reserved-column", "3:11"),
        ("format: string\ncolumns: {id: int}", "wrong-value", "4:10"),
        ("format: bytes\ncolumns: {a: binary, b: binary}", "wrong-value", "4:10"),
        ("format: csv\ncolumns: {a: int, b: 'array<int>'}", "wrong-type", "4:19"),
        ("format: parquet", "missing-option", "1:1"),
    ],
)
def test_each_mistake_of_a_contract_has_a_condition_and_a_place(
    line: str, condition: str, place: str
) -> None:
    assert problems(NAME, "topic: t", line) == [(condition, place)]


@each_of(
    ("name", "condition"),
    [
        ("name: 3", "bad-name"),
        ("name: a b", "bad-name"),
        ("name: _record", "bad-name"),
        ("name:", "bad-name"),
    ],
)
def test_a_stream_has_a_plain_name(name: str, condition: str) -> None:
    assert [found for found, _ in problems(name, "topic: t", COLUMNS)] == [condition]


def test_a_stream_comes_from_one_place() -> None:
    assert problems(NAME, COLUMNS, "path: x", "topic: t") == [("stream-origin", "3:1")]
    assert problems(NAME, COLUMNS, "topic: x", "topics: [t]", "pattern: y") == [
        ("stream-origin", "4:1")
    ]


def test_all_problems_of_a_stream_are_reported_together() -> None:
    assert problems(
        "topic: 3",
        "sasl.mechanism: x",
        "columns: {a: b, c: {}}",
        "options: {}",
        "foo: 1",
    ) == [
        ("client-option", "4:1"),
        ("client-option", "2:1"),
        ("unknown-option", "5:1"),
        ("missing-option", "1:1"),
        ("wrong-type", "1:8"),
        ("unknown-type", "3:14"),
        ("missing-option", "3:20"),
    ]
    assert problems(
        NAME,
        "topic: a b",
        "columns: {a: int, A: int}",
        "key: b",
        "watermark: {column: a, delay: 1 day}",
    ) == [
        ("bad-topic", "2:8"),
        ("unknown-column", "4:6"),
        ("wrong-type", "5:21"),
        ("duplicate-column", "3:19"),
    ]


@each_of("text", ["orders", "- name: x", "3", "[]"])
def test_an_entry_is_a_mapping(text: str) -> None:
    assert problems(text) == [("wrong-type", "1:1")]


def test_a_model_read_as_a_stream_has_its_columns() -> None:
    found = model_stream(
        "clicks", (Column("a", "int"), Column("b", "")), None, Place("m.sql", 1, 1)
    )
    assert (found.name, found.column_names, found.watermark, found.origin) == (
        "clicks",
        ("a", "b"),
        None,
        Generated(),
    )


@each_of(
    ("written", "suggested"),
    [
        ("text", "string"),
        ("datetime", "timestamp"),
        ("DATETIME(6)", "timestamp"),
        ("timestamp without time zone", "timestamp_ntz"),
        ("array<text>", "string"),
        ("struct<text: datetime>", "timestamp"),
        ("map<string, strng>", "'string'"),
        ("timestmap", "'timestamp'"),
        ("double precision", "double"),
    ],
)
def test_a_type_of_another_system_is_answered_with_sparks(
    written: str, suggested: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        read("name: s", "topic: t", f"columns: {{c: '{written}'}}")
    (found,) = caught.value.problems
    assert found.condition == "unknown-type"
    assert suggested in found.fix.rstrip(".?").split()


def test_a_list_of_columns_is_told_how_they_are_written() -> None:
    with pytest.raises(ProjectError) as caught:
        read("name: s", "topic: t", "columns:", "  - name: id", "    data_type: bigint")
    (found,) = caught.value.problems
    assert (found.condition, "`order_id: bigint`" in found.fix) == ("wrong-type", True)
