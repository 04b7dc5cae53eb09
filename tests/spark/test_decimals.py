"""Decimals of every format, against Python's: a number that does not fit is a dead
letter, never another number."""

from __future__ import annotations

import json
import random
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn, parse_records
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import parse_binding
from lakesql.engine.sources.raw import read_raw
from lakesql.errors import Place
from lakesql.records.formats.csv import Csv
from lakesql.source.files import Files
from lakesql.source.origin import FilePath
from lakesql.stream.stream import Column, Stream
from tests.spark.test_parse import raw_of

pytestmark = pytest.mark.spark

TYPES = ((10, 2), (38, 18), (3, 3))
FORMS = ("topic", "quoted", "csv", "files", "feed", "quoted in a feed")
WIDE = Context(prec=200)


def random_number(chance: random.Random, precision: int, scale: int) -> str:
    """The text of a JSON number about the edges of a type."""
    whole = chance.choice(
        (0, 1, max(0, precision - scale - 1), precision - scale, precision - scale + 1)
    )
    places = chance.choice((0, 1, scale, scale, scale + 1, scale + 9, 39))
    before = str(chance.randrange(10**whole)) if whole else "0"
    after = "".join(chance.choices("0059", k=places)) if places else ""
    exponent = chance.choice(
        ("", "", "", "e0", "e2", "E-3", "e-40", "e+1", "e-9", "e-310", "E-324", "e-400")
    )
    return chance.choice(("", "-")) + before + (f".{after}" if after else "") + exponent


def fits(text: str, precision: int, scale: int) -> Decimal | None:
    number = Decimal(text)
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return (
        rounded
        if rounded == number and abs(number) < 10 ** (precision - scale)
        else None
    )


def rounds(text: str, precision: int, scale: int) -> Decimal | None:
    rounded = Decimal(text).quantize(
        Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=WIDE
    )
    return rounded if abs(rounded) < 10 ** (precision - scale) else None


def read(
    spark: SparkSession,
    form: str,
    folder: Path,
    texts: list[str],
    kind: T.DecimalType,
    decimals: Any,
) -> list[Decimal | None]:
    """What each text has become; None for a dead letter."""
    columns = (
        ContractColumn("i", T.IntegerType(), decimals=decimals),
        ContractColumn("d", kind, decimals=decimals),
    )
    pairs = list(enumerate(texts))
    none = frozenset[str]()
    match form:
        case "topic" | "quoted":
            quote = '"' if form == "quoted" else ""
            values = [
                f'{{"i":{i},"d":{quote}{text}{quote},"x":0.12345678901234567}}'
                for i, text in pairs
            ]
            found = parse_records(
                raw_of(spark, [it.encode() for it in values]), Contract(columns), none
            )
        case "csv":
            lines = [f"{i},{text}".encode() for i, text in pairs]
            found = parse_records(
                raw_of(spark, [*lines]), Contract(columns, "csv", Csv()), none
            )
        case "feed" | "quoted in a feed":
            quote = "" if form == "feed" else '"'
            events = [
                f'{{"op":"c","after":{{"i":{i},"d":{quote}{text}{quote}}}}}'.encode()
                for i, text in pairs
            ]
            contract = Contract(columns, envelope="debezium", key=("i",))
            found = parse_changes(raw_of(spark, [*events]), contract, none, none)
        case _:
            (folder / "a.json").write_text(
                "".join(f'{{"i":{i},"d":{text}}}\n' for i, text in pairs)
            )
            found = read_files(spark, folder, kind, decimals)
    good = found.where(F.col("_lakesql_rejected").isNull()).select("i", "d").collect()
    by_number = {row["i"]: row["d"] for row in good}
    return [by_number.get(i) for i, _ in pairs]


def read_files(
    spark: SparkSession, folder: Path, kind: T.DecimalType, decimals: Any
) -> Any:
    columns = (Column("i", "int"), Column("d", kind.simpleString()))
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
        decimals=decimals,
    )
    binding = StreamBinding(stream, Files(str(folder)))
    select: Any = type("Select", (), {})()
    select.query = type("Query", (), {"record_fields": frozenset()})
    select.has_positions, select.change_fields = False, frozenset()
    return parse_binding(read_raw(spark, binding, streaming=False), binding, select)


@pytest.mark.parametrize("decimals", ["exact", "round"])
@pytest.mark.parametrize("form", FORMS)
def test_a_decimal_is_the_number_that_stands_there_or_a_dead_letter(
    spark: SparkSession, tmp_path: Path, form: str, decimals: str
) -> None:
    chance = random.Random(f"{form} {decimals}")
    for number, (precision, scale) in enumerate(
        TYPES if decimals == "exact" else TYPES[:1]
    ):
        texts = [
            random_number(chance, precision, scale)
            for _ in range(settings().max_examples * 5)
        ]
        folder = tmp_path / str(number)
        folder.mkdir()
        found = read(
            spark, form, folder, texts, T.DecimalType(precision, scale), decimals
        )
        oracle = fits if decimals == "exact" else rounds
        expected = [oracle(text, precision, scale) for text in texts]
        wrong = [
            (t, e, f) for t, e, f in zip(texts, expected, found, strict=True) if e != f
        ]
        assert not wrong, f"decimal({precision},{scale}): {wrong[:5]}"


def test_a_number_in_a_text_is_read_as_json_writes_it(spark: SparkSession) -> None:
    columns = (ContractColumn("d", T.DecimalType(10, 2)),)
    values = [
        json.dumps({"d": text}).encode()
        for text in ("1.50", " 1.50", "1,50", "1.5 ", "0x1", "")
    ]
    rows = parse_records(
        raw_of(spark, [*values]), Contract(columns), frozenset()
    ).collect()
    assert [row["d"] for row in rows if row._lakesql_rejected is None] == [
        Decimal("1.50")
    ]
