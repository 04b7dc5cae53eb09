"""Reads the newest records of topics: of a Kafka cluster through Java, of other logs
through their own clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakesql.errors import Place
from lakesql.run.streams.asked_topics import open_kafka
from lakesql.source.kafka import Kafka
from lakesql.source.log import LogRecord
from lakesql.source.log_newest import newest_of_topics
from lakesql.source.origin import StreamOrigin
from lakesql.source.source import Source
from lakesql.stream.recording import RawRecord


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """The topics of a stream, and about the newest records of all of them together,
    oldest first."""

    topics: Sequence[str]
    records: Sequence[RawRecord]


def read_newest(
    source: Source,
    origin: StreamOrigin,
    rows: int,
    place: Place | None = None,
    check: Callable[[Sequence[str]], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> NewestRecords | None:
    """About the newest `rows` records of the topics that `origin` names; None if the
    source has no topics to read.

    `check` is called with the names of the topics before they are read. Raises what
    asking the source raises.
    """
    if source.cluster is not None:
        return _newest_of_cluster(source.cluster, origin, rows, place, check, say)
    log = source.as_log
    if log is None:
        return None
    topics = [*origin.find_topics(tuple)]
    check(topics)
    found = newest_of_topics(log, origin, rows)
    records = [each for topic, own in found.items() for each in _numbered(topic, own)]
    return NewestRecords(topics, sorted(records, key=lambda record: record.age))


def _newest_of_cluster(
    cluster: Kafka,
    origin: StreamOrigin,
    rows: int,
    place: Place | None,
    check: Callable[[Sequence[str]], None],
    say: Callable[[str], None],
) -> NewestRecords:
    # imported only here: neither logs nor files need it
    from lakesql.engine.sources.broker import open_broker

    with open_kafka(say) as jvm, open_broker(jvm, cluster) as broker:
        topics = broker.find_topics(origin, place)
        check([*topics])
        return NewestRecords([*topics], broker.read_newest(topics.values(), rows))


def _numbered(topic: str, records: Sequence[LogRecord]) -> list[RawRecord]:
    """The records of a topic. Records without offsets are numbered from 0 in each
    partition."""
    counted = Counter[int]()
    found = []
    for record in records:
        number = counted[record.partition] if record.offset is None else record.offset
        counted[record.partition] += 1
        found.append(
            RawRecord(
                topic,
                record.partition,
                number,
                record.timestamp_us // 1000,
                record.key,
                record.value,
                tuple(record.headers),
                record.topic if record.topic != topic else "",
            )
        )
    return found
