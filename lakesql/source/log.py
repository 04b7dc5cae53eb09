"""Logs that are read by a client in Python: what a source answers whose topics have
partitions of records in an order.

A kind of log is one file: its options (a class below `LogSource`), and how a topic of
it is read (a class that answers `Log`). All else is the same for every log: batches,
their limits and their replay, positions, ledger, rewind, rebuild. A project may have
kinds of its own, in `sources/<kind>.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from lakesql.counts import count
from lakesql.source.origin import Brings
from lakesql.source.source import (
    AskedStream,
    BacklogUnit,
    Looked,
    Now,
    Source,
    Start,
    is_places,
    offsets_of,
)

if TYPE_CHECKING:
    from lakesql.errors import Place, Problem
    from lakesql.source.origin import StreamOrigin
    from lakesql.source.stream_state import Expired, Position, SourceState, StoredFiles

LogPlace = Any
"""Where a partition was read up to: a value of JSON of which only its log knows what it
means; None at the beginning. What has a number for each record gives that of the next
one to read."""

LogPlaces = Mapping[str, LogPlace]
"""By the name of the partition."""


BEHIND_MS = "behindMs"
"""In the report of a query: how many milliseconds it is behind."""


class LogRecord(NamedTuple):
    """A record of a log. `timestamp_us` is in microseconds since the epoch.

    `offset` is its number in the partition, which rises with its age; None where the
    log has none that fits a bigint.
    """

    value: bytes | None
    timestamp_us: int
    key: bytes | None = None
    partition: int = 0
    offset: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = ""


class LogPage(NamedTuple):
    """Some records of one partition, and the place behind them; it may have moved
    without any record.

    `behind_ms` is how much older that place is than the newest record of the partition;
    None where that is not known.
    """

    records: Sequence[LogRecord]
    place: LogPlace
    behind_ms: int | None = None


class LogExpiredError(Exception):
    """Raised where what follows a place is not in the log any more, or may not be. Its
    text says what, and why.

    `follows` is the place from which a reader goes on that does without; None where
    that is the partition's beginning.
    """

    def __init__(self, why: str, follows: LogPlace = None) -> None:
        super().__init__(why)
        self.follows = follows


class Log(Protocol):
    """A topic, as its client reads it. It is closed by whoever has opened it; several
    threads may read at once."""

    @property
    def id(self) -> str:
        """What tells this topic from a later one of the same name; '' where the log
        does not say."""
        return ""

    def starts(self, start: Start) -> LogPlaces:
        """The partitions, each where a reader begins: at its first record, behind its
        last one, or at a time."""
        ...

    def partitions(self, places: LogPlaces) -> LogPlaces:
        """The partitions to read behind these places: the same ones, and those that
        have come since."""
        return places

    def ends(self, places: LogPlaces) -> LogPlaces:
        """Where partitions end now: a run that takes what is there reads up to
        these."""
        ...

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """What is there behind a place, in pages, up to `until` (None for all), and to
        `limit` records at most.

        It waits for nothing. Between the same two places it gives the same records
        whenever it is asked. A page without records says that the place has moved on
        all the same, and is worth noting. Raises `LogExpiredError`.
        """
        ...

    def is_at_end(self, places: LogPlaces) -> bool:
        """Whether these are the places of all partitions, and nothing follows them, nor
        has to be noted."""
        return dict(self.ends(self.partitions(places))) == places

    def check(self, partition: str, place: LogPlace) -> None:
        """Raise `LogExpiredError` where something behind a place is gone, or may be:
        asked before a query begins.

        Nothing need be said where records are numbered.
        """
        return

    def settle(self) -> None:
        """Return once all that was sent until now can be read: asked by a run that
        takes what is there."""
        return

    def release(self, places: LogPlaces) -> None:
        """What lies before these places is in the table, and need not be kept for this
        reader."""
        return

    def gone(self) -> Sequence[str]:
        """What the topic has had once and has no more, in words, as far as that is
        known."""
        return []

    def close(self) -> None:
        """Let the client go."""
        return


@dataclass(frozen=True, slots=True)
class LogSource(Source):
    """A log on one target. A kind says its options as fields, and opens a topic."""

    kind: ClassVar[str] = ""
    label: ClassVar[str] = "a log"
    reader: ClassVar[str] = "log"
    brings: ClassVar[Brings] = "records"
    looks_up_start: ClassVar[bool] = True
    backlog_unit: ClassVar[BacklogUnit] = "records"

    numbers_records: ClassVar[bool] = True
    """Whether a place is the number of the next record. What is gone, and what is
    behind, is told by it then."""

    tells_ends: ClassVar[bool] = True
    """Whether `Log.is_at_end` says whether there is something new. Otherwise only a
    run's reader finds out."""

    tells_ids: ClassVar[bool] = True
    """Whether `Log.id` may tell a topic from a later one of its name."""

    first_number: ClassVar[int] = 0
    """The number of the first record that a partition ever had."""

    modules: ClassVar[tuple[str, ...]] = ()
    """The modules that its client is made of."""

    def open(self, topic: str, owner: str) -> Log:
        """A topic for a reader: `owner` is the same name for each run of a model's
        query, and no other's.

        Raises `ProfileError` or `ProjectError` where it is not there or does not take
        the login, and `TransientError` where nobody answers.
        """
        raise NotImplementedError

    @property
    def as_log(self) -> LogSource | None:
        """It."""
        return self

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """The problem of topics by a pattern: a log is not asked for the names of its
        topics."""
        from lakesql.errors import Problem

        if origin.brings == self.brings and not origin.find_topics(tuple):
            what = f"The stream says '{origin.option}', and {self.label} is read by the names of topics."
            yield Problem(
                "stream-origin",
                what,
                fix="Name them: `topic: orders`, or `topics: [a, b]`.",
                place=place,
            )

    def opened(self, origin: StreamOrigin) -> Iterator[tuple[str, Log]]:
        """The topics that an origin means, by their names, each open until the next one
        is asked for. They are looked at for no reader."""
        for topic in origin.find_topics(tuple):
            with closing(self.open(topic, "")) as log:
                yield topic, log

    def loaded(self) -> LogSource:
        """The source itself, whose code may have to be loaded first."""
        return self

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """Where the topics of the streams end."""
        from lakesql.source.stream_state import FoundTopics

        if not self.can_be_seen():
            return Looked({})
        return Looked(
            {stream.name: FoundTopics(self.state_of(stream)) for stream in streams}
        )

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """What it is, and how many partitions the streams read of it."""
        partitions = 0
        for stream in streams:
            partitions += sum(
                len(log.starts("earliest")) for _, log in self.opened(stream.origin)
            )
        return (
            f"{self.check()} answers, {count(partitions, 'partition')} read"
            if streams
            else self.check()
        )

    def state_of(self, stream: AskedStream) -> SourceState:
        """The topics of a stream as they are now."""
        from lakesql.source.stream_state import SourceState

        ids: dict[str, str] = {}
        beginnings: dict[str, Mapping[int, int]] = {}
        ends: dict[str, Mapping[int, int]] = {}
        for topic, log in self.opened(stream.origin):
            ids[topic] = log.id
            if not self.numbers_records:
                continue
            first = log.starts("earliest")
            beginnings[topic] = {int(name): at for name, at in first.items()}
            ends[topic] = {int(name): at for name, at in log.ends(first).items()}
        return SourceState(stream.name, self.kind, ids, beginnings, ends)

    def can_be_seen(self) -> bool:
        """Whether its client is installed, and tells where a topic ends."""
        return self.tells_ends and all(
            find_spec(module) is not None for module in self.modules
        )

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """What `look` has found."""
        return now.found(stream.name)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether the position is behind all that the topics have."""
        if not self.can_be_seen() or not isinstance(position, dict):
            return False
        if set(stream.origin.find_topics(tuple)) != position.keys():
            return False
        return all(
            log.is_at_end(position[topic]) for topic, log in self.opened(stream.origin)
        )

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether it is places by topic and partition."""
        return position is None or is_places(position)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Places alone say what has been read."""
        return isinstance(position, dict)

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        """The position itself where its places are numbers."""
        return offsets_of(position) if cls.numbers_records else None

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """The position that knows the stream's topics."""
        read = [
            each
            for each in (own, *stands)
            if isinstance(each, dict) and each.keys() & state.topics.keys()
        ]
        return read[0] if read else own

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """Something of each topic was read."""
        return {name: {"0": 1} for name in names}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        """The topics are there."""
        from lakesql.source.stream_state import SourceState

        ids, beginnings = (
            {name: name for name in names},
            {name: {0: 0} for name in names},
        )
        if cls.numbers_records:
            return SourceState(stream, cls.kind, ids, beginnings)
        return SourceState(
            stream, cls.kind, ids, find_expired=partial(find_left, names)
        )


def find_left(
    topics: Collection[str], position: Position
) -> Mapping[tuple[str, str], Expired]:
    """The partitions of a position that are of other topics than these, each with what
    is said of it."""
    from lakesql.source.stream_state import Expired

    return {
        (topic, partition): Expired("the stream has other topics now.")
        for topic, places in position.items()
        if topic not in topics
        for partition in places
    }
