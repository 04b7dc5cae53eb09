"""Times as numbers in JSON and CSV, by the `unit` of their column."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.records.parse import parse_records
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.engine.sources.folder_columns import with_folders
from lakesql.engine.sources.parsed import parse_binding
from lakesql.engine.sources.raw import read_raw
from lakesql.errors import Place
from lakesql.records.formats.csv import Csv
from lakesql.source.files import Files
from lakesql.source.origin import FilePath
from lakesql.stream.stream import Column, Format, Stream, Unit

pytestmark = pytest.mark.spark

TICKS: dict[Unit, int] = {
    "seconds": 1,
    "milliseconds": 1_000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OTHERS = ("1e400", "true", "1.5", '"12:30"', '"none"', "9" * 30)


def numbers_of(unit: Unit) -> list[int]:
    """Numbers about the edges of the years 1 to 9999, about 1970 and of today, and by
    chance."""
    ticks, chance = TICKS[unit], random.Random(unit)
    edges = [
        -62_135_596_800 * ticks,
        253_402_300_800 * ticks,
        0,
        1_772_366_400 * ticks,
        2**63,
        -(2**63),
        2**58,
    ]
    near = [edge + step for edge in edges for step in (-1, 0, 1)]
    return near + [
        chance.randrange(-(10**digits), 10**digits)
        for digits in range(1, 21)
        for _ in range(2)
    ]


def expected_of(number: int, unit: Unit) -> datetime | None:
    """The time that a number counts, by Python; None where it is beyond the years or
    what a bigint holds."""
    micros = number * 1_000_000 // TICKS[unit]
    if not -(2**63) <= number < 2**63:
        return None
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def binding_of(format_: Format, unit: Unit, folder: Path) -> StreamBinding:
    columns = (Column("id", "int"), Column("at", "timestamp", unit=unit))
    stream = Stream(
        *(
            "s",
            "",
            "landing",
            FilePath("*"),
            format_,
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
    )
    return StreamBinding(stream, Files(str(folder)))


@pytest.mark.parametrize("unit", TICKS)
@pytest.mark.parametrize("format_", ["json", "csv"])
@pytest.mark.parametrize("in_files", [True, False])
def test_a_number_is_the_time_that_it_counts_or_a_dead_letter(
    spark: SparkSession, tmp_path: Path, unit: Unit, format_: Format, in_files: bool
) -> None:
    numbers = numbers_of(unit)
    values = [*map(str, numbers), *OTHERS, '"2026-03-01T12:00:00Z"', "null"]
    lines = [f'{{"id": {id_}, "at": {value}}}' for id_, value in enumerate(values)]
    if format_ == "csv":
        lines = [
            f"{id_},{value.replace('null', '').replace(chr(34), '')}"
            for id_, value in enumerate(values)
        ]
    binding = binding_of(format_, unit, tmp_path)
    if in_files:
        (tmp_path / f"1.{format_}").write_text("\n".join(lines))
        frame = parse_binding(
            read_raw(spark, binding, streaming=False), binding, _Select
        )  # type: ignore[arg-type]
    else:
        raw = [
            (None, line.encode(), "t", 0, number, None, None)
            for number, line in enumerate(lines)
        ]
        schema = (
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            "headers array<struct<key:string,value:binary>>"
        )
        records = with_folders(spark.createDataFrame(raw, schema), binding)
        frame = parse_records(records, contract_of(binding), frozenset())
    good = (
        frame.where("_lakesql_rejected IS NULL")
        .select("id", F.unix_micros("at").alias("us"))
        .collect()
    )
    found = {row["id"]: row["us"] for row in good}
    expected: dict[int, int | None] = {}
    for id_, number in enumerate(numbers):
        time = expected_of(number, unit)
        if time is not None:
            expected[id_] = (time - EPOCH) // timedelta(microseconds=1)
    expected[len(values) - 2] = 1_772_366_400_000_000
    expected[len(values) - 1] = None
    assert found == expected
    letters: list[Row] = (
        frame.where("_lakesql_rejected IS NOT NULL")
        .select("_lakesql_rejected.reason")
        .collect()
    )
    assert [row["reason"] for row in letters] == ["unparsable"] * (
        len(values) - len(expected)
    )


class _Select:
    """What the parsing of a stream asks of a SELECT."""

    class query:  # noqa: N801
        record_fields: frozenset[str] = frozenset()

    has_positions = False
    change_fields: frozenset[str] = frozenset()
