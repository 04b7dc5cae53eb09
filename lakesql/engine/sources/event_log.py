"""Where the events that announce files are read (`EventLog`): at places in partitions,
in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

Places = Mapping[int, int]
"""The place of the next event, by partition."""


@dataclass(frozen=True, slots=True)
class EventEnds:
    """The first existing place of each partition, and the one after the last."""

    first: Places
    last: Places


class Event(NamedTuple):
    """An event, with a text of where it is."""

    where: str
    key: bytes | None
    value: bytes | None


class EventLog(Protocol):
    """A topic with events, or the messages from a queue."""

    most_places: ClassVar[int]
    """How many places are read at once; what their events announce is held in
    memory."""

    @property
    def name(self) -> str:
        """The name for messages, such as `topic lake-events`."""

    @property
    def id(self) -> str:
        """An id that no other topic or queue has, and if possible no later one of the
        same name."""

    def ends(self) -> EventEnds:
        """The places that can be read now. Raises an error if the topic or queue cannot
        be used."""

    def arrive(self) -> None:
        """Make all that was sent until now readable. Called before `ends` to read
        everything new."""

    def events(self, start: Places, end: Places) -> Iterator[Event]:
        """The events between two positions, the same at every call, except those that
        are gone."""

    def close(self) -> None:
        """Close the connection."""
