"""All places in which events tell of files, by the kinds of their connections."""

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
    """Where the events of a stream's files are."""
    source = notified(binding)
    cluster = source.events.cluster
    if cluster is not None:
        return EventTopic(session, cluster, source.told_by, binding.stream.place)
    return EventQueue(
        _queues(source), source.told_by, planning.open_shared(binding.events_folder)
    )


def check_events(session: SparkSession, binding: StreamBinding) -> None:
    """Raise what asking for the topic or the queue raises, where it is not there or
    does not take the login."""
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
    """The connection of the queue, which is what brings events where no cluster
    does."""
    assert isinstance(source.events, Sqs), (
        f"no events are read from {source.events.kind}"
    )
    return source.events
