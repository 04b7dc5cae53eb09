"""Numbers of Parquet files that Spark's reader would take for others: they are refused
by the file's name."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.spark.project import Project


def parquet(name: str, column: Any, has_dictionary: bool = False) -> bytes:
    """A file of one column, as Arrow writes it."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        pa.table({name: column}), out, use_dictionary=has_dictionary
    )
    return out.getvalue()


WRONG = {
    "unsigned": (pa.array([2**32 - 1], pa.uint32()), "int"),
    "unsigned as double": (pa.array([2**32 - 1], pa.uint32()), "double"),
    "unsigned of 64 bits": (pa.array([2**64 - 1], pa.uint64()), "bigint"),
    "unsigned of 16 bits": (pa.array([2**16 - 1], pa.uint16()), "smallint"),
    "too large": (pa.array([40_000], pa.int32()), "smallint"),
    "a number for a date": (pa.array([40_000], pa.int32()), "date"),
    "a date for a number": (pa.array([date(2026, 1, 1)]), "int"),
    "a time for a number": (
        pa.array([datetime(2026, 1, 1)], pa.timestamp("ms")),
        "bigint",
    ),
    "a time with a zone for a number": (
        pa.array([datetime(2026, 1, 1)], pa.timestamp("us", "UTC")),
        "bigint",
    ),
    "in an array": (pa.array([[2**32 - 1]], pa.list_(pa.uint32())), "array<int>"),
    "in a struct": (
        pa.array([{"y": 40_000}], pa.struct({"y": pa.int32()})),
        "struct<y: tinyint>",
    ),
}
RIGHT = {
    "unsigned": (pa.array([2**32 - 1], pa.uint32()), "bigint", 2**32 - 1),
    "unsigned of 64 bits": (
        pa.array([2**64 - 1], pa.uint64()),
        "decimal(20,0)",
        Decimal(2**64 - 1),
    ),
    "smaller": (pa.array([7], pa.int32()), "bigint", 7),
    "a float": (pa.array([1.5], pa.float32()), "double", 1.5),
    "a whole number for a double": (pa.array([7], pa.int32()), "double", 7.0),
    "bytes for a string": (pa.array([b"a"]), "string", "a"),
    "decimals": (
        pa.array([Decimal("1.50")], pa.decimal128(8, 2)),
        "decimal(12,2)",
        Decimal("1.50"),
    ),
}


def test_what_would_be_another_number_is_a_dead_letter_and_the_rest_is_as_it_is(
    project: Project,
) -> None:
    columns = {f"w{number}": kind for number, (_, kind) in enumerate(WRONG.values())}
    columns |= {
        f"r{number}": kind for number, (_, kind, _) in enumerate(RIGHT.values())
    }
    for number, (column, _) in enumerate(WRONG.values()):
        for has_dictionary in (False, True):
            project.write(
                f"in/w{number}{has_dictionary}.parquet",
                parquet(f"w{number}", column, has_dictionary),
            )
    for number, (column, _, _) in enumerate(RIGHT.values()):
        project.write(f"in/r{number}.parquet", parquet(f"r{number}", column))
    project.stream(
        "s",
        columns,
        format="parquet",
        path="in/*.parquet",
        ignore_corrupt="dead_letter",
    )
    project.model("t", "SELECT * FROM {s}", mode="append", max_dead_letter_ratio=1.0)
    project.run().check()
    rows = project.rows("t")
    for number, (_, _, value) in enumerate(RIGHT.values()):
        assert [row[f"r{number}"] for row in rows if row[f"r{number}"] is not None] == [
            value
        ]
    assert len(rows) == len(RIGHT)
    letters = project.rows("t__dead_letter")
    assert len(letters) == 2 * len(WRONG)
    assert all("in it, and" in row["detail"] for row in letters)


def test_a_type_that_spark_does_not_know_matters_where_it_is_asked_for(
    project: Project,
) -> None:
    out = io.BytesIO()
    odd = pa.array([1.5], pa.float16())
    pyarrow.parquet.write_table(
        pa.table({"id": [1], "extra": odd, "more": [{"x": 2}]}), out
    )
    project.write("in/odd.parquet", out.getvalue())
    project.write("in/plain.parquet", parquet("id", pa.array([2])))
    for name, columns in {
        "without": {"id": "bigint", "more": "struct<x: bigint>"},
        "asked": {"extra": "double"},
    }.items():
        project.stream(name, columns, format="parquet", path="in/*.parquet")
        project.model(f"of_{name}", f"SELECT * FROM {{{name}}}", mode="append")
    ran = project.run()
    assert ran.conditions("of_asked") == ["file-unreadable"]
    assert "odd.parquet" in ran.finished("of_asked").problems[0].what
    assert project.rows("of_without") == [
        {"id": 1, "more": {"x": 2}},
        {"id": 2, "more": None},
    ]


@pytest.mark.parametrize("name", ["unsigned", "too large"])
def test_without_dead_letters_the_file_is_named(project: Project, name: str) -> None:
    column, kind = WRONG[name]
    project.write("in/odd.parquet", parquet("x", column))
    project.stream("s", {"x": kind}, format="parquet", path="in/*.parquet")
    project.model("t", "SELECT x FROM {s}", mode="append")
    ran = project.run()
    assert ran.conditions("t") == ["file-unreadable"]
