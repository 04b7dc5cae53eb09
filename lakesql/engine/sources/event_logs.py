"""All places in which events tell of files, by the kinds of their connections."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.event_log import EventLog
from lakesql.engine.sources.event_queues import EventQueue
from lakesql.engine.sources.event_topics import EventTopic
from lakesql.source.kafka import Kafka
from lakesql.source.notified_files import NotifiedFiles
from lakesql.source.sqs import Sqs


def open_events(session: SparkSession, binding: StreamBinding) -> EventLog:
    """Where the events of a stream's files are."""
    source = binding.source
    assert isinstance(source, NotifiedFiles)
    match source.events:
        case Sqs() as queues:
            return EventQueue(queues, source.told_by, CheckpointFiles(session, binding.events_folder))
        case Kafka() as cluster:
            return EventTopic(session, cluster, source.told_by, binding.stream.place)
    raise AssertionError(f"no events are read from {source.events.kind}")
