"""Amazon Kinesis: a stream is shards, which split and merge while it runs, and a record
has a sequence number.

A place is where a shard was read up to: `after`, the sequence number of the last
record, which came `at` a time, and `ended`, once a closed shard has no more. Up to a
time it was `seen` to have no others. It may begin `from` a time. A shard begins when
those that it came of have ended, so the records of a partition key keep their order.
One `without` parents, as these are gone and nobody has read them, begins behind records
that are gone. Nothing tells where a shard ends but reading it.
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
"""How many records GetRecords gives at most."""

EMPTY_PAGES = 20
"""A closed shard is read on for so many empty answers: some servers give these before
they say that it has ended."""

WAIT_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""How long a reader waits where Kinesis answers that it was asked too often, one after
the other."""

HOUR_MS = 3_600_000

TIP_MS = HOUR_MS
"""So much later than its last record a shard was seen to have nothing new, before its
place says so. By that time it is known whether something may have come, and have been
removed, while nobody read."""


@dataclass(frozen=True, slots=True)
class Kinesis(LogSource):
    """A Kinesis stream. Credentials are boto3's where none are given: variables,
    profiles, roles."""

    region: str = option("The AWS region; boto3's own if left out.", default="")
    endpoint: str = option("The URL of another service than AWS's.", default="")
    access_key_id: str = option(
        "The id of an access key; boto3's own if left out.", default=""
    )
    secret_access_key: str = option("The secret of that key.", default="")
    session_token: str = option("The token of temporary credentials.", default="")
    profile: str = option("A profile of the files that boto3 reads.", default="")

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
        """Its endpoint, or its region."""
        return f"kinesis://{urlsplit(self.endpoint).netloc.rpartition('@')[2] or self.region or 'default'}"

    def check(self) -> str:
        """Where it is."""
        return self.endpoint or f"Kinesis in region {self.region or 'of boto3'}"

    def open(self, topic: str, owner: str) -> Log:
        """The stream of this name."""
        return KinesisStream(_client(self), topic)

    def client(self) -> Any:
        """A client of boto3's."""
        return open_service(self, self.kind, self.label)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A record of each stream's first shard was read."""
        return {
            name: {"shardId-000000000000": {"after": "1", "at": 0}} for name in names
        }


@cache
def _client(source: Kinesis) -> Any:
    """The client of a connection: threads share it, and it takes a tenth of a second to
    make."""
    return source.client()


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard: those that it came of, and whether it takes no records any more."""

    parents: tuple[str, ...]
    is_closed: bool


@dataclass(slots=True)
class KinesisStream(Log):
    """One stream. `client` is boto3's, or answers as it does."""

    client: Any
    name: str
    _shards: Mapping[str, _Shard] = field(default_factory=dict)
    _summary: Mapping[str, Any] | None = None
    _described_ms: int = 0
    _tips: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> str:
        """Its name with the time at which it was created."""
        summary = self._describe()
        created: datetime = summary["StreamCreationTimestamp"]
        return f"{summary['StreamARN']}@{int(created.timestamp())}"

    def starts(self, start: Start) -> LogPlaces:
        """The shards whose parents are gone, from the time on: the others begin as
        their parents end."""
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
        """The shards that were read, and the children of those that have ended. A shard
        that has ended and is gone is left out once its children are known."""
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
        """A time: what has arrived before it is read."""
        self._list_shards()
        return {name: {"before": now_ms() + 1} for name in self._shards}

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """What a shard has behind a place."""
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
        """The records behind a place, answer by answer, each with whether the shard
        ends with it, and with the time by which it is behind the newest record.

        There are no more once `limit` records were given, or once nothing more is there
        now.
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
            # the children of an ended one may have had records before
            if is_at_tip and iterator is not None:
                self._tips[partition] = now_ms()
            yield records, iterator is None, behind_ms
            empty = 0 if records else empty + 1
            may_end = self._shards[partition].is_closed and empty <= EMPTY_PAGES
            if is_at_tip and not may_end:
                return

    def is_at_end(self, places: LogPlaces) -> bool:
        """Whether no shard has a record more, has ended, or was last known long ago to
        have nothing new."""
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
        """Whether the stream still keeps what follows a place."""
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
        """What the stream has had before its retention."""
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
        """The place with the time up to which nothing follows it, as far as that is
        known."""
        return (
            {**place, "seen": tip}
            if (tip := self._tips.get(shard)) is not None
            else place
        )

    def _is_old(self, shard: str, place: Mapping[str, Any]) -> bool:
        """Whether it has been known for long that nothing follows a place which says an
        earlier time."""
        return self._tips.get(shard, 0) - _seen_ms(place) > TIP_MS

    def _check_kept(self, shard: str, place: LogPlace) -> None:
        """Raise where what followed a place may have been removed by now: Kinesis would
        read on at its oldest record without a word."""
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
        """How long the stream keeps a record."""
        return int(self._describe()["RetentionPeriodHours"]) * HOUR_MS

    def _there(self, shards: Sequence[str]) -> list[str]:
        return [name for name in shards if name in self._shards]

    def _list_shards(self) -> Mapping[str, _Shard]:
        """The shards that the stream has, and of those that were closed the ones whose
        records it still keeps."""
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
        """The stream, asked for again each hour: its retention may change."""
        with self._lock:
            if self._summary is None or now_ms() - self._described_ms > HOUR_MS:
                answer = self._call("describe_stream_summary", StreamName=self.name)
                self._summary, self._described_ms = (
                    answer["StreamDescriptionSummary"],
                    now_ms(),
                )
            return self._summary

    def _call(self, operation: str, **words: Any) -> Any:
        """Ask Kinesis; where it is asked too often, wait and ask again."""
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
    """Up to where a shard is read: to the record `after`, to the time `before`, or to
    its end. `is_place`: it is where an earlier reader has stood, who had begun at the
    time `first_ms` if it is one."""

    after: str | None = None
    before: int | None = None
    is_place: bool = False
    first_ms: int | None = None

    @classmethod
    def of(cls, until: LogPlace) -> _ShardBound:
        """The bound that a value of `Log.read` means."""
        if until is None:
            return cls()
        if "before" in until:
            return cls(before=until["before"])
        return cls(after=until.get("after"), is_place=True, first_ms=until.get("from"))

    @property
    def beginning(self) -> dict[str, Any]:
        """The place where a shard begins of which nothing was read."""
        return {} if self.first_ms is None else {"from": self.first_ms}

    def is_reached(self, place: LogPlace) -> bool:
        """Whether there is nothing to read behind a place."""
        at = place or {}
        if self.is_place:
            return self.after is None or self.after == at.get("after")
        return (
            self.before is not None
            and "after" in at
            and int(at.get("at", 0)) >= self.before
        )

    def take(self, found: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Those of some records that are not behind it."""
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
    """The place behind some records of a shard that is read from the place `first` on:
    `before`, where there are none. With `is_end` nothing will follow them."""
    reached = _behind(found[-1], first) if found else before
    return {**reached, "ended": True} if is_end else reached


def _behind(record: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """The place behind a record. It keeps the time `from` which its shard is read: a
    batch that is read again may have to begin there."""
    reached = {"after": record["SequenceNumber"], "at": _arrived_ms(record)}
    return {**reached, "from": place["from"]} if "from" in place else reached


def _child_place(parents: Sequence[str], places: LogPlaces) -> LogPlace:
    """Where a shard begins whose parents have ended or are gone: at its first record,
    unless a time is looked for, and no parent had a record since. Nothing was there
    before its parents were last seen to go on."""
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
    """Records of a shard; of one that the producer library has packed, those that are
    in it."""
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
    """The time up to which all that a shard has had is before a place; 0 where nothing
    is known of it."""
    return max(int(place.get(name, 0)) for name in ("at", "seen", "from"))


def _said(place: LogPlace) -> str:
    return (
        f"sequence number {place['after']}"
        if isinstance(place, dict) and "after" in place
        else "its beginning"
    )
