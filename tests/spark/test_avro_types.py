"""Values of Avro files that Spark's reader would make others of: the file is refused by
its name."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tests.spark.project import Project

AT = datetime(2026, 3, 1, 12, 30, 15, 123000, UTC)
MICROS = 1_772_368_215_123_456
MILLIS_TYPE, MICROS_TYPE = (
    {"type": "long", "logicalType": f"timestamp-{unit}"}
    for unit in ("millis", "micros")
)
LOCAL_TYPE = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE_TYPE = {"type": "int", "logicalType": "date"}
TIME_TYPE = {"type": "int", "logicalType": "time-millis"}


def decimal_of(digits: int, scale: int) -> dict[str, Any]:
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": digits,
        "scale": scale,
    }


def avro(name: str, kind: Any, value: Any) -> bytes:
    """A file of one row with one field."""
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind}]}
    fastavro.writer(out, fastavro.parse_schema(schema), [{name: value}])
    return out.getvalue()


WRONG: dict[str, tuple[Any, Any, str]] = {
    "more digits": (decimal_of(10, 4), Decimal("1.5555"), "decimal(10,2)"),
    "a fraction": (
        ["null", decimal_of(10, 2)],
        Decimal("12345678.50"),
        "decimal(10,0)",
    ),
    "microseconds": ("long", MICROS, "timestamp"),
    "milliseconds": (["null", "long"], MICROS // 1000, "timestamp_ntz"),
    "a number for a date": ("int", 40_000, "date"),
    "a larger number for a date": ("long", MICROS // 1000, "date"),
    "a time of day for a date": (TIME_TYPE, time(1, 2, 3), "date"),
    "a time for a date": (MICROS_TYPE, AT, "date"),
    "a time for a number": (MILLIS_TYPE, AT, "bigint"),
    "a local time for a number": (LOCAL_TYPE, AT.replace(tzinfo=None), "bigint"),
    "a date for a number": (DATE_TYPE, date(2026, 3, 1), "int"),
    "in an array": (
        {"type": "array", "items": decimal_of(10, 4)},
        [Decimal("1.5555")],
        "array<decimal(10,2)>",
    ),
    "in a map": (
        {"type": "map", "values": "long"},
        {"k": MICROS},
        "map<string, timestamp>",
    ),
    "in a struct": (
        {"type": "record", "name": "s", "fields": [{"name": "y", "type": "long"}]},
        {"y": MICROS},
        "struct<y: timestamp>",
    ),
}
RIGHT: dict[str, tuple[Any, Any, str, Any]] = {
    "fewer digits": (
        decimal_of(8, 2),
        Decimal("1.50"),
        "decimal(12,2)",
        Decimal("1.50"),
    ),
    "fewer behind the point": (
        decimal_of(8, 2),
        Decimal("1.50"),
        "decimal(12,4)",
        Decimal("1.5000"),
    ),
    "a time": (MILLIS_TYPE, AT, "timestamp", AT),
    "another time": (["null", MICROS_TYPE], AT, "timestamp", AT),
    "a local time": (
        LOCAL_TYPE,
        AT.replace(tzinfo=None),
        "timestamp_ntz",
        AT.replace(tzinfo=None),
    ),
    "a date": (DATE_TYPE, date(2026, 3, 1), "date", date(2026, 3, 1)),
    "a number": ("int", 7, "bigint", 7),
    "a time of day": (TIME_TYPE, time(1, 2, 3), "int", 3_723_000),
    "a float": ("float", 1.5, "double", 1.5),
    "a word": (
        {"type": "enum", "name": "e", "symbols": ["a", "b"]},
        "b",
        "string",
        "b",
    ),
    "a number or a larger one": (["int", "long"], 7, "bigint", 7),
}


def test_what_would_be_another_value_is_a_dead_letter_and_the_rest_is_as_it_is(
    project: Project,
) -> None:
    columns = {f"w{number}": kind for number, (_, _, kind) in enumerate(WRONG.values())}
    columns |= {
        f"r{number}": kind for number, (_, _, kind, _) in enumerate(RIGHT.values())
    }
    for number, (kind, value, _) in enumerate(WRONG.values()):
        project.write(f"in/w{number}.avro", avro(f"w{number}", kind, value))
    for number, (kind, value, _, _) in enumerate(RIGHT.values()):
        project.write(f"in/r{number}.avro", avro(f"r{number}", kind, value))
    project.stream(
        "s", columns, format="avro", path="in/*.avro", ignore_corrupt="dead_letter"
    )
    project.model("t", "SELECT * FROM {s}", mode="append", max_dead_letter_ratio=1.0)
    project.run().check()
    rows = project.rows("t")
    for number, (_, _, _, value) in enumerate(RIGHT.values()):
        assert [row[f"r{number}"] for row in rows if row[f"r{number}"] is not None] == [
            value
        ]
    assert len(rows) == len(RIGHT)
    letters = project.rows("t__dead_letter")
    assert len(letters) == len(WRONG)
    assert all("in it, and" in row["detail"] for row in letters)


@pytest.mark.parametrize("name", ["more digits", "microseconds"])
def test_without_dead_letters_the_file_is_named(project: Project, name: str) -> None:
    kind, value, wanted = WRONG[name]
    project.write("in/odd.avro", avro("x", kind, value))
    project.stream("s", {"x": wanted}, format="avro", path="in/*.avro")
    project.model("t", "SELECT x FROM {s}", mode="append")
    ran = project.run()
    assert ran.conditions("t") == ["file-unreadable"]
    assert "odd.avro" in ran.finished("t").problems[0].what


def test_a_type_that_spark_does_not_know_matters_where_it_is_asked_for(
    project: Project,
) -> None:
    tree = {
        "type": "record",
        "name": "tree",
        "fields": [{"name": "x", "type": ["null", "tree"]}],
    }
    fields = [{"name": "id", "type": "long"}, {"name": "tree", "type": tree}]
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    fastavro.writer(out, schema, [{"id": 1, "tree": {"x": {"x": None}}}])
    project.write("in/odd.avro", out.getvalue())
    project.stream("s", {"id": "bigint"}, format="avro", path="in/*.avro")
    project.model("t", "SELECT * FROM {s}", mode="append")
    project.run().check()
    assert project.rows("t") == [{"id": 1}]
