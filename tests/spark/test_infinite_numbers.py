"""NaN and infinity in a double: words for them are values, in every format, and a
number too large is a dead letter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn, parse_records
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import parse_binding
from lakesql.engine.sources.raw import read_raw
from lakesql.errors import Place
from lakesql.source.files import Files
from lakesql.source.origin import FilePath
from lakesql.stream.stream import Column, Csv, Stream
from tests.spark.test_parse import raw_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

INF = math.inf
WORDS = {
    "NaN": math.nan,
    '"NaN"': math.nan,
    "Infinity": INF,
    '"Infinity"': INF,
    "-Infinity": -INF,
    '"-Infinity"': -INF,
    "1.5": 1.5,
    "1e300": 1e300,
    "null": None,
}
TOO_LARGE = ("1e400", "-1e400", "1" + "0" * 400, "-2.5E+999")
SPELLINGS = (*WORDS, *TOO_LARGE)
LETTER = "dead letter"
SHAPES = {
    "double": "{}",
    "array<double>": "[0, {}]",
    "struct<x:array<double>>": '{{"x":[{}]}}',
}
"""The types in which such a number may stand, and how."""


def expected(spelling: str, is_float: bool) -> Any:
    if spelling in TOO_LARGE or (is_float and spelling == "1e300"):
        return LETTER
    return WORDS[spelling]


def parsed(
    spark: SparkSession, form: str, folder: Path, kind: str, written: list[str]
) -> DataFrame:
    """The records of a form, each with its number, one of these values as JSON writes
    it, and a text beside it."""
    none = frozenset[str]()
    types = {"i": "int", "d": kind, "t": "string", "e": "double"}
    columns = tuple(
        ContractColumn(name, T.DataType.fromDDL(type_)) for name, type_ in types.items()
    )
    # Another word stands in the same record, so that a record is not judged by whether
    # it has one.
    beside = '"t":"say \\"Infinity\\", 1e400: NaN, so"'
    rows = [
        f'{{"i":{i},"d":{text},{beside},"e":{("-Infinity", "2")[i % 2]}}}'
        for i, text in enumerate(written)
    ]
    match form:
        case "json":
            return parse_records(
                raw_of(spark, [row.encode() for row in rows]), Contract(columns), none
            )
        case "csv":
            bare = [text.strip('"').replace("null", "") for text in written]
            lines = [f"{i},{text},t,2" for i, text in enumerate(bare)]
            return parse_records(
                raw_of(spark, [line.encode() for line in lines]),
                Contract(columns, "csv"),
                none,
            )
        case "feed":
            events = [f'{{"op":"c","after":{row}}}'.encode() for row in rows]
            contract = Contract(columns, envelope="debezium", key=("i",))
            return parse_changes(raw_of(spark, [*events]), contract, none, none)
        case _:
            (folder / "a.json").write_text(
                "".join(f"{row}\n" for row in rows), encoding="utf-8"
            )
            stream = Stream(
                *("s", "", "landing", FilePath("*.json"), "json", "", "none", ()),
                *(
                    tuple(Column(name, type_) for name, type_ in types.items()),
                    None,
                    "earliest",
                    None,
                ),
                csv=Csv(),
                place=Place(Path("streams/s.yml"), 1, 1),
            )
            binding = StreamBinding(stream, Files(str(folder)))
            select: Any = type("Select", (), {})()
            select.query = type("Query", (), {"record_fields": frozenset()})
            select.has_positions, select.change_fields = False, frozenset()
            return parse_binding(
                read_raw(spark, binding, streaming=False), binding, select
            )


def inner(value: Any) -> Any:
    """The number within a value of one of the shapes."""
    while isinstance(value, list | tuple):
        value = value[-1] if len(value) else None
    return value


@pytest.mark.parametrize("form", ["json", "csv", "feed", "files"])
@pytest.mark.parametrize("kind", [*SHAPES, "float"])
def test_a_word_is_a_value_and_a_number_too_large_is_none(
    spark: SparkSession, tmp_path: Path, form: str, kind: str
) -> None:
    if form == "csv" and kind not in ("double", "float"):
        return
    written = [SHAPES.get(kind, "{}").format(text) for text in SPELLINGS]
    found = parsed(spark, form, tmp_path, kind, written)
    rows = (
        found.where(F.col("_lakesql_rejected").isNull())
        .select("i", "d", "t", "e")
        .collect()
    )
    values = {row["i"]: inner(row["d"]) for row in rows}
    for i, spelling in enumerate(SPELLINGS):
        value, wanted = values.get(i, LETTER), expected(spelling, kind == "float")
        is_nan = isinstance(wanted, float) and math.isnan(wanted)
        same = (
            isinstance(value, float) and math.isnan(value)
            if is_nan
            else value == wanted
        )
        assert same, (form, kind, spelling, value, wanted)
    if form != "csv":
        assert {row["t"] for row in rows} == {'say "Infinity", 1e400: NaN, so'}
        assert {(row["i"] % 2, row["e"]) for row in rows} == {(0, -INF), (1, 2.0)}
