"""Real flights from a real broker, on a REST catalog with OAuth, with tables and
checkpoints in S3.

There are 30,000 of them, with `--all-flights` 336,776, in as many batches.
"""

from __future__ import annotations

from pathlib import Path

from lakesql.events import BatchCommitted, BatchSkipped
from tests.catalogs.places import Place, forget_batches
from tests.flights import source
from tests.flights.feed import (
    ENDS_WITHIN_S,
    MODELS,
    STALLS_AFTER_S,
    TOPIC,
    Feed,
    caught_up,
    committed,
    dead_letters,
    edit,
    write_project,
)
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.servers.runner import Runner, of
from tests.spark.project import Project

CHANGES = {
    # 365 days would be as many requests to S3 for each batch.
    "models/flights.sql": ("days(time_hour)", "months(time_hour)"),
    "models/flights_daily.sql": ("days(time_hour)", "months(time_hour)"),
}


def test_every_reader_finds_no_missing_and_no_duplicate_flight(
    rest_on_s3: Place, flights: tuple[source.Flight, ...], tmp_path: Path
) -> None:
    """Though the runner is killed with its Java, partitions are added, and the newest
    batches come again."""
    catalog = rest_on_s3.lake.catalog.profile
    served = {
        "name": catalog.name,
        "type": catalog.type,
        "uri": catalog.uri,
        "warehouse": catalog.warehouse,
    }
    target = {
        "catalog": {**served, **catalog.properties},
        "checkpoints": f"{rest_on_s3.checkpoints}/flights",
    }
    project = Project(rest_on_s3.lake, tmp_path / "project", "flights", "flights")
    project.checkpoints = target["checkpoints"]
    with running(Broker(tmp_path / "broker")) as broker:
        write_project(
            project.directory,
            broker,
            per_batch=len(flights) * 100_000 // source.COUNT,
            **target,
        )
        edit(project.directory, CHANGES)
        feed = Feed(broker, flights)
        broker.create_topic(TOPIC, 3)
        feed.send(0.45, 3)
        with running(Runner(project.directory, *MODELS)) as runner:
            runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S)
            runner.kill_both()
            broker.add_partitions(TOPIC, 4)
            feed.send(1, 4)
            runner.start()
            runner.wait(lambda events: caught_up(events, feed.ends), STALLS_AFTER_S)
            assert runner.terminate(ENDS_WITHIN_S) == 0
        assert runner.errors.read_text() == ""

        told = {model: batches_of(runner, model) for model in MODELS}
        forget_batches(project, {model: batches[-1] for model, batches in told.items()})
        project.connections = {
            "recorded": {"type": "kafka", "bootstrap_servers": broker.servers},
            "landing": {"type": "files"},
        }
        again = project.run(*MODELS).check()

    for model in MODELS:
        assert told[model] == sorted(set(told[model])) and len(told[model]) >= 4
        assert [event.batch for event in again.of(BatchSkipped, model)] == [
            told[model][-1]
        ]
        assert again.of(BatchCommitted, model) == []
        assert dead_letters(project.iceberg(f"{model}__dead_letter")) == feed.bad
        (row,) = project.sql(source.checksum_sql("spark", project.table(model)))
        assert (row["rows"], int(row["checksum"])) == source.expected(model, flights)
        assert source.sum_arrow(
            project.iceberg(model).scan().to_arrow()
        ) == source.expected(model, flights)
        with rest_on_s3.connect() as connection:
            table = rest_on_s3.duckdb_name(project.namespace, model)
            assert source.sum_duckdb(connection, table) == source.expected(
                model, flights
            )
    assert len(feed.bad) == source.BAD_COUNT


def batches_of(runner: Runner, model: str) -> list[int]:
    """The batches that its runs have committed, as they told it."""
    return [
        event["batch"]
        for events in runner.runs
        for event in of(events, "batch_committed", model)
    ]
