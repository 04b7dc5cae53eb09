"""336,776 real flights, appended and merged, on a REST catalog with OAuth, with tables and checkpoints in S3."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from lakesql.events import BatchCommitted, BatchSkipped
from tests.catalogs.places import Place, forget
from tests.flights import source
from tests.spark.project import Project

FILES = 4
MODELS = {"flights": source.COUNT, "flights_daily": source.DAILY_COUNT}


def test_every_flight_stands_once_for_every_reader(rest_on_s3: Place, tmp_path: Path) -> None:
    """The files come in two portions; after the first the newest batch of each model comes again."""
    directory, data = tmp_path / "project", tmp_path / "data"
    shutil.copytree(source.PROJECT, directory)
    for model in MODELS:  # 365 days would be as many requests to S3 for each batch
        file = directory / "models" / f"{model}.sql"
        file.write_text(file.read_text().replace("days(time_hour)", "months(time_hour)"))
    topic = source.write_topic(data / "recorded", files=FILES)
    project = Project(rest_on_s3.lake, directory, "flights", "flights")
    project.checkpoints = f"{rest_on_s3.checkpoints}/flights"
    project.connections = {"recorded": {"type": "recorded", "path": "recorded"}, "landing": {"type": "files"}}
    runs = []
    for portion in (topic.paths[: FILES // 2], topic.paths[FILES // 2 :]):
        for path in portion:
            there = directory / path.relative_to(data)
            there.parent.mkdir(parents=True, exist_ok=True)
            path.rename(there)
        runs.append(project.run(*MODELS).check())
        forget(project, runs[-1], MODELS)
    runs.append(project.run(*MODELS).check())

    expected = {
        "flights": (source.COUNT, source.checksum(source.flights())),
        "flights_daily": (source.DAILY_COUNT, source.checksum(source.daily().values())),
    }
    for model in MODELS:
        assert sum(len(ran.of(BatchCommitted, model)) for ran in runs) == FILES
        assert sum(len(ran.of(BatchSkipped, model)) for ran in runs) == 2
        assert len(project.rows(f"{model}__dead_letter")) == source.BAD_COUNT
        (row,) = project.sql(source.checksum_sql("spark", project.table(model)))
        assert (row["rows"], int(row["checksum"])) == expected[model]
        with rest_on_s3.connect() as connection:
            table = rest_on_s3.duckdb_name(project.namespace, model)
            assert summed(connection, table) == expected[model]
            connection.register("read", project.iceberg(model).scan().to_arrow())
            assert summed(connection, "read") == expected[model]


def summed(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, int]:
    found = connection.execute(source.checksum_sql("duckdb", table)).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])
