"""336,776 real flights from a real broker, on a REST catalog with OAuth, with tables and checkpoints in S3."""

from __future__ import annotations

from pathlib import Path

from tests.catalogs.places import Place
from tests.flights import source
from tests.flights.feed import (
    ENDS_WITHIN_S,
    MODELS,
    STALLS_AFTER_S,
    TOPIC,
    Feed,
    caught_up,
    committed,
    edit,
    write_project,
)
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.servers.runner import Runner, of

CHANGES = {
    # 365 days would be as many requests to S3 for each batch.
    "models/flights.sql": ("days(time_hour)", "months(time_hour)"),
    "models/flights_daily.sql": ("days(time_hour)", "months(time_hour)"),
    "streams/flights.yml": ("max_per_batch: 15000", "max_per_batch: 100000"),
}


def test_every_flight_stands_once_for_every_reader(rest_on_s3: Place, tmp_path: Path) -> None:
    """Though the runner is killed with its Java in the middle, and partitions are added."""
    directory, catalog = tmp_path / "project", rest_on_s3.lake.catalog.profile
    served = {"name": catalog.name, "type": catalog.type, "uri": catalog.uri, "warehouse": catalog.warehouse}
    with running(Broker(tmp_path / "broker")) as broker:
        write_project(
            directory,
            broker,
            catalog={**served, **catalog.properties},
            checkpoints=f"{rest_on_s3.checkpoints}/flights",
        )
        edit(directory, CHANGES)
        feed = Feed(broker)
        broker.create_topic(TOPIC, 3)
        feed.send(150_000, 3)
        with running(Runner(directory, *MODELS)) as runner:
            runner.wait(lambda events: committed(events, 1), STALLS_AFTER_S)
            runner.kill_both()
            broker.add_partitions(TOPIC, 4)
            feed.send(source.COUNT, 4)
            runner.start()
            runner.wait(lambda events: caught_up(events, feed.ends), STALLS_AFTER_S)
            assert runner.terminate(ENDS_WITHIN_S) == 0
        assert runner.errors.read_text() == ""

    for model in MODELS:
        told = [event["batch"] for events in runner.runs for event in of(events, "batch_committed", model)]
        assert told == sorted(set(told)) and len(told) >= 4
        table = rest_on_s3.lake.catalog.iceberg.load_table(("flights", model))
        assert source.sum_arrow(table.scan().to_arrow()) == source.expected(model)
        with rest_on_s3.connect() as connection:
            assert source.sum_duckdb(connection, rest_on_s3.duckdb_name("flights", model)) == source.expected(model)
        letters = rest_on_s3.lake.catalog.iceberg.load_table(("flights", f"{model}__dead_letter"))
        found = {
            (row["partition"], row["offset"]): (row["reason"], row["value"])
            for row in letters.scan().to_arrow().to_pylist()
        }
        assert found == feed.bad and len(found) == source.BAD_COUNT
