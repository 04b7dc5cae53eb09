"""Kinesis as a log: random shards that split, merge, limit and expire, read by runners
that are killed at any place.

What was sent is known, so each record must come once, those of a key in their order,
and a batch that is read again must have the same records. Where something has expired
unread, that must be said; and only there.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.source import kinesis
from lakesql.source.kinesis import Kinesis, KinesisStream
from lakesql.source.log import Log
from tests.cases import each_of
from tests.unit.log_query import LogQuery

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
KEYS = 16
BEGAN_MS = 1_700_000_000_000


@dataclass(slots=True)
class Sent:
    """A record of a shard."""

    sequence: int
    at_ms: int
    key: int
    id: int


@dataclass(slots=True)
class Shard:
    """A shard, which has the keys from `low` up to and without `high`."""

    id: str
    parents: tuple[str, ...]
    low: int
    high: int
    opened: int
    closed_ms: int | None = None
    records: list[Sent] = field(default_factory=list)


class MemoryKinesis:
    """A stream in memory, which answers as boto3's client does. `random` decides how
    well it answers."""

    def __init__(self, seed: int, shards: int = 2) -> None:
        self.random = random.Random(seed)
        self.now_ms = BEGAN_MS
        self.sequence = 10**55
        self.ids = itertools.count()
        self.sent: list[Sent] = []
        self.is_capricious = True
        self.hours = 24
        self.refused = 0
        self.shards: dict[str, Shard] = {}
        for number in range(shards):
            self._open((), number * KEYS // shards, (number + 1) * KEYS // shards)

    def _open(self, parents: tuple[str, ...], low: int, high: int) -> None:
        shard = Shard(
            f"shardId-{len(self.shards):012}", parents, low, high, self.sequence
        )
        self.shards[shard.id] = shard

    def open_shards(self) -> list[Shard]:
        found = [shard for shard in self.shards.values() if shard.closed_ms is None]
        return sorted(found, key=lambda shard: shard.low)

    def put(self, count: int) -> None:
        for _ in range(count):
            self.now_ms += self.random.choice((0, 1, 40))
            self.sequence += self.random.randint(1, 1000)
            key = self.random.randrange(KEYS)
            (shard,) = (
                shard for shard in self.open_shards() if shard.low <= key < shard.high
            )
            record = Sent(self.sequence, self.now_ms, key, next(self.ids))
            shard.records.append(record)
            self.sent.append(record)

    def split(self) -> None:
        wide = [shard for shard in self.open_shards() if shard.high - shard.low > 1]
        if not wide:
            return
        shard = self.random.choice(wide)
        middle = self.random.randrange(shard.low + 1, shard.high)
        self._close(shard)
        self._open((shard.id,), shard.low, middle)
        self._open((shard.id,), middle, shard.high)

    def merge(self) -> None:
        pairs = list(itertools.pairwise(self.open_shards()))
        if not pairs:
            return
        left, right = self.random.choice(pairs)
        self._close(left)
        self._close(right)
        self._open((left.id, right.id), left.low, right.high)

    def _close(self, shard: Shard) -> None:
        self.now_ms += 1
        self.sequence += 1
        shard.closed_ms = self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def _is_kept(self, at_ms: int) -> bool:
        return self.now_ms - at_ms <= RETENTION_MS

    def _listed(self) -> list[Shard]:
        return [
            shard
            for shard in self.shards.values()
            if shard.closed_ms is None or self._is_kept(shard.closed_ms)
        ]

    def _may_refuse(self, operation: str) -> None:
        if self.is_capricious and self.refused < 4 and self.random.random() < 0.1:
            self.refused += 1
            raise ClientError(
                {"Error": {"Code": "ProvisionedThroughputExceededException"}}, operation
            )
        self.refused = 0

    # --- as boto3 has it

    def describe_stream_summary(self, **_: Any) -> Mapping[str, Any]:
        found = {
            "StreamARN": "arn:s",
            "StreamCreationTimestamp": _time(BEGAN_MS),
            "RetentionPeriodHours": self.hours,
        }
        return {"StreamDescriptionSummary": found}

    def list_shards(self, **words: Any) -> Mapping[str, Any]:
        self._may_refuse("ListShards")
        begin = int(words.get("NextToken", 0))
        listed = self._listed()
        answer: dict[str, Any] = {"Shards": []}
        for shard in listed[begin : begin + 5]:
            numbers = {"StartingSequenceNumber": str(shard.opened)}
            if shard.closed_ms is not None:
                numbers["EndingSequenceNumber"] = "1"
            names = dict(
                zip(
                    ("ParentShardId", "AdjacentParentShardId"),
                    shard.parents,
                    strict=False,
                )
            )
            answer["Shards"].append(
                {"ShardId": shard.id, "SequenceNumberRange": numbers, **names}
            )
        if begin + 5 < len(listed):
            answer["NextToken"] = str(begin + 5)
        return answer

    def get_shard_iterator(self, **words: Any) -> Mapping[str, Any]:
        self._may_refuse("GetShardIterator")
        if words["ShardId"] not in {shard.id for shard in self._listed()}:
            raise ClientError(
                {"Error": {"Code": "ResourceNotFoundException"}}, "GetShardIterator"
            )
        records = self.shards[words["ShardId"]].records
        begin = 0
        if words["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER":
            after = int(words["StartingSequenceNumber"])
            begin = sum(record.sequence <= after for record in records)
        if words["ShardIteratorType"] == "AT_TIMESTAMP":
            at_ms = round(words["Timestamp"].timestamp() * 1000)
            if at_ms > self.now_ms:
                raise ClientError(
                    {"Error": {"Code": "InvalidArgumentException"}}, "GetShardIterator"
                )
            begin = sum(record.at_ms < at_ms for record in records)
        return {"ShardIterator": f"{words['ShardId']} {begin} 0"}

    def get_records(self, **words: Any) -> Mapping[str, Any]:
        self._may_refuse("GetRecords")
        name, begin, empty = words["ShardIterator"].split()
        shard, at = self.shards[name], int(begin)
        while at < len(shard.records) and not self._is_kept(shard.records[at].at_ms):
            at += 1
        count = words["Limit"]
        if self.is_capricious:
            count = min(count, self.random.choice((0, 1, 3, 10_000)))
        records = shard.records[at : at + count]
        at += len(records)
        behind = (
            self.now_ms - shard.records[at].at_ms + 1 if at < len(shard.records) else 0
        )
        following: str | None = f"{name} {at} {0 if records else int(empty) + 1}"
        is_at_end = shard.closed_ms is not None and at == len(shard.records)
        if is_at_end and not (
            self.is_capricious and int(empty) < 3 and self.random.random() < 0.5
        ):
            following = None
        return {
            "Records": [
                {
                    "SequenceNumber": str(record.sequence),
                    "ApproximateArrivalTimestamp": _time(record.at_ms),
                    "Data": str(record.id).encode(),
                    "PartitionKey": str(record.key),
                }
                for record in records
            ],
            **({"NextShardIterator": following} if following else {}),
            "MillisBehindLatest": behind,
        }


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class MemorySource(Kinesis):
    """The connection to it."""

    def open(self, topic: str, owner: str) -> Log:
        return KinesisStream(SERVERS[self.region], topic)


SERVERS: dict[str, MemoryKinesis] = {}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, MemoryKinesis]]:
    """The streams by name; their clock is that of the code."""

    def now_ms() -> int:
        (server,) = SERVERS.values()
        return server.now_ms

    def sleep(seconds: float) -> None:
        (server,) = SERVERS.values()
        server.sleep(seconds)

    monkeypatch.setattr(kinesis, "now_ms", now_ms)
    monkeypatch.setattr(kinesis.time, "sleep", sleep)
    yield SERVERS
    SERVERS.clear()


class Query(LogQuery):
    """A query over such a stream."""

    def __init__(
        self, server: MemoryKinesis, start: Any = "earliest", limit: int = 7
    ) -> None:
        SERVERS["s"] = server
        super().__init__(MemorySource(region="s"), start, limit)


def check_rows(query: Query, sent: Sequence[Sent]) -> None:
    """Each record is there once, and those of a key in their order."""
    assert sorted(query.rows) == [record.id for record in sent]
    keys = {record.id: record.key for record in sent}
    for key in range(KEYS):
        of_key = [number for number in query.rows if keys[number] == key]
        assert of_key == sorted(of_key)


def test_each_record_is_there_once_and_in_order(
    servers: dict[str, MemoryKinesis], log_seed: int
) -> None:
    choice = random.Random(log_seed)
    server = MemoryKinesis(log_seed, choice.choice((1, 2, 4)))
    starts = choice.choice(("earliest", "latest", "time"))
    if starts != "earliest":
        for _ in range(choice.randrange(8)):
            choice.choice((lambda: server.put(5), server.split, server.merge))()
    start: Any = starts
    server.now_ms += 1000
    if starts == "time":
        start_ms = choice.randrange(BEGAN_MS, server.now_ms)
        start = _time(start_ms)
    if starts == "latest":
        start_ms = server.now_ms
    query = Query(server, start, choice.choice((1, 3, 20, 500)))
    if starts == "earliest":
        start_ms = 0
    else:
        assert query.plan()  # it notes where it begins
        query.write(is_read_again=False)
    for _ in range(choice.randrange(60)):
        match choice.randrange(9):
            case 0 | 1:
                server.put(choice.randrange(30))
            case 2:
                server.split()
            case 3:
                server.merge()
            case 4:
                query.restart()
            case 5:
                server.now_ms += choice.choice((1000, HOUR_MS // 2))
            case 6:
                there = {
                    record.id for record in server.sent if record.at_ms >= start_ms
                }
                query.run_once(
                    (lambda: server.put(3)) if choice.random() < 0.3 else None
                )
                assert there <= {*query.rows}, "a run reads all that was there"
            case _:
                if query.plan():
                    query.write(is_read_again=choice.random() < 0.5)
    query.take_all()
    check_rows(query, [record for record in server.sent if record.at_ms >= start_ms])
    assert not query.plan(), "nothing is left"


def test_what_expires_unread_is_said_and_nothing_else(
    servers: dict[str, MemoryKinesis], log_seed: int
) -> None:
    """With a loss accepted it goes on. A runner that comes within the retention hears
    of no loss."""
    choice = random.Random(log_seed)
    server = MemoryKinesis(log_seed, choice.choice((1, 2, 4)))
    query = Query(
        server, choice.choice(("earliest", "latest")), choice.choice((5, 500))
    )
    query.run_once()
    given_up: set[int] = set()
    ran_ms = server.now_ms
    for _ in range(12):
        for _ in range(choice.randrange(4)):
            choice.choice(
                (lambda: server.put(5), server.split, server.merge, lambda: None)
            )()
            server.now_ms += (
                choice.choice((0, HOUR_MS, 8 * HOUR_MS)) if choice.random() < 0.5 else 0
            )
        away_ms = choice.choice((HOUR_MS, 20 * HOUR_MS, 60 * HOUR_MS))
        server.now_ms += away_ms
        query.restart()
        expired = query.expired()
        lost = (
            {record.id for record in server.sent if not server._is_kept(record.at_ms)}
            - {*query.rows}
            - given_up
        )
        if lost:
            assert expired
        if server.now_ms - ran_ms < RETENTION_MS - 2 * HOUR_MS:
            assert not expired
        for (topic, shard), found in expired.items():
            query.position[topic][shard] = found.follows
        assert not query.expired(), "an accepted loss is said no more"
        given_up |= lost
        query.run_once()
        ran_ms = server.now_ms
        check_rows(
            query, [record for record in server.sent if record.id not in given_up]
        )


def test_a_position_says_whether_something_is_new(
    servers: dict[str, MemoryKinesis], log_seed: int
) -> None:
    choice = random.Random(log_seed)
    server = MemoryKinesis(log_seed, choice.choice((1, 2, 4)))
    query = Query(server, limit=choice.choice((3, 500)))
    for _ in range(30):
        choice.choice(
            (lambda: server.put(3), server.split, server.merge, lambda: None)
        )()
        server.now_ms += choice.choice((0, 40, 100_000))
        places = (query.position or {}).get("t")
        is_at_end = places is not None and MemorySource(region="s").open(
            "t", ""
        ).is_at_end(places)
        assert not is_at_end or sorted(query.rows) == [
            record.id for record in server.sent
        ]
        if choice.random() < 0.3:
            query.take_all()
            places = query.position["t"]
            assert MemorySource(region="s").open("t", "").is_at_end(places), (
                "all was read"
            )
            assert query.batches.report(query.position) in ({"behindMs": 0}, {})
    query.take_all()
    server.now_ms += kinesis.TIP_MS + 100_000
    assert not MemorySource(region="s").open("t", "").is_at_end(query.position["t"]), (
        "it is to be noted"
    )


def test_a_batch_says_how_far_it_is_behind(servers: dict[str, MemoryKinesis]) -> None:
    server = MemoryKinesis(1, 1)
    server.is_capricious = False
    query = Query(server, limit=4)
    for _ in range(3):
        server.put(4)
        server.now_ms += 60_000
    behind = []
    assert query.plan(), "where it begins"
    query.write(is_read_again=False)
    while query.plan():
        query.write(is_read_again=False)
        behind.append(query.batches.report(query.position)["behindMs"] // 60_000)
    assert behind == [2, 1, 0]


def test_a_quiet_stream_that_is_read_each_hour_has_lost_nothing(
    servers: dict[str, MemoryKinesis],
) -> None:
    server = MemoryKinesis(1)
    query = Query(server)
    server.put(5)
    for hour in range(80):
        assert not query.expired(), f"after {hour} hours"
        query.run_once()
        server.now_ms += HOUR_MS
        if hour == 30:
            server.split()
        if hour == 60:
            server.merge()
    server.put(5)
    query.run_once()
    check_rows(query, server.sent)


def test_a_stream_that_begins_at_its_end_and_is_left_alone_says_what_it_may_have_lost(
    servers: dict[str, MemoryKinesis],
) -> None:
    server = MemoryKinesis(1)
    query = Query(server, "latest")
    query.run_once()
    server.put(5)
    server.now_ms += 30 * HOUR_MS
    assert query.expired()


def test_a_start_that_is_to_come_is_waited_for(
    servers: dict[str, MemoryKinesis],
) -> None:
    """Kinesis refuses to be asked for a time that is to come."""
    server = MemoryKinesis(1)
    query = Query(server, _time(server.now_ms + HOUR_MS))
    server.put(5)
    query.run_once()
    assert query.rows == []
    server.now_ms += 2 * HOUR_MS
    server.put(5)
    query.run_once()
    check_rows(query, server.sent[5:])


def test_a_retention_that_has_changed_is_seen(
    servers: dict[str, MemoryKinesis],
) -> None:
    server = MemoryKinesis(1)
    query = Query(server)
    server.put(5)
    query.take_all()
    log = query.reader.log("t")
    server.hours = 48
    server.now_ms += 30 * HOUR_MS
    (shard, *_) = query.position["t"]
    log.check(shard, {"after": "1", "at": BEGAN_MS})


def test_what_came_before_the_start_is_not_read_again_behind_a_split(
    servers: dict[str, MemoryKinesis],
) -> None:
    """A batch that was planned as a split was found has the same records once more."""
    server = MemoryKinesis(1, shards=1)
    server.is_capricious = False
    server.put(3)
    server.split()
    server.put(20)
    server.now_ms += 1000
    start = server.now_ms
    query = Query(server, _time(start), 500)
    assert query.plan()
    query.write(is_read_again=False)
    server.put(20)
    assert query.plan()
    query.write(is_read_again=True)
    query.take_all()
    check_rows(query, server.sent[23:])


def test_a_topic_that_joins_a_stream_begins_once(
    servers: dict[str, MemoryKinesis],
) -> None:
    server = MemoryKinesis(1)
    query = Query(server, "latest")
    query.run_once()
    server.put(5)
    query.run_once()
    query.position = {"before": query.position["t"]}
    query.run_once()
    assert query.position.keys() == {"t"}
    assert len(query.rows) == 5


@each_of(
    ("error", "kind", "condition"),
    [
        (ParamValidationError(report="Invalid length"), ProfileError, "client-option"),
        (
            ClientError({"Error": {"Code": "ValidationException"}}, "x"),
            ProfileError,
            "client-option",
        ),
        (
            ClientError({"Error": {"Code": "InternalFailure"}}, "x"),
            TransientError,
            "connection-unreachable",
        ),
        (
            ClientError({"Error": {"Code": "KMSDisabledException"}}, "x"),
            ProfileError,
            "topic-forbidden",
        ),
    ],
)
def test_what_the_client_says_is_an_error_of_who_can_mend_it(
    error: Exception, kind: type[LakesqlError], condition: str
) -> None:
    class Refusing:
        def list_shards(self, **_: Any) -> Any:
            raise error

    with pytest.raises(kind) as raised:
        KinesisStream(Refusing(), "t").starts("earliest")
    assert [problem.condition for problem in raised.value.problems] == [condition]
