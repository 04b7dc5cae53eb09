"""Where the events are that tell of files, as whoever plans batches reads them: places
in partitions, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

Places = Mapping[int, int]
"""The place of the next event, by partition."""


@dataclass(frozen=True, slots=True)
class EventEnds:
    """The first place of each partition that is there, and the one behind the last."""

    first: Places
    last: Places


class Event(NamedTuple):
    """An event, and where it is, in words."""

    where: str
    key: bytes | None
    value: bytes | None


class EventLog(Protocol):
    """A topic, or what was taken from a queue."""

    most_places: ClassVar[int]
    """So many places are read at once, and what their events tell is held in memory."""

    @property
    def name(self) -> str:
        """What it is called in a message, such as `topic lake-events`."""

    @property
    def id(self) -> str:
        """What tells it from others, and from a later one of its name, as far as that
        can be told."""

    def ends(self) -> EventEnds:
        """What can be read now. Raises what asking raises."""

    def arrive(self) -> None:
        """Let what was sent until now be there. Asked before `ends` by who wants all
        that is new."""

    def events(self, start: Places, end: Places) -> Iterator[Event]:
        """The events between places, the same ones whenever they are asked for, but
        those that are gone."""

    def close(self) -> None:
        """Let the connection go."""
