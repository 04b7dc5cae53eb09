"""Events about files in a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import ClassVar

from pyspark.sql import SparkSession

from lakesql.engine.sources.broker import Broker, open_broker
from lakesql.engine.sources.event_log import Event, EventEnds, EventLog, Places
from lakesql.engine.sources.kafka import read_between
from lakesql.errors import Place
from lakesql.source.kafka import Kafka


class EventTopic(EventLog):
    """A topic with events. The connection to its broker stays open from batch to
    batch."""

    most_places: ClassVar[int] = 20_000

    def __init__(
        self, session: SparkSession, source: Kafka, topic: str, place: Place
    ) -> None:
        self._session, self._source = session, source
        self._topic, self._place = topic, place
        self._held = ExitStack()
        self._broker: Broker | None = None

    @property
    def name(self) -> str:
        """The topic's name, for messages."""
        return f"topic {self._topic}"

    @property
    def id(self) -> str:
        """The topic's name. That it was created again is noticed by its offsets."""
        return self._topic

    def ends(self) -> EventEnds:
        """The first and the end offset of each partition. Raises `RunError`
        (`unknown-topic`), and what `open_broker` raises."""
        if self._broker is None:
            self._broker = self._held.enter_context(
                open_broker(self._session._jvm, self._source)
            )
        topics = self._broker.topics([self._topic], self._place).values()
        first, last = (
            self._broker.beginning_offsets(topics),
            self._broker.end_offsets(topics),
        )
        return EventEnds(first[self._topic], last[self._topic])

    def arrive(self) -> None:
        """Does nothing: all that was sent can be read already."""

    def events(self, start: Places, end: Places) -> Iterator[Event]:
        """The topic's records between two positions."""
        rows = read_between(
            self._session, self._source, {self._topic: start}, {self._topic: end}
        )
        for row in rows.select("key", "value", "partition", "offset").toLocalIterator():
            where = f"partition {row['partition']} offset {row['offset']}"
            yield Event(where, _bytes(row["key"]), _bytes(row["value"]))

    def close(self) -> None:
        """Close the connection to the broker."""
        self._held.close()


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
