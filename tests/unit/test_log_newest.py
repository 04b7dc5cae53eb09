"""The newest records of logs: of random Kinesis streams, and of partitions whose
records have numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakesql.source import log_newest
from lakesql.source.log_newest import newest_of_topics, newest_records
from lakesql.source.origin import Topics
from tests.unit.test_kinesis_log import (
    RETENTION_MS,
    MemoryKinesis,
    MemorySource,
    servers,
)
from tests.unit.test_log_reader import NumberSource

__all__ = ["servers"]


def test_no_newer_record_is_left_out(
    servers: dict[str, MemoryKinesis], log_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(log_seed)
    server = servers["s"] = MemoryKinesis(log_seed, choice.choice((1, 2, 4)))
    monkeypatch.setattr(log_newest, "now_ms", lambda: server.now_ms)
    for _ in range(choice.randrange(20)):
        choice.choice(
            (lambda: server.put(5), lambda: server.put(1), server.split, server.merge)
        )()
        server.now_ms += choice.choice((0, 500, 30_000, 5_000_000))
    rows = choice.choice((1, 3, 20, 500))
    log = MemorySource(region="s").open("t", "")

    found = newest_records(log, rows, numbers_records=False)

    ids = [int(record.value or b"") for record in found]
    assert len({*ids}) == len(ids)
    times = [record.timestamp_us for record in found]
    assert times == sorted(times)
    kept = {
        record.id: record.at_ms
        for record in server.sent
        if server.now_ms - record.at_ms <= RETENTION_MS
    }
    assert {*ids} <= kept.keys()
    assert len(ids) == min(rows, len(kept))
    left = [at_ms for id_, at_ms in kept.items() if id_ not in ids]
    assert not left or max(left) * 1000 <= times[0]


def test_records_with_numbers_are_read_from_near_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = NumberSource(partitions=3, count=1_000)
    read = list[Any]()
    log = source.open("t", "")
    original = type(log).read

    def noting(self: Any, partition: str, place: Any, until: Any, limit: int) -> Any:
        read.append(place)
        return original(self, partition, place, until, limit)

    monkeypatch.setattr(type(log), "read", noting)
    found = newest_of_topics(source, Topics(("a", "b")), 50)
    assert {topic: len(records) for topic, records in found.items()} == {
        "a": 25,
        "b": 25,
    }
    assert min(read) >= 950 and all(
        record.offset is not None and record.offset >= 950 for record in found["a"]
    )
