"""ORC in files: what each holds, whatever the types of the others are, or the file is
refused by its name.

Spark's own reader makes NULL of a bigint that is no int, 1 of 1.5, and takes `_col0` by
its position.
"""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

from tests.spark.project import Project

COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "amount": "decimal(12,2)",
    "weight": "double",
    "name": "string",
    "day": "date",
    "at": "timestamp",
    "s": "struct<x: bigint, y: array<string>>",
    "m": "map<string, int>",
}


def orc(columns: dict[str, Any]) -> bytes:
    """A file of these columns, as Arrow writes it."""
    out = io.BytesIO()
    pyarrow.orc.write_table(pa.table(columns), out)
    return out.getvalue()


def make(project: Project, columns: dict[str, Any], **options: Any) -> None:
    project.stream("s", columns, path="in/**/*.orc", format="orc", **options)
    project.model("t", "SELECT * FROM {s}", mode="append")


def dead_letters(project: Project) -> list[dict[str, Any]]:
    there = project.lake.session.catalog.tableExists(project.table("t__dead_letter"))
    return project.rows("t__dead_letter", "topic") if there else []


def test_values_of_files_with_other_columns_order_and_smaller_types(
    project: Project,
) -> None:
    at = datetime(2026, 3, 1, 12, 30, 15, 123456)
    first = {
        "id": pa.array([1, 2], pa.int64()),
        "amount": pa.array([Decimal("1.25"), None], pa.decimal128(12, 2)),
        "weight": [0.1, None],
        "name": ["é", None],
        "day": [date(2026, 3, 1), None],
        "at": pa.array([at, None], pa.timestamp("us")),
        "s": pa.array([{"x": 1, "y": ["a"]}, None]),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    }
    smaller = pa.struct({"y": pa.list_(pa.string()), "z": pa.int64(), "x": pa.int8()})
    second = {
        "NAME": ["x"],
        "other": ["ignored"],
        "ID": pa.array([3], pa.int16()),
        "amount": pa.array([Decimal("7.50")], pa.decimal128(9, 2)),
        "weight": pa.array([1.5], pa.float32()),
        "s": pa.array([{"y": ["b", None], "z": 5, "x": 2}], smaller),
    }
    project.write("in/1.orc", orc(first))
    project.write("in/day=2026-04-01/2.orc", orc(second))
    make(project, COLUMNS)
    project.run().check()
    rows = project.rows("t", "id")
    nothing = dict.fromkeys(COLUMNS)
    assert rows == [
        {
            **nothing,
            "id": 1,
            "amount": Decimal("1.25"),
            "weight": 0.1,
            "name": "é",
            "day": date(2026, 3, 1),
            "at": at.replace(tzinfo=UTC),
            "s": {"x": 1, "y": ["a"]},
            "m": [("k", 1)],
        },
        {**nothing, "id": 2},
        {
            **nothing,
            "id": 3,
            "name": "x",
            "amount": Decimal("7.50"),
            "weight": 1.5,
            "day": date(2026, 4, 1),
            "s": {"x": 2, "y": ["b", None]},
        },
    ]
    assert dead_letters(project) == []


def test_a_required_column_that_a_file_lacks_makes_dead_letters(
    project: Project,
) -> None:
    project.write("in/1.orc", orc({"name": ["x"]}))
    project.write("in/2.orc", orc({"id": pa.array([2], pa.int64())}))
    make(project, {"id": {"type": "bigint", "required": True}, "name": "string"})
    project.run().check()
    assert [row["id"] for row in project.rows("t")] == [2]
    assert [(row["reason"], row["detail"]) for row in dead_letters(project)] == [
        ("required-missing", "id")
    ]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("int", {"a": pa.array([1, 2**40], pa.int64())}),
        ("int", {"a": [1.5]}),
        ("int", {"a": ["x"]}),
        ("string", {"a": pa.array([7], pa.int64())}),
        ("decimal(9,1)", {"a": pa.array([Decimal("1.25")], pa.decimal128(9, 2))}),
        ("double", {"a": pa.array([2**60], pa.int64())}),
        ("timestamp", {"a": [date(2026, 3, 1)]}),
        ("timestamp_ntz", {"a": pa.array([datetime(2026, 3, 1)], pa.timestamp("us"))}),
        (
            "timestamp",
            {"a": pa.array([datetime(2026, 3, 1)], pa.timestamp("us", "UTC"))},
        ),
        ("array<int>", {"a": pa.array([[2**40]], pa.list_(pa.int64()))}),
        ("struct<x: int>", {"a": pa.array([{"x": "1"}])}),
        ("bigint", {"_col0": pa.array([1], pa.int64())}),
        ("bigint", {"a": pa.array([1], pa.int64()), "A": pa.array([2], pa.int64())}),
    ],
)
def test_a_file_of_other_types_is_refused_by_its_name_and_set_aside_where_that_is_said(
    project: Project, kind: str, columns: dict[str, Any]
) -> None:
    project.write("in/good.orc", orc({"b": ["x"]}))
    bad = project.write("in/bad.orc", orc(columns))
    make(project, {"a": kind, "b": "string"})
    ran = project.run()
    assert ran.conditions("t") == ["file-unreadable"]
    (problem,) = ran.finished("t").problems
    assert str(bad) in problem.what
    make(project, {"a": kind, "b": "string"}, ignore_corrupt="dead_letter")
    project.run().check()
    assert [row["b"] for row in project.rows("t")] == ["x"]
    (letter,) = dead_letters(project)
    assert letter["reason"] == "file-unreadable" and letter["topic"].endswith(
        "/in/bad.orc"
    )


def test_timestamps_are_refused_where_javas_zone_would_move_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(
        "in/1.orc", orc({"at": pa.array([datetime(2026, 3, 1)], pa.timestamp("us"))})
    )
    make(project, {"at": "timestamp"})
    zones = project.lake.session._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/New_York"))
    try:
        ran = project.run()
    finally:
        zones.setDefault(before)
    assert (
        ran.conditions("t") == ["file-unreadable"]
        and "TZ=UTC" in ran.finished("t").problems[0].what
    )
    project.run().check()
    assert [row["at"] for row in project.rows("t")] == [
        datetime(2026, 3, 1, tzinfo=UTC)
    ]


def test_a_model_that_keeps_state_refuses_them_too(project: Project) -> None:
    project.write(
        "in/1.orc",
        orc({"at": pa.array([datetime(2026, 3, 1)], pa.timestamp("us")), "n": [1.5]}),
    )
    project.stream(
        "s",
        {"at": "timestamp", "n": "int"},
        path="in/*.orc",
        format="orc",
        watermark={"column": "at", "delay": "1 minute"},
    )
    query = "SELECT window(at, '1 hour').start AS h, sum(n) AS n FROM {s} GROUP BY window(at, '1 hour')"
    project.model("t", query, mode="append")
    assert project.run().conditions("t") == ["file-unreadable"]
