"""CSV in files, against Python's module `csv`: what that writes is read as it reads it,
by the header's names."""

from __future__ import annotations

import csv
import gzip
import io
import random
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import settings
from pyspark.sql import Row, SparkSession

from lakesql.engine.batch.batch_files import batch_bindings
from lakesql.engine.records.csv_text import CsvHeader, read_header
from lakesql.engine.records.parse import parse_records, with_detail
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.sources.csv_headers import with_prefixes
from lakesql.engine.sources.raw import read_raw
from lakesql.errors import Place
from lakesql.events import Event, Noted
from lakesql.names import HIVE_NULL
from lakesql.records.formats.csv import Csv
from lakesql.source.files import Files
from lakesql.source.origin import FilePath
from lakesql.stream.stream import Column, Stream
from lakesql.stream.text_encoding import find_encoding

pytestmark = pytest.mark.spark

COLUMNS = (
    Column("id", "bigint"),
    Column("a", "string"),
    Column("B c", "string"),
    Column("d", "string"),
)
PIECES = (
    "x",
    "é",
    '"',
    '""',
    ",",
    ";",
    "\n",
    "\r\n",
    " ",
    "\t",
    "'",
    "\\",
    "1",
    "NULL",
    "日本",
    "#",
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How Python writes the files of a stream, and what the stream says of them."""

    options: dict[str, Any]
    csv: Csv


DIALECTS = {
    "excel": Dialect({}, Csv(header=True)),
    "unix": Dialect(
        {"lineterminator": "\n", "quoting": csv.QUOTE_ALL}, Csv(header=True)
    ),
    "tabs": Dialect(
        {"delimiter": "\t", "lineterminator": "\n"}, Csv(header=True, delimiter="\t")
    ),
    "single": Dialect(
        {"delimiter": ";", "quotechar": "'"}, Csv(header=True, delimiter=";", quote="'")
    ),
    "escaped": Dialect(
        {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL},
        Csv(header=True, escape="\\"),
    ),
}


def stream_of(
    options: Csv, columns: tuple[Column, ...] = COLUMNS, **changes: Any
) -> Stream:
    stream = Stream(
        *(
            "s",
            "",
            "landing",
            FilePath("*.csv*"),
            "csv",
            "",
            "none",
            (),
            columns,
            None,
            "earliest",
            None,
        ),
        csv=options,
        place=Place(Path("streams/s.yml"), 1, 1),
        multiline=True,
    )
    return replace(stream, **changes)


def read(
    spark: SparkSession, folder: Path, stream: Stream
) -> tuple[list[Row], list[Row], list[str]]:
    """The rows of the files, their dead letters, and what is said of them."""
    said: list[Event] = []
    binding = StreamBinding(stream, Files(str(folder)))
    arrived = read_raw(spark, binding, streaming=False)
    (found,) = batch_bindings(spark, arrived, (binding,), said.append)
    parsed = parse_records(
        with_prefixes(arrived, found), contract_of(found), frozenset({"topic"})
    ).persist()
    rows = parsed.where("_lakesql_rejected IS NULL").collect()
    rejected = parsed.where("_lakesql_rejected IS NOT NULL").select(
        "_lakesql_rejected.*"
    )
    letters = with_detail(rejected, contract_of(found)).collect()
    return rows, letters, [event.text for event in said if isinstance(event, Noted)]


def key_of(row: tuple[Any, ...]) -> str:
    return repr(row)


def write(
    path: Path, dialect: Dialect, rows: list[list[str]], **options: Any
) -> list[list[str]]:
    """What Python reads of the rows that it has written."""
    text = io.StringIO(newline="")
    csv.writer(text, **dialect.options).writerows(rows)
    data = text.getvalue().encode(options.get("encoding", "utf-8"))
    path.write_bytes(
        gzip.compress(data) if path.suffix == ".gz" else options.get("mark", b"") + data
    )
    return list(csv.reader(io.StringIO(text.getvalue(), newline=""), **dialect.options))


def random_text(chance: random.Random) -> str:
    return "".join(chance.choices(PIECES, k=chance.choice((0, 1, 2, 5))))


@pytest.mark.parametrize("name", DIALECTS)
def test_rows_are_those_that_python_reads_by_the_names_of_each_header(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    dialect, chance = DIALECTS[name], random.Random(name)
    names, expected = [column.name for column in COLUMNS], []
    for number in range(settings().max_examples):
        order = chance.sample(names, chance.choice((2, 3, 4, 4, 4)))
        order.insert(0, order.pop(order.index("id")) if "id" in order else "id")
        header = order + ["other"] * chance.choice((0, 0, 1))
        chance.shuffle(header)
        shown = [chance.choice((it, it.upper(), f" {it} ")) for it in header]
        rows = [
            [
                str(chance.randrange(1000)) if it == "id" else random_text(chance)
                for it in header
            ]
            for _ in range(chance.randrange(6))
        ]
        path = tmp_path / f"{number}.csv{chance.choice(('', '', '.gz'))}"
        mark = b"\xef\xbb\xbf" if chance.random() < 0.3 else b""
        _, *found = write(path, dialect, [shown, *rows], mark=mark)
        for values in found:
            by_name = dict(zip(header, values, strict=True))
            expected.append(
                (int(by_name["id"]), *(by_name.get(it) or None for it in names[1:]))
            )
    rows, letters, _ = read(spark, tmp_path, stream_of(dialect.csv))
    assert not letters
    assert sorted(
        map(key_of, ((r["id"], r["a"], r["B c"], r["d"]) for r in rows))
    ) == sorted(map(key_of, expected))


def test_files_of_any_name_have_their_own_headers(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, name in enumerate(("a b", "50%", "é", "k=v+w", "plain")):
        (tmp_path / f"{name}.csv").write_text(f"a,id,d,B c\nx,{number},z,y\n")
    (tmp_path / "0.csv").write_text("id,a,B c,d\n9,x,y,z\n")
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(header=True)))
    assert not letters
    assert sorted((row["id"], row["a"], row["B c"], row["d"]) for row in rows) == [
        (number, "x", "y", "z") for number in (0, 1, 2, 3, 4, 9)
    ]


def test_columns_that_a_header_lacks_or_has_beside_are_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text("d,x,id\nfour,?,1\n")
    rows, letters, said = read(spark, tmp_path, stream_of(Csv(header=True)))
    assert [(row["id"], row["a"], row["d"]) for row in rows] == [(1, None, "four")]
    assert not letters
    (text,) = said
    assert "a, B c" in text
    assert "1.csv" in text
    required = tuple(replace(column, required=column.name == "a") for column in COLUMNS)
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(header=True), required))
    assert not rows
    assert [(r.reason, bytes(r.value)) for r in letters] == [
        ("required-missing", b"d,x,id\nfour,?,1")
    ]


@pytest.mark.parametrize("header", ["id,a,A,d", "one,two,three,four"])
def test_records_below_a_header_that_says_nothing_are_dead_letters(
    spark: SparkSession, tmp_path: Path, header: str
) -> None:
    (tmp_path / "1.csv").write_text(f"{header}\n1,x,y,z\n2,x,y,z\n")
    (tmp_path / "2.csv").write_text("id,a,B c,d\n3,x,y,z\n")
    rows, letters, said = read(spark, tmp_path, stream_of(Csv(header=True)))
    assert [row["id"] for row in rows] == [3]
    assert sorted(bytes(r.value) for r in letters) == [
        f"{header}\n{it},x,y,z".encode() for it in (1, 2)
    ]
    assert all("header of the file" in str(r.detail) for r in letters)
    assert len(said) == 1


def test_a_first_line_that_may_be_a_record_is_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text("1,x,y,z\n2,x,y,z\n")
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(header=True)))
    assert sorted(row["id"] for row in rows) == [1, 2]
    assert not letters


@pytest.mark.parametrize("multiline", [True, False])
def test_a_line_with_an_open_quote_is_no_row(
    spark: SparkSession, tmp_path: Path, multiline: bool
) -> None:
    (tmp_path / "1.csv").write_bytes(b'1,x,y,z\n2,"x\nz",y,z\n3,"x,y,z\n')
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(), multiline=multiline))
    texts = sorted(bytes(letter.value) for letter in letters)
    if multiline:
        assert sorted((row["id"], row["a"]) for row in rows) == [(1, "x"), (2, "x\nz")]
        assert texts in ([b'3,"x,y,z'], [b'3,"x,y,z\n'])
    else:
        assert [row["id"] for row in rows] == [1]
        assert [text.rstrip(b"\n") for text in texts] == [b'2,"x\nz",y,z', b'3,"x,y,z']
    assert "quote" in str(letters[-1].detail)


@pytest.mark.parametrize("seed", range(4))
def test_of_a_stream_of_lines_no_line_within_quotes_is_a_row(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    breaks = ("\n", "\r\n", "\n3,x,y,z\n", "\n7,x,,\n8,x,,\n", '""\n9,x,y,z\n""')
    wanted, lines = [], ["id,a,B c,d"]
    for id_ in range(100, 160):
        is_one = chance.random() < 0.7
        value = "plain" if is_one else f'"a{chance.choice(breaks)}b"'
        wanted += [id_] if is_one else []
        lines.append(f"{id_},{value},y,z")
    (tmp_path / "1.csv").write_bytes("\n".join([*lines, ""]).encode())
    rows, letters, _ = read(
        spark, tmp_path, stream_of(Csv(header=True), multiline=False)
    )
    assert [row["id"] for row in rows] == wanted
    assert len(rows) + len(letters) == 60
    assert {letter.detail for letter in letters} == {"more than one line"}


def test_a_stream_without_quotes_has_a_record_in_each_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_bytes(b'1,"x,y,z\n2,x",y,z\n')
    rows, letters, _ = read(
        spark, tmp_path, stream_of(Csv(quote="", escape=""), multiline=False)
    )
    assert [(row["id"], row["a"]) for row in rows] == [(1, '"x'), (2, 'x"')]
    assert not letters


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way_and_blank_ones_are_none(
    spark: SparkSession, tmp_path: Path, end: str
) -> None:
    lines = ["id,a,B c,d", "1,x,y,z", "", '2,"a,b",y,', "   ", '3,"q""q",y,z']
    (tmp_path / "1.csv").write_bytes(end.join(lines).encode() + b"\n4,x,y,z\r\n")
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(header=True)))
    found = sorted((row["id"], row["a"], row["d"]) for row in rows)
    assert found == [(1, "x", "z"), (2, "a,b", None), (3, 'q"q', "z"), (4, "x", "z")]
    assert not letters


@pytest.mark.parametrize(
    "encoding", ["latin-1", "windows-1252", "koi8-r", "utf-16", "utf-8"]
)
def test_text_is_read_in_its_encoding_and_a_dead_letter_keeps_its_bytes(
    spark: SparkSession, tmp_path: Path, encoding: str
) -> None:
    word = (
        "Жук"
        if encoding == "koi8-r"
        else "Café – 5 €"
        if encoding not in ("latin-1",)
        else "Café"
    )
    data = f"a,id,d,B c\n{word},1,x,y\n{word},none,x,y\n".encode(encoding)
    (tmp_path / "1.csv").write_bytes(data)
    from lakesql.stream.text_encoding import find_encoding

    rows, letters, _ = read(
        spark, tmp_path, stream_of(Csv(header=True), encoding=find_encoding(encoding))
    )
    assert [(row["id"], row["a"]) for row in rows] == [(1, word)]
    (letter,) = letters
    kept = "utf-8" if encoding == "utf-16" else encoding
    assert bytes(letter.value) == f"a,id,d,B c\n{word},none,x,y".encode(kept)


def test_a_dead_letter_that_is_not_utf8_keeps_its_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_bytes(b"1,caf\xe9,y,z\n2,x,y,z\n")
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv()))
    assert [row["id"] for row in rows] == [2]
    assert [(bytes(letter.value), letter.detail) for letter in letters] == [
        (b"1,caf\xe9,y,z", "not UTF-8")
    ]


def test_one_column_may_have_any_text(spark: SparkSession, tmp_path: Path) -> None:
    path, texts = tmp_path / "1.csv", ["x", 'a"b', "a,b", "a\nb", " ", "", "  x", '"']
    found = write(path, DIALECTS["excel"], [[text] for text in texts])
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(), (Column("a", "string"),)))
    assert sorted(map(repr, (row["a"] for row in rows))) == sorted(
        map(repr, (row[0] or None for row in found))
    )
    assert not letters


FOLDER_COLUMNS = (
    Column("day", "date", required=True),
    Column("id", "bigint"),
    Column("name", "string"),
    Column("K", "string"),
)
FOLDER_TEXTS = ("x", "a,b", 'say "hi"', "a+b", "50%", "é", "a/b", "NULL", " ", "k=v")


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252"])
@pytest.mark.parametrize("header", [True, False])
def test_columns_that_folders_name_are_those_of_each_file(
    spark: SparkSession, tmp_path: Path, header: bool, encoding: str
) -> None:
    chance, expected, both = random.Random(int(header)), [], False
    for number in range(settings().max_examples):
        day, text = (
            f"2026-03-{chance.randrange(1, 29):02}",
            chance.choice((*FOLDER_TEXTS, None)),
        )
        given = chance.choice((("day",), ("day", "K"), ("K",), ()))
        # a file without a header has the columns that its folders do not give, or all
        kept = [it.name for it in FOLDER_COLUMNS if it.name not in given]
        names = chance.choice((kept, kept, [it.name for it in FOLDER_COLUMNS]))
        both |= names != kept
        folders = {
            "day": f"day={day}",
            "K": f"k={HIVE_NULL if text is None else quote(text, safe='')}",
        }
        place = tmp_path.joinpath(*(folders[name] for name in given), f"sub{number}")
        place.mkdir(parents=True)
        if header:
            chance.shuffle(names)
        rows = []
        for id_ in range(chance.randrange(1, 4)):
            own_day = (
                chance.choice((f"2026-04-{chance.randrange(1, 29):02}", ""))
                if "day" in given
                else day
            )
            row = {
                "id": str(id_),
                "name": chance.choice(("n", "m,m", "")),
                "day": own_day,
                "K": chance.choice("yz"),
            }
            rows.append([row[name] for name in names])
            of_day = row["day"] if "day" in names and row["day"] else day
            of_k = row["K"] if "K" in names else text if "K" in given else None
            expected.append(
                (date.fromisoformat(of_day), id_, row["name"] or None, of_k)
            )
        write(
            place / "1.csv",
            DIALECTS["unix"],
            [*([names] if header else []), *rows],
            encoding=encoding,
        )
    stream = stream_of(
        Csv(header=header),
        FOLDER_COLUMNS,
        origin=FilePath("**/*.csv"),
        encoding=find_encoding(encoding),
    )
    rows, letters, said = read(spark, tmp_path, stream)
    assert not letters
    found = [(row["day"], row["id"], row["name"], row["K"]) for row in rows]
    assert sorted(map(key_of, found)) == sorted(map(key_of, expected))
    assert both == any("those of its folder where it has none" in text for text in said)


def test_a_dead_letter_has_what_its_folder_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "day=soon").mkdir()
    (tmp_path / "day=soon" / "1.csv").write_text("1,n,k\n\n")
    rows, (letter,), _ = read(
        spark, tmp_path, stream_of(Csv(), FOLDER_COLUMNS, origin=FilePath("*/*.csv"))
    )
    assert (rows, bytes(letter.value)) == ([], b'"id","name","K","day="\n1,n,k,"soon"')
    columns = [(column.name, column.type == "string") for column in FOLDER_COLUMNS]
    header = read_header(
        bytes(letter.value).decode().partition("\n")[0], columns, Csv()
    )
    assert header == CsvHeader(
        '"id","name","K","day="', ("id", "name", "K", "day"), folders=("day",)
    )


def test_headers_without_spark() -> None:
    columns = [("id", False), ("name", True)]
    assert read_header("ID, name ", columns, Csv(header=True)) is None
    assert read_header('\ufeff"id","name"', columns, Csv(header=True)) is None
    assert read_header("name,id", columns, Csv(header=True)) == CsvHeader(
        "name,id", ("name", "id")
    )
    assert read_header(
        "name;x;id", columns, Csv(header=True, delimiter=";")
    ) == CsvHeader("name;x;id", ("name", None, "id"))
    assert read_header("5,name of it", columns, Csv(header=True)) is None
