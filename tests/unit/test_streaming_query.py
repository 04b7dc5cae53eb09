"""What is read from Spark's reports of a query."""

from __future__ import annotations

from dataclasses import replace

from lakesql.engine.batch.streaming_query import Backlog, backlog_of, unit_of
from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import Place
from lakesql.events import PartitionLag
from lakesql.source.kafka import Kafka
from lakesql.source.origin import Topics
from lakesql.source.recorded import Recorded
from lakesql.stream.stream import model_stream


def test_the_backlog_is_summed_over_partitions_and_files() -> None:
    kafka = {
        "endOffset": {"a": {"0": 10, "1": 4}, "b": {"0": 0}},
        "latestOffset": {"a": {"0": 15, "1": 4, "2": 3}, "b": {"0": 1}},
        "metrics": {"maxOffsetsBehindLatest": "5"},
    }
    files = {"endOffset": {"logOffset": 3}, "metrics": {"numFilesOutstanding": "7"}}
    lag = (
        PartitionLag("a", 0, 5),
        PartitionLag("a", 1, 0),
        PartitionLag("a", 2, 3),
        PartitionLag("b", 0, 1),
    )
    assert backlog_of([kafka], "records") == Backlog(9, "records", lag)
    assert backlog_of([files, files], "files") == Backlog(14, "files")
    assert backlog_of([{"behindMs": 7}, {"behindMs": 900}], "records") == Backlog(
        900, "ms"
    )
    assert backlog_of([kafka, {"behindMs": 7}], "records") == Backlog(9, "records", lag)
    assert backlog_of([kafka, files], "records") == Backlog(9, "records", lag)
    table = {
        "latestOffset": {
            "version": 1,
            "snapshot_id": 5,
            "position": 0,
            "scan_all_files": False,
        },
        "metrics": {},
    }
    assert backlog_of([kafka, table, {"latestOffset": 12}], "records") == Backlog(
        9, "records", lag
    )


def test_a_backlog_that_is_not_known_yet_has_the_unit_of_its_streams() -> None:
    place = Place("s.yml", 1, 1)
    topic, other = (
        StreamBinding(
            replace(
                model_stream(name, (), None, place),
                connection="c",
                origin=Topics((name,)),
            ),
            source,
        )
        for name, source in (("a", Kafka("host:9092")), ("b", Recorded("recorded")))
    )
    assert (unit_of([other, topic]), unit_of([other])) == ("records", "files")
    begun = {"endOffset": None, "metrics": {"maxOffsetsBehindLatest": "0"}}
    assert backlog_of([begun], "records") == Backlog(None, "records")
    assert backlog_of([{"metrics": None}, {}], "records") == Backlog(None, "records")
    assert backlog_of([{"metrics": None}, {}], "files") == Backlog(None, "files")
