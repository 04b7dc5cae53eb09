"""What is read from Spark's reports of a query."""

from __future__ import annotations

from lakesql.engine.batch.streaming_query import Backlog, backlog_of
from lakesql.events import PartitionLag


def test_the_backlog_is_summed_over_partitions_and_files() -> None:
    kafka = {
        "endOffset": {"a": {"0": 10, "1": 4}, "b": {"0": 0}},
        "latestOffset": {"a": {"0": 15, "1": 4, "2": 3}, "b": {"0": 1}},
        "metrics": {"maxOffsetsBehindLatest": "5"},
    }
    files = {"endOffset": {"logOffset": 3}, "metrics": {"numFilesOutstanding": "7"}}
    lag = (PartitionLag("a", 0, 5), PartitionLag("a", 1, 0), PartitionLag("a", 2, 3), PartitionLag("b", 0, 1))
    assert backlog_of([kafka]) == Backlog(9, "records", lag)
    assert backlog_of([files, files]) == Backlog(14, "files")
    assert backlog_of([kafka, files]).unit == "records"
    assert backlog_of([{"endOffset": None, "metrics": {"maxOffsetsBehindLatest": "0"}}]) == Backlog(None, "files")
    assert backlog_of([{"metrics": None}, {}]) == Backlog(None, "files")
