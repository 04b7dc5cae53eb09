"""Logs that a client in Python reads: what a source answers whose topics have
partitions of ordered records.

A kind of log is one file: its options (a class below `LogSource`), and how one of its
topics is read (a class that answers `Log`). Everything else is the same for every log:
batches, their limits and replay, positions, ledger, rewind and rebuild. A project may
have kinds of its own, in `sources/<kind>.py`.
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
"""How far a partition was read: a JSON value that only its log interprets; None is the
beginning. A log that numbers its records uses the number of the next record to read."""

LogPlaces = Mapping[str, LogPlace]
"""The place in each partition, by the partition's name."""


BEHIND_MS = "behindMs"
"""The key in a query's progress report for how many milliseconds it is behind."""


class LogRecord(NamedTuple):
    """A record of a log. `timestamp_us` is in microseconds since the epoch.

    `offset` is its number in the partition, larger for newer records; None if the log
    has no number that fits a bigint.
    """

    value: bytes | None
    timestamp_us: int
    key: bytes | None = None
    partition: int = 0
    offset: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = ""


class LogPage(NamedTuple):
    """Some records of one partition and the place after them, which may have moved even
    without records.

    `behind_ms` is how much older that place is than the partition's newest record; None
    if unknown.
    """

    records: Sequence[LogRecord]
    place: LogPlace
    behind_ms: int | None = None


class LogExpiredError(Exception):
    """What follows a place is, or may be, no longer in the log. The text says what is
    gone and why.

    `follows` is the place at which a reader that accepts the loss continues; None for
    the partition's beginning.
    """

    def __init__(self, why: str, follows: LogPlace = None) -> None:
        super().__init__(why)
        self.follows = follows


class Log(Protocol):
    """A topic as its client reads it. Whoever opens it closes it; several threads may
    read at once."""

    @property
    def id(self) -> str:
        """An id that a later topic of the same name does not have; '' if the log has
        none."""
        return ""

    def starts(self, start: Start) -> LogPlaces:
        """The partitions, each with the place at which a reader begins: the first
        record, the end, or a time."""
        ...

    def partitions(self, places: LogPlaces) -> LogPlaces:
        """The places at which reading continues: those given, and those of partitions
        that are new since."""
        return places

    def ends(self, places: LogPlaces) -> LogPlaces:
        """The present end of each partition: a run that takes what exists reads up to
        these."""
        ...

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """The records after a place, in pages, up to `until` (None for all) and at most
        `limit`.

        Does not wait for new records. Between the same two places it returns the same
        records every time. A page without records means that the place has moved, which
        is worth recording. Raises `LogExpiredError`.
        """
        ...

    def is_at_end(self, places: LogPlaces) -> bool:
        """Whether these places cover all partitions, and nothing is left to read or to
        record."""
        return dict(self.ends(self.partitions(places))) == places

    def check(self, partition: str, place: LogPlace) -> None:
        """Raise `LogExpiredError` if something after a place is, or may be, gone; asked
        before a query begins.

        A log that numbers its records need not implement it.
        """
        return

    def settle(self) -> None:
        """Return once all records sent so far can be read; called by a run that takes
        what exists."""
        return

    def release(self, places: LogPlaces) -> None:
        """Allow the log to drop what lies before these places for this reader: it is in
        the table."""
        return

    def gone(self) -> Sequence[str]:
        """What the topic once had and no longer has, in words, as far as is known."""
        return []

    def close(self) -> None:
        """Close the client."""
        return


@dataclass(frozen=True, slots=True)
class LogSource(Source):
    """A log on one target. A kind declares its options as fields, and opens a topic."""

    kind: ClassVar[str] = ""
    label: ClassVar[str] = "a log"
    reader: ClassVar[str] = "log"
    brings: ClassVar[Brings] = "records"
    looks_up_start: ClassVar[bool] = True
    backlog_unit: ClassVar[BacklogUnit] = "records"

    numbers_records: ClassVar[bool] = True
    """Whether a place is the number of the next record; then losses and the backlog are
    computed from the numbers."""

    tells_ends: ClassVar[bool] = True
    """Whether `Log.is_at_end` can tell if there is something new. If not, only a run's
    reader finds out."""

    tells_ids: ClassVar[bool] = True
    """Whether `Log.id` can differ between a topic and a later one of its name."""

    first_number: ClassVar[int] = 0
    """The number of the first record that a partition ever had."""

    modules: ClassVar[tuple[str, ...]] = ()
    """The Python modules that its client needs."""

    def open(self, topic: str, owner: str) -> Log:
        """The topic for a reader. `owner` is the name of a model's query, the same in
        each run and unique to it; '' for a reader that nothing is retained for.

        Raises `ProfileError` or `ProjectError` if the topic does not exist or the login
        is refused, and `TransientError` if nobody answers.
        """
        raise NotImplementedError

    @property
    def as_log(self) -> LogSource | None:
        """This source."""
        return self

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """The problem of a stream that names its topics by a pattern: a log is not
        asked for the names of its topics."""
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
        """The topics of an origin with their names, each open until the next one is
        asked for. They are opened without an owner."""
        for topic in origin.find_topics(tuple):
            with closing(self.open(topic, "")) as log:
                yield topic, log

    def loaded(self) -> LogSource:
        """This source. A project's own source has to load its code first."""
        return self

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """The state of the streams' topics; empty if the client cannot tell where
        topics end."""
        from lakesql.source.stream_state import FoundTopics

        if not self.can_be_seen():
            return Looked({})
        return Looked(
            {stream.name: FoundTopics(self.state_of(stream)) for stream in streams}
        )

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """What it is, and how many partitions the streams read."""
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
        """The present state of a stream's topics."""
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
        """Whether its client is installed and can tell where a topic ends."""
        return self.tells_ends and all(
            find_spec(module) is not None for module in self.modules
        )

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """The state that `look` has found."""
        return now.found(stream.name)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether the position is at the end of all topics."""
        if not self.can_be_seen() or not isinstance(position, dict):
            return False
        if set(stream.origin.find_topics(tuple)) != position.keys():
            return False
        return all(
            log.is_at_end(position[topic]) for topic, log in self.opened(stream.origin)
        )

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position is places by topic and partition, or None."""
        return position is None or is_places(position)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether there is a position: places alone say what has been read."""
        return isinstance(position, dict)

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        """The position if its places are numbers, else None."""
        return offsets_of(position) if cls.numbers_records else None

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """The position that has one of the stream's topics; `own` if none has."""
        read = [
            each
            for each in (own, *stands)
            if isinstance(each, dict) and each.keys() & state.topics.keys()
        ]
        return read[0] if read else own

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which something of each topic was read."""
        return {name: {"0": 1} for name in names}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        """A state in which the topics exist."""
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
    """The partitions of a position whose topics are not in `topics`, as losses: the
    stream no longer reads them."""
    from lakesql.source.stream_state import Expired

    return {
        (topic, partition): Expired("the stream has other topics now.")
        for topic, places in position.items()
        if topic not in topics
        for partition in places
    }
