"""What a batch of a log has at most, over many partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakesql.engine.sources import log_reader as reader
from lakesql.engine.sources.log_reader import READERS
from lakesql.errors import Place
from lakesql.source.kinesis import Kinesis
from lakesql.source.log import Log, LogPage, LogPlace, LogPlaces, LogRecord, LogSource
from lakesql.source.mqtt import Mqtt
from lakesql.source.origin import TopicPattern, Topics
from lakesql.source.project import ProjectSource
from lakesql.source.pulsar import Pulsar
from lakesql.source.source import Start
from tests.unit.log_query import LogQuery


class Numbers(Log):
    """Partitions that have so many records each, whose values are the place in base
    ten."""

    def __init__(self, partitions: int, count: int, size: int) -> None:
        self.partitions_count, self.count, self.size = partitions, count, size

    def starts(self, start: Start) -> LogPlaces:
        return {str(number): 0 for number in range(self.partitions_count)}

    def ends(self, places: LogPlaces) -> LogPlaces:
        return dict.fromkeys(places, self.count)

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        end = min(self.count if until is None else until, place + limit)
        for number in range(place, end):
            value = str(int(partition) * self.count + number).encode().zfill(self.size)
            yield LogPage(
                [LogRecord(value, 0, None, int(partition), number)], number + 1
            )


@dataclass(frozen=True, slots=True)
class NumberSource(LogSource):
    """The connection to them."""

    partitions: int = 0
    count: int = 0
    size: int = 0

    def open(self, topic: str, owner: str) -> Log:
        return Numbers(self.partitions, self.count, self.size)


def sizes(query: LogQuery) -> Iterator[Mapping[str, Any]]:
    """The records and the bytes of each batch that follows."""
    while query.plan():
        assert query.planned is not None
        values = query.planned[1]
        yield {"records": len(values), "bytes": sum(map(len, values))}
        query.write(is_read_again=True)


def test_a_batch_of_many_partitions_has_no_more_than_its_limit() -> None:
    query = LogQuery(NumberSource(partitions=200, count=3), limit=50)
    found = [each["records"] for each in sizes(query)]
    assert max(found) <= 50 + READERS
    assert sorted(query.rows) == [*range(600)]


def test_a_batch_of_many_partitions_is_no_larger_than_it_may_be(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(reader, "BATCH_BYTES", 8_000)
    query = LogQuery(NumberSource(partitions=200, count=3, size=400), limit=100_000)
    found = [each["bytes"] for each in sizes(query)]
    assert max(found) <= 8_000 + READERS * 400
    assert sorted(query.rows) == [*range(600)]


def test_topics_of_a_log_are_named_and_not_found_by_a_pattern() -> None:
    """It has no list of them: a pattern would mean none, and a run succeed."""
    place = Place("streams/s.yml", 3)
    for source in (
        NumberSource(),
        Pulsar("pulsar://h"),
        Kinesis(),
        Mqtt("mqtt://h"),
        ProjectSource("sources/x.py"),
    ):
        (problem,) = source.problems(TopicPattern("orders.*"), place)
        assert (problem.condition, problem.place) == ("stream-origin", place)
        assert [*source.problems(Topics(("orders",)), place)] == []
