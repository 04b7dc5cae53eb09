"""Numbers of Parquet files that Spark's reader would take for others: they are refused by the file's name."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.spark.project import Project


def parquet(column: Any, has_dictionary: bool = False) -> bytes:
    """A file of one column, as Arrow writes it."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"x": column}), out, use_dictionary=has_dictionary)
    return out.getvalue()


WRONG = {
    "unsigned": (pa.array([2**32 - 1], pa.uint32()), "int"),
    "unsigned as double": (pa.array([2**32 - 1], pa.uint32()), "double"),
    "unsigned of 64 bits": (pa.array([2**64 - 1], pa.uint64()), "bigint"),
    "unsigned of 16 bits": (pa.array([2**16 - 1], pa.uint16()), "smallint"),
    "too large": (pa.array([40_000], pa.int32()), "smallint"),
    "a number for a date": (pa.array([40_000], pa.int32()), "date"),
    "a date for a number": (pa.array([date(2026, 1, 1)]), "int"),
    "in an array": (pa.array([[2**32 - 1]], pa.list_(pa.uint32())), "array<int>"),
    "in a struct": (pa.array([{"y": 40_000}], pa.struct({"y": pa.int32()})), "struct<y: tinyint>"),
}
RIGHT = {
    "unsigned": (pa.array([2**32 - 1], pa.uint32()), "bigint", 2**32 - 1),
    "unsigned of 64 bits": (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", Decimal(2**64 - 1)),
    "smaller": (pa.array([7], pa.int32()), "bigint", 7),
    "a float": (pa.array([1.5], pa.float32()), "double", 1.5),
    "a whole number for a double": (pa.array([7], pa.int32()), "double", 7.0),
    "bytes for a string": (pa.array([b"a"]), "string", "a"),
    "decimals": (pa.array([Decimal("1.50")], pa.decimal128(8, 2)), "decimal(12,2)", Decimal("1.50")),
}


def test_what_would_be_another_number_is_a_dead_letter_and_the_rest_is_as_it_is(project: Project) -> None:
    types = sorted({kind for _, kind in WRONG.values()} | {kind for _, kind, _ in RIGHT.values()})
    for number, kind in enumerate(types):
        files = [(name, column) for name, (column, of) in WRONG.items() if of == kind]
        for name, column in files:
            for has_dictionary in (False, True):
                project.write(f"in{number}/{name} {has_dictionary}.parquet", parquet(column, has_dictionary))
        kept = [(column, value) for column, of, value in RIGHT.values() if of == kind]
        for at, (column, _) in enumerate(kept):
            project.write(f"in{number}/right {at}.parquet", parquet(column))
        options = {"format": "parquet", "ignore_corrupt": "dead_letter", "path": f"in{number}/*.parquet"}
        project.stream(f"s{number}", {"x": kind}, **options)
        project.model(f"t{number}", f"SELECT x FROM {{s{number}}}", mode="append", max_dead_letter_ratio=1.0)
        ran = project.run(f"t{number}")
        if kept:
            ran.check()
            assert [row["x"] for row in project.rows(f"t{number}")] == sorted(value for _, value in kept), kind
        letters = project.rows(f"t{number}__dead_letter") if files else []
        assert len(letters) == 2 * len(files), kind
        assert all("in it, and" in row["detail"] for row in letters), kind


@pytest.mark.parametrize("name", ["unsigned", "too large"])
def test_without_dead_letters_the_file_is_named(project: Project, name: str) -> None:
    column, kind = WRONG[name]
    project.write("in/odd.parquet", parquet(column))
    project.stream("s", {"x": kind}, format="parquet", path="in/*.parquet")
    project.model("t", "SELECT x FROM {s}", mode="append")
    ran = project.run()
    assert ran.conditions("t") == ["file-unreadable"]
