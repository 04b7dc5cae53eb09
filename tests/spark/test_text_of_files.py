"""JSON of several lines and in other encodings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakesql.engine.records.parse import parse_records
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.sources.folder_columns import with_folders
from lakesql.engine.sources.raw import read_raw
from lakesql.errors import Place
from lakesql.records.formats.csv import Csv
from lakesql.source.files import Files
from lakesql.source.origin import FilePath
from lakesql.stream.stream import Column, Stream

pytestmark = pytest.mark.spark

COLUMNS = (Column("id", "bigint"), Column("name", "string"))


def read(spark: SparkSession, folder: Path, **options: Any) -> tuple[list[tuple[int, str]], list[bytes]]:
    """The rows of JSON files, and their dead letters."""
    stream = Stream(
        *("s", "", "landing", FilePath("*.json"), "json", "", "none", (), COLUMNS, None, "earliest", None),
        csv=Csv(),
        place=Place(Path("streams/s.yml"), 1, 1),
        **options,
    )
    binding = StreamBinding(stream, Files(str(folder)))
    raw = read_raw(spark, binding, streaming=False)
    rows = parse_records(with_folders(raw, binding), contract_of(binding), frozenset()).collect()
    good = [(row["id"], row["name"]) for row in rows if row._lakesql_rejected is None]
    return sorted(good), sorted(bytes(row._lakesql_rejected.value) for row in rows if row._lakesql_rejected)


def test_json_of_several_lines_is_an_array_or_objects_or_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    nested = {"id": 1, "name": 'a"{[', "more": [{"x": {"y": [1, {}]}}, "]}"]}
    (tmp_path / "array.json").write_text(json.dumps([nested, {"id": 2, "name": "é"}], indent=2))
    (tmp_path / "objects.json").write_text('\ufeff{"id": 3,\n "name": "x"}\n\n{"id":4}\n{"id": "none"}')
    (tmp_path / "empty.json").write_text(" [ ]\n")
    broken = [b'[{"id": 5},\n {"id": 6}', b'{"id": 7} x', b'[{"id": 8}, 9]']
    for number, text in enumerate(broken):
        (tmp_path / f"broken{number}.json").write_bytes(text)
    rows, letters = read(spark, tmp_path, multiline=True)
    assert rows == [(1, 'a"{['), (2, "é"), (3, "x"), (4, None)]
    assert letters == sorted([*broken, b'{"id": "none"}'])


@pytest.mark.parametrize("multiline", [True, False])
def test_json_in_an_encoding_of_one_byte_a_character(spark: SparkSession, tmp_path: Path, multiline: bool) -> None:
    bad = '{"id": "é", "name": "€"}'.encode("cp1252")
    (tmp_path / "1.json").write_bytes('{"id": 1, "name": "café €"}\n'.encode("cp1252") + bad + b"\n")
    rows, letters = read(spark, tmp_path, encoding="cp1252", multiline=multiline)
    assert rows == [(1, "café €")]
    assert letters == [bad]
