"""Which kind of event log a stream's files are announced in: a Kafka topic or an SQS
queue."""

from __future__ import annotations

from contextlib import closing

from pyspark.sql import SparkSession

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.event_log import EventLog
from lakesql.engine.sources.event_queues import EventQueue
from lakesql.engine.sources.event_topics import EventTopic
from lakesql.engine.sources.spark_source import Planning
from lakesql.source.notified_files import NotifiedFiles
from lakesql.source.sqs import Sqs, open_queue


def open_events(
    session: SparkSession, binding: StreamBinding, planning: Planning
) -> EventLog:
    """The log of the events that announce a stream's files."""
    source = notified(binding)
    cluster = source.events.cluster
    if cluster is not None:
        return EventTopic(session, cluster, source.told_by, binding.stream.place)
    return EventQueue(
        _queues(source), source.told_by, planning.open_shared(binding.events_folder)
    )


def check_events(session: SparkSession, binding: StreamBinding) -> None:
    """Raise an error if the topic or the queue of events does not exist, or refuses the
    credentials."""
    source = notified(binding)
    cluster = source.events.cluster
    if cluster is None:
        open_queue(_queues(source), source.told_by)
        return
    with closing(
        EventTopic(session, cluster, source.told_by, binding.stream.place)
    ) as topic:
        topic.ends()


def notified(binding: StreamBinding) -> NotifiedFiles:
    """The source of a stream that has `notifications`."""
    assert isinstance(binding.source, NotifiedFiles)
    return binding.source


def _queues(source: NotifiedFiles) -> Sqs:
    """The connection of the queue, if events are not in a Kafka topic."""
    assert isinstance(source.events, Sqs), (
        f"no events are read from {source.events.kind}"
    )
    return source.events
