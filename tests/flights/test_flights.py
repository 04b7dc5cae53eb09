"""336,776 real flights, in 20 batches a model, with unreadable records among them, and
every tenth batch replayed.

Spark runs a batch again when it is the newest and its checkpoint does not say that it
is done. So the files come in portions of ten, one a batch, and after each portion the
newest batch of every model is forgotten. Whoever reads the tables finds each flight
once: Spark, DuckDB and pyiceberg.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pytest

from lakesql.events import BatchCommitted, BatchSkipped
from tests.flights import source
from tests.spark.project import Lake, Project, Ran

pytestmark = pytest.mark.spark

APPENDED = ("flights", "flights_from_csv")
MODELS = (*APPENDED, "flights_daily")
FROM_TOPIC = ("flights", "flights_daily")
BATCHES = 20
EVERY = 10


@dataclass(frozen=True, slots=True)
class Flown:
    """The project after all its runs, and what was to happen in them."""

    project: Project
    topic: source.Topic
    runs: tuple[Ran, ...]
    forgotten: dict[str, list[int]]


@pytest.fixture(scope="module")
def flown(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flown]:
    """Every ten files the newest batch of each model, its tenth, is forgotten, and
    comes again in the run after it."""
    directory, data = (
        tmp_path_factory.mktemp("flights"),
        tmp_path_factory.mktemp("data"),
    )
    shutil.copytree(source.PROJECT, directory, dirs_exist_ok=True)
    topic = source.write_topic(data / "recorded", files=BATCHES)
    csv = source.write_csv(data / "landing", files=BATCHES)
    project = Project(lake, directory, "flights", "flights")
    project.connections = {
        "recorded": {"type": "recorded", "path": "recorded"},
        "landing": {"type": "files", "path": "landing"},
    }
    runs: list[Ran] = []
    forgotten: dict[str, list[int]] = {model: [] for model in MODELS}
    for first in range(0, BATCHES, EVERY):
        for path in (*topic.paths[first : first + EVERY], *csv[first : first + EVERY]):
            there = directory / path.relative_to(data)
            there.parent.mkdir(parents=True, exist_ok=True)
            path.rename(there)
        runs.append(project.run().check())
        for model in MODELS:
            forgotten[model].append(project.forget(model))
    runs.append(project.run().check())
    yield Flown(project, topic, tuple(runs), forgotten)


@pytest.mark.parametrize("model", MODELS)
def test_every_tenth_batch_comes_again_and_is_skipped(flown: Flown, model: str) -> None:
    committed = [
        event.batch for ran in flown.runs for event in ran.of(BatchCommitted, model)
    ]
    assert committed == list(range(BATCHES))
    tenths = list(range(EVERY - 1, BATCHES, EVERY))
    assert flown.forgotten[model] == tenths
    assert [
        event.batch for ran in flown.runs for event in ran.of(BatchSkipped, model)
    ] == tenths


def test_exactly_the_unreadable_records_are_dead_letters(flown: Flown) -> None:
    expected = {
        (bad.partition, bad.offset): (source.REASONS[bad.kind], bad.value)
        for bad in flown.topic.bad
    }
    assert len(expected) == source.BAD_COUNT == 200
    for model in FROM_TOPIC:
        letters = flown.project.rows(f"{model}__dead_letter")
        assert len(letters) == source.BAD_COUNT
        found = {
            (row["partition"], row["offset"]): (row["reason"], row["value"])
            for row in letters
        }
        assert found == expected
        told: Counter[str] = Counter()
        for ran in flown.runs:
            told[model] += ran.finished(model).rejected
        assert told[model] == source.BAD_COUNT
    # A CSV file's header is no record, and nothing else of it is set aside.
    assert not flown.project.has("flights_from_csv__dead_letter")


@pytest.mark.parametrize("reader", ["spark", "duckdb", "pyiceberg"])
@pytest.mark.parametrize("model", MODELS)
def test_every_reader_finds_no_missing_and_no_duplicate_flight(
    flown: Flown, model: str, reader: str
) -> None:
    assert source.expected(model)[0] == (
        source.COUNT if model in APPENDED else source.DAILY_COUNT
    )
    assert READERS[reader](flown.project, model) == source.expected(model)


def read_with_spark(project: Project, model: str) -> tuple[int, int]:
    (row,) = project.sql(source.checksum_sql("spark", project.table(model)))
    return row["rows"], int(row["checksum"])


def read_with_duckdb(project: Project, model: str) -> tuple[int, int]:
    with duckdb.connect() as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            (file,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        connection.execute("SET TimeZone = 'UTC'")
        metadata = project.iceberg(model).metadata_location.removeprefix("file:")
        return source.sum_duckdb(connection, f"iceberg_scan('{metadata}')")


def read_with_pyiceberg(project: Project, model: str) -> tuple[int, int]:
    return source.sum_arrow(project.iceberg(model).scan().to_arrow())


READERS = {
    "spark": read_with_spark,
    "duckdb": read_with_duckdb,
    "pyiceberg": read_with_pyiceberg,
}
