"""JSON of several lines and in other encodings."""

from __future__ import annotations

import json
from collections import Counter
from math import inf
from pathlib import Path
from random import Random
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


def read(
    spark: SparkSession,
    folder: Path,
    columns: tuple[Column, ...] = COLUMNS,
    **options: Any,
) -> tuple[list[tuple[int, str]], list[bytes]]:
    """The rows of JSON files, and their dead letters."""
    stream = Stream(
        *(
            "s",
            "",
            "landing",
            FilePath("*.json"),
            "json",
            "",
            "none",
            (),
            columns,
            None,
            "earliest",
            None,
        ),
        csv=Csv(),
        place=Place(Path("streams/s.yml"), 1, 1),
        **options,
    )
    binding = StreamBinding(stream, Files(str(folder)))
    raw = read_raw(spark, binding, streaming=False)
    parsed = parse_records(
        with_folders(raw, binding), contract_of(binding), frozenset()
    )
    rows = parsed.select("id", "name", "_lakesql_rejected").collect()
    good = [(row["id"], row["name"]) for row in rows if row._lakesql_rejected is None]
    return sorted(good, key=repr), sorted(
        bytes(row._lakesql_rejected.value) for row in rows if row._lakesql_rejected
    )


def test_json_of_several_lines_is_an_array_or_objects_or_one_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    nested = {"id": 1, "name": 'a"{[', "more": [{"x": {"y": [1, {}]}}, "]}"]}
    (tmp_path / "array.json").write_text(
        json.dumps([nested, {"id": 2, "name": "é"}], indent=2)
    )
    (tmp_path / "objects.json").write_text(
        '\ufeff{"id": 3,\n "name": "x"}\n\n{"id":4}\n{"id": "none"}'
    )
    (tmp_path / "empty.json").write_text(" [ ]\n")
    broken = [b'[{"id": 5},\n {"id": 6}', b'{"id": 7} x', b'[{"id": 8}, 9]']
    for number, text in enumerate(broken):
        (tmp_path / f"broken{number}.json").write_bytes(text)
    rows, letters = read(spark, tmp_path, multiline=True)
    assert rows == [(1, 'a"{['), (2, "é"), (3, "x"), (4, None)]
    assert letters == sorted([*broken, b'{"id": "none"}'])


NUMBERS = (*COLUMNS, Column("x", "double"), Column("at", "timestamp"))
TIME = '"12:30"'
PIECES = (
    "",
    " ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "x",
    "null",
    '{"id": 7}',
    ' {"id": 8, "name": "}{"}',
    "\t",
    "[]",
)


def some_line(dice: Random) -> str:
    """A line as programs leave it that are killed, or that write two records at
    once."""
    record: dict[str, object] = {
        "id": dice.randrange(100),
        "name": dice.choice(["a", 'q"{[', "é", "]}", ""]),
    }
    if dice.random() < 0.3:
        record |= {
            "other": [{"y": {}}, "},{"],
            "x": dice.choice([1.5, float("nan"), None]),
        }
    text = json.dumps(record, ensure_ascii=dice.random() < 0.5)
    match dice.randrange(8):
        case 0:
            return text + dice.choice(PIECES)
        case 1:
            return dice.choice(PIECES) + text
        case 2:
            return text[: dice.randrange(len(text))]
        case 3:
            return f"[{text}, {text}]" if dice.random() < 0.7 else f"[{text}, {text}"
        case 4:
            return text + dice.choice(["", " ", ","]) + text
        case 5:
            return f'{{"id": 1, "x": {dice.choice(["1e400", "-1e999", "1e3", "Infinity"])}}}'
        case 6:
            return f'{{"id": 2, "at": {dice.choice(["1700000000000", "1234567890123456789", TIME])}}}'
        case _:
            return text


def records_of(line: str) -> tuple[list[int], list[str]]:
    """The ids of the rows that a line makes, and the dead letters."""
    if not line.strip():
        return [], []
    try:
        read = json.loads(line)
    except ValueError:
        return [], [line]
    if not isinstance(read, dict) and not (
        isinstance(read, list) and all(isinstance(each, dict) for each in read)
    ):
        return [], [line]
    records = [read] if isinstance(read, dict) else read
    is_bad = any(
        "at" in each or (each.get("x") in (inf, -inf) and "Infinity" not in line)
        for each in records
    )
    return ([], [line]) if is_bad else ([each.get("id") for each in records], [])


@pytest.mark.parametrize("seed", range(2))
def test_no_record_of_a_line_is_passed_over(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    dice = Random(seed)
    lines = [some_line(dice) for _ in range(400)]
    for number in range(4):
        (tmp_path / f"{number}.json").write_text(
            "".join(f"{line}\n" for line in lines[number::4])
        )
    found = [records_of(line) for line in lines]
    rows, letters = read(spark, tmp_path, columns=NUMBERS)
    assert Counter(id_ for id_, _ in rows) == Counter(
        id_ for ids, _ in found for id_ in ids
    )
    assert letters == sorted(letter.encode() for _, bad in found for letter in bad)


@pytest.mark.parametrize("multiline", [True, False])
def test_json_in_an_encoding_of_one_byte_a_character(
    spark: SparkSession, tmp_path: Path, multiline: bool
) -> None:
    bad = '{"id": "é", "name": "€"}'.encode("cp1252")
    (tmp_path / "1.json").write_bytes(
        '{"id": 1, "name": "café €"}\n'.encode("cp1252") + bad + b"\n"
    )
    rows, letters = read(spark, tmp_path, encoding="cp1252", multiline=multiline)
    assert rows == [(1, "café €")]
    assert letters == [bad]
