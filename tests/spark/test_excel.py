"""CSV as Excel writes it in several countries: each number is the one that the cell
has, or its record is a dead letter, never another number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import Row, SparkSession

from lakesql.records.formats.csv import Csv
from lakesql.stream.stream import Column
from tests.spark.test_csv_files import read, stream_of

pytestmark = pytest.mark.spark

COLUMNS = (
    Column("Artikel", "string"),
    Column("Menge", "int"),
    Column("Preis", "decimal(12,2)"),
    Column("Gewicht", "double"),
    Column("Datum", "date"),
)
HEADER = [column.name for column in COLUMNS]


@dataclass(frozen=True, slots=True)
class Country:
    """How Excel writes a file there: what it puts into numbers, how it encodes, and
    what stands in a stream's entry."""

    delimiter: str
    decimal: str
    thousands: str
    encoding: str
    day: str
    pattern: str

    @property
    def csv(self) -> Csv:
        return Csv(
            header=True,
            delimiter=self.delimiter,
            decimal=self.decimal,  # type: ignore[arg-type]
            thousands=self.thousands,
            date_format=self.pattern,
        )

    def number(self, value: Decimal, is_grouped: bool) -> str:
        """A number as Python groups it, with the marks of the country."""
        text = f"{value:,}" if is_grouped else str(value)
        marks = {",": self.thousands, ".": self.decimal}
        return "".join(marks.get(character, character) for character in text)


COUNTRIES = {
    "germany": Country(";", ",", ".", "cp1252", "%d.%m.%Y", "dd.MM.yyyy"),
    "france": Country(";", ",", "\u202f", "utf-8-sig", "%d/%m/%Y", "dd/MM/yyyy"),
    "switzerland": Country(";", ".", "\u2019", "utf-8-sig", "%d.%m.%Y", "dd.MM.yyyy"),
    "states": Country(",", ".", ",", "cp1252", "%m/%d/%Y", "MM/dd/yyyy"),
    "text": Country("\t", ",", ".", "utf-16", "%d.%m.%Y", "dd.MM.yyyy"),
}


def quoted(text: str, country: Country) -> str:
    """A cell as Excel writes it: in quotes if it has the delimiter, a quote or a line
    break."""
    needs_quotes = any(
        character in text for character in (country.delimiter, '"', "\n")
    )
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


@pytest.mark.parametrize("name", COUNTRIES)
@pytest.mark.parametrize("line", ["", "sep"])
def test_each_cell_is_the_value_that_it_shows(
    spark: SparkSession, tmp_path: Path, name: str, line: str
) -> None:
    country, chance = COUNTRIES[name], random.Random(name)
    wanted, lines = [], [f"sep={country.delimiter}"] if line else []
    lines.append(
        country.delimiter.join(chance.sample(HEADER, len(HEADER)) if line else HEADER)
    )
    order = lines[-1].split(country.delimiter)
    for _ in range(40):
        value = Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-2)
        weight = Decimal(chance.randrange(-(10**8), 10**8)).scaleb(-chance.randrange(5))
        count, day = (
            chance.randrange(-(10**6), 10**6),
            date(2026, 1, 1 + chance.randrange(31)),
        )
        text, grouped = (
            chance.choice(("Öl; 5 l", 'Rad 28"', "a,b", "zwei\nZeilen", "€uro", "")),
            chance.random() < 0.6,
        )
        cells = {
            "Artikel": text,
            "Menge": country.number(Decimal(count), grouped),
            "Preis": country.number(value, grouped),
            "Gewicht": country.number(weight, grouped),
            "Datum": day.strftime(country.day),
        }
        lines.append(
            country.delimiter.join(quoted(cells[column], country) for column in order)
        )
        wanted.append((text or None, count, value, float(weight), day))
    content = "".join(f"{each}\r\n" for each in lines)
    (tmp_path / "1.csv").write_bytes(content.encode(country.encoding))
    encoding = {"cp1252": "cp1252", "utf-16": "utf-16"}.get(country.encoding, "utf-8")
    rows, letters, _ = read(
        spark, tmp_path, stream_of(country.csv, COLUMNS, encoding=encoding)
    )
    assert [letter.detail for letter in letters] == []
    assert sorted(
        map(as_key, (tuple(row[column] for column in HEADER) for row in rows))
    ) == sorted(map(as_key, wanted))


def as_key(row: tuple[object, ...]) -> str:
    return repr(row)


WRONG = (
    *(
        "1.234,5",
        "0.123,5",
        "12.34",
        "1.2345",
        "1,234.56",
        "1.234.56",
        "1..234",
        ".123",
        "1,2,3",
        "1.234,",
        "1 234,5",
    ),
    *(
        "12,5%",
        "12,50 €",
        "(1,5)",
        "1,5-",
        "--1",
        "1'234",
        "0x10",
        "1e",
        "- 1",
        " 1,5",
        "1,5 ",
        "1,5d",
        "1_000",
        "eins",
    ),
)
"""Cells of which some are numbers by other marks."""


@pytest.mark.parametrize("thousands", ["", ".", " ", "'"])
def test_what_is_no_number_by_the_streams_marks_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path, thousands: str
) -> None:
    """Against DuckDB's reader of numbers, and a reader that goes through a text by
    hand."""
    columns = (
        Column("id", "int"),
        Column("d", "decimal(18,3)"),
        Column("f", "double"),
        Column("w", "bigint"),
    )
    cells = [
        *WRONG,
        "1,5",
        "1234,5",
        "0,125",
        "-7",
        "+7",
        "1.234",
        "1.234.567",
        "0.123",
        "12.345,678",
        "1e3",
        "1,5E2",
    ]
    lines = [f"{number};{cell};;" for number, cell in enumerate(cells)]
    lines += [f"{number};;{cell};" for number, cell in enumerate(cells, 1000)]
    lines += [f"{number};;;{cell}" for number, cell in enumerate(cells, 2000)]
    (tmp_path / "1.csv").write_text("".join(f"{line}\n" for line in lines))
    options = Csv(delimiter=";", decimal=",", thousands=thousands)
    rows, letters, _ = read(spark, tmp_path, stream_of(options, columns))
    found = {row["id"]: row for row in rows}
    values = {cell: by_hand(cell, thousands) for cell in cells}
    assert len(rows) + len(letters) == 3 * len(cells)
    for number, cell in enumerate(cells):
        value = values[cell]
        assert exactly(found.get(number), "d") == value, (cell, thousands)
        assert exactly(found.get(1000 + number), "f") == (
            None if value is None else Decimal(str(float(value)))
        ), cell
        is_whole = value is not None and "," not in cell and "e" not in cell.lower()
        assert exactly(found.get(2000 + number), "w") == (
            value if is_whole else None
        ), cell
    with duckdb.connect() as connection:
        agreed = connection.sql(
            "SELECT column0, column1 FROM read_csv(?, delim=';', header=false, decimal_separator=',', "
            "columns={'column0': 'INT', 'column1': 'DOUBLE', 'c': 'VARCHAR', 'd': 'VARCHAR'}, ignore_errors=true)",
            params=[str(tmp_path / "1.csv")],
        ).fetchall()
    plain = {
        number: value
        for number, value in agreed
        if number < len(cells) and not set(".' _") & set(cells[number])
    }
    assert len(plain) > 5
    for number, value in plain.items():
        assert value is None or float(found[number]["d"]) == value, cells[number]


def exactly(row: Row | None, column: str) -> Decimal | None:
    return None if row is None else Decimal(str(row[column]))


def by_hand(cell: str, thousands: str) -> Decimal | None:
    """The number of a cell: its sign, groups of three digits with a mark between them,
    a fraction, an exponent."""
    body, _, exponent = cell.lower().partition("e")
    if exponent and not exponent.lstrip("+-").isdigit():
        return None
    if "e" in cell.lower() and not exponent:
        return None
    sign = -1 if body[:1] == "-" else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    whole, _, fraction = body.partition(",")
    groups = whole.split(thousands) if thousands else [whole]
    if len(groups) > 1 and not (
        is_first_group(groups[0]) and all(len(group) == 3 for group in groups[1:])
    ):
        return None
    digits = "".join(groups)
    if not set(digits + fraction) <= set("0123456789") or not digits + fraction:
        return None
    value = Decimal(f"{digits or '0'}.{fraction or '0'}") * sign
    return value.scaleb(int(exponent or "0"))


def is_first_group(group: str) -> bool:
    return 1 <= len(group) <= 3 and group[0] != "0"


def test_without_marks_a_number_with_a_comma_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = (Column("d", "decimal(12,2)"), Column("f", "double"), Column("w", "int"))
    cells = ("1,5", "1.234,56", "1.234.567")
    lines = [f"{cell};;\n;{cell};\n;;{cell}\n" for cell in cells]
    (tmp_path / "1.csv").write_text("".join(lines))
    rows, letters, _ = read(spark, tmp_path, stream_of(Csv(delimiter=";"), columns))
    assert rows == []
    assert len(letters) == 3 * len(cells)
    assert {letter.reason for letter in letters} == {"unparsable"}


def test_a_double_that_is_too_large_is_a_dead_letter_and_a_word_is_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text("1;1,5E400\n2;Infinity\n3;-Inf\n4;NaN\n")
    columns = (Column("id", "int"), Column("f", "double"))
    rows, letters, _ = read(
        spark, tmp_path, stream_of(Csv(delimiter=";", decimal=","), columns)
    )
    assert {row["id"]: str(row["f"]) for row in rows} == {2: "inf", 3: "-inf", 4: "nan"}
    assert [bytes(letter.value) for letter in letters] == [b"1;1,5E400"]


def test_a_line_that_names_another_delimiter_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = (Column("a", "int"), Column("b", "string"), Column("c", "string"))
    (tmp_path / "1.csv").write_text("sep=,\na;b;c\n1;x;y\n")
    (tmp_path / "2.csv").write_bytes(b'\xef\xbb\xbfsep=;\r\n2;x;"sep=;"\r\n')
    rows, letters, _ = read(
        spark, tmp_path, stream_of(Csv(header=True, delimiter=";"), columns)
    )
    assert sorted(row["a"] for row in rows) == [1, 2]
    assert [bytes(letter.value) for letter in letters] == [b"sep=,"]
