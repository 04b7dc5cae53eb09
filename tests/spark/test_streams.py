"""Every kind of stream, read for real."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from lakesql.events import BatchCommitted
from tests.spark.project import Fields, Project

COLUMNS = {
    "id": {"type": "int", "required": True},
    "amount": "decimal(9,2)",
    "at": "timestamp",
    "name": "string",
}
MOMENT = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
ROWS = [
    {"id": 1, "amount": Decimal("1.50"), "at": MOMENT, "name": 'é, "q"'},
    {"id": 2, "amount": None, "at": None, "name": None},
]


def test_files_of_every_format(project: Project) -> None:
    for name in ("json", "csv", "parquet", "avro"):
        project.stream(
            name,
            COLUMNS,
            path=f"landing/{name}/*",
            format=name,
            **({"csv": {"header": True, "null_value": "NA"}} if name == "csv" else {}),
        )
    project.stream("text", path="landing/text/*.log", format="string")
    project.stream("raw", path="landing/text/*.log", format="bytes")
    for name in ("json", "csv", "parquet", "avro", "text", "raw"):
        project.model(f"from_{name}", f"SELECT * FROM {{{name}}}", mode="append")
    project.model("keyed", "SELECT * FROM {csv}", mode="upsert", keys="id")

    project.write(
        "landing/json/1.json",
        '{"id":1,"amount":1.5,"at":"2026-03-02T08:30:00Z","name":"é, \\"q\\""}\n{"id":2}\n{"id":\n{"name":"x"}\n',
    )
    project.write(
        "landing/csv/1.csv",
        'id,amount,at,name\n1,1.5,2026-03-02T08:30:00Z,"é, ""q"""\n2,NA,NA,NA\nx,1,NA,NA\nNA,1,NA,y\n',
    )
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("amount", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("name", pa.string()),
        ]
    )
    bad = {"id": None, "amount": None, "at": None, "name": "no id"}
    (project.directory / "landing/parquet").mkdir()
    pq.write_table(
        pa.Table.from_pylist([*ROWS, bad], schema=schema),
        project.directory / "landing/parquet/1.parquet",
    )
    types = "id int, amount decimal(9,2), at timestamp, name string"
    frame = project.lake.session.createDataFrame(
        [tuple(row.values()) for row in [*ROWS, bad]],  # type: ignore[attr-defined]
        types,
    )
    frame.coalesce(1).write.format("avro").save(
        str(project.directory / "landing" / "avro_out")
    )
    (written,) = (project.directory / "landing/avro_out").glob("*.avro")
    project.write("landing/avro/1.avro", written.read_bytes())
    project.write("landing/text/1.log", "one\n\n {}\n")
    project.write("landing/text/skipped.txt", "no\n")

    project.run().check()

    for name in ("json", "csv", "parquet", "avro"):
        assert project.rows(f"from_{name}", "id") == ROWS, name
    assert project.rows("keyed", "id") == ROWS
    for name in ("from_json", "from_csv", "keyed"):
        assert project.reasons(name) == {"unparsable": 1, "required-missing": 1}, name
        topics = {
            row["topic"].rsplit("/", 1)[1]
            for row in project.rows(f"{name}__dead_letter")
        }
        assert topics == {"1.json" if name == "from_json" else "1.csv"}
    for name in ("from_parquet", "from_avro"):
        assert project.reasons(name) == {"required-missing": 1}
        (letter,) = project.rows(f"{name}__dead_letter")
        assert b"no id" in letter["value"]
    assert [row["value"] for row in project.rows("from_text", "value")] == [
        "",
        " {}",
        "one",
    ]
    assert [row["value"] for row in project.rows("from_raw", "value")] == [
        b"",
        b" {}",
        b"one",
    ]

    project.write(
        "landing/csv/2.csv", "id,amount,at,name\n1,2.5,NA,again\n3,NA,NA,new\n"
    )
    project.run("from_csv", "keyed").check()
    assert [row["id"] for row in project.rows("from_csv", "id")] == [1, 1, 2, 3]
    assert {row["id"]: row["name"] for row in project.rows("keyed")} == {
        1: "again",
        2: None,
        3: "new",
    }


def test_malformed_json_lines_are_dead_letters_whatever_columns_are_selected(
    project: Project,
) -> None:
    columns = {
        "id": {"type": "int", "required": True},
        "tiny": "tinyint",
        "size": "double",
        "in": "struct<a:int>",
    }
    project.stream("lines", columns, path="landing/*.json", format="json")
    project.model("all_of_them", "SELECT * FROM {lines}", mode="append")
    project.model("of_ids", "SELECT id FROM {lines}", mode="append")
    project.stream("topic", columns)
    project.model("of_topic", "SELECT * FROM {topic}", mode="append")
    bad = [
        '{"id":1,"tiny":128}',
        '{"id":"x"}',
        '{"id":2,"in":{"a":"x"}}',
        '{"id":3,"size":1e999}',
        "17",
        "{",
    ]
    good = [
        '{"id":10,"tiny":-128,"size":1.5,"in":{"a":1}}',
        "",
        "  ",
        '[{"id":11},{"id":12}]',
        '{"id":13,"more":[1]}',
    ]
    project.write("landing/1.json", "\n".join([*good, *bad, '{"tiny":1}']) + "\n")
    project.record(
        "topic", [good[0], *bad, '{"id":4} {"id":5}', '{"id":6,"in":{"a":1}}}']
    )

    project.run().check()

    wanted = [
        {"id": id_, "tiny": None, "size": None, "in": None} for id_ in (11, 12, 13)
    ]
    first = {"id": 10, "tiny": -128, "size": 1.5, "in": {"a": 1}}
    assert project.rows("all_of_them", "id") == [first, *wanted]
    # What is wrong with a record does not depend on the columns that a SELECT wants.
    assert [row["id"] for row in project.rows("of_ids", "id")] == [10, 11, 12, 13]
    for name in ("all_of_them", "of_ids"):
        assert project.reasons(name) == {"unparsable": 6, "required-missing": 1}
        values = {row["value"].decode() for row in project.rows(f"{name}__dead_letter")}
        assert set(bad[1:3] + bad[4:6]) < values, (
            "the text of a line that could not be read"
        )
    assert project.rows("of_topic") == [first]
    assert project.reasons("of_topic") == {"unparsable": 8}


def test_recorded_topics_are_read_by_name_and_by_pattern(project: Project) -> None:
    columns = {"n": "int"}
    for topic in ("shop.a", "shop.b", "shopXa", "other"):
        project.record(topic, [{"n": 1}, {"n": 2}])
    where = "SELECT n, _record.topic AS topic FROM {s}"
    project.stream("named", columns, topics=["shop.a", "other", "not.there"])
    project.stream("matched", columns, pattern=r"shop\..*")
    project.model("m_named", where.replace("{s}", "{named}"), mode="append")
    project.model("m_matched", where.replace("{s}", "{matched}"), mode="append")

    project.run().check()

    assert {row["topic"] for row in project.rows("m_named")} == {"shop.a", "other"}
    assert len(project.rows("m_named")) == 4
    assert {row["topic"] for row in project.rows("m_matched")} == {"shop.a", "shop.b"}

    project.record("shop.c", [{"n": 3}])
    project.run("m_matched").check()
    assert len(project.rows("m_matched")) == 5


def test_recorded_tombstones_and_malformed_lines_are_dead_letters(
    project: Project,
) -> None:
    """A value as JSON or as text, a tombstone, and a line that is no record."""
    project.stream("s", {"n": "int", "d": "double"})
    project.model("m", "SELECT n, d, _record.offset AS o FROM {s}", mode="append")
    project.model("keyed", "SELECT * FROM {s}", mode="upsert", keys="n")
    project.record(
        "s",
        [
            {"n": 1, "d": 0.1},
            '{"n": 2, "d": 1e-3}',
            Fields(value=None, key="gone"),
            Fields(key="k"),
        ],
    )
    path = project.directory / "recorded" / "s" / "part-00001.jsonl"
    path.write_text(path.read_text() + "not a record\n\n")

    project.run().check()

    assert [(row["n"], row["d"], row["o"]) for row in project.rows("m", "n")] == [
        (1, 0.1, 0),
        (2, 0.001, 1),
    ]
    assert [row["n"] for row in project.rows("keyed", "n")] == [1, 2]
    for model in ("m", "keyed"):
        assert project.reasons(model) == {"tombstone": 2, "unparsable": 2}
        letters = project.rows(f"{model}__dead_letter")
        assert {row["value"] for row in letters} == {None, b"not a record", b""}
        assert {row["key"] for row in letters if row["reason"] == "tombstone"} == {
            b"gone",
            b"k",
        }


def test_malformed_numbers_and_dates_of_json_files_are_dead_letters(
    project: Project,
) -> None:
    project.stream(
        "s",
        {"id": "int", "m": "decimal(7,2)", "d": "date", "big": "decimal(20,3)"},
        path="m/*.jsonl",
    )
    project.model("m", "SELECT * FROM {s}", mode="append")
    lines = [
        '{"id": 1, "m": 12.5, "d": "2026-01-31", "big": -12345678901234567.891}',
        '{"id": 2, "m": "12,50"}',
        '{"id": 3, "m": 1e3}',
        '{"id": 4, "d": "20260131"}',
        '{"id": 5, "m": 100000}',
    ]
    project.write("m/rows.jsonl", "\n".join(lines) + "\n")

    project.run().check()

    assert [tuple(row.values()) for row in project.rows("m", "id")] == [
        (1, Decimal("12.50"), date(2026, 1, 31), Decimal("-12345678901234567.891")),
        (3, Decimal("1000.00"), None, None),
    ]
    assert project.reasons("m") == {"unparsable": 3}


def test_a_join_resumes_where_its_streams_are_named_in_another_order(
    project: Project,
) -> None:
    """Spark reads the common table expressions in their order, and the ledger has to
    say which stream is which."""
    project.stream("o", {"id": "int"})
    project.stream("e", {"id": "int", "v": "string"})
    project.model("c", "SELECT * FROM {e}", mode="append")
    select = "WITH y AS (SELECT * FROM {c}), x AS (SELECT * FROM {o}) SELECT x.id, y.v FROM x JOIN y ON x.id = y.id"
    project.model("joined", select, mode="append")
    for number in range(3):
        project.record("o", [{"id": number}])
        project.record("e", [{"id": number, "v": f"v{number}"}])
        project.run().check()
    assert project.rows("joined", "id") == [
        {"id": number, "v": f"v{number}"} for number in range(3)
    ]


def test_a_batch_is_bounded_unless_the_stream_says_otherwise(project: Project) -> None:
    """Two files have more than a million records in all, and a folder is a path as well
    as a pattern is."""
    for number in (1, 2):
        project.write(f"landing/{number}.txt", "1\n" * 600_000)
    project.stream("bounded", path="landing", format="string")
    project.stream(
        "at_once", path="landing/*.txt", format="string", max_per_batch="unlimited"
    )
    for name in ("bounded", "at_once"):
        project.model(f"of_{name}", f"SELECT value FROM {{{name}}}", mode="append")
    ran = project.run().check()
    assert [event.records for event in ran.of(BatchCommitted, "of_bounded")] == [
        600_000,
        600_000,
    ]
    assert [event.records for event in ran.of(BatchCommitted, "of_at_once")] == [
        1_200_000
    ]
