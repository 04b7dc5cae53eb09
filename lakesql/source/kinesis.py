"""Amazon Kinesis as a source: a stream is read shard by shard; shards split and merge
while it runs, and each record has a sequence number.

A place says how far a shard was read: `after` is the sequence number of the last
record, `at` its arrival time, and `ended` is set once a closed shard has no more
records. `seen` is the time up to which it was seen to have no further records. `from`
is the time at which reading begins, if it does not begin with the oldest record. A
shard begins once its parents have ended, so the records of a partition key keep their
order. `without` names parents that are gone and that nobody has read: records were lost
there. Only reading a shard tells where it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from lakesql.clock import epoch_ms, now_ms
from lakesql.decode import option
from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.source.aws import REFUSED, explain_client, open_service
from lakesql.source.kinesis_aggregate import split_aggregate
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPage,
    LogPlace,
    LogPlaces,
    LogRecord,
    LogSource,
)
from lakesql.source.source import Start

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position

CALL_RECORDS = 10_000
"""The maximum number of records that GetRecords returns."""

EMPTY_PAGES = 20
"""How many empty answers of a closed shard are accepted before its reader stops: some
servers return several before they report the end."""

WAIT_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""How long a reader waits before each retry after Kinesis has throttled it."""

HOUR_MS = 3_600_000

TIP_MS = HOUR_MS
"""A place is updated without new records once its shard was seen to have nothing new
for this long. So it stays known whether records may have come and expired while nobody
read."""


@dataclass(frozen=True, slots=True)
class Kinesis(LogSource):
    """A Kinesis stream. Credentials are boto3's where none are given: variables,
    profiles, roles."""

    region: str = option("AWS region; as boto3 finds it if left out.", default="")
    endpoint: str = option("URL of the service, if it is not that of AWS.", default="")
    access_key_id: str = option(
        "Id of an access key; as boto3 finds it if left out.", default=""
    )
    secret_access_key: str = option("Secret of the access key.", default="")
    session_token: str = option("Session token of temporary credentials.", default="")
    profile: str = option("Profile in the configuration files of boto3.", default="")

    kind: ClassVar[str] = "kinesis"
    label: ClassVar[str] = "Kinesis"
    numbers_records: ClassVar[bool] = False
    has_offsets: ClassVar[bool] = False
    place_instead: ClassVar[str] = (
        "The header `sequence_number` has the place of a record in its shard."
    )
    modules: ClassVar[tuple[str, ...]] = ("boto3",)

    @property
    def lineage_namespace(self) -> str:
        """`kinesis://` with the endpoint's host, or with the region."""
        return f"kinesis://{urlsplit(self.endpoint).netloc.rpartition('@')[2] or self.region or 'default'}"

    def check(self) -> str:
        """The endpoint, or the region, in words."""
        return self.endpoint or f"Kinesis in region {self.region or 'of boto3'}"

    def open(self, topic: str, owner: str) -> Log:
        """The reader of the Kinesis stream named `topic`."""
        return KinesisStream(_client(self), topic)

    def client(self) -> Any:
        """A client of boto3."""
        return open_service(self, self.kind, self.label)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one record of each stream's first shard was read."""
        return {
            name: {"shardId-000000000000": {"after": "1", "at": 0}} for name in names
        }


@cache
def _client(source: Kinesis) -> Any:
    """The cached client of a connection: threads may share it, and creating one takes a
    tenth of a second."""
    return source.client()


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard: the ids of its parents, and whether it is closed, so that it takes no
    more records."""

    parents: tuple[str, ...]
    is_closed: bool


@dataclass(slots=True)
class KinesisStream(Log):
    """The reader of one Kinesis stream. `client` is boto3's, or one with its
    interface."""

    client: Any
    name: str
    _shards: Mapping[str, _Shard] = field(default_factory=dict)
    _summary: Mapping[str, Any] | None = None
    _described_ms: int = 0
    _tips: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> str:
        """The ARN of the stream with the time of its creation, which differs after it
        was created again."""
        summary = self._describe()
        created: datetime = summary["StreamCreationTimestamp"]
        return f"{summary['StreamARN']}@{int(created.timestamp())}"

    def starts(self, start: Start) -> LogPlaces:
        """The places of the shards without living parents, from `start` on. Their
        children are added as the parents end."""
        self._list_shards()
        roots = [
            name
            for name, shard in sorted(self._shards.items())
            if not self._there(shard.parents)
        ]
        if start == "earliest":
            return dict.fromkeys(roots)
        at_ms = now_ms() if start == "latest" else epoch_ms(start)
        if now_ms() - at_ms > self._kept_ms() - HOUR_MS:
            return dict.fromkeys(roots)  # about all that the stream keeps
        return {name: {"from": at_ms} for name in roots}

    def partitions(self, places: LogPlaces) -> LogPlaces:
        """The places of the shards that are being read, and of the children of those
        that have ended. An ended shard that is gone is left out once its children are
        known."""
        self._list_shards()
        new = {
            name: shard
            for name, shard in sorted(self._shards.items())
            if name not in places
        }
        awaited = {parent for shard in new.values() for parent in shard.parents}
        found = {
            name: place
            for name, place in places.items()
            if name in self._shards or name in awaited or not _has_ended(place)
        }
        for name, shard in new.items():
            if all(
                _has_ended(places.get(parent)) for parent in self._there(shard.parents)
            ):
                found[name] = _child_place(shard.parents, places)
        return found

    def ends(self, places: LogPlaces) -> LogPlaces:
        """The current time as the end of each shard: records that have arrived before
        it are read."""
        self._list_shards()
        return {name: {"before": now_ms() + 1} for name in self._shards}

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """The records of a shard after `place` and up to `until`, at most `limit`, page
        by page. Raises `LogExpiredError` if records are gone."""
        bound = _ShardBound.of(until)
        may_read = limit > 0 and not _has_ended(place)
        if not may_read or bound.is_reached(place):
            return
        first = place or bound.beginning
        self.check(partition, first)
        if first.get("from", 0) > now_ms():
            return
        left, reached = limit, first
        for answer, is_end, behind_ms in self._answers(partition, first, limit):
            found = bound.take(answer)
            left -= len(found)
            is_cut = len(found) < len(answer)
            ends_here = is_end and bound.after is None
            reached = _reached_by(found, first, reached, ends_here)
            if found or is_end:
                behind = None if is_cut else behind_ms
                yield LogPage(
                    _records(partition, found),
                    self._with_tip(partition, reached),
                    behind,
                )
            if is_cut or bound.is_reached(reached):
                return
        if bound.after is not None and left > 0:
            raise LogExpiredError(
                f"records up to {bound.after} are gone; it ends behind {_said(reached)}."
            )
        if not bound.is_place and self._is_old(partition, reached):
            yield LogPage([], self._with_tip(partition, reached))

    def _answers(
        self, partition: str, place: LogPlace, limit: int
    ) -> Iterator[tuple[Sequence[Mapping[str, Any]], bool, int]]:
        """The records after a place, one answer of Kinesis at a time: the records,
        whether the shard ends with them, and by how many milliseconds they lag behind
        the newest record.

        Ends after `limit` records, or when the shard has no more records now.
        """
        iterator, empty = self._iterator(partition, place), 0
        while iterator is not None and limit > 0:
            answer = self._call(
                "get_records", ShardIterator=iterator, Limit=min(CALL_RECORDS, limit)
            )
            records, iterator = answer["Records"], answer.get("NextShardIterator")
            limit -= len(records)
            behind_ms = int(answer.get("MillisBehindLatest", 0))
            is_at_tip = not records and behind_ms == 0
            # not of an ended shard: its children may have had records before
            if is_at_tip and iterator is not None:
                self._tips[partition] = now_ms()
            yield records, iterator is None, behind_ms
            empty = 0 if records else empty + 1
            may_end = self._shards[partition].is_closed and empty <= EMPTY_PAGES
            if is_at_tip and not may_end:
                return

    def is_at_end(self, places: LogPlaces) -> bool:
        """Whether reading on would give nothing: no shard has another record, has
        ended, or needs its place updated."""
        found = self.partitions(places)  # of the children of those that have ended, too
        try:
            return not any(
                page
                for name, place in found.items()
                for page in self.read(name, place, None, 1)
            )
        except LogExpiredError:
            return False

    def check(self, partition: str, place: LogPlace) -> None:
        """Raise `LogExpiredError` unless the stream still keeps what follows a
        place."""
        if _has_ended(place):
            return
        if place and "without" in place:
            raise LogExpiredError(
                f"all is gone that was in {place['without']}, of which the shard came."
            )
        if partition not in self._shards and partition not in self._list_shards():
            what = f"the shard itself is gone, which was read up to {_said(place)}."
            raise LogExpiredError(what, follows={"ended": True})
        self._check_kept(partition, place)

    def gone(self) -> Sequence[str]:
        """A description of the records that have exceeded the stream's retention; empty
        if the stream is younger than its retention."""
        if (
            now_ms() - epoch_ms(self._describe()["StreamCreationTimestamp"])
            <= self._kept_ms()
        ):
            return []
        return [
            f"{self.name}: what came more than {self._kept_ms() // HOUR_MS} hours ago"
        ]

    def _iterator(self, shard: str, place: LogPlace) -> str | None:
        how: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if isinstance(place, dict) and "after" in place:
            how = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": place["after"],
            }
        elif isinstance(place, dict) and "from" in place:
            at = datetime.fromtimestamp(place["from"] / 1000, UTC)
            how = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": at}
        found = self._call(
            "get_shard_iterator", StreamName=self.name, ShardId=shard, **how
        )
        return str(found["ShardIterator"])

    def _with_tip(self, shard: str, place: dict[str, Any]) -> dict[str, Any]:
        """The place with `seen`, the time up to which nothing follows it, if that is
        known."""
        return (
            {**place, "seen": tip}
            if (tip := self._tips.get(shard)) is not None
            else place
        )

    def _is_old(self, shard: str, place: Mapping[str, Any]) -> bool:
        """Whether the shard was seen to have nothing new so much later than the place
        records that the place must be updated."""
        return self._tips.get(shard, 0) - _seen_ms(place) > TIP_MS

    def _check_kept(self, shard: str, place: LogPlace) -> None:
        """Raise `LogExpiredError` if records after a place may have expired: Kinesis
        would silently continue at the oldest record that it has."""
        known_ms = max(_seen_ms(place or {}), self._tips.get(shard, 0))
        if not known_ms:
            return
        kept_ms = self._kept_ms()
        if now_ms() - known_ms <= kept_ms:
            return
        read = datetime.fromtimestamp(known_ms / 1000, UTC).isoformat(
            timespec="seconds"
        )
        hours = kept_ms // HOUR_MS
        raise LogExpiredError(
            f"what came after {read} may be gone: the stream keeps records for {hours} hours."
        )

    def _kept_ms(self) -> int:
        """The stream's retention in milliseconds."""
        return int(self._describe()["RetentionPeriodHours"]) * HOUR_MS

    def _there(self, shards: Sequence[str]) -> list[str]:
        return [name for name in shards if name in self._shards]

    def _list_shards(self) -> Mapping[str, _Shard]:
        """All shards of the stream: the open ones, and the closed ones whose records
        are still kept."""
        found: dict[str, _Shard] = {}
        asked: dict[str, Any] = {"StreamName": self.name}
        while asked:
            answer = self._call("list_shards", **asked)
            for each in answer["Shards"]:
                parents = (each.get("ParentShardId"), each.get("AdjacentParentShardId"))
                is_closed = "EndingSequenceNumber" in each["SequenceNumberRange"]
                found[each["ShardId"]] = _Shard(tuple(filter(None, parents)), is_closed)
            token = answer.get("NextToken")
            asked = {"NextToken": token} if token else {}
        self._shards = found
        return found

    def _describe(self) -> Mapping[str, Any]:
        """The stream's summary, asked for again every hour, as its retention may
        change."""
        with self._lock:
            if self._summary is None or now_ms() - self._described_ms > HOUR_MS:
                answer = self._call("describe_stream_summary", StreamName=self.name)
                self._summary, self._described_ms = (
                    answer["StreamDescriptionSummary"],
                    now_ms(),
                )
            return self._summary

    def _call(self, operation: str, **words: Any) -> Any:
        """The answer of Kinesis to an operation; retried with waits if it throttles.
        Raises the project's errors instead of boto3's."""
        from botocore.exceptions import BotoCoreError, ClientError

        for wait_s in (*WAIT_S, None):
            try:
                return getattr(self.client, operation)(**words)
            except ClientError as error:
                if (
                    wait_s is None
                    or error.response["Error"].get("Code") not in _TOO_OFTEN
                ):
                    raise self._explain(error) from None
                time.sleep(wait_s)
            except BotoCoreError as error:
                raise explain_client(error, "Kinesis") from None
        raise AssertionError("the last try returns or raises")

    def _explain(self, error: Any) -> LakesqlError:
        code, said = (
            error.response["Error"].get("Code", ""),
            error.response["Error"].get("Message", str(error)),
        )
        if code == "ResourceNotFoundException":
            what = f"There is no Kinesis stream '{self.name}': {said}"
            return ProfileError.of(
                "unknown-topic", what, fix="Correct the stream's `topic`, or create it."
            )
        if code in REFUSED:
            return ProfileError.of(
                "wrong-credentials", f"Kinesis does not take the credentials: {said}"
            )
        if code in _FORBIDDEN:
            return ProfileError.of(
                "topic-forbidden", f"Stream '{self.name}' may not be read: {said}"
            )
        if code == "ValidationException":
            return ProfileError.of(
                "client-option",
                f"Kinesis does not take what it is asked of '{self.name}': {said}",
            )
        return TransientError.of(
            "connection-unreachable",
            f"Kinesis does not answer as it should: {code}: {said}",
        )


_TOO_OFTEN = frozenset(
    {
        *(
            "ProvisionedThroughputExceededException",
            "LimitExceededException",
            "ThrottlingException",
        ),
        "KMSThrottlingException",
    }
)

_FORBIDDEN = frozenset(
    {
        *(
            "AccessDeniedException",
            "KMSAccessDeniedException",
            "KMSDisabledException",
            "KMSInvalidStateException",
        ),
        *("KMSNotFoundException", "KMSOptInRequired"),
    }
)


@dataclass(frozen=True, slots=True)
class _ShardBound:
    """The end up to which a shard is read: the record `after`, the time `before`, or
    the end of the shard. `is_place`: it is the place that an earlier reader has
    reached, which began at the time `first_ms` if that is set."""

    after: str | None = None
    before: int | None = None
    is_place: bool = False
    first_ms: int | None = None

    @classmethod
    def of(cls, until: LogPlace) -> _ShardBound:
        """The bound for the `until` of `Log.read`."""
        if until is None:
            return cls()
        if "before" in until:
            return cls(before=until["before"])
        return cls(after=until.get("after"), is_place=True, first_ms=until.get("from"))

    @property
    def beginning(self) -> dict[str, Any]:
        """The place at which an unread shard begins."""
        return {} if self.first_ms is None else {"from": self.first_ms}

    def is_reached(self, place: LogPlace) -> bool:
        """Whether nothing is left to read between a place and the bound."""
        at = place or {}
        if self.is_place:
            return self.after is None or self.after == at.get("after")
        return (
            self.before is not None
            and "after" in at
            and int(at.get("at", 0)) >= self.before
        )

    def take(self, found: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """The records that are not past the bound."""
        if self.after is None:
            return found
        return [
            each for each in found if int(each["SequenceNumber"]) <= int(self.after)
        ]


def _reached_by(
    found: Sequence[Mapping[str, Any]],
    first: dict[str, Any],
    before: dict[str, Any],
    is_end: bool,
) -> dict[str, Any]:
    """The place after the records `found` of a shard that is read from the place
    `first` on; `before` if there are none. With `is_end` the shard has ended."""
    reached = _behind(found[-1], first) if found else before
    return {**reached, "ended": True} if is_end else reached


def _behind(record: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """The place after a record. It keeps the time `from` at which reading the shard
    began, as a batch that is read again may have to begin there."""
    reached = {"after": record["SequenceNumber"], "at": _arrived_ms(record)}
    return {**reached, "from": place["from"]} if "from" in place else reached


def _child_place(parents: Sequence[str], places: LogPlaces) -> LogPlace:
    """The place at which a shard begins whose parents have ended or are gone: its first
    record, or the time `from` at which reading was to begin if no parent had a record
    since then. `seen` is taken from the parents: nothing was in the shard before that
    time."""
    unread = [parent for parent in parents if parent not in places]
    if unread:
        return {"without": " and ".join(unread)}
    found: dict[str, Any] = {}
    for place in (places[parent] or {} for parent in parents):
        if "from" in place and "after" not in place:
            found["from"] = place["from"]
        if seen_ms := max(_seen_ms(place), found.get("seen", 0)):
            found["seen"] = seen_ms
    return found or None


def _has_ended(place: LogPlace) -> bool:
    return isinstance(place, dict) and bool(place.get("ended"))


def _arrived_ms(found: Mapping[str, Any]) -> int:
    return epoch_ms(found["ApproximateArrivalTimestamp"])


def _records(shard: str, found: Sequence[Mapping[str, Any]]) -> list[LogRecord]:
    """The records of a shard, those that the Kinesis Producer Library has aggregated
    separately."""
    number, shard_id = int(shard.rpartition("-")[2]), ("shard_id", shard.encode())
    records = []
    for each in found:
        at_us = round(each["ApproximateArrivalTimestamp"].timestamp() * 1_000_000)
        headers = [("sequence_number", each["SequenceNumber"].encode()), shard_id]
        aggregated = split_aggregate(each["Data"])
        if aggregated is None:
            records.append(
                LogRecord(
                    each["Data"],
                    at_us,
                    each["PartitionKey"].encode(),
                    number,
                    headers=headers,
                )
            )
            continue
        for index, (key, data) in enumerate(aggregated):
            place = ("sub_sequence_number", str(index).encode())
            records.append(
                LogRecord(data, at_us, key.encode(), number, headers=[*headers, place])
            )
    return records


def _seen_ms(place: Mapping[str, Any]) -> int:
    """The time up to which a place includes all records of its shard; 0 if it has no
    time."""
    return max(int(place.get(name, 0)) for name in ("at", "seen", "from"))


def _said(place: LogPlace) -> str:
    return (
        f"sequence number {place['after']}"
        if isinstance(place, dict) and "after" in place
        else "its beginning"
    )
