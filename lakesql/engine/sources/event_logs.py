"""All places in which events tell of files, by the kinds of their connections."""

from __future__ import annotations

from contextlib import closing

from pyspark.sql import SparkSession

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.event_log import EventLog
from lakesql.engine.sources.event_queues import EventQueue
from lakesql.engine.sources.event_topics import EventTopic
from lakesql.engine.sources.spark_source import Planning
from lakesql.source.kafka import Kafka
from lakesql.source.notified_files import NotifiedFiles
from lakesql.source.sqs import Sqs, open_queue


def open_events(session: SparkSession, binding: StreamBinding, planning: Planning) -> EventLog:
    """Where the events of a stream's files are."""
    source = notified(binding)
    match source.events:
        case Sqs() as queues:
            return EventQueue(queues, source.told_by, planning.open_shared(binding.events_folder))
        case Kafka() as cluster:
            return EventTopic(session, cluster, source.told_by, binding.stream.place)
    raise _tells_nothing(source)


def check_events(session: SparkSession, binding: StreamBinding) -> None:
    """Raise what asking for the topic or the queue raises, where it is not there or does not take the login."""
    source = notified(binding)
    match source.events:
        case Sqs() as queues:
            open_queue(queues, source.told_by)
        case Kafka() as cluster:
            with closing(EventTopic(session, cluster, source.told_by, binding.stream.place)) as topic:
                topic.ends()
        case _:
            raise _tells_nothing(source)


def notified(binding: StreamBinding) -> NotifiedFiles:
    """The source of a stream that has `notifications`."""
    assert isinstance(binding.source, NotifiedFiles)
    return binding.source


def _tells_nothing(source: NotifiedFiles) -> AssertionError:
    return AssertionError(f"no events are read from {source.events.kind}")
